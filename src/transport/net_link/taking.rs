//! What comes from far peers: messages, writes, and the failures of one's own. Nothing of it is trusted.

use super::peer::{NUMBER_BITS, Outgoing, frame};
use super::trailer::{TRAILER, TRAILERS, message_in};
use super::wire::{self, HEADER, Item, MessageHeader};
use super::{Incoming, Others};
use crate::kernels;
use crate::memory::view::Payload;
use crate::sys::clock;
use crate::sys::endpoint::PeerId;
use crate::transport::link::Frame;
use crate::types::Rank;

impl Others {
    /// Reads a message's header. `None`: the message is not from a far peer of this communicator.
    fn header_of(&mut self, message: &[u64]) -> Option<MessageHeader> {
        let header = MessageHeader::of(message).filter(|header| header.token == self.token)?;
        self.peer(header.from).map(|_| header)
    }

    /// Takes in a message.
    pub(super) fn message(&mut self, rail: usize, message: &mut [u64], sink: &mut dyn FnMut(Incoming<'_>)) {
        let Some(header) = self.header_of(message) else {
            self.refused += 1;
            return;
        };
        self.frames(rail, header, &mut message[HEADER..], sink);
    }

    /// Takes in frames that have come by a rail.
    fn frames(
        &mut self,
        rail: usize,
        header: MessageHeader,
        mut rest: &mut [u64],
        sink: &mut dyn FnMut(Incoming<'_>),
    ) {
        let from = header.from;
        let Some(peer) = self.peer(from) else { return };
        peer.rails.heard(rail);
        peer.acknowledge(header.seen);
        if let Some(messages) = &mut peer.messages {
            messages.acknowledge(header.messages);
            if header.number.is_some_and(|number| !messages.is_new(number)) {
                return;
            }
        }
        let mut closed = 0;
        // BOUND: the message's words.
        while !rest.is_empty() {
            let (Some(item), Some(peer)) = (wire::take(&mut rest), self.peer(from)) else {
                self.refused += 1;
                return;
            };
            match item {
                Item::Line(number, body) => {
                    peer.come += 1;
                    sink(Incoming::Frame(Frame { from, number, body }));
                }
                Item::Bye(frames) => {
                    peer.goodbye = Some(frames);
                    peer.queue.clear();
                }
                Item::ByeTaken => peer.goodbye_taken = true,
                Item::Posted(frames) => peer.tally.hears(frames),
                Item::Credit => {}
                Item::Ask(until) => peer.asks(until),
                Item::Ahead(bits) => peer.acknowledge_ahead(header.seen, bits),
                Item::Hello => peer.rails.greets(rail),
                Item::Question(round) => {
                    peer.rails.asks(rail, round);
                    self.owes_answers = true;
                }
                Item::Answer(round) => peer.rails.answered(rail, round, clock::now_ns()),
                Item::Closed(rails) => closed = rails,
                Item::Rest(slot) => {
                    peer.come += 1;
                    sink(Incoming::Rest(from, slot));
                }
                Item::Opened(message, memory, name) => peer.straight.opens(message, memory, name),
                Item::OfWrite(number) => {
                    let Some(number) = peer.find(number) else {
                        self.refused += 1;
                        return;
                    };
                    if let Some(mut frames) = peer.frames_came(number, rest) {
                        peer.saw(number);
                        self.frames(rail, MessageHeader { number: None, ..header }, &mut frames, sink);
                    }
                    break;
                }
            }
        }
        // What it has taken in is told by the whole message.
        if closed != 0 {
            self.closed_there(from, closed);
        }
        self.answer(from);
    }

    /// Has a peer be told what it may wait for.
    fn answer(&mut self, from: Rank) {
        let said_goodbye = self.said_goodbye;
        let Some(peer) = self.peer(from) else { return };
        let mut words = Vec::new();
        if peer.is_owed() {
            peer.tell(peer.header(from));
            words = frame(&Item::Credit, false);
        }
        // A peer that waits itself takes this rank's own goodbye for the answer.
        if peer.goodbye.is_some_and(|frames| peer.come >= frames) && !peer.is_answered && !said_goodbye {
            peer.is_answered = true;
            wire::put(&mut words, &Item::ByeTaken, false);
        }
        if !words.is_empty() {
            peer.queue.push_back(Outgoing::Message(words));
            self.is_waiting = true;
        }
    }

    /// Takes in a write.
    pub(super) fn written(&mut self, rail: usize, data: u32, sink: &mut dyn FnMut(Incoming<'_>)) {
        let (from, number) = (data >> NUMBER_BITS, data & ((1 << NUMBER_BITS) - 1));
        let found = self.peer(from).and_then(|peer| Some((peer.find(number)?, peer.address.with_trailers)));
        let Some((number, with_trailer)) = found else {
            self.refused += 1;
            return;
        };
        if !with_trailer {
            let frames = self.peer(from).and_then(|peer| peer.bytes_came(number, rail));
            if let Some(mut frames) = frames {
                self.peer(from).into_iter().for_each(|peer| peer.saw(number));
                let acknowledged = self.peer(from).map(|peer| peer.as_acknowledged(from));
                acknowledged.into_iter().for_each(|header| self.frames(rail, header, &mut frames, sink));
            }
            return;
        }
        let mut words = [0u64; TRAILER];
        let slot = number as usize % super::peer::WRITES as usize;
        let at = (from as usize * TRAILERS + slot * TRAILER) * 8;
        kernels::copy(Payload::from(&mut words[..]), self.mirror.behind(at, TRAILER * 8), false);
        let message = message_in(&mut words, number);
        let header = message.as_deref().and_then(|message| self.header_of(message));
        let (Some(header), Some(message)) = (header.filter(|header| header.from == from), message) else {
            self.refused += 1;
            return;
        };
        self.peer(from).into_iter().for_each(|peer| peer.saw(number));
        self.frames(rail, header, &mut message[HEADER..], sink);
    }

    /// Sending to a peer has failed.
    #[cold]
    pub(super) fn lost(&mut self, rail: usize, id: Option<PeerId>, why: String) {
        let rank = id.and_then(|id| self.ranks.get(id.index()).copied());
        let Some(rank) = rank else {
            self.refused += 1;
            return;
        };
        let by = self.by_rail(rank, rail);
        let has_several = self.interfaces.len() > 1;
        let Some(peer) = self.peer(rank) else { return };
        // It has taken in all that it will, and has closed its endpoint.
        if peer.goodbye.is_some() {
            return;
        }
        if id.is_some_and(|id| peer.straight.is_reached_at(id)) {
            peer.posted -= 1;
            let why = format!("the connection{by} was lost ({why})");
            peer.straight.cut.get_or_insert((clock::now_ns(), why));
            self.is_lost = true;
            return;
        }
        if !peer.rails.are_open() {
            peer.rails.failed(rail, why);
            return;
        }
        // A peer that answers by another rail is still there, and what both have closed is told when they have not agreed on it in time.
        if has_several && (!peer.rails.lost(rail) || peer.rails.is_unsettled()) {
            return;
        }
        peer.lost.get_or_insert((clock::now_ns(), format!("the connection{by} was lost ({why})")));
        self.is_lost = true;
    }
}
