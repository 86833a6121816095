//! Text in the clock segment, for its readers.

use crate::sync::prim::{AtomicU64, Ordering};

/// Writes as much of a text as fits; tells how many bytes, at least 1.
pub fn write_text(words: &[AtomicU64], text: &str) -> usize {
    let mut bytes = vec![0; words.len() * 8];
    let length = text.len().min(bytes.len() - 1);
    let length = (0..=length).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    for (word, part) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(part.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
    length.max(1)
}

/// Text that ends with a 0, as others wrote it.
pub fn read_text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
