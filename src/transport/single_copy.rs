//! Private buffers that peers read where they lie, through the kernel: one copy instead of two (docs/decisions/0033).
//!
//! Each rank finds out when it joins whether it may read all others and whether its kernel is quick, and says so in its life
//! line. Ranks offer private buffers only where all have said yes, so all of them take the same way.

use super::Transport;
use crate::error::{Error, Result};
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::sys::process_memory;
use crate::types::{Collective, Rank};
use std::time::Duration;

/// Whether ranks read each other's private buffers. `Life::reads` holds a rank's own answer; the least of all counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum SingleCopy {
    /// Some rank does not.
    Never = 0,
    /// All do, but ranks share cores.
    Crowded = 1,
    /// All do, each on a core of its own.
    Roomy = 2,
}

/// How long a rank looks for the reason why another's memory could not be read.
const LOOKS: u32 = 2_000;
const LOOK: Duration = Duration::from_millis(1);

impl SingleCopy {
    /// Tells whether ranks read each other's private input in a collective with blocks of this size.
    ///
    /// Smaller blocks come with the arrivals. Of larger ones a peer writes a part to staging memory while this rank reads the
    /// part before, which is quicker than one copy by the kernel (docs/decisions/0033); a root that scatters has its own block
    /// to copy, and in an all-to-all every rank has.
    pub fn serves(self, collective: Collective, block_bytes: usize) -> bool {
        let most = match collective {
            _ if self == SingleCopy::Never => return false,
            Collective::Gather => 512 << 10,
            Collective::AlltoAll if self == SingleCopy::Roomy => usize::MAX,
            Collective::AllGather | Collective::AlltoAll => 2 << 20,
            Collective::Scatter => usize::MAX,
            _ => return false,
        };
        (32 << 10..=most).contains(&block_bytes)
    }
}

impl Transport {
    /// Tells the others, before they count this rank as a member, whether it reads their memory.
    /// `wanted`: the user's choice; `None`: where the kernel is quick. `roomy`: no other rank runs on this rank's core.
    pub fn tell_single_copy(&self, wanted: Option<bool>, roomy: bool) {
        let mut others = (0..self.nranks).filter(|&r| r != self.rank);
        let reads = |r| !self.is_far(r) && self.process(r).is_some_and(process_memory::may_read);
        let wanted = || wanted.unwrap_or_else(process_memory::is_quick);
        let reads = self.nranks > 1 && wanted() && others.all(reads);
        let told = match (reads, roomy) {
            (false, _) => SingleCopy::Never,
            (true, false) => SingleCopy::Crowded,
            (true, true) => SingleCopy::Roomy,
        };
        self.control.life(self.rank).reads.store(told as u32, Ordering::Relaxed);
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
            let told = |r| match self.lines(r).life(r).reads.load(Ordering::Relaxed) {
                _ if self.is_far(r) => SingleCopy::Never,
                0 => SingleCopy::Never,
                1 => SingleCopy::Crowded,
                _ => SingleCopy::Roomy,
            };
            (0..self.nranks).map(told).min().unwrap_or(SingleCopy::Never)
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
