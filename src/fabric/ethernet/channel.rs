//! One channel of a link: a row of buffers at the sender, the same at the receiver, and what each end knows of them.
//!
//! ```text
//!     message     0    1    2    3    4    5          buffers = 2: message m is in buffer m % 2
//!     sender                ^    ^    ^
//!                       credited |  filled            credits = buffers - (sent - credited)
//!                               sent
//! ```
//!
//! The words of a message go round in one order, so counts say all: `credited <= acked <= sent <= filled` at the
//! sender, `completed <= read <= taken` at the receiver.

use super::end::{SIDES, Side};
use super::fault::ProtocolFault;
use super::parameters::Parameters;
use crate::error::Error;

pub use crate::topology::{SignalMode, Termination};

/// A channel to be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// The end that sends.
    pub sender: Side,
    /// Messages that its worker has.
    pub messages: u64,
    /// Payload of each,
    pub bytes: u64,
    /// and of the last one, which is no longer than the others.
    pub last_bytes: u64,
    /// Buffers at each end.
    pub buffers: u32,
}

/// Refuses what a core cannot hold, and what would never end.
pub(super) fn check(
    parameters: &Parameters,
    setups: &[Setup],
    termination: Termination,
) -> crate::error::Result<()> {
    for setup in setups {
        parameters.check_payload(setup.bytes)?;
        parameters.check_payload(setup.last_bytes.min(setup.bytes))?;
        if setup.buffers == 0 {
            return Err(Error::argument("a channel has no buffer; give it one"));
        }
        if setup.messages == 0 && termination == Termination::WorkerInitiated {
            return Err(Error::argument(
                "a worker cannot end a channel with its last message if it has none; give it one",
            ));
        }
    }
    for side in SIDES {
        let of_side = setups.iter().filter(|setup| setup.sender == side);
        let (count, bytes) = of_side.fold((0u64, 0u64), |(count, bytes), setup| {
            let row = setup.bytes.saturating_add(parameters.core.align).saturating_mul(setup.buffers.into());
            (count + 1, bytes.saturating_add(row))
        });
        if count > parameters.core.channels.into() || bytes > parameters.core.buffer_bytes {
            return Err(Error::argument(format!(
                "{count} channels with {bytes} B of buffers in one direction do not fit a core; keep to {} \
                     channels and {} B",
                parameters.core.channels, parameters.core.buffer_bytes
            )));
        }
    }
    Ok(())
}

/// The state of a channel at one end, in the guide's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Sender: a buffer is free for the worker. Receiver: the worker has not yet read a payload.
    WaitingForWorker,
    /// Sender: a payload and a credit for it are there.
    ReadyForEthTransfer,
    /// Receiver: a payload is there that the worker has not been told of.
    SignalingWorker,
    /// Sender: for an acknowledgement or a credit. Receiver: for a payload.
    WaitingForEth,
    /// Terminated, and its credits are back.
    Done,
}

/// The sender's end: how many messages have come how far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sender {
    /// Written into a buffer by the worker.
    pub filled: u64,
    /// Payload handed to a transaction queue.
    pub sent: u64,
    /// `bytes_sent` handed to a transaction queue.
    pub signalled: u64,
    /// `receiver_ack` has come.
    pub acked: u64,
    /// `bytes_sent` was cleared: the receiver's buffer is free.
    pub credited: u64,
    /// The worker has said that nothing follows.
    pub terminate: bool,
}

/// The receiver's end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    /// For each buffer, the message that it holds.
    pub contents: Vec<Option<u64>>,
    /// For each buffer, whether `bytes_sent` says that a payload is there.
    pub bytes_sent: Vec<bool>,
    /// Seen, and the worker was told.
    pub taken: u64,
    /// `receiver_ack` handed to a transaction queue.
    pub acknowledged: u64,
    /// Read by the worker.
    pub read: u64,
    /// The cleared `bytes_sent` handed to a transaction queue.
    pub completed: u64,
    /// The worker has said that nothing follows.
    pub terminate: bool,
}

/// Both ends of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Channel {
    pub id: u32,
    pub setup: Setup,
    pub sender: Sender,
    pub receiver: Receiver,
}

impl Channel {
    pub fn new(id: u32, setup: Setup) -> Channel {
        let buffers = setup.buffers as usize;
        let receiver = Receiver {
            contents: vec![None; buffers],
            bytes_sent: vec![false; buffers],
            taken: 0,
            acknowledged: 0,
            read: 0,
            completed: 0,
            terminate: false,
        };
        Channel { id, setup, sender: Sender::default(), receiver }
    }

