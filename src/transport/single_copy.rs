//! Private buffers that peers read where they lie, through the kernel: one copy instead of two (docs/decisions/0033).
//!
//! Each rank finds out when it joins whether it may read all others and whether its kernel is quick, and says so in its life
//! line. Ranks offer private buffers only where all have said yes, so all of them take the same way.

use super::Transport;
use crate::error::{Error, Result};
use crate::memory::control::largest_payload;
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sys::process_memory::{self, Speed};
use crate::types::{Collective, Rank};
use std::time::Duration;

/// Whether ranks read each other's private buffers, and where that is worth it. `Life::reads` holds what a rank says of itself; what
/// all have said counts. The default: no rank reads another's memory, and nothing is known of their cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleCopy(u32);

/// How long a rank looks for the reason why another's memory could not be read.
const LOOKS: u32 = 2_000;
const LOOK: Duration = Duration::from_millis(1);

/// The most ranks that read each other's input for an all-gather: of more, a block that its rank has copied once is quicker.
const ALL_GATHER_RANKS: u32 = 4;

impl SingleCopy {
    /// It may read the others' memory.
    const READS: u32 = 1;
    /// No other rank runs on its core.
    const OWN_CORE: u32 = 2;
    /// Its kernel takes little more than the copy itself.
    const QUICK: u32 = 4;
    /// Its kernel takes some times a copy.
    const STEADY: u32 = 8;
    /// The user wants it, however slow the kernel is and however many ranks share a core.
    const WANTED: u32 = 16;
    /// What holds if all ranks have said it; else one is enough, because a measurement beside other work may only be too slow.
    const OF_ALL: u32 = SingleCopy::READS | SingleCopy::OWN_CORE | SingleCopy::WANTED;

    /// Returns what counts of what ranks have said.
    fn of(told: impl Iterator<Item = u32>) -> SingleCopy {
        let (all, any) = told.fold((u32::MAX, 0), |(all, any), told| (all & told, any | told));
        SingleCopy(all & SingleCopy::OF_ALL | any & !SingleCopy::OF_ALL)
    }

    /// Tells whether ranks read each other's memory.
    pub fn reads(self) -> bool {
        self.0 & SingleCopy::READS != 0 && self.0 & (SingleCopy::QUICK | SingleCopy::STEADY) != 0
    }

    /// Tells whether each rank has a core of its own.
    pub fn has_own_cores(self) -> bool {
        self.0 & SingleCopy::OWN_CORE != 0
    }

    /// Tells whether `nranks` ranks read each other's private input in a collective with blocks of this size.
    ///
    /// Smaller blocks come with the arrivals. Of larger ones a peer writes a part to staging memory while this rank reads the
    /// part before, which is quicker than one copy by the kernel (docs/decisions/0033); a root that scatters has its own block
    /// to copy, and in an all-to-all every rank has. Where a read takes some times a copy, it is worth it for ranks that would wait
    /// for another's copies, each on a core of its own. An all-reduce counts as many blocks as ranks, each of which one rank folds
    /// (docs/decisions/0081).
    pub fn serves(self, collective: Collective, nranks: u32, block_bytes: usize) -> bool {
        let (quick, wanted) = (self.0 & SingleCopy::QUICK != 0, self.0 & SingleCopy::WANTED != 0);
        let own_cores = wanted || self.has_own_cores();
        if !self.reads() || !(quick || own_cores) {
            return false;
        }
        let is_beyond_arrivals = nranks as usize * block_bytes > largest_payload(nranks as usize);
        let (least, most) = match collective {
            Collective::AlltoAll if own_cores && nranks > 2 && is_beyond_arrivals => (8 << 10, usize::MAX),
            Collective::AlltoAll if own_cores => (32 << 10, usize::MAX),
            Collective::AlltoAll => (32 << 10, 2 << 20),
            Collective::AllGather if nranks == 2 && quick && own_cores => (32 << 10, 8 << 20),
            Collective::AllGather if nranks <= ALL_GATHER_RANKS => (32 << 10, 2 << 20),
            Collective::Gather if quick => (32 << 10, 512 << 10),
            Collective::Scatter => (if own_cores && nranks > 4 { 8 << 10 } else { 32 << 10 }, usize::MAX),
            Collective::AllReduce | Collective::ReduceScatter if own_cores && nranks > 3 => {
                let least_of_all = match nranks {
                    4 => 2 << 20,
                    5..=8 => 1 << 20,
                    _ => 256 << 10,
                };
                (least_of_all / nranks as usize, usize::MAX)
            }
            _ => return false,
        };
        (least..=most).contains(&block_bytes)
    }

    /// Tells whether ranks read each other's input though it could come with the arrivals.
    pub fn precedes_arrivals(self, collective: Collective, nranks: u32, block_bytes: usize) -> bool {
        let worth = match collective {
            Collective::AlltoAll | Collective::Gather | Collective::Scatter => true,
            Collective::AllGather => self.has_own_cores(),
            _ => false,
        };
        worth && self.serves(collective, nranks, block_bytes)
    }
}

impl Transport {
    /// Tells the others, before they count this rank as a member, whether it reads their memory.
    /// `wanted`: the user's choice; `None`: where the kernel is not slow. `own_core`: no other rank runs on this rank's core.
    pub fn tell_single_copy(&self, wanted: Option<bool>, own_core: bool) {
        let mut others = (0..self.nranks).filter(|&r| r != self.rank);
        let reads = |r| !self.is_far(r) && self.process(r).is_some_and(process_memory::may_read);
        let mut told = if own_core { SingleCopy::OWN_CORE } else { 0 };
        if self.nranks > 1 && wanted != Some(false) && others.all(reads) {
            told |= SingleCopy::READS;
            told |= if wanted == Some(true) { SingleCopy::WANTED } else { 0 };
            told |= match wanted.map_or_else(process_memory::speed, |_| Speed::Quick) {
                Speed::Quick => SingleCopy::QUICK,
                Speed::Steady => SingleCopy::STEADY,
                Speed::Slow => 0,
            };
        }
        self.control.life(self.rank).reads.store(told, Ordering::Relaxed);
    }

