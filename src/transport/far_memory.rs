//! One-sided access to the memory of far ranks: this rank asks, and the far rank's process does it.
//!
//! ```text
//!     rank 0 (host a)                                     rank 1 (host b), a thread that polls or the attendant
//!     put, put, signal    ---- frames, in order ---->     stores, stores, adds to the signal, rings rank 1
//!     get, fetch          ---- a ticket ----------->      reads, changes
//!                         <--- the answer ----------
//!     quiet               ---- how far? ----------->
//!                         <--- 3 are done ----------
//! ```
//!
//! Requests from one rank to another are carried out in their order, as those of one host's ranks are. A put returns when its bytes
//! are copied; no more than `WINDOW` are under way, so that the queue to a slow rank stays short.
//!
//! A rank opens the ranges of its heap that others may access ([`Transport::open`]). A request for anything else, from any rank, changes
//! nothing and breaks the communicator.

use super::Transport;
use super::far::FarRanks;
use super::link::{Body, FarAccess, LARGEST_ACCESS, OwnedBody, copied};
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::control::signals::{CONTEXTS, SIGNALS};
use crate::memory::heap::PeerHeap;
use crate::memory::view::Payload;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::types::Rank;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Requests to one rank that may be under way.
pub(super) const WINDOW: u64 = 256;
/// Number of requests carried out after which a rank tells the sender unasked.
const TOLD_EVERY: u64 = WINDOW / 4;

/// What a rank keeps for one-sided access over its links.
pub(super) struct FarMemory {
    /// This rank's own heap.
    heap: OnceLock<Arc<PeerHeap>>,
    /// The ranges of it that far ranks may access: where each begins, and its bytes.
    opened: Mutex<Vec<(u64, u64)>>,
    /// What else far ranks may ask for, by number.
    services: Mutex<BTreeMap<u64, Arc<dyn Service>>>,
    /// By rank.
    pub(super) peers: Box<[PeerRequests]>,
    pub(super) tickets: AtomicU64,
    /// The answers that threads of this rank wait for, once they have come.
    pub(super) answers: Mutex<BTreeMap<u64, Option<Vec<u64>>>>,
    /// What is to be sent when the link has been polled.
    replies: Mutex<Vec<(Rank, OwnedBody)>>,
    /// There is something in it.
    has_replies: AtomicBool,
}

/// Carries out what far ranks ask for, between two polls of the link. It does not wait for them.
pub trait Service: Send + Sync {
    /// Does what a rank asks for; returns the answer. Nothing of what is asked is to be believed.
    fn serve(&self, from: Rank, words: [u64; 3], bytes: Payload<'_>) -> Result<u64>;
}

#[derive(Default)]
pub(super) struct PeerRequests {
    /// Requests to it, and how many of them it says that it has carried out.
    pub(super) asked: AtomicU64,
    pub(super) done: AtomicU64,
    /// Requests up to which it was asked how far it is.
    pub(super) questioned: AtomicU64,
    /// Held while a request is counted and sent: who asks how far the rank is asks behind all that are counted.
    pub(super) sending: Mutex<()>,
    /// Its requests that were carried out here, and how many of them it was told of.
    served: AtomicU64,
    told: AtomicU64,
    /// The space of its signals is reserved.
    signals: AtomicBool,
}

impl FarMemory {
    pub fn new(nranks: usize) -> FarMemory {
        FarMemory {
            heap: OnceLock::new(),
            opened: Mutex::new(Vec::new()),
            services: Mutex::new(BTreeMap::new()),
            peers: (0..nranks).map(|_| PeerRequests::default()).collect(),
            tickets: AtomicU64::new(1),
            answers: Mutex::new(BTreeMap::new()),
            replies: Mutex::new(Vec::new()),
            has_replies: AtomicBool::new(false),
        }
    }

    /// Sets this rank's own heap.
    pub fn set_heap(&self, heap: Arc<PeerHeap>) {
        let _ = self.heap.set(heap);
    }

