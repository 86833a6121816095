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
/// How long nothing is tried after a connection has failed; twice as long after each further one, up to [`DOUBLED`] times.
const PAUSE_NS: u64 = 20_000_000;
const DOUBLED: u32 = 6;
/// How often a connection that was lost may be refused, and how long it may fail otherwise, until the peer is given up.
const REFUSALS: u32 = 3;
const FAILING_NS: u64 = 3_000_000_000;
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
    /// Connections that were tried in vain since there was one, those of them that were refused, and when the first was.
    tries: u32,
    refusals: u32,
    failing_since: u64,
    /// When the next is tried.
    not_before: u64,
    /// Why there is none.
    pub failure: Option<String>,
}

impl TcpPeer {
    pub fn new(name: Name, is_second: bool) -> TcpPeer {
        TcpPeer {
            id: None,
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
            refusals: 0,
            failing_since: 0,
            not_before: 0,
            failure: None,
        }
    }

    /// Tells whether something more may be put into the queue.
    pub fn has_room(&self) -> bool {
        matches!(self.state, PeerState::Open(..)) && self.queue.len() < LONGEST_QUEUE
    }

    /// Is a connection being made?
    pub fn is_opening(&self) -> bool {
        matches!(self.state, PeerState::Connecting(..) | PeerState::Greeting { .. })
    }

    /// When something is to be done about it if nothing comes.
    pub fn is_due_at(&self) -> Option<u64> {
        match self.state {
            PeerState::None => self.can_be_reached().then_some(self.not_before),
            PeerState::Connecting(_, since) | PeerState::Greeting { since, .. } => Some(since + LONGEST_NS),
            PeerState::Open(..) | PeerState::Lost => None,
        }
    }

    /// It is wanted, and its token is known.
    fn can_be_reached(&self) -> bool {
        self.is_wanted && self.id.is_some()
    }

    /// Is a connection to be begun now?
    pub fn is_due(&self, now: u64) -> bool {
        self.can_be_reached() && matches!(self.state, PeerState::None) && now >= self.not_before
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

    /// What had gone in part goes again. False: it cannot.
    pub fn begin_again(&mut self) -> bool {
        self.queue.front_mut().is_none_or(UnsentItem::begin_again)
    }

    /// There is a connection by which all has come that was sent by earlier ones.
    pub fn open(&mut self, stream: TcpSocket, most_words: usize) {
        self.state = PeerState::Open(stream, ItemIntake::new(most_words, self.is_second, self.taken));
        (self.tries, self.refusals) = (0, 0);
        (self.was_open, self.is_wanted, self.failure) = (true, false, None);
    }

    /// A connection could not be made. True: it is given up.
    pub fn failed(&mut self, why: &io::Error, now: u64) -> bool {
        self.failure = Some(why.to_string());
        self.state = PeerState::None;
        self.not_before = now + (PAUSE_NS << self.tries.min(DOUBLED));
        if self.tries == 0 {
            self.failing_since = now;
        }
        self.tries += 1;
        self.refusals += u32::from(why.kind() == io::ErrorKind::ConnectionRefused);
        let is_over = self.refusals >= REFUSALS || now.saturating_sub(self.failing_since) > FAILING_NS;
        self.was_open && is_over
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
