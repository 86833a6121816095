//! The threads that help a rank: with large copies and folds, and with groups of large calls; how many, and from which size on.

use super::Transport;
use crate::sync::parallel_for::pool::Pool;
use crate::sync::parallel_for::{DIVIDED_FROM, ParallelFor};
use crate::sys::cpu;
use crate::sys::parallel_function::ParallelFunction;
use crate::types::Rank;
use std::sync::OnceLock;

/// What a caller has said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSettings {
    /// Threads of this rank, the calling one among them; `None`: by the cores that it shares with no other rank.
    pub threads: Option<u32>,
    /// The program's own way to run a loop.
    pub function: Option<ParallelFunction>,
}

/// The threads of one rank, which are chosen and started when they are first needed.
pub struct RankThreads {
    /// The size from which on copies are divided; `usize::MAX`: never.
    from: usize,
    settings: ThreadSettings,
    /// `None`: the calling thread is alone.
    chosen: OnceLock<Option<ParallelFor>>,
    /// Threads that go on with calls of other communicators, where a thread makes calls of several in a group.
    for_groups: OnceLock<Pool>,
}

impl RankThreads {
    /// Makes the threads that `settings` describes.
    pub fn new(settings: ThreadSettings) -> RankThreads {
        let is_alone = match settings.threads {
            Some(threads) => threads <= 1,
            None => cpu::usable_cores() == 1,
        };
        let from = if is_alone { usize::MAX } else { DIVIDED_FROM };
        RankThreads { from, settings, chosen: OnceLock::new(), for_groups: OnceLock::new() }
    }

    /// The calling thread alone.
    pub fn alone() -> RankThreads {
        RankThreads::new(ThreadSettings { threads: Some(1), function: None })
    }

    fn choose(&self, rank: Rank, default: impl FnOnce() -> usize) -> Option<ParallelFor> {
        let threads = self.settings.threads.unwrap_or_else(|| default() as u32);
        (threads > 1).then(|| ParallelFor::new(rank, threads, self.settings.function))
    }
}

impl Transport {
    /// Returns the threads that share a copy of `bytes` bytes; `None` if the calling thread copies alone.
    #[inline]
    pub fn threads_for(&self, bytes: usize) -> Option<&ParallelFor> {
        if bytes < self.threads.from { None } else { self.chosen_threads() }
    }

    #[cold]
    fn chosen_threads(&self) -> Option<&ParallelFor> {
        let threads = &self.threads;
        threads.chosen.get_or_init(|| threads.choose(self.rank, || self.own_cores())).as_ref()
    }

    /// The cores that this rank may use, divided by the ranks of this host that may use one of them too, and those of other hosts that
    /// are the same machine. Ranks of the first communicator of its ancestry count, because they are at work while this communicator's
    /// calls are.
    fn own_cores(&self) -> usize {
        let cores = cpu::usable_cores();
        let sharing = |of: &Transport| cpu::sharing_cores(of.processes()) + of.far_on_this_machine();
        let sharing = self.ancestor.upgrade().map_or_else(|| sharing(self), |first| sharing(&first));
        (cores / sharing.max(1)).max(1)
    }

    /// Returns the threads that help with a group of large calls of `comms` communicators, of which this is the first, and starts them
    /// the first time; `None` if the calling thread is to be alone.
    pub fn threads_for_group(&self, comms: usize) -> Option<&Pool> {
        let helpers = comms.min(self.cores_here() as usize).saturating_sub(1);
        let may_help = helpers > 0 && self.threads.from != usize::MAX;
        may_help.then(|| self.threads.for_groups.get_or_init(|| Pool::new("penny-group", helpers as u32)))
    }

    /// Tells whether the program's function has left out a part of a copy: then this rank's data are not complete.
    pub fn threads_have_failed(&self) -> bool {
        self.threads.chosen.get().is_some_and(|chosen| chosen.as_ref().is_some_and(ParallelFor::has_failed))
    }

    /// Ends the threads that the library has started for this rank.
    pub fn end_threads(&self) {
        if let Some(Some(chosen)) = self.threads.chosen.get() {
            chosen.end();
        }
        self.threads.for_groups.get().into_iter().for_each(Pool::end);
    }
}
