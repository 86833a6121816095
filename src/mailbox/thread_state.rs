//! The state of one thread of a mailbox, in its own process's memory: no peer can change it.
//!
//! One operating system thread at a time may use a state; a second one gets an error. Every operation first takes its
//! state, so a mailbox is closed by taking all states for good.

use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};

/// `ThreadState::taken`: by a call.
const TAKEN: u32 = 1;
/// `ThreadState::taken`: for good.
const CLOSED: u32 = 2;

/// The state of a thread of a mailbox. Only the thread that uses it changes it.
#[repr(align(128))]
pub(super) struct ThreadState {
    taken: AtomicU32,
    /// Position in its queue.
    position: AtomicU32,
    /// Length of the next message.
    flits: AtomicU32,
    /// Messages held: received and not freed.
    holding: AtomicU32,
    /// Looks since something was there.
    vain: AtomicU32,
    /// Rounds of being idle that have ended.
    round: AtomicU64,
    /// Messages received.
    received: AtomicU64,
    /// Messages sent.
    sent: AtomicU64,
    /// The slots of the messages held, a bit each.
    held: Box<[AtomicU64]>,
}

/// The reason for which a thread's state cannot be entered.
pub(super) enum Refusal {
    /// Another thread uses it.
    Taken,
    /// The mailbox is closed.
    Closed,
}

/// The exclusive use of a thread's state, until it is dropped.
pub(super) struct ThreadGuard<'a>(&'a ThreadState);

impl ThreadState {
    /// Makes the state of a thread of a mailbox with `slots` slots.
    pub fn new(slots: u32, flits: u32) -> ThreadState {
        ThreadState {
            taken: AtomicU32::new(0),
            position: AtomicU32::new(0),
            flits: AtomicU32::new(flits),
            holding: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            round: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            held: (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Takes the exclusive use of the state.
    #[inline]
    pub fn take(&self) -> Result<ThreadGuard<'_>, Refusal> {
        // ORDER: what the last one to sit here did is seen; partner: the store in `ThreadGuard::drop`.
        match self.taken.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(ThreadGuard(self)),
            Err(TAKEN) => Err(Refusal::Taken),
            Err(_) => Err(Refusal::Closed),
        }
    }

    /// Closes the state for good. Returns false while a thread uses it.
    pub fn close(&self) -> bool {
        matches!(
            self.taken.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed),
            Ok(_) | Err(CLOSED)
        )
    }

    /// Opens the state for use again.
    pub fn reopen(&self) {
        let _ = self.taken.compare_exchange(CLOSED, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Messages received so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
    /// Messages sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.store(0, Ordering::Release);
    }
}

fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl ThreadGuard<'_> {
    pub fn position(&self) -> u32 {
        self.0.position.load(Ordering::Relaxed)
    }
    pub fn flits(&self) -> u32 {
        self.0.flits.load(Ordering::Relaxed)
    }
    pub fn set_flits(&self, flits: u32) {
        self.0.flits.store(flits, Ordering::Relaxed);
    }
    pub fn holding(&self) -> u32 {
        self.0.holding.load(Ordering::Relaxed)
    }
    pub fn round(&self) -> u64 {
        self.0.round.load(Ordering::Relaxed)
    }
    pub fn end_round(&self) {
        bump(&self.0.round);
    }
    pub fn count_sent(&self) {
        bump(&self.0.sent);
    }

    /// Takes the message at the head of the queue.
    pub fn hold(&self, slot: u32) {
        let (word, bit) = self.bit(slot);
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        self.0.holding.store(self.holding() + 1, Ordering::Relaxed);
        self.0.position.store(self.position().wrapping_add(1), Ordering::Relaxed);
        self.0.vain.store(0, Ordering::Relaxed);
        bump(&self.0.received);
    }

    /// Gives a message up. False if it is not held.
    pub fn let_go(&self, slot: u32) -> bool {
        let (word, bit) = self.bit(slot);
        let held = word.load(Ordering::Relaxed);
        if held & bit == 0 {
            return false;
        }
        word.store(held & !bit, Ordering::Relaxed);
        self.0.holding.store(self.holding() - 1, Ordering::Relaxed);
        true
    }

    /// Counts a look that found nothing. Returns true at intervals, when the caller should check whether a message can
    /// still arrive.
    pub fn in_vain(&self) -> bool {
        let vain = self.0.vain.load(Ordering::Relaxed).wrapping_add(1);
        self.0.vain.store(vain, Ordering::Relaxed);
        vain.is_multiple_of(64)
    }

    fn bit(&self, slot: u32) -> (&AtomicU64, u64) {
        (&self.0.held[slot as usize / 64], 1 << (slot % 64))
    }
}
