//! The protocol in time: cores that do one thing after the other, wires that carry one packet after the other.
//!
//! ```text
//!     core      |look|--issue--|look|--issue--|          one action at a time, channel after channel
//!     queues              |payload      |payload         hold commands until their last packet has gone
//!     wire                |p|p|p|s|     |p|p|p|          a packet of either queue in turn: rate, framing
//!     far core                  `--latency--> arrives
//! ```
//!
//! Several links run in one clockwork, joined by relays: what one link's receiver sees, another link's sender gets.
//! An action ends what it does, a packet takes the wire from its start: all times follow from the parameters, and
//! events of one time happen in the order in which they became due.

use super::act::Act;
use super::channel::{Setup, SignalMode, Termination};
use super::end::{SIDES, Side};
use super::fault::ProtocolFault;
use super::link::{EthernetLink, LinkEvent};
use super::parameters::Parameters;
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A channel of a link of a clockwork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The link, in the order in which links were added.
    pub link: usize,
    /// The channel.
    pub channel: u32,
}

/// A receiver saw a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The place of the event.
    pub at: At,
    /// The time of the event.
    pub at_ps: u64,
}

/// Links, and what is due.
pub struct Clockwork<'a> {
    parameters: &'a Parameters,
    links: Vec<Timed>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    /// The number of events that were ever due. It decides between events of the same time.
    made: u64,
    now_ps: u64,
    taken: Vec<Taken>,
}

struct Timed {
    link: EthernetLink,
    /// For each channel, the payloads that its worker has.
    offered: Vec<u64>,
    /// For each channel, the payloads that its receiving worker may have read.
    readable: Vec<u64>,
    /// For each channel, the receiver of its payloads, and the delay.
    relays: Vec<Option<(At, u64)>>,
    core_busy: [bool; 2],
    wire_busy: [bool; 2],
    /// When the ends' programs ended, as far as they have.
    finished_ps: [u64; 2],
    /// The channel after the one that a core served last.
    next_channel: [u32; 2],
    /// The queue after the one that a wire served last.
    next_queue: [usize; 2],
    /// The link is down before this time.
    up_ps: u64,
    /// The generation of the wire's packets; packets of an earlier generation were lost.
    generation: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Start {
        link: usize,
        side: Side,
    },
    Offer(At),
    /// A worker has read a payload.
    Read(At),
    /// A core has done something.
    Core {
        link: usize,
        side: Side,
        act: Act,
    },
    /// A wire may take the next packet.
    Wire {
        link: usize,
        side: Side,
        generation: u32,
    },
    Arrival {
        link: usize,
        side: Side,
        generation: u32,
    },
    Down {
        link: usize,
        until_ps: u64,
    },
    Up {
        link: usize,
    },
}

