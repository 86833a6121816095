//! Jobs in several threads, as many at once as there is memory for.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the jobs in progress may take together, in bytes; one alone may take more. Those that take next to nothing always fit.
const MOST_BYTES: u64 = 490_000_000;

/// The jobs that are not begun, and what those in progress take.
struct State {
    /// Numbers of jobs, the smallest first.
    waiting: Vec<usize>,
    bytes: u64,
}

/// Calls `work` with every job, in as many threads as there are cores, and returns the results in the order of the jobs. `bytes`: about
/// how much memory a job takes.
pub fn each<J: Sync, R: Send>(
    jobs: &[J],
    bytes: impl Fn(&J) -> u64,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(jobs.len());
    let bytes: Vec<u64> = jobs.iter().map(bytes).collect();
    if bytes.iter().any(|&bytes| bytes > 0) {
        give_back_what_is_freed();
    }
    each_in(workers, jobs, &bytes, work)
}

/// Has the allocator give every large block back to the system when it is freed. It would keep those of a thread that are no larger than
/// one that was freed before, and a job's memory would be held during the next.
fn give_back_what_is_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: changes a number, with the allocator's lock held.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

fn each_in<J: Sync, R: Send>(
    workers: usize,
    jobs: &[J],
    bytes: &[u64],
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let mut waiting: Vec<usize> = (0..jobs.len()).rev().collect();
    waiting.sort_by_key(|&job| bytes[job]);
    let (state, is_over) = (Mutex::new(State { waiting, bytes: 0 }), Condvar::new());
    let lock = || -> MutexGuard<'_, State> { state.lock().unwrap_or_else(PoisonError::into_inner) };
    let worker = || {
        let mut results: Vec<(usize, R)> = Vec::new();
        let mut state = lock();
        while !state.waiting.is_empty() {
            // The largest that fits beside those in progress.
            let fits =
                |&job: &usize| bytes[job] == 0 || state.bytes == 0 || state.bytes + bytes[job] <= MOST_BYTES;
            let Some(at) = state.waiting.iter().rposition(fits) else {
                state = is_over.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let job = state.waiting.remove(at);
            let taken = bytes[job];
            state.bytes += taken;
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(|| work(&jobs[job])));
            state = lock();
            state.bytes -= taken;
            is_over.notify_all();
            match result {
                Ok(result) => results.push((job, result)),
                Err(panic) => {
                    state.waiting.clear();
                    drop(state);
                    resume_unwind(panic);
                }
            }
        }
        results
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|&(job, _)| job);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_done_once_and_never_more_of_them_at_once_than_fit() {
        let bytes: Vec<u64> =
            [200, 0, 700, 300, 300, 0, 200, 490, 1].iter().map(|mb| mb * 1_000_000).collect();
        let jobs: Vec<(usize, u64)> = bytes.iter().copied().enumerate().collect();
        for workers in [1, 2, 4] {
            let present = Mutex::new(0u64);
            let work = |&(number, bytes): &(usize, u64)| {
                let others = {
                    let mut present = present.lock().unwrap();
                    let others = *present;
                    *present += bytes;
                    others
                };
                assert!(others == 0 || bytes == 0 || others + bytes <= MOST_BYTES, "{others} and {bytes}");
                std::thread::yield_now();
                *present.lock().unwrap() -= bytes;
                (number, bytes)
            };
            assert_eq!(each_in(workers, &jobs, &bytes, work), jobs);
        }
        assert!(each(&[], |_: &u64| 0, |_| ()).is_empty());
    }

    #[test]
    fn a_job_that_panics_ends_the_others_that_wait_for_its_memory() {
        let jobs = [MOST_BYTES, 7, 7];
        let work = |&bytes: &u64| assert!(bytes < MOST_BYTES, "the first fails");
        assert!(catch_unwind(|| each_in(3, &jobs, &jobs, work)).is_err());
    }
}
