//! Messages of other hosts in their order: every process of a host hears them all, and one of them takes each in.
//!
//! ```text
//!     host b numbers what it tells      1 2 3 4     whichever of its processes tells it
//!     process p of host a hears         1 3 2       and keeps what is not the next
//!     process q of host a hears         1 2 3 4
//!     host a's word for b               3 busy      q takes in 3; p keeps it until the word says that 3 is taken in
//! ```
//!
//! The word of a sending host lies in the receiving host's clock segment (`PlaceLine::host_messages`). Who has taken a message in looks for
//! the next one, and so does who hears anything at all. So a message that is kept is taken in by the process that was busy, or, where that
//! one has left meanwhile, by another, which hears that it has left. A process takes nothing in any more once its rank has left.

use super::hosts::ClockHosts;
use super::participant::Participant;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::Rank;
use std::collections::BTreeMap;

/// The longest time that is waited for another process of this host to take in what both have heard.
const SETTLE_NS: u64 = 1_000_000_000;
/// The time between two looks at it.
const A_LOOK_NS: u64 = 1_000_000;

/// What this process has heard and no process of its host has taken in.
#[derive(Default)]
pub(super) struct Inbox {
    /// By the host that has told it, and its number there.
    kept: BTreeMap<(Rank, u64), Vec<u8>>,
    /// The rank has left.
    pub is_closed: bool,
}

impl Inbox {
    /// Keeps a message of a host, which begins with its number.
    pub fn keep(&mut self, host: Rank, message: &[u8]) {
        if let Some((number, bytes)) = message.split_first_chunk() {
            self.kept.insert((host, u64::from_le_bytes(*number)), bytes.to_vec());
        }
    }

    /// Forgets a host's messages before this number.
    fn forget_before(&mut self, host: Rank, number: u64) {
        self.kept.retain(|&(of, at), _| of != host || at >= number);
    }
}

impl Participant {
    /// Takes in what is kept, as far as it is the next of its host and no other process is busy with one before it. Returns whether anything
    /// is left.
    pub(super) fn take_in_kept(&self, hosts: &ClockHosts, inbox: &mut Inbox) -> bool {
        for host in hosts.others() {
            let word = &self.clock_segment().place(host).host_messages;
            // BOUND: what is kept.
            loop {
                let now = word.load(Ordering::Acquire);
                let number = now / 2 + 1;
                inbox.forget_before(host, number);
                if now % 2 == 1 || !inbox.kept.contains_key(&(host, number)) {
                    break;
                }
                // ORDER: partner of the store below, so what a message has changed is seen by who takes in the next.
                if word.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    continue;
                }
                let bytes = inbox.kept.remove(&(host, number)).unwrap_or_default();
                self.take_in(hosts, &bytes);
                word.store(now + 2, Ordering::Release);
            }
        }
        !inbox.kept.is_empty()
    }

    /// Waits until what this process has heard is taken in, by itself or another.
    pub(super) fn settle(&self, hosts: &ClockHosts, inbox: &mut Inbox) {
        let until_ns = clock::now_ns() + SETTLE_NS;
        // BOUND: the time.
        while self.take_in_kept(hosts, inbox) && clock::now_ns() < until_ns {
            clock::sleep_until(clock::now_ns() + A_LOOK_NS);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "host_inbox_tests.rs"]
mod tests;