    fn buffer(&self, message: u64) -> usize {
        (message % u64::from(self.setup.buffers)) as usize
    }

    /// Payloads that the sender may send before another credit comes.
    pub fn credits(&self) -> u64 {
        (u64::from(self.setup.buffers) + self.sender.credited).saturating_sub(self.sender.sent)
    }

    /// Bytes of a message.
    pub fn bytes(&self, message: u64) -> u64 {
        if message + 1 == self.setup.messages { self.setup.last_bytes } else { self.setup.bytes }
    }

    pub fn can_fill(&self) -> bool {
        let Sender { filled, acked, .. } = self.sender;
        filled < self.setup.messages && filled - acked < u64::from(self.setup.buffers)
    }

    pub fn can_take(&self) -> bool {
        let Receiver { taken, completed, .. } = self.receiver;
        taken - completed < u64::from(self.setup.buffers) && self.receiver.bytes_sent[self.buffer(taken)]
    }

    pub fn can_read(&self) -> bool {
        self.receiver.read < self.receiver.taken
    }

    /// A receiver's buffer is free only after its source is: the sender must not be told in another order.
    pub fn can_complete(&self) -> bool {
        let Receiver { read, acknowledged, completed, .. } = self.receiver;
        completed < read.min(acknowledged)
    }

    pub fn fill(&mut self, termination: Termination) {
        self.sender.filled += 1;
        self.sender.terminate =
            termination == Termination::WorkerInitiated && self.sender.filled == self.setup.messages;
    }

    /// The worker reads the message that it was told of: is it that one?
    pub fn read(&mut self, termination: Termination) -> Result<u64, ProtocolFault> {
        let message = self.receiver.read;
        if self.receiver.contents[self.buffer(message)] != Some(message) {
            return Err(ProtocolFault::NotThere { channel: self.id, message });
        }
        self.receiver.read += 1;
        self.receiver.terminate =
            termination == Termination::WorkerInitiated && self.receiver.read == self.setup.messages;
        Ok(message)
    }

    /// The receiver frees the buffer of the message read first.
    pub fn complete(&mut self) -> u64 {
        let message = self.receiver.completed;
        let buffer = self.buffer(message);
        self.receiver.contents[buffer] = None;
        self.receiver.bytes_sent[buffer] = false;
        self.receiver.completed += 1;
        message
    }

    pub fn payload_arrives(&mut self, message: u64) -> Result<(), ProtocolFault> {
        let buffer = self.buffer(message);
        if self.receiver.contents[buffer].is_some() {
            return Err(ProtocolFault::Overwritten { channel: self.id, message });
        }
        self.receiver.contents[buffer] = Some(message);
        Ok(())
    }

    pub fn bytes_sent_arrives(&mut self, message: u64) {
        let buffer = self.buffer(message);
        self.receiver.bytes_sent[buffer] = true;
    }

    /// The sender looks at its words only, which do not name a message.
    pub fn ack_arrives(&mut self) -> Result<(), ProtocolFault> {
        if self.sender.acked >= self.sender.sent {
            return Err(ProtocolFault::AckOfNothing { channel: self.id });
        }
        self.sender.acked += 1;
        Ok(())
    }

    pub fn done_arrives(&mut self) -> Result<(), ProtocolFault> {
        if self.sender.credited >= self.sender.acked {
            return Err(ProtocolFault::DoneBeforeAck { channel: self.id });
        }
        self.sender.credited += 1;
        Ok(())
    }

    pub fn sender_state(&self, termination: Termination) -> State {
        let Sender { filled, sent, acked, credited, terminate, .. } = self.sender;
        let all = match termination {
            Termination::MessageCount => self.setup.messages,
            Termination::WorkerInitiated if terminate => filled,
            Termination::WorkerInitiated => u64::MAX,
        };
        let buffers = u64::from(self.setup.buffers);
        match () {
            () if credited == all => State::Done,
            () if sent < filled && self.credits() > 0 => State::ReadyForEthTransfer,
            () if filled < all && filled - acked < buffers => State::WaitingForWorker,
            () => State::WaitingForEth,
        }
    }

    pub fn receiver_state(&self, termination: Termination) -> State {
        let Receiver { taken, completed, terminate, .. } = self.receiver;
        let all = match termination {
            Termination::MessageCount => self.setup.messages,
            Termination::WorkerInitiated if terminate => taken,
            Termination::WorkerInitiated => u64::MAX,
        };
        match () {
            () if completed == all => State::Done,
            () if self.can_take() => State::SignalingWorker,
            () if self.can_read() => State::WaitingForWorker,
            () => State::WaitingForEth,
        }
    }
}
