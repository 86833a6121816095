//! One far peer, as this rank's link sees it: what waits to be sent to it, and what has come from it.

use super::address::RankAddress;
use super::lost_frames::Tally;
use super::messages::Messages;
use super::peer_rails::PeerRails;
use super::straight::StraightPeer;
use super::trailer::TRAILER;
use super::wire::{self, HEADER, Item, MessageHeader};
use crate::memory::view::LentBytes;
use crate::sys::clock;
use crate::sys::endpoint::{PeerId, Place};
use crate::types::Rank;
use std::collections::{BTreeMap, VecDeque};

/// Writes from one rank to another that may be under way.
pub const WRITES: u32 = 64;
/// Bits of a write's immediate data that count writes; the others are the sender's rank.
pub const NUMBER_BITS: u32 = 22;
pub const NUMBERS: u32 = (1 << NUMBER_BITS) - 1;
/// Messages and writes that may wait for the provider.
const LONGEST_QUEUE: usize = 1 << 16;

/// What is to be sent.
pub enum Outgoing {
    /// Frames.
    Message(Vec<u64>),
    /// A message with this number, which went by a rail that is cut.
    MessageAgain(u32),
    /// A write with this number, which went by a rail that is cut.
    WriteAgain(u32),
    /// A range of the control segment, and the frame that it belongs to.
    Write {
        /// The range.
        range: WriteRange,
        /// The frame without these bytes.
        frame: Vec<u64>,
    },
}

/// What is written to a peer.
#[derive(Clone, Copy)]
pub struct WriteRange {
    /// Where the range begins in the control segment.
    pub at: usize,
    /// Its length.
    pub bytes: usize,
    /// The bytes lie here instead.
    pub lent: Option<LentBytes>,
}

/// A far peer.
pub struct FarPeer {
    pub id: PeerId,
    pub address: RankAddress,
    /// Frames that are held back, behind the words of a header.
    pub held: Vec<u64>,
    /// What the provider had no room for, or what may not overtake that.
    pub queue: VecDeque<Outgoing>,
    /// Writes that were posted to it.
    pub written: u32,
    /// Writes that it says it has taken in.
    pub acknowledged: u32,
    /// The others, beginning with the first.
    under_way: VecDeque<UnderWay>,
    /// What is known of it on each rail.
    pub rails: PeerRails,
    /// Messages to it and from it, if there are several rails.
    pub messages: Option<Messages>,
    /// It was asked to tell when it has taken in all writes before this.
    pub asked_until: Option<u32>,
    /// It has asked the same.
    asks_until: Option<u32>,
    /// Its writes that this rank has taken in: all before this, and those of the bits.
    seen: u32,
    seen_ahead: u64,
    /// What it was told of `seen`.
    pub told: u32,
    /// Halves of writes whose frames come by messages, until the other half comes.
    halves: BTreeMap<u32, Half>,
    /// Frames that were posted to it, and that have come from it.
    pub posted: u64,
    pub come: u64,
    /// What both have told of these numbers.
    pub tally: Tally,
    /// Its goodbye: the number of frames that it has sent.
    pub goodbye: Option<u64>,
    /// It was told that its goodbye and all before were taken in.
    pub is_answered: bool,
    /// It has taken in all frames up to this rank's goodbye.
    pub goodbye_taken: bool,
    /// The provider has taken something for it.
    pub is_reached: bool,
    /// When the provider first took nothing for it, before it has taken anything.
    pub tried_since: Option<u64>,
    /// Sending to it has failed: when, and why.
    pub lost: Option<(u64, String)>,
    /// What is known of it on the way from buffer to buffer.
    pub straight: StraightPeer,
}

/// A write that the peer has not said to have taken in, nor all before it.
#[derive(Clone)]
pub struct UnderWay {
    /// Where in its mirror it goes, and where in the control segment it comes from.
    pub there: usize,
    pub at: usize,
    pub bytes: usize,
    pub rail: usize,
    /// The frames that belong to it, if there are several rails.
    pub frames: Vec<u64>,
    /// It was taken in, but some before it were not.
    is_taken: bool,
}

