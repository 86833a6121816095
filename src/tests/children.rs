//! Communicators made from others: who is in them, in which order, and what becomes of them if something fails.

use super::collectives::on_ranks;
use crate::comm::{self, Call, CommHandle, Config, Grouping};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};

/// What the ranks of a communicator put in, in rank order.
#[allow(unsafe_code)]
fn gather(comm: CommHandle, mine: u32) -> Result<Vec<u32>> {
    let mut all = vec![u32::MAX; comm::count(comm)? as usize];
    // SAFETY: both outlive the call, and have the extent that it implies.
    let (send, recv) =
        unsafe { (Address::from_raw((&raw const mine).cast()), Address::from_raw(all.as_mut_ptr().cast())) };
    let (dtype, op) = (DataType::Uint32, RedOp::Sum);
    let call =
        Call { collective: Collective::AllGather, send, recv, count: 1, dtype, op, root: 0, padded: false };
    comm::collective(comm, &call, None)?;
    Ok(all)
}

/// The child has these members, knows it, and works.
#[track_caller]
fn holds(child: CommHandle, me: Rank, members: &[Rank]) {
    let place = members.iter().position(|&r| r == me).expect("a member");
    assert_eq!(comm::parent_ranks(child).unwrap().as_deref(), Some(members));
    assert_eq!(comm::user_rank(child).unwrap() as usize, place);
    assert_eq!(gather(child, me).unwrap(), members);
}

#[test]
fn groups_of_four_of_sixteen_ranks_are_those_of_the_published_tables() {
    // The tables of the GCL user guide, 3.2.
    on_ranks(16, |me, comm| {
        let all: Vec<Rank> = (0..16).collect();
        let consecutive: Vec<Rank> = (0..4).map(|i| me / 4 * 4 + i).collect();
        let orthogonal: Vec<Rank> = (0..4).map(|i| me % 4 + 4 * i).collect();
        for (kind, size, members) in [
            (Grouping::All, 0, &all),
            (Grouping::All, 16, &all),
            (Grouping::Consecutive, 4, &consecutive),
            (Grouping::Orthogonal, 4, &orthogonal),
        ] {
            let child = comm::group(comm, kind, size).unwrap();
            holds(child, me, members);
            comm::destroy(child).unwrap();
        }
        assert_eq!(gather(comm, me).unwrap(), all);
    });
}

#[test]
fn groups_of_every_size_that_divides_and_of_no_other() {
    for n in [1, 2, 3, 6] {
        on_ranks(n, |me, comm| {
            assert_eq!(comm::parent_ranks(comm).unwrap(), None);
            for size in -1..=n as i32 + 1 {
                for kind in [Grouping::Consecutive, Grouping::Orthogonal] {
                    let made = comm::group(comm, kind, size);
                    if size >= 1 && n as i32 % size == 0 {
                        let child = made.unwrap();
                        assert_eq!(comm::count(child).unwrap() as i32, size);
                        assert!(gather(child, me).unwrap().contains(&me));
                        comm::destroy(child).unwrap();
                    } else {
                        let e = made.unwrap_err();
                        assert_eq!(e.code, Code::InvalidArgument);
                        let both = [format!("size is {size}"), format!("{n} ranks")];
                        assert!(both.iter().all(|part| e.message.contains(part)), "{e}");
                    }
                }
            }
            assert_eq!(
                comm::group(comm, Grouping::All, n as i32 + 1).unwrap_err().code,
                Code::InvalidArgument
            );
        });
    }
}

