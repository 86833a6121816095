//! Atomic operations on words of other ranks' memory.

use super::recorded::WordChange;
use super::symmetric_memory::SymmetricMemory;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::Address;
use crate::memory::word::{AtomicOp, Change};
use crate::recorder::{self, Description};
use crate::types::{DataType, Rank};

/// An atomic operation. Values are the element's bits, zero-extended.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// The change.
    pub change: Change,
    /// The word's type.
    pub dtype: DataType,
    /// The caller wants to know what the word was, so the answer has to come back.
    pub fetches: bool,
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
    pub fn modify(&self, dest: Address, operation: &Atomic, pe: i32) -> Result<u64> {
        let _recorded = recorder::record(|d| self.describe_atomic(d, dest, operation, pe));
        self.usable()?;
        let rank = self.peer(pe)?;
        let &Atomic { change, dtype, fetches } = operation;
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
        if self.transport.is_far(rank) {
            return self.modify_far(dest, operation, rank);
        }
        let before = match dtype.size() {
            8 => {
                let word = self.word64("dest", dest.get(), rank)?;
                let _carried = self.carry(me, rank, 8)?;
                let before = change.apply64(word);
                self.changed(&change, rank);
                before
            }
            _ => {
                let word = self.word32("dest", dest.get(), rank)?;
                let _carried = self.carry(me, rank, 4)?;
                let before = change.apply32(word);
                self.changed(&change, rank);
                before
            }
        };
        if fetches {
            drop(self.carry(rank, me, dtype.size())?);
            self.has_seen(dest.get(), rank)?;
        }
        Ok(before)
    }

    fn describe_atomic(&self, d: &mut Description, dest: Address, operation: &Atomic, pe: i32) {
        let &Atomic { change: Change { op, value, .. }, dtype, fetches } = operation;
        self.describe_put(d, pe, dtype.size(), Some(WordChange { addr: dest.get(), op, value }));
        if fetches {
            self.describe_answer(d, pe, dtype.size());
        }
    }

    #[inline]
    fn changed(&self, change: &Change, rank: Rank) {
        die_point!(143 "atomic_done");
        if change.op != AtomicOp::Fetch {
            self.stored(rank);
        }
    }
}
