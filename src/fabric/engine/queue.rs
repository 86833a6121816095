//! The order of events: a monotone radix heap over picoseconds.
//!
//! ```text
//!     last popped   ...0110 1011       bucket of a later time = place of the highest bit in which it differs
//!     pushed        ...0111 0001  -->  bucket 5; it is divided among 0..=4 when all that is earlier is gone
//! ```
//!
//! Time never goes back, so an entry only ever moves to lower buckets, at most 64 times. Entries of one time are
//! ordered by `order`, which may go back within that time. What is pushed at the present time and is next, or after all
//! that is sorted, waits in a list; only what belongs in between goes to a binary heap.
//!
//! Why not one binary heap: it took two to four times as long for 1,024 ranks that enter together. Where all times differ
//! and few events are pending, the two are alike.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Something that happens to `who` at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedEvent {
    /// The time of the event.
    pub at_ps: u64,
    /// The call, which decides between events of the same time; with [`HEAD`] for heads at ports.
    pub call: u32,
    /// The order of events of the same time within the call.
    pub order: u64,
    /// The receiver of the event, which decides between events of the same order.
    pub who: u32,
}

/// Set in [`TimedEvent::call`] of a head at a port: at one moment all that arrives goes before, so that ranks that have their
/// messages at once compete by their own numbers, not by those of the ranks that the messages come from.
pub const HEAD: u32 = 1 << 31;

impl TimedEvent {
    /// Returns the key that decides between equal times: call, order, who, as one number.
    #[inline]
    fn rank(&self) -> u128 {
        u128::from(self.call) << 96 | u128::from(self.order) << 32 | u128::from(self.who)
    }
}

impl Ord for TimedEvent {
    #[inline]
    fn cmp(&self, other: &TimedEvent) -> Ordering {
        (self.at_ps, self.rank()).cmp(&(other.at_ps, other.rank()))
    }
}

