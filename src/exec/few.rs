//! A short list on the stack that grows onto the heap only where a communicator is large.

const FEW: usize = 8;

/// A list of `Copy` things, usually at most eight.
pub struct Few<T: Copy> {
    inline: [T; FEW],
    len: usize,
    spilled: Vec<T>,
}

impl<T: Copy> Few<T> {
    /// Makes an empty list; `blank` fills the unused places.
    #[inline]
    pub fn new(blank: T) -> Few<T> {
        Few { inline: [blank; FEW], len: 0, spilled: Vec::new() }
    }
    /// Adds at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len < FEW {
            self.inline[self.len] = value;
        } else {
            if self.len == FEW {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push(value);
        }
        self.len += 1;
    }
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.spilled.clear();
    }
    /// Returns the list.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        if self.len <= FEW { &self.inline[..self.len] } else { &self.spilled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_keep_their_order() {
        let mut few = Few::new(0);
        for round in 0..3 {
            few.clear();
            let count = [3, 8, 20][round];
            (0..count).for_each(|i| few.push(i));
            assert_eq!(few.as_slice(), (0..count).collect::<Vec<_>>());
        }
    }
}
