//! Slots of mailboxes: a message takes one at each mailbox before it sets out, and who finds none waits for it.
//!
//! ```text
//!     rank 0   mail a   mail b   (waits) ........ mail c        two slots: c sets out when a's is free again
//!     rank 1        receive a   free a  <- the last thread that had it
//! ```
//!
//! As ranks that run (`src/mailbox/timed.rs`): a slot of any rank's mailbox is taken and freed at once, and puts that wait for one get it
//! in the order in which they came.

use std::collections::HashMap;

use std::cmp::Reverse;

use super::super::program::{Free, Put, Signal};
use super::Player;

/// Messages in mailboxes.
#[derive(Default)]
pub(super) struct Mail {
    /// The slots that a put has taken, by rank and node.
    claimed: HashMap<(u32, u32), usize>,
    /// The threads that have not freed each message yet.
    held_by: Vec<u32>,
    /// The messages of each thread, by rank and counter, in the order in which they came.
    come: HashMap<(u32, u32), Vec<usize>>,
}

impl Mail {
    /// The messages of a put are there.
    pub(super) fn deliver(&mut self, put: &Put) {
        if put.slots.is_none() {
            return;
        }
        // A signal for each thread of each copy, in their order.
        let mut signals = put.signals.iter();
        for &(_, threads) in &put.to {
            let message = self.held_by.len();
            self.held_by.push(threads.count_ones());
            for signal in signals.by_ref().take(threads.count_ones() as usize) {
                self.come.entry((signal.rank, signal.counter)).or_default().push(message);
            }
        }
    }
}

impl Player<'_> {
    /// A put is ready: it begins when it has a slot of each mailbox.
    pub(super) fn claim(&mut self, rank: u32, node: u32, put: &Put, now_ps: u64) -> Result<(), String> {
        let claimed = self.mail.claimed.get(&(rank, node)).copied().unwrap_or(0);
        match (put.slots, put.to.get(claimed)) {
            (Some(counter), Some(&(to, _))) => {
                self.wait((rank, node), Signal { rank: to, counter, count: 1 }, now_ps)
            }
            _ => self.put(rank, node, put, now_ps),
        }
    }

    /// A put has taken one more slot.
    pub(super) fn has_claimed(&mut self, rank: u32, node: u32, put: &Put, now_ps: u64) -> Result<(), String> {
        *self.mail.claimed.entry((rank, node)).or_default() += 1;
        self.times(rank, node).begin_ps = now_ps;
        self.claim(rank, node, put, now_ps)
    }

    /// A thread is done with a message. The last one frees its slot.
    pub(super) fn free(&mut self, rank: u32, node: u32, free: Free, now_ps: u64) -> Result<(), String> {
        let come = self.mail.come.get(&(rank, free.messages));
        let Some(&message) = come.and_then(|come| come.get(usize::try_from(free.nth).ok()?)) else {
            return Err(format!(
                "{}: frees message {} of `{}`, which has not come; receive it before",
                self.workload.named(rank as usize, node),
                free.nth,
                self.workload.counters[free.messages as usize]
            ));
        };
        self.over.push(Reverse((now_ps, rank, node)));
        let held_by = &mut self.mail.held_by[message];
        *held_by = held_by.saturating_sub(1);
        match *held_by {
            0 => self.give(Signal { rank, counter: free.slots, count: 1 }, now_ps, now_ps),
            _ => Ok(()),
        }
    }
}
