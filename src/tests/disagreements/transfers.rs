//! Transfers whose ends disagree, or that wait for each other.

use crate::comm::{self, CommHandle, Config, Transfer};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{DataType, Rank};
use std::sync::Barrier;

/// Moves `count` words, or one half of that.
fn half(comm: CommHandle, send: bool, peer: i32, count: usize) -> Result<()> {
    let mut words = vec![7u8; count * size_of::<i32>()];
    let buffer = Address::of_mut(&mut words);
    comm::transfer_now(
        comm,
        &Transfer { send, buffer, count, dtype: DataType::Int32, peer, of_collective: false },
    )
}

/// Two ranks as threads with a deadline.
fn with_deadline(timeout_ms: u64, work: impl Fn(Rank, CommHandle) + Sync) {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let work = &work;
            scope.spawn(move || {
                let config = Config { timeout_ms: Some(timeout_ms), ..Config::default() };
                work(rank, comm::init_rank(2, &id, rank as i32, &config).unwrap());
            });
        }
    });
}

#[test]
fn a_sender_that_has_left_its_call_learns_at_the_end_that_the_receiver_took_another_count() {
    let received = Barrier::new(2);
    with_deadline(20_000, |rank, comm| {
        let told = match rank {
            0 => {
                half(comm, true, 1, 4).unwrap();
                received.wait();
                comm::finalize(comm).unwrap_err()
            }
            _ => {
                let told = half(comm, false, 0, 7).unwrap_err();
                received.wait();
                told
            }
        };
        assert_eq!(told.code, Code::InvalidUsage);
        assert!(told.message.contains("count 7, type int32"), "{told}");
        comm::destroy(comm).unwrap();
    });
}

#[test]
fn two_ranks_that_send_to_each_other_are_told_of_the_group_at_the_deadline() {
    let both = Barrier::new(2);
    with_deadline(300, |rank, comm| {
        let peer = 1 - rank as i32;
        let told = half(comm, true, peer, 1 << 20).unwrap_err();
        both.wait();
        if told.code == Code::Timeout {
            let sent = format!(
                "rank {peer} has sent (count 1048576, type int32) to rank {rank}, which has not received it"
            );
            assert!(told.message.contains(&sent), "{told}");
            assert!(told.message.contains("into one group (pennyGroupStart"), "{told}");
            assert!(!told.message.contains("no call yet"), "{told}");
        }
        comm::abort(comm).unwrap();
    });
}
