//! The mailboxes of a communicator: made and ended by all ranks together, used by each rank's threads without a lock.
//!
//! Every rank makes its own mailbox in its shareable heap, then tells all where it is and how large, or that it could not. So
//! one exchange is the agreement, the address book and the verdict. A mailbox's memory is used again only when no rank can write
//! to it any more: after all have closed theirs, or after all have left.

use super::agree::{Answers, Proposal, Subject};
use super::communicator::CommCore;
use super::onesided::deferred_free::DeferredFree;
use super::registry::{self, CommHandle};
use crate::error::{Code, Error, Result};
use crate::handle::{self, MailboxKind, Objects, Remembered};
use crate::mailbox::{self, MailboxService, MailboxShape, Mailboxes};
use crate::memory::heap;
use crate::sync::lock::Mutex;
use crate::types::Rank;
use std::sync::Arc;

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
    /// Where it lies in this rank's heap.
    offset: u64,
    deferred: Mutex<Option<DeferredFree>>,
}

thread_local! {
    static LAST: Remembered<MailboxKind, OpenMailbox> = const { handle::nothing_remembered() };
}
static TABLE: Objects<MailboxKind, OpenMailbox> = Objects::new(&LAST);

/// Names one rank's mailboxes in this process.
pub type MailboxHandle = handle::Handle<MailboxKind>;

/// A rank's proposal.
enum MailboxCall {
    /// To make mailboxes; its own is at an offset in its heap.
    Create(MailboxShape, u64),
    /// To end those that a call made.
    Destroy(u64),
}

impl Proposal for MailboxCall {
    const SUBJECT: Subject = Subject::Mailboxes;
    const EQUAL: usize = 2;
    type Words = [u64; 5];

    /// The call; slotBytes or the number of the call that made it; and this rank's offset, threads and slots.
    fn words(&self) -> [u64; 5] {
        match self {
            MailboxCall::Create(shape, offset) => {
                [1, shape.slot_bytes as u64, *offset, shape.threads as u64, shape.slots as u64]
            }
            MailboxCall::Destroy(number) => [2, *number, 0, 0, 0],
        }
    }

    fn reads(words: &[u64]) -> String {
        match words {
            [1, ..] => "pennyMailboxCreate".into(),
            [2, number, ..] => format!("pennyMailboxDestroy of the mailbox of call #{number}"),
            _ => "something that is no call on mailboxes".into(),
        }
    }

    fn disagreement(&self, all: &Answers, [first, other]: [Rank; 2]) -> String {
        let calls = [first, other].map(|rank| all.reads::<Self>(rank));
        match calls[0] == calls[1] {
            true => format!(
                "ranks disagree: slotBytes is {} on rank {first} and {} on rank {other}; a message must fit into any mailbox",
                all.of(first)[1],
                all.of(other)[1]
            ),
            false => format!(
                "ranks disagree on mailboxes: rank {first} calls {}, rank {other} {}; all ranks must make the same calls",
                calls[0], calls[1]
            ),
        }
    }

    fn inability(&self, rank: Rank) -> String {
        format!("rank {rank} could not make its mailbox, so no rank did; its own error says why")
    }
}

impl OpenMailbox {
    fn deferred(&self) -> Option<DeferredFree> {
        self.deferred.lock().take()
    }
}

impl CommCore {
    fn mailbox_create(&mut self, config: &MailboxConfig) -> Result<MailboxHandle> {
        self.usable()?;
        self.broken()?;
        let &MailboxConfig { threads, slots, slot_bytes } = config;
        let shape = MailboxShape { threads, slots, slot_bytes, ranks: self.nranks() };
        // That of the call in which the ranks agree. Ranks of other hosts may send as soon as they have heard of it.
        let number = self.seq + 1;
        let (deferred, offset) = match self.mailbox_prepare(&shape, number) {
            Ok((deferred, offset)) => (Ok(deferred), offset),
            Err(e) => (Err(e), 0),
        };
        let part = deferred.as_ref().map(drop).map_err(Error::clone);
        let agreed = match self.propose(&MailboxCall::Create(shape, offset), part) {
            Ok(agreed) => agreed,
            Err(e) => {
                // Some rank may have heard of this one's.
                deferred.into_iter().for_each(DeferredFree::keep);
                return Err(e);
            }
        };
        let deferred = deferred?;
        let ((), all) = match agreed {
            Ok(agreed) => agreed,
            Err(e) => {
                // All ranks know that there is none.
                MailboxService::end(&self.transport, number, offset);
                deferred.free()?;
                return Err(e);
            }
        };
        let boxes = match Mailboxes::new(self.timing().clone(), &self.mailbox_shapes(&all), number) {
            Ok(boxes) => boxes,
            Err(e) => {
                deferred.keep();
                return Err(e);
            }
        };
        let open_mailbox = Arc::new(OpenMailbox {
            boxes,
            comm: self.handle(),
            number,
            offset,
            deferred: Mutex::new(Some(deferred)),
        });
        TABLE.insert(open_mailbox.clone()).ok_or_else(|| {
            open_mailbox.deferred().into_iter().for_each(DeferredFree::keep);
            Error::system("this process has as many mailboxes as it can have; destroy some")
        })
    }

    /// Checks a mailbox against the declared machine, whose places may limit the number of threads.
    fn mailbox_fits(&self, shape: &MailboxShape) -> Result<()> {
        match self.timing().network().and_then(|network| Some((network, network.mailbox?))) {
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
    fn mailbox_prepare(&self, shape: &MailboxShape, number: u64) -> Result<(DeferredFree, u64)> {
        shape.check()?;
        self.mailbox_fits(shape)?;
        let addr = heap::mine()?.alloc(shape.bytes())?;
        let deferred = DeferredFree::new(addr, self.transport.clone());
        let prepared = mailbox::prepare(addr, shape, self.rank()).and_then(|offset| {
            MailboxService::begin(&self.transport, number, offset, *shape).map(|()| offset)
        });
        match prepared {
            Ok(offset) => Ok((deferred, offset)),
            Err(e) => {
                deferred.free()?;
                Err(e)
            }
        }
    }

    /// Returns where all mailboxes are, and their shapes.
    fn mailbox_shapes(&self, all: &Answers) -> Vec<(u64, MailboxShape)> {
        let word = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
        let shape = |words: &[u64]| MailboxShape {
            threads: word(words[3]),
            slots: word(words[4]),
            slot_bytes: word(words[1]),
            ranks: self.nranks(),
        };
        all.ranks().map(|(_, words)| (words[2], shape(words))).collect()
    }

    fn mailbox_destroy(&mut self, handle: MailboxHandle, open_mailbox: &OpenMailbox) -> Result<()> {
        self.usable()?;
        open_mailbox.boxes.close();
        let told = self.agree(&MailboxCall::Destroy(open_mailbox.number), Ok(())).map(drop);
        match told {
            Err(e) if e.code == Code::InvalidUsage => {
                open_mailbox.boxes.reopen();
                Err(e)
            }
            told => {
                TABLE.remove(handle);
                let deferred = open_mailbox.deferred();
                match told {
                    // No thread of any rank is inside a call any more.
                    Ok(()) => {
                        let &OpenMailbox { number, offset, .. } = open_mailbox;
                        MailboxService::end(&self.transport, number, offset);
                        deferred.map_or(Ok(()), DeferredFree::free)
                    }
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
