//! Programs of channels: what the workers of ranks send each other over the links of a declared machine, and when.
//!
//! ```text
//!     every rank   its ends --told to all--> the same program on every rank --> its times, packet by packet
//!                                                     |
//!                                                     '--> the bytes, stage by stage: what is relayed comes after its source
//! ```
//!
//! The k-th sender of a rank to a peer over a link and the peer's k-th receiver from it are one channel. All ranks know the whole
//! program, so each computes the same times, and is told the same where it cannot be.

use super::collective::MOST_BYTES;
use super::point_to_point::{self, Transfer};
use crate::comm::agree::{Answers, Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::group;
use crate::comm::registry::{self, CommHandle};
use crate::comm::timed::undeclared;
use crate::error::{Error, Result};
pub use crate::fabric::ethernet::channel::{SignalMode, Termination};
pub use crate::fabric::ethernet::program::MoverSetup;
use crate::fabric::ethernet::program::{self, LinkChannel};
use crate::memory::view::Address;
use crate::types::{DataType, Rank};

/// One end of a channel.
#[derive(Clone, Copy)]
pub struct ChannelEnd<'a> {
    /// It sends.
    pub send: bool,
    /// The rank at the other end.
    pub peer: i32,
    /// Which of the links between the two.
    pub link: i32,
    /// Messages.
    pub messages: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Buffers at each end of the channel; 0: the machine's.
    pub buffers: i32,
    /// A sender's worker has its messages this long after each other.
    pub every_ns: u64,
    /// A sender's messages are those of this receiver of the rank's list, as they come; negative: its own.
    pub relays: i32,
    /// The messages, one after the other; not used by a sender that relays.
    pub data: Address<'a>,
}

/// Words that tell an end to the others.
const WORDS: usize = 8;

/// The setup and the number of ends, before the ends themselves.
struct Announced {
    setup: u64,
    ends: u64,
}

impl Proposal for Announced {
    const SUBJECT: Subject = Subject::Channels;
    const EQUAL: usize = 1;
    type Words = [u64; 2];

    fn words(&self) -> [u64; 2] {
        [self.setup, self.ends]
    }

    fn reads(words: &[u64]) -> String {
        let signal =
            ["the machine's signal", "a merged signal", "a separate signal"][(words[0] & 3) as usize % 3];
        let termination =
            ["the machine's", "by message count", "initiated by workers"][(words[0] >> 2 & 3) as usize % 3];
        format!("pennyLinkChannelsRun({signal}, termination {termination})")
    }
}

/// The clock and the ends of a rank.
struct Listed(Vec<u64>);

impl Proposal for Listed {
    const SUBJECT: Subject = Subject::Channels;
    const EQUAL: usize = 1;
    type Words = Vec<u64>;

    fn words(&self) -> Vec<u64> {
        self.0.clone()
    }

    fn reads(_: &[u64]) -> String {
        "pennyLinkChannelsRun".into()
    }
}

/// An end as all ranks know it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Told {
    send: bool,
    peer: Rank,
    link: u32,
    messages: u64,
    bytes: u64,
    buffers: u32,
    every_ps: u64,
    relays: Option<usize>,
}

/// A channel: its sender and its receiver, each a rank and a place in the rank's list.
struct Paired {
    told: Told,
    sender: (Rank, usize),
    receiver: (Rank, usize),
    /// The channel before it whose messages it relays.
    source: Option<usize>,
    /// The number of channels that the messages passed before.
    stage: usize,
}

/// Runs the program of channels of which these are the rank's ends. For each, when the first message was where it is needed, and
/// when the last one was, by the machine's clock.
pub fn run_channels(comm: CommHandle, setup: MoverSetup, ends: &[ChannelEnd]) -> Result<Vec<[u64; 2]>> {
    if group::is_open() {
        return Err(Error::usage("channels run at once and in no group; call pennyGroupEnd first"));
    }
    registry::enter(comm, |c| c.run_channels(setup, ends))
}

