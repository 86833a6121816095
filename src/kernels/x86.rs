//! Sixteen floats in two AVX registers, and the small formats with F16C and AVX2.
//!
//! float8e5m2 is the upper byte of binary16; float8e4m3 at 1/256 its value is binary16 without the last seven bits: so both
//! are widened. They are narrowed in float32's own bits, for rounding to binary16 and then to float8 would round twice.
//!
//! These loops wait for results more than for units: what counts is how few instructions follow on one another.
//!
//! Every function here needs AVX2 and F16C, and is inlined into one that has been compiled with them and is called only
//! where the CPU has them. That is what `SAFETY: AVX2` means below. No closures, for they would not inherit the features.

use super::codec::{Bfloat, E4m3, E5m2, Format, Half};
use super::combine::{Combine, Max, Min, Prod, Sum};
use super::small::{Codec, Splat};
use super::unary::{Map, Square};
use std::arch::x86_64::*;

/// Sixteen floats, in whatever order the codec that loads and stores them likes.
#[derive(Clone, Copy)]
pub struct Avx([__m256; 2]);

impl Splat for Avx {
    #[inline(always)]
    fn splat(x: f32) -> Avx {
        // SAFETY: AVX2.
        unsafe { Avx([_mm256_set1_ps(x); 2]) }
    }
}

/// NaNs made one; see [`PlainNan`](super::combine::PlainNan).
#[inline(always)]
fn plain(x: __m256) -> __m256 {
    // SAFETY: AVX2.
    unsafe { _mm256_blendv_ps(x, _mm256_set1_ps(f32::NAN), _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)) }
}

macro_rules! combine {
    ($($op:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        impl Combine<Avx> for $op {
            #[inline(always)]
            fn of(a: Avx, b: Avx) -> Avx {
                #[inline(always)]
                fn of($a: __m256, $b: __m256) -> __m256 {
                    // SAFETY: AVX2.
                    plain(unsafe { $value })
                }
                Avx([of(a.0[0], b.0[0]), of(a.0[1], b.0[1])])
            }
        }
    )*};
}

// The instructions for maximum and minimum return b where the operands are equal or one is NaN.
combine! {
    Sum |a, b| _mm256_add_ps(a, b);
    Prod |a, b| _mm256_mul_ps(a, b);
    Max |a, b| {
        let tie = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        let larger = _mm256_blendv_ps(_mm256_max_ps(a, b), _mm256_and_ps(a, b), tie);
        _mm256_blendv_ps(larger, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b))
    };
    Min |a, b| {
        let tie = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        let smaller = _mm256_blendv_ps(_mm256_min_ps(a, b), _mm256_or_ps(a, b), tie);
        _mm256_blendv_ps(smaller, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(b, b))
    };
}

impl Map<Avx> for Square {
    #[inline(always)]
    fn among(_: u32) -> Square {
        Square
    }
    #[inline(always)]
    fn of(self, x: Avx) -> Avx {
        Prod::of(x, x)
    }
}

impl Codec<Avx> for Half {
    type Code = u16;
    #[inline(always)]
    unsafe fn load(codes: *const u16) -> Avx {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            let (low, high) = (_mm_loadu_si128(codes.cast()), _mm_loadu_si128(codes.add(8).cast()));
            Avx([_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)])
        }
    }
    #[inline(always)]
    unsafe fn store(codes: *mut u16, Avx([a, b]): Avx) {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            _mm_storeu_si128(codes.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a));
            _mm_storeu_si128(codes.add(8).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(b));
        }
    }
    #[inline(always)]
    fn rounded(Avx([a, b]): Avx) -> Avx {
        // SAFETY: AVX2.
        unsafe {
            Avx([
                _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)),
                _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(b)),
            ])
        }
    }
}

