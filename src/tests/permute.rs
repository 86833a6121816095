//! Permutations: each block arrives where the table says, and tables that cannot be are refused.

use super::collectives::on_ranks;
use crate::comm::{self, CommHandle, Permute, Transfer};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{DataType, Rank};
use std::sync::Barrier;

const SENTINEL: u32 = 0xa5a5_a5a5;

fn at(words: &mut [u32]) -> Address<'static> {
    #[allow(unsafe_code)]
    // SAFETY: every caller keeps the words until its call has returned.
    unsafe {
        Address::from_raw(words.as_mut_ptr().cast())
    }
}

/// Element `i` of what rank `r` sends.
fn value(r: Rank, i: usize) -> u32 {
    r * 1_000_003 + i as u32 + 1
}

/// What rank `me` has after the permutation.
fn permuted(comm: CommHandle, me: Rank, count: usize, perm: &[i32]) -> Result<Vec<u32>> {
    let mut send: Vec<u32> = (0..count).map(|i| value(me, i)).collect();
    let mut recv = vec![SENTINEL; count];
    let (send, to) = (at(&mut send), at(&mut recv));
    comm::permute(
        comm,
        Permute { send, recv: to, count, dtype: DataType::Uint32, perm: perm.to_vec() },
        None,
    )?;
    Ok(recv)
}

/// Returns every table of receivers of `n` ranks in which no rank stands twice.
fn tables(n: usize) -> Vec<Vec<i32>> {
    let mut tables = vec![vec![]];
    for _ in 0..n {
        let longer = tables.iter().flat_map(|table: &Vec<i32>| {
            let free = (-1..n as i32).filter(move |to| *to == -1 || !table.contains(to));
            free.map(move |to| [&table[..], &[to]].concat())
        });
        tables = longer.collect();
    }
    tables
}

#[track_caller]
fn holds(comm: CommHandle, me: Rank, count: usize, perm: &[i32]) {
    let got = permuted(comm, me, count, perm).unwrap();
    let from = perm.iter().position(|&to| to == me as i32);
    for (i, &word) in got.iter().enumerate() {
        assert_eq!(word, from.map_or(0, |from| value(from as Rank, i)), "{perm:?}, rank {me}, element {i}");
    }
}

#[test]
fn a_right_permute_turns_the_shards_of_the_pallas_guide_by_one() {
    // 512 elements in shards of 128 over 4 devices, perm (n, (n + 1) % 4): the guide prints the first of each shard.
    let input = [0.985_895_4_f32, 0.117_639_06, 0.995_557_4, 0.775_211];
    let result = [0.775_211_f32, 0.985_895_4, 0.117_639_06, 0.995_557_4];
    on_ranks(4, |me, comm| {
        let mut shard = [input[me as usize].to_bits(); 8 * 128];
        let mut out = [SENTINEL; 8 * 128];
        let (send, recv) = (at(&mut shard), at(&mut out));
        let perm = vec![1, 2, 3, 0];
        comm::permute(comm, Permute { send, recv, count: 8 * 128, dtype: DataType::Float32, perm }, None)
            .unwrap();
        assert_eq!(out, [result[me as usize].to_bits(); 8 * 128]);
    });
}

#[test]
fn every_table_of_up_to_three_ranks_does_what_it_says() {
    for n in 1..=3 {
        let tables = tables(n as usize);
        assert_eq!(tables.len(), [2, 7, 34][n as usize - 1]);
        on_ranks(n, |me, comm| tables.iter().for_each(|perm| holds(comm, me, 5, perm)));
    }
}

#[test]
fn seven_ranks_permute_blocks_of_every_size() {
    let tables: [[i32; 7]; 4] =
        [[1, 2, 3, 4, 5, 6, 0], [6, 5, 4, 3, 2, 1, 0], [-1, 0, -1, 3, 6, -1, 5], [0, 1, 2, 3, 4, 5, 6]];
    on_ranks(7, |me, comm| {
        for count in [1, 100, 8191, 8192, 8193, 100_000] {
            tables.iter().for_each(|perm| holds(comm, me, count, perm));
        }
    });
}

#[test]
fn shared_memory_is_permuted_where_it_lies() {
    on_ranks(3, |me, comm| {
        let count = 50_000;
        let (send, recv) = (comm::mem_alloc(count * 4).unwrap(), comm::mem_alloc(count * 4).unwrap());
        #[allow(unsafe_code)]
        // SAFETY: two buffers of this size, used by this rank alone between calls.
        let (input, output) = unsafe {
            (
                std::slice::from_raw_parts_mut(send as *mut u32, count),
                std::slice::from_raw_parts_mut(recv as *mut u32, count),
            )
        };
        for round in 0..20 {
            let next = |r: Rank| (r + 1 + round % 2) % 3;
            (0..count).for_each(|i| input[i] = value(me, i) ^ round);
            let perm = (0..3).map(|r| next(r) as i32).collect();
            let (send, recv) = (at(input), at(output));
            comm::permute(comm, Permute { send, recv, count, dtype: DataType::Uint32, perm }, None).unwrap();
            let from = (0..3).find(|&r| next(r) == me).unwrap();
            assert!((0..count).all(|i| output[i] == value(from, i) ^ round), "round {round}");
        }
        comm::mem_free(send).unwrap();
        comm::mem_free(recv).unwrap();
    });
}

