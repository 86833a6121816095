//! A port at work: when it is free, what passed it, who waits, and what a message costs there.

use crate::fabric::ethernet::cost::MoverCost;
use crate::fabric::{PortCounters, PortState};
use crate::topology::Class;
use std::collections::VecDeque;

/// A port.
#[derive(Clone)]
pub struct PortQueue {
    pub free_ps: u64,
    pub counters: PortCounters,
    waiting: Backlog,
}

/// When those started, or will, who waited last: as many as ever waited at once, for if the first of them has started
/// when another comes to wait, there are no more now.
#[derive(Clone, Default)]
pub struct Backlog(VecDeque<u64>);

/// The costs of a message of one size at ports of one class.
#[derive(Clone, Copy)]
pub struct MessageCost {
    /// The time for which the port is occupied.
    pub hold_ps: u64,
    /// The time from the start until the head is at the next port.
    pub lead_ps: u64,
    pub latency_ps: u64,
    /// The part of `hold_ps` in which no bytes are sent.
    pub gap_ps: u64,
    /// The time from the last byte's leaving until the port is free.
    pub rest_ps: u64,
}

impl MessageCost {
    /// Returns the costs of a message of `bytes` bytes, in a call whose largest message has `largest` bytes.
    pub fn of(class: &Class, bytes: u64, largest: u64) -> MessageCost {
        if let Some(mover) = &class.mover {
            let MoverCost { hold_ps, rest_ps, lead_ps, latency_ps } =
                MoverCost::of(class, mover, bytes, largest);
            return MessageCost { hold_ps, lead_ps, latency_ps, gap_ps: 0, rest_ps };
        }
        MessageCost {
            hold_ps: class.hold_ps(bytes),
            lead_ps: class.gap_ps.saturating_add(class.packet_ps(bytes)).saturating_add(class.latency_ps),
            latency_ps: class.latency_ps,
            gap_ps: class.gap_ps,
            rest_ps: 0,
        }
    }

    /// Returns the costs of messages of these sizes, which are all those of a call, by class, then size.
    pub fn table<'a>(classes: &'a [Class], sizes: &'a [u64]) -> impl Iterator<Item = MessageCost> + 'a {
        let largest = sizes.iter().copied().max().unwrap_or(0);
        classes
            .iter()
            .flat_map(move |class| sizes.iter().map(move |&bytes| MessageCost::of(class, bytes, largest)))
    }
}

/// How a rank feeds messages of one size into a lane whose way begins at a port of one class.
#[derive(Clone, Copy)]
pub struct LaneFeed {
    /// The time for which the lane is taken.
    feed_ps: u64,
    /// The part of it before the message's head is at the port, whose last byte then leaves as the last byte, or that of its first piece, is fed.
    late_ps: u64,
}

impl LaneFeed {
    /// Returns the feeds of messages of these sizes by class, then size; none where no class has a bound for lanes.
    pub fn table(classes: &[Class], sizes: &[u64]) -> Vec<LaneFeed> {
        if classes.iter().all(|class| class.lane_rate == 0) {
            return Vec::new();
        }
        let of = |class: &Class, bytes| {
            let feed_ps = class.feed_ps(bytes);
            let late_ps = class.piece_ps(bytes).saturating_sub(class.serialisation_ps(bytes));
            LaneFeed { feed_ps, late_ps }
        };
        classes.iter().flat_map(|class| sizes.iter().map(move |&bytes| of(class, bytes))).collect()
    }

    /// Returns when a message that is ready at `now_ps` is posted, where the lane is taken until `fed_ps`, and takes the lane.
    #[inline]
    pub fn feed(self, now_ps: u64, fed_ps: &mut u64) -> u64 {
        let begin_ps = now_ps.max(*fed_ps);
        *fed_ps = begin_ps.saturating_add(self.feed_ps);
        begin_ps.saturating_add(self.late_ps)
    }

    /// Returns the longest time by which a message can hold up itself and the next one.
    pub fn worst_ps(self) -> u64 {
        self.feed_ps.saturating_add(self.late_ps)
    }
}

impl PortQueue {
    /// Makes a queue that continues from `state`.
    pub fn new(state: PortState) -> PortQueue {
        PortQueue { free_ps: state.free_ps, counters: state.counters, waiting: Backlog::default() }
    }

    /// Returns the state in which the queue leaves the port.
    pub fn state(&self) -> PortState {
        PortState { free_ps: self.free_ps, counters: self.counters }
    }

    /// Forgets the messages that waited: from now on none waits.
    pub fn forget_waiting(&mut self) {
        self.waiting = Backlog::default();
    }

    /// Counts a message that came at `now_ps`, is served from `start_ps` on, and occupies the port for `busy_ps`.
    #[inline]
    pub fn count(&mut self, now_ps: u64, start_ps: u64, busy_ps: u64, bytes: u64) {
        let counters = &mut self.counters;
        if start_ps > now_ps {
            self.waiting.join(now_ps, start_ps);
            counters.queue_high = counters.queue_high.max(self.waiting.most());
        }
        counters.bytes = counters.bytes.saturating_add(bytes);
        counters.messages += 1;
        counters.busy_ps = counters.busy_ps.saturating_add(busy_ps);
    }
}

impl Backlog {
    /// A message came that has to wait. Those before it start no later than it does.
    #[inline]
    pub fn join(&mut self, now_ps: u64, start_ps: u64) {
        if self.0.front().is_some_and(|&start| start <= now_ps) {
            self.0.pop_front();
        }
        self.0.push_back(start_ps);
    }

    /// Returns the largest number of messages that waited at once.
    pub fn most(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns the start times of the messages that still wait.
    pub fn starts(&self, now_ps: u64) -> impl Iterator<Item = u64> + Clone {
        self.0.iter().copied().filter(move |&start| start > now_ps)
    }

    /// All start later.
    pub fn shift(&mut self, ps: u64) {
        self.0.iter_mut().for_each(|start| *start = start.saturating_add(ps));
    }
}