impl<'a> Clockwork<'a> {
    /// Without links.
    pub fn new(parameters: &'a Parameters) -> Clockwork<'a> {
        Clockwork {
            parameters,
            links: Vec::new(),
            due: BinaryHeap::new(),
            made: 0,
            now_ps: 0,
            taken: Vec::new(),
        }
    }

    /// Adds a link whose ends start at these times; its index.
    pub fn link(
        &mut self,
        setups: &[Setup],
        signal: SignalMode,
        termination: Termination,
        start_ps: [u64; 2],
    ) -> Result<usize> {
        let link = EthernetLink::new(self.parameters, setups, signal, termination)?;
        self.links.push(Timed {
            link,
            offered: vec![0; setups.len()],
            readable: vec![0; setups.len()],
            relays: vec![None; setups.len()],
            core_busy: [false; 2],
            wire_busy: [false; 2],
            finished_ps: [0; 2],
            next_channel: [0; 2],
            next_queue: [0; 2],
            up_ps: 0,
            generation: 0,
        });
        let link = self.links.len() - 1;
        for (side, at_ps) in SIDES.into_iter().zip(start_ps) {
            self.due(at_ps, Due::Start { link, side });
        }
        Ok(link)
    }

    /// Whatever a channel's receiver sees, the worker of another has some time later.
    pub fn relay(&mut self, from: At, to: At, after_ps: u64) {
        self.links[from.link].relays[from.channel as usize] = Some((to, after_ps));
    }

    /// A worker has one more payload, this long after now.
    pub fn offer(&mut self, at: At, after_ps: u64) {
        self.due(self.now_ps.saturating_add(after_ps), Due::Offer(at));
    }

    /// A link is down from a time on for a while: what is on its wires is lost, and its cores retrain it.
    pub fn outage(&mut self, link: usize, at_ps: u64, for_ps: u64) {
        self.due(at_ps, Due::Down { link, until_ps: at_ps.saturating_add(for_ps) });
    }

    /// Returns the events that were seen, and their times, in order.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// Now, in picoseconds.
    pub fn now_ps(&self) -> u64 {
        self.now_ps
    }

    /// Tells whether both programs of every link have ended and nothing is left on any wire.
    pub fn is_finished(&self) -> bool {
        self.links.iter().all(|timed| timed.link.is_finished() && timed.link.is_empty())
    }

    /// Returns when the programs of a link's ends ended.
    pub fn finished_ps(&self, link: usize) -> [u64; 2] {
        self.links[link].finished_ps
    }

    /// Runs until nothing is due.
    pub fn run(&mut self) -> Result<()> {
        while let Some(Reverse((at_ps, _, due))) = self.due.pop() {
            if at_ps == u64::MAX {
                return Err(Error::argument("the transfers take longer than 2^64 picoseconds; send less"));
            }
            self.now_ps = at_ps;
            self.happen(due).map_err(|fault| Error::internal(format!("the data mover is wrong: {fault}")))?;
        }
        Ok(())
    }

    fn due(&mut self, at_ps: u64, due: Due) {
        self.made += 1;
        self.due.push(Reverse((at_ps, self.made, due)));
    }

    fn happen(&mut self, due: Due) -> std::result::Result<(), ProtocolFault> {
        let now_ps = self.now_ps;
        let link = match due {
            Due::Start { link, side } => {
                self.links[link].link.apply(LinkEvent::Start(side))?;
                link
            }
            Due::Offer(At { link, channel }) => {
                self.links[link].offered[channel as usize] += 1;
                link
            }
            Due::Read(At { link, channel }) => {
                self.links[link].readable[channel as usize] += 1;
                link
            }
            Due::Core { link, side, act } => {
                let timed = &mut self.links[link];
                timed.core_busy[side as usize] = false;
                timed.link.apply(act.event(side))?;
                if let Act::Take(channel) = act {
                    let relay = timed.relays[channel as usize];
                    self.taken.push(Taken { at: At { link, channel }, at_ps: now_ps });
                    let read_ps = self.parameters.read(timed.told_bytes(channel));
                    match read_ps {
                        0 => timed.readable[channel as usize] += 1,
                        _ => self.due(now_ps.saturating_add(read_ps), Due::Read(At { link, channel })),
                    }
                    match relay {
                        // The same core has it, and acts on it before it does anything else.
                        Some((to, 0)) if to.link == link => {
                            self.links[link].offered[to.channel as usize] += 1;
                        }
                        Some((to, after_ps)) => self.offer(to, after_ps),
                        None => {}
                    }
                }
                link
            }
            Due::Wire { link, side, generation } => {
                if generation != self.links[link].generation {
                    return Ok(());
                }
                self.links[link].wire_busy[side as usize] = false;
                link
            }
            Due::Arrival { link, side, generation } => {
                if generation != self.links[link].generation {
                    return Ok(());
                }
                self.links[link].link.apply(LinkEvent::Arrive(side))?;
                link
            }
            Due::Down { link, until_ps } => {
                let timed = &mut self.links[link];
                timed.link.apply(LinkEvent::GoDown)?;
                timed.generation += 1;
                timed.wire_busy = [false; 2];
                timed.up_ps = timed.up_ps.max(until_ps);
                let up_ps = timed.up_ps;
                self.due(up_ps, Due::Up { link });
                link
            }
            Due::Up { link } => link,
        };
        self.advance(link)
    }

    /// Lets every part of a link that is free take the next task.
    fn advance(&mut self, link: usize) -> std::result::Result<(), ProtocolFault> {
        let now_ps = self.now_ps;
        let parameters = self.parameters;
        let timed = &mut self.links[link];
        timed.workers()?;
        if now_ps < timed.up_ps {
            return Ok(());
        }
        for side in SIDES {
            let timed = &mut self.links[link];
            if timed.link.can(LinkEvent::Finish(side)) && !timed.core_busy[side as usize] {
                timed.link.apply(LinkEvent::Finish(side))?;
                timed.finished_ps[side as usize] = now_ps;
            }
            if let Some(queue) = timed.next_queue(side) {
                timed.wire_busy[side as usize] = true;
                timed.link.apply(LinkEvent::Transmit(side, queue))?;
                let wire = &parameters.wire;
                let generation = timed.generation;
                let gone_ps = now_ps.saturating_add(wire.packet_ps(timed.link.last_packet(side)));
                let there_ps = gone_ps.saturating_add(wire.latency_ps);
                self.due(gone_ps, Due::Wire { link, side, generation });
                self.due(there_ps, Due::Arrival { link, side: side.other(), generation });
            }
            // After the wire, which may have made room in a queue.
            let timed = &mut self.links[link];
            if let Some(act) = timed.next_act(side) {
                timed.core_busy[side as usize] = true;
                self.due(now_ps.saturating_add(act.ps(parameters)), Due::Core { link, side, act });
            }
        }
        Ok(())
    }
}

impl Timed {
    /// Returns the bytes of the payload that a worker was told of last.
    fn told_bytes(&self, channel: u32) -> u64 {
        let channel = &self.link.channels[channel as usize];
        channel.bytes(channel.receiver.taken - 1)
    }

