//! What a message costs at a link that a data mover serves, without its packets one by one.
//!
//! ```text
//!     core      |look,issue|...|look,issue|...         payload k waits for the core, for room in the queue, and for the
//!     wire                 |payload 0|payload 1|...    credit of payload k - slots
//!                          ^                      ^
//!                       start                   start + hold    + latency: with the worker    + rest: free for the next
//! ```
//!
//! The sender's end is followed payload by payload, which is exact: it has no choice. Once as many payloads were
//! sent as settle it, the others go in steps of all slots, and each step takes as long as the one before. Tests hold the
//! result against the clockwork, which follows every packet: a message alone on a link is equal to the picosecond, where payloads take the
//! wire for longer than the receiver's core needs for one.
//!
//! How long a link stays taken is its slowest part's time in a stream of such messages: the wire, a core, or the
//! credits on their way.

use super::parameters::Parameters;
use crate::topology::{Class, EthernetCore, MoverSpec, SignalMode};
use std::collections::VecDeque;

/// The costs of a message at a link, from the time at which its first payload goes to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverCost {
    /// Until its last payload has left.
    pub hold_ps: u64,
    /// From then on until the next message may follow.
    pub rest_ps: u64,
    /// Until its first payload can be sent on.
    pub lead_ps: u64,
    /// From its last payload's leaving until the worker has it.
    pub latency_ps: u64,
}

impl MoverCost {
    /// Returns the costs of a message of `bytes` bytes in a call whose largest message has `largest` bytes. The way over the
    /// chip is that of the call's largest payload, so that messages of a connection do not overtake each other.
    pub fn of(class: &Class, mover: &MoverSpec, bytes: u64, largest: u64) -> MoverCost {
        let EthernetCore { issue_ps, look_ps, align, .. } = mover.core;
        let whole = |bytes: u64| bytes.max(1).checked_next_multiple_of(align).unwrap_or(bytes);
        let bytes = whole(bytes);
        let first = bytes.min(mover.payload);
        let full = (bytes - 1) / mover.payload;
        let last = bytes - full * mover.payload;
        let mut end = SendingEnd::new(class, mover);
        let start_ps = look_ps.saturating_add(issue_ps);
        let seen_ps = class.latency_ps.saturating_add(look_ps);
        let first_ps = end.clone().send(first).1;
        end.send_all(mover.payload, full);
        let done_ps = end.send(last).1;
        // What a message like it would have to wait for.
        let next_ps = end.clone().send(first).0;
        let stream_ps = end.stream_ps(full, last);
        let hold_ps = done_ps - start_ps;
        let way_ps = mover.over_chip_ps(whole(largest.max(bytes)).min(mover.payload));
        let latency_ps = seen_ps.saturating_add(way_ps);
        MoverCost {
            hold_ps,
            rest_ps: (next_ps - start_ps).max(stream_ps).saturating_sub(hold_ps),
            lead_ps: (first_ps - start_ps).saturating_add(latency_ps).saturating_add(start_ps),
            latency_ps,
        }
    }
}

/// The sending end of a link.
#[derive(Clone)]
struct SendingEnd<'a> {
    parameters: Parameters,
    mover: &'a MoverSpec,
    core_ps: u64,
    wire_ps: u64,
    /// When the commands of the queue make room, the earliest first.
    rooms: VecDeque<u64>,
    /// When the payloads under way give their slots back.
    credits: VecDeque<u64>,
    /// What the credits of the other direction take of the wire, for each payload.
    words_ps: u64,
}

