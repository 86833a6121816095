//! The mailboxes of a communicator: made and ended by all ranks together, used by each rank's threads without a lock.
//!
//! Every rank makes its own mailbox in its shareable heap, then tells all where it is and how large, or that it could not. So
//! one exchange is the agreement, the address book and the verdict. A mailbox's memory is used again only when no rank can write
//! to it any more: after all have closed theirs, or after all have left.

use super::communicator::CommCore;
use super::onesided::deferred_free::DeferredFree;
use super::registry::{self, CommHandle};
use crate::error::{Code, Error, Result};
use crate::handle::{self, MailboxKind, Objects, Remembered};
use crate::mailbox::{self, MailboxShape, Mailboxes};
use crate::memory::heap;
use crate::types::Rank;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// The settings of a rank's mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxConfig {
    /// Threads that it serves, at most 64.
    pub threads: u32,
    /// Messages that it holds.
    pub slots: u32,
    /// Bytes of a message at most, a multiple of 16. The same on all ranks: a message must fit anywhere.
    pub slot_bytes: u32,
}

/// The mailboxes behind a handle.
struct OpenMailbox {
    boxes: Mailboxes,
    comm: CommHandle,
    /// The communicator's call that made it: the same on all ranks.
    number: u64,
    deferred: Mutex<Option<DeferredFree>>,
}

thread_local! {
    static LAST: Remembered<MailboxKind, OpenMailbox> = const { RefCell::new(None) };
}
static TABLE: Objects<MailboxKind, OpenMailbox> = Objects::new(&LAST);

/// Names one rank's mailboxes in this process.
pub type MailboxHandle = handle::Handle<MailboxKind>;

/// The first word of an exchange between ranks that make a mailbox.
const MAKE: u64 = 0x6d62_6f78_0001;
const END: u64 = 0x6d62_6f78_0002;
const WORDS: usize = 6;

