//! A port at work: when it is free, what passed it, who waits, and what a message costs there.

use super::{Counters, PortState};
use crate::topology::Class;
use std::collections::VecDeque;

/// A port.
pub struct Port {
    pub free_ps: u64,
    pub counters: Counters,
    /// When those that waited at the last look start.
    waiting: VecDeque<u64>,
}

/// What a message of one size costs at ports of one class.
#[derive(Clone, Copy)]
pub struct Cost {
    /// The port is taken.
    pub hold_ps: u64,
    /// From the start until the head is at the next port.
    pub lead_ps: u64,
    pub latency_ps: u64,
    /// Of the time that the port is taken, this is not for bytes.
    pub gap_ps: u64,
}

impl Cost {
    /// Of a message of so many bytes.
    pub fn of(class: &Class, bytes: u64) -> Cost {
        Cost {
            hold_ps: class.gap_ps.saturating_add(class.serialisation_ps(bytes)),
            lead_ps: class.gap_ps.saturating_add(class.packet_ps(bytes)).saturating_add(class.latency_ps),
            latency_ps: class.latency_ps,
            gap_ps: class.gap_ps,
        }
    }
}

impl Port {
    /// As it was left.
    pub fn new(state: PortState) -> Port {
        Port { free_ps: state.free_ps, counters: state.counters, waiting: VecDeque::new() }
    }

    /// As it is left.
    pub fn state(&self) -> PortState {
        PortState { free_ps: self.free_ps, counters: self.counters }
    }

    /// Nobody waits, at any time that is to come.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// A message came at `now_ps`, is served from then on, and takes so much of the port's time.
    #[inline]
    pub fn count(&mut self, now_ps: u64, start_ps: u64, busy_ps: u64, bytes: u64) {
        while self.waiting.front().is_some_and(|&start| start <= now_ps) {
            self.waiting.pop_front();
        }
        if start_ps > now_ps {
            self.waiting.push_back(start_ps);
        }
        let counters = &mut self.counters;
        counters.queue_high = counters.queue_high.max(self.waiting.len() as u32);
        counters.bytes = counters.bytes.saturating_add(bytes);
        counters.messages += 1;
        counters.busy_ps = counters.busy_ps.saturating_add(busy_ps);
    }
}