    /// Returns the rank's heap if a range of it is open.
    fn open_heap(&self, at: u64, bytes: u64) -> Option<&PeerHeap> {
        let end = at.checked_add(bytes)?;
        let holds = |&(begin, length): &(u64, u64)| begin <= at && end - begin <= length;
        self.opened.lock().iter().any(holds).then(|| self.heap.get().map(|heap| &**heap))?
    }

    pub(super) fn under_way(&self, to: Rank) -> u64 {
        let peer = &self.peers[to as usize];
        peer.asked.load(Ordering::Relaxed).saturating_sub(peer.done.load(Ordering::Acquire))
    }

    fn reply(&self, to: Rank, access: FarAccess<'_>) {
        let mut replies = self.replies.lock();
        replies.push((to, OwnedBody::of(Body::Access(access))));
        self.has_replies.store(true, Ordering::Relaxed);
    }

    fn tell(&self, to: Rank) {
        let peer = &self.peers[to as usize];
        let served = peer.served.load(Ordering::Relaxed);
        peer.told.store(served, Ordering::Relaxed);
        self.reply(to, FarAccess::Done(served));
    }
}

impl FarRanks {
    /// Carries out what a far rank asks for.
    pub(super) fn access(&self, from: Rank, access: FarAccess<'_>) -> Result<()> {
        let memory = &self.memory;
        let refused = |at: u64, bytes: u64| {
            Error::remote(format!(
                "rank {from} accesses memory of rank {} that is not open to it ({bytes} bytes at offset {at} of its shareable heap); either \
                 it was freed while rank {from} still used it, or the rank or its network is faulty: make a new communicator",
                self.rank
            ))
        };
        let whole = |at: u64, bytes: u64| {
            let view = memory.open_heap(at, bytes).and_then(|heap| heap.view(at as usize, bytes as usize));
            view.ok_or_else(|| refused(at, bytes))
        };
        match access {
            FarAccess::Put { at, bytes, .. } => {
                let view = whole(at, bytes.bytes() as u64)?;
                let heap = memory.heap.get();
                // A rank that waits for an element must not see half of it.
                let word64 = heap.filter(|_| bytes.bytes() == 8).and_then(|heap| heap.word64(at as usize));
                let word32 = heap.filter(|_| bytes.bytes() == 4).and_then(|heap| heap.word32(at as usize));
                match (word64, word32) {
                    (Some(word), _) => word.store(kernels::bits(bytes), Ordering::Release),
                    (_, Some(word)) => word.store(kernels::bits(bytes) as u32, Ordering::Release),
                    _ => kernels::copy(view, bytes, false),
                }
            }
            FarAccess::Change { at, change, wide, ticket, .. } => {
                let bytes = if wide { 8 } else { 4 };
                let heap = memory.open_heap(at, bytes).ok_or_else(|| refused(at, bytes))?;
                let before = match wide {
                    true => heap.word64(at as usize).map(|word| change.apply64(word)),
                    false => heap.word32(at as usize).map(|word| change.apply32(word)),
                };
                let mut before = [before.ok_or_else(|| refused(at, bytes))?];
                if ticket != 0 {
                    memory.reply(from, FarAccess::Answer { ticket, bytes: Payload::from(&mut before[..]) });
                }
            }
            FarAccess::Get { at, bytes, ticket } => {
                if bytes > LARGEST_ACCESS as u64 {
                    return Err(refused(at, bytes));
                }
                memory.reply(from, FarAccess::Answer { ticket, bytes: whole(at, bytes)? });
            }
            FarAccess::Signal { context, index } => {
                let (context, index) = (context as usize, index as usize);
                if context >= CONTEXTS || index >= SIGNALS {
                    return Err(Error::remote(format!(
                        "rank {from} gives a signal that there is not; the rank or its network is faulty: make a new communicator"
                    )));
                }
                if !memory.peers[from as usize].signals.swap(true, Ordering::Relaxed) {
                    self.near.reserve_signals(from, self.rank)?;
                }
                // ORDER: publishes the data that came before; partner: the load in `Pending::came`.
                self.near.signal(from, self.rank, context, index).fetch_add(1, Ordering::Release);
            }
            FarAccess::Ask { of, words, bytes, ticket, .. } => {
                let service = memory.services.lock().get(&of).cloned();
                let service = service.ok_or_else(|| {
                    Error::remote(format!(
                        "rank {from} sends to a mailbox of rank {} that was destroyed, or never created: make a new communicator",
                        self.rank
                    ))
                })?;
                let mut answer = [service.serve(from, words, bytes)?];
                if ticket != 0 {
                    memory.reply(from, FarAccess::Answer { ticket, bytes: Payload::from(&mut answer[..]) });
                }
            }
            FarAccess::HowFar => {
                memory.tell(from);
                return Ok(());
            }
            FarAccess::Done(done) => {
                let peer = &memory.peers[from as usize];
                // ORDER: what it has carried out is there; partner: `under_way`.
                peer.done.fetch_max(done.min(peer.asked.load(Ordering::Relaxed)), Ordering::Release);
                return Ok(());
            }
            FarAccess::Answer { ticket, bytes } => {
                if let Some(answer) = memory.answers.lock().get_mut(&ticket) {
                    *answer = Some(copied(bytes));
                }
                return Ok(());
            }
        }
        let peer = &memory.peers[from as usize];
        let served = peer.served.fetch_add(1, Ordering::Relaxed) + 1;
        if served - peer.told.load(Ordering::Relaxed) >= TOLD_EVERY {
            memory.tell(from);
        }
        Ok(())
    }

