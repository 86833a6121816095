//! The symmetric heap's books stay the same on all ranks, whatever went wrong before.

use super::collectives::{everywhere, everywhere_with_children};
use crate::comm::{self, Call, CommHandle};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::onesided::Comparison;
use crate::types::{Collective, DataType, RedOp};
use std::time::Duration;

#[allow(unsafe_code)]
fn call(comm: CommHandle, collective: Collective, buffer: &mut [u32]) -> Result<()> {
    // SAFETY: the buffer outlives the call.
    let at = unsafe { Address::from_raw(buffer.as_mut_ptr().cast()) };
    let (dtype, op) = (DataType::Uint32, RedOp::Sum);
    let count = buffer.len();
    comm::collective(
        comm,
        &Call { collective, send: at, recv: at, count, dtype, op, root: 0, padded: false },
        None,
    )
}

#[test]
fn a_disagreement_that_one_rank_has_not_heard_of_divides_no_exchange() {
    everywhere(2, |rank, comm| {
        for round in 0..20 {
            // The root leaves before the other finds that they disagree, unless it is held up.
            let ended = call(comm, Collective::Broadcast, &mut [7; 2][..1 + rank as usize]);
            assert!(ended.is_err() || rank == 0, "{ended:?}");
            if round == 0 {
                comm::shmem_init(comm).unwrap();
            }
            let a = comm::shmem_alloc(comm, 100 + round, 64, false).unwrap();
            let b = comm::shmem_alloc(comm, 5000, 64, true).unwrap();
            comm::shmem_free(comm, a).unwrap();
            comm::shmem_free(comm, b).unwrap();
            // The root hears of it at its next call, which is carried out.
            let next = call(comm, Collective::Barrier, &mut []);
            if rank == 1 || ended.is_err() {
                next.unwrap();
            } else {
                let e = next.unwrap_err();
                assert!(e.code == Code::InvalidUsage && e.message.contains("disagree"), "{e}");
            }
            call(comm, Collective::Barrier, &mut []).unwrap();
        }
        let (books, _) = comm::shmem_stats(comm).unwrap();
        assert_eq!((books.used, books.live_blocks, books.frees), (0, 0, 40));
    });
}

#[test]
#[allow(unsafe_code)]
fn a_thread_that_waits_in_the_heap_is_told_that_its_communicator_ends() {
    everywhere_with_children(2, |rank, comm| {
        comm::shmem_init(comm).unwrap();
        let word = comm::shmem_alloc(comm, 8, 64, true).unwrap();
        let child = comm::split(comm, Some(0), 0, None).unwrap().unwrap();
        comm::shmem_init(child).unwrap();
        let other = comm::shmem_alloc(child, 8, 64, true).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                // SAFETY: symmetric memory.
                let at = unsafe { Address::from_raw(other as *const u8) };
                comm::shmem(child, |heap| heap.await_signal(at, Comparison::Eq, 1))
            });
            std::thread::sleep(Duration::from_millis(20 + rank as u64));
            call(comm, Collective::Barrier, &mut []).unwrap();
            comm::destroy(child).unwrap();
            assert!(waiter.join().unwrap().is_err());
        });
        comm::shmem_free(comm, word).unwrap();
    });
}
