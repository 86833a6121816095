//! A number that stands for a machine, so that two tables can be compared: FNV-1a of 64 bits over all that matters.
//!
//! Texts go in as length and bytes, numbers as 8 bytes, the lowest first; lists begin with their length. What the
//! machine is called does not matter, what its classes are called does not either.

use super::faults::{FaultKind, PortFault};
use super::protocol::Expectation;
use super::{Class, Handover, MoverSpec, Network, SignalMode, Slicing, Termination};
use crate::hash::Fnv64;

/// The hash of a machine's parts.
struct Parts(Fnv64);

impl Parts {
    fn number(&mut self, number: u64) {
        self.0.bytes(&number.to_le_bytes());
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.bytes(text.as_bytes());
    }
    fn class(&mut self, class: &Class) {
        let physics = [class.rate, class.latency_ps, class.post_ps, class.gap_ps, class.mtu, class.header];
        physics.into_iter().for_each(|n| self.number(n));
        self.number(class.store_and_forward.into());
        self.number(class.credits.into());
        if class.lane_rate > 0 {
            self.number(class.lane_rate);
            if class.lane_piece > 0 {
                [u64::MAX - 1, class.lane_piece].into_iter().for_each(|n| self.number(n));
            }
        }
        if class.least_hold_ps > 0 {
            // The first number keeps it apart from the rate of lanes.
            [u64::MAX, class.least_hold_ps].into_iter().for_each(|n| self.number(n));
        }
        if let Some((over, under)) = class.in_switch.map(|part| part.parts()) {
            [over, under].into_iter().for_each(|n| self.number(n));
        }
        class.mover.iter().for_each(|mover| self.mover(mover));
    }
    fn mover(&mut self, mover: &MoverSpec) {
        let MoverSpec { core, payload, channels, buffers, .. } = mover;
        let flags = [
            mover.signal == SignalMode::Merged,
            mover.termination == Termination::MessageCount,
            mover.receiver == Handover::Push,
            mover.reverse_busy,
            mover.per_call,
        ];
        let costs =
            [core.issue_ps, core.look_ps, core.on_chip_ps, core.on_chip_rate, core.buffer_bytes, core.align];
        let counts = [core.queues, core.queue_commands, core.channels, *channels, *buffers].map(u64::from);
        let settings = flags.map(u64::from);
        [*payload].into_iter().chain(costs).chain(counts).chain(settings).for_each(|n| self.number(n));
    }
    fn fault(&mut self, fault: &PortFault) {
        [u64::from(fault.port), fault.from_ps, fault.until_ps].into_iter().for_each(|n| self.number(n));
        match fault.kind {
            FaultKind::Down => self.number(0),
            FaultKind::Slow(part) => {
                let (over, under) = part.parts();
                [1, over, under].into_iter().for_each(|n| self.number(n));
            }
            FaultKind::Crc(crc) => {
                self.number(2);
                self.0.bytes(&crc.threshold().to_le_bytes());
                [u64::from(crc.retries), crc.seed].into_iter().for_each(|n| self.number(n));
            }
        }
    }
}

impl Network {
    /// The same on every run and on every host for machines on which every call takes the same time: over the ports
    /// with the physics of their classes, the shape, what the ways say of themselves ([`Routes::describe`]), faults,
    /// placement, arbitration, slicing, launch, protocols and mailboxes.
    ///
    /// [`Routes::describe`]: super::Routes::describe
    pub fn hash(&self) -> u64 {
        let mut hash = Parts(Fnv64::new());
        hash.number(self.ports.len() as u64);
        for port in self.ports.iter() {
            let class = &self.classes[port.class as usize];
            hash.text(&port.name);
            hash.class(class);
        }
        self.shape.0.into_iter().for_each(|n| hash.number(n.into()));
        hash.text(&self.routes.describe());
        hash.number(self.faults.len() as u64);
        self.faults.iter().for_each(|fault| hash.fault(fault));
        hash.number(self.placement.len() as u64);
        hash.number(self.fair.into());
        hash.number(match self.slicing {
            Slicing::Auto => u64::MAX,
            Slicing::Bytes(bytes) => bytes,
        });
        hash.number(self.launch_ps);
        hash.number(self.protocols.len() as u64);
        for protocol in &self.protocols {
            hash.number(protocol.base_ps);
            hash.number(protocol.collectives.len() as u64);
            protocol.collectives.iter().for_each(|&collective| hash.number(collective as u64));
            [protocol.nodes.start, protocol.nodes.end].into_iter().for_each(|n| hash.number(n.into()));
            [protocol.bytes.start, protocol.bytes.end].into_iter().for_each(|n| hash.number(n));
            hash.number(protocol.per_rank.into());
            hash.number(protocol.slices.largest.unwrap_or(u64::MAX));
            if protocol.slices.parts > 1 {
                [protocol.slices.parts, protocol.slices.least].into_iter().for_each(|n| hash.number(n));
            }
            protocol.expects.iter().flat_map(Expectation::parameters).for_each(|n| hash.number(n));
            hash.number(protocol.algorithms.len() as u64);
            protocol.algorithms.iter().for_each(|name| hash.text(name));
            protocol.classes.iter().for_each(|class| hash.class(class));
        }
        self.placement.iter().for_each(|&place| hash.number(place.into()));
        if let Some(mailbox) = self.mailbox {
            [mailbox.threads.into(), mailbox.cores.into(), mailbox.cycle_ps]
                .into_iter()
                .for_each(|n| hash.number(n));
        }
        hash.0.value()
    }
}