impl CommCore {
    fn run_channels(&mut self, setup: MoverSetup, ends: &[ChannelEnd]) -> Result<Vec<[u64; 2]>> {
        self.usable()?;
        self.broken()?;
        let participant = self.timing().participant().cloned().ok_or_else(undeclared)?;
        let signal = setup.signal.map_or(0, |mode| 1 + mode as u64);
        let termination = setup.termination.map_or(0, |mode| 1 + mode as u64);
        let announced = Announced { setup: signal | termination << 2, ends: ends.len() as u64 };
        let ((), counts) = self.agree(&announced, self.check_ends(ends))?;
        let most = counts.each(1).into_iter().max().unwrap_or(0) as usize;
        let mut words = vec![u64::MAX, participant.clock_ps()];
        ends.iter().for_each(|end| words.extend(told(end)));
        words.resize(2 + most * WORDS, 0);
        let ((), answers) = self.agree(&Listed(words), Ok(()))?;
        // All ranks come to the same from here on, or fail alike.
        let paired = pair(&counts.each(1), &answers)?;
        let places = self.timing().places().ok_or_else(undeclared)?.to_vec();
        let network = participant.network();
        let mut start_ps = vec![0; network.shape.nranks() as usize];
        let begin_ps = answers.each(1).into_iter().max().unwrap_or(0);
        places.iter().for_each(|&place| start_ps[place as usize] = begin_ps);
        let channels: Vec<LinkChannel> = paired.iter().map(|one| one.channel(&places)).collect();
        let times = program::run(network, &channels, setup, &start_ps)?;
        self.move_stages(&paired, ends)?;
        let me = self.rank();
        let shared = self.shared.clone();
        let end_ps = times.places[places[me as usize] as usize];
        shared.timing.advance_to(end_ps, || Ok(()))?;
        let mut own = vec![[0; 2]; ends.len()];
        for (one, &time) in paired.iter().zip(&times.channels) {
            for (_, index) in [one.sender, one.receiver].into_iter().filter(|(rank, _)| *rank == me) {
                own[index] = time;
            }
        }
        Ok(own)
    }

    /// Refuses what is wrong by itself.
    fn check_ends(&self, ends: &[ChannelEnd]) -> Result<()> {
        let (me, nranks) = (self.rank(), self.nranks() as i32);
        for (index, end) in ends.iter().enumerate() {
            let wrong = |what: String| Err(Error::argument(format!("channels[{index}]{what}")));
            if !(0..nranks).contains(&end.peer) || end.peer == me as i32 {
                return wrong(format!(
                    ".peer is {} on rank {me}; name another rank of 0..{nranks}",
                    end.peer
                ));
            }
            if end.link < 0 || end.buffers < 0 {
                return wrong(format!(
                    ".link is {} and .buffers is {}; pass numbers from 0 on",
                    end.link, end.buffers
                ));
            }
            let bytes = end.messages.checked_mul(end.bytes).filter(|&bytes| bytes > 0 && bytes <= MOST_BYTES);
            let Some(bytes) = bytes else {
                return wrong(format!(
                    " has {} messages of {} bytes; send at least one of at least a word, and no more than memory holds",
                    end.messages, end.bytes
                ));
            };
            let relays = end.send && end.relays >= 0;
            if relays && ends.get(end.relays as usize).is_none_or(|source| source.send) {
                return wrong(format!(
                    ".relays is {}, which is no receiver of the list; name one, or pass -1",
                    end.relays
                ));
            }
            if end.data.is_null() && !relays {
                return wrong(format!(".data is NULL on rank {me}; pass {bytes} bytes"));
            }
        }
        Ok(())
    }

    /// Moves the bytes: those of the ranks' own first, then what is relayed, hop by hop.
    fn move_stages(&mut self, paired: &[Paired], ends: &[ChannelEnd]) -> Result<()> {
        let me = self.rank();
        let stages = paired.iter().map(|one| one.stage + 1).max().unwrap_or(0);
        for stage in 0..stages {
            let mut transfers = Vec::new();
            for one in paired.iter().filter(|one| one.stage == stage) {
                let count = (one.told.messages * one.told.bytes) as usize;
                for (send, (rank, index), (peer, _)) in
                    [(true, one.sender, one.receiver), (false, one.receiver, one.sender)]
                {
                    if rank == me {
                        let source = one.source.filter(|_| send).map(|source| paired[source].receiver.1);
                        let buffer = ends[source.unwrap_or(index)].data;
                        let (dtype, peer) = (DataType::Uint8, peer as i32);
                        transfers.push(Transfer { send, buffer, count, dtype, peer, of_collective: false });
                    }
                }
            }
            point_to_point::run_untimed(self, &transfers)?;
        }
        Ok(())
    }
}