impl Codec<Avx> for Bfloat {
    type Code = u16;
    #[inline(always)]
    unsafe fn load(codes: *const u16) -> Avx {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            // Works within the halves of the register, as packing does; so the order comes right in `store`.
            let (zero, x) = (_mm256_setzero_si256(), _mm256_loadu_si256(codes.cast()));
            let (low, high) = (_mm256_unpacklo_epi16(zero, x), _mm256_unpackhi_epi16(zero, x));
            Avx([_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)])
        }
    }
    #[inline(always)]
    unsafe fn store(codes: *mut u16, Avx([a, b]): Avx) {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            let packed = _mm256_packus_epi32(upper_halves(a), upper_halves(b));
            _mm256_storeu_si256(codes.cast(), packed);
        }
    }
    #[inline(always)]
    fn rounded(Avx([a, b]): Avx) -> Avx {
        Avx([halved(a), halved(b)])
    }
}

/// The upper halves, rounded. NaNs are plain, so rounding up does not carry them away.
#[inline(always)]
fn upper_halves(x: __m256) -> __m256i {
    // SAFETY: AVX2.
    unsafe { _mm256_srli_epi32::<16>(up_to_halves(x)) }
}

/// The floats with what rounds their upper halves added; the lower halves are left over.
#[inline(always)]
fn up_to_halves(x: __m256) -> __m256i {
    // SAFETY: AVX2.
    unsafe {
        let x = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(x), _mm256_set1_epi32(1));
        let up = _mm256_add_epi32(x, _mm256_set1_epi32(0x7fff));
        _mm256_add_epi32(up, odd)
    }
}

/// The floats rounded to their upper halves. NaNs are plain.
#[inline(always)]
fn halved(x: __m256) -> __m256 {
    // SAFETY: AVX2.
    unsafe { _mm256_castsi256_ps(_mm256_and_si256(up_to_halves(x), _mm256_set1_epi32(!0xffff))) }
}

/// The magnitudes of floats between roundings.
#[derive(Clone, Copy)]
struct Magnitudes {
    /// The magnitude plus `large`: their sum rounds it.
    sum: __m256,
    large: __m256,
    /// The power of two in the magnitude.
    power: __m256i,
}

/// The magnitudes, rounded to F in the last place of a sum, ties to even. What is too large, or a NaN, is the largest of F.
///
/// To x's power of two belongs one whose last place is the unit of F's mantissa there: their sum rounds x, and the sum's
/// last bits count units. Powers below the least normal one count as that, which gives subnormals.
#[inline(always)]
fn magnitudes<F: Format>(x: __m256) -> Magnitudes {
    let drop = (23 - F::MANTISSA) as i32;
    let most = f32::from_bits((F::OVERFLOW << drop) + ((127 - F::BIAS) << 23));
    // SAFETY: AVX2.
    unsafe {
        // The minimum of NaN and a number is its second operand.
        let x = _mm256_min_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x), _mm256_set1_ps(most));
        let power = _mm256_castps_si256(_mm256_and_ps(x, _mm256_set1_ps(f32::INFINITY)));
        let power = _mm256_max_epi32(power, _mm256_set1_epi32((128 - F::BIAS as i32) << 23));
        let large = _mm256_mul_ps(_mm256_castsi256_ps(power), _mm256_set1_ps((1 << drop) as f32));
        Magnitudes { sum: _mm256_add_ps(x, large), large, power }
    }
}

/// The magnitudes' codes in 32-bit lanes, too large by [`excess`].
#[inline(always)]
fn codes<F: Format>(x: __m256) -> __m256i {
    let Magnitudes { sum, large, power } = magnitudes::<F>(x);
    // SAFETY: AVX2.
    unsafe {
        let exponent = _mm256_srl_epi32(power, _mm_cvtsi32_si128((23 - F::MANTISSA) as i32));
        _mm256_sub_epi32(_mm256_castps_si256(sum), _mm256_sub_epi32(_mm256_castps_si256(large), exponent))
    }
}

