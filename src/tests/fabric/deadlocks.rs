//! Ranks that wait for one another in a ring, or for a rank that will not come, are told so at once.

use super::{barrier, half, on_machine, timed};
use crate::comm::CommHandle;
use crate::comm::{self, Grouping};
use crate::error::{Code, Error};
use crate::types::{Collective, Rank};
use std::sync::Mutex;

/// Every rank that fails does so with one sentence, which has these parts.
fn told(n: u32, parts: &[&str], work: impl Fn(Rank, CommHandle) -> Option<Error> + Sync) {
    let errors = Mutex::new(Vec::new());
    on_machine(n, "dgx-h100", "virtual", "", |rank, comm| {
        let ended = work(rank, comm);
        errors.lock().unwrap().extend(ended);
    });
    let errors = errors.into_inner().unwrap();
    assert!(!errors.is_empty());
    for error in errors {
        assert_eq!(error.code, Code::InvalidUsage, "{error}");
        for part in ["deadlock"].iter().chain(parts) {
            assert!(error.message.contains(part), "`{part}` is not in: {error}");
        }
    }
}

#[test]
fn a_missing_receive_names_both_ranks() {
    let parts =
        ["rank 0 in a send to rank 1 waits for rank 1", "rank 1 in barrier (call #1) waits for rank 0"];
    told(2, &parts, |rank, comm| {
        let ended = match rank {
            0 => comm::transfer(comm, &half(true, &mut [7], 1), None),
            _ => barrier(comm),
        };
        assert!(barrier(comm).is_err(), "nothing can end on this machine any more");
        ended.err()
    });
}

#[test]
fn sends_that_cross_without_a_group() {
    let parts =
        ["rank 0 in a send to rank 1 waits for rank 1", "rank 1 in a send to rank 0 waits for rank 0"];
    told(2, &parts, |rank, comm| comm::transfer(comm, &half(true, &mut [rank], 1 - rank), None).err());
}

#[test]
fn three_ranks_that_receive_in_a_ring() {
    let parts = [
        "rank 0 in a receive from rank 1 waits for rank 1",
        "rank 1 in a receive from rank 2 waits for rank 2",
        "rank 2 in a receive from rank 0 waits for rank 0",
    ];
    told(3, &parts, |rank, comm| comm::transfer(comm, &half(false, &mut [0], (rank + 1) % 3), None).err());
}

#[test]
fn a_call_that_one_rank_leaves_out() {
    told(3, &["in barrier (call #2) waits for rank 2", "rank 2 in a receive from rank 0"], |rank, comm| {
        barrier(comm).unwrap();
        match rank {
            2 => comm::transfer(comm, &half(false, &mut [0], 0), None).err(),
            // The others do not need its bytes, but its being there.
            _ => barrier(comm).err(),
        }
    });
}

#[test]
fn calls_of_a_child_and_of_its_parent_in_unlike_order() {
    told(2, &["of a sub-communicator", "waits for rank"], |rank, comm| {
        let child = comm::group(comm, Grouping::All, 0).unwrap();
        let ended = if rank == 0 { barrier(comm) } else { barrier(child) };
        comm::destroy(child).unwrap();
        ended.err()
    });
}

#[test]
fn a_rank_that_has_left_is_named() {
    let errors = Mutex::new(Vec::new());
    let both_were_told = std::sync::Barrier::new(2);
    on_machine(3, "dgx-h100", "virtual", "", |rank, comm| {
        let pair = comm::split(comm, (rank < 2).then_some(0), 0, None).unwrap();
        if let Some(pair) = pair {
            // Rank 2 goes at once. Rank 0 waits for rank 1, and rank 1 in the parent for all.
            let ended = if rank == 0 { barrier(pair) } else { barrier(comm) };
            errors.lock().unwrap().push(ended.unwrap_err().message.clone());
            // Else rank 0 may hear that rank 1 has destroyed the pair.
            both_were_told.wait();
            comm::destroy(pair).unwrap();
        }
    });
    let errors = errors.into_inner().unwrap();
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|e| e.contains("rank 2")), "{errors:?}");
}

#[test]
fn ranks_that_disagree_are_told_as_ever_and_the_next_call_works() {
    on_machine(3, "dgx-h100", "virtual", "", |rank, comm| {
        let before = comm::fabric_now(comm).unwrap();
        let (mut send, mut recv) = (vec![0u32; 4], vec![0u32; 4]);
        let call = comm::Call {
            collective: Collective::AllReduce,
            send: super::address(&mut send),
            recv: super::address(&mut recv),
            count: 3 + (rank == 1) as usize,
            dtype: crate::types::DataType::Uint32,
            op: crate::types::RedOp::Sum,
            root: 0,
            padded: false,
        };
        let error = comm::collective(comm, &call, None).unwrap_err();
        assert_eq!(error.code, Code::InvalidUsage, "{error}");
        assert!(error.message.contains("ranks disagree in call #1"), "{error}");
        timed(rank, 3, comm, Collective::AllReduce, 5);
        assert!(comm::fabric_now(comm).unwrap() > before);
        let call = comm::Call { collective: Collective::Broadcast, root: rank as i32, count: 3, ..call };
        let _ = comm::collective(comm, &call, None);
        barrier(comm).unwrap_or_else(|error| assert!(error.message.contains("disagree"), "{error}"));
        timed(rank, 3, comm, Collective::AllReduce, 5);
    });
}
