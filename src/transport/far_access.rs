//! What this rank asks of far ranks' memory (see [`far_memory`](super::far_memory)).

use super::far::FarRanks;
use super::far_memory::{FarMemory, WINDOW};
use super::link::{Body, FarAccess, LARGEST_ACCESS};
use super::watch::seconds;
use super::{Scope, Transport};
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::Payload;
use crate::memory::word::Change;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::Rank;
use std::collections::VecDeque;

/// Parts of a get that may be under way.
const AHEAD: usize = 32;

impl Transport {
    /// Writes bytes to a far rank's heap at `at`. They may change when this returns. `more`: another request to this rank follows at once.
    pub fn put_far(&self, to: Rank, at: u64, bytes: Payload<'_>, more: bool) -> Result<()> {
        for begin in (0..bytes.bytes()).step_by(LARGEST_ACCESS) {
            let length = LARGEST_ACCESS.min(bytes.bytes() - begin);
            let is_last = begin + length == bytes.bytes();
            let (at, part) = (at.saturating_add(begin as u64), bytes.part(begin, length));
            self.request(to, FarAccess::Put { at, bytes: part, more: more || !is_last })?;
        }
        Ok(())
    }

    /// Changes a word of a far rank's heap, of 8 bytes if it is `wide`, else of 4. `more`: as in [`put_far`](Self::put_far).
    pub fn change_far(&self, to: Rank, at: u64, wide: bool, change: Change, more: bool) -> Result<()> {
        self.request(to, FarAccess::Change { at, wide, change, ticket: 0, more })
    }

    /// Changes a word of a far rank's heap; returns its former value.
    pub fn exchange_far(&self, to: Rank, at: u64, wide: bool, change: Change) -> Result<u64> {
        self.ask_for_word(to, |ticket| FarAccess::Change { at, wide, change, ticket, more: false })
    }

    /// Has a far rank's service do something. `more`: as in [`put_far`](Self::put_far).
    pub fn tell_far(&self, to: Rank, of: u64, words: [u64; 3], bytes: Payload<'_>, more: bool) -> Result<()> {
        self.request(to, FarAccess::Ask { of, words, bytes, ticket: 0, more })
    }

    /// Asks a far rank's service.
    pub fn ask_far(&self, to: Rank, of: u64, words: [u64; 3]) -> Result<u64> {
        self.ask_for_word(to, |ticket| FarAccess::Ask {
            of,
            words,
            bytes: Payload::EMPTY,
            ticket,
            more: false,
        })
    }

    /// Reads bytes of a far rank's heap from `at` on.
    pub fn get_far(&self, from: Rank, at: u64, dest: Payload<'_>) -> Result<()> {
        let parts = (0..dest.bytes()).step_by(LARGEST_ACCESS).map(|begin| {
            let bytes = LARGEST_ACCESS.min(dest.bytes() - begin);
            (at.saturating_add(begin as u64), dest.part(begin, bytes))
        });
        self.get_far_pieces(from, parts)
    }

    /// Reads N words of several far ranks' heaps: all are asked at once, and none is waited for after `patience_ns`. `None`: it has not
    /// answered.
    pub fn words_of_each<const N: usize>(
        &self,
        each: &[(Rank, u64)],
        patience_ns: u64,
    ) -> Vec<Option<[u64; N]>> {
        let Some(memory) = self.memory() else { return vec![None; each.len()] };
        let deadline_ns = clock::now_ns().saturating_add(patience_ns);
        let mut all = vec![[0; N]; each.len()];
        let asked = each.iter().zip(&mut all).map(|(&(from, at), words)| {
            let mut waiting = Waiting { memory, under_way: VecDeque::new() };
            let ticket = waiting.add(Payload::from(&mut words[..]));
            let get = FarAccess::Get { at, bytes: 8 * N as u64, ticket };
            // A rank that takes in nothing is not waited for to take in this.
            let is_asked = memory.under_way(from) < WINDOW && self.request(from, get).is_ok();
            is_asked.then_some(waiting)
        });
        let asked: Vec<Option<Waiting<'_, '_>>> = asked.collect();
        let has_answered = |(&(from, _), waiting): (&(Rank, u64), Option<Waiting<'_, '_>>)| {
            waiting.is_some_and(|mut waiting| self.await_answer(from, &mut waiting, deadline_ns).is_ok())
        };
        let have_answered: Vec<bool> = each.iter().zip(asked).map(has_answered).collect();
        all.into_iter().zip(have_answered).map(|(words, has)| has.then_some(words)).collect()
    }