/// The half of a write that has come.
enum Half {
    /// By this rail.
    Bytes(usize),
    Frames(Vec<u64>),
}

const _: () = assert!(WRITES == u64::BITS && (NUMBERS as u64 + 1).is_multiple_of(WRITES as u64));

impl FarPeer {
    /// A peer that is reached by as many rails of this rank's as there are in its address.
    pub fn new(id: PeerId, address: RankAddress) -> FarPeer {
        FarPeer {
            id,
            rails: PeerRails::new(address.rails.len()),
            messages: (address.rails.len() > 1).then(Messages::default),
            address,
            held: vec![0; HEADER],
            queue: VecDeque::new(),
            written: 0,
            acknowledged: 0,
            under_way: VecDeque::new(),
            asked_until: None,
            asks_until: None,
            seen: 0,
            seen_ahead: 0,
            told: 0,
            halves: BTreeMap::new(),
            posted: 0,
            come: 0,
            tally: Tally::default(),
            goodbye: None,
            is_answered: false,
            goodbye_taken: false,
            is_reached: false,
            tried_since: None,
            lost: None,
            straight: StraightPeer::default(),
        }
    }

    /// Nothing that this rank posts matters to it any more.
    pub fn is_gone(&self) -> bool {
        self.lost.is_some() || self.goodbye.is_some()
    }

    /// May something be sent to it now? It is reached by all rails, and nothing else waits.
    pub fn is_free(&self) -> bool {
        self.queue.is_empty() && self.rails.are_open()
    }

    /// The provider has taken nothing for it again. True if it is taken for lost, because there was no connection for so long. `to_it`: of what.
    pub fn gives_up(&mut self, patience_ns: u64, to_it: impl FnOnce() -> String) -> bool {
        if self.is_reached || self.lost.is_some() {
            return false;
        }
        let now = clock::now_ns();
        let waited = now.saturating_sub(*self.tried_since.get_or_insert(now));
        if waited <= patience_ns {
            return false;
        }
        // Nothing else will be told of it.
        self.lost = Some((0, format!("no connection {} within {} s", to_it(), patience_ns as f64 / 1e9)));
        true
    }

    /// The header of a message to it from rank `from`.
    pub fn header(&self, from: Rank) -> MessageHeader {
        let messages = self.messages.as_ref().map_or(0, Messages::seen);
        MessageHeader { token: self.address.token, from, seen: self.seen, number: None, messages }
    }

    /// The header of the next message to it.
    pub fn next_header(&self, from: Rank) -> MessageHeader {
        MessageHeader { number: self.messages.as_ref().map(Messages::next), ..self.header(from) }
    }

    /// A header with what it has acknowledged already, as if it came from rank `from`.
    pub fn as_acknowledged(&self, from: Rank) -> MessageHeader {
        let messages = self.messages.as_ref().map_or(0, Messages::acknowledged);
        MessageHeader { token: 0, from, seen: self.acknowledged, number: None, messages }
    }

    /// It is told what a header says.
    pub fn tell(&mut self, header: MessageHeader) {
        self.told = header.seen;
        if let Some(messages) = &mut self.messages {
            messages.told(header.messages);
        }
    }

    /// Takes what is held back, behind the words of a header.
    pub fn take_held(&mut self) -> Vec<u64> {
        std::mem::replace(&mut self.held, vec![0; HEADER])
    }

    /// Tells whether lent bytes wait to be sent.
    pub fn holds_lent(&self) -> bool {
        self.queue
            .iter()
            .any(|outgoing| matches!(outgoing, Outgoing::Write { range, .. } if range.lent.is_some()))
    }

