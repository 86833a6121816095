//! A periodic sequence of elements: what a buffer holds before a call, or must hold after it.

/// The number of elements after which the sequence repeats. It is a prime, so that data at a wrong place, a slice, a chunk or a
/// page away, never matches by accident. It is small, so that many patterns fit in the cache.
pub const PERIOD: usize = 8191;

/// One period of a sequence, as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    bytes: Vec<u8>,
    element: usize,
}

impl Pattern {
    /// The sequence whose element `i` is the low `element` bytes of `value(i)`.
    pub fn new(element: usize, value: impl Fn(u64) -> u64) -> Pattern {
        let bytes =
            (0..PERIOD as u64).flat_map(|i| value(i).to_le_bytes().into_iter().take(element)).collect();
        Pattern { bytes, element }
    }

    /// Elements `start ..` of the sequence, as many as fit `out`.
    pub fn fill(&self, out: &mut [u8], start: usize) {
        self.pieces(out.len(), start, |range, piece| out[range].copy_from_slice(piece));
    }

    /// How many elements of `got` differ from elements `start ..` of the sequence.
    pub fn mismatches(&self, got: &[u8], start: usize) -> u64 {
        let mut wrong = 0;
        self.pieces(got.len(), start, |range, piece| {
            let got = &got[range];
            if got != piece {
                let differs = |(a, b): &(&[u8], &[u8])| a != b;
                let pairs = got.chunks_exact(self.element).zip(piece.chunks_exact(self.element));
                wrong += pairs.filter(differs).count() as u64;
            }
        });
        wrong
    }

    /// Walks `len` bytes of the sequence from element `start` in pieces that lie within one period.
    fn pieces(&self, len: usize, start: usize, mut visit: impl FnMut(std::ops::Range<usize>, &[u8])) {
        debug_assert_eq!(len % self.element, 0, "whole elements");
        let mut phase = start % PERIOD * self.element;
        let mut at = 0;
        while at < len {
            let take = (len - at).min(self.bytes.len() - phase);
            visit(at..at + take, &self.bytes[phase..phase + take]);
            at += take;
            phase = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_from_anywhere_yields_the_same_sequence() {
        let pattern = Pattern::new(4, |i| i * 3);
        let mut whole = vec![0; 4 * 20_000];
        pattern.fill(&mut whole, 0);
        for start in [1, PERIOD - 1, PERIOD, PERIOD + 1, 10_000] {
            let mut part = vec![0; 4 * 5000];
            pattern.fill(&mut part, start);
            assert_eq!(part, &whole[4 * start..][..part.len()], "from {start}");
            assert_eq!(pattern.mismatches(&part, start), 0);
        }
    }

    #[test]
    fn each_altered_element_is_counted_once() {
        let pattern = Pattern::new(8, |i| i);
        let mut got = vec![0; 8 * 20_000];
        pattern.fill(&mut got, 7);
        for element in [0, 5, 8183, 8184, 19_999] {
            got[8 * element] ^= 1;
            got[8 * element + 7] ^= 0x80;
        }
        assert_eq!(pattern.mismatches(&got, 7), 5);
    }

    #[test]
    fn a_shift_by_any_power_of_two_shows() {
        let pattern = Pattern::new(1, |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56);
        let mut got = vec![0; 1 << 16];
        for shift in 0..24 {
            pattern.fill(&mut got, 1 << shift);
            assert!(pattern.mismatches(&got, 0) > 1 << 15, "shift 2^{shift}");
        }
    }
}
