//! Reductions and copies at memory speed.
//!
//! The one entry for reductions is [`Fold::fold`]: fold k sources left to right, element by element, and write the
//! result to one or several destinations. [`copy`] moves bytes, [`zero`] clears them.
//!
//! Integers, float32 and float64 are folded by stages. Each is one loop, and what passes between them lies in a block that
//! stays in the first-level cache, so every source is read once and every destination written once:
//!
//! ```text
//!     source 0 --map--+                                map      raw sources only: square, x != 0, x/n
//!                     combine--+                       divide   Avg of integers only, on finish
//!     source 1 --map--+        combine--divide--> dest 0
//!                              |             +--> dest 1
//!     source 2 --map-----------+
//! ```
//!
//! A stage that has nothing to do is left out: operands are read straight from the sources, the last combine writes straight
//! to a single destination, and a fold of two is one loop. An average of floats maps as it combines. The 16- and 8-bit floats take all stages at once, in registers,
//! between widening to float32 and rounding back (`small.rs`).
//!
//! Every loop is written once and compiled for every instruction set (`isa.rs`); which one is used is a value, not a global.
//!
//! # Which bits
//!
//! The result depends on the values and their order only, never on instruction set, alignment, slicing or the place of the
//! destination:
//! - integers wrap around; `Avg` divides at the end and truncates toward zero;
//! - `Avg` of floats adds the products of the raw sources and 1/n, where 1/n and each product are rounded to the element type:
//!   to the bit the sum of inputs that were multiplied by 1/n before;
//! - float16, bfloat16 and float8 are float32 during a fold and rounded once, to nearest even, at its end;
//! - a float result that is not a number is the one positive quiet NaN with no payload, whichever NaN went in;
//! - `Max` and `Min` prefer numbers to NaN, and hold that -0 < +0;
//! - float8 saturates: what is too large, and an infinity, becomes +-448 (float8e4m3) or +-57344 (float8e5m2);
//! - one source to which nothing is done is copied, NaN payload and all.
//!
//! Payload may change under our hands: it is read through raw pointers only, and no address or length is made of it.

mod codec;
mod combine;
mod copy;
pub mod divided;
pub mod hints;
mod isa;
#[cfg(all(test, not(loom)))]
pub(crate) mod oracle;
mod small;
mod tail;
#[cfg(all(test, not(loom)))]
mod tests;
mod unary;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use copy::{await_stores, bits, claim, copy, put_bits, zero};
pub use isa::Isa;

use crate::memory::view::Payload;
use crate::types::{DataType, RedOp};
use isa::{Join, Stages};
use std::mem::MaybeUninit;

/// An operand of a fold.
#[derive(Clone, Copy)]
pub struct FoldSource<'a> {
    /// The elements; they need not be aligned.
    pub view: Payload<'a>,
    /// A rank's own untouched input, so the operation's map (square, x != 0, x/n) applies to it.
    pub raw: bool,
}

/// A destination of a result.
#[derive(Clone, Copy)]
pub struct Dest<'a> {
    /// The place of its elements; they need not be aligned.
    pub view: Payload<'a>,
    /// Write around the caches, if the place is aligned to 64 bytes: for what this core does not read again soon.
    pub non_temporal: bool,
}

impl<'a> Dest<'a> {
    /// Through the caches.
    pub const fn cached(view: Payload<'a>) -> Dest<'a> {
        Dest { view, non_temporal: false }
    }
}

/// A fold of one element type with one operation, as a value that can be kept and copied.
#[derive(Clone, Copy)]
pub struct Fold {
    /// Bytes of one element.
    size: usize,
    nranks: u32,
    stages: Stages,
}

/// Bytes that pass between two stages. Two blocks and what streams past them fit the smallest first-level caches.
const BLOCK: usize = 4096;

/// A block on the stack, not initialised: short folds touch only what they use.
#[repr(C, align(64))]
struct Block([MaybeUninit<u8>; BLOCK]);

impl Fold {
    /// The fastest way on this CPU; `None` if the type does not have the operation.
    pub fn new(dtype: DataType, op: RedOp, nranks: u32) -> Option<Fold> {
        Fold::on(Isa::best(), dtype, op, nranks)
    }

    /// The way of one instruction set; `None` also where this CPU lacks it.
    pub fn on(isa: Isa, dtype: DataType, op: RedOp, nranks: u32) -> Option<Fold> {
        let stages = isa.stages(dtype, op)?;
        Some(Fold { size: dtype.size(), nranks: nranks.max(1), stages })
    }