    /// Has the frames of writes that wait go without the lent bytes.
    pub fn give_back_lent(&mut self) {
        for outgoing in &mut self.queue {
            if let Outgoing::Write { range: WriteRange { lent: Some(_), .. }, frame } = outgoing {
                let mut frames = std::mem::take(frame);
                wire::withdraw(&mut frames);
                *outgoing = Outgoing::Message(frames);
            }
        }
    }

    /// Puts something at the end of the queue. False: the queue is as long as it may be.
    pub fn enqueue(&mut self, outgoing: Outgoing, most_words: usize) -> bool {
        if let (Some(Outgoing::Message(last)), Outgoing::Message(frames)) = (self.queue.back_mut(), &outgoing)
            && HEADER + last.len() + frames.len() <= most_words
        {
            last.extend(frames);
            return true;
        }
        self.queue.push_back(outgoing);
        self.queue.len() <= LONGEST_QUEUE
    }

    /// May another write be posted?
    pub fn has_room(&self) -> bool {
        self.written.wrapping_sub(self.acknowledged) < WRITES
    }

    /// Is a write to some of these bytes of its mirror under way? It may be, if the peer has refused the message that it was a part of, or if the
    /// ranks have disagreed in its call. What goes there next must wait, for an engine may write in any order.
    pub fn is_under_way(&self, there: usize, bytes: usize) -> bool {
        self.under_way.iter().any(|write| write.there < there + bytes && there < write.there + write.bytes)
    }

    /// The provider has taken a write, with these frames.
    pub fn wrote(&mut self, there: usize, at: usize, bytes: usize, rail: usize, frames: &[u64]) {
        self.written = self.written.wrapping_add(1);
        let frames = if self.messages.is_some() { frames.to_vec() } else { Vec::new() };
        self.under_way.push_back(UnderWay { there, at, bytes, rail, frames, is_taken: false });
        self.rails.wrote(rail, bytes);
    }

    /// Returns a write that was not taken in.
    pub fn not_taken(&self, number: u32) -> Option<&UnderWay> {
        let write = self.under_way.get(number.wrapping_sub(self.acknowledged) as usize);
        write.filter(|write| !write.is_taken)
    }

    /// The provider has taken a write again.
    pub fn wrote_again(&mut self, number: u32, rail: usize) {
        if let Some(write) = self.under_way.get_mut(number.wrapping_sub(self.acknowledged) as usize) {
            self.rails.moved(write.rail, rail, write.bytes);
            write.rail = rail;
        }
    }

    /// It takes in nothing more by a rail: what it has not taken in of it goes again, before everything else.
    pub fn send_again(&mut self, rail: usize) {
        let messages =
            self.messages.iter().flat_map(|messages| messages.by(rail)).map(Outgoing::MessageAgain);
        let is_missing = |(_, write): &(u32, &UnderWay)| write.rail == rail && !write.is_taken;
        let number = |(at, _): (u32, &UnderWay)| Outgoing::WriteAgain(self.acknowledged.wrapping_add(at));
        let writes = (0..).zip(&self.under_way).filter(is_missing).map(number);
        let again: Vec<Outgoing> = messages.chain(writes).collect();
        again.into_iter().rev().for_each(|outgoing| self.queue.push_front(outgoing));
    }

    /// This rank takes in nothing more by a rail.
    pub fn close(&mut self, rail: usize) {
        self.rails.close(rail);
        self.rails.owes_closed = (1 << self.address.rails.len()) - 1;
        self.halves.retain(|_, half| !matches!(half, Half::Bytes(by) if *by == rail));
    }

    /// Takes in what it says of this rank's writes. A number that cannot be is not believed.
    pub fn acknowledge(&mut self, seen: u32) {
        let more = seen.wrapping_sub(self.acknowledged);
        // Most messages say nothing new.
        if more != 0 && more <= self.written.wrapping_sub(self.acknowledged) {
            self.acknowledged = seen;
            for write in self.under_way.drain(..self.under_way.len().min(more as usize)) {
                if !write.is_taken {
                    self.rails.taken(write.rail, write.bytes);
                }
            }
        }
    }

