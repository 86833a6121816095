//! The signal masks of all threads that the library makes, read from /proc.

use super::collectives::on_ranks;
use crate::comm::{self, Config};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV and SIGSYS: the signals that a thread causes itself.
const FAULTS: [u32; 6] = [4, 5, 7, 8, 11, 31];
/// SIGKILL and SIGSTOP, which nobody can block, and the two that the C library keeps for itself.
const NOT_FOR_US: [u32; 4] = [9, 19, 32, 33];

/// The mask of a thread of the library, as the kernel prints it.
fn expected() -> u64 {
    FAULTS.iter().chain(&NOT_FOR_US).fold(!0, |mask, signal| mask & !(1 << (signal - 1)))
}

/// The masks of the library's threads, whose names begin with `penny-`, by name without its number. Threads without a name
/// of their own have the program's, which begins like this as well.
fn masks() -> Vec<(String, u64)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let program = fs::read_to_string("/proc/self/comm").unwrap();
    let of_task = |task: fs::DirEntry| {
        // A thread may end between two of these.
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
        let name = field("Name:")
            .filter(|name| *name != program.trim())?
            .strip_prefix("penny-")?
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        // Of a thread that has ended and is still listed the kernel prints zeros, also for the number of threads beside it.
        field("Threads:").filter(|threads| *threads != "0")?;
        Some((name.to_owned(), u64::from_str_radix(field("SigBlk:")?, 16).ok()?))
    };
    tasks.filter_map(of_task).collect()
}

/// The masks seen, by the threads' names.
type Seen = BTreeMap<String, Vec<u64>>;

/// Watches the threads of the library until `work` is done. `work` gets the record as it grows.
fn seen_during(work: impl FnOnce(&Mutex<Seen>)) -> Seen {
    let (over, seen) = (AtomicBool::new(false), Mutex::new(Seen::new()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // BOUND: the work's end.
            while !over.load(Ordering::Acquire) {
                for (name, mask) in masks() {
                    let mut seen = seen.lock().unwrap();
                    let of_name = seen.entry(name).or_default();
                    if !of_name.contains(&mask) {
                        of_name.push(mask);
                    }
                }
            }
        });
        let end = OnDrop(&over);
        work(&seen);
        drop(end);
    });
    seen.into_inner().unwrap()
}

/// Ends the watch, also where the work panics.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until the watch has recorded a thread of this name.
/// BOUND: a minute.
fn until_seen(seen: &Mutex<Seen>, name: &str) {
    let begin = std::time::Instant::now();
    while !seen.lock().unwrap().contains_key(name) {
        assert!(
            begin.elapsed().as_secs() < 60,
            "no thread penny-{name} was seen: {:x?}",
            seen.lock().unwrap()
        );
        std::thread::yield_now();
    }
}

#[test]
fn every_thread_of_the_library_blocks_what_is_not_its_own_fault() {
    let seen = seen_during(|seen| {
        // Two ranks of one thread join on two threads and wait for the third.
        let id = comm::unique_id().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                comm::group_start().unwrap();
                let ranks = [0, 1].map(|rank| comm::init_rank(3, &id, rank, &Config::default()).unwrap());
                comm::group_end().unwrap();
                ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
            });
            until_seen(seen, "group");
            comm::destroy(comm::init_rank(3, &id, 2, &Config::default()).unwrap()).unwrap();
        });
        on_ranks(2, |_, _| {
            let stream = comm::stream_create().unwrap();
            until_seen(seen, "strm");
            comm::stream_destroy(stream).unwrap();
        });
        let joining = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // BOUND: a rank of the others is seen, or the minute is over.
                while joining.load(Ordering::Acquire) {
                    for rank in comm::init_all(8).unwrap() {
                        comm::destroy(rank).unwrap();
                    }
                }
            });
            until_seen(seen, "init");
            joining.store(false, Ordering::Release);
        });
    });
    for name in ["group", "init", "keeper", "meet", "strm"] {
        assert!(seen.contains_key(name), "no thread penny-{name} was seen: {seen:x?}");
    }
    for (name, masks) in &seen {
        let right = expected();
        assert!(masks.contains(&right), "penny-{name} blocks {masks:x?}, but should block {right:x}");
        // The C library blocks all signals while it starts a thread.
        assert!(
            masks.iter().all(|mask| mask & right == right),
            "penny-{name} blocks {masks:x?}, less than {right:x}"
        );
    }
}
