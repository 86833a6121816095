//! Semaphores and remote copies, ranks as threads: arithmetic, order, refusals; in `reports.rs` and `races.rs` what is
//! told when it goes wrong.

mod races;
mod reports;

use super::collectives::{everywhere, everywhere_with_children};
use crate::comm::{self, CommHandle, RemoteCopyCall, SemaphoreHandle};
use crate::error::{Code, Error, Result};
use crate::memory::view::Address;
use crate::onesided::Device;
use crate::onesided::semaphore::SemaphoreUnit;
use crate::types::Rank;

const REGULAR: SemaphoreUnit = SemaphoreUnit::Regular;

fn at(addr: usize) -> Address<'static> {
    #[allow(unsafe_code)]
    // SAFETY: every caller passes memory that outlives its call.
    unsafe {
        Address::from_raw(addr as *const u8)
    }
}

/// The word at an address of this rank.
#[allow(unsafe_code)]
fn load(addr: usize) -> u64 {
    // SAFETY: every caller passes a word that its communicator's semaphores have made its own.
    unsafe { (addr as *const u64).read_volatile() }
}
#[allow(unsafe_code)]
fn store(addr: usize, value: u64) {
    // SAFETY: as above.
    unsafe { (addr as *mut u64).write_volatile(value) }
}

fn made(comm: CommHandle, kind: SemaphoreUnit, name: &str, count: i32) -> SemaphoreHandle {
    comm::semaphore_create(comm, kind, name, count).unwrap()
}
fn signal(sem: SemaphoreHandle, index: i32, inc: u64, rank: u32) -> Result<()> {
    comm::semaphore(sem, |s| s.signal(index, inc, Device::Logical(rank as i32)))
}
fn wait(sem: SemaphoreHandle, index: i32, value: u64) -> Result<()> {
    comm::semaphore(sem, |s| s.wait(index, value))
}
fn read(sem: SemaphoreHandle, index: i32) -> u64 {
    comm::semaphore(sem, |s| s.read(index)).unwrap()
}
fn barrier(comm: CommHandle) {
    comm::shmem_barrier(comm, true).unwrap();
}

/// `n` ranks with a symmetric heap each, on one host and on several.
fn with_heaps(n: u32, work: impl Fn(Rank, CommHandle) + Sync) {
    everywhere(n, |me, comm| {
        comm::shmem_init(comm).unwrap();
        work(me, comm);
    });
}

/// The same where communicators are made from others.
fn with_heaps_and_children(n: u32, work: impl Fn(Rank, CommHandle) + Sync) {
    everywhere_with_children(n, |me, comm| {
        comm::shmem_init(comm).unwrap();
        work(me, comm);
    });
}

#[track_caller]
fn says(error: &Error, code: Code, parts: &[&str]) {
    assert_eq!(error.code, code, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "\"{error}\" does not say \"{part}\"");
    }
}

#[test]
fn what_four_ranks_signal_is_taken_exactly_once_by_two_threads() {
    with_heaps(4, |me, comm| {
        let sem = made(comm, REGULAR, "tokens", 3);
        const EACH: u64 = 500;
        std::thread::scope(|scope| {
            if me == 0 {
                // 4 ranks bring EACH * (1 + 2 + 3 + 4) tokens; each thread takes half of them, in pieces of 2 and of 5.
                for piece in [2, 5] {
                    scope.spawn(move || {
                        for _ in 0..EACH * 10 / 2 / piece {
                            wait(sem, 1, piece).unwrap();
                        }
                    });
                }
            }
            for _ in 0..EACH {
                signal(sem, 1, u64::from(me) + 1, 0).unwrap();
            }
        });
        barrier(comm);
        assert_eq!([0, 1, 2].map(|index| read(sem, index)), [0; 3]);
        comm::semaphore_destroy(sem).unwrap();
        says(&signal(sem, 1, 1, 0).unwrap_err(), Code::InvalidArgument, &["no live semaphore"]);
    });
}

#[test]
fn a_ring_of_remote_copies_with_two_slots_and_a_capacity_semaphore_loses_no_word() {
    with_heaps(4, |me, comm| {
        const ROUNDS: u64 = 400;
        let slots = comm::shmem_alloc(comm, 16, 64, true).unwrap();
        let (send, recv) =
            (made(comm, SemaphoreUnit::Dma, "sent", 1), made(comm, SemaphoreUnit::Dma, "come", 2));
        let capacity = made(comm, REGULAR, "capacity", 1);
        let (right, left) = ((me + 1) % 4, (me + 3) % 4);
        signal(capacity, 0, 2, left).unwrap();
        for round in 0..ROUNDS {
            let slot = (round % 2) as i32;
            let mut word = round << 8 | u64::from(me);
            let copy = RemoteCopyCall {
                src: at(&raw mut word as usize),
                dst: at(slots + 8 * slot as usize),
                bytes: 8,
                send: Some((send, 0)),
                recv: (recv, slot),
                device: Device::Default([right as i32, 0, 0, 0]),
            };
            wait(capacity, 0, 1).unwrap();
            comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap();
            comm::remote_copy(comm, &copy, |copy| copy.wait()).unwrap();
            assert_eq!(load(slots + 8 * slot as usize), round << 8 | u64::from(left));
            signal(capacity, 0, 1, left).unwrap();
        }
        wait(capacity, 0, 2).unwrap();
        barrier(comm);
        for sem in [send, recv, capacity] {
            comm::semaphore_destroy(sem).unwrap();
        }
    });
}

