//! The few bytes at an end that fill no step, by way of general registers.
//!
//! Vectors read from what has just been written in smaller pieces wait for memory; words put together in registers do not.
//! Up to eight bytes are read as two pieces that may overlap, from the first and to the last:
//!
//! ```text
//!     7 bytes   0123        3456 shifted to its place, or'ed: the common byte meets itself
//!     2 bytes   0   1   1
//! ```

/// Bytes of a word.
const WORD: usize = 8;

/// The first `bytes` bytes at `from`, zeros after them, in W words.
///
/// # Safety
/// Valid for `bytes` bytes.
#[inline(always)]
pub unsafe fn read<const W: usize>(from: *const u8, bytes: usize) -> [u64; W] {
    let mut words = [0; W];
    for (i, word) in words.iter_mut().enumerate() {
        let bytes = bytes.saturating_sub(i * WORD);
        if bytes == 0 {
            break;
        }
        // SAFETY: the word's first byte lies within, and so do as many as are left.
        *word = unsafe { read_word(from.add(i * WORD), bytes) };
    }
    words
}

/// Writes the first `bytes` bytes of W words to `to`.
///
/// # Safety
/// Valid for `bytes` bytes.
#[inline(always)]
pub unsafe fn write<const W: usize>(to: *mut u8, words: [u64; W], bytes: usize) {
    for (i, word) in words.into_iter().enumerate() {
        let bytes = bytes.saturating_sub(i * WORD);
        if bytes == 0 {
            break;
        }
        // SAFETY: as in `read`.
        unsafe { write_word(to.add(i * WORD), word, bytes) };
    }
}

/// At most a word's bytes, at least one.
///
/// # Safety
/// Valid for `bytes` bytes; `bytes` > 0.
#[inline(always)]
unsafe fn read_word(from: *const u8, bytes: usize) -> u64 {
    // SAFETY: every piece lies within `bytes`.
    unsafe {
        if bytes >= WORD {
            return u64::from_le(from.cast::<u64>().read_unaligned());
        }
        if bytes >= 4 {
            let half =
                |at: usize| u64::from(u32::from_le(from.add(at).cast::<u32>().read_unaligned())) << (8 * at);
            return half(0) | half(bytes - 4);
        }
        let byte = |at: usize| u64::from(from.add(at).read()) << (8 * at);
        byte(0) | byte(bytes / 2) | byte(bytes - 1)
    }
}

/// The reverse of [`read_word`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn write_word(to: *mut u8, word: u64, bytes: usize) {
    // SAFETY: every piece lies within `bytes`.
    unsafe {
        if bytes >= WORD {
            return to.cast::<u64>().write_unaligned(word.to_le());
        }
        if bytes >= 4 {
            let half =
                |at: usize| to.add(at).cast::<u32>().write_unaligned(((word >> (8 * at)) as u32).to_le());
            half(0);
            return half(bytes - 4);
        }
        let byte = |at: usize| to.add(at).write((word >> (8 * at)) as u8);
        byte(0);
        byte(bytes / 2);
        byte(bytes - 1);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_read_is_written_and_not_a_byte_more() {
        let from: Vec<u8> = (1..=32).collect();
        for bytes in 0..=32 {
            let mut to = [0xa5; 40];
            // SAFETY: both have at least `bytes` bytes.
            let words = unsafe { crate::kernels::tail::read::<4>(from.as_ptr(), bytes) };
            let flat: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(flat[..bytes], from[..bytes]);
            assert!(flat[bytes..].iter().all(|&b| b == 0), "no zeros after {bytes} bytes");
            // SAFETY: as above.
            unsafe { crate::kernels::tail::write(to.as_mut_ptr(), words, bytes) };
            assert_eq!(to[..bytes], from[..bytes]);
            assert!(to[bytes..].iter().all(|&b| b == 0xa5), "wrote beyond {bytes} bytes");
        }
    }
}
