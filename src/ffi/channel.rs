//! Channels of the data mover on the links of a declared machine.

use std::ffi::{c_int, c_void};

use super::guard::Parameter;
use super::handle::pennyComm_t;
use super::types::c_numbers;
use crate::comm::{self, ChannelEnd, MoverSetup, SignalMode, Termination};
use crate::error::{Error, Result};

c_numbers! {
    /// An end of a channel.
    pub enum pennyChannelRole_t {
        /// Its worker sends.
        pennyChannelSender = 0,
        /// Its worker receives.
        pennyChannelReceiver = 1,
    }
}

c_numbers! {
    /// The way in which a message and the word that announces it travel.
    pub enum pennySignalMode_t {
        /// As the machine's data mover has it.
        pennySignalDefault = 0,
        /// In one command, the word last.
        pennySignalMerged = 1,
        /// In two commands, one after the other.
        pennySignalSeparate = 2,
    }
}

c_numbers! {
    /// The condition that ends the channels.
    pub enum pennyTermination_t {
        /// As the machine's data mover has it.
        pennyTerminationDefault = 0,
        /// Both ends know the number of messages.
        pennyTerminationMessageCount = 1,
        /// The workers of both ends say with a message that it is the last.
        pennyTerminationWorkerInitiated = 2,
    }
}

/// One end of a channel. The k-th sender of a rank to a peer over a link and the peer's k-th receiver from that rank over it are one
/// channel; messages, bytes and buffers are the same at both.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyLinkChannel_t {
    /// Sender or receiver.
    pub role: pennyChannelRole_t,
    /// Rank at the other end, a neighbour on the machine.
    pub peer: c_int,
    /// Which of the links between the two, from 0 on.
    pub link: c_int,
    /// Number of buffers at each end, each of which holds one message: the credits. 0: as the machine's data mover has it.
    pub buffers: c_int,
    /// Number of messages, at least 1.
    pub messages: usize,
    /// Bytes of each message: whole words, 16 bytes on Wormhole.
    pub bytes: usize,
    /// The messages, one after the other: messages * bytes bytes. NULL for a sender that relays.
    pub data: *mut c_void,
    /// Of a sender: index in channels of the receiver whose messages it sends on, each as it comes; -1: it sends its own.
    pub relays: c_int,
    /// Of a sender: its worker has a message this many nanoseconds after the one before. 0: all at once.
    pub everyNs: u64,
    /// Written on success: the machine's time in picoseconds at which the first message was where the receiver needs it.
    pub firstPs: u64,
    /// Written on success: the same of the last message.
    pub lastPs: u64,
}

c_api! {
    /// Runs the data mover's programs on links of the declared machine until all channels have ended: the ends of each link shake
    /// hands, workers send and receive, credits come back. Every rank calls it with its own ends, or with none. The bytes
    /// move; times are those of every packet, on links that carry nothing else meanwhile, and the clock of each rank goes on to the end of its
    /// own programs. Not in a group.
    ///
    /// Needs PENNY_FABRIC with a machine whose links have a data mover, such as t3000:mover=ethernet. A program that cannot be
    /// (ends without another, places that are no neighbours, more buffers than a core has room for) is refused on every rank, and
    /// nothing moves.
    ///
    /// signal, termination: the same on all ranks. channels: count ends, in which firstPs and lastPs are written on success; may
    /// be NULL if count is 0. Data of receivers must not overlap any other data.
    fn pennyLinkChannelsRun(
        comm: pennyComm_t,
        signal: pennySignalMode_t,
        termination: pennyTermination_t,
        channels: *mut pennyLinkChannel_t,
        count: c_int,
    ) {
        let ends = channels.ends(count)?;
        let times = comm::run_channels(comm, MoverSetup { signal, termination }, &ends)?;
        for (i, [first_ps, last_ps]) in times.into_iter().enumerate() {
            // SAFETY: the caller's promise: count ends. C may have aligned them badly.
            unsafe {
                let mut end = channels.0.add(i).read_unaligned();
                (end.firstPs, end.lastPs) = (first_ps, last_ps);
                channels.0.add(i).write_unaligned(end);
            }
        }
        Ok(())
    }
}

/// A list whose length another parameter says.
#[derive(Clone, Copy)]
pub(super) struct EndList(*mut pennyLinkChannel_t);

impl EndList {
    /// Reads `count` ends.
    fn ends(self, count: c_int) -> Result<Vec<ChannelEnd<'static>>> {
        let Ok(length) = usize::try_from(count) else {
            return Err(Error::argument(format!("count is {count}; pass the number of channels")));
        };
        if self.0.is_null() && length > 0 {
            return Err(Error::argument(format!("channels is NULL; pass count = {count} of them")));
        }
        // SAFETY: the caller's promise: count ends. C may have aligned them badly.
        (0..length).map(|i| unsafe { self.0.add(i).read_unaligned().end(i) }).collect()
    }
}

impl pennyLinkChannel_t {
    /// # Safety
    /// The data must be as the documentation says.
    unsafe fn end(self, index: usize) -> Result<ChannelEnd<'static>> {
        let send = match self.role {
            pennyChannelSender => true,
            pennyChannelReceiver => false,
            other => {
                return Err(Error::argument(format!(
                    "channels[{index}].role is {}, no pennyChannelRole_t; it is pennyChannelSender or pennyChannelReceiver",
                    other.0
                )));
            }
        };
        let pennyLinkChannel_t { peer, link, buffers, messages, bytes, relays, everyNs, .. } = self;
        // SAFETY: the promise to `end`.
        let data = unsafe { self.data.admit("data")? };
        Ok(ChannelEnd { send, peer, link, messages, bytes, buffers, every_ns: everyNs, relays, data })
    }
}

impl Parameter for *mut pennyLinkChannel_t {
    type Admitted = EndList;
    unsafe fn admit(self, _name: &'static str) -> Result<EndList> {
        Ok(EndList(self))
    }
}

impl Parameter for pennySignalMode_t {
    type Admitted = Option<SignalMode>;
    unsafe fn admit(self, name: &'static str) -> Result<Option<SignalMode>> {
        match self {
            pennySignalDefault => Ok(None),
            pennySignalMerged => Ok(Some(SignalMode::Merged)),
            pennySignalSeparate => Ok(Some(SignalMode::Separate)),
            other => Err(Error::argument(format!(
                "{name} is {}, no pennySignalMode_t; pennySignalDefault takes the machine's",
                other.0
            ))),
        }
    }
}

impl Parameter for pennyTermination_t {
    type Admitted = Option<Termination>;
    unsafe fn admit(self, name: &'static str) -> Result<Option<Termination>> {
        match self {
            pennyTerminationDefault => Ok(None),
            pennyTerminationMessageCount => Ok(Some(Termination::MessageCount)),
            pennyTerminationWorkerInitiated => Ok(Some(Termination::WorkerInitiated)),
            other => Err(Error::argument(format!(
                "{name} is {}, no pennyTermination_t; pennyTerminationDefault takes the machine's",
                other.0
            ))),
        }
    }
}
