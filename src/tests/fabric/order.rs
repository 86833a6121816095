//! What happens depends on what ranks do, never on when the machine lets them run.

use super::{barrier, on_machine, shift, timed};
use crate::comm::{self, CommHandle, Grouping};
use crate::fabric::live::clock_segment::{FREE, LOG};
use crate::types::{Collective, Rank};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pairs exchange, rings pass, everybody reduces; each rank dawdles in its own way between calls.
fn busy(rank: Rank, n: u32, comm: CommHandle, seed: u64) {
    let dawdle = |k: u64| {
        let nap =
            (seed ^ (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(k as u32 * 7) % 400;
        std::thread::sleep(Duration::from_micros(nap));
    };
    for k in 0..4 {
        dawdle(k);
        comm::fabric_advance(comm, 1000 * (rank as u64 * 13 % 7)).unwrap();
        timed(rank, n, comm, Collective::AllReduce, 64 << k);
        dawdle(k + 9);
        shift(rank, n, comm, 1 + k as u32 % (n - 1), 100 * k as usize);
    }
}

#[test]
fn what_happens_does_not_depend_on_when_the_machine_lets_ranks_run() {
    let n = 5;
    let seen = Mutex::new(Vec::new());
    for run in 0..100u64 {
        let clocks: Vec<AtomicU64> = (0..n).map(|_| AtomicU64::new(0)).collect();
        on_machine(n, "dgx-h100:nodes=2", "virtual", "", |rank, comm| {
            busy(rank, n, comm, run.wrapping_mul(0xd134_2543_de82_ef95));
            clocks[rank as usize].store(comm::fabric_now(comm).unwrap(), Ordering::Relaxed);
            if rank == 0 {
                // One more meeting, so that all that the others did is in the account.
                timed(rank, n, comm, Collective::AllReduce, 1);
                let (_, clock_stats) = comm::fabric_account(comm).unwrap();
                seen.lock().unwrap().push((clock_stats.trace, clock_stats.calls, clock_stats.late));
            } else {
                timed(rank, n, comm, Collective::AllReduce, 1);
            }
        });
        let clocks: Vec<u64> = clocks.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        seen.lock().unwrap().last_mut().unwrap().0 ^= clocks.iter().fold(0, |h: u64, c| h.rotate_left(9) ^ c);
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|one| one == &seen[0]), "{seen:?}");
}

#[test]
fn halves_that_call_at_once_leave_the_same_trace_however_they_are_held_up() {
    let n = 8;
    let seen = Mutex::new(Vec::new());
    let looked = std::sync::Barrier::new(n as usize);
    for run in 0..50u64 {
        on_machine(n, "t3000", "virtual", "", |rank, comm| {
            let nap = |k: u64| {
                let random = (run * 64 + rank as u64 + k * 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
                std::thread::sleep(Duration::from_micros(random % 300));
            };
            let row = comm::group(comm, Grouping::Consecutive, 4).unwrap();
            let column = comm::group(comm, Grouping::Orthogonal, 2).unwrap();
            for k in 0..4 {
                nap(k);
                timed(rank % 4, 4, row, Collective::AllReduce, 300 * (1 + rank as usize / 4));
                nap(k + 7);
                timed(rank / 4, 2, column, Collective::AllGather, 200);
            }
            shift(rank, n, comm, 3, 50);
            barrier(comm).unwrap();
            let (_, clock_stats) = comm::fabric_account(comm).unwrap();
            seen.lock().unwrap().push((clock_stats.trace, clock_stats.calls, clock_stats.late));
            // No rank is in a later call while another looks.
            looked.wait();
            barrier(comm).unwrap();
            comm::destroy(column).unwrap();
            comm::destroy(row).unwrap();
        });
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|one| one == &seen[0]), "{seen:?}");
}

#[test]
fn thousands_of_overlapping_calls_leave_nothing_behind() {
    let n = 4;
    on_machine(n, "t3000", "virtual", "", |rank, comm| {
        let pair = comm::group(comm, Grouping::Consecutive, 2).unwrap();
        for k in 0..1500 {
            // Unequal work, so that one half is always in the middle of something when the other enters.
            timed(rank % 2, 2, pair, Collective::AllReduce, 1 + k % 7 + 2000 * (rank as usize / 2));
        }
        barrier(comm).unwrap();
        let (participant, clock_stats) = comm::fabric_account(comm).unwrap();
        assert!(clock_stats.calls >= 3001, "{clock_stats:?}");
        let clock_segment = participant.clock_segment();
        assert!(clock_segment.header().logged.load(Ordering::Relaxed) as usize <= LOG);
        assert!(clock_segment.header().epoch.load(Ordering::Relaxed) > 0);
        let free = clock_segment.tickets(rank).iter().all(|t| t.state.load(Ordering::Acquire) == FREE);
        assert!(free, "a ticket of rank {rank} is still taken");
        barrier(comm).unwrap();
        comm::destroy(pair).unwrap();
    });
}
