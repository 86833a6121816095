//! Signals: words by which a put says that it has come.

use super::recorded::WordChange;
use super::symmetric_memory::SymmetricMemory;
use super::wait::Comparison;
use crate::error::Result;
use crate::memory::view::Address;
use crate::memory::word::AtomicOp;
use crate::recorder;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::timing::WORD;

/// The operation on a signal. The numbers are OpenSHMEM's, as in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOp {
    /// The value takes its place.
    Set = 9,
    /// The value is added to it, modulo 2^64.
    Add = 10,
}

impl SignalOp {
    /// Returns the operation with this number.
    pub const fn from_c(value: i32) -> Option<SignalOp> {
        match value {
            9 => Some(SignalOp::Set),
            10 => Some(SignalOp::Add),
            _ => None,
        }
    }

    /// Returns the same as an operation on any word.
    pub(super) fn as_atomic(self) -> AtomicOp {
        match self {
            SignalOp::Set => AtomicOp::Set,
            SignalOp::Add => AtomicOp::Add,
        }
    }

    /// Applies the operation to a word.
    #[inline]
    pub(super) fn apply(self, word: &AtomicU64, value: u64) {
        // ORDER: publishes what this thread has put before; partner: the loads in `signal_fetch` and `await_signal`.
        match self {
            SignalOp::Set => word.store(value, Ordering::Release),
            SignalOp::Add => {
                word.fetch_add(value, Ordering::Release);
            }
        }
    }
}

impl SymmetricMemory {
    /// Sets or add to a rank's signal.
    #[inline]
    pub fn signal(&self, signal: Address, value: u64, op: SignalOp, pe: i32) -> Result<()> {
        let word = || Some(WordChange { addr: signal.get(), op: op.as_atomic(), value });
        let _recorded = recorder::record(|d| self.describe_put(d, pe, WORD, word()));
        self.usable()?;
        let rank = self.peer(pe)?;
        if self.transport.is_far(rank) {
            return self.signal_far(signal, value, op, rank);
        }
        let word = self.word64("sig_addr", signal.get(), rank)?;
        self.about_to_signal(signal.get(), rank)?;
        let _carried = self.carry(self.my_pe(), rank, WORD)?;
        op.apply(word, value);
        self.stored(rank);
        Ok(())
    }

    /// This rank's signal as it is now.
    #[inline]
    pub fn signal_fetch(&self, signal: Address) -> Result<u64> {
        self.usable()?;
        self.transport.poll_far();
        // ORDER: partner of the store in `SignalOp::apply`.
        let seen = self.word64("sig_addr", signal.get(), self.my_pe())?.load(Ordering::Acquire);
        self.has_seen(signal.get(), self.my_pe())?;
        Ok(seen)
    }

    /// Waits until this rank's signal compares so with a value; what it was then.
    #[inline]
    pub fn await_signal(&self, signal: Address, cmp: Comparison, value: u64) -> Result<u64> {
        self.usable()?;
        let word = self.word64("sig_addr", signal.get(), self.my_pe())?;
        let before = || word.load(Ordering::Relaxed);
        let _recorded =
            recorder::record(|d| self.describe_wait(d, signal.get(), (8, false), (cmp, value), before()));
        let mut seen = 0;
        let ready = || {
            // ORDER: partner of the store in `SignalOp::apply`.
            seen = word.load(Ordering::Acquire);
            cmp.holds(seen.cmp(&value))
        };
        let what = || {
            let now = word.load(Ordering::Relaxed);
            format!("its signal at {:#x}, which is {now}, to be {cmp} {value}", signal.get())
        };
        self.wait(ready, what)?;
        die_point!(144 "wait_over");
        self.has_seen(signal.get(), self.my_pe())?;
        Ok(seen)
    }
}