    /// Tells whether a worker has read a payload that it was told of and has not said so.
    fn can_read(&self, channel: u32) -> bool {
        let read = self.link.channels[channel as usize].receiver.read;
        read < self.readable[channel as usize] && self.link.can(LinkEvent::Read(channel))
    }

    /// Workers take no time, but to read what they have to ask for.
    fn workers(&mut self) -> std::result::Result<(), ProtocolFault> {
        for id in 0..self.offered.len() as u32 {
            while self.can_read(id) {
                self.link.apply(LinkEvent::Read(id))?;
            }
            while self.link.filled(id) < self.offered[id as usize] && self.link.can(LinkEvent::Fill(id)) {
                self.link.apply(LinkEvent::Fill(id))?;
            }
        }
        Ok(())
    }

    /// Returns the next action of a core: first what it has begun, then channel after channel.
    fn next_act(&mut self, side: Side) -> Option<Act> {
        if self.core_busy[side as usize] {
            return None;
        }
        if self.link.can(LinkEvent::Greet(side)) {
            return Some(Act::Greet);
        }
        let channels = self.offered.len() as u32;
        let begun = |&id: &u32| self.link.sender(id) == side && self.link.can(LinkEvent::Announce(id));
        if let Some(id) = (0..channels).find(begun) {
            return Some(Act::Announce(id));
        }
        let first = self.next_channel[side as usize];
        for id in (first..channels).chain(0..first) {
            let acts: &[Act] = match self.link.sender(id) == side {
                true => &[Act::Send(id)],
                false => &[Act::Acknowledge(id), Act::Complete(id), Act::Take(id)],
            };
            if let Some(&act) = acts.iter().find(|act| self.link.can(act.event(side))) {
                self.next_channel[side as usize] = (id + 1) % channels;
                return Some(act);
            }
        }
        None
    }

    fn next_queue(&mut self, side: Side) -> Option<usize> {
        if self.wire_busy[side as usize] {
            return None;
        }
        let queues = self.link.queues();
        let first = self.next_queue[side as usize];
        let queue = (first..queues).chain(0..first).find(|&q| self.link.can(LinkEvent::Transmit(side, q)))?;
        self.next_queue[side as usize] = (queue + 1) % queues;
        Some(queue)
    }
}