    /// Folds `sources` left to right, element by element, `count` elements, into every one of `dests`.
    ///
    /// `finish` says that this fold completes the reduction, so `Avg` of integers divides.
    ///
    /// A destination may be exactly a source, at the same address, or share no byte with it. Panics if a view is too short
    /// or nothing is given to fold.
    #[inline]
    pub fn fold(&self, sources: &[FoldSource<'_>], dests: &[Dest<'_>], count: usize, finish: bool) {
        match (sources, dests) {
            (&[a, b], &[dest]) => self.fold_two(a, b, dest, count, finish),
            _ => self.fold_any(sources, dests, count, finish),
        }
    }

    /// Folds two sources as [`Fold::fold`] does. Operands that need neither map nor division go without a detour: they are on the path of
    /// the smallest messages.
    #[inline(always)]
    pub fn fold_two(&self, a: FoldSource<'_>, b: FoldSource<'_>, dest: Dest<'_>, count: usize, finish: bool) {
        if let (Stages::Plain { map, join, divide }, false) = (self.stages, dest.non_temporal)
            && !(finish && divide.is_some() || map.is_some() && join.is_plain() && (a.raw || b.raw))
            && count
                .checked_mul(self.size)
                .is_some_and(|bytes| bytes <= a.view.bytes().min(b.view.bytes()).min(dest.view.bytes()))
        {
            debug_assert!(apart(&[a, b], &[dest], count * self.size));
            // SAFETY: the views hold `count` elements, and the stages are of this CPU.
            return unsafe { self.combine(join, dest.view.addr(), a.operand(0), b.operand(0), count) };
        }
        self.fold_any(&[a, b], &[dest], count, finish);
    }

    /// Folds as [`Fold::fold`] does.
    #[inline(never)]
    fn fold_any(&self, sources: &[FoldSource<'_>], dests: &[Dest<'_>], count: usize, finish: bool) {
        let bytes = count.checked_mul(self.size).expect("a fold's length fits the address space");
        assert!(!sources.is_empty(), "a fold has at least one source");
        assert!(sources.iter().all(|s| s.view.bytes() >= bytes), "a source of a fold is too short");
        assert!(dests.iter().all(|d| d.view.bytes() >= bytes), "a destination of a fold is too short");
        debug_assert!(apart(sources, dests, bytes));
        let (maps, divides) = match self.stages {
            Stages::Plain { map, divide, .. } => (map.is_some(), divide.is_some()),
            Stages::Small { maps, .. } => (maps, false),
        };
        let divide = finish && divides;
        let unmapped = !(maps && sources.iter().any(|s| s.raw));
        match (self.stages, sources, dests) {
            (_, [only], _) if unmapped && !divide => {
                for dest in dests {
                    copy(dest.view.part(0, bytes), only.view.part(0, bytes), dest.non_temporal);
                }
            }
            // Short, and the destination is not read after it is first written: it is its own block.
            (Stages::Plain { join, divide: divider, .. }, [a, b, rest @ ..], [dest])
                if bytes <= BLOCK
                    && (unmapped || !join.is_plain())
                    && !dest.non_temporal
                    && rest.iter().all(|s| s.view.addr() != dest.view.addr()) =>
            {
                let out = dest.view.addr();
                // SAFETY: the views hold `count` elements, as asserted, and the stages are of this CPU.
                unsafe {
                    self.combine(join, out, a.operand(0), b.operand(0), count);
                    for source in rest {
                        self.combine(join, out, Operand::folded(out), source.operand(0), count);
                    }
                    if let Some(divider) = divider.filter(|_| divide) {
                        divider(out, count, self.nranks);
                    }
                }
            }
            (Stages::Small { fold, .. }, _, [dest]) if !dest.non_temporal => {
                // SAFETY: as above.
                unsafe { fold(dest.view.addr(), sources, 0, count, self.nranks) }
            }
            // SAFETY: as above.
            _ => unsafe { self.fold_blocks(sources, dests, count, divide) },
        }
    }

    /// Writes a op b to `out`, which may be exactly `a` or `b`. Every operation commutes, to the bit.
    ///
    /// # Safety
    /// All three hold n values, `out` overlaps none in part, and the CPU has what `join` uses.
    #[inline(always)]
    unsafe fn combine(&self, join: Join, out: *mut u8, a: Operand, b: Operand, n: usize) {
        let (a, b) = if std::ptr::eq(out, b.at) { (b, a) } else { (a, b) };
        let onto_a = std::ptr::eq(out, a.at);
        // SAFETY: the caller's promise.
        unsafe {
            match join {
                Join::Plain { onto, .. } if onto_a => onto(out, b.at, n),
                Join::Plain { pair, .. } => pair(out, a.at, b.at, n),
                Join::Shares { onto, .. } if onto_a => onto(out, b.at, n, [a.raw, b.raw], self.nranks),
                Join::Shares { pair, .. } => pair(out, a.at, b.at, n, [a.raw, b.raw], self.nranks),
            }
        }
    }