    /// Reads pieces of a far rank's heap, each no longer than one request takes; several are under way at a time.
    pub fn get_far_pieces<'a>(
        &self,
        from: Rank,
        pieces: impl Iterator<Item = (u64, Payload<'a>)>,
    ) -> Result<()> {
        let mut parts = pieces.map(|(at, dest)| {
            let bytes = dest.bytes() as u64;
            (dest, move |ticket| FarAccess::Get { at, bytes, ticket })
        });
        self.ask(from, &mut parts, self.deadline())
    }

    /// Gives a far rank a signal.
    pub fn signal_far(&self, to: Rank, context: usize, index: usize) -> Result<()> {
        self.request(to, FarAccess::Signal { context: context as u32, index: index as u32 })
    }

    /// Waits until far ranks have carried out all that this rank has asked them for.
    pub fn complete_far(&self) -> Result<()> {
        let Some(memory) = self.memory() else { return Ok(()) };
        self.ask_how_far(memory);
        for rank in (0..self.nranks).filter(|&rank| memory.under_way(rank) > 0) {
            // What other threads ask for meanwhile is not waited for.
            let peer = &memory.peers[rank as usize];
            let questioned = peer.questioned.load(Ordering::Relaxed);
            let left = || questioned.saturating_sub(peer.done.load(Ordering::Acquire));
            let what = || format!("rank {rank} to carry out {} requests", left());
            self.await_far(rank, self.deadline(), || left() == 0, what)?;
        }
        Ok(())
    }

