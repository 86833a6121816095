//! Mailboxes: short messages between threads of all ranks.

use super::communicator::Communicator;
use super::element::{input, output};
use super::names::{self, in_rust};
use crate::comm::{self, MailboxConfig, MailboxHandle};
use crate::error::{Error, Result};
use crate::mailbox::{Message, Rest};
use crate::types::Rank;

/// A communicator's mailboxes, one a rank, as one rank holds them.
///
/// A mailbox serves up to 64 threads of its rank; [`thread`](Mailbox::thread) gives each its own end. A message goes to any
/// set of threads of one rank.
///
/// ```
/// use penny::{Destination, Rest};
///
/// penny::on_threads(2, |comm| {
///     let mailbox = comm.mailbox(1, 64, 64)?;
///     let me = mailbox.thread(0);
///     me.send(b"hello", Destination::thread(1 - comm.rank(), 0))?;
///     let mut text = [0; 64];
///     let message = me.recv(&mut text)?;
///     assert_eq!((&text[..5], message.source_rank), (&b"hello"[..], 1 - comm.rank()));
///     assert_eq!(me.idle(true)?, Rest::AllVoted);
///     mailbox.destroy()
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
#[derive(Debug)]
pub struct Mailbox<'c> {
    handle: MailboxHandle,
    // The communicator's end is the mailbox's.
    comm: &'c Communicator,
}

/// One thread's end of a mailbox. Two calls at once with one number are an error.
#[derive(Clone, Copy, Debug)]
pub struct MailboxThread<'m> {
    mailbox: &'m Mailbox<'m>,
    thread: u32,
}

/// The threads of one rank that a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The rank.
    pub rank: Rank,
    /// Its threads, a bit each.
    pub threads: u64,
}

/// The description of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were copied: the message's length, rounded up to a multiple of 16 with zeros behind it, or less if the buffer is shorter.
    pub bytes: usize,
    /// The rank that sent it.
    pub source_rank: Rank,
    /// The thread that sent it.
    pub source_thread: u32,
}

impl Destination {
    /// One thread of a rank.
    pub fn thread(rank: Rank, thread: u32) -> Destination {
        Destination { rank, threads: 1u64.checked_shl(thread).unwrap_or(0) }
    }
}

impl Communicator {
    /// Makes a mailbox on every rank: for `threads` threads of this rank, with room for `slots` messages of at most
    /// `slot_bytes` bytes, a multiple of 16. All ranks call; only `slot_bytes` must be the same.
    pub fn mailbox(&self, threads: u32, slots: u32, slot_bytes: u32) -> Result<Mailbox<'_>> {
        let config = MailboxConfig { threads, slots, slot_bytes };
        let handle = in_rust(comm::mailbox_create(self.handle(), &config))?;
        Ok(Mailbox { handle, comm: self })
    }
}

impl Mailbox<'_> {
    /// Returns the end of a thread, numbered from 0.
    pub fn thread(&self, thread: u32) -> MailboxThread<'_> {
        MailboxThread { mailbox: self, thread }
    }

    /// Ends the mailboxes of all ranks. All ranks call. One that is dropped ends with its communicator.
    pub fn destroy(self) -> Result<()> {
        in_rust(comm::mailbox_destroy(self.handle))
    }
}

impl MailboxThread<'_> {
    /// Returns the thread as the number that `comm` takes.
    fn number(&self) -> Result<i32> {
        let refusal = |_| Error::argument(format!("thread {} is not of this mailbox", self.thread));
        i32::try_from(self.thread).map_err(refusal)
    }

    /// Sends a message. Waits while the other mailbox is full.
    pub fn send(&self, message: &[u8], to: Destination) -> Result<()> {
        let (thread, rank) = (self.number()?, names::rank("rank", to.rank, self.mailbox.comm.size())?);
        in_rust(comm::mailbox(self.mailbox.handle, |boxes| {
            let slot = boxes.write(thread, input(message).view(message.len()))?;
            boxes.multicast(rank, to.threads, slot)
        }))
    }

    /// Sends a message unless that would wait; tells whether it was sent.
    pub fn try_send(&self, message: &[u8], to: Destination) -> Result<bool> {
        let (thread, rank) = (self.number()?, names::rank("rank", to.rank, self.mailbox.comm.size())?);
        in_rust(comm::mailbox(self.mailbox.handle, |boxes| {
            let slot = boxes.write(thread, input(message).view(message.len()))?;
            boxes.try_multicast(rank, to.threads, slot)
        }))
    }

    /// Takes the oldest message for this thread into `buffer`. Waits until there is one.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<Received> {
        let thread = self.number()?;
        let message = in_rust(comm::mailbox(self.mailbox.handle, |boxes| boxes.recv(thread)))?;
        self.take(&message, buffer)
    }

    /// Takes the oldest message for this thread into `buffer`, if there is one.
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<Option<Received>> {
        let thread = self.number()?;
        let message = in_rust(comm::mailbox(self.mailbox.handle, |boxes| boxes.try_recv(thread)))?;
        message.map(|message| self.take(&message, buffer)).transpose()
    }

    /// Copies a message and frees it.
    fn take(&self, message: &Message, buffer: &mut [u8]) -> Result<Received> {
        let (thread, len) = (self.number()?, buffer.len());
        let here = output(buffer);
        let bytes = in_rust(comm::mailbox(self.mailbox.handle, |boxes| {
            let bytes = boxes.read(message, here.address().view(len))?;
            boxes.free(thread, message.data).map(|()| bytes)
        }))?;
        Ok(Received { bytes, source_rank: message.source_rank, source_thread: message.source_thread })
    }

    /// Waits until there is a message for this thread, or until all threads of all ranks' mailboxes are idle and no
    /// message is left.
    pub fn idle(&self, vote: bool) -> Result<Rest> {
        let thread = self.number()?;
        in_rust(comm::mailbox(self.mailbox.handle, |boxes| boxes.idle(thread, vote)))
    }
}
