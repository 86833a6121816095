//! Folds of 16- and 8-bit floats: widened, folded and rounded in registers, sixteen elements at a time.
//!
//! One loop for every format, operation and instruction set; an instruction set gives [`Codec`]s and the operations on its
//! registers. What every architecture has is [`Floats`], an array that the compiler may put in whatever registers exist.

use super::FoldSource;
use super::codec::{self, Format};
use super::combine::{Combine, Max, Min, Prod, Sum};
use super::tail;
use super::unary::{Map, Same, Square, reciprocal};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements a step.
pub const WIDTH: usize = 16;
/// Steps that are folded before the first of them is rounded, where a step is long.
const BATCH: usize = 16;
/// 64-bit words of a step of the widest format.
const WORDS: usize = WIDTH * size_of::<u16>() / size_of::<u64>();

/// A small format's way into sixteen float32, held as `L`, and back.
pub trait Codec<L> {
    /// An element as bits.
    type Code: Copy + Default;
    /// Whether several steps are folded before they are rounded. Widening and rounding take many instructions, so the CPU cannot
    /// look past one step for independent work.
    const LONG: bool = false;
    /// The floats of sixteen codes.
    ///
    /// # Safety
    /// Valid for [`WIDTH`] elements, aligned or not; the CPU has what the implementation uses.
    unsafe fn load(codes: *const Self::Code) -> L;
    /// The nearest codes, ties to even.
    ///
    /// # Safety
    /// As `load`.
    unsafe fn store(codes: *mut Self::Code, floats: L);
    /// Rounds floats as storing and loading them does. NaNs are plain before and after it.
    #[inline(always)]
    fn rounded(floats: L) -> L {
        let mut codes = [Self::Code::default(); WIDTH];
        // SAFETY: the array has WIDTH elements; the caller's promise.
        unsafe {
            Self::store(codes.as_mut_ptr(), floats);
            Self::load(codes.as_ptr())
        }
    }
}

/// Floats held together, that can be one number.
pub trait Splat {
    /// Returns the number in all places.
    fn splat(x: f32) -> Self;
}

