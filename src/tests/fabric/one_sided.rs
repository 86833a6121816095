//! Stores to other ranks' memory on a declared machine: when they arrive, in which order they are seen, and what becomes
//! of a wait for one that nobody makes.

use super::{barrier, on_machine, shift};
use crate::comm::{self, CommHandle, Transfer};
use crate::error::Code;
use crate::memory::view::Address;
use crate::onesided::semaphore::SemaphoreUnit;
use crate::onesided::{Comparison, SignalOp, SymmetricMemory};
use crate::types::{DataType, Rank};
use std::sync::Mutex;
use std::time::Duration;

#[allow(unsafe_code)]
fn at(addr: usize) -> Address<'static> {
    // SAFETY: symmetric memory that the test keeps, or a buffer that outlives the call.
    unsafe { Address::from_raw(addr as *const u8) }
}

/// What one message to a rank, or from it, takes on the idle machine.
pub(super) fn price(comm: CommHandle, send: bool, peer: Rank, bytes: usize) -> u64 {
    let mut buffer = vec![0u8; bytes];
    let buffer = at(buffer.as_mut_ptr() as usize);
    let (dtype, peer) = (DataType::Uint8, peer as i32);
    comm::group_start().unwrap();
    comm::transfer(comm, &Transfer { send, buffer, count: bytes, dtype, peer, of_collective: false }, None)
        .unwrap();
    comm::group_simulate_end().unwrap()
}

/// Allocates `bytes` zeroed bytes of symmetric memory, in a heap that is made for them.
fn memory(comm: CommHandle, bytes: usize) -> usize {
    comm::shmem_init(comm).unwrap();
    let memory = comm::shmem_alloc(comm, bytes, 64, true).unwrap();
    comm::shmem_barrier(comm, true).unwrap();
    memory
}

fn put_signal(
    heap: &SymmetricMemory,
    memory: usize,
    bytes: usize,
    value: u64,
    pe: Rank,
) -> crate::error::Result<()> {
    let source = vec![7u8; bytes];
    let from = at(source.as_ptr() as usize);
    heap.put_signal(at(memory + 64), from, bytes, at(memory), value, SignalOp::Set, pe as i32)
}

#[test]
fn a_put_and_who_waits_for_it_take_what_the_engine_says() {
    for bytes in [0, 8, 4096, 100_000] {
        // Neighbours by NVLink, and one NIC and a switch away.
        for to in [1, 8] {
            let times = Mutex::new(Vec::new());
            on_machine(16, "dgx-h100:nodes=2", "virtual", "", |rank, comm| {
                let memory = memory(comm, 64 + 100_000);
                let before = comm::fabric_now(comm).unwrap();
                if rank == 0 {
                    comm::shmem(comm, |heap| put_signal(heap, memory, bytes, 1, to)).unwrap();
                } else if rank == to {
                    let seen = comm::shmem(comm, |heap| heap.await_signal(at(memory), Comparison::Ge, 1));
                    assert_eq!(seen.unwrap(), 1);
                }
                let after = comm::fabric_now(comm).unwrap();
                if rank == 0 {
                    assert_eq!(
                        after - before,
                        price(comm, true, to, bytes + 8),
                        "{bytes} bytes to rank {to}"
                    );
                }
                if rank == 0 || rank == to {
                    times.lock().unwrap().push(after);
                }
                barrier(comm).unwrap();
            });
            let times = times.into_inner().unwrap();
            assert_eq!(times[0], times[1], "who waits goes on when the bytes have come");
        }
    }
}

#[test]
fn a_get_takes_the_way_there_and_back() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        let memory = memory(comm, 4096);
        let before = comm::fabric_now(comm).unwrap();
        if rank == 0 {
            let mut into = vec![1u8; 4096];
            comm::shmem(comm, |heap| heap.get(at(into.as_mut_ptr() as usize), at(memory), 4096, 1)).unwrap();
            assert!(into.iter().all(|&byte| byte == 0));
            let took = comm::fabric_now(comm).unwrap() - before;
            assert_eq!(took, price(comm, true, 1, 8) + price(comm, false, 1, 4096));
            assert_eq!(
                comm::shmem(comm, |heap| heap.ptr(memory, 1)).unwrap(),
                None,
                "nobody goes round the machine"
            );
        }
        barrier(comm).unwrap();
    });
}

