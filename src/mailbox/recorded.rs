//! How messages to mailboxes describe themselves in a record (`src/recorder.rs`): a message is bytes for memory, and a signal for each
//! thread that is to have it.

use super::set::Mailboxes;
use crate::memory::mailbox::FLIT;
use crate::recorder::{Description, PutText, signal};
use crate::types::Rank;

impl Mailboxes {
    /// Returns the name of the counter of messages to a thread, the same on all ranks.
    fn counter(&self, thread: u32) -> String {
        format!("thread {thread} of mailbox {}", self.number)
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
        d.put(&self.transport, &PutText { bytes, signals: &signals, ..PutText::to(copies) });
    }

    /// Describes how a thread takes messages; `count` 0: it only waits.
    pub(super) fn describe_receipt(&self, d: &mut Description, thread: i32, count: u64) {
        let Ok(thread) = u32::try_from(thread) else { return };
        d.wait(&self.transport, &self.counter(thread), count, 0);
    }
}
