//! One peer of an endpoint: the connection to it, and what waits to be sent.

use super::intake::ItemIntake;
use super::socket::TcpSocket;
use super::unsent::UnsentItem;
use super::wire::{Name, Standing, WELCOME_WORDS};
use crate::sys::endpoint::PeerId;
use std::collections::VecDeque;
use std::io;

/// Messages and writes that may wait for one peer.
const LONGEST_QUEUE: usize = 64;
/// How long nothing is tried after a connection has failed.
const PAUSE_NS: u64 = 20_000_000;
/// How often a connection is tried to be made anew that was lost.
const TRIES: u32 = 3;
/// How long a connection may take to be made, and its peer to answer, before another is tried.
const LONGEST_NS: u64 = 5_000_000_000;

/// How a peer is reached.
pub enum PeerState {
    /// There is no connection.
    None,
    /// One was begun at this time.
    Connecting(TcpSocket, u64),
    /// It is made; the answer to the greeting has not come as a whole.
    Greeting { stream: TcpSocket, answer: Box<[u64; WELCOME_WORDS]>, filled: usize, since: u64 },
    /// It is open.
    Open(TcpSocket, ItemIntake),
    /// Something was lost with one.
    Lost,
}

/// A peer.
pub struct TcpPeer {
    /// What the caller knows it by. `None`: it has only been heard yet.
    pub id: Option<PeerId>,
    pub name: Name,
    /// It is one of the second endpoint.
    pub is_second: bool,
    pub state: PeerState,
    pub queue: VecDeque<UnsentItem>,
    /// Items that the kernel has taken, and that have come, by all connections.
    pub sent: u64,
    pub taken: u64,
    /// How often this side has begun or accepted a connection, and the other, as it has told last.
    pub number: u64,
    pub its_number: u64,
    /// A connection is wanted.
    pub is_wanted: bool,
    /// There was a connection.
    pub was_open: bool,
    /// Connections that were tried in vain since there was one.
    tries: u32,
    /// When the next is tried.
    not_before: u64,
    /// Why there is none.
    pub failure: Option<String>,
}

impl TcpPeer {
    pub fn new(name: Name, is_second: bool, id: Option<PeerId>) -> TcpPeer {
        TcpPeer {
            id,
            name,
            is_second,
            state: PeerState::None,
            queue: VecDeque::new(),
            sent: 0,
            taken: 0,
            number: 0,
            its_number: 0,
            is_wanted: false,
            was_open: false,
            tries: 0,
            not_before: 0,
            failure: None,
        }
    }

    /// Tells whether something more may be put into the queue.
    pub fn has_room(&self) -> bool {
        matches!(self.state, PeerState::Open(..)) && self.queue.len() < LONGEST_QUEUE
    }

    /// Is a connection being made, or to be made?
    pub fn is_opening(&self) -> bool {
        match self.state {
            PeerState::Connecting(..) | PeerState::Greeting { .. } => true,
            PeerState::None => self.is_wanted,
            PeerState::Open(..) | PeerState::Lost => false,
        }
    }

    /// Is a connection to be begun now?
    pub fn is_due(&self, now: u64) -> bool {
        self.is_wanted && matches!(self.state, PeerState::None) && now >= self.not_before
    }

    /// Is the time over in which a connection is made?
    pub fn is_late(&self, now: u64) -> bool {
        let since = match self.state {
            PeerState::Connecting(_, since) | PeerState::Greeting { since, .. } => since,
            _ => return false,
        };
        now.saturating_sub(since) > LONGEST_NS
    }

    /// Where this side stands.
    pub fn standing(&self) -> Standing {
        Standing { taken: self.taken, number: self.number }
    }

    /// There is a connection by which all has come that was sent by earlier ones.
    pub fn open(&mut self, stream: TcpSocket, most_words: usize) {
        // What had gone in part goes again.
        self.queue.iter_mut().take(1).for_each(UnsentItem::begin_again);
        self.state = PeerState::Open(stream, ItemIntake::new(most_words, self.is_second, self.taken));
        (self.was_open, self.tries, self.is_wanted, self.failure) = (true, 0, false, None);
    }

    /// A connection could not be made. True: it is given up.
    pub fn failed(&mut self, why: &io::Error, now: u64) -> bool {
        self.failure = Some(why.to_string());
        self.state = PeerState::None;
        self.not_before = now + PAUSE_NS;
        self.tries += 1;
        self.was_open && self.tries >= TRIES
    }

    /// Sends what waits. `Ok(true)`: nothing waits any more. The number of items that have gone is added to `gone`.
    pub fn send_on(&mut self, gone: &mut usize) -> io::Result<bool> {
        let PeerState::Open(stream, _) = &self.state else { return Ok(self.queue.is_empty()) };
        // BOUND: the queue.
        while let Some(first) = self.queue.front_mut() {
            if !first.send_on(stream)? {
                return Ok(false);
            }
            self.queue.pop_front();
            self.sent += 1;
            *gone += 1;
        }
        Ok(true)
    }
}
