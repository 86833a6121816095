//! What goes, and what comes.

use super::intake::Over;
use super::peer::PeerState;
use super::socket::range;
use super::unsent::UnsentItem;
use super::wire::{self, WriteHead};
use super::{FEW, TcpEndpoint};
use crate::sys::clock;
use crate::sys::endpoint::{Place, Report};
use std::io;

/// Polls between two looks at the connections that are not open.
const OFTEN: u32 = 1 << 4;
/// Words up to which a message is sent from a copy behind its head. Longer ones are sent from where they lie.
const COPIED: usize = 256;

impl TcpEndpoint {
    /// Sends a message. False: not now.
    pub(super) fn send_message(&mut self, to: usize, message: &[u64]) -> bool {
        let peer = &mut self.peers[to];
        if !peer.has_room() {
            self.want(to);
            return false;
        }
        let PeerState::Open(stream, _) = &peer.state else { return false };
        if !peer.queue.is_empty() {
            self.enqueue(to, UnsentItem::message(message, 0));
            return true;
        }
        let head = [wire::message(message.len())];
        let all = (head.len() + message.len()) * 8;
        let taken = if message.len() <= COPIED {
            self.words.clear();
            self.words.extend_from_slice(&head);
            self.words.extend_from_slice(message);
            stream.send(&self.words)
        } else {
            stream.send_ranges(
                &[head.as_slice(), message].map(|words| range(words.as_ptr() as usize, size_of_val(words))),
            )
        };
        // If the connection is over, the next poll finds it, and what is queued goes by another.
        match taken.unwrap_or(None).unwrap_or(0) {
            taken if taken == all => peer.sent += 1,
            taken => self.enqueue(to, UnsentItem::message(message, taken)),
        }
        true
    }

    /// Sends a write. False: not now.
    pub(super) fn send_write(
        &mut self,
        to: usize,
        (base, bytes): (usize, usize),
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
        is_lent: bool,
    ) -> bool {
        assert!(trailer.len() <= self.most, "a trailer larger than its buffer");
        if !self.peers[to].has_room() {
            self.want(to);
            return false;
        }
        let head = WriteHead { trailer_words: trailer.len(), data, bytes, places };
        self.send_or_wait(to, UnsentItem::write(head, base, trailer, is_lent));
        true
    }

    /// Sends an item, or what the kernel takes of it; the others wait.
    fn send_or_wait(&mut self, to: usize, mut item: UnsentItem) {
        let peer = &mut self.peers[to];
        if let PeerState::Open(stream, _) = &peer.state
            && peer.queue.is_empty()
            && matches!(item.send_on(stream), Ok(true))
        {
            peer.sent += 1;
            return;
        }
        self.enqueue(to, item);
    }

    fn enqueue(&mut self, to: usize, item: UnsentItem) {
        self.queued += 1;
        let peer = &mut self.peers[to];
        peer.queue.push_back(item);
        if peer.queue.len() == 1 {
            self.watch_for_room(to, true);
        }
    }

    /// Has the descriptor become readable when there is room for what waits.
    fn watch_for_room(&mut self, to: usize, waits: bool) {
        if let PeerState::Open(stream, _) = &self.peers[to].state {
            self.watch(stream.descriptor(), Some(to as u32), waits);
        }
    }

    /// Sends and takes in what can be.
    pub(super) fn move_on(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        self.polls = self.polls.wrapping_add(1);
        let is_due = || self.is_restless || clock::coarse_ns() >= self.next_look_ns;
        if self.is_slept_on || self.polls.is_multiple_of(OFTEN) && is_due() {
            self.look_after_connections(sink);
        }
        if self.open.len() <= FEW || self.is_blind {
            self.move_few(sink);
        } else {
            self.move_ready(sink);
        }
    }

    /// Looks at each connection.
    fn move_few(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        let mut at = 0;
        // BOUND: the connections: one that ends is not in the list any more.
        while let Some(&peer) = self.open.get(at) {
            if self.move_one(peer as usize, sink) {
                at += 1;
            }
        }
    }

