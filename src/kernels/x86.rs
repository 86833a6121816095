//! Conversions that have instructions of their own: binary16, and through it float8.
//!
//! float8e5m2 is the upper byte of binary16, float8e4m3 at 1/256 its value is seven bits further down. Rounding float32 to
//! binary16 and then to float8 would round twice; so the first conversion truncates and sets the last bit if it lost
//! anything. Truncation with that sticky bit keeps all that the second rounding asks for: more or less than half.

use super::codec::Codec;
use std::arch::x86_64::*;

/// IEEE binary16 with F16C.
pub struct Half;
/// OCP FP8 E4M3 with F16C and AVX2.
pub struct E4m3;
/// OCP FP8 E5M2 with F16C and AVX2.
pub struct E5m2;

impl Codec for Half {
    type Code = u16;
    const WIDTH: usize = 8;
    #[inline(always)]
    unsafe fn widen(out: *mut f32, codes: *const u16) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(codes.cast()))) }
    }
    #[inline(always)]
    unsafe fn narrow(out: *mut u16, floats: *const f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(floats));
            _mm_storeu_si128(out.cast(), halves);
        }
    }
}

impl Codec for E5m2 {
    type Code = u8;
    const WIDTH: usize = 16;
    #[inline(always)]
    unsafe fn widen(out: *mut f32, codes: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let (zero, x) = (_mm_setzero_si128(), _mm_loadu_si128(codes.cast()));
            _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, x)));
            _mm256_storeu_ps(out.add(8), _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, x)));
        }
    }
    #[inline(always)]
    unsafe fn narrow(out: *mut u8, floats: *const f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let h = sticky_halves(_mm256_loadu_ps(floats), _mm256_loadu_ps(floats.add(8)));
            let odd = _mm256_and_si256(_mm256_srli_epi16::<8>(h), _mm256_set1_epi16(1));
            let up = _mm256_add_epi16(odd, _mm256_set1_epi16(0x7f));
            store_bytes(out, _mm256_srli_epi16::<8>(_mm256_add_epi16(h, up)));
        }
    }
}

impl Codec for E4m3 {
    type Code = u8;
    const WIDTH: usize = 16;
    #[inline(always)]
    unsafe fn widen(out: *mut f32, codes: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x = _mm256_cvtepi8_epi16(_mm_loadu_si128(codes.cast()));
            // Sign-extended and shifted, the sign is in bits 15 and 14, the magnitude in 13 to 7.
            let h = _mm256_and_si256(_mm256_slli_epi16::<7>(x), _mm256_set1_epi16(0xbf80_u16 as i16));
            let all_ones = _mm256_set1_epi16(0x3f80);
            let nan = _mm256_cmpeq_epi16(_mm256_and_si256(h, all_ones), all_ones);
            let h = _mm256_or_si256(h, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
            let scale = _mm256_set1_ps(256.0);
            let low = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
            let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(h));
            _mm256_storeu_ps(out, _mm256_mul_ps(low, scale));
            _mm256_storeu_ps(out.add(8), _mm256_mul_ps(high, scale));
        }
    }
    #[inline(always)]
    unsafe fn narrow(out: *mut u8, floats: *const f32) {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = _mm256_set1_ps(1.0 / 256.0);
            let h = sticky_halves(
                _mm256_mul_ps(_mm256_loadu_ps(floats), scale),
                _mm256_mul_ps(_mm256_loadu_ps(floats.add(8)), scale),
            );
            let magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff));
            let sign = _mm256_and_si256(_mm256_srli_epi16::<8>(h), _mm256_set1_epi16(0x80));
            let odd = _mm256_and_si256(_mm256_srli_epi16::<7>(h), _mm256_set1_epi16(1));
            let up = _mm256_add_epi16(odd, _mm256_set1_epi16(0x3f));
            let rounded = _mm256_srli_epi16::<7>(_mm256_add_epi16(magnitude, up));
            let number = _mm256_min_epi16(rounded, _mm256_set1_epi16(0x7e));
            // All ones is -1: what is not a number steps from the largest one to the NaN after it.
            let nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7c00));
            store_bytes(out, _mm256_or_si256(_mm256_sub_epi16(number, nan), sign));
        }
    }
}

/// Sixteen floats to binary16, truncated, the last bit set where that lost something.
#[inline(always)]
unsafe fn sticky_halves(a: __m256, b: __m256) -> __m256i {
    // SAFETY: the caller's CPU has F16C and AVX2.
    unsafe {
        let (ha, hb) = (_mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(a), _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(b));
        let lost_a = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NEQ_OQ>(_mm256_cvtph_ps(ha), a));
        let lost_b = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NEQ_OQ>(_mm256_cvtph_ps(hb), b));
        // Packing works within halves of the register: a b a b; put it in order: a a b b.
        let lost = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(lost_a, lost_b));
        _mm256_or_si256(_mm256_set_m128i(hb, ha), _mm256_srli_epi16::<15>(lost))
    }
}

/// The low bytes of sixteen 16-bit lanes, each at most 255.
#[inline(always)]
unsafe fn store_bytes(out: *mut u8, x: __m256i) {
    // SAFETY: `out` is valid for 16 bytes; the caller's CPU has AVX2.
    unsafe {
        let bytes = _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        _mm_storeu_si128(out.cast(), bytes);
    }
}
