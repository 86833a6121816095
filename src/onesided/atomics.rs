//! Atomic operations on words of other ranks' memory.

use super::symmetric_memory::SymmetricMemory;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::Address;
use crate::sync::prim::Ordering;
use crate::types::{DataType, Rank};

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

/// An atomic operation. Values are the element's bits, zero-extended.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// The operation.
    pub op: AtomicOp,
    /// The word's type.
    pub dtype: DataType,
    /// The operand.
    pub value: u64,
    /// The expected value of an [`AtomicOp::CompareSwap`].
    pub expected: u64,
    /// The caller wants to know what the word was, so the answer has to come back.
    pub fetches: bool,
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

/// Reads an element that a program passes.
pub fn operand(name: &str, value: Address, dtype: DataType) -> Result<u64> {
    match value.is_null() {
        true => Err(Error::argument(format!("{name} is NULL; pass the place of one {dtype}"))),
        false => Ok(kernels::bits(value.view(dtype.size()))),
    }
}

/// Writes an element to the program's place for it.
pub fn answer(fetched: Address, dtype: DataType, bits: u64) {
    kernels::put_bits(fetched.view(dtype.size()), bits);
}

impl SymmetricMemory {
    /// Applies the operation to a rank's word; returns its former value.
    #[inline]
    pub fn modify(&self, dest: Address, change: &Atomic, pe: i32) -> Result<u64> {
        self.usable()?;
        let rank = self.peer(pe)?;
        let dtype = change.dtype;
        let moves = matches!(change.op, AtomicOp::Fetch | AtomicOp::Set);
        let served = dtype.size() >= 4 && (dtype.is_integer() || (dtype.is_float() && moves));
        if !served {
            return Err(Error::argument(format!(
                "datatype {dtype} has no such atomic operation; int32, uint32, int64 and uint64 have all, float and double \
                 can be fetched, set and swapped"
            )));
        }
        let me = self.my_pe();
        if change.op != AtomicOp::Fetch {
            self.about_to_signal(dest.get(), rank)?;
        }
        let before = match dtype.size() {
            8 => {
                let word = self.word64("dest", dest.get(), rank)?;
                let _carried = self.carry(me, rank, 8)?;
                let before = apply!(word, change, u64);
                self.changed(change, rank);
                before
            }
            _ => {
                let word = self.word32("dest", dest.get(), rank)?;
                let _carried = self.carry(me, rank, 4)?;
                let before = apply!(word, change, u32);
                self.changed(change, rank);
                before
            }
        };
        if change.fetches {
            drop(self.carry(rank, me, dtype.size())?);
            self.has_seen(dest.get(), rank)?;
        }
        Ok(before)
    }

    #[inline]
    fn changed(&self, change: &Atomic, rank: Rank) {
        die_point!(143 "atomic_done");
        if change.op != AtomicOp::Fetch {
            self.stored(rank);
        }
    }
}