impl Paired {
    fn channel(&self, places: &[Rank]) -> LinkChannel {
        let Told { link, messages, bytes, buffers, every_ps, .. } = self.told;
        let (from, to) = (places[self.sender.0 as usize], places[self.receiver.0 as usize]);
        LinkChannel { from, to, link, messages, bytes, buffers, every_ps, relays: self.source }
    }
}

fn told(end: &ChannelEnd) -> [u64; WORDS] {
    let relays = if end.send && end.relays >= 0 { 1 + end.relays as u64 } else { 0 };
    let every_ns = if end.send { end.every_ns } else { 0 };
    let numbers =
        [end.peer as u64, end.link as u64, end.messages as u64, end.bytes as u64, end.buffers as u64];
    let [peer, link, messages, bytes, buffers] = numbers;
    [u64::from(end.send), peer, link, messages, bytes, buffers, every_ns.saturating_mul(1000), relays]
}

/// Every rank's ends.
fn ends_of(counts: &[u64], answers: &Answers) -> Vec<Vec<Told>> {
    let end = |words: &[u64]| Told {
        send: words[0] == 1,
        peer: words[1] as Rank,
        link: words[2] as u32,
        messages: words[3],
        bytes: words[4],
        buffers: words[5] as u32,
        every_ps: words[6],
        relays: (words[7] as usize).checked_sub(1),
    };
    let list = |(rank, words): (Rank, &[u64])| {
        words[2..].chunks_exact(WORDS).take(counts[rank as usize] as usize).map(end).collect()
    };
    answers.ranks().map(list).collect()
}

/// Joins senders and receivers to channels, each after the one that it relays.
fn pair(counts: &[u64], answers: &Answers) -> Result<Vec<Paired>> {
    let all = ends_of(counts, answers);
    let ends = |rank: Rank, send: bool, peer: Rank, link: u32| {
        let of = move |(_, end): &(usize, &Told)| (end.send, end.peer, end.link) == (send, peer, link);
        all[rank as usize].iter().enumerate().filter(of)
    };
    let mut open = Vec::new();
    for (rank, list) in (0..).zip(&all) {
        for (index, end) in list.iter().enumerate() {
            let before = ends(rank, end.send, end.peer, end.link).take_while(|(at, _)| *at < index).count();
            let other = ends(end.peer, !end.send, rank, end.link).nth(before);
            let (sends, receives) = if end.send { ("sends", "receives") } else { ("receives", "sends") };
            let Some((at, other)) = other else {
                return Err(Error::usage(format!(
                    "channels[{index}] of rank {rank} {sends} over link {} what rank {} never {receives}; add the other end there",
                    end.link, end.peer
                )));
            };
            if (other.messages, other.bytes, other.buffers) != (end.messages, end.bytes, end.buffers) {
                return Err(Error::usage(format!(
                    "channels[{index}] of rank {rank} {sends} {} messages of {} bytes in {} buffers, and channels[{at}] of rank {} \
                     {receives} {} of {} in {}; pass the same on both",
                    end.messages,
                    end.bytes,
                    end.buffers,
                    end.peer,
                    other.messages,
                    other.bytes,
                    other.buffers
                )));
            }
            if end.send {
                open.push(Paired {
                    told: *end,
                    sender: (rank, index),
                    receiver: (end.peer, at),
                    source: None,
                    stage: 0,
                });
            }
        }
    }
    let mut paired: Vec<Paired> = Vec::new();
    while !open.is_empty() {
        let (known, left) = (paired.len(), open.len());
        for mut one in std::mem::take(&mut open) {
            let Some(relays) = one.told.relays else {
                paired.push(one);
                continue;
            };
            let source = (one.sender.0, relays);
            match paired[..known].iter().position(|earlier| earlier.receiver == source) {
                Some(at) => {
                    (one.source, one.stage) = (Some(at), paired[at].stage + 1);
                    paired.push(one);
                }
                None => open.push(one),
            }
        }
        if let Some(one) = open.first().filter(|_| open.len() == left) {
            return Err(Error::usage(format!(
                "channels[{}] of rank {} relays messages that come from itself in a circle; let one sender have its own",
                one.sender.1, one.sender.0
            )));
        }
    }
    Ok(paired)
}
