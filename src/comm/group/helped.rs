//! A group of large calls on several communicators of one thread, with which other threads help.
//!
//! ```text
//!     calling thread      part a ................ over, looks after what no helper has, waits
//!     helper 1            comes late     part b ........ over
//!     helper 2            comes late     part c ........ over
//! ```
//!
//! A part is one communicator's calls. The calling thread goes on with all parts, but with those that a helper has taken. The
//! helpers are the first communicator's (`transport/threads.rs`). One leaves when there is no part to take, or when it has looked for
//! some time in vain; then the calling thread has its part again, and sleeps if it must.

use super::polled::{PolledBatch, PolledShare, SHORT_NAP};
use crate::comm::registry::{self, CommHandle, Entry};
use crate::error::Result;
use crate::sync::lock::Mutex;
use crate::sync::parallel_for::pool::Pool;
use crate::sync::prim::{AtomicBool, Ordering, pause};
use crate::sys::{clock, cpu};

/// A helper leaves a part with which it could not go on for so long.
const PATIENCE_NS: u64 = 500_000;
/// A poll that takes so long has moved data.
const MOVED_NS: u64 = 2_000;
/// Looks in vain before a helper yields at each further one.
const LOOKS_BEFORE_YIELD: u32 = 64;

/// One communicator's calls, and who goes on with them.
struct Part<'a> {
    comm: CommHandle,
    share: Mutex<&'a mut PolledShare>,
    /// A helper has it.
    is_taken: AtomicBool,
    is_over: AtomicBool,
}

impl PolledBatch {
    /// Makes the calls on this thread and on the helpers.
    pub(super) fn run_with(&mut self, helpers: &Pool) -> Result<()> {
        let entry = self.entry;
        let parts: Vec<Part<'_>> = self.shares.iter_mut().map(Part::new).collect();
        let is_left = AtomicBool::new(false);
        // The first part is the calling thread's own.
        let help = |_| parts.iter().skip(1).for_each(|part| part.help(entry, &is_left));
        let waited = helpers.during(&help, || {
            let waited = wait_for(&parts, entry);
            is_left.store(true, Ordering::Relaxed);
            waited
        });
        drop(parts);
        waited.inspect_err(|error| self.give_up(error))?;
        self.ended()
    }
}

