//! Two ranks write to the same bytes of a third: reported where nothing orders them, and only there.

use super::{REGULAR, at, barrier, made, says, signal, wait};
use crate::comm::{self, Call, CommHandle, RemoteCopyCall, Transfer};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::onesided::semaphore::SemaphoreUnit;
use crate::onesided::{Atomic, AtomicOp, Change, Comparison, Device, Races, SignalOp, Strided};
use crate::tests::collectives::on_ranks;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::sync::Barrier;

/// Three ranks whose writes are checked as `PENNY_CHECK=race` has it, and 256 bytes of symmetric memory. `apart` brings the
/// ranks' threads into an order of which the library knows nothing.
fn checked(work: impl Fn(Rank, CommHandle, usize, &dyn Fn()) + Sync) {
    let apart = Barrier::new(3);
    on_ranks(3, |me, comm| {
        comm::shmem_init(comm).unwrap();
        let memory = comm::shmem_alloc(comm, 256, 64, true).unwrap();
        let clocks = comm::shmem_alloc(comm, Races::bytes(3), 64, true).unwrap();
        comm::shmem(comm, |heap| {
            let region = heap.segments().find(|s| s.offset_of(clocks, 1).is_some()).unwrap().clone();
            let begin = clocks - region.base();
            heap.check_races(Races::new(heap.transport().clone(), region, begin));
            Ok(())
        })
        .unwrap();
        work(me, comm, memory, &|| {
            apart.wait();
        });
        barrier(comm);
    });
}

fn put(comm: CommHandle, to: usize, bytes: usize, rank: i32) -> Result<()> {
    let source = [7u8; 256];
    comm::shmem(comm, |heap| heap.put(at(to), at(source.as_ptr() as usize), bytes, rank))
}

#[test]
fn two_writers_without_order_are_reported_by_name_to_the_later_one() {
    checked(|me, comm, memory, apart| {
        if me == 0 {
            put(comm, memory, 100, 2).unwrap();
        }
        apart();
        if me == 1 {
            let error = put(comm, memory + 60, 100, 2).unwrap_err();
            says(
                &error,
                Code::InvalidUsage,
                &["a race: a put of rank 1 and a put of rank 0", "bytes 0 to 39"],
            );
            says(&error, Code::InvalidUsage, &["at rank 2", "nothing was written"]);
            put(comm, memory + 100, 100, 2).unwrap();
            put(comm, memory, 100, 1).unwrap();
        }
        apart();
        assert_eq!(super::load(memory + 96) as u8, if me == 0 { 0 } else { 7 });
    });
}

#[test]
fn a_barrier_that_both_have_left_orders_nothing_that_comes_after_it() {
    for _ in 0..20 {
        let raced = std::sync::Mutex::new(0);
        checked(|me, comm, memory, _| {
            barrier(comm);
            if me < 2 && put(comm, memory, 8, 2).is_err() {
                *raced.lock().unwrap() += 1;
            }
        });
        assert_eq!(*raced.lock().unwrap(), 1, "one of them is the later one");
    }
}

/// Rank 0 writes, `tell`s rank 1, which `hear`s it and may write then.
fn ordered(tell: impl Fn(CommHandle, usize) + Sync, hear: impl Fn(CommHandle, usize) + Sync) {
    checked(|me, comm, memory, apart| match me {
        0 => {
            put(comm, memory, 8, 2).unwrap();
            tell(comm, memory);
            apart();
        }
        1 => {
            apart();
            assert!(put(comm, memory, 8, 2).is_err(), "what it has not heard of does not count");
            hear(comm, memory);
            put(comm, memory, 8, 2).unwrap();
        }
        _ => apart(),
    });
}