    /// Takes in which of the writes from `seen` on it has, a bit for each.
    pub fn acknowledge_ahead(&mut self, seen: u32, bits: u64) {
        for ahead in (0..WRITES).filter(|ahead| bits >> ahead & 1 == 1) {
            let at = seen.wrapping_add(ahead).wrapping_sub(self.acknowledged) as usize;
            let Some(write) = self.under_way.get_mut(at).filter(|write| !write.is_taken) else { continue };
            write.is_taken = true;
            self.rails.taken(write.rail, write.bytes);
        }
    }

    /// Words for a message to it: which writes this rank has taken in that came before others, if there are any.
    pub fn ahead(&self) -> Vec<u64> {
        match self.seen_ahead {
            0 => Vec::new(),
            bits => frame(&Item::Ahead(bits), false),
        }
    }

    /// Where bytes of the segment go, which are at `at` of the peer's mirror, and the trailer of write `number`. `begin`: where the memory that others write to
    /// begins in the mirror; `trailers`: where this rank's trailers do.
    pub fn places(&self, number: u32, rail: usize, at: usize, begin: usize, trailers: usize) -> [Place; 2] {
        let memory = self.address.rails[rail].memory;
        let slot = (number % WRITES) as usize;
        [memory.place(at - begin), memory.place(trailers + slot * TRAILER * 8 - begin)]
    }

    /// Finds the write that an immediate's number means: `None` if it was taken in already, or is none that can be under way.
    pub fn find(&self, number: u32) -> Option<u32> {
        let ahead = number.wrapping_sub(self.seen) & NUMBERS;
        (ahead < WRITES && self.seen_ahead >> ahead & 1 == 0).then(|| self.seen.wrapping_add(ahead))
    }

    /// The write is taken in.
    pub fn saw(&mut self, number: u32) {
        self.seen_ahead |= 1 << number.wrapping_sub(self.seen);
        let all = self.seen_ahead.trailing_ones();
        self.seen = self.seen.wrapping_add(all);
        self.seen_ahead = self.seen_ahead.checked_shr(all).unwrap_or(0);
    }

    /// It wants to be told when all writes before `until` were taken in.
    pub fn asks(&mut self, until: u32) {
        self.asks_until = Some(until);
    }

    /// Should it be told at once how many writes were taken in? It may wait for that.
    pub fn is_owed(&mut self) -> bool {
        let has_seen = |until: &mut u32| self.seen.wrapping_sub(*until) < WRITES;
        let keeps_many = self.messages.as_ref().is_some_and(Messages::is_owed);
        self.asks_until.take_if(has_seen).is_some()
            || self.seen.wrapping_sub(self.told) >= WRITES / 2
            || keeps_many
    }

    /// The bytes of a write have come; returns its frames if these came before.
    pub fn bytes_came(&mut self, number: u32, rail: usize) -> Option<Vec<u64>> {
        match self.halves.remove(&number) {
            Some(Half::Frames(frames)) => Some(frames),
            _ => {
                self.halves.insert(number, Half::Bytes(rail));
                None
            }
        }
    }

    /// The frames of a write have come; returns them if its bytes came before.
    pub fn frames_came(&mut self, number: u32, frames: &[u64]) -> Option<Vec<u64>> {
        match self.halves.remove(&number) {
            Some(Half::Bytes(_)) => Some(frames.to_vec()),
            _ => {
                self.halves.insert(number, Half::Frames(frames.to_vec()));
                None
            }
        }
    }
}

/// The immediate data of write `number` of rank `from`.
pub fn immediate(from: Rank, number: u32) -> u32 {
    from << NUMBER_BITS | number & NUMBERS
}

/// A message of one frame.
pub fn frame(item: &Item<'_>, placed: bool) -> Vec<u64> {
    let mut words = Vec::new();
    wire::put(&mut words, item, placed);
    words
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
