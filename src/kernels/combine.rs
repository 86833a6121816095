//! The loops that combine two operands, and what combining means for each operation.
//!
//! Plain loops over raw pointers: the compiler makes vectors of them for each instruction set. It checks for overlap at run
//! time, hence two shapes, for `out` apart from its operands and for `out` that is one of them.

use super::unary::Shares;

/// One operation on two values. Commutes, to the bit.
pub trait Combine<T> {
    /// a op b.
    fn of(a: T, b: T) -> T;
}

/// a + b.
pub struct Sum;
/// a * b.
pub struct Prod;
/// The larger.
pub struct Max;
/// The smaller.
pub struct Min;
/// a & b.
pub struct And;
/// a | b.
pub struct Or;
/// a ^ b.
pub struct Xor;

macro_rules! combine {
    ($($t:ident { $($op:ident |$a:ident, $b:ident| $value:expr;)* })*) => {$($(
        impl Combine<$t> for $op {
            #[inline(always)]
            fn of($a: $t, $b: $t) -> $t {
                $value
            }
        }
    )*)*};
}

macro_rules! unsigned {
    ($($t:ident)*) => { combine! { $($t {
        Sum |a, b| a.wrapping_add(b);
        Prod |a, b| a.wrapping_mul(b);
        Max |a, b| a.max(b);
        Min |a, b| a.min(b);
        And |a, b| a & b;
        Or |a, b| a | b;
        Xor |a, b| a ^ b;
    })* } };
}

// Only order tells signed from unsigned; for the rest the unsigned type of the same width serves both.
macro_rules! signed {
    ($($t:ident)*) => { combine! { $($t {
        Max |a, b| a.max(b);
        Min |a, b| a.min(b);
    })* } };
}

macro_rules! float {
    ($($t:ident)*) => { combine! { $($t {
        Sum |a, b| (a + b).with_plain_nan();
        Prod |a, b| (a * b).with_plain_nan();
        Max |a, b| {
            let larger = if a > b { a } else { b };
            // Equal values differ at most in the sign of zero; +0 is the larger.
            let larger = if a == b { $t::from_bits(a.to_bits() & b.to_bits()) } else { larger };
            if b.is_nan() { a } else { larger }.with_plain_nan()
        };
        Min |a, b| {
            let smaller = if a < b { a } else { b };
            let smaller = if a == b { $t::from_bits(a.to_bits() | b.to_bits()) } else { smaller };
            if b.is_nan() { a } else { smaller }.with_plain_nan()
        };
    })* } };
}

unsigned! { u8 u16 u32 u64 }
signed! { i8 i16 i32 i64 }
float! { f32 f64 }

/// Floats whose NaNs are made one, since which operand's NaN an addition passes on is the compiler's choice.
pub trait PlainNan {
    /// The value; if it is a NaN, the positive quiet one without payload.
    fn with_plain_nan(self) -> Self;
}

macro_rules! plain_nan {
    ($($t:ident $bits:literal)*) => {$(
        impl PlainNan for $t {
            #[inline(always)]
            fn with_plain_nan(self) -> $t {
                if self.is_nan() { $t::from_bits($bits) } else { self }
            }
        }
    )*};
}
plain_nan! { f32 0x7fc0_0000 f64 0x7ff8_0000_0000_0000 }

/// out = a op b, where `out` overlaps neither.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not.
#[inline(always)]
pub unsafe fn pair<T: Copy, O: Combine<T>>(out: *mut u8, a: *const u8, b: *const u8, n: usize) {
    let (out, a, b) = (out.cast::<T>(), a.cast::<T>(), b.cast::<T>());
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe {
            let value = O::of(a.add(i).read_unaligned(), b.add(i).read_unaligned());
            out.add(i).write_unaligned(value);
        }
    }
}

/// out = out op b, where `out` does not overlap `b`.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not.
#[inline(always)]
pub unsafe fn onto<T: Copy, O: Combine<T>>(out: *mut u8, b: *const u8, n: usize) {
    let (out, b) = (out.cast::<T>(), b.cast::<T>());
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe {
            let value = O::of(out.add(i).read_unaligned(), b.add(i).read_unaligned());
            out.add(i).write_unaligned(value);
        }
    }
}

/// out = a times its factor + b times its factor, where `out` overlaps neither; `raw` says which are raw and take 1/`ranks`.
///
/// # Safety
/// Valid for n elements of `T`, aligned or not; `ranks` >= 1.
#[inline(always)]
pub unsafe fn pair_shares<T: Shares>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    n: usize,
    raw: [bool; 2],
    ranks: u32,
) {
    let (out, a, b) = (out.cast::<T>(), a.cast::<T>(), b.cast::<T>());
    let [of_a, of_b] = raw.map(|raw| if raw { T::share(ranks) } else { T::WHOLE });
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe {
            let value = T::sum(a.add(i).read_unaligned(), of_a, b.add(i).read_unaligned(), of_b);
            out.add(i).write_unaligned(value);
        }
    }
}

/// As [`pair_shares`] with `out` for a, where `out` does not overlap `b`.
///
/// # Safety
/// As [`pair_shares`].
#[inline(always)]
pub unsafe fn onto_shares<T: Shares>(out: *mut u8, b: *const u8, n: usize, raw: [bool; 2], ranks: u32) {
    let (out, b) = (out.cast::<T>(), b.cast::<T>());
    let [of_out, of_b] = raw.map(|raw| if raw { T::share(ranks) } else { T::WHOLE });
    for i in 0..n {
        // SAFETY: i < n, and the caller's promise.
        unsafe {
            let value = T::sum(out.add(i).read_unaligned(), of_out, b.add(i).read_unaligned(), of_b);
            out.add(i).write_unaligned(value);
        }
    }
}
