//! Communication without Penny: plain loads and stores of two cores to shared memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of polls between two readings of the clock.
const POLLS: u32 = 1 << 14;
/// The time limit of a wait; no measurement comes near it.
const LIMIT: Duration = Duration::from_secs(60);

/// A word of shared memory.
///
/// # Safety
/// `at` must be aligned to 8 bytes and stay mapped while the word is used.
#[inline]
pub unsafe fn word<'a>(at: *mut u8) -> &'a AtomicU64 {
    // SAFETY: the caller's promise; the other rank, too, accesses the word atomically only.
    unsafe { AtomicU64::from_ptr(at.cast()) }
}

/// Waits for a word to reach a value.
#[inline]
pub fn wait(word: &AtomicU64, value: u64) -> Result<(), String> {
    // ORDER: partner of the other rank's store to this word, with Release.
    for _ in 0..POLLS {
        if word.load(Ordering::Acquire) >= value {
            return Ok(());
        }
    }
    wait_long(word, value)
}

#[cold]
fn wait_long(word: &AtomicU64, value: u64) -> Result<(), String> {
    let begin = Instant::now();
    // BOUND: `LIMIT`.
    while begin.elapsed() < LIMIT {
        for _ in 0..POLLS / 16 {
            if word.load(Ordering::Acquire) >= value {
                return Ok(());
            }
        }
        // The peer may have no core.
        std::thread::yield_now();
    }
    Err(format!("the other rank did not write {value} within {} s", LIMIT.as_secs()))
}

/// Copies with stores that bypass the caches, if the machine has such stores.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`]; `dest` must be aligned to 16 bytes.
pub unsafe fn stream(dest: *mut u8, source: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let whole = bytes / 64 * 64;
        // SAFETY: the caller's promise; every x86-64 has these.
        unsafe {
            for at in (0..whole).step_by(64) {
                let (from, to) = (source.add(at).cast::<__m128i>(), dest.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|k| _mm_loadu_si128(from.add(k)));
                for (k, part) in line.into_iter().enumerate() {
                    _mm_stream_si128(to.add(k), part);
                }
            }
            dest.add(whole).copy_from_nonoverlapping(source.add(whole), bytes - whole);
            _mm_sfence();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        dest.copy_from_nonoverlapping(source, bytes);
    }
}

/// Writes the sums of two vectors, with the widest registers that the machine has.
///
/// # Safety
/// All three must hold `count` elements; `output` must overlap neither of the others.
#[inline]
pub unsafe fn add(output: *mut f32, a: *const f32, b: *const f32, count: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        unsafe fn wide(output: *mut f32, a: *const f32, b: *const f32, count: usize) {
            // SAFETY: the caller's promise.
            unsafe { plain(output, a, b, count) }
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the caller's promise; the machine has these registers.
            return unsafe { wide(output, a, b, count) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { plain(output, a, b, count) }
}

/// As [`add`], in registers that every machine has.
///
/// # Safety
/// As for [`add`].
#[inline(always)]
unsafe fn plain(output: *mut f32, a: *const f32, b: *const f32, count: usize) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe { output.add(i).write_unaligned(a.add(i).read_unaligned() + b.add(i).read_unaligned()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_copies_every_byte_and_no_other() {
        #[repr(align(64))]
        struct Aligned([u8; 512]);
        let source = std::array::from_fn::<u8, 512, _>(|i| i as u8 ^ 0x5a);
        for bytes in [0, 1, 63, 64, 65, 200, 448] {
            let mut dest = Aligned([7; 512]);
            // SAFETY: both hold 512 bytes.
            unsafe { stream(dest.0.as_mut_ptr(), source.as_ptr(), bytes) };
            assert_eq!(dest.0[..bytes], source[..bytes]);
            assert!(dest.0[bytes..].iter().all(|&byte| byte == 7), "{bytes}");
        }
    }
}
