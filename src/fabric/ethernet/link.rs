//! The protocol of one link, without time: two ends, their queues, and the wires between them.
//!
//! ```text
//!     an end     Off --start--> Greeting --both have heard--> Running --nothing is owed--> Finished
//!
//!     channels   --commands-->  queue 0  \                                    commands of a queue stay in order,
//!                               queue 1  -+--packets-->  wire  -->            those of two queues do not
//! ```
//!
//! What can happen next is an [`LinkEvent`], and all that can may: [`EthernetLink::can`] says whether, [`EthernetLink::apply`] lets it
//! happen, and a [`ProtocolFault`] is what must never come out, in no order. Nothing happens any more when both ends have
//! finished, and then there is no word left on any wire.

use super::channel::{Channel, Setup, SignalMode, State, Termination, check};
#[cfg(test)]
use super::end::SIDES;
use super::end::{Command, CommandKind, LinkEnd, Phase, Side, WirePacket};
use super::fault::ProtocolFault;
use super::parameters::Parameters;
use crate::error::Result;

/// An event that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkEvent {
    /// The core's program begins.
    Start(Side),
    /// It says, or answers, that it is there.
    Greet(Side),
    /// The sending worker writes a payload into a buffer of this channel.
    Fill(u32),
    /// A payload goes to a transaction queue.
    Send(u32),
    /// Its `bytes_sent` does, if apart.
    Announce(u32),
    /// The receiver sees `bytes_sent` and tells the worker.
    Take(u32),
    /// `receiver_ack` goes to a transaction queue.
    Acknowledge(u32),
    /// The receiving worker reads a payload.
    Read(u32),
    /// The cleared `bytes_sent` goes to a transaction queue: the buffer is free.
    Complete(u32),
    /// The next packet of a transaction queue goes to the wire.
    Transmit(Side, usize),
    /// The first packet on the wire to this end is there.
    Arrive(Side),
    /// The link goes down; what is on its wires is sent again when it is back.
    GoDown,
    /// The core's program ends.
    Finish(Side),
}

/// A link with its channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EthernetLink {
    pub(super) channels: Vec<Channel>,
    signal: SignalMode,
    termination: Termination,
    ends: [LinkEnd; 2],
    /// Says hello first.
    master: Side,
    queue_commands: usize,
    mtu: u64,
    word_bytes: u64,
    #[cfg(test)]
    pub(super) mistake: Option<Mistake>,
}

/// A rule of the protocol, for a test to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mistake {
    /// `bytes_sent` goes by another queue than its payload.
    SignalOvertakes,
    /// `receiver_ack` goes by another queue than the cleared `bytes_sent`.
    AckOvertakes,
    /// Payloads are sent without credits.
    NoCredits,
    /// Senders end without waiting for their credits.
    NoDraining,
    /// Payloads are sent without a handshake.
    NoHandshake,
    /// Acknowledgements and credits are sent from one word, which a queue reads when it sends.
    OneSource,
}

impl EthernetLink {
    /// With these channels, both ends off.
    pub fn new(
        parameters: &Parameters,
        setups: &[Setup],
        signal: SignalMode,
        termination: Termination,
    ) -> Result<EthernetLink> {
        check(parameters, setups, termination)?;
        let end = || LinkEnd::new(parameters.core.queues);
        Ok(EthernetLink {
            channels: (0..).zip(setups).map(|(id, &setup)| Channel::new(id, setup)).collect(),
            signal,
            termination,
            ends: [end(), end()],
            // The end that sends; if both do, that of the lowest channel.
            master: setups.first().map_or(Side::Near, |setup| setup.sender),
            queue_commands: parameters.core.queue_commands as usize,
            mtu: if parameters.wire.mtu == 0 { u64::MAX } else { parameters.wire.mtu },
            word_bytes: parameters.core.align,
            #[cfg(test)]
            mistake: None,
        })
    }

    /// Tells whether both programs have ended.
    pub fn is_finished(&self) -> bool {
        self.ends.iter().all(|end| end.phase == Phase::Finished)
    }

    /// Nothing is in a queue or on a wire.
    pub fn is_empty(&self) -> bool {
        self.ends.iter().all(LinkEnd::is_empty)
    }

    /// Returns the state of a channel at its sender and at its receiver.
    #[cfg(test)]
    pub fn states(&self, channel: u32) -> (State, State) {
        let channel = &self.channels[channel as usize];
        (channel.sender_state(self.termination), channel.receiver_state(self.termination))
    }

    /// Payloads that a channel may send before another credit comes, and messages that its worker has read.
    #[cfg(test)]
    pub fn progress(&self, channel: u32) -> (u64, u64) {
        let channel = &self.channels[channel as usize];
        (channel.credits(), channel.receiver.read)
    }