#[test]
fn a_test_takes_both_halves_or_neither() {
    with_heaps(2, |me, comm| {
        let word = comm::shmem_alloc(comm, 8, 64, true).unwrap();
        let (send, recv) =
            (made(comm, SemaphoreUnit::Dma, "sent", 1), made(comm, SemaphoreUnit::Dma, "come", 1));
        let mut seven = 7u64;
        let device = Device::Logical(1 - me as i32);
        let copy = RemoteCopyCall {
            src: at(&raw mut seven as usize),
            dst: at(word),
            bytes: 8,
            send: Some((send, 0)),
            recv: (recv, 0),
            device,
        };
        let test = || comm::remote_copy(comm, &copy, |copy| copy.test()).unwrap();
        if me == 0 {
            comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap();
            assert!(!test(), "nothing has come");
            assert_eq!((read(send, 0), read(recv, 0)), (8, 0));
        }
        barrier(comm);
        if me == 1 {
            assert!(!test(), "nothing was sent from here");
            assert_eq!((read(send, 0), read(recv, 0), load(word)), (0, 8, 7));
            comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap();
            assert!(test());
        }
        barrier(comm);
        if me == 0 {
            assert!(test() && !test());
        }
        assert_eq!((read(send, 0), read(recv, 0)), (0, 0));
    });
}

#[test]
fn a_copy_to_oneself_needs_one_semaphore_and_no_symmetric_memory() {
    with_heaps(2, |me, comm| {
        let recv = made(comm, SemaphoreUnit::Dma, "local", 1);
        let (mut from, mut to) = ([u64::from(me) + 5; 4], [0u64; 4]);
        let mut copy = RemoteCopyCall {
            src: at(from.as_mut_ptr() as usize),
            dst: at(to.as_mut_ptr() as usize),
            bytes: 32,
            send: None,
            recv: (recv, 0),
            device: Device::Logical(me as i32),
        };
        comm::remote_copy(comm, &copy, |copy| copy.start().and_then(|()| copy.wait())).unwrap();
        assert_eq!(to, from);
        copy.device = Device::Logical(1 - me as i32);
        let refused = comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap_err();
        says(&refused, Code::InvalidArgument, &["sendSem is NULL"]);
        copy.send = Some((recv, 0));
        let refused = comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap_err();
        says(&refused, Code::InvalidArgument, &["dst", "not in the symmetric heap"]);
        assert_eq!(read(recv, 0), 0, "a copy that was refused counts nothing");
    });
}

#[test]
fn wrong_arguments_are_refused_by_their_names() {
    with_heaps(2, |me, comm| {
        use Code::*;
        let (dma, sem) = (made(comm, SemaphoreUnit::Dma, "dma", 2), made(comm, REGULAR, "go", 2));
        let other = comm::init_all(1).unwrap()[0];
        comm::shmem_init(other).unwrap();
        let foreign = made(other, SemaphoreUnit::Dma, "foreign", 1);
        says(&signal(sem, 2, 1, 0).unwrap_err(), InvalidArgument, &["index is 2, but `go` has 2 semaphores"]);
        says(&wait(sem, -1, 1).unwrap_err(), InvalidArgument, &["index is -1"]);
        says(&signal(sem, 0, 1, 2).unwrap_err(), InvalidArgument, &["device: rank 2 is out of range"]);
        says(&signal(sem, 0, u64::MAX, 0).unwrap_err(), InvalidArgument, &["inc", "negative"]);
        says(&wait(sem, 0, 1 << 63).unwrap_err(), InvalidArgument, &["value"]);
        says(&signal(dma, 0, 1, 0).unwrap_err(), InvalidUsage, &["`dma`", "pennySemaphoreRegular"]);
        let word = comm::shmem_alloc(comm, 8, 64, true).unwrap();
        let good = RemoteCopyCall {
            src: at(word),
            dst: at(word),
            bytes: 8,
            send: Some((dma, 0)),
            recv: (dma, 1),
            device: Device::Logical(me as i32),
        };
        let refused = |copy: RemoteCopyCall| comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap_err();
        for (copy, part) in [
            (RemoteCopyCall { recv: (sem, 0), ..good }, "recvSem is `go`, which counts signals"),
            (RemoteCopyCall { send: Some((sem, 0)), ..good }, "sendSem is `go`"),
            (RemoteCopyCall { send: Some((dma, 2)), ..good }, "sendIndex is 2"),
            (RemoteCopyCall { recv: (dma, -7), ..good }, "recvIndex is -7"),
            (RemoteCopyCall { recv: (foreign, 0), ..good }, "recvSem is of another communicator"),
            (RemoteCopyCall { send: Some((foreign, 0)), ..good }, "sendSem is of another communicator"),
            (
                RemoteCopyCall { recv: (SemaphoreHandle::from_bits(77), 0), ..good },
                "recvSem is no live semaphore",
            ),
            (RemoteCopyCall { src: Address::NULL, ..good }, "src is NULL"),
            (RemoteCopyCall { dst: Address::NULL, ..good }, "dst is NULL"),
            (RemoteCopyCall { bytes: usize::MAX, ..good }, "dst"),
        ] {
            says(&refused(copy), InvalidArgument, &[part]);
        }
        says(&refused(RemoteCopyCall { device: Device::Mesh([0; 4]), ..good }), InvalidUsage, &["no mesh"]);
        says(&comm::barrier_semaphore(comm, 32).unwrap_err(), InvalidArgument, &["collectiveId is 32"]);
        let kept = comm::barrier_semaphore(comm, 3).unwrap();
        assert_eq!(comm::barrier_semaphore(comm, 3).unwrap(), kept);
        says(&comm::semaphore_destroy(kept).unwrap_err(), InvalidUsage, &["barrier semaphore"]);
        says(
            &comm::semaphore_create(comm, REGULAR, &"x".repeat(32), 1).unwrap_err(),
            InvalidArgument,
            &["name"],
        );
        says(&comm::semaphore_create(comm, REGULAR, "", 1).unwrap_err(), InvalidArgument, &["name"]);
        says(&comm::semaphore_create(comm, REGULAR, "x", 0).unwrap_err(), InvalidArgument, &["count"]);
        comm::destroy(other).unwrap();
        says(&comm::semaphore(foreign, |s| s.read(0)).unwrap_err(), InvalidArgument, &["no live semaphore"]);
    });
}

