//! What is done to one operand: the map before combining, the division after.
//!
//! All in place, on values in a block. Division is exact in every type: see [`Divide`].

use super::combine::PlainNan;

/// A map on one value.
pub trait Map<T> {
    /// The value mapped.
    fn of(x: T) -> T;
}

/// x.
pub struct Same;
/// x * x.
pub struct Square;
/// 1 where x != 0, else 0.
pub struct NonZero;

/// Division by a number of ranks.
///
/// Integers truncate toward zero. Vector units divide floats only, so narrow integers go through one that is wide enough:
/// where x and the quotient's distance from the next integer, at least 1/n, are exact to more bits than x has, the
/// rounded quotient never reaches an integer that the true one does not.
pub trait Divide {
    /// self / n.
    fn divide(self, n: u32) -> Self;
}

macro_rules! integer {
    ($($t:ty)*) => {$(
        impl Map<$t> for Square {
            #[inline(always)]
            fn of(x: $t) -> $t {
                x.wrapping_mul(x)
            }
        }
        impl Map<$t> for NonZero {
            #[inline(always)]
            fn of(x: $t) -> $t {
                (x != 0) as $t
            }
        }
    )*};
}

macro_rules! float {
    ($($t:ty)*) => {$(
        impl Map<$t> for Square {
            #[inline(always)]
            fn of(x: $t) -> $t {
                (x * x).with_plain_nan()
            }
        }
        impl Divide for $t {
            #[inline(always)]
            fn divide(self, n: u32) -> $t {
                (self / n as $t).with_plain_nan()
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
float! { f32 f64 }
divide! { i8, f32, i32; u8, f32, i32; i16, f32, i32; u16, f32, i32; i32, f64, i32; u32, f64, u32; }
divide_wide! { i64 u64 }

/// Maps n values in place.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not.
#[inline(always)]
pub unsafe fn map<T: Copy, M: Map<T>>(x: *mut u8, n: usize) {
    let x = x.cast::<T>();
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe { x.add(i).write_unaligned(M::of(x.add(i).read_unaligned())) }
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
