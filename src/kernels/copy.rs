//! Moving and clearing bytes, through the caches or around them.

use super::hints;
use crate::memory::view::Payload;

/// Bytes of a cache line: what one non-temporal write fills.
pub(super) const LINE: usize = 64;

/// Copies `src` to `dst`. They are equally long, and are the same bytes at one address (then nothing is done) or share none.
///
/// `non_temporal` writes around the caches: faster where the copy is far larger than they are, or where the reader's core shares
/// none with this one.
#[inline(always)]
pub fn copy(dst: Payload<'_>, src: Payload<'_>, non_temporal: bool) {
    assert_eq!(dst.bytes(), src.bytes(), "a copy's ends are equally long");
    if dst.addr() == src.addr() {
        return;
    }
    debug_assert!(!dst.overlaps(src), "a copy's ends overlap in part");
    let (to, from, bytes) = (dst.addr(), src.addr().cast_const(), dst.bytes());
    if (4..=64).contains(&bytes) {
        // SAFETY: both ranges hold 4 to 64 bytes.
        return unsafe { copy_short(to, from, bytes) };
    }
    copy_long(to, from, bytes, non_temporal);
}

/// Copies 4 to 64 bytes by two moves that meet or overlap, without a call.
///
/// # Safety
/// Both ranges must hold `bytes` bytes.
#[inline]
unsafe fn copy_short(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise; the last move ends where the ranges end.
    unsafe {
        match bytes {
            4..8 => copy_ends::<u32>(to, from, bytes),
            8..16 => copy_ends::<u64>(to, from, bytes),
            16..=32 => copy_ends::<u128>(to, from, bytes),
            _ => copy_ends::<[u128; 2]>(to, from, bytes),
        }
    }
}

/// Copies the first and the last bytes of a range, as many as a `T` has.
///
/// # Safety
/// Both ranges must hold `bytes` bytes, and a `T`.
#[inline]
unsafe fn copy_ends<T: Copy>(to: *mut u8, from: *const u8, bytes: usize) {
    let last = bytes - size_of::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        let ends = [from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned()];
        to.cast::<T>().write_unaligned(ends[0]);
        to.add(last).cast::<T>().write_unaligned(ends[1]);
    }
}

fn copy_long(to: *mut u8, from: *const u8, bytes: usize, non_temporal: bool) {
    // SAFETY: both ranges hold `bytes` bytes and do not overlap; head, body and tail lie within them.
    unsafe {
        if !non_temporal {
            #[cfg(target_arch = "x86_64")]
            if bytes >= hints::SHORTEST && bytes <= hints::limits().by_registers {
                return copy_by_registers(to, from, bytes);
            }
            return to.copy_from_nonoverlapping(from, bytes);
        }
        let head = to.align_offset(LINE).min(bytes);
        let body = (bytes - head) / LINE * LINE;
        let tail = head + body;
        to.copy_from_nonoverlapping(from, head);
        stream_lines(to.add(head), from.add(head), body);
        to.add(tail).copy_from_nonoverlapping(from.add(tail), bytes - tail);
        fence();
    }
}

/// Copies by loads and stores of AVX registers, two lines at a time, and the last bytes by the C library.
///
/// # Safety
/// Both are valid for `bytes` and do not overlap; the CPU has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_by_registers(to: *mut u8, from: *const u8, bytes: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    let whole = bytes / (2 * LINE) * (2 * LINE);
    for at in (0..whole).step_by(2 * LINE) {
        // SAFETY: two lines at `at` lie within both; the caller's promise.
        unsafe {
            let (to, from) = (to.add(at).cast::<__m256i>(), from.add(at).cast::<__m256i>());
            let parts = [0, 1, 2, 3].map(|i| _mm256_loadu_si256(from.add(i)));
            for (i, part) in parts.into_iter().enumerate() {
                _mm256_storeu_si256(to.add(i), part);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { to.add(whole).copy_from_nonoverlapping(from.add(whole), bytes - whole) }
}

/// The first 8 bytes as a number, missing ones 0: an element as a program passes it.
pub fn bits(from: Payload<'_>) -> u64 {
    let mut bytes = [0; 8];
    let n = from.bytes().min(8);
    // SAFETY: n bytes are readable there, and as many fit.
    unsafe { from.addr().cast_const().copy_to_nonoverlapping(bytes.as_mut_ptr(), n) };
    u64::from_le_bytes(bytes)
}

/// The lowest bytes of a number, as many as the place holds.
pub fn put_bits(to: Payload<'_>, value: u64) {
    let bytes = value.to_le_bytes();
    // SAFETY: a destination view is writable for its length, of which at most 8 bytes are used.
    unsafe { to.addr().copy_from_nonoverlapping(bytes.as_ptr(), to.bytes().min(8)) };
}

/// Sets every byte to 0.
pub fn zero(dst: Payload<'_>) {
    // SAFETY: a destination view is writable for its length.
    unsafe { dst.addr().write_bytes(0, dst.bytes()) }
}

/// Takes the first `lines` cache lines of what is about to be overwritten, and waits until this core owns them.
pub fn claim(dst: Payload<'_>, lines: usize) {
    let lines = lines.min(dst.bytes() / LINE);
    for at in 0..lines {
        // SAFETY: a destination view is writable for its length.
        unsafe { dst.addr().add(at * LINE).write_volatile(0) }
    }
    await_stores();
}

/// Waits until this core's stores have left it, which they do some time after they are made.
pub fn await_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE2.
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
}

/// One block of a fold's result to its place; `non_temporal` only if `to` is aligned to a line.
///
/// # Safety
/// Both are valid for `bytes` and do not overlap.
pub(super) unsafe fn block(to: *mut u8, from: *const u8, bytes: usize, non_temporal: bool) {
    let body = if non_temporal { bytes / LINE * LINE } else { 0 };
    // SAFETY: the caller's promise; `body` <= `bytes`.
    unsafe {
        if non_temporal {
            stream_lines(to, from, body);
        }
        to.add(body).copy_from_nonoverlapping(from.add(body), bytes - body);
    }
}

/// The distance in bytes at which a streamed copy prefetches its source.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 8 * LINE;

/// Copies whole lines with non-temporal writes.
///
/// # Safety
/// Both are valid for `bytes`, a multiple of a line, and do not overlap; `to` is aligned to a line.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_lines(to: *mut u8, from: *const u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_stream_si128};
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: a line at `at` lies within both; every x86-64 has SSE2. All four parts are written one after the other,
        // so the line leaves the core as one write.
        unsafe {
            let (to, from) = (to.add(at).cast::<__m128i>(), from.add(at).cast::<__m128i>());
            // Asked for early, a line is there when the writes of those before it have left. Past the end it does nothing.
            _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(AHEAD));
            let parts = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            for (i, part) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(i), part);
            }
        }
    }
}

/// Copies whole lines; this architecture leaves no choice of caching to us.
///
/// # Safety
/// Both are valid for `bytes` and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream_lines(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from, bytes) }
}

/// Non-temporal writes are ordered before whatever this thread writes next: a flag, for one.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