#[test]
fn barrier_semaphores_are_there_before_anybody_asks_for_them() {
    with_heaps(4, |me, comm| {
        let sem = comm::barrier_semaphore(comm, 31).unwrap();
        for _ in 0..100 {
            signal(sem, 0, 1, (me + 1) % 4).unwrap();
            signal(sem, 0, 1, (me + 3) % 4).unwrap();
            wait(sem, 0, 2).unwrap();
        }
        barrier(comm);
        assert_eq!(read(sem, 0), 0);
    });
}

#[test]
fn semaphores_of_two_communicators_do_not_meet() {
    with_heaps_and_children(2, |me, comm| {
        let twin = comm::split(comm, Some(0), -(me as i32), None).unwrap().unwrap();
        comm::shmem_init(twin).unwrap();
        let (here, there) = (made(comm, REGULAR, "same", 1), made(twin, REGULAR, "same", 1));
        signal(here, 0, 3, 0).unwrap();
        // The ranks of the twin are in the reverse order.
        signal(there, 0, 5, 0).unwrap();
        barrier(comm);
        barrier(twin);
        assert_eq!((read(here, 0), read(there, 0)), if me == 0 { (6, 0) } else { (0, 10) });
        if me == 0 {
            wait(here, 0, 6).unwrap()
        } else {
            wait(there, 0, 10).unwrap()
        }
        comm::destroy(twin).unwrap();
    });
}

#[test]
fn coordinates_name_ranks_once_a_mesh_is_declared() {
    with_heaps(6, |me, comm| {
        let sem = made(comm, REGULAR, "go", 1);
        comm::mesh(comm, &[2, 3]).unwrap();
        let (x, y) = ((me / 3) as i32, (me % 3) as i32);
        // To the right neighbour within the row, then down the column.
        comm::semaphore(sem, |s| s.signal(0, 1, Device::Mesh([x, (y + 1) % 3, 0, 0]))).unwrap();
        comm::semaphore(sem, |s| s.signal(0, 10, Device::Default([1 - x, y, 0, 0]))).unwrap();
        wait(sem, 0, 11).unwrap();
        comm::mesh(comm, &[]).unwrap();
        comm::semaphore(sem, |s| s.signal(0, 1, Device::Default([me as i32, 0, 0, 0]))).unwrap();
        wait(sem, 0, 1).unwrap();
        let refused = comm::semaphore(sem, |s| s.signal(0, 1, Device::Mesh([0; 4]))).unwrap_err();
        says(&refused, Code::InvalidUsage, &["no mesh is declared"]);
    });
}

#[test]
fn what_is_written_before_a_signal_is_there_after_the_wait() {
    with_heaps(2, |me, comm| {
        let words = comm::shmem_alloc(comm, 8 * 64, 64, true).unwrap();
        let (full, free) = (made(comm, REGULAR, "full", 1), made(comm, REGULAR, "free", 1));
        for round in 1..=1000u64 {
            if me == 0 {
                let mut all = [round; 64];
                comm::shmem(comm, |heap| heap.put(at(words), at(all.as_mut_ptr() as usize), 512, 1)).unwrap();
                signal(full, 0, 1, 1).unwrap();
                wait(free, 0, 1).unwrap();
            } else {
                wait(full, 0, 1).unwrap();
                assert!((0..64).all(|k| load(words + 8 * k) == round));
                store(words, 0);
                signal(free, 0, 1, 0).unwrap();
            }
        }
    });
}
