//! What is done to one operand: the map before combining, the division after.
//!
//! All in place, on values in a block. Division is exact in every integer: see [`Divide`].

use super::combine::PlainNan;

/// A map on one value.
pub trait Map<T>: Copy {
    /// Returns the map for a reduction among `nranks` ranks.
    fn among(nranks: u32) -> Self;
    /// Maps a value.
    fn of(self, x: T) -> T;
}

/// x.
#[derive(Clone, Copy)]
pub struct Same;
/// x * x.
#[derive(Clone, Copy)]
pub struct Square;
/// 1 where x != 0, else 0.
#[derive(Clone, Copy)]
pub struct NonZero;
/// A rank's share of an average: x * (1/n), where 1/n and the product are rounded to the element type.
#[derive(Clone, Copy)]
pub struct Portion<F>(pub F);

/// Returns 1/n as a float32, as NCCL computes it.
#[inline(always)]
pub fn reciprocal(nranks: u32) -> f32 {
    (1.0 / f64::from(nranks)) as f32
}

/// Division by a number of ranks.
///
/// It truncates toward zero. Vector units divide floats only, so narrow integers go through one that is wide enough:
/// where x and the quotient's distance from the next integer, at least 1/n, are exact to more bits than x has, the
/// rounded quotient never reaches an integer that the true one does not.
pub trait Divide {
    /// self / n.
    fn divide(self, n: u32) -> Self;
}

/// Floats of which averages are made.
pub trait Shares: Copy {
    /// The factor of an operand that has its share already. The product is the operand.
    const WHOLE: Self;
    /// Returns 1/n, the factor of a rank's input.
    fn share(nranks: u32) -> Self;
    /// Adds two operands, each times its factor.
    fn sum(a: Self, of_a: Self, b: Self, of_b: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Map<$t> for Square {
            #[inline(always)]
            fn among(_: u32) -> Square {
                Square
            }
            #[inline(always)]
            fn of(self, x: $t) -> $t {
                x.wrapping_mul(x)
            }
        }
        impl Map<$t> for NonZero {
            #[inline(always)]
            fn among(_: u32) -> NonZero {
                NonZero
            }
            #[inline(always)]
            fn of(self, x: $t) -> $t {
                (x != 0) as $t
            }
        }
    )*};
}

macro_rules! float {
    ($($t:ident $reciprocal:expr;)*) => {$(
        impl Map<$t> for Square {
            #[inline(always)]
            fn among(_: u32) -> Square {
                Square
            }
            #[inline(always)]
            fn of(self, x: $t) -> $t {
                (x * x).with_plain_nan()
            }
        }
        impl Map<$t> for Portion<$t> {
            #[inline(always)]
            fn among(nranks: u32) -> Portion<$t> {
                Portion($reciprocal(nranks))
            }
            #[inline(always)]
            fn of(self, x: $t) -> $t {
                (x * self.0).with_plain_nan()
            }
        }
        impl Shares for $t {
            const WHOLE: $t = 1.0;
            #[inline(always)]
            fn share(nranks: u32) -> $t {
                $reciprocal(nranks)
            }
            #[inline(always)]
            fn sum(a: $t, of_a: $t, b: $t, of_b: $t) -> $t {
                (a * of_a + b * of_b).with_plain_nan()
            }
        }
    )*};
}

macro_rules! divide {
    ($($t:ty, $wide:ty, $back:ty;)*) => {$(
        impl Divide for $t {
            #[inline(always)]
            fn divide(self, n: u32) -> $t {
                // SAFETY: n >= 1, so the quotient is finite and within the integer's range.
                unsafe { (self as $wide / n as $wide).to_int_unchecked::<$back>() as $t }
            }
        }
    )*};
}

macro_rules! divide_wide {
    ($($t:ty)*) => {$(
        impl Divide for $t {
            #[inline(always)]
            fn divide(self, n: u32) -> $t {
                self / n as $t
            }
        }
    )*};
}

integer! { u8 u16 u32 u64 }
float! { f32 reciprocal; f64 |n| 1.0 / f64::from(n); }
divide! { i8, f32, i32; u8, f32, i32; i16, f32, i32; u16, f32, i32; i32, f64, i32; u32, f64, u32; }
divide_wide! { i64 u64 }

/// Maps n values in place.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not; `ranks` >= 1.
#[inline(always)]
pub unsafe fn map<T: Copy, M: Map<T>>(x: *mut u8, n: usize, ranks: u32) {
    let (x, map) = (x.cast::<T>(), M::among(ranks));
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe { x.add(i).write_unaligned(map.of(x.add(i).read_unaligned())) }
    }
}

/// Divides n values in place.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not; `ranks` >= 1.
#[inline(always)]
pub unsafe fn divide<T: Copy + Divide>(x: *mut u8, n: usize, ranks: u32) {
    let x = x.cast::<T>();
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe { x.add(i).write_unaligned(x.add(i).read_unaligned().divide(ranks)) }
    }
}
