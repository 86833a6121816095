//! One end of a link: its program's life, its transaction queues, and the wire that leaves it.

use std::collections::VecDeque;

/// One of a link's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// One.
    Near,
    /// The other.
    Far,
}

/// Both ends.
pub const SIDES: [Side; 2] = [Side::Near, Side::Far];

impl Side {
    /// The end at the other end.
    pub fn other(self) -> Side {
        match self {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        }
    }
}

/// The contents of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CommandKind {
    Greeting,
    Payload,
    PayloadWithBytesSent,
    BytesSent,
    ReceiverAck,
    ReceiverDone,
}

/// A write into the memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Command {
    pub word: CommandKind,
    pub channel: u32,
    pub message: u64,
    /// The bytes that are not yet on the wire.
    pub bytes: u64,
}

/// A piece of a command on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WirePacket {
    pub command: Command,
    pub bytes: u64,
    pub last: bool,
}

/// The life of an end's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Off,
    Greeting,
    Running,
    Finished,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkEnd {
    pub phase: Phase,
    /// Its greeting went out.
    pub greeted: bool,
    /// The other's greeting is there, at an address that nothing else uses.
    pub heard: bool,
    pub queues: Vec<VecDeque<Command>>,
    /// Packets from here to the other end.
    pub wire: VecDeque<WirePacket>,
    /// Packets that were lost, which go first.
    again: VecDeque<WirePacket>,
}

impl LinkEnd {
    pub fn new(queues: u32) -> LinkEnd {
        LinkEnd {
            phase: Phase::Off,
            greeted: false,
            heard: false,
            queues: vec![VecDeque::new(); queues as usize],
            wire: VecDeque::new(),
            again: VecDeque::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.wire.is_empty() && self.again.is_empty() && self.queues.iter().all(VecDeque::is_empty)
    }

    /// With what was said and heard, the program may go on.
    pub fn begin(&mut self) {
        if self.phase == Phase::Greeting && self.greeted && self.heard {
            self.phase = Phase::Running;
        }
    }

    /// Tells whether a queue can transmit. Lost packets go first, as those of queue 0.
    pub fn can_transmit(&self, queue: usize) -> bool {
        if self.again.is_empty() { !self.queues[queue].is_empty() } else { queue == 0 }
    }

    /// The next packet goes to the wire; with its last packet a command leaves its queue.
    pub fn transmit(&mut self, queue: usize, mtu: u64) {
        if let Some(packet) = self.again.pop_front() {
            self.wire.push_back(packet);
            return;
        }
        let Some(command) = self.queues[queue].front_mut() else { return };
        let bytes = command.bytes.min(mtu);
        command.bytes -= bytes;
        let packet = WirePacket { command: *command, bytes, last: command.bytes == 0 };
        if packet.last {
            self.queues[queue].pop_front();
        }
        self.wire.push_back(packet);
    }

    /// Loses the packets on the wire. They will be sent again, in order.
    pub fn lose(&mut self) {
        while let Some(packet) = self.wire.pop_back() {
            self.again.push_front(packet);
        }
    }
}