/// Goes on with the parts that no helper has until all are over.
fn wait_for(parts: &[Part<'_>], entry: Entry) -> Result<()> {
    // Each must be polled, whatever the others say.
    let poll = || parts.iter().fold(true, |over, part| part.go_on(entry) & over);
    // BOUND: a part of a communicator that is gone ends when it is polled.
    while !poll() {
        let Some(part) = parts.iter().find(|part| !part.is_over()) else { continue };
        let Ok(comm) = registry::shared(part.comm) else { continue };
        let waited = comm.transport.wait_polling(SHORT_NAP, poll);
        match parts.iter().any(|part| part.share.lock().is_outside()) {
            true => registry::unless_interrupted(waited)?,
            false => waited?,
        }
    }
    Ok(())
}

impl<'a> Part<'a> {
    fn new(share: &'a mut PolledShare) -> Part<'a> {
        let [is_taken, is_over] = [false; 2].map(AtomicBool::new);
        Part { comm: share.handle(), share: Mutex::new(share), is_taken, is_over }
    }

    fn is_over(&self) -> bool {
        // ORDER: what the call has written is seen; partner: `poll`.
        self.is_over.load(Ordering::Acquire)
    }

    /// Goes on with it as far as it can without waiting. Returns whether it is over.
    fn poll(&self, entry: Entry) -> bool {
        let is_over = self.share.lock().poll(entry);
        if is_over {
            // ORDER: shows what the call has written; partner: `is_over`.
            self.is_over.store(true, Ordering::Release);
        }
        is_over
    }

    /// The same, for the calling thread: a helper that has it goes on with it.
    fn go_on(&self, entry: Entry) -> bool {
        self.is_over() || (!self.is_taken.load(Ordering::Relaxed) && self.poll(entry))
    }

    /// Takes it, unless another helper has, and goes on with it until it is over, or the helper's patience is. `is_left`: the calling
    /// thread has given up.
    fn help(&self, entry: Entry, is_left: &AtomicBool) {
        if self.is_over() || self.is_taken.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut in_vain, mut before) = (0u32, clock::now_ns());
        let mut since = before;
        // BOUND: the calls' end, or `PATIENCE_NS` after data have been moved.
        while !self.is_over() && !self.poll(entry) && !is_left.load(Ordering::Relaxed) {
            let now = clock::now_ns();
            if now - before > MOVED_NS {
                (in_vain, since) = (0, now);
            } else if now - since > PATIENCE_NS {
                break;
            }
            before = now;
            in_vain = in_vain.saturating_add(1);
            if in_vain > LOOKS_BEFORE_YIELD {
                cpu::yield_now();
            } else {
                pause();
            }
        }
        self.is_taken.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::comm::calls::collective::Call;
    use crate::comm::{self, CommHandle, Config, registry};
    use crate::error::{Code, Result};
    use crate::memory::view::Address;
    use crate::sys::cpu;
    use crate::types::{Collective, DataType, RedOp};
    use std::time::Duration;

    #[allow(unsafe_code)]
    fn sum(buffer: &mut [u32]) -> Call<'static> {
        // SAFETY: every test ends its group before it lets go of the buffer.
        let address = unsafe { Address::from_raw(buffer.as_mut_ptr().cast()) };
        Call {
            collective: Collective::AllReduce,
            send: address,
            recv: address,
            count: buffer.len(),
            dtype: DataType::Uint32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        }
    }

    /// Elements with which two ranks have enough for a second thread.
    const LARGE: usize = 40_000;

    /// Makes an all-reduce of each rank in one group.
    fn sums(comms: &[CommHandle], data: &mut [Vec<u32>]) -> Result<()> {
        comm::group_start()?;
        for (comm, data) in comms.iter().zip(data) {
            comm::collective(*comm, &sum(data), None)?;
        }
        comm::group_end()
    }

    /// Tells whether threads help with a group of two of the ranks of this one.
    fn is_helped(comm: CommHandle) -> bool {
        registry::shared(comm).unwrap().transport.threads_for_group(2).is_some()
    }

    #[test]
    fn one_thread_has_the_results_of_all_its_ranks_when_the_group_ends() {
        for n in [2, 3, 5] {
            let comms = comm::init_all(n).unwrap();
            assert_eq!(is_helped(comms[0]), cpu::usable_cores() > 1);
            for round in 0..40u32 {
                let size = [LARGE, 300_001, 7][round as usize % 3];
                let mut data: Vec<_> = (0..n as u32).map(|rank| vec![rank + round; size]).collect();
                sums(&comms, &mut data).unwrap();
                let expected = (0..n as u32).map(|rank| rank + round).sum::<u32>();
                assert!(data.iter().flatten().all(|&x| x == expected), "{n} ranks, round {round}");
            }
            comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
        }
    }

    #[test]
    fn calls_of_a_rank_are_made_in_their_order_by_any_thread() {
        let comms = comm::init_all(2).unwrap();
        for round in 0..20u32 {
            let mut data = [vec![round; LARGE], vec![round + 1; LARGE]];
            let mut gathered = [vec![0; 2 * LARGE], vec![0; 2 * LARGE]];
            comm::group_start().unwrap();
            for ((comm, data), gathered) in comms.iter().zip(&mut data).zip(&mut gathered) {
                let first = sum(data);
                comm::collective(*comm, &first, None).unwrap();
                let recv = sum(gathered).recv;
                let second = Call { collective: Collective::AllGather, recv, ..first };
                comm::collective(*comm, &second, None).unwrap();
            }
            comm::group_end().unwrap();
            assert!(data.iter().chain(&gathered).flatten().all(|&x| x == 2 * round + 1), "round {round}");
        }
        comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
    }

    #[test]
    fn a_rank_that_differs_is_told_by_the_group_and_one_that_never_comes_ends_with_an_abort() {
        let comms = comm::init_all(3).unwrap();
        let mut data: Vec<_> = (0..3).map(|rank| vec![rank; LARGE + (rank == 1) as usize]).collect();
        let told = sums(&comms, &mut data).unwrap_err();
        assert!(told.message.contains("count"), "{told}");
        comms.into_iter().for_each(|comm| comm::abort(comm).unwrap());

        let comms = comm::init_all(3).unwrap();
        let mut data: Vec<_> = (0..2).map(|rank| vec![rank; LARGE]).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than a helper waits for peers.
                std::thread::sleep(Duration::from_millis(50));
                comm::abort(comms[2]).unwrap();
            });
            let told = sums(&comms[..2], &mut data).unwrap_err();
            assert!(told.code == Code::RemoteError && told.message.contains("abort"), "{told}");
        });
        comms[..2].iter().for_each(|comm| comm::abort(*comm).unwrap());
    }

    #[test]
    fn the_calling_thread_is_alone_where_the_program_says_so() {
        let id = comm::unique_id().unwrap();
        let config = Config { threads: Some(1), ..Config::default() };
        comm::group_start().unwrap();
        let comms = [0, 1].map(|rank| comm::init_rank(2, &id, rank, &config).unwrap());
        comm::group_end().unwrap();
        assert!(!is_helped(comms[0]));
        let mut data = [1, 2].map(|value| vec![value; LARGE]);
        sums(&comms, &mut data).unwrap();
        assert!(data.iter().flatten().all(|&x| x == 3));
        comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
    }
}
