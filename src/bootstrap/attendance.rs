//! A rank's connection to the meeting, which it keeps until it has joined; between hosts, until it leaves the communicator.
//!
//! A meeting that all ranks have come to is not over: a rank may still die, or fail to attach to the others' memory. The
//! server sees its connection end, whatever PID namespace it is in, and tells all that have not joined themselves.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::connection::MeetingConnection;
use super::frame::{self, Answer, MAX_BYTES};
use super::network::packets::{FromRank, ToRank};
use super::network::place::this_host;
use super::who::Who;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;

/// The time for which a rank that leaves waits until the server has taken its last words.
const FAREWELL: Duration = Duration::from_secs(1);

/// The connection of a rank that has met the others and attaches to their memory. Dropped without [`joined`](Self::joined),
/// it tells them that the rank gave up.
pub struct Attendance {
    connection: MeetingConnection,
    /// What ranks of other hosts have told.
    heard: Mutex<VecDeque<Heard>>,
}

/// What a rank hears from other hosts by way of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What a rank has told all others.
    Told {
        /// The rank.
        from: u32,
        /// Its message.
        bytes: Vec<u8>,
    },
    /// A rank's process or host has died, or left without a word.
    Death(u32),
    /// A rank has left the communicator.
    Left(u32),
    /// The communicator failed while its ranks joined.
    Failed(Error),
    /// The server is no more.
    Silence,
    /// The server's host is silent, or the network does not lead there any more.
    Cut,
}

impl Attendance {
    pub(super) fn new(connection: MeetingConnection) -> Attendance {
        Attendance { connection, heard: Mutex::default() }
    }

    pub(super) fn connection(&self) -> &MeetingConnection {
        &self.connection
    }

    /// Keeps what has come before the rank listens for it.
    pub(super) fn keep(&self, packet: &ToRank<'_>) {
        self.heard.lock().push_back(match packet {
            ToRank::Told { from, bytes } => Heard::Told { from: *from, bytes: bytes.to_vec() },
            ToRank::Death { rank } => Heard::Death(*rank),
            ToRank::Left { rank } => Heard::Left(*rank),
            ToRank::Ping => return,
        });
    }

    /// Reads the verdict, if there is one: another rank has died or given up. Silent, too, where the server has ended.
    pub fn check(&self) -> Result<()> {
        // BOUND: what has come.
        loop {
            match self.read() {
                Some(Heard::Failed(error)) => return Err(error),
                Some(Heard::Silence | Heard::Cut) | None => return Ok(()),
                Some(heard) => self.heard.lock().push_back(heard),
            }
        }
    }

    /// Reads the next packet that means something, if one has come.
    fn read(&self) -> Option<Heard> {
        let mut buffer = [0; MAX_BYTES];
        // BOUND: the packets that have come.
        loop {
            let len = match self.connection.receive(&mut buffer) {
                Ok(packet) => packet.len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if is_cut(&e) => return Some(Heard::Cut),
                Err(_) => 0,
            };
            let packet = &buffer[..len];
            return Some(match (ToRank::decode(packet), Answer::decode(packet)) {
                (Some(ToRank::Told { from, bytes }), _) => Heard::Told { from, bytes: bytes.to_vec() },
                (Some(ToRank::Death { rank }), _) => Heard::Death(rank),
                (Some(ToRank::Left { rank }), _) => Heard::Left(rank),
                (Some(ToRank::Ping), _) => continue,
                (_, Some(Answer::Verdict(error))) => Heard::Failed(error),
                _ => Heard::Silence,
            });
        }
    }

    /// Tells the server nothing, so that it is missed if its host is gone.
    pub fn ping(&self) {
        let _ = self.cut_is_heard(self.connection.ping(&FromRank::Ping.encode()));
    }

    /// The kernel tells once why a connection has ended: who sends may be told what who listens has to know.
    fn cut_is_heard<T>(&self, sent: io::Result<T>) -> io::Result<T> {
        sent.inspect_err(|e| {
            if is_cut(e) {
                self.heard.lock().push_back(Heard::Cut);
            }
        })
    }

    /// Waits a moment for the verdict: where this rank has seen that another gave up, and the server is about to tell why.
    pub fn last_check(&self) -> Result<()> {
        let _ = self.connection.wait(Some(Duration::from_millis(100)));
        self.check()
    }

    /// Tells all ranks of other hosts something, by way of the server.
    pub fn tell(&self, message: &[u8]) -> io::Result<()> {
        self.cut_is_heard(self.connection.send(&FromRank::Tell(message).encode(), &[]))
    }

    /// Tells the server that the process of another rank of this host has ended.
    pub fn tell_death(&self, rank: u32) -> io::Result<()> {
        self.cut_is_heard(self.connection.send(&FromRank::Ended(rank).encode(), &[]))
    }

    /// Returns the next thing that was heard, after at most `patience`.
    pub fn hear(&self, patience: Duration) -> Option<Heard> {
        let until = Instant::now() + patience;
        // BOUND: the patience.
        loop {
            let _ = self.cut_is_heard(self.connection.flush());
            if let Some(heard) = self.heard.lock().pop_front() {
                return Some(heard);
            }
            if let Some(heard) = self.read() {
                return Some(heard);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let _ = self.connection.wait(Some(left));
        }
    }

    /// Returns the address of this host by which it reached the server; `None`: they met over a local socket.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.addresses().map(|[own, _]| own)
    }

    /// Returns the address of the server's host by which this one reached it.
    pub fn server_address(&self) -> Option<IpAddr> {
        self.addresses().map(|[_, servers]| servers)
    }

    fn addresses(&self) -> Option<[IpAddr; 2]> {
        match &self.connection {
            MeetingConnection::Local(_) => None,
            MeetingConnection::Network(session) => {
                session.addresses().ok().map(|ends| ends.map(|end| end.ip().to_canonical()))
            }
        }
    }

    /// Tells the server that this rank has joined.
    pub fn joined(self) {
        self.tell_joined();
    }

    /// Tells the server that this rank has joined, and keeps the connection.
    pub fn tell_joined(&self) {
        let _ = self.connection.send(&frame::encode_farewell(None), &[]);
    }

    /// Tells the server that this rank leaves, waits until it has told the others, and ends the connection.
    pub fn leave(&self) {
        let told = self.connection.send(&FromRank::Leave.encode(), &[]);
        self.end(told.is_ok());
    }

    /// Waits, where the server was told something, until it has told the others, and ends the connection.
    fn end(&self, was_told: bool) {
        let until = Instant::now() + FAREWELL;
        // BOUND: the server closes the connection, or the farewell.
        while was_told && !matches!(self.read(), Some(Heard::Silence | Heard::Cut)) && Instant::now() < until
        {
            let _ = self.connection.flush();
            let _ = self.connection.wait(Some(Duration::from_millis(10)));
        }
        if let MeetingConnection::Network(session) = &self.connection {
            session.close(FAREWELL);
        }
    }

    /// Tells all others that this rank gives up, and why.
    pub fn give_up(self, why: &Error) {
        self.tell_why(why);
    }

    /// The same where the connection is shared.
    pub fn tell_why(&self, why: &Error) {
        let told = self.connection.send(&frame::encode_farewell(Some(why)), &[]);
        // The server may be a thread of this process, which may end next.
        let is_ours = self.connection.peer() == Some(Who::this(this_host()));
        self.end(told.is_ok() && is_ours);
    }

    /// Returns the process where the ranks met.
    pub fn host(&self) -> Who {
        self.connection.peer().unwrap_or(Who::here(0))
    }
}

/// Has the kernel given up the other host?
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}