#[test]
fn ranks_that_ask_for_different_groups_are_all_told_of_both() {
    on_ranks(4, |me, comm| {
        let made = match me {
            3 => comm::group(comm, Grouping::Orthogonal, 4).map(Some),
            _ => comm::group(comm, Grouping::Consecutive, 2).map(Some),
        };
        let e = made.unwrap_err();
        assert_eq!(e.code, Code::InvalidUsage);
        let told = "rank 0 asks for consecutive groups of 2, rank 3 for orthogonal groups of 4";
        assert!(e.message.contains(told), "{e}");
        // Another call altogether is a disagreement like any other.
        let e = match me {
            1 => gather(comm, me).map(drop),
            _ => comm::split(comm, None, 0, None).map(drop),
        };
        assert_eq!(e.unwrap_err().code, Code::InvalidUsage);
        assert_eq!(gather(comm, me).unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn a_split_orders_by_key_then_rank_and_leaves_out_whom_no_colour_has() {
    on_ranks(6, |me, comm| {
        // Even ranks backwards; 1 and 5 as they are; 3 not at all.
        let colour = match me {
            3 => None,
            _ if me % 2 == 0 => Some(-7),
            _ => Some(i32::MAX),
        };
        let key = if me % 2 == 0 { -(me as i32) } else { 9 };
        let child = comm::split(comm, colour, key, None).unwrap();
        assert_eq!(child.is_none(), me == 3);
        if let Some(child) = child {
            let members: &[Rank] = if me % 2 == 0 { &[4, 2, 0] } else { &[1, 5] };
            holds(child, me, members);
            comm::destroy(child).unwrap();
        }
    });
}

#[test]
fn children_have_children_and_outlive_their_parents() {
    on_ranks(8, |me, comm| {
        let row = comm::group(comm, Grouping::Consecutive, 4).unwrap();
        let pair = comm::group(row, Grouping::Orthogonal, 2).unwrap();
        let in_row = me % 4 % 2;
        assert_eq!(comm::parent_ranks(pair).unwrap(), Some(vec![in_row, in_row + 2]));
        comm::destroy(row).unwrap();
        let first = me / 4 * 4 + in_row;
        assert_eq!(gather(pair, me).unwrap(), [first, first + 2]);
        comm::destroy(pair).unwrap();
    });
}

#[test]
fn one_thread_makes_the_children_of_several_ranks_in_one_group() {
    let ranks = comm::init_all(4).unwrap();
    comm::group_start().unwrap();
    let children: Vec<[Option<CommHandle>; 2]> = ranks
        .iter()
        .enumerate()
        .map(|(r, &comm)| {
            let pair = comm::group(comm, Grouping::Consecutive, 2).unwrap();
            [Some(pair), comm::split(comm, (r != 2).then_some(5), 0, None).unwrap()]
        })
        .collect();
    assert!(comm::count(children[0][0].unwrap()).is_err(), "it is valid at the end of the group only");
    comm::group_end().unwrap();
    for (r, [pair, rest]) in (0..).zip(&children) {
        assert_eq!(comm::parent_ranks(pair.unwrap()).unwrap(), Some(vec![r / 2 * 2, r / 2 * 2 + 1]));
        let members = rest.map(|rest| comm::parent_ranks(rest).unwrap());
        assert_eq!(members, (r != 2).then_some(Some(vec![0, 1, 3])));
    }
    for handle in children.into_iter().flatten().flatten().chain(ranks) {
        comm::destroy(handle).unwrap();
    }
}

#[test]
fn a_bad_size_in_a_group_makes_nothing_of_it() {
    let ranks = comm::init_all(2).unwrap();
    comm::group_start().unwrap();
    for &comm in &ranks {
        comm::group(comm, Grouping::Consecutive, 1).unwrap();
        assert_eq!(comm::group(comm, Grouping::Consecutive, 3).unwrap_err().code, Code::InvalidArgument);
    }
    assert_eq!(comm::group_end().unwrap_err().code, Code::InvalidArgument);
    ranks.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn a_rank_that_aborts_instead_of_calling_fails_the_others_at_once() {
    let ranks = comm::init_all(3).unwrap();
    std::thread::scope(|scope| {
        for &comm in &ranks[..2] {
            scope.spawn(move || {
                let e = comm::group(comm, Grouping::All, 0).unwrap_err();
                assert_eq!(e.code, Code::RemoteError, "{e}");
                assert!(e.message.contains("rank 2"), "{e}");
                comm::destroy(comm).unwrap();
            });
        }
        comm::abort(ranks[2]).unwrap();
    });
}

#[test]
fn a_child_takes_its_parents_deadline_unless_it_is_given_one() {
    let config = Config { timeout_ms: Some(200), ..Config::default() };
    on_ranks(2, |me, comm| {
        let impatient = comm::split(comm, Some(0), 0, Some(config.clone())).unwrap().unwrap();
        let heir = comm::group(impatient, Grouping::All, 2).unwrap();
        // Rank 1 never calls; the deadline of the default would be longer than any test.
        if me == 0 {
            let e = gather(heir, me).unwrap_err();
            assert_eq!(e.code, Code::Timeout, "{e}");
            assert!(e.message.contains("within 0.2 s"), "{e}");
        }
        gather(comm, me).unwrap();
        comm::destroy(heir).unwrap();
        comm::destroy(impatient).unwrap();
    });
}