#[test]
fn signals_semaphores_elements_and_atomic_operations_order_writers() {
    let flag = |memory: usize| at(memory + 64);
    let (one, two) = (1u64, 2u64);
    let value = at(&raw const one as usize);
    let fetch = |op, value| Atomic {
        change: Change { op, value, expected: 0 },
        dtype: DataType::Uint64,
        fetches: true,
    };
    let awaited = |comm, memory| {
        comm::shmem(comm, |heap| heap.await_signal(flag(memory), Comparison::Ge, 1)).unwrap();
    };
    let signalled =
        |comm, memory| comm::shmem(comm, |heap| heap.signal(flag(memory), 1, SignalOp::Add, 1)).unwrap();
    ordered(signalled, awaited);
    ordered(signalled, |comm, memory| {
        assert_eq!(comm::shmem(comm, |heap| heap.signal_fetch(flag(memory))), Ok(1));
    });
    let with_signal = |comm, memory: usize| {
        comm::shmem(comm, |heap| {
            heap.put_signal(at(memory + 128), value, 8, flag(memory), 1, SignalOp::Set, 1)
        })
        .unwrap();
    };
    ordered(with_signal, awaited);
    ordered(
        |comm, memory| {
            comm::shmem(comm, |heap| heap.put_element(flag(memory), value, DataType::Uint64, 1)).unwrap()
        },
        |comm, memory| {
            let eq = Comparison::Eq;
            let words = |heap: &crate::onesided::SymmetricMemory| {
                heap.words(flag(memory), 1, None, eq, value, DataType::Uint64)?
                    .wait(crate::onesided::Several::All)
            };
            assert_eq!(comm::shmem(comm, words), Ok(vec![0]));
        },
    );
    ordered(
        |comm, memory| {
            let set = fetch(AtomicOp::Set, two);
            assert_eq!(comm::shmem(comm, |heap| heap.modify(flag(memory), &set, 2)), Ok(0));
        },
        |comm, memory| {
            assert_eq!(
                comm::shmem(comm, |heap| heap.modify(flag(memory), &fetch(AtomicOp::Fetch, 0), 2)),
                Ok(2)
            )
        },
    );
    ordered(
        |comm, _| signal(comm::barrier_semaphore(comm, 4).unwrap(), 0, 1, 1).unwrap(),
        |comm, _| wait(comm::barrier_semaphore(comm, 4).unwrap(), 0, 1).unwrap(),
    );
}

#[test]
fn collectives_and_transfers_order_writers() {
    checked(|me, comm, memory, _| {
        let sum = |word: &mut [u64; 1]| {
            let buffer = at(word.as_mut_ptr() as usize);
            let (collective, dtype, op) = (Collective::AllReduce, DataType::Uint64, RedOp::Sum);
            let call =
                Call { collective, send: buffer, recv: buffer, count: 1, dtype, op, root: 0, padded: false };
            comm::collective(comm, &call, None).unwrap();
        };
        for writer in 0..3 {
            if me == writer {
                put(comm, memory, 8, 2).unwrap();
            }
            sum(&mut [1]);
        }
        let mut token = [0u8; 4];
        let mut pass = |send, peer| {
            let buffer: Address = at(token.as_mut_ptr() as usize);
            let transfer =
                Transfer { send, buffer, count: 4, dtype: DataType::Uint8, peer, of_collective: false };
            comm::transfer(comm, &transfer, None).unwrap();
        };
        match me {
            0 => {
                put(comm, memory, 8, 2).unwrap();
                pass(true, 1);
            }
            1 => {
                pass(false, 0);
                put(comm, memory, 8, 2).unwrap();
            }
            _ => {}
        }
    });
}

#[test]
fn remote_copies_and_strided_puts_are_writes_too() {
    checked(|me, comm, memory, apart| {
        let (send, recv) =
            (made(comm, SemaphoreUnit::Dma, "sent", 1), made(comm, SemaphoreUnit::Dma, "come", 1));
        let go = made(comm, REGULAR, "go", 1);
        let word = [5u64; 2];
        let src = at(word.as_ptr() as usize);
        let copy = RemoteCopyCall {
            src,
            dst: at(memory + 32),
            bytes: 16,
            send: Some((send, 0)),
            recv: (recv, 0),
            device: Device::Logical(2),
        };
        let start = || comm::remote_copy(comm, &copy, |copy| copy.start());
        match me {
            0 => {
                start().unwrap();
                signal(go, 0, 1, 1).unwrap();
                wait(send, 0, 16).unwrap();
                apart();
            }
            1 => {
                apart();
                let error = start().unwrap_err();
                says(
                    &error,
                    Code::InvalidUsage,
                    &["a remote copy of rank 1 and a remote copy of rank 0", "bytes 0 to 15"],
                );
                let s = Strided { dtype: DataType::Uint64, count: 2, dest_stride: 3, source_stride: 1 };
                let strided = |to: usize| comm::shmem(comm, |heap| heap.put_strided(at(to), src, &s, 2));
                strided(memory + 24).unwrap();
                assert!(strided(memory + 16).is_err());
                wait(go, 0, 1).unwrap();
                // Rank 2 reads what the copy brings as soon as it has come.
                strided(memory + 16).unwrap();
                start().unwrap();
                wait(send, 0, 16).unwrap();
            }
            _ => {
                apart();
                wait(recv, 0, 32).unwrap();
            }
        }
    });
}
