//! Communicators that some ranks of a declared machine make by themselves: of a revoked one, and without ranks that do not take part.

use std::sync::Barrier;

use super::{on_machine, timed};
use crate::comm;
use crate::error::Code;
use crate::types::Collective;

#[test]
fn a_shrunk_communicator_takes_the_time_of_a_split_one() {
    on_machine(4, "dgx-h100", "virtual", "ring", |rank, comm| {
        let split = comm::split(comm, Some(i32::from(rank == 2)), rank as i32, None).unwrap().unwrap();
        if rank == 2 {
            comm::destroy(split).unwrap();
            return;
        }
        let mine = if rank == 3 { 2 } else { rank };
        // From the second call on all begin as they ended the one before.
        let times = [0; 4].map(|_| timed(mine, 3, split, Collective::AllReduce, 6144));
        let wanted = times[3];
        let before = comm::fabric_now(comm).unwrap();
        for _ in 0..3 {
            let shrunk = comm::shrink(comm, &[2], false, None).unwrap();
            assert_eq!(comm::count(shrunk).unwrap(), 3);
            for _ in 0..2 {
                assert_eq!(timed(mine, 3, shrunk, Collective::AllReduce, 6144), wanted);
            }
            comm::destroy(shrunk).unwrap();
        }
        assert_eq!(comm::fabric_now(comm).unwrap(), before + 6 * wanted);
        comm::destroy(split).unwrap();
    });
}

#[test]
fn the_time_goes_on_after_a_revocation_though_ranks_had_made_unlike_numbers_of_calls() {
    // A rank whose call has ended may revoke before the others' calls have.
    let gathered = Barrier::new(3);
    on_machine(3, "dgx-h100", "virtual", "ring", |rank, comm| {
        let first = timed(rank, 3, comm, Collective::AllGather, 700);
        gathered.wait();
        if rank == 0 {
            comm::revoke(comm).unwrap();
        } else {
            // Rank 0 makes none of these.
            let mut data = [0u32; 3];
            let call = super::call(Collective::AllReduce, &mut data);
            let error = comm::collective(comm, &call, None).unwrap_err();
            assert_eq!(error.code, Code::RemoteError, "{error}");
            let _ = comm::revoke(comm);
        }
        let all = comm::shrink(comm, &[], false, None).unwrap();
        assert_eq!(timed(rank, 3, all, Collective::AllGather, 700), first);
        let pair = comm::split(comm, Some(i32::from(rank == 1)), rank as i32, None).unwrap().unwrap();
        assert_eq!(comm::count(pair).unwrap(), if rank == 1 { 1 } else { 2 });
        if rank != 1 {
            assert!(timed(rank / 2, 2, pair, Collective::AllGather, 700) > 0);
        }
        comm::destroy(pair).unwrap();
        comm::destroy(all).unwrap();
    });
}