    /// The same for a rank that has told it in the communicator that this one was made from.
    pub fn tell_single_copy_as(&self, parent: &Transport) {
        let told = parent.control.life(parent.rank).reads.load(Ordering::Relaxed);
        self.control.life(self.rank).reads.store(told, Ordering::Relaxed);
    }

    /// Tells whether ranks read each other's memory. All of them find the same, once they have joined.
    #[inline]
    pub fn single_copy(&self) -> SingleCopy {
        *self.single_copy.get_or_init(|| {
            let told =
                |r| if self.is_far(r) { 0 } else { self.lines(r).life(r).reads.load(Ordering::Relaxed) };
            SingleCopy::of((0..self.nranks).map(told))
        })
    }

    /// Reads private memory of a rank, at an address that the rank itself gave.
    pub fn read_private(&self, rank: Rank, address: u64, to: Payload<'_>) -> Result<()> {
        to.read_from(self.pid(rank), address).or_else(|why| self.unreadable(rank, to.bytes(), &why))
    }

    #[cold]
    fn unreadable(&self, rank: Rank, bytes: usize, why: &std::io::Error) -> Result<()> {
        // A rank that died, gave up or aborted may have taken its memory along before that can be seen.
        for _ in 0..LOOKS {
            self.check_abort()?;
            self.watch_ranks(std::iter::once(rank))?;
            std::thread::sleep(LOOK);
        }
        Err(Error::remote(format!(
            "{bytes} bytes of the buffer that rank {rank} (pid {}) passed cannot be read: {why}; is the buffer as large as its \
             count says? PENNY_SINGLE_COPY=0 copies without the kernel",
            self.pid(rank)
        )))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Collective::*;

    const K: usize = 1 << 10;

    #[test]
    fn a_kernel_that_is_not_quick_serves_ranks_on_cores_of_their_own() {
        let quick = SingleCopy(SingleCopy::READS | SingleCopy::QUICK | SingleCopy::OWN_CORE);
        let steady = SingleCopy(SingleCopy::READS | SingleCopy::STEADY | SingleCopy::OWN_CORE);
        let crowded = SingleCopy(SingleCopy::READS | SingleCopy::STEADY);
        let slow = SingleCopy(SingleCopy::READS | SingleCopy::OWN_CORE);
        for (collective, nranks, block, served) in [
            (AlltoAll, 2, 32 * K, [true, true]),
            (AlltoAll, 2, 16 * K, [false, false]),
            (AlltoAll, 8, 16 * K, [true, true]),
            (AlltoAll, 8, 8 * K, [false, false]),
            (AllGather, 4, 32 * K, [true, true]),
            (AllGather, 4, 4096 * K, [false, false]),
            (AllGather, 2, 8192 * K, [true, false]),
            (AllGather, 2, 8193 * K, [false, false]),
            (Gather, 4, 64 * K, [true, false]),
            (Scatter, 8, 64 * K, [true, true]),
            (Scatter, 9, 64 * K, [true, true]),
            (Scatter, 9, 8 * K, [true, true]),
            (Scatter, 4, 8 * K, [false, false]),
            (AllGather, 5, 64 * K, [false, false]),
            (AllReduce, 2, 4096 * K, [false, false]),
            (AllReduce, 4, 64 * K, [false, false]),
            (AllReduce, 4, 512 * K, [true, true]),
            (ReduceScatter, 16, 16 * K, [true, true]),
            (ReduceScatter, 8, 64 * K, [false, false]),
            (ReduceScatter, 8, 128 * K, [true, true]),
            (Reduce, 8, 512 * K, [false, false]),
        ] {
            let told = [quick, steady].map(|single_copy| single_copy.serves(collective, nranks, block));
            assert_eq!(told, served, "{collective} of {nranks} ranks, {block} bytes");
            assert!(!crowded.serves(collective, nranks, block), "{collective}");
            assert!(!slow.serves(collective, nranks, block), "{collective}");
        }
    }

    #[test]
    fn what_could_come_with_the_arrivals_is_read_where_that_is_quicker() {
        let own_cores = SingleCopy(SingleCopy::READS | SingleCopy::STEADY | SingleCopy::OWN_CORE);
        let shared_cores = SingleCopy(SingleCopy::READS | SingleCopy::QUICK);
        assert!(own_cores.precedes_arrivals(AllGather, 4, 32 * K));
        assert!(own_cores.precedes_arrivals(AllGather, 2, 32 * K));
        assert!(!own_cores.precedes_arrivals(AllGather, 2, 16 * K));
        assert!(!shared_cores.precedes_arrivals(AllGather, 4, 32 * K));
        assert!(shared_cores.precedes_arrivals(Scatter, 4, 32 * K));
    }

    #[test]
    fn one_rank_that_may_not_read_forbids_it_and_one_that_was_slow_to_measure_does_not() {
        let (quick, slow) = (SingleCopy::READS | SingleCopy::QUICK, SingleCopy::READS);
        assert!(SingleCopy::of([quick, slow, slow].into_iter()).reads());
        assert!(!SingleCopy::of([quick, 0, quick].into_iter()).reads());
        assert!(!SingleCopy::of([slow, slow].into_iter()).reads());
        let own = SingleCopy::OWN_CORE;
        assert!(SingleCopy::of([own, own].into_iter()).has_own_cores());
        assert!(!SingleCopy::of([own, quick].into_iter()).has_own_cores());
    }
}
