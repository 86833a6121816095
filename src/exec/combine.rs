//! Combines the operands of a step into its destinations.
//!
//! Operands in the private memory of peers are read by the kernel (docs/decisions/0033, 0081): one alone straight to where it belongs.
//! Several that are to be combined are read to memory of this rank's own, piece by piece, so that each piece is combined while it lies
//! in the core's cache:
//!
//! ```text
//!     rank 0's input  --->  | piece 0 |  \
//!     rank 1's input  --->  | piece 1 |   }--- fold, in the order of the ranks --->  destinations, piece by piece
//!     rank 3's input  --->  | piece 3 |  /
//! ```

use super::cut::LINE;
use super::small_vec::SmallVec;
use super::{Extent, Run};
use crate::error::Result;
use crate::kernels::{Dest, Fold, FoldSource, divided, hints};
use crate::memory::view::Payload;
use crate::plan::link::LinkedStep;
use crate::types::{Collective, Rank};

/// Bytes of the pieces of all operands together, at most: they stay in a second-level cache of 2 MiB, those of eight ranks in half of it.
const PIECES: usize = 1 << 20;
/// Bytes of a piece: below, the call of the kernel costs more than the copy; above, little is gained.
const PIECE: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;
/// Ranks that read a scattering root's memory at once, where blocks are smaller than this many bytes: more would wait for each other
/// in the kernel. What is read of larger blocks lies far enough apart.
const READERS_AT_ONCE: u32 = 3;
const TURNS_BELOW: usize = 256 << 10;
/// Pages that such a rank reads in one call of the kernel, which pins all pages of a call before it copies, and lists up to this many
/// without allocating memory.
const PAGES_AT_ONCE: usize = 16;
const PAGE: usize = 4 << 10;
/// The smallest slice that is copied out of another rank's slot several pages side by side.
const SIDE_BY_SIDE_FROM: usize = 32 << 10;

/// An operand in a peer's private memory.
#[derive(Clone, Copy)]
pub(super) struct PrivateOperand {
    /// Its place among the operands of the step.
    pub index: usize,
    pub rank: Rank,
    pub address: u64,
}

impl PrivateOperand {
    /// Makes an empty list.
    pub(super) fn none() -> SmallVec<PrivateOperand> {
        SmallVec::new(PrivateOperand { index: 0, rank: 0, address: 0 })
    }
}

/// Memory for pieces of operands, kept between calls.
#[derive(Default)]
pub struct Pieces(Vec<u64>);

impl Pieces {
    /// Returns `bytes` bytes that begin with a line.
    fn view(&mut self, bytes: usize) -> Payload<'_> {
        let words = (bytes + LINE) / size_of::<u64>();
        if self.0.len() < words {
            self.0 = vec![0; words];
        }
        let all = Payload::from(&mut self.0[..]);
        all.part(all.addr().align_offset(LINE), bytes)
    }
}