#[test]
fn tables_that_cannot_be_are_refused_with_both_ranks_or_the_entry() {
    on_ranks(3, |me, comm| {
        for (perm, told) in [
            (&[1, 2, 1][..], "perm[0] and perm[2] are both 1"),
            (&[0, 3, -1], "perm[1] is 3; it is a rank in 0..3"),
            (&[0, -2, -1], "perm[1] is -2"),
            (&[0, 1], "perm has 2 entries, and comm 3 ranks"),
        ] {
            let e = permuted(comm, me, 4, perm).unwrap_err();
            assert!(e.code == Code::InvalidArgument && e.message.contains(told), "{e}");
        }
        assert!(permuted(comm, me, 0, &[1, 1, 1]).is_err(), "arguments are checked without elements too");
        assert_eq!(permuted(comm, me, 0, &[1, 2, 0]), Ok(vec![]));
        let none = Permute {
            send: Address::NULL,
            recv: Address::NULL,
            count: usize::MAX,
            dtype: DataType::Int64,
            perm: vec![0, 1, 2],
        };
        assert!(comm::permute(comm, none, None).unwrap_err().message.contains("more than memory can hold"));
        holds(comm, me, 4, &[1, 2, 0]);
    });
}

#[test]
fn tables_that_differ_are_found_before_anything_is_moved() {
    on_ranks(4, |me, comm| {
        // Rank 2 alone turns the other way; what it says of itself differs. Then ranks 0 and 1 agree on what 2 and 3 do not.
        for (mine, told) in [
            (if me == 2 { [3, 0, 1, 2] } else { [1, 2, 3, 0] }, "rank 2"),
            (if me < 2 { [1, 0, -1, -1] } else { [1, 0, 3, 2] }, "are not the same: perm[2] is"),
        ] {
            let mut recv = [SENTINEL; 3];
            let mut send = [me; 3];
            let (from, to) = (at(&mut send), at(&mut recv));
            let permute =
                Permute { send: from, recv: to, count: 3, dtype: DataType::Uint32, perm: mine.to_vec() };
            let e = comm::permute(comm, permute, None).unwrap_err();
            assert!(e.code == Code::InvalidUsage, "{e}");
            if told.starts_with("rank") && me != 2 {
                assert!(e.message.contains(&format!("perm of rank {me} and of {told}")), "{e}");
            } else if !told.starts_with("rank") && me < 2 {
                assert!(e.message.contains("perm[2] is -1 here and 3 on rank 2"), "{e}");
            }
            assert_eq!(recv, [SENTINEL; 3]);
        }
        let count = if me == 1 { 5 } else { 6 };
        let e = permuted(comm, me, count, &[1, 2, 3, 0]).unwrap_err().message.clone();
        assert!(e.contains("(count 5, type uint32)") && e.contains("(count 6, type uint32)"), "{e}");
        holds(comm, me, 6, &[3, 2, 1, 0]);
    });
}

#[test]
fn in_place_is_refused_save_to_oneself_or_where_nothing_is_sent() {
    on_ranks(2, |me, comm| {
        let mut words: Vec<u32> = (0..8).map(|i| value(me, i)).collect();
        let mut call = |offset: usize, perm: &[i32]| {
            let (send, recv) = (at(&mut words), at(&mut words[offset..]));
            let permute = Permute { send, recv, count: 4, dtype: DataType::Uint32, perm: perm.to_vec() };
            comm::permute(comm, permute, None).map(|()| words.clone())
        };
        for (offset, perm) in [(0, [1, 0]), (3, [1, 0]), (3, [0, 1])] {
            let e = call(offset, &perm).unwrap_err();
            assert!(e.code == Code::InvalidArgument && e.message.contains("overlap"), "{e}");
        }
        let before: Vec<u32> = (0..8).map(|i| value(me, i)).collect();
        assert_eq!(call(0, &[0, 1]).unwrap(), before, "to oneself");
        assert_eq!(call(0, &[-1, -1]).unwrap(), [&[0; 4], &before[4..]].concat(), "nobody sends");
    });
}

#[test]
fn permutations_of_a_group_run_in_their_order_after_its_transfers() {
    on_ranks(3, |me, comm| {
        let (next, previous) = ((me as i32 + 1) % 3, (me as i32 + 2) % 3);
        let (mut a, mut b, mut c, mut d) = ([me; 10], [SENTINEL; 10], [SENTINEL; 10], [SENTINEL; 10]);
        comm::group_start().unwrap();
        let right = vec![1, 2, 0];
        let permute = |send, recv| {
            comm::permute(
                comm,
                Permute { send, recv, count: 10, dtype: DataType::Uint32, perm: right.clone() },
                None,
            )
        };
        permute(at(&mut a), at(&mut b)).unwrap();
        permute(at(&mut b), at(&mut c)).unwrap();
        for (send, buffer, peer) in [(true, at(&mut a), next), (false, at(&mut d), previous)] {
            let half =
                Transfer { send, buffer, count: 10, dtype: DataType::Uint32, peer, of_collective: false };
            comm::transfer(comm, &half, None).unwrap();
        }
        comm::group_end().unwrap();
        assert_eq!((b, c, d), ([previous as u32; 10], [next as u32; 10], [previous as u32; 10]));
    });
}

#[test]
fn a_send_that_is_still_to_be_received_is_not_taken_for_a_part_of_a_permutation() {
    let refused = Barrier::new(2);
    on_ranks(2, |me, comm| {
        let mut words = [me + 40; 4];
        let half = |send, buffer, peer| Transfer {
            send,
            buffer,
            count: 4,
            dtype: DataType::Uint32,
            peer,
            of_collective: false,
        };
        if me == 0 {
            comm::transfer(comm, &half(true, at(&mut words), 1), None).unwrap();
        }
        let ended = permuted(comm, me, 4, &[1, 0]);
        refused.wait();
        // The sender is told by the permutation, or when it ends the communicator.
        let told = if me == 1 { ended.map(drop) } else { ended.and_then(|_| comm::finalize(comm)) };
        let e = told.unwrap_err();
        assert!(e.code == Code::InvalidUsage && e.message.contains("of a collective"), "{e}");
    });
}
