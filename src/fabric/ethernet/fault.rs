//! What must never come out of the protocol, whatever the order of its events.

use super::end::Side;
use std::fmt;

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolFault {
    /// A payload fell into a buffer that holds another.
    Overwritten {
        /// Of this channel
        channel: u32,
        /// this message.
        message: u64,
    },
    /// The worker was told of a payload that is not there.
    NotThere {
        /// Of this channel
        channel: u32,
        /// this message.
        message: u64,
    },
    /// An acknowledgement of a message that was acknowledged already, or not sent.
    AckOfNothing {
        /// The channel.
        channel: u32,
    },
    /// A buffer is free whose payload was not acknowledged.
    DoneBeforeAck {
        /// Of this channel.
        channel: u32,
    },
    /// Something arrived at an end whose program had not begun, or had ended.
    NobodyThere {
        /// This end.
        side: Side,
    },
}

impl fmt::Display for ProtocolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolFault::Overwritten { channel, message } => {
                write!(f, "payload {message} of channel {channel} fell into a buffer that holds another")
            }
            ProtocolFault::NotThere { channel, message } => {
                write!(f, "the worker of channel {channel} was told of payload {message}, which is not there")
            }
            ProtocolFault::AckOfNothing { channel } => {
                write!(f, "channel {channel} got an acknowledgement of nothing")
            }
            ProtocolFault::DoneBeforeAck { channel } => {
                write!(f, "a buffer of channel {channel} is free before its payload was acknowledged")
            }
            ProtocolFault::NobodyThere { side } => {
                write!(f, "something arrived at the {side:?} end, whose program does not run")
            }
        }
    }
}