impl PartialOrd for TimedEvent {
    #[inline]
    fn partial_cmp(&self, other: &TimedEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The most events for which an empty list keeps its memory.
const MOST_SPARE: usize = 1 << 16;

/// Events that are to come.
#[derive(Clone)]
pub struct Queue {
    /// Latest first, all of the present time.
    present: Vec<TimedEvent>,
    /// Nothing of `present` and `added` is after this: call, order, who.
    last: u128,
    /// Events of the present time that were pushed during it; they belong somewhere among `present`.
    added: BinaryHeap<Reverse<TimedEvent>>,
    /// Pushed during the present time as well, and after `last`; in any order.
    after: Vec<TimedEvent>,
    /// `later[b]` differs from the present time in bit b and in none above.
    later: [Vec<TimedEvent>; 64],
    /// Bit b is set where `later[b]` has entries.
    filled: u64,
    /// The time of the last one popped.
    now_ps: u64,
    /// Nothing of `later` is before this; 0 where it was not looked up.
    next_ps: u64,
}

impl Queue {
    /// Empty, at time 0.
    pub fn new() -> Queue {
        Queue {
            present: Vec::new(),
            last: 0,
            added: BinaryHeap::new(),
            after: Vec::new(),
            later: [const { Vec::new() }; 64],
            filled: 0,
            now_ps: 0,
            next_ps: 0,
        }
    }

    /// The time of the last event popped.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Tells whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.is_past() && self.filled == 0
    }

    /// Tells whether no event of the present time is left.
    #[inline]
    fn is_past(&self) -> bool {
        self.present.is_empty() && self.added.is_empty() && self.after.is_empty()
    }

    /// Begins at time 0 again; there is nothing to come.
    pub fn restart(&mut self) {
        debug_assert!(self.is_empty(), "events would be lost");
        (self.now_ps, self.next_ps) = (0, 0);
    }

    /// Adds an event that is not before the last one popped.
    #[inline]
    pub fn push(&mut self, event: TimedEvent) {
        debug_assert!(event.at_ps >= self.now_ps, "time goes back");
        match event.at_ps ^ self.now_ps {
            0 => self.push_now(event.call, event.order, event.who),
            differs => self.put(event, differs),
        }
    }

    /// In parts, so that they stay in registers where most are put among the later ones.
    fn push_now(&mut self, call: u32, order: u64, who: u32) {
        let event = TimedEvent { at_ps: self.now_ps, call, order, who };
        let rank = event.rank();
        if self.is_past() {
            self.present.push(event);
            self.last = rank;
        } else if rank > self.last {
            self.after.push(event);
        } else if self.present.last().is_some_and(|first| rank < first.rank()) {
            self.present.push(event);
        } else {
            self.added.push(Reverse(event));
        }
    }

    /// The first of all events, if it is before a time.
    #[inline]
    pub fn pop_before(&mut self, until_ps: u64) -> Option<TimedEvent> {
        if self.present.is_empty() && self.added.is_empty() {
            if self.after.is_empty() {
                self.advance(until_ps)?;
            } else if self.now_ps >= until_ps {
                return None;
            } else {
                std::mem::swap(&mut self.present, &mut self.after);
                self.sort();
            }
        } else if self.now_ps >= until_ps {
            return None;
        }
        if self.added.is_empty() {
            return self.present.pop();
        }
        match (self.present.last(), self.added.peek()) {
            (Some(sorted), Some(Reverse(added))) if added < sorted => self.added.pop().map(|e| e.0),
            (None, _) => self.added.pop().map(|e| e.0),
            _ => self.present.pop(),
        }
    }

    /// Returns the event of the present time that comes `count` events after the next one, unless others are pushed before it.
    #[inline]
    pub fn ahead(&self, count: usize) -> Option<&TimedEvent> {
        self.present.get(self.present.len().wrapping_sub(count + 1))
    }

    #[inline]
    fn put(&mut self, event: TimedEvent, differs: u64) {
        let bucket = differs.ilog2();
        self.later[bucket as usize].push(event);
        self.filled |= 1 << bucket;
        self.next_ps = self.next_ps.min(event.at_ps);
    }

    /// Goes to the next time at which something happens, if it is before `until_ps`.
    fn advance(&mut self, until_ps: u64) -> Option<()> {
        if self.filled == 0 || self.next_ps >= until_ps {
            return None;
        }
        let bucket = self.filled.trailing_zeros() as usize;
        let next_ps = self.later[bucket].iter().map(|e| e.at_ps).min()?;
        if next_ps >= until_ps {
            // Kept, so that asking often for little is cheap.
            self.next_ps = next_ps;
            return None;
        }
        self.filled &= self.filled - 1;
        (self.now_ps, self.next_ps) = (next_ps, 0);
        // Often all are of one time: those that are stay where they are.
        let mut entries = std::mem::replace(&mut self.later[bucket], std::mem::take(&mut self.present));
        if self.later[bucket].capacity() > MOST_SPARE {
            // It would lie here unused, as one does in every bucket that ever held most of a large call's events.
            self.later[bucket] = Vec::new();
        }
        entries.retain(|&event| match event.at_ps ^ next_ps {
            0 => true,
            differs => {
                self.put(event, differs);
                false
            }
        });
        self.present = entries;
        self.sort();
        Some(())
    }

    /// Puts `present` in order. It is a few stretches, each in order, which a stable sort finds and merges.
    fn sort(&mut self) {
        if self.present.len() > 1 {
            // Nearly always of one call, and shorter keys are quicker.
            let key = |e: &TimedEvent| Reverse(u128::from(e.order) << 32 | u128::from(e.who));
            match self.present.windows(2).all(|pair| pair[0].call == pair[1].call) {
                true => self.present.sort_by_key(key),
                false => self.present.sort_by_key(|e| Reverse(e.rank())),
            }
        }
        self.last = self.present.first().map_or(0, TimedEvent::rank);
    }
}
