//! Reductions and copies at memory speed.
//!
//! The one entry for reductions is [`Fold::fold`]: fold k sources left to right, element by element, and write the
//! result to one or several destinations. [`copy`] moves bytes, [`zero`] clears them.
//!
//! A fold is built of stages; each is one loop, compiled once for every instruction set and chosen separately:
//!
//! ```text
//!     source 0 --widen--map--+                                     widen, narrow   16- and 8-bit floats only
//!                            combine--+                            map             raw sources only: square, x != 0
//!     source 1 --widen--map--+        combine-- ... --divide--narrow--> dest 0     divide   Avg, on finish
//!                                     |                        +-----> dest 1 ...
//!     source 2 --widen--map-----------+
//! ```
//!
//! Between stages values lie in a block that stays in the first-level cache, so every source is read once and every
//! destination written once. Where a stage has nothing to do it is left out: float32 and integers are combined straight
//! from the sources, the last combine writes straight to a single destination, and two such sources are one loop.
//!
//! # Which bits
//!
//! The result depends on the values and their order only, never on instruction set, alignment, slicing or the place of the
//! destination:
//! - integers wrap around; `Avg` truncates toward zero;
//! - float16, bfloat16 and float8 are float32 during a fold and rounded once, to nearest even, at its end;
//! - a float result that is not a number is the one positive quiet NaN with no payload, whichever NaN went in;
//! - `Max` and `Min` prefer numbers to NaN, and hold that -0 < +0;
//! - float8e4m3 has no infinity: what is too large becomes +-448, as do infinities; float8e5m2 overflows to infinity;
//! - one source to which nothing is done is copied, NaN payload and all.
//!
//! Payload may change under our hands: it is read through raw pointers only, and no address or length is made of it.

mod codec;
mod combine;
mod copy;
mod isa;
#[cfg(test)]
pub(crate) mod oracle;
#[cfg(test)]
mod tests;
mod unary;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use copy::{copy, zero};
pub use isa::Isa;

use crate::memory::view::View;
use crate::types::{DataType, RedOp};
use isa::Stages;
use std::mem::MaybeUninit;

/// One operand of a fold.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Where its elements are; they need not be aligned.
    pub view: View<'a>,
    /// A rank's own untouched input, so the operation's map (square, x != 0) applies to it.
    pub raw: bool,
}

/// How to fold one element type with one operation: a value to keep and to copy.
#[derive(Clone, Copy)]
pub struct Fold {
    /// Bytes of one element.
    size: usize,
    nranks: u32,
    stages: Stages,
}

