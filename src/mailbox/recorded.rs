//! How messages to mailboxes describe themselves in a record (`src/recorder.rs`): a message is bytes for memory, which take a slot of each
//! mailbox until all threads there have freed it, and a signal for each thread that is to have it.

use super::set::Mailboxes;
use crate::memory::mailbox::FLIT;
use crate::recorder::{Description, PutText, mailbox_name, signal};
use crate::types::Rank;

impl Mailboxes {
    /// Returns the name of the counter of messages to a thread, the same on all ranks.
    fn counter(&self, thread: u32) -> String {
        format!("thread {thread} of {}", mailbox_name(self.number))
    }

    /// Describes a message from a send slot to threads of mailboxes.
    pub(super) fn describe_message(&self, d: &mut Description, send_slot: usize, copies: &[(Rank, u64)]) {
        let Ok((_, guard)) = self.sender(send_slot).and_then(|thread| self.sit(thread)) else { return };
        let bytes = guard.flits() as usize * FLIT;
        let threads = |mask: u64| (0..u64::BITS).filter(move |thread| mask >> thread & 1 == 1);
        let signals = copies
            .iter()
            .flat_map(|&(rank, mask)| threads(mask).map(move |thread| (rank, thread)))
            .map(|(rank, thread)| signal(rank, &self.counter(thread), 1))
            .collect::<Vec<_>>()
            .join(",");
        let slots: Vec<u32> = copies.iter().map(|&(rank, _)| self.told[rank as usize].1.slots).collect();
        let mailbox = Some((self.number, &slots[..]));
        d.put(&self.transport, &PutText { bytes, signals: &signals, mailbox, ..PutText::to(copies) });
    }

    /// Describes how a thread frees a message.
    pub(super) fn describe_free(&self, d: &mut Description, thread: i32, data: usize) {
        let (Ok(thread), Some(slot)) = (u32::try_from(thread), self.mine().slot_at(data)) else { return };
        d.free(&self.transport, self.number, &self.counter(thread), slot);
    }

    /// Describes how a thread takes messages; `count` 0: it only waits.
    pub(super) fn describe_receipt(&self, d: &mut Description, thread: i32, count: u64) {
        let Ok(thread) = u32::try_from(thread) else { return };
        d.wait(&self.transport, &self.counter(thread), count, 0);
    }
}