    /// The same before this rank enters a collective, which tells its peers that it has done what comes before.
    #[inline]
    pub fn complete_far_before(&self, scope: &mut Scope) -> Result<()> {
        match self.memory() {
            Some(memory) if (0..self.nranks).any(|rank| memory.under_way(rank) > 0) => {
                self.complete_before(memory, scope)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn complete_before(&self, memory: &FarMemory, scope: &mut Scope) -> Result<()> {
        // A call that is polled comes here again. What other threads ask for meanwhile is not waited for.
        if scope.polls.is_none_or(|polls| polls == 0) {
            self.ask_how_far(memory);
        }
        let questioned = memory.peers.iter().map(|peer| peer.questioned.load(Ordering::Relaxed));
        let questioned: Vec<u64> = questioned.collect();
        let is_behind = |&rank: &Rank| {
            memory.peers[rank as usize].done.load(Ordering::Acquire) < questioned[rank as usize]
        };
        let behind = || (0..self.nranks).filter(is_behind);
        // Of the others some may have done their part in this call, and left.
        let watch = || {
            self.check_abort()?;
            self.check_alarm()?;
            self.watch_ranks(behind())
        };
        let (seen, mut waiting) = (*scope, scope.waiting());
        let ended =
            self.wait_or_leave(&mut waiting, || behind().next().is_none(), watch, || self.expired(&seen));
        scope.go_on(waiting);
        ended
    }

    /// Asks the ranks that have not carried out everything how far they are, once for each last request.
    fn ask_how_far(&self, memory: &FarMemory) {
        let Some(far) = &self.far else { return };
        for (rank, peer) in (0..).zip(&memory.peers) {
            if memory.under_way(rank) == 0 {
                continue;
            }
            let _sending = peer.sending.lock();
            let asked = peer.asked.load(Ordering::Relaxed);
            if peer.questioned.swap(asked, Ordering::Relaxed) != asked {
                far.post(rank, Body::Access(FarAccess::HowFar));
            }
        }
    }

    /// Sends a request, when not too many are under way.
    pub(super) fn request(&self, to: Rank, access: FarAccess<'_>) -> Result<()> {
        let Some(far) = self.far_to_post().filter(|_| self.is_far(to)) else {
            return Err(Error::internal(format!("a request to rank {to}, which is not far")));
        };
        if far.memory.under_way(to) >= WINDOW {
            let what = || format!("rank {to} to carry out {} requests", far.memory.under_way(to));
            self.await_far(to, self.deadline(), || far.memory.under_way(to) < WINDOW, what)?;
        }
        let peer = &far.memory.peers[to as usize];
        let _sending = peer.sending.lock();
        peer.asked.fetch_add(1, Ordering::Relaxed);
        let body = Body::Access(access);
        // The attendant need not wake for what this rank sends at its next request or poll.
        if access.may_be_held() {
            FarRanks::post(far, to, body)
        } else {
            far.post(to, body)
        }
        Ok(())
    }

    /// Sends a request, and returns the word that answers it.
    fn ask_for_word(&self, of: Rank, access: impl FnOnce(u64) -> FarAccess<'static>) -> Result<u64> {
        let mut word = [0];
        let dest = Payload::from(&mut word[..]);
        self.ask(of, &mut std::iter::once((dest, access)), self.deadline())?;
        Ok(word[0])
    }

    /// Sends requests whose answers go to places of this rank.
    fn ask<'a, A: FnOnce(u64) -> FarAccess<'static>>(
        &self,
        of: Rank,
        parts: &mut dyn Iterator<Item = (Payload<'a>, A)>,
        deadline_ns: u64,
    ) -> Result<()> {
        let Some(memory) = self.memory() else { return Err(Error::internal("no rank is far")) };
        let mut waiting = Waiting { memory, under_way: VecDeque::new() };
        // BOUND: the parts; each wait has its own.
        loop {
            // Several at once, which are one message.
            let room = if waiting.under_way.len() <= AHEAD / 2 { AHEAD - waiting.under_way.len() } else { 0 };
            for (dest, access) in (&mut *parts).take(room) {
                let ticket = waiting.add(dest);
                self.request(of, access(ticket))?;
            }
            if waiting.under_way.is_empty() {
                return Ok(());
            }
            self.await_answer(of, &mut waiting, deadline_ns)?;
        }
    }

    /// Waits for the first of the answers that are under way, and copies it to its place.
    fn await_answer(&self, of: Rank, waiting: &mut Waiting<'_, '_>, deadline_ns: u64) -> Result<()> {
        let Some(&(ticket, dest)) = waiting.under_way.front() else { return Ok(()) };
        let mut words = None;
        let come = || {
            words = waiting.memory.answers.lock().get_mut(&ticket).and_then(Option::take);
            words.is_some()
        };
        self.await_far(of, deadline_ns, come, || format!("an answer of rank {of}"))?;
        let mut words = words.unwrap_or_default();
        if words.len() != dest.bytes().div_ceil(8) {
            return Err(Error::remote(format!(
                "rank {of} answered with another number of bytes than it was asked for; make a new communicator"
            )));
        }
        kernels::copy(dest, Payload::from(&mut words[..]).part(0, dest.bytes()), false);
        waiting.forget_first();
        Ok(())
    }

    fn await_far(
        &self,
        rank: Rank,
        deadline_ns: u64,
        ready: impl FnMut() -> bool,
        what: impl Fn() -> String,
    ) -> Result<()> {
        let watch = || {
            self.check_abort()?;
            self.check_alarm()?;
            self.watch_ranks(std::iter::once(rank))
        };
        let began = clock::now_ns();
        let expired = || {
            Error::timeout(format!(
                "rank {} waited {} for {}; {}; if it is only slow, raise PENNY_TIMEOUT or timeoutMs",
                self.rank,
                seconds(deadline_ns.saturating_sub(began)),
                what(),
                self.who(&[rank])
            ))
        };
        self.wait_watching(deadline_ns, ready, watch, expired)
    }
}

/// The answers that a thread waits for. It waits for none any more when this is dropped.
struct Waiting<'m, 'a> {
    memory: &'m FarMemory,
    under_way: VecDeque<(u64, Payload<'a>)>,
}

impl<'a> Waiting<'_, 'a> {
    /// Returns the ticket of another answer.
    fn add(&mut self, dest: Payload<'a>) -> u64 {
        let ticket = self.memory.tickets.fetch_add(1, Ordering::Relaxed);
        self.memory.answers.lock().insert(ticket, None);
        self.under_way.push_back((ticket, dest));
        ticket
    }

    fn forget_first(&mut self) {
        if let Some((ticket, _)) = self.under_way.pop_front() {
            self.memory.answers.lock().remove(&ticket);
        }
    }
}

impl Drop for Waiting<'_, '_> {
    fn drop(&mut self) {
        while !self.under_way.is_empty() {
            self.forget_first();
        }
    }
}
