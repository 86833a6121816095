//! A short list on the stack that grows onto the heap only where a communicator is large. The crate of this name is not
//! used: see docs/decisions/0008-dependencies.md.

const INLINE: usize = 8;

/// A list of `Copy` values, usually at most eight.
pub struct SmallVec<T: Copy> {
    inline: [T; INLINE],
    len: usize,
    spilled: Vec<T>,
}

impl<T: Copy> SmallVec<T> {
    /// Makes an empty list; `blank` fills the unused places.
    #[inline]
    pub fn new(blank: T) -> SmallVec<T> {
        SmallVec { inline: [blank; INLINE], len: 0, spilled: Vec::new() }
    }
    /// Adds a value at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        if self.len < INLINE {
            self.inline[self.len] = value;
        } else {
            if self.len == INLINE {
                self.spilled.extend_from_slice(&self.inline);
            }
            self.spilled.push(value);
        }
        self.len += 1;
    }
    /// Removes all values.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.spilled.clear();
    }
    /// Returns the values in order.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        if self.len <= INLINE { &self.inline[..self.len] } else { &self.spilled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_lists_keep_their_order() {
        let mut list = SmallVec::new(0);
        for round in 0..3 {
            list.clear();
            let count = [3, 8, 20][round];
            (0..count).for_each(|i| list.push(i));
            assert_eq!(list.as_slice(), (0..count).collect::<Vec<_>>());
        }
    }
}