/// Bytes of values between two stages. Two blocks and what streams past them fit the smallest first-level caches.
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

    /// Fold `sources` left to right, element by element, `count` elements, into every one of `dests`.
    ///
    /// `finish` says that this fold completes the reduction, so `Avg` divides. `stream` writes around the caches where the
    /// destinations are aligned to 64 bytes; choose it for what will not be read again soon.
    ///
    /// A destination may be exactly a source, or share no byte with it. Panics if a view is too short or nothing is given
    /// to fold.
    pub fn fold(&self, sources: &[Source<'_>], dests: &[View<'_>], count: usize, finish: bool, stream: bool) {
        let bytes = count.checked_mul(self.size).expect("a fold's length fits the address space");
        assert!(!sources.is_empty(), "a fold has at least one source");
        assert!(sources.iter().all(|s| s.view.bytes() >= bytes), "a source of a fold is too short");
        assert!(dests.iter().all(|d| d.bytes() >= bytes), "a destination of a fold is too short");
        debug_assert!(
            dests.iter().all(|d| sources.iter().all(|s| {
                s.view.addr() == d.addr() || !s.view.part(0, bytes).overlaps(d.part(0, bytes))
            })),
            "a destination of a fold overlaps a source in part"
        );
        let divide = finish && self.stages.divide.is_some();
        match (sources, dests) {
            ([only], _) if !divide && !self.maps(only) => {
                for dest in dests {
                    copy(dest.part(0, bytes), only.view.part(0, bytes), stream);
                }
            }
            ([a, b], [dest])
                if !divide && !stream && self.stages.codec.is_none() && !self.maps(a) && !self.maps(b) =>
            {
                // SAFETY: the three views hold `count` elements, as asserted, and the stages are of this CPU.
                unsafe { self.combine(dest.addr(), a.view.addr(), b.view.addr(), count) }
            }
            // SAFETY: all views hold `count` elements, as asserted.
            _ => unsafe { self.fold_blocks(sources, dests, count, divide, stream) },
        }
    }

    /// Does the operation do something to this source before it is combined?
    fn maps(&self, source: &Source<'_>) -> bool {
        source.raw && self.stages.map.is_some()
    }

    /// # Safety
    /// `sources` and `dests` hold `count` elements; destinations are writable.
    unsafe fn fold_blocks(
        &self,
        sources: &[Source<'_>],
        dests: &[View<'_>],
        count: usize,
        divide: bool,
        stream: bool,
    ) {
        let Stages { codec, divide: divider, .. } = self.stages;
        let (mut first, mut second) =
            (Block([MaybeUninit::uninit(); BLOCK]), Block([MaybeUninit::uninit(); BLOCK]));
        let (acc, other) = (first.0.as_mut_ptr().cast::<u8>(), second.0.as_mut_ptr().cast::<u8>());
        let width = if codec.is_some() { size_of::<f32>() } else { self.size };
        let stream = stream && dests.iter().all(|d| (d.addr() as usize).is_multiple_of(copy::LINE));
        // The last stage that is needed writes to the destination itself.
        let only = if let ([dest], false) = (dests, stream) { Some(dest.addr()) } else { None };

        for at in (0..count).step_by(BLOCK / width) {
            let n = (count - at).min(BLOCK / width);
            let only = only.map(|d| d.wrapping_add(at * self.size));
            // SAFETY: elements at .. at + n lie within every view; n values fit a block; a block is read only where a stage
            // has written it, and no stage writes a destination before the block's sources are all read.
            unsafe {
                let mut value = self.operand(&sources[0], at, n, acc);
                for (i, source) in sources.iter().enumerate().skip(1) {
                    let next = self.operand(source, at, n, other);
                    let last = i + 1 == sources.len() && !divide && codec.is_none();
                    let out = if last { only.unwrap_or(acc) } else { acc };
                    self.combine(out, value, next, n);
                    value = out;
                }
                if let (true, Some(divider)) = (divide, divider) {
                    if value != acc {
                        acc.copy_from_nonoverlapping(value, n * width);
                        value = acc;
                    }
                    divider(acc, n, self.nranks);
                }
                if let Some(codec) = codec {
                    let out = only.unwrap_or(other);
                    (codec.narrow)(out, value, n);
                    value = out;
                }
                if only != Some(value) {
                    for dest in dests {
                        copy::block(dest.addr().add(at * self.size), value, n * self.size, stream);
                    }
                }
            }
        }
        if stream {
            copy::fence();
        }
    }

    /// Where the source's elements `at .. at + n` are, widened and mapped: in the payload itself or, if anything had to be
    /// done to them, in `room`.
    ///
    /// # Safety
    /// The source holds the elements; `room` has room for n values.
    #[inline]
    unsafe fn operand(&self, source: &Source<'_>, at: usize, n: usize, room: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise; the stages are of this CPU.
        unsafe {
            let payload = source.view.addr().add(at * self.size);
            match (self.stages.codec, self.stages.map.filter(|_| source.raw)) {
                (None, None) => return payload,
                (None, Some(map)) => {
                    room.copy_from_nonoverlapping(payload, n * self.size);
                    map(room, n);
                }
                (Some(codec), map) => {
                    (codec.widen)(room, payload, n);
                    if let Some(map) = map {
                        map(room, n);
                    }
                }
            }
            room
        }
    }

    /// out = a op b; `out` may be exactly `a` or `b`. Every operation commutes, to the bit.
    ///
    /// # Safety
    /// All three hold n values and do not overlap in part.
    #[inline]
    unsafe fn combine(&self, out: *mut u8, a: *mut u8, b: *mut u8, n: usize) {
        // SAFETY: the caller's promise; the stages are of this CPU.
        unsafe {
            if out == a {
                (self.stages.combine.onto)(out, b, n)
            } else if out == b {
                (self.stages.combine.onto)(out, a, n)
            } else {
                (self.stages.combine.pair)(out, a, b, n)
            }
        }
    }
}
