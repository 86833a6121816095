//! Receiving, and being done with what was received.

use super::set::{AwaitedRanks, Mailboxes};
use super::thread_state::ThreadGuard;
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::mailbox::FLIT;
use crate::memory::view::Payload;
use crate::recorder;
use crate::sync::prim::model::Ordering;
use crate::types::Rank;

/// A message in this rank's mailbox, until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its address. Other receivers read it, too.
    pub data: usize,
    /// Its length.
    pub flits: u32,
    /// The rank of the sender.
    pub source_rank: Rank,
    /// The thread number of the sender.
    pub source_thread: u32,
    /// The local key of the sending key's entry for this mailbox; 0 without a key.
    pub local_key: u32,
}

impl Mailboxes {
    /// Receives the oldest message for a thread. Waits until there is one.
    #[inline]
    pub fn recv(&self, thread: i32) -> Result<Message> {
        let mut recorded = recorder::record(|d| self.describe_receipt(d, thread, 1));
        let (thread, guard) = self.sit(thread)?;
        let (words, position) = (self.mine().words(), guard.position());
        let mut head = words.head(thread, position);
        if head.is_none() {
            let ready = || {
                head = words.head(thread, position);
                head.is_some()
            };
            self.wait(thread, ready, || self.hope(), || AwaitedRanks::of_all("a message"))?;
        }
        let slot = head.ok_or_else(|| Error::internal("a wait for a message ended without one"))?;
        recorded.iter_mut().for_each(|recorded| recorded.took(slot));
        self.open_letter(&guard, slot)
    }

    /// Receives the oldest message for a thread, if there is one.
    #[inline]
    pub fn try_recv(&self, thread: i32) -> Result<Option<Message>> {
        let recorded = recorder::record(|d| self.describe_receipt(d, thread, 1));
        let found = self.receive_or_leave(thread);
        let slot = match &found {
            Ok(Some(message)) => self.mine().slot_at(message.data),
            _ => None,
        };
        if let Some(mut recorded) = recorded {
            match slot {
                Some(slot) => recorded.took(slot),
                None => recorded.forget(),
            }
        }
        found
    }

    #[inline]
    fn receive_or_leave(&self, thread: i32) -> Result<Option<Message>> {
        let (thread, guard) = self.sit(thread)?;
        self.transport.poll_far();
        match self.mine().words().head(thread, guard.position()) {
            Some(slot) => self.open_letter(&guard, slot).map(Some),
            None => self.nothing(&guard).map(|()| None),
        }
    }

    /// Tells whether there is a message for a thread.
    #[inline]
    pub fn can_recv(&self, thread: i32) -> Result<bool> {
        let (thread, guard) = self.sit(thread)?;
        self.transport.poll_far();
        let there = self.mine().words().head(thread, guard.position()).is_some();
        if !there {
            self.nothing(&guard)?;
        }
        Ok(there)
    }

    /// A program that polls has to learn, too, that nothing can come any more.
    #[inline]
    fn nothing(&self, guard: &ThreadGuard<'_>) -> Result<()> {
        if guard.in_vain() { self.looked_in_vain() } else { Ok(()) }
    }

    #[inline]
    fn open_letter(&self, guard: &ThreadGuard<'_>, slot: u32) -> Result<Message> {
        let (block, line) = (self.mine(), &self.mine().words().slots[slot as usize]);
        guard.hold(slot);
        die_point!(109 "mail_received");
        let (source, flits) = (line.source.load(Ordering::Relaxed), line.flits.load(Ordering::Relaxed));
        let most = block.shape().slot_bytes / FLIT as u32;
        if flits == 0 || flits > most {
            return Err(Error::remote(format!(
                "rank {} sent a message of {flits} flits, where 1 to {most} fit; destroy the communicator",
                source >> 32
            )));
        }
        Ok(Message {
            data: block.payload(slot, 0).addr() as usize,
            flits,
            source_rank: (source >> 32) as Rank,
            source_thread: source as u32,
            local_key: line.local_key.load(Ordering::Relaxed),
        })
    }

    /// Copies a message that a thread has received; how many bytes, at most those of `into`.
    pub fn read(&self, message: &Message, into: Payload<'_>) -> Result<usize> {
        let block = self.mine();
        let slot =
            block.slot_at(message.data).ok_or_else(|| Error::internal("a message outside of its mailbox"))?;
        let bytes = into.bytes().min(message.flits as usize * FLIT).min(block.shape().slot_bytes as usize);
        kernels::copy(into.part(0, bytes), block.payload(slot, bytes), false);
        Ok(bytes)
    }

    /// Frees a message that a thread has received. The slot is free when all receivers have freed it.
    #[inline]
    pub fn free(&self, thread: i32, data: usize) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_free(d, thread, data));
        let (thread, guard) = self.sit(thread)?;
        let slot = self.mine().slot_at(data).ok_or_else(|| {
            Error::argument(format!("data {data:#x} is no message in rank {}'s mailbox", self.rank()))
        })?;
        self.in_turn()?;
        if !guard.let_go(slot) {
            return Err(Error::usage(format!(
                "thread {thread} of rank {} does not hold the message at {data:#x}: it freed it already, or never received it",
                self.rank()
            )));
        }
        match self.mine().words().release(slot) {
            Some(true) => {
                die_point!(112 "mail_freed");
                self.slot_freed(self.rank());
            }
            Some(false) => {}
            None => {
                return Err(Error::remote(format!(
                    "rank {}'s mailbox was overwritten: the message at {data:#x} counts no receivers; destroy the communicator",
                    self.rank()
                )));
            }
        }
        Ok(())
    }
}