    /// Looks at the connections that have something.
    fn move_ready(&mut self, sink: &mut dyn FnMut(Report<'_>)) {
        self.begin_to_watch();
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let found = self.watched.as_ref().map(|watched| watched.ready(&mut ready));
        match found {
            Some(Ok(others)) => {
                if others {
                    self.look_after_connections(sink);
                }
                for &peer in &ready {
                    self.move_one(peer as usize, sink);
                }
            }
            // The process cannot open more files, or something is wrong with this one.
            Some(Err(_)) | None => {
                self.watched = None;
                self.move_few(sink);
            }
        }
        self.ready = ready;
    }

    /// Sends and takes in what can be by one connection. False: it is over.
    fn move_one(&mut self, at: usize, sink: &mut dyn FnMut(Report<'_>)) -> bool {
        let peer = &mut self.peers[at];
        if !peer.queue.is_empty() {
            let mut gone = 0;
            let sent = peer.send_on(&mut gone);
            self.queued -= gone;
            match sent {
                Ok(true) => self.watch_for_room(at, false),
                Ok(false) => {}
                Err(error) => {
                    // What has come before is taken in first.
                    let over = self.take_all(at, sink).err().unwrap_or(Over::from(error));
                    self.over(at, over, sink);
                    return false;
                }
            }
        }
        self.receive(at, sink)
    }

    #[inline]
    fn receive(&mut self, at: usize, sink: &mut dyn FnMut(Report<'_>)) -> bool {
        let PeerState::Open(stream, intake) = &mut self.peers[at].state else { return false };
        match intake.look(stream, &self.memories, sink) {
            Ok(_) => true,
            Err(over) => {
                self.over(at, over, sink);
                false
            }
        }
    }

    /// Takes in all that has come by a connection.
    pub(super) fn take_all(&mut self, at: usize, sink: &mut dyn FnMut(Report<'_>)) -> Result<(), Over> {
        let peer = &mut self.peers[at];
        let PeerState::Open(stream, intake) = &mut peer.state else { return Ok(()) };
        let taken = intake.take_all(stream, &self.memories, sink);
        peer.taken = intake.taken;
        taken
    }

    /// A connection is over. If one is made anew, it shows what was lost with it.
    #[cold]
    pub(super) fn over(&mut self, at: usize, over: Over, sink: &mut dyn FnMut(Report<'_>)) {
        let peer = &mut self.peers[at];
        let PeerState::Open(_, intake) = &peer.state else { return };
        peer.taken = intake.taken;
        match over {
            Over::Nonsense => {
                let why = "what comes by it makes no sense, as from another version of Penny".into();
                self.lose(at, why, sink);
            }
            // Another connection would not help.
            Over::Ended(Some(error)) if error.raw_os_error() == Some(libc::EFAULT) => {
                let why = "a buffer of a call or message that was under way was freed or unmapped";
                self.lose(at, format!("{why}: {error}"), sink);
            }
            // The second endpoint of a rank ends where its messages fail: what was under way to it is lost.
            Over::Ended(why) if peer.is_second => {
                let why = ended(why.as_ref());
                let lost = peer.queue.len();
                self.leave(at, PeerState::None);
                let peer = &mut self.peers[at];
                peer.was_open = false;
                (0..lost).for_each(|_| sink(Report::Lost(peer.id, why.clone())));
            }
            Over::Ended(why) => {
                peer.failure = Some(ended(why.as_ref()));
                peer.is_wanted = true;
                let state = std::mem::replace(&mut peer.state, PeerState::None);
                self.close(at, state);
                self.look_after_connections(sink);
            }
        }
    }

    /// A peer cannot be reached any more, or something was lost on the way to it or from it.
    pub(super) fn lose(&mut self, at: usize, why: String, sink: &mut dyn FnMut(Report<'_>)) {
        let peer = &self.peers[at];
        // Of the second endpoint each report stands for a write.
        let lost = peer.queue.len().max(usize::from(!peer.is_second));
        self.leave(at, PeerState::Lost);
        let peer = &mut self.peers[at];
        peer.is_wanted = false;
        (0..lost).for_each(|_| sink(Report::Lost(peer.id, why.clone())));
    }
}

/// Why a connection is over.
fn ended(why: Option<&io::Error>) -> String {
    why.map_or("its other end was closed".into(), |why| why.to_string())
}
