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

/// `Life::reads`: the rank reads all others' memory.
const READS: u32 = 1;

/// How long a rank looks for the reason why another's memory could not be read.
const LOOKS: u32 = 2_000;
const LOOK: Duration = Duration::from_millis(1);

/// Tells whether ranks may read each other's private input in a collective with blocks of this size, if their kernel lets them.
///
/// Smaller blocks come with the arrivals. Of larger ones a peer writes a part to staging memory while this rank reads the part
/// before, which is quicker than one copy by the kernel (docs/decisions/0033); a root that scatters has its own block to copy.
pub const fn serves(collective: Collective, block_bytes: usize) -> bool {
    let most = match collective {
        Collective::Gather => 512 << 10,
        Collective::AllGather | Collective::AlltoAll => 2 << 20,
        Collective::Scatter => usize::MAX,
        _ => return false,
    };
    32 << 10 <= block_bytes && block_bytes <= most
}

impl Transport {
    /// Tells the others, before they count this rank as a member, whether it reads their memory.
    /// `wanted`: the user's choice; `None`: where the kernel is quick.
    pub fn tell_single_copy(&self, wanted: Option<bool>) {
        let mut others = (0..self.nranks).filter(|&r| r != self.rank);
        let reads = |r| !self.is_far(r) && self.process(r).is_some_and(process_memory::may_read);
        let wanted = || wanted.unwrap_or_else(process_memory::is_quick);
        let reads = self.nranks > 1 && wanted() && others.all(reads);
        self.control.life(self.rank).reads.store(reads as u32 * READS, Ordering::Relaxed);
    }

    /// The same for a rank that has told it in the communicator that this one was made from.
    pub fn tell_single_copy_as(&self, parent: &Transport) {
        let told = parent.control.life(parent.rank).reads.load(Ordering::Relaxed);
        self.control.life(self.rank).reads.store(told, Ordering::Relaxed);
    }

    /// Tells whether all ranks read each other's memory. All of them find the same, once they have joined.
    #[inline]
    pub fn copies_once(&self) -> bool {
        *self.copies_once.get_or_init(|| {
            (0..self.nranks)
                .all(|r| !self.is_far(r) && self.lines(r).life(r).reads.load(Ordering::Relaxed) == READS)
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