/// Signals round a ring and across it, waits for any of several, collectives between; each rank dawdles in its own way.
fn busy(rank: Rank, n: u32, comm: CommHandle, seed: u64) -> Vec<u64> {
    let memory = memory(comm, 64 + 4096);
    let dawdle = |k: u64| {
        let random = (seed ^ (rank as u64 + 1 + 64 * k)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        std::thread::sleep(Duration::from_micros(random % 500));
    };
    let mut clocks = Vec::new();
    for round in 1..=6u64 {
        dawdle(round);
        comm::fabric_advance(comm, 700 * (rank as u64 * 11 % 5)).unwrap();
        let next = (rank + 1) % n;
        comm::shmem(comm, |heap| put_signal(heap, memory, 100 * round as usize, round, next)).unwrap();
        dawdle(round + 20);
        comm::shmem(comm, |heap| heap.await_signal(at(memory), Comparison::Ge, round)).unwrap();
        clocks.push(comm::fabric_now(comm).unwrap());
        // Everybody adds to rank 0's counter, which waits for the first two of them: whose these are is the machine's
        // affair, and so is when.
        comm::shmem(comm, |heap| heap.signal(at(memory + 32), 1, SignalOp::Add, 0)).unwrap();
        if rank == 0 {
            let least = (round - 1) * n as u64 + 2;
            comm::shmem(comm, |heap| heap.await_signal(at(memory + 32), Comparison::Ge, least)).unwrap();
            clocks.push(comm::fabric_now(comm).unwrap());
        }
        dawdle(round + 40);
        shift(rank, n, comm, 1, 10 * round as usize);
        barrier(comm).unwrap();
        clocks.push(comm::fabric_now(comm).unwrap());
    }
    clocks
}

#[test]
fn stores_are_seen_in_the_order_of_the_machine_however_ranks_are_held_up() {
    let n = 5;
    let mut all = Vec::new();
    for run in 0..40u64 {
        let clocks = Mutex::new(vec![Vec::new(); n as usize]);
        on_machine(n, "dgx-h100:nodes=2", "virtual", "", |rank, comm| {
            let mine = busy(rank, n, comm, run);
            clocks.lock().unwrap()[rank as usize] = mine;
        });
        all.push(clocks.into_inner().unwrap());
    }
    assert!(all.iter().all(|clocks| *clocks == all[0]), "{all:?}");
}

#[test]
fn a_wait_for_a_signal_that_nobody_sends_is_a_deadlock_that_names_the_rank() {
    on_machine(3, "dgx-h100", "virtual", "", |rank, comm| {
        let memory = memory(comm, 64);
        let ended = if rank == 1 {
            comm::shmem(comm, |heap| heap.await_signal(at(memory), Comparison::Eq, 5)).map(drop)
        } else {
            barrier(comm)
        };
        let e = ended.unwrap_err();
        assert_eq!(e.code, Code::InvalidUsage, "{e}");
        let what = if rank == 1 { format!("its signal at {memory:#x}") } else { "its signal at 0x".into() };
        let what = format!("rank 1 waits for {what}");
        assert!(e.message.contains(&what) && e.message.contains("which is 0, to be equal to 5"), "{e}");
    });
}

#[test]
fn a_semaphore_that_nobody_signals_is_named_to_those_who_wait_for_its_end_too() {
    on_machine(3, "dgx-h100", "virtual", "", |rank, comm| {
        comm::shmem_init(comm).unwrap();
        let tokens = comm::semaphore_create(comm, SemaphoreUnit::Regular, "tokens", 3).unwrap();
        let ended = match rank {
            1 => comm::semaphore(tokens, |semaphores| semaphores.wait(2, 4)),
            _ => comm::semaphore_destroy(tokens),
        };
        let e = ended.unwrap_err();
        assert_eq!(e.code, Code::InvalidUsage, "{e}");
        assert!(
            e.message.contains("deadlock")
                && e.message.contains("rank 1 waits for semaphore `tokens`[2] to be 4"),
            "{e}"
        );
    });
}

#[test]
fn one_store_wakes_all_threads_of_a_rank_that_wait_for_it() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        let memory = memory(comm, 256);
        let wait = |least: u64| {
            comm::shmem(comm, |heap| heap.await_signal(at(memory), Comparison::Ge, least)).unwrap();
        };
        for round in 1..=4 {
            if rank == 0 {
                std::thread::scope(|scope| {
                    scope.spawn(|| wait(2 * round));
                    scope.spawn(|| wait(2 * round));
                });
            } else {
                for _ in 0..2 {
                    comm::shmem(comm, |heap| heap.signal(at(memory), 1, SignalOp::Add, 0)).unwrap();
                }
            }
            barrier(comm).unwrap();
        }
    });
}

#[test]
fn a_thread_stores_what_it_has_sent_though_another_of_its_rank_waits() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        let memory = memory(comm, 256);
        let wait = |word: usize, least: u64| {
            comm::shmem(comm, |heap| heap.await_signal(at(memory + word), Comparison::Ge, least)).unwrap();
        };
        let tell = |word: usize, pe: i32| {
            comm::shmem(comm, |heap| heap.signal(at(memory + word), 1, SignalOp::Add, pe)).unwrap();
        };
        for round in 1..=4 {
            if rank == 0 {
                std::thread::scope(|scope| {
                    scope.spawn(|| wait(0, round));
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(2));
                        tell(64, 1);
                    });
                });
            } else {
                wait(64, round);
                tell(0, 0);
            }
            barrier(comm).unwrap();
        }
    });
}
