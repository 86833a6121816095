//! Folds and copies that several threads share.
//!
//! ```text
//!     destination   |  line  |  line  |  line  |  line  |  line  |
//!     pieces          '--- 0 ---'------- 1 -------'------ 2 ------'     each ends where a line of the destination ends
//! ```
//!
//! Elements are folded each by itself, so the bits do not depend on the pieces. No two threads write to one line of the first
//! destination, unless its elements lie across lines.

use super::copy::LINE;
use super::{Dest, Fold, FoldSource};
use crate::error::Result;
use crate::memory::view::Payload;
use crate::sync::parallel_for::ParallelFor;
use std::ops::Range;

/// Returns the elements of a piece of a vector of `count` elements of `size` bytes, whose destination begins at `address`.
pub(super) fn piece(address: usize, count: usize, size: usize, pieces: u32, index: u32) -> Range<usize> {
    let bytes = count * size;
    let end_of = |pieces_before: u32| {
        if pieces_before == pieces {
            return count;
        }
        let share = bytes / pieces as usize * pieces_before as usize;
        let line = (address % LINE + share) / LINE * LINE;
        line.saturating_sub(address % LINE) / size
    };
    end_of(index)..end_of(index + 1)
}

/// Folds as [`Fold::fold`] does; without threads in the calling one.
#[inline]
pub fn fold(
    threads: Option<&ParallelFor>,
    fold: &Fold,
    sources: &[FoldSource<'_>],
    dests: &[Dest<'_>],
    count: usize,
    finish: bool,
) -> Result<()> {
    let Some(threads) = threads else {
        fold.fold(sources, dests, count, finish);
        return Ok(());
    };
    let (size, address) = (fold.size, dests.first().map_or(0, |dest| dest.view.addr() as usize));
    let pieces = threads.pieces(count * size);
    threads.run(pieces, &|index| {
        let elements = piece(address, count, size, pieces, index);
        let mut sources = sources.to_vec();
        sources.iter_mut().for_each(|source| source.view = part(source.view, &elements, size));
        let mut dests = dests.to_vec();
        dests.iter_mut().for_each(|dest| dest.view = part(dest.view, &elements, size));
        fold.fold(&sources, &dests, elements.len(), finish);
    })
}

/// Copies as [`kernels::copy`](super::copy()) does; without threads in the calling one.
#[inline]
pub fn copy(
    threads: Option<&ParallelFor>,
    to: Payload<'_>,
    from: Payload<'_>,
    non_temporal: bool,
) -> Result<()> {
    let Some(threads) = threads else {
        super::copy(to, from, non_temporal);
        return Ok(());
    };
    assert_eq!(to.bytes(), from.bytes(), "a copy's ends are equally long");
    let pieces = threads.pieces(to.bytes());
    threads.run(pieces, &|index| {
        let bytes = piece(to.addr() as usize, to.bytes(), 1, pieces, index);
        super::copy(part(to, &bytes, 1), part(from, &bytes, 1), non_temporal);
    })
}

fn part<'v>(view: Payload<'v>, elements: &Range<usize>, size: usize) -> Payload<'v> {
    view.part(elements.start * size, elements.len() * size)
}