impl<'a> Run<'a, '_> {
    /// Notes an operand of the present step: where it lies behind the start of a buffer of `rank`.
    pub(super) fn private(
        &mut self,
        index: usize,
        rank: Rank,
        start: Option<u64>,
        block: Option<u32>,
        extent: Extent,
    ) -> Payload<'a> {
        let (at, _) = self.bytes_at(block.unwrap_or(0), extent);
        self.private.push(PrivateOperand {
            index,
            rank,
            address: start.unwrap_or(0).wrapping_add(at as u64),
        });
        Payload::EMPTY
    }

    /// Combines the operands of a step for a slice.
    pub(super) fn combine(
        &mut self,
        step: &LinkedStep,
        extent: Extent,
        sources: &[FoldSource<'a>],
        dests: &[Dest<'a>],
    ) -> Result<()> {
        let fold = self.job.fold.filter(|_| sources.len() > 1 || step.finish);
        let threads = || self.t.threads_for(extent.count * self.job.size);
        match (fold, self.private.as_slice()) {
            (Some(fold), []) => divided::fold(threads(), fold, sources, dests, extent.count, step.finish),
            (Some(fold), _) => self.fold_private(fold, extent, sources, dests, step.finish),
            (None, &[operand, ..]) => self.copy_private(operand, dests),
            (None, []) => self.copy(sources[0].view, dests),
        }
    }

    /// Copies an operand that lies in shared memory to the destinations.
    fn copy(&self, source: Payload<'a>, dests: &[Dest<'a>]) -> Result<()> {
        let bytes = source.bytes();
        let threads = self.t.threads_for(bytes);
        let mut left = dests;
        if self.in_slot
            && threads.is_none()
            && (SIDE_BY_SIDE_FROM..=hints::limits().side_by_side).contains(&bytes)
            && let Some((first, others)) = dests.split_first()
            && !first.non_temporal
        {
            hints::copy_side_by_side(first.view, source);
            left = others;
        }
        left.iter().try_for_each(|dest| divided::copy(threads, dest.view, source, dest.non_temporal))
    }

    /// Copies an operand to the destinations.
    fn copy_private(&mut self, operand: PrivateOperand, dests: &[Dest<'a>]) -> Result<()> {
        let Some((first, others)) = dests.split_first() else { return Ok(()) };
        let PrivateOperand { rank, address, .. } = operand;
        match self.job.collective {
            Collective::Scatter if self.t.nranks() > 2 => {
                self.read_block_of_root(rank, address, first.view)?
            }
            _ => self.t.read_private(rank, address, first.view)?,
        }
        let threads = self.t.threads_for(first.view.bytes());
        others.iter().try_for_each(|dest| divided::copy(threads, dest.view, first.view, dest.non_temporal))
    }

    /// Reads this rank's block of what a root scatters, as other ranks read theirs.
    fn read_block_of_root(&mut self, root: Rank, address: u64, to: Payload<'_>) -> Result<()> {
        let n = self.t.nranks();
        let turn = (self.t.rank() + n - root) % n;
        if turn > READERS_AT_ONCE && to.bytes() < TURNS_BELOW {
            let before = (root + turn - READERS_AT_ONCE) % n;
            // One that has not come does not read.
            if self.t.has_arrived(before, self.scope.seq) {
                self.t.await_counter(before, self.base + 1, self.scope)?;
            }
        }
        let mut at = 0;
        while at < to.bytes() {
            let from = address + at as u64;
            let end_of_page = PAGE - from as usize % PAGE;
            let bytes = (end_of_page + (PAGES_AT_ONCE - 1) * PAGE).min(to.bytes() - at);
            self.t.read_private(root, from, to.part(at, bytes))?;
            at += bytes;
        }
        Ok(())
    }

    /// Combines operands of which some are in private memory.
    fn fold_private(
        &mut self,
        fold: &Fold,
        extent: Extent,
        sources: &[FoldSource<'a>],
        dests: &[Dest<'a>],
        finish: bool,
    ) -> Result<()> {
        let mut pieces = std::mem::take(&mut self.peers.pieces);
        let folded = self.fold_pieces(&mut pieces, fold, extent, (sources, dests), finish);
        self.peers.pieces = pieces;
        folded
    }

    fn fold_pieces(
        &self,
        pieces: &mut Pieces,
        fold: &Fold,
        extent: Extent,
        (sources, dests): (&[FoldSource<'a>], &[Dest<'a>]),
        finish: bool,
    ) -> Result<()> {
        let (size, operands) = (self.job.size, self.private.as_slice());
        let most = (PIECES / operands.len().max(1)).clamp(*PIECE.start(), *PIECE.end()) / size;
        let most = most.min(extent.count.next_multiple_of(LINE));
        let memory = pieces.view(operands.len() * most * size);
        // Ranks begin with different peers: a kernel lets those wait who read the same memory.
        let first = operands.iter().position(|operand| operand.rank > self.t.rank()).unwrap_or(0);
        let mut pieces = SmallVec::new(FoldSource { view: Payload::EMPTY, raw: false });
        let mut parts = SmallVec::new(Dest::cached(Payload::EMPTY));
        for start in (0..extent.count).step_by(most) {
            let (at, bytes) = (start * size, most.min(extent.count - start) * size);
            for i in (first..operands.len()).chain(0..first) {
                let PrivateOperand { rank, address, .. } = operands[i];
                self.t.read_private(rank, address + at as u64, memory.part(i * most * size, bytes))?;
            }
            pieces.clear();
            parts.clear();
            let mut read = operands.iter().enumerate().peekable();
            for (index, source) in sources.iter().enumerate() {
                let view = match read.next_if(|(_, operand)| operand.index == index) {
                    Some((i, _)) => memory.part(i * most * size, bytes),
                    None => source.view.part(at, bytes),
                };
                pieces.push(FoldSource { view, raw: source.raw });
            }
            dests.iter().for_each(|dest| parts.push(Dest { view: dest.view.part(at, bytes), ..*dest }));
            fold.fold(pieces.as_slice(), parts.as_slice(), bytes / size, finish);
        }
        Ok(())
    }
}