impl SendingEnd<'_> {
    fn new<'a>(class: &Class, mover: &'a MoverSpec) -> SendingEnd<'a> {
        let words_ps =
            if mover.reverse_busy { class.packet_ps(mover.core.align).saturating_mul(2) } else { 0 };
        SendingEnd {
            parameters: Parameters::of_mover(class, mover),
            mover,
            core_ps: 0,
            wire_ps: 0,
            rooms: VecDeque::new(),
            credits: VecDeque::new(),
            words_ps,
        }
    }

    /// Sends a payload: when its first byte goes to the wire, and when its last byte and its signal have left.
    fn send(&mut self, bytes: u64) -> (u64, u64) {
        let slots = self.mover.slots();
        let credit_ps = match self.credits.len() as u64 >= slots {
            true => self.credits.pop_front().unwrap_or(0),
            false => 0,
        };
        let EthernetCore { issue_ps, look_ps, align, queue_commands, .. } = self.parameters.core;
        let merged = self.mover.signal == SignalMode::Merged;
        let commands = if merged { [Some(bytes + align), None] } else { [Some(bytes), Some(align)] };
        let mut first_ps = None;
        self.core_ps = self.core_ps.max(credit_ps).saturating_add(look_ps);
        for bytes in commands.into_iter().flatten() {
            if self.rooms.len() >= queue_commands as usize {
                let room_ps = self.rooms.pop_front().unwrap_or(0);
                let look_ps = if first_ps.is_none() { look_ps } else { 0 };
                self.core_ps = self.core_ps.max(room_ps.saturating_add(look_ps));
            }
            self.core_ps = self.core_ps.saturating_add(issue_ps);
            let start_ps = self.core_ps.max(self.wire_ps);
            let (wire_ps, last_ps) = wire_ps(&self.parameters.wire, bytes);
            self.wire_ps = start_ps.saturating_add(wire_ps);
            self.rooms.push_back(self.wire_ps - last_ps);
            first_ps.get_or_insert(start_ps);
        }
        let end_ps = self.wire_ps;
        self.credits.push_back(end_ps.saturating_add(self.credit_ps(bytes)));
        self.wire_ps = end_ps.saturating_add(self.words_ps);
        (first_ps.unwrap_or(end_ps), end_ps)
    }

    /// From a payload's leaving until its slot is free again.
    fn credit_ps(&self, bytes: u64) -> u64 {
        let (EthernetCore { issue_ps, look_ps, align, .. }, wire) =
            (self.parameters.core, &self.parameters.wire);
        // Acknowledged while the worker reads.
        let read_ps = issue_ps.max(self.parameters.read(bytes));
        let words =
            [look_ps, read_ps, look_ps, issue_ps, wire.packet_ps(align), wire.latency_ps, wire.latency_ps];
        words.into_iter().fold(0, u64::saturating_add)
    }

    /// Sends payloads of one size.
    fn send_all(&mut self, bytes: u64, count: u64) {
        let slots = self.mover.slots();
        let settled = slots.saturating_mul(4).max(16);
        let rounds = count.saturating_sub(settled) / slots;
        for _ in 0..count.min(settled) {
            self.send(bytes);
        }
        let before_ps = self.wire_ps;
        for _ in 0..if rounds > 0 { slots } else { 0 } {
            self.send(bytes);
        }
        self.later(rounds.saturating_sub(1).saturating_mul(self.wire_ps - before_ps));
        for _ in 0..count.saturating_sub(settled) % slots {
            self.send(bytes);
        }
    }

    /// The same some time later.
    fn later(&mut self, ps: u64) {
        let times = self.rooms.iter_mut().chain(&mut self.credits);
        times
            .chain([&mut self.core_ps, &mut self.wire_ps])
            .for_each(|at_ps| *at_ps = at_ps.saturating_add(ps));
    }

    /// Returns the time that the slowest part takes for each message of a stream: `full` full payloads and one of `last` bytes.
    fn stream_ps(&self, full: u64, last: u64) -> u64 {
        let (EthernetCore { issue_ps, look_ps, align, .. }, wire) =
            (self.parameters.core, &self.parameters.wire);
        let merged = self.mover.signal == SignalMode::Merged;
        let signal_ps = if merged { 0 } else { issue_ps };
        let act_ps = look_ps.saturating_add(issue_ps);
        let (sender_ps, receiver_ps) = (act_ps.saturating_add(signal_ps), act_ps.saturating_mul(2));
        let core_ps = match self.mover.reverse_busy {
            true => sender_ps.saturating_add(receiver_ps),
            false => sender_ps.max(receiver_ps),
        };
        let turn_ps = |bytes: u64| {
            let commands = if merged { [bytes + align, 0] } else { [bytes, align] };
            let wire_ps = commands.into_iter().filter(|&bytes| bytes > 0).map(|bytes| wire_ps(wire, bytes).0);
            act_ps.saturating_add(wire_ps.fold(0, u64::saturating_add)).saturating_add(self.credit_ps(bytes))
        };
        let turns_ps = turn_ps(self.mover.payload).saturating_mul(full).saturating_add(turn_ps(last));
        core_ps.saturating_mul(full + 1).max(turns_ps.div_ceil(self.mover.slots()))
    }
}

/// The time of a command on the wire, and that of its last packet.
fn wire_ps(wire: &Class, bytes: u64) -> (u64, u64) {
    if wire.mtu == 0 {
        return (wire.packet_ps(bytes), wire.packet_ps(bytes));
    }
    let (whole, rest) = ((bytes - 1) / wire.mtu, (bytes - 1) % wire.mtu + 1);
    let last_ps = wire.packet_ps(rest);
    (wire.packet_ps(wire.mtu).saturating_mul(whole).saturating_add(last_ps), last_ps)
}
