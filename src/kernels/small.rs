//! Folds of 16- and 8-bit floats: widened, folded and rounded in registers, sixteen elements at a time.
//!
//! One loop for every format, operation and instruction set; an instruction set gives [`Codec`]s and the operations on its
//! registers. What every architecture has is [`Floats`], an array that the compiler may put in whatever registers exist.

use super::Source;
use super::codec::{self, Format};
use super::combine::{Combine, Max, Min, Prod, Sum};
use super::unary::{Divide, Map, Same, Square};

/// Elements a step.
pub const WIDTH: usize = 16;

/// A small format's way into sixteen float32, held as `L`, and back.
pub trait Codec<L> {
    /// An element as bits.
    type Code: Copy + Default;
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
}

/// Fold n elements of `sources`, `offset` bytes into each, to `out`; divide the result if a divisor is given.
///
/// # Safety
/// All are valid for the elements, aligned or not, and each source is `out` exactly or does not overlap it; the CPU has
/// what `L` and `C` use.
#[inline(always)]
pub unsafe fn fold<L, C, O, M>(
    out: *mut u8,
    sources: &[Source<'_>],
    offset: usize,
    n: usize,
    divisor: Option<u32>,
) where
    L: Copy + Divide,
    C: Codec<L>,
    O: Combine<L>,
    M: Map<L>,
{
    let whole = n - n % WIDTH;
    // SAFETY: below `whole` full steps fit; the rest goes through a full step on the stack, of which as many elements
    // count as there are.
    unsafe {
        // The common number of sources is known to the compiler, which then keeps their addresses in registers.
        if let &[a, b] = sources {
            steps::<L, C, O, M>(out, &[a, b], offset, whole, divisor);
        } else {
            steps::<L, C, O, M>(out, sources, offset, whole, divisor);
        }
        if whole < n {
            let size = size_of::<C::Code>();
            let (rest, tail) = (n - whole, offset + whole * size);
            let mut acc = tail_of::<L, C, M>(&sources[0], tail, rest);
            for source in &sources[1..] {
                acc = O::of(acc, tail_of::<L, C, M>(source, tail, rest));
            }
            let mut codes = [C::Code::default(); WIDTH];
            C::store(codes.as_mut_ptr(), divided(acc, divisor));
            copy_rest(out.cast::<C::Code>().add(whole), codes.as_ptr(), rest);
        }
    }
}

/// The full steps of [`fold`].
///
/// # Safety
/// As [`fold`], for `whole` elements, a multiple of [`WIDTH`].
#[inline(always)]
unsafe fn steps<L, C, O, M>(
    out: *mut u8,
    sources: &[Source<'_>],
    offset: usize,
    whole: usize,
    divisor: Option<u32>,
) where
    L: Copy + Divide,
    C: Codec<L>,
    O: Combine<L>,
    M: Map<L>,
{
    let size = size_of::<C::Code>();
    for i in (0..whole).step_by(WIDTH) {
        // SAFETY: i + WIDTH <= whole, and the caller's promise.
        unsafe {
            let load = |source: &Source<'_>| C::load(source.view.addr().add(offset + i * size).cast());
            let mut acc = mapped::<L, M>(load(&sources[0]), sources[0].raw);
            for source in &sources[1..] {
                acc = O::of(acc, mapped::<L, M>(load(source), source.raw));
            }
            C::store(out.add(i * size).cast(), divided(acc, divisor));
        }
    }
}

/// Fewer than [`WIDTH`] elements of a source, and zeros after them.
///
/// # Safety
/// The source holds `rest` elements at `offset` bytes.
#[inline(always)]
unsafe fn tail_of<L, C: Codec<L>, M: Map<L>>(source: &Source<'_>, offset: usize, rest: usize) -> L {
    let mut codes = [C::Code::default(); WIDTH];
    // SAFETY: the caller's promise.
    unsafe {
        copy_rest(codes.as_mut_ptr(), source.view.addr().add(offset).cast(), rest);
        mapped::<L, M>(C::load(codes.as_ptr()), source.raw)
    }
}

#[inline(always)]
fn mapped<L, M: Map<L>>(x: L, raw: bool) -> L {
    if raw { M::of(x) } else { x }
}

#[inline(always)]
fn divided<L: Divide>(x: L, divisor: Option<u32>) -> L {
    match divisor {
        Some(n) => x.divide(n),
        None => x,
    }
}

/// Copy fewer elements than a step has, in pieces of fixed sizes: a call would cost more than the copy.
///
/// # Safety
/// Valid for n elements, aligned or not.
#[inline(always)]
unsafe fn copy_rest<T: Copy>(out: *mut T, from: *const T, n: usize) {
    let mut at = 0;
    // SAFETY: the pieces are n's binary digits, so together they are n elements.
    unsafe {
        at += copy_piece::<T, 8>(out, from, n, at);
        at += copy_piece::<T, 4>(out, from, n, at);
        at += copy_piece::<T, 2>(out, from, n, at);
        copy_piece::<T, 1>(out, from, n, at);
    }
}

/// Copy N elements at `at` if n has that binary digit; how many were copied.
///
/// # Safety
/// As [`copy_rest`].
#[inline(always)]
unsafe fn copy_piece<T: Copy, const N: usize>(out: *mut T, from: *const T, n: usize, at: usize) -> usize {
    if n & N == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { out.add(at).cast::<[T; N]>().write_unaligned(from.add(at).cast::<[T; N]>().read_unaligned()) };
    N
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
    fn of(x: Floats) -> Floats {
        Floats(x.0.map(<Square as Map<f32>>::of))
    }
}

impl<L> Map<L> for Same {
    #[inline(always)]
    fn of(x: L) -> L {
        x
    }
}

impl Divide for Floats {
    #[inline(always)]
    fn divide(self, n: u32) -> Floats {
        Floats(self.0.map(|x| x.divide(n)))
    }
}