    /// All that can happen, but for a link that goes down.
    #[cfg(test)]
    pub fn events(&self) -> Vec<LinkEvent> {
        let of_side = |side: Side| {
            let transmits =
                (0..self.end(side).queues.len()).map(move |queue| LinkEvent::Transmit(side, queue));
            [LinkEvent::Start(side), LinkEvent::Greet(side), LinkEvent::Arrive(side), LinkEvent::Finish(side)]
                .into_iter()
                .chain(transmits)
        };
        let of_channel = |id: u32| {
            [
                LinkEvent::Fill,
                LinkEvent::Send,
                LinkEvent::Announce,
                LinkEvent::Take,
                LinkEvent::Acknowledge,
                LinkEvent::Read,
            ]
            .into_iter()
            .chain([LinkEvent::Complete as fn(u32) -> LinkEvent])
            .map(move |event| event(id))
        };
        let channels = (0..self.channels.len() as u32).flat_map(of_channel);
        SIDES.into_iter().flat_map(of_side).chain(channels).filter(|&event| self.can(event)).collect()
    }

    /// Tells whether an event can happen now.
    pub fn can(&self, event: LinkEvent) -> bool {
        let channel = |id: u32| &self.channels[id as usize];
        let sender = |id: u32| channel(id).setup.sender;
        match event {
            LinkEvent::Start(side) => self.end(side).phase == Phase::Off,
            LinkEvent::Greet(side) => {
                let end = self.end(side);
                let turn = side == self.master || end.heard;
                end.phase == Phase::Greeting && !end.greeted && turn && self.has_room(side, 0)
            }
            LinkEvent::Fill(id) => self.runs(sender(id)) && channel(id).can_fill(),
            LinkEvent::Send(id) => {
                let c = channel(id);
                let free = c.credits() > 0 || self.makes(Mistake::NoCredits);
                let turn = self.signal == SignalMode::Merged || c.sender.signalled == c.sender.sent;
                self.runs(sender(id))
                    && c.sender.sent < c.sender.filled
                    && free
                    && turn
                    && self.has_room(sender(id), self.queue(CommandKind::Payload))
            }
            LinkEvent::Announce(id) => {
                let c = &channel(id).sender;
                c.signalled < c.sent && self.has_room(sender(id), self.queue(CommandKind::BytesSent))
            }
            LinkEvent::Take(id) => self.runs(sender(id).other()) && channel(id).can_take(),
            LinkEvent::Acknowledge(id) => {
                let c = &channel(id).receiver;
                let queue = self.queue(CommandKind::ReceiverAck);
                c.acknowledged < c.taken && self.has_room(sender(id).other(), queue)
            }
            LinkEvent::Read(id) => channel(id).can_read(),
            LinkEvent::Complete(id) => {
                let queue = self.queue(CommandKind::ReceiverDone);
                channel(id).can_complete() && self.has_room(sender(id).other(), queue)
            }
            LinkEvent::Transmit(side, queue) => self.end(side).can_transmit(queue),
            LinkEvent::Arrive(side) => !self.end(side.other()).wire.is_empty(),
            LinkEvent::GoDown => true,
            LinkEvent::Finish(side) => self.runs(side) && self.owes_nothing(side),
        }
    }

    /// Lets happen what can.
    pub fn apply(&mut self, event: LinkEvent) -> std::result::Result<(), ProtocolFault> {
        debug_assert!(self.can(event), "{event:?} cannot happen now");
        let termination = self.termination;
        match event {
            LinkEvent::Start(side) => {
                let ready = self.makes(Mistake::NoHandshake);
                self.end_mut(side).phase = if ready { Phase::Running } else { Phase::Greeting };
            }
            LinkEvent::Greet(side) => {
                self.end_mut(side).greeted = true;
                let hello =
                    Command { word: CommandKind::Greeting, channel: 0, message: 0, bytes: self.word_bytes };
                self.end_mut(side).queues[0].push_back(hello);
                self.end_mut(side).begin();
            }
            LinkEvent::Fill(id) => self.channels[id as usize].fill(termination),
            LinkEvent::Send(id) => {
                let channel = &mut self.channels[id as usize];
                let message = channel.sender.sent;
                let bytes = channel.bytes(message);
                channel.sender.sent += 1;
                match self.signal {
                    SignalMode::Merged => {
                        channel.sender.signalled += 1;
                        self.command(id, CommandKind::PayloadWithBytesSent, message, bytes + self.word_bytes);
                    }
                    SignalMode::Separate => self.command(id, CommandKind::Payload, message, bytes),
                }
            }
            LinkEvent::Announce(id) => {
                let sender = &mut self.channels[id as usize].sender;
                sender.signalled += 1;
                let message = sender.signalled - 1;
                self.command(id, CommandKind::BytesSent, message, self.word_bytes);
            }
            LinkEvent::Take(id) => self.channels[id as usize].receiver.taken += 1,
            LinkEvent::Acknowledge(id) => {
                let receiver = &mut self.channels[id as usize].receiver;
                receiver.acknowledged += 1;
                let message = receiver.acknowledged - 1;
                self.command(id, CommandKind::ReceiverAck, message, self.word_bytes);
            }
            LinkEvent::Read(id) => {
                self.channels[id as usize].read(termination)?;
            }
            LinkEvent::Complete(id) => {
                let message = self.channels[id as usize].complete();
                self.command(id, CommandKind::ReceiverDone, message, self.word_bytes);
            }
            LinkEvent::Transmit(side, queue) => {
                if self.makes(Mistake::OneSource) {
                    self.reread(side, queue);
                }
                let mtu = self.mtu;
                self.end_mut(side).transmit(queue, mtu);
            }
            LinkEvent::Arrive(side) => {
                if let Some(WirePacket { command, last: true, .. }) =
                    self.end_mut(side.other()).wire.pop_front()
                {
                    self.deliver(side, command)?;
                }
            }
            LinkEvent::GoDown => {
                self.ends.iter_mut().for_each(LinkEnd::lose);
            }
            LinkEvent::Finish(side) => self.end_mut(side).phase = Phase::Finished,
        }
        Ok(())
    }