impl OpenMailbox {
    fn deferred(&self) -> Option<DeferredFree> {
        self.deferred.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

impl CommCore {
    fn mailbox_create(&mut self, config: &MailboxConfig) -> Result<MailboxHandle> {
        self.usable()?;
        self.broken()?;
        let &MailboxConfig { threads, slots, slot_bytes } = config;
        let shape = MailboxShape { threads, slots, slot_bytes, ranks: self.nranks() };
        let made = self.mailbox_prepare(&shape);
        let (state, offset) = match &made {
            Ok((_, offset)) => (0, *offset),
            Err(e) => (e.code as u64, 0),
        };
        let told = self.tell_all(&[MAKE, state, offset, threads as u64, slots as u64, slot_bytes as u64]);
        let told = match told {
            Ok(told) => told,
            Err(e) => {
                // Some rank may have heard of this one's.
                made.into_iter().for_each(|(deferred, _)| deferred.keep());
                return Err(e);
            }
        };
        let (deferred, _) = made?;
        match self.mailbox_agreed(&told) {
            Ok(told) => {
                let boxes = Mailboxes::new(self.transport.clone(), &told).map(|boxes| self.in_place(boxes));
                let open_mailbox = boxes.map(|boxes| OpenMailbox {
                    boxes,
                    comm: self.handle(),
                    number: self.seq,
                    deferred: Mutex::new(None),
                });
                let open_mailbox = match open_mailbox {
                    Ok(open_mailbox) => Arc::new(open_mailbox),
                    Err(e) => {
                        deferred.keep();
                        return Err(e);
                    }
                };
                *open_mailbox.deferred.lock().unwrap_or_else(|e| e.into_inner()) = Some(deferred);
                TABLE.insert(open_mailbox.clone()).ok_or_else(|| {
                    open_mailbox.deferred().into_iter().for_each(DeferredFree::keep);
                    Error::system("this process has as many mailboxes as it can have; destroy some")
                })
            }
            Err(e) => {
                // All ranks know that there is none.
                deferred.free()?;
                Err(e)
            }
        }
    }

    /// Attaches the mailboxes to the declared machine, if there is one, so that they take its time.
    fn in_place(&self, boxes: Mailboxes) -> Mailboxes {
        match self.placement_view() {
            None => boxes,
            Some(placement_view) => boxes.on_machine(placement_view),
        }
    }

    /// Checks a mailbox against the declared machine, whose places may limit the number of threads.
    fn mailbox_fits(&self, shape: &MailboxShape) -> Result<()> {
        let network = self.placement.as_ref().map(|placement| placement.participant().network());
        match network.and_then(|network| Some((network, network.mailbox?))) {
            Some((network, mailbox)) if shape.threads > mailbox.threads => Err(Error::argument(format!(
                "threads is {} on rank {}; a mailbox of the declared machine {} has {}",
                shape.threads,
                self.rank(),
                network.name,
                mailbox.threads
            ))),
            _ => Ok(()),
        }
    }

    /// Makes this rank's own mailbox, which no other rank knows yet.
    fn mailbox_prepare(&self, shape: &MailboxShape) -> Result<(DeferredFree, u64)> {
        shape.check()?;
        self.mailbox_fits(shape)?;
        let addr = heap::mine()?.alloc(shape.bytes())?;
        let deferred = DeferredFree::new(addr, self.transport.clone());
        match mailbox::prepare(addr, shape, self.rank()) {
            Ok(offset) => Ok((deferred, offset)),
            Err(e) => {
                deferred.free()?;
                Err(e)
            }
        }
    }

    /// Returns the places of all mailboxes, if every rank has made one and a message fits into each.
    fn mailbox_agreed(&self, told: &[u64]) -> Result<Vec<(u64, MailboxShape)>> {
        let each = || (0..).zip(told.chunks_exact(WORDS));
        if let Some((rank, _)) = each().find(|(_, words)| words[0] != MAKE) {
            let me = self.rank();
            return Err(Error::usage(format!(
                "ranks disagree: rank {me} makes a mailbox, rank {rank} does something else; all ranks must make the same calls"
            )));
        }
        if let Some((rank, words)) = each().find(|(_, words)| words[1] != 0) {
            let text =
                format!("rank {rank} could not make its mailbox, so no rank did; its own error says why");
            let argument = words[1] == Code::InvalidArgument as u64;
            return Err(if argument { Error::usage(text) } else { Error::system(text) });
        }
        if let Some((rank, words)) = each().find(|(_, words)| words[5] != told[5]) {
            return Err(Error::usage(format!(
                "ranks disagree: slotBytes is {} on rank 0 and {} on rank {rank}; a message must fit into any mailbox",
                told[5], words[5]
            )));
        }
        let word = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
        let shape = |w: &[u64]| MailboxShape {
            threads: word(w[3]),
            slots: word(w[4]),
            slot_bytes: word(w[5]),
            ranks: self.nranks(),
        };
        Ok(each().map(|(_, words): (Rank, _)| (words[2], shape(words))).collect())
    }

    fn mailbox_destroy(&mut self, handle: MailboxHandle, open_mailbox: &OpenMailbox) -> Result<()> {
        self.usable()?;
        open_mailbox.boxes.close();
        let told = self.tell_all(&[END, open_mailbox.number, 0, 0, 0, 0]).and_then(|told| {
            let others = (0..).zip(told.chunks_exact(WORDS));
            match others.into_iter().find(|(_, words)| words[..2] != [END, open_mailbox.number]) {
                None => Ok(()),
                Some((rank, _)) => Err(Error::usage(format!(
                    "ranks disagree: rank {} destroys the mailbox of call #{}, rank {rank} does something else",
                    self.rank(),
                    open_mailbox.number
                ))),
            }
        });
        match told {
            Err(e) if e.code == Code::InvalidUsage => {
                open_mailbox.boxes.reopen();
                Err(e)
            }
            told => {
                TABLE.remove(handle);
                let deferred = open_mailbox.deferred();
                match told {
                    // Nobody's threads are inside a call any more.
                    Ok(()) => deferred.map_or(Ok(()), DeferredFree::free),
                    Err(e) => {
                        deferred.into_iter().for_each(DeferredFree::keep);
                        Err(e)
                    }
                }
            }
        }
    }
}

/// Ends the mailboxes of an ending communicator, and the waits of its threads.
pub(super) fn forget(comm: CommHandle) {
    for (handle, open_mailbox) in
        TABLE.all().into_iter().filter(|(_, open_mailbox)| open_mailbox.comm == comm)
    {
        TABLE.remove(handle);
        open_mailbox.boxes.close();
        open_mailbox.deferred().into_iter().for_each(DeferredFree::keep);
    }
}

#[cold]
fn stale(mailbox: MailboxHandle) -> Error {
    mailbox.refusal(
        "mb",
        format_args!(
            "mb is not a live mailbox: it was destroyed already, or its communicator was, or it was never created"
        ),
    )
}

/// Makes a mailbox on every rank of a communicator. All ranks call.
pub fn mailbox_create(comm: CommHandle, config: &MailboxConfig) -> Result<MailboxHandle> {
    registry::enter(comm, |c| c.mailbox_create(config))
}
/// Ends it. All ranks call; this rank's other threads must not be inside a call on it, or are told.
pub fn mailbox_destroy(mailbox: MailboxHandle) -> Result<()> {
    let open_mailbox = TABLE.get(mailbox).ok_or_else(|| stale(mailbox))?;
    registry::enter(open_mailbox.comm, |c| c.mailbox_destroy(mailbox, &open_mailbox))
}
/// Uses it, from any thread.
#[inline]
pub fn mailbox<T>(mailbox: MailboxHandle, body: impl FnOnce(&Mailboxes) -> Result<T>) -> Result<T> {
    TABLE.with(mailbox, |open_mailbox| body(&open_mailbox.boxes)).unwrap_or_else(|| Err(stale(mailbox)))
}