/// Folds n elements of `sources`, `offset` bytes into each, to `out`, in a reduction among `ranks` ranks.
///
/// # Safety
/// All are valid for the elements, aligned or not, and each source is `out` exactly or does not overlap it; the CPU has
/// what `L` and `C` use.
#[inline(always)]
pub unsafe fn fold<L, C, O, M>(out: *mut u8, sources: &[FoldSource<'_>], offset: usize, n: usize, ranks: u32)
where
    L: Copy,
    C: Codec<L>,
    O: Combine<L>,
    M: Map<L>,
{
    let (whole, map) = (n - n % WIDTH, M::among(ranks));
    // SAFETY: below `whole` full steps fit; the rest goes through a full step on the stack, of which as many elements
    // count as there are.
    unsafe {
        // The common number of sources is known to the compiler, which then keeps their addresses in registers.
        if let &[a, b] = sources {
            steps::<L, C, O, M>(out, &[a, b], offset, whole, map);
        } else {
            steps::<L, C, O, M>(out, sources, offset, whole, map);
        }
        if whole < n {
            let size = size_of::<C::Code>();
            let (bytes, tail) = ((n - whole) * size, offset + whole * size);
            let mut acc = tail_of::<L, C, M>(&sources[0], tail, bytes, map);
            for source in &sources[1..] {
                acc = O::of(acc, tail_of::<L, C, M>(source, tail, bytes, map));
            }
            let mut codes = [0; WORDS];
            C::store(codes.as_mut_ptr().cast(), acc);
            tail::write(out.add(whole * size), codes, bytes);
        }
    }
}

/// The full steps of [`fold`].
///
/// # Safety
/// As [`fold`], for `whole` elements, a multiple of [`WIDTH`].
#[inline(always)]
unsafe fn steps<L, C, O, M>(out: *mut u8, sources: &[FoldSource<'_>], offset: usize, whole: usize, map: M)
where
    L: Copy,
    C: Codec<L>,
    O: Combine<L>,
    M: Map<L>,
{
    let out = out.cast::<C::Code>();
    // SAFETY: i + WIDTH <= whole, and the caller's promise. What is read of a batch has been written just before.
    unsafe {
        if !C::LONG {
            for i in (0..whole).step_by(WIDTH) {
                C::store(out.add(i), step::<L, C, O, M>(sources, offset, i, map));
            }
            return;
        }
        let mut batch = [MaybeUninit::<L>::uninit(); BATCH];
        for from in (0..whole).step_by(BATCH * WIDTH) {
            for (floats, i) in batch.iter_mut().zip((from..whole).step_by(WIDTH)) {
                floats.write(step::<L, C, O, M>(sources, offset, i, map));
            }
            for (floats, i) in batch.iter().zip((from..whole).step_by(WIDTH)) {
                C::store(out.add(i), floats.assume_init());
            }
        }
    }
}

/// Elements `i .. i + WIDTH` folded.
///
/// # Safety
/// The sources hold them, from `offset` bytes on.
#[inline(always)]
unsafe fn step<L, C, O, M>(sources: &[FoldSource<'_>], offset: usize, i: usize, map: M) -> L
where
    L: Copy,
    C: Codec<L>,
    O: Combine<L>,
    M: Map<L>,
{
    let at = offset + i * size_of::<C::Code>();
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = mapped(C::load(sources[0].view.addr().add(at).cast()), sources[0].raw, map);
        for source in &sources[1..] {
            acc = O::of(acc, mapped(C::load(source.view.addr().add(at).cast()), source.raw, map));
        }
        acc
    }
}

/// Fewer than [`WIDTH`] elements of a source, and zeros after them.
///
/// # Safety
/// The source holds `bytes` bytes at `offset`.
#[inline(always)]
unsafe fn tail_of<L, C: Codec<L>, M: Map<L>>(
    source: &FoldSource<'_>,
    offset: usize,
    bytes: usize,
    map: M,
) -> L {
    // SAFETY: the caller's promise; the words hold a step of any format.
    unsafe {
        let codes = tail::read::<WORDS>(source.view.addr().add(offset), bytes);
        mapped(C::load(codes.as_ptr().cast()), source.raw, map)
    }
}

#[inline(always)]
fn mapped<L, M: Map<L>>(x: L, raw: bool, map: M) -> L {
    if raw { map.of(x) } else { x }
}

/// Shares of an average, in a format.
pub struct ShareOf<L, C>(L, PhantomData<C>);

impl<L: Copy, C> Clone for ShareOf<L, C> {
    fn clone(&self) -> ShareOf<L, C> {
        *self
    }
}
impl<L: Copy, C> Copy for ShareOf<L, C> {}

impl<L: Copy + Splat, C: Codec<L>> Map<L> for ShareOf<L, C>
where
    Prod: Combine<L>,
{
    #[inline(always)]
    fn among(nranks: u32) -> ShareOf<L, C> {
        ShareOf(C::rounded(L::splat(reciprocal(nranks))), PhantomData)
    }
    #[inline(always)]
    fn of(self, x: L) -> L {
        C::rounded(Prod::of(x, self.0))
    }
}

/// Sixteen floats, anywhere.
#[derive(Clone, Copy)]
pub struct Floats([f32; WIDTH]);

impl<F: Format<Code: Default>> Codec<Floats> for F {
    type Code = F::Code;
    #[inline(always)]
    unsafe fn load(codes: *const F::Code) -> Floats {
        // SAFETY: the caller's promise.
        let codes = unsafe { codes.cast::<[F::Code; WIDTH]>().read_unaligned() };
        Floats(codes.map(codec::widen::<F>))
    }
    #[inline(always)]
    unsafe fn store(codes: *mut F::Code, floats: Floats) {
        // SAFETY: the caller's promise.
        unsafe { codes.cast::<[F::Code; WIDTH]>().write_unaligned(floats.0.map(codec::narrow::<F>)) }
    }
}

macro_rules! each {
    ($($op:ident)*) => {$(
        impl Combine<Floats> for $op {
            #[inline(always)]
            fn of(a: Floats, b: Floats) -> Floats {
                Floats(std::array::from_fn(|i| <$op as Combine<f32>>::of(a.0[i], b.0[i])))
            }
        }
    )*};
}
each! { Sum Prod Max Min }

impl Map<Floats> for Square {
    #[inline(always)]
    fn among(_: u32) -> Square {
        Square
    }
    #[inline(always)]
    fn of(self, x: Floats) -> Floats {
        Floats(x.0.map(|x| Square.of(x)))
    }
}

impl<L> Map<L> for Same {
    #[inline(always)]
    fn among(_: u32) -> Same {
        Same
    }
    #[inline(always)]
    fn of(self, x: L) -> L {
        x
    }
}

impl Splat for Floats {
    #[inline(always)]
    fn splat(x: f32) -> Floats {
        Floats([x; WIDTH])
    }
}
