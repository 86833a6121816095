//! Semaphores that are left, awaited in vain, or called for by ranks that disagree: what is told.

use super::{REGULAR, at, barrier, made, says, signal, wait, with_heaps};
use crate::comm::{self, CommHandle, Config, RemoteCopyCall};
use crate::error::Code;
use crate::onesided::Device;
use crate::onesided::semaphore::SemaphoreUnit;
use crate::types::Rank;
use std::sync::{Barrier, Mutex};

/// `n` ranks that end as the work says, and wait no longer than `timeout_ms`.
fn patient(n: u32, timeout_ms: u64, work: impl Fn(Rank, CommHandle) + Sync) {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..n {
            let (work, id) = (&work, &id);
            scope.spawn(move || {
                let config = Config { timeout_ms: Some(timeout_ms), ..Config::default() };
                let comm = comm::init_rank(n as i32, id, rank as i32, &config).unwrap();
                comm::shmem_init(comm).unwrap();
                work(rank, comm);
            });
        }
    });
}

#[test]
fn ranks_that_disagree_hear_what_each_calls() {
    with_heaps(3, |me, comm| {
        let name = if me == 2 { "b" } else { "a" };
        let error = comm::semaphore_create(comm, REGULAR, name, 2).unwrap_err();
        says(&error, Code::InvalidUsage, &["rank 0", "2 regular semaphores `a`", "rank 2", "`b`"]);
        let error = comm::mesh(comm, if me == 1 { &[1, 3] } else { &[3, 1] }).unwrap_err();
        says(&error, Code::InvalidUsage, &["rank 0 calls pennyMesh with 3 x 1, rank 1", "1 x 3"]);
        let error = comm::mesh(comm, if me == 1 { &[2, 2] } else { &[3] }).unwrap_err();
        match me {
            1 => says(&error, Code::InvalidArgument, &["2 x 2, which is 4 places for 3 ranks"]),
            _ => says(&error, Code::InvalidUsage, &["rank 1", "sides that are none"]),
        }
        let (x, y) = (made(comm, REGULAR, "x", 1), made(comm, REGULAR, "y", 1));
        let error = comm::semaphore_destroy(if me == 0 { x } else { y }).unwrap_err();
        says(&error, Code::InvalidUsage, &["pennySemaphoreDestroy of `x`", "of `y`"]);
        comm::semaphore_destroy(x).unwrap();
        comm::mesh(comm, &[3]).unwrap();
    });
}

#[test]
fn a_semaphore_that_is_not_0_is_reported_where_it_ends_and_once() {
    // One wait too few on rank 1, told by whoever ends the semaphore: itself, the heap, or the communicator.
    for end in ["destroy", "heap", "finalize", "communicator"] {
        patient(2, 60_000, |me, comm| {
            let (sem, fine) = (made(comm, REGULAR, "capacity", 3), made(comm, SemaphoreUnit::Dma, "fine", 1));
            if me == 0 {
                signal(sem, 2, 4, 1).unwrap();
            }
            barrier(comm);
            if me == 1 {
                wait(sem, 2, 3).unwrap();
            }
            let ended = match end {
                "destroy" => comm::semaphore_destroy(sem),
                "heap" => comm::shmem_finalize(comm),
                "finalize" => comm::finalize(comm),
                _ => comm::destroy(comm),
            };
            match me {
                0 => assert_eq!(ended, Ok(()), "{end}"),
                _ => says(
                    &ended.unwrap_err(),
                    Code::InvalidUsage,
                    &["rank 1 are not 0", "`capacity`[2] is 1 (last signalled by rank 0)"],
                ),
            }
            let _ = fine;
            if end != "communicator" {
                comm::destroy(comm).unwrap();
            }
            assert_eq!(
                comm::count(comm).unwrap_err().code,
                Code::InvalidArgument,
                "it is freed all the same"
            );
        });
    }
}

#[test]
fn bytes_that_nobody_awaited_and_a_barrier_that_was_left_open_are_listed_with_the_rest() {
    patient(2, 60_000, |me, comm| {
        let dma = made(comm, SemaphoreUnit::Dma, "recv", 1);
        let open = comm::barrier_semaphore(comm, 7).unwrap();
        let mut word = 0u64;
        let src = at(&raw mut word as usize);
        let device = Device::Logical(me as i32);
        let copy = RemoteCopyCall { src, dst: src, bytes: 8, send: None, recv: (dma, 0), device };
        comm::remote_copy(comm, &copy, |copy| copy.start()).unwrap();
        signal(open, 0, 1, 1 - me).unwrap();
        barrier(comm);
        let by = [format!("by rank {me}"), format!("`barrier`[7] is 1 (last signalled by rank {})", 1 - me)];
        let error = comm::destroy(comm).unwrap_err();
        says(&error, Code::InvalidUsage, &["`recv`[0] is 8 bytes", &by[0], &by[1]]);
    });
}

#[test]
fn a_wait_in_vain_tells_who_never_signalled_and_what_the_others_wait_for() {
    // Rank 2 has forgotten to signal `go` to rank 1: it waits for `capacity` first, which rank 1 would signal after.
    let stuck = Barrier::new(3);
    let told = Mutex::new(String::new());
    patient(3, 700, |me, comm| {
        let (go, capacity) = (made(comm, REGULAR, "go", 2), made(comm, REGULAR, "capacity", 1));
        if me == 0 {
            signal(go, 1, 2, 1).unwrap();
        }
        barrier(comm);
        match me {
            1 => {
                // BOUND: rank 2 is in its wait before long, or has given up.
                for _ in 0..50 {
                    let error = wait(go, 1, 3).unwrap_err();
                    says(
                        &error,
                        Code::Timeout,
                        &["semaphore `go`[1] to be 3; it is 2", "rank 0 (2, the last)"],
                    );
                    says(&error, Code::Timeout, &["never by rank 1, 2", "PENNY_TIMEOUT"]);
                    *told.lock().unwrap() = error.message.clone();
                    if told.lock().unwrap().contains("rank 2") && told.lock().unwrap().contains("`capacity`")
                    {
                        break;
                    }
                }
                let told = told.lock().unwrap();
                let waits = told.contains("rank 2 waits for `capacity`[0] to be 1 (it is 0)");
                let gave_up =
                    told.contains("rank 2 has given up waiting for `capacity`[0] to be 1 (it is 0)");
                assert!(waits || gave_up, "{told}");
                assert!(!told.contains("rank 0 waits"), "{told}");
                wait(go, 1, 2).unwrap();
            }
            2 => says(
                &wait(capacity, 0, 1).unwrap_err(),
                Code::Timeout,
                &["`capacity`[0] to be 1; it is 0, signalled so far by nobody and never by rank 0, 1, 2"],
            ),
            _ => {}
        }
        stuck.wait();
        comm::destroy(comm).unwrap();
    });
}

#[test]
fn an_abort_ends_a_wait() {
    let waiting = Barrier::new(2);
    patient(2, 60_000, |me, comm| {
        let sem = made(comm, REGULAR, "go", 1);
        waiting.wait();
        if me == 0 {
            comm::abort(comm).unwrap();
        } else {
            says(&wait(sem, 0, 1).unwrap_err(), Code::RemoteError, &["rank 0 aborted"]);
            comm::destroy(comm).unwrap();
        }
    });
}
