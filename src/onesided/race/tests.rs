//! The ledger in the hands of ranks: threads, and processes of which one is killed while it holds the lock.

use super::*;
use crate::comm::{self, Config};
use crate::error::Code;
use crate::memory::view::Address;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

/// `n` ranks, threads of this process, each with its part of one ledger.
fn with_ledger(n: u32, work: impl Fn(Rank, &Races) + Sync) {
    let id = comm::unique_id().unwrap();
    let rank = &|me: Rank| {
        let config = Config { timeout_ms: Some(60_000), ..Config::default() };
        let comm = comm::init_rank(n as i32, &id, me as i32, &config).unwrap();
        comm::shmem_init(comm).unwrap();
        let clocks = comm::shmem_alloc(comm, Races::bytes(n), 64, true).unwrap();
        let races = comm::shmem(comm, |heap| {
            let region = heap.segments().find(|s| s.offset_of(clocks, 1).is_some()).unwrap().clone();
            let begin = clocks - region.base();
            Ok(Races::new(heap.transport().clone(), region, begin))
        })
        .unwrap();
        work(me, &races);
        comm::shmem_barrier(comm, true).unwrap();
        comm::destroy(comm).unwrap();
    };
    std::thread::scope(|scope| {
        for me in 0..n {
            scope.spawn(move || rank(me));
        }
    });
}

/// How many numbers have been drawn.
fn drawn(races: &Races) -> u64 {
    races.words().unwrap()[0].load(Ordering::Relaxed)
}

#[test]
fn a_rank_that_gave_up_its_wait_for_the_ledger_keeps_nobody_else_out() {
    let apart = Barrier::new(3);
    let gave_up = AtomicBool::new(false);
    with_ledger(3, |me, races| {
        let first = drawn(races);
        apart.wait();
        if me == 0 {
            races
                .locked(|_| {
                    apart.wait();
                    // BOUND: rank 1 gives up at once, and rank 2 draws its number.
                    while drawn(races) < first + 3 || !gave_up.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                })
                .unwrap();
        } else {
            apart.wait();
            if me == 1 {
                let error = races.locked_by(0, |_| panic!("rank 0 holds it")).unwrap_err();
                gave_up.store(true, Ordering::Relaxed);
                assert_eq!(error.code, Code::Timeout);
                let says = |part: &str| assert!(error.message.contains(part), "{error}");
                says("rank 1 waited 60 s for the lock of PENNY_CHECK=race, which rank 0 (pid ");
                says("raise PENNY_TIMEOUT");
            } else {
                // BOUND: rank 1 draws its number, which is before this one's.
                while drawn(races) < first + 2 {
                    std::thread::yield_now();
                }
                races.locked(|_| ()).unwrap();
            }
        }
        for _ in 0..100 {
            races.locked(|_| ()).unwrap();
        }
    });
}

#[test]
fn threads_of_one_rank_and_other_ranks_use_the_ledger_one_at_a_time() {
    const THREADS: u64 = 3;
    const EACH: u64 = 100;
    let uses = crate::sync::prim::AtomicU64::new(0);
    with_ledger(2, |_, races| {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        // What two would do at a time would be counted once.
                        let once_more = || {
                            let so_far = uses.load(Ordering::Relaxed);
                            std::thread::yield_now();
                            uses.store(so_far + 1, Ordering::Relaxed);
                        };
                        races.locked(|_| once_more()).unwrap();
                    }
                });
            }
        });
    });
    assert_eq!(uses.load(Ordering::Relaxed), 2 * THREADS * EACH);
}

/// A rank that is a process of its own; killed if the test drops it.
struct Player {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Drop for Player {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which rank holds the lock until it is killed.
const HOLDER: &str = "PENNY_TEST_HOLDER";
const RANKS: u32 = 3;

impl Player {
    fn start(rank: u32, holder: u32) -> Player {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "onesided::race::tests::the_part_of_a_rank"])
            .env("PENNY_JOB_ID", format!("{:016x}{holder:016x}", std::process::id()))
            .env("PENNY_RANK", rank.to_string())
            .env("PENNY_LOCAL_RANK", rank.to_string())
            .env("PENNY_WORLD_SIZE", RANKS.to_string())
            .env("PENNY_TIMEOUT", "60")
            .env("PENNY_CHECK", "race")
            .env(HOLDER, holder.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Player { child, said }
    }

    /// The next line that begins so.
    fn says(&mut self, begin: &str) -> String {
        let line =
            self.said.by_ref().lines().map_while(|line| line.ok()).find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("it ended before it said {begin}"))
    }

    /// Let it go on.
    fn goes_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    }
}

#[test]
#[ignore = "played by the processes that another test starts"]
fn the_part_of_a_rank() {
    let holder: Rank = std::env::var(HOLDER).expect("only another test starts this one").parse().unwrap();
    let comm = comm::init_from_env(&Config::default()).unwrap();
    let me = comm::user_rank(comm).unwrap();
    comm::shmem_init(comm).unwrap();
    let memory = comm::shmem_alloc(comm, 8, 8, true).unwrap();
    let mut input = std::io::stdin();
    println!("\nREADY");
    input.read_exact(&mut [0]).unwrap();
    let put = comm::shmem(comm, |heap| {
        if me == holder {
            return heap.races().expect("PENNY_CHECK=race").locked(|_| {
                println!("\nHOLDS");
                input.read_to_end(&mut Vec::new()).unwrap();
            });
        }
        let word = 7u64;
        #[allow(unsafe_code)]
        // SAFETY: both outlive the call.
        let (dest, source) =
            unsafe { (Address::from_raw(memory as *const u8), Address::from_raw((&raw const word).cast())) };
        heap.put(dest, source, 8, me as i32)
    });
    println!("\nENDS {:?}", put.map_err(|e| format!("{:?}: {}", e.code, e.message)));
    // Whoever is killed dies here, if its test is over; the others must not leave before all have looked.
    input.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_rank_that_is_killed_with_the_ledgers_lock_is_named_to_all_who_wait_for_it() {
    // Rank 0 has the ledger in its memory.
    for holder in [0, 1] {
        let mut ranks: Vec<Player> = (0..RANKS).map(|rank| Player::start(rank, holder)).collect();
        // What comes before takes the lock too.
        ranks.iter_mut().for_each(|rank| drop(rank.says("READY")));
        let mut victim = ranks.remove(holder as usize);
        victim.goes_on();
        victim.says("HOLDS");
        ranks.iter_mut().for_each(Player::goes_on);
        let pid = victim.child.id();
        drop(victim);
        for rank in &mut ranks {
            let said = rank.says("ENDS");
            let expected = format!("ENDS Err(\"RemoteError: rank {holder} (pid {pid}) died; ");
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}
