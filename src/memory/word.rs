//! Atomic operations on words that a program names, wherever they are carried out.

use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};

/// The operation on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Reads the word.
    Fetch,
    /// The value takes its place.
    Set,
    /// The value is added, modulo the word's size.
    Add,
    /// The value takes its place if it was what is expected.
    CompareSwap,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// All operations: one's index is its number on the way to another host.
const ALL: [AtomicOp; 7] = {
    use AtomicOp::*;
    [Fetch, Set, Add, CompareSwap, And, Or, Xor]
};

impl AtomicOp {
    /// Returns its number.
    pub fn number(self) -> u64 {
        self as u64
    }
    /// Returns the operation with this number.
    pub fn of(number: u64) -> Option<AtomicOp> {
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A change of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The operation.
    pub op: AtomicOp,
    /// The operand.
    pub value: u64,
    /// The expected value of an [`AtomicOp::CompareSwap`].
    pub expected: u64,
}

macro_rules! apply {
    ($word:expr, $change:expr, $int:ty) => {{
        let (word, value) = ($word, $change.value as $int);
        // ORDER: a rank that sees the new value sees all earlier puts; this thread sees the puts before the old value.
        let order = Ordering::AcqRel;
        (match $change.op {
            AtomicOp::Fetch => word.load(Ordering::Acquire),
            AtomicOp::Set => word.swap(value, order),
            AtomicOp::Add => word.fetch_add(value, order),
            AtomicOp::And => word.fetch_and(value, order),
            AtomicOp::Or => word.fetch_or(value, order),
            AtomicOp::Xor => word.fetch_xor(value, order),
            AtomicOp::CompareSwap => {
                let expected = $change.expected as $int;
                match word.compare_exchange(expected, value, order, Ordering::Acquire) {
                    Ok(before) | Err(before) => before,
                }
            }
        }) as u64
    }};
}

impl Change {
    /// Changes a word of 8 bytes; returns its former value.
    #[inline]
    pub fn apply64(&self, word: &AtomicU64) -> u64 {
        apply!(word, self, u64)
    }
    /// Changes a word of 4 bytes; returns its former value.
    #[inline]
    pub fn apply32(&self, word: &AtomicU32) -> u64 {
        apply!(word, self, u32)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_number() {
        for (number, op) in (0..).zip(ALL) {
            assert_eq!((op.number(), AtomicOp::of(number)), (number, Some(op)));
        }
        assert_eq!(AtomicOp::of(ALL.len() as u64), None);
    }
}