/// The floats rounded to F. A NaN stays what it is.
#[inline(always)]
fn rounded<F: Format>(x: __m256) -> __m256 {
    let Magnitudes { sum, large, .. } = magnitudes::<F>(x);
    // SAFETY: AVX2.
    unsafe {
        let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
        let number = _mm256_or_ps(_mm256_sub_ps(sum, large), sign);
        _mm256_blendv_ps(number, x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
    }
}

/// The least normal number's exponent, as float32 has it, at its place in F.
const fn excess<F: Format>() -> i16 {
    ((128 - F::BIAS) << F::MANTISSA) as i16
}

/// Sixteen codes of one byte. NaNs are plain.
#[inline(always)]
fn bytes<F: Format>(a: __m256, b: __m256) -> __m128i {
    // SAFETY: AVX2.
    unsafe {
        let (high_a, high_b) = (_mm256_castps_si256(a), _mm256_castps_si256(b));
        let high = _mm256_packus_epi32(_mm256_srli_epi32::<16>(high_a), _mm256_srli_epi32::<16>(high_b));
        let sign = _mm256_and_si256(_mm256_srli_epi16::<8>(high), _mm256_set1_epi16(0x80));
        let nan = _mm256_cmpeq_epi16(high, _mm256_set1_epi16(0x7fc0));
        let nan = _mm256_and_si256(nan, _mm256_set1_epi16((F::NAN ^ F::OVERFLOW) as i16));
        let number = _mm256_packus_epi32(codes::<F>(a), codes::<F>(b));
        let number = _mm256_sub_epi16(number, _mm256_set1_epi16(excess::<F>()));
        let code = _mm256_xor_si256(number, _mm256_or_si256(sign, nan));
        // Packed twice within halves of the register, the fours lie in the order 0 2 1 3.
        let mixed = _mm_packus_epi16(_mm256_castsi256_si128(code), _mm256_extracti128_si256::<1>(code));
        _mm_shuffle_epi32::<0b11_01_10_00>(mixed)
    }
}

impl Codec<Avx> for E5m2 {
    type Code = u8;
    const LONG: bool = true;
    #[inline(always)]
    unsafe fn load(codes: *const u8) -> Avx {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            let (zero, x) = (_mm_setzero_si128(), _mm_loadu_si128(codes.cast()));
            Avx([_mm256_cvtph_ps(_mm_unpacklo_epi8(zero, x)), _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, x))])
        }
    }
    #[inline(always)]
    unsafe fn store(codes: *mut u8, Avx([a, b]): Avx) {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            _mm_storeu_si128(codes.cast(), bytes::<E5m2>(a, b));
        }
    }
    #[inline(always)]
    fn rounded(Avx([a, b]): Avx) -> Avx {
        Avx([rounded::<E5m2>(a), rounded::<E5m2>(b)])
    }
}

impl Codec<Avx> for E4m3 {
    type Code = u8;
    const LONG: bool = true;
    #[inline(always)]
    unsafe fn load(codes: *const u8) -> Avx {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            let x = _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.cast()));
            // Sign-extended and shifted, the sign is in bits 15 and 14, the magnitude in 13 to 7.
            let h = _mm256_and_si256(_mm256_slli_epi16::<7>(x), _mm256_set1_epi16(0xbf80_u16 as i16));
            let magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff));
            let nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x3f00));
            let h = _mm256_or_si256(h, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
            let scale = _mm256_set1_ps(256.0);
            let low = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
            let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(h));
            Avx([_mm256_mul_ps(low, scale), _mm256_mul_ps(high, scale)])
        }
    }
    #[inline(always)]
    unsafe fn store(codes: *mut u8, Avx([a, b]): Avx) {
        // SAFETY: the caller's promise; AVX2.
        unsafe {
            _mm_storeu_si128(codes.cast(), bytes::<E4m3>(a, b));
        }
    }
    #[inline(always)]
    fn rounded(Avx([a, b]): Avx) -> Avx {
        Avx([rounded::<E4m3>(a), rounded::<E4m3>(b)])
    }
}