    /// Sends what was asked for. Tells whether that was anything.
    pub(super) fn send_replies(&self) -> bool {
        // A thread that adds a reply sends the replies itself afterwards, so a stale `false` loses none.
        if !self.memory.has_replies.load(Ordering::Relaxed) {
            return false;
        }
        let replies = {
            let mut replies = self.memory.replies.lock();
            self.memory.has_replies.store(false, Ordering::Relaxed);
            std::mem::take(&mut *replies)
        };
        let any = !replies.is_empty();
        for (to, mut body) in replies {
            self.post(to, body.body());
        }
        any
    }

    /// This rank leaves: who has asked for something is told that it is done.
    pub(super) fn tell_served(&self) {
        for (rank, peer) in (0..).zip(&self.memory.peers) {
            if peer.served.load(Ordering::Relaxed) != peer.told.load(Ordering::Relaxed) {
                self.memory.tell(rank);
            }
        }
        self.send_replies();
    }
}

impl Transport {
    pub(super) fn memory(&self) -> Option<&FarMemory> {
        self.far.as_ref().map(|far| &far.memory)
    }

    /// Lets far ranks access a range of this rank's heap. Do it before they are told of it.
    pub fn open(&self, at: u64, bytes: usize) {
        if let Some(memory) = self.memory() {
            memory.opened.lock().push((at, bytes as u64));
        }
    }

    /// Lets far ranks ask a service. Its number is the same on all ranks.
    pub fn serve(&self, number: u64, service: Arc<dyn Service>) {
        if let Some(memory) = self.memory() {
            memory.services.lock().insert(number, service);
        }
    }

    /// Ends that.
    pub fn stop_serving(&self, number: u64) {
        if let Some(memory) = self.memory() {
            memory.services.lock().remove(&number);
        }
    }

    /// This rank is about to leave: who has asked it for something is told that it is done.
    pub(super) fn tell_served(&self) {
        if let Some(far) = &self.far {
            far.tell_served();
        }
    }

    /// Ends that.
    pub fn shut(&self, at: u64, bytes: usize) {
        if let Some(memory) = self.memory() {
            let mut opened = memory.opened.lock();
            let place = opened.iter().position(|&range| range == (at, bytes as u64));
            place.into_iter().for_each(|place| _ = opened.swap_remove(place));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
