//! How access to other ranks' memory describes itself in a record (`src/recorder.rs`): bytes that are carried, signals that are counted where
//! they come, and waits.
//!
//! A semaphore counts by itself. A word of the symmetric heap that a program waits for has a value, so what is done to words is written as it
//! is, and `penny record` finds out which operation ended a wait.

use super::mesh::Device;
use super::remote_copy::RemoteCopy;
use super::semaphore::Semaphores;
use super::symmetric_memory::SymmetricMemory;
use super::wait::Comparison;
use crate::memory::view::Address;
use crate::memory::word::AtomicOp;
use crate::recorder::{Description, PutText, signal};
use crate::timing::WORD;

/// What is done to a word of symmetric memory.
pub(super) struct WordChange {
    /// One's own address of it.
    pub addr: usize,
    pub op: AtomicOp,
    pub value: u64,
}

impl SymmetricMemory {
    /// Describes bytes that go to a rank, and what is done to a word there.
    pub(super) fn describe_put(&self, d: &mut Description, pe: i32, bytes: usize, word: Option<WordChange>) {
        let Ok(rank) = self.peer(pe) else { return };
        let changed = word.and_then(|WordChange { addr, op, value }| {
            let op = match op {
                AtomicOp::Fetch => return None,
                AtomicOp::Set => "set",
                AtomicOp::Add => "add",
                AtomicOp::CompareSwap | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => "other",
            };
            Some(format!("[{rank},{},\"{op}\",{value}]", self.number_of(addr)?))
        });
        let words = changed.unwrap_or_default();
        d.put(self.transport(), &PutText { bytes, words: &words, ..PutText::to(&[(rank, 0)]) });
    }

    /// Describes bytes that come from a rank after a request.
    pub(super) fn describe_get(&self, d: &mut Description, pe: i32, bytes: usize) {
        if bytes > 0 {
            self.describe_put(d, pe, WORD, None);
            self.describe_answer(d, pe, bytes);
        }
    }

    /// Describes bytes that come from a rank.
    pub(super) fn describe_answer(&self, d: &mut Description, pe: i32, bytes: usize) {
        let Ok(rank) = self.peer(pe) else { return };
        d.put(self.transport(), &PutText { from: Some(rank), bytes, ..PutText::to(&[(self.my_pe(), 0)]) });
    }

    /// Describes a wait for a word. `size`: its bytes, `before`: its value before the wait.
    pub(super) fn describe_wait(
        &self,
        d: &mut Description,
        addr: usize,
        (size, is_signed): (usize, bool),
        (cmp, value): (Comparison, u64),
        before: u64,
    ) {
        let Some(number) = self.number_of(addr) else { return };
        let comm = d.comm(self.transport());
        let cmp = cmp as u32;
        d.part(format_args!(
            "\"word\":{number},\"comm\":{comm},\"size\":{size},\"is_signed\":{is_signed},\"cmp\":{cmp},\"value\":{value},\"before\":{before}"
        ));
    }

    /// Returns a number of a byte of symmetric memory, the same on all ranks.
    fn number_of(&self, addr: usize) -> Option<u64> {
        let offsets =
            (0u64..).zip(self.segments()).filter_map(|(k, region)| Some((k, region.offset_of(addr, 1)?)));
        offsets.map(|(k, offset)| k << 48 | offset as u64).next()
    }
}

impl Semaphores {
    /// Returns the name of one of its counters.
    fn counter(&self, index: i32) -> Option<String> {
        Some(format!("semaphore {} of set {}", self.at("index", index).ok()?, self.id()))
    }

    pub(super) fn describe_signal(&self, d: &mut Description, index: i32, inc: u64, device: Device) {
        let (Some(counter), Ok(rank)) = (self.counter(index), self.home().rank_of(device)) else { return };
        let signals = signal(rank, &counter, inc);
        let transport = self.home().symmetric().transport();
        d.put(transport, &PutText { bytes: WORD, signals: &signals, ..PutText::to(&[(rank, 0)]) });
    }

    pub(super) fn describe_wait(&self, d: &mut Description, index: i32, value: u64) {
        let Some(counter) = self.counter(index) else { return };
        d.wait(self.home().symmetric().transport(), &counter, value, 0);
    }
}

impl RemoteCopy<'_> {
    pub(super) fn describe_start(&self, d: &mut Description) {
        let symmetric = self.recv.of.home().symmetric();
        let (Ok(rank), Some(counter)) =
            (self.recv.of.home().rank_of(self.device), self.recv.of.counter(self.recv.index))
        else {
            return;
        };
        let mut signals = signal(rank, &counter, self.bytes as u64);
        if let Some(counter) = self.send.and_then(|send| send.of.counter(send.index)) {
            signals = format!("{signals},{}", signal(symmetric.my_pe(), &counter, self.bytes as u64));
        }
        let bytes = if self.bytes > 0 { self.bytes.saturating_add(WORD) } else { 0 };
        let to = if bytes > 0 { rank } else { symmetric.my_pe() };
        d.put(symmetric.transport(), &PutText { bytes, signals: &signals, ..PutText::to(&[(to, 0)]) });
    }

    pub(super) fn describe_wait(&self, d: &mut Description, [send, recv]: [bool; 2]) {
        let halves = [self.send.filter(|_| send), Some(self.recv).filter(|_| recv)];
        halves.into_iter().flatten().for_each(|half| half.of.describe_wait(d, half.index, self.bytes as u64));
    }
}

/// Returns the bits of an element of 4 or 8 bytes that a program passes; `None`: it is another, or not there.
pub(super) fn word_of(value: Address<'_>, size: usize) -> Option<u64> {
    (matches!(size, 4 | 8) && !value.is_null()).then(|| crate::kernels::bits(value.view(size)))
}