    /// Block by block, for what one loop cannot do.
    ///
    /// # Safety
    /// `sources` and `dests` hold `count` elements; destinations are writable.
    #[inline(never)] // its blocks would burden the stack of the short folds above
    unsafe fn fold_blocks(&self, sources: &[FoldSource<'_>], dests: &[Dest<'_>], count: usize, divide: bool) {
        let (mut first, mut second) =
            (Block([MaybeUninit::uninit(); BLOCK]), Block([MaybeUninit::uninit(); BLOCK]));
        let (acc, room) = (first.0.as_mut_ptr().cast::<u8>(), second.0.as_mut_ptr().cast::<u8>());
        let non_temporal =
            |d: &Dest<'_>| d.non_temporal && (d.view.addr() as usize).is_multiple_of(copy::LINE);
        // One destination is written by the last combine itself; the others are copied from it while it is in the cache.
        let first =
            if divide { None } else { dests.iter().find(|d| !non_temporal(d)).map(|d| d.view.addr()) };

        let step = BLOCK / self.size;
        for at in (0..count).step_by(step) {
            let (n, offset) = ((count - at).min(step), at * self.size);
            let out = first.map(|d| d.wrapping_add(offset));
            // SAFETY: n elements at `offset` lie within every view, and fit a block. A block is read only where a stage has
            // written it. A destination's part is written only when all sources' parts have been read.
            unsafe {
                let value = match self.stages {
                    Stages::Small { fold, .. } => {
                        fold(acc, sources, offset, n, self.nranks);
                        acc
                    }
                    Stages::Plain { map, join, divide: divider } => {
                        let map = map.filter(|_| join.is_plain() || sources.len() == 1);
                        let operand = |source: &FoldSource<'_>, room: *mut u8| {
                            let operand = source.operand(offset);
                            let Some(map) = map.filter(|_| source.raw) else { return operand };
                            room.copy_from_nonoverlapping(operand.at, n * self.size);
                            map(room, n, self.nranks);
                            Operand::folded(room)
                        };
                        let mut value = operand(&sources[0], acc);
                        for (i, source) in sources.iter().enumerate().skip(1) {
                            let to = if i + 1 == sources.len() { out.unwrap_or(acc) } else { acc };
                            self.combine(join, to, value, operand(source, room), n);
                            value = Operand::folded(to);
                        }
                        let mut value = value.at;
                        if let Some(divider) = divider.filter(|_| divide) {
                            if value != acc {
                                acc.copy_from_nonoverlapping(value, n * self.size);
                                value = acc;
                            }
                            divider(acc, n, self.nranks);
                        }
                        value
                    }
                };
                for dest in dests {
                    let to = dest.view.addr().add(offset);
                    if to != value {
                        copy::block(to, value, n * self.size, non_temporal(dest));
                    }
                }
            }
        }
        if dests.iter().any(non_temporal) {
            copy::fence();
        }
    }
}

/// Where an operand of a combination begins.
#[derive(Clone, Copy)]
struct Operand {
    at: *mut u8,
    /// As of its source.
    raw: bool,
}

impl Operand {
    /// Returns an operand to which the operation's map has been applied.
    fn folded(at: *mut u8) -> Operand {
        Operand { at, raw: false }
    }
}

impl FoldSource<'_> {
    /// Returns the operand `offset` bytes into the source.
    #[inline(always)]
    fn operand(&self, offset: usize) -> Operand {
        Operand { at: self.view.addr().wrapping_add(offset), raw: self.raw }
    }
}

/// Tells whether every destination is exactly a source or does not overlap it, in the first `bytes` bytes.
fn apart(sources: &[FoldSource<'_>], dests: &[Dest<'_>], bytes: usize) -> bool {
    let pair = |d: &Dest<'_>, s: &FoldSource<'_>| {
        s.view.addr() == d.view.addr() || !s.view.part(0, bytes).overlaps(d.view.part(0, bytes))
    };
    dests.iter().all(|d| sources.iter().all(|s| pair(d, s)))
}
