//! A rank's clock as its program sees it.

use super::{barrier, half, on_machine, timed};
use crate::comm;
use crate::error::Code;
use crate::types::Collective;

#[test]
fn a_loop_that_waits_for_a_time_ends() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        if rank == 0 {
            let until = comm::fabric_now(comm).unwrap() + 100_000_000;
            let mut looks = 0;
            while comm::fabric_now(comm).unwrap() < until {
                looks += 1;
            }
            assert!((100..300).contains(&looks), "{looks} looks for 100 us");
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn clocks_that_are_only_asked_stand_still() {
    on_machine(1, "dgx-h100", "virtual", "", |_, comm| {
        for _ in 0..10 {
            assert_eq!(comm::fabric_now(comm).unwrap(), 0);
        }
        assert_eq!(comm::fabric_advance(comm, 5).unwrap(), 5);
        assert_eq!(comm::fabric_advance_to(comm, 3).unwrap(), 5);
        assert_eq!(comm::fabric_now(comm).unwrap(), 5);
    });
}

#[test]
fn a_clock_stands_at_its_end_and_says_so() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        assert_eq!(comm::fabric_advance(comm, 0).unwrap(), 0);
        assert_eq!(comm::fabric_advance(comm, 7).unwrap(), 7);
        let error = comm::fabric_advance(comm, u64::MAX).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("2^64"), "{error}");
        assert_eq!(comm::fabric_now(comm).unwrap(), 7);
        timed(rank, 2, comm, Collective::AllReduce, 3);
        assert_eq!(comm::fabric_advance_to(comm, u64::MAX).unwrap(), u64::MAX);
        for _ in 0..40 {
            assert_eq!(comm::fabric_now(comm).unwrap(), u64::MAX);
        }
        let peer = 1 - rank;
        let ended = comm::transfer(comm, &half(rank == 0, &mut [3], peer), None);
        let error = ended.unwrap_err();
        assert!(!error.message.contains("panicked"), "{error}");
        assert!(barrier(comm).is_err());
    });
}
