//! A port at work: when it is free, what passed it, who waits, and what a message costs there.

use super::{Counters, PortState};
use crate::topology::Class;

/// A port.
pub struct Port {
    pub free_ps: u64,
    pub counters: Counters,
    waiting: Waiting,
}

/// When those that waited at the last look start. Most look at ports where nobody waits, and see that here.
#[derive(Default)]
pub struct Waiting {
    starts: Vec<u64>,
    /// The first so many have started.
    gone: u32,
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
        Port { free_ps: state.free_ps, counters: state.counters, waiting: Waiting::default() }
    }

    /// As it is left.
    pub fn state(&self) -> PortState {
        PortState { free_ps: self.free_ps, counters: self.counters }
    }

    /// Nobody waits, at any time that is to come.
    pub fn forget_waiting(&mut self) {
        self.waiting = Waiting::default();
    }

    /// A message came at `now_ps`, is served from then on, and takes so much of the port's time.
    #[inline]
    pub fn count(&mut self, now_ps: u64, start_ps: u64, busy_ps: u64, bytes: u64) {
        let waiting = self.waiting.count(now_ps, start_ps);
        let counters = &mut self.counters;
        counters.queue_high = counters.queue_high.max(waiting);
        counters.bytes = counters.bytes.saturating_add(bytes);
        counters.messages += 1;
        counters.busy_ps = counters.busy_ps.saturating_add(busy_ps);
    }
}

impl Waiting {
    /// A message came that starts at `start_ps`: how many wait now.
    #[inline]
    pub fn count(&mut self, now_ps: u64, start_ps: u64) -> u32 {
        if !self.starts.is_empty() {
            self.pass(now_ps);
        }
        if start_ps > now_ps {
            self.join(start_ps);
        }
        self.starts.len() as u32 - self.gone
    }

    fn pass(&mut self, now_ps: u64) {
        while self.starts.get(self.gone as usize).is_some_and(|&start| start <= now_ps) {
            self.gone += 1;
        }
        if self.gone as usize == self.starts.len() {
            self.starts.clear();
            self.gone = 0;
        }
    }

    fn join(&mut self, start_ps: u64) {
        // Half of the places, so that moving costs less than one move for each that comes.
        if self.starts.len() == self.starts.capacity() && self.gone as usize * 2 > self.starts.len() {
            self.starts.drain(..self.gone as usize);
            self.gone = 0;
        }
        self.starts.push(start_ps);
    }

    /// Those that wait at the last look.
    pub fn starts(&self) -> &[u64] {
        &self.starts[self.gone as usize..]
    }

    /// All start later.
    pub fn shift(&mut self, ps: u64) {
        self.starts.iter_mut().for_each(|start| *start = start.saturating_add(ps));
    }
}