    /// Bytes of the packet that went to the wire last, without its framing.
    pub(super) fn last_packet(&self, side: Side) -> u64 {
        self.end(side).wire.back().map_or(0, |packet| packet.bytes)
    }

    /// The end that sends on a channel.
    pub(super) fn sender(&self, channel: u32) -> Side {
        self.channels[channel as usize].setup.sender
    }

    /// Payloads that a channel's worker has written.
    pub(super) fn filled(&self, channel: u32) -> u64 {
        self.channels[channel as usize].sender.filled
    }

    /// Transaction queues of an end.
    pub(super) fn queues(&self) -> usize {
        self.ends[0].queues.len()
    }

    fn end(&self, side: Side) -> &LinkEnd {
        &self.ends[side as usize]
    }

    fn end_mut(&mut self, side: Side) -> &mut LinkEnd {
        &mut self.ends[side as usize]
    }

    fn runs(&self, side: Side) -> bool {
        self.end(side).phase == Phase::Running
    }

    /// Order is kept only within a queue. So a payload and its signal take one queue, and an acknowledgement and the
    /// credit after it take one: the other, where there are two, so that they do not wait behind payloads.
    fn queue(&self, word: CommandKind) -> usize {
        let (queue, astray) = match word {
            CommandKind::Greeting | CommandKind::Payload | CommandKind::PayloadWithBytesSent => (0, false),
            CommandKind::BytesSent => (0, self.makes(Mistake::SignalOvertakes)),
            CommandKind::ReceiverAck => (1, self.makes(Mistake::AckOvertakes)),
            CommandKind::ReceiverDone => (1, false),
        };
        (queue + usize::from(astray)) % self.ends[0].queues.len()
    }

    fn has_room(&self, side: Side, queue: usize) -> bool {
        self.end(side).queues[queue].len() < self.queue_commands
    }

    fn command(&mut self, channel: u32, word: CommandKind, message: u64, bytes: u64) {
        let sender = self.channels[channel as usize].setup.sender;
        let back = matches!(word, CommandKind::ReceiverAck | CommandKind::ReceiverDone);
        let side = if back { sender.other() } else { sender };
        let queue = self.queue(word);
        self.end_mut(side).queues[queue].push_back(Command { word, channel, message, bytes });
    }

    /// The acknowledgement has become the credit that was written over it.
    fn reread(&mut self, side: Side, queue: usize) {
        let Some(command) = self.ends[side as usize].queues[queue].front_mut() else { return };
        let completed = self.channels[command.channel as usize].receiver.completed;
        if command.word == CommandKind::ReceiverAck && completed > command.message {
            command.word = CommandKind::ReceiverDone;
        }
    }

    fn deliver(&mut self, side: Side, command: Command) -> std::result::Result<(), ProtocolFault> {
        let Command { word, channel, message, .. } = command;
        let there = match self.end(side).phase {
            // The greeting has an address of its own.
            Phase::Off | Phase::Greeting if word == CommandKind::Greeting => true,
            Phase::Greeting => side == self.master,
            Phase::Running => true,
            Phase::Off | Phase::Finished => false,
        };
        if !there {
            return Err(ProtocolFault::NobodyThere { side });
        }
        if word == CommandKind::Greeting {
            self.end_mut(side).heard = true;
            self.end_mut(side).begin();
            return Ok(());
        }
        let channel = &mut self.channels[channel as usize];
        match word {
            CommandKind::Payload => channel.payload_arrives(message)?,
            CommandKind::PayloadWithBytesSent => {
                channel.payload_arrives(message)?;
                channel.bytes_sent_arrives(message);
            }
            CommandKind::BytesSent => channel.bytes_sent_arrives(message),
            CommandKind::ReceiverAck => channel.ack_arrives()?,
            CommandKind::ReceiverDone => channel.done_arrives()?,
            CommandKind::Greeting => {}
        }
        Ok(())
    }

    /// Its receivers have got all, and its senders have their credits back.
    fn owes_nothing(&self, side: Side) -> bool {
        let hasty = self.makes(Mistake::NoDraining);
        self.channels.iter().all(|channel| {
            let state = match channel.setup.sender == side {
                true if hasty && channel.sender.signalled == channel.setup.messages => State::Done,
                true => channel.sender_state(self.termination),
                false => channel.receiver_state(self.termination),
            };
            state == State::Done
        })
    }

    #[cfg(test)]
    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    #[cfg(not(test))]
    fn makes(&self, _: Mistake) -> bool {
        false
    }
}
