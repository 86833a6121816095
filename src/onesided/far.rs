//! Access to the memory of ranks on other hosts, whose processes carry it out (`transport/far_memory.rs`).

use super::Atomic;
use super::signal::SignalOp;
use super::symmetric_memory::{HeapPlace, SymmetricMemory, misaligned};
use crate::error::Result;
use crate::memory::view::{Address, Payload};
use crate::memory::word::{AtomicOp, Change};
use crate::timing::WORD;
use crate::transport::Transport;
use crate::types::Rank;

impl HeapPlace<'_> {
    /// Returns where it lies in a rank's heap.
    pub(super) fn at(&self, rank: Rank) -> u64 {
        self.region.at(rank, self.offset)
    }

    /// Puts there, at a far rank. `more`: something else goes to that rank at once.
    pub(super) fn put_far(self, t: &Transport, rank: Rank, source: Payload<'_>, more: bool) -> Result<()> {
        t.put_far(rank, self.at(rank), source, more)
    }

    /// Gets from there, from a far rank.
    pub(super) fn get_far(self, t: &Transport, rank: Rank, dest: Payload<'_>) -> Result<()> {
        t.get_far(rank, self.at(rank), dest)
    }
}

impl SignalOp {
    /// Returns the operation as a change of the signal's word.
    fn change(self, value: u64) -> Change {
        let op = match self {
            SignalOp::Set => AtomicOp::Set,
            SignalOp::Add => AtomicOp::Add,
        };
        Change { op, value, expected: 0 }
    }
}

impl SymmetricMemory {
    /// Returns where the word at a symmetric address lies in a far rank's heap.
    fn far_word(&self, what: &str, addr: usize, bytes: usize, rank: Rank) -> Result<u64> {
        let at = self.place(what, addr, bytes)?.at(rank);
        if at.is_multiple_of(bytes as u64) { Ok(at) } else { Err(misaligned(what, addr, bytes)) }
    }

    /// As `modify`, at a far rank.
    #[cold]
    pub(super) fn modify_far(&self, dest: Address, operation: &Atomic, rank: Rank) -> Result<u64> {
        let &Atomic { change, dtype, fetches } = operation;
        let at = self.far_word("dest", dest.get(), dtype.size(), rank)?;
        let (wide, me) = (dtype.size() == 8, self.my_pe());
        let before = {
            let _carried = self.carry(me, rank, dtype.size())?;
            let before = match fetches {
                true => self.transport.exchange_far(rank, at, wide, change)?,
                false => self.transport.change_far(rank, at, wide, change, false).map(|()| 0)?,
            };
            if change.op != AtomicOp::Fetch {
                self.stored_far(rank)?;
            }
            before
        };
        if fetches {
            drop(self.carry(rank, me, dtype.size())?);
        }
        Ok(before)
    }

    /// As `signal`, at a far rank.
    #[cold]
    pub(super) fn signal_far(&self, signal: Address, value: u64, op: SignalOp, rank: Rank) -> Result<()> {
        let at = self.far_word("sig_addr", signal.get(), 8, rank)?;
        let _carried = self.carry(self.my_pe(), rank, WORD)?;
        self.transport.change_far(rank, at, true, op.change(value), false)?;
        self.stored_far(rank)
    }

    /// As `put_signal`, at a far rank.
    #[cold]
    pub(super) fn put_signal_far(
        &self,
        [dest, signal]: [Address; 2],
        source: Payload<'_>,
        value: u64,
        op: SignalOp,
        rank: Rank,
    ) -> Result<()> {
        // Nothing is written before all of it is known to be right.
        let word = self.far_word("sig_addr", signal.get(), 8, rank)?;
        let place =
            if source.is_empty() { None } else { Some(self.place("dest", dest.get(), source.bytes())?) };
        let _carried = self.carry(self.my_pe(), rank, source.bytes().saturating_add(WORD))?;
        if let Some(place) = place {
            place.put_far(&self.transport, rank, source, true)?;
        }
        self.transport.change_far(rank, word, true, op.change(value), false)?;
        self.stored_far(rank)
    }

    /// As `put_element`, at a far rank.
    #[cold]
    pub(super) fn put_element_far(&self, dest: Address, value: Payload<'_>, rank: Rank) -> Result<()> {
        self.far_word("dest", dest.get(), value.bytes(), rank)?;
        let place = self.place("dest", dest.get(), value.bytes())?;
        let _carried = self.carry(self.my_pe(), rank, value.bytes())?;
        place.put_far(&self.transport, rank, value, false)?;
        self.stored_far(rank)
    }
}
