//! One far peer, as this rank's link sees it: what waits to be sent to it, and what has come from it.

use super::address::RankAddress;
use super::peer_rails::PeerRails;
use super::trailer::TRAILER;
use super::wire::{self, HEADER, Item, MessageHeader};
use crate::sys::clock;
use crate::sys::ofi::{PeerId, Place};
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
    /// A range of the control segment, and the frame that it belongs to.
    Write {
        /// Where the range begins in the segment.
        at: usize,
        /// Its length.
        bytes: usize,
        /// The frame without these bytes.
        frame: Vec<u64>,
    },
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
}

/// A write that the peer has not said to have taken in, nor all before it.
struct UnderWay {
    /// Where in its mirror it goes.
    there: usize,
    bytes: usize,
    rail: usize,
    /// It was taken in, but some before it were not.
    is_taken: bool,
}

/// The half of a write that has come.
enum Half {
    Bytes,
    Frames(Vec<u64>),
}

const _: () = assert!(WRITES == u64::BITS && (NUMBERS as u64 + 1).is_multiple_of(WRITES as u64));

impl FarPeer {
    /// A peer that is reached by as many rails of this rank's as there are in its address.
    pub fn new(id: PeerId, address: RankAddress) -> FarPeer {
        FarPeer {
            id,
            rails: PeerRails::new(address.rails.len()),
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
            goodbye: None,
            is_answered: false,
            goodbye_taken: false,
            is_reached: false,
            tried_since: None,
            lost: None,
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
        MessageHeader { token: self.address.token, from, seen: self.seen }
    }

    /// Takes what is held back, behind the words of a header.
    pub fn take_held(&mut self) -> Vec<u64> {
        std::mem::replace(&mut self.held, vec![0; HEADER])
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

    /// Is a write to this place of its mirror under way? It may be, if the peer has refused the message that it was a part of. Another one must
    /// wait, for an engine may write in any order.
    pub fn is_under_way(&self, there: usize) -> bool {
        self.under_way.iter().any(|write| write.there == there)
    }

    /// The provider has taken a write.
    pub fn wrote(&mut self, there: usize, bytes: usize, rail: usize) {
        self.written = self.written.wrapping_add(1);
        self.under_way.push_back(UnderWay { there, bytes, rail, is_taken: false });
        self.rails.wrote(rail, bytes);
    }

    /// Takes in what it says of this rank's writes. A number that cannot be is not believed.
    pub fn acknowledge(&mut self, seen: u32) {
        let more = seen.wrapping_sub(self.acknowledged);
        if more <= self.written.wrapping_sub(self.acknowledged) {
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

    /// Where bytes of the segment go, which are at `at` of the peer's mirror, and the trailer of the next write. `begin`: where the memory that others write to
    /// begins in the mirror; `trailers`: where this rank's trailers do.
    pub fn places(&self, rail: usize, at: usize, begin: usize, trailers: usize) -> [Place; 2] {
        let memory = &self.address.rails[rail].memory;
        let slot = (self.written % WRITES) as usize;
        let place =
            |at: usize| Place { address: memory.address.wrapping_add((at - begin) as u64), key: memory.key };
        [place(at), place(trailers + slot * TRAILER * 8)]
    }

    /// The immediate data of the next write of rank `from`.
    pub fn immediate(&self, from: u32) -> u32 {
        from << NUMBER_BITS | self.written & NUMBERS
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

    /// Its writes that this rank has taken in.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// It wants to be told when all writes before `until` were taken in.
    pub fn asks(&mut self, until: u32) {
        self.asks_until = Some(until);
    }

    /// Should it be told at once how many writes were taken in? It may wait for that.
    pub fn is_owed(&mut self) -> bool {
        let has_seen = |until: &mut u32| self.seen.wrapping_sub(*until) < WRITES;
        self.asks_until.take_if(has_seen).is_some() || self.seen.wrapping_sub(self.told) >= WRITES / 2
    }

    /// The bytes of a write have come; returns its frames if these came before.
    pub fn bytes_came(&mut self, number: u32) -> Option<Vec<u64>> {
        match self.halves.remove(&number) {
            Some(Half::Frames(frames)) => Some(frames),
            _ => {
                self.halves.insert(number, Half::Bytes);
                None
            }
        }
    }

    /// The frames of a write have come; returns them if its bytes came before.
    pub fn frames_came(&mut self, number: u32, frames: &[u64]) -> Option<Vec<u64>> {
        match self.halves.remove(&number) {
            Some(Half::Bytes) => Some(frames.to_vec()),
            _ => {
                self.halves.insert(number, Half::Frames(frames.to_vec()));
                None
            }
        }
    }
}

/// A message of one frame.
pub fn frame(item: &Item<'_>, placed: bool) -> Vec<u64> {
    let mut words = Vec::new();
    wire::put(&mut words, item, placed);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ofi::RemoteMemory;
    use crate::transport::ofi_link::address::RailAddress;
    use std::net::{IpAddr, Ipv4Addr};

    fn peer() -> FarPeer {
        let memory = RemoteMemory { address: 0, key: 0 };
        let rail = RailAddress { at: IpAddr::V4(Ipv4Addr::LOCALHOST), endpoint: Vec::new(), memory };
        let rails = vec![rail.clone(), rail];
        let address = RankAddress { host: String::new(), rails, token: 0, with_trailers: true, total: 0 };
        FarPeer::new(PeerId::nth(0), address)
    }

    #[test]
    fn writes_are_taken_in_once_in_any_order_and_beyond_the_numbers_end() {
        let mut peer = peer();
        for start in (0..3 * NUMBERS).step_by(WRITES as usize).take(200_000) {
            assert_eq!(peer.seen(), start);
            for i in [1, 0, 63, 62, 5] {
                let number = (start + i) & NUMBERS;
                assert_eq!(peer.find(number), Some(start + i));
                peer.saw(start + i);
                assert_eq!(peer.find(number), None, "twice");
            }
            for i in 0..WRITES {
                if let Some(number) = peer.find((start + i) & NUMBERS) {
                    peer.saw(number);
                }
            }
        }
        assert_eq!(peer.find(peer.seen().wrapping_add(WRITES) & NUMBERS), None, "more than may be under way");
    }

    #[test]
    fn acknowledgements_that_cannot_be_are_not_believed() {
        let mut peer = peer();
        peer.written = 10;
        peer.acknowledge(11);
        assert_eq!(peer.acknowledged, 0);
        peer.acknowledge(7);
        peer.acknowledge(3);
        assert_eq!(peer.acknowledged, 7);
        (peer.written, peer.acknowledged) = (3, u32::MAX - 2);
        peer.acknowledge(1);
        assert_eq!((peer.acknowledged, peer.has_room()), (1, true));
        peer.written = 65;
        assert!(!peer.has_room());
    }

    #[test]
    fn a_place_is_free_again_when_the_write_to_it_was_taken_in() {
        let mut peer = peer();
        let under_way = |peer: &FarPeer| [100, 200, 300, 400].map(|there| peer.is_under_way(there));
        [100, 200, 300].into_iter().for_each(|there| peer.wrote(there, 8, 0));
        assert_eq!(under_way(&peer), [true, true, true, false]);
        peer.acknowledge(2);
        assert_eq!(under_way(&peer), [false, false, true, false]);
        peer.acknowledge(4);
        assert_eq!(under_way(&peer), [false, false, true, false], "more than were written");
    }

    #[test]
    fn a_rail_is_lighter_when_writes_by_it_were_taken_in_before_others() {
        let mut peer = peer();
        (0..4).for_each(|_| peer.wrote(0, 10, peer.rails.lightest()));
        peer.wrote(0, 10, 0);
        assert_eq!(peer.rails.lightest(), 1, "30 bytes against 20");
        peer.acknowledge_ahead(0, 0b10101);
        assert_eq!((peer.rails.lightest(), peer.acknowledged), (0, 0), "what is left went by the second");
        peer.acknowledge(3);
        peer.acknowledge_ahead(1, 0b1110);
        peer.acknowledge_ahead(900, u64::MAX);
        peer.acknowledge(5);
        assert_eq!(peer.under_way.len(), 0);
        assert!(peer.ahead().is_empty());
        peer.saw(1);
        assert_eq!(peer.ahead().len(), super::super::wire::AHEAD);
    }

    #[test]
    fn a_peer_that_asks_is_told_once_when_its_writes_were_taken_in() {
        let mut peer = peer();
        peer.asks(2);
        peer.saw(1);
        assert!(!peer.is_owed());
        peer.saw(0);
        assert!(peer.is_owed() && !peer.is_owed());
    }
}
