//! The way from a connection to a seat in a meeting: accepted, heard, checked.
//!
//! A stranger costs one file descriptor and nothing else. It needs no buffer, because a packet arrives whole or is refused.
//! The number of strangers is bounded: the eldest is turned away for a newcomer. A rank that is turned away before its hello
//! was read connects again.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::super::connection::MeetingConnection;
use super::super::frame::{Answer, HelloFrame, MAX_BYTES, Secret};
use super::super::rank_connection::{RankConnection, Stage};
use super::super::rendezvous::{Rendezvous, refused_by, same_build};
use super::super::who::Who;
use super::listener::Listener;
use super::{PAUSE, Server, State, Table};
use crate::error::{Error, Result};
use crate::sys::credentials::{descriptor_limit, uid};
use crate::sys::{background, socket};

/// The most strangers at a time; at most an eighth of the process's file descriptors, besides. A rank says hello as soon as it
/// has connected, so honest strangers are few, and each stranger makes every poll(2) of a meeting slower.
pub(super) const MOST_STRANGERS: usize = 16;
/// Most connections accepted before the guests are looked at again.
const ACCEPT_BURST: usize = 64;

impl Server {
    /// Accepts the connections that have come, and reads at once what they have sent.
    pub(super) fn accept(&mut self, buffer: &mut [u8], now: Instant) {
        for at in 0..self.listeners.len() {
            self.accept_at(at, buffer, now);
        }
    }

    fn accept_at(&mut self, listener: usize, buffer: &mut [u8], now: Instant) {
        for _ in 0..ACCEPT_BURST {
            let connection = match self.listeners[listener].accept() {
                Ok(Some(connection)) => connection,
                Ok(None) => return,
                Err(e) if socket::out_of_descriptors(&e) => {
                    if self.turn_the_eldest_stranger_away() {
                        continue;
                    }
                    let error = self.no_descriptors("accept a rank");
                    self.fail_all_open(&error, now);
                    if !self.refuse_next(&error, now) {
                        self.no_accept_before = Some(now + PAUSE);
                        return;
                    }
                    continue;
                }
                Err(_) => {
                    self.no_accept_before = Some(now + PAUSE);
                    return;
                }
            };
            let who = match &connection {
                // A process of another user gets no answer.
                MeetingConnection::Local(local) => {
                    match socket::peer(local).ok().filter(|p| p.uid == uid()) {
                        Some(peer) => Who::here(peer.pid as u32),
                        None => continue,
                    }
                }
                // Nothing is known of it before its claim is believed.
                MeetingConnection::Network(_) => Who::here(0),
            };
            self.rank_connections.push(RankConnection { connection, who, stage: Stage::Stranger });
            self.hear(self.rank_connections.len() - 1, buffer, now);
            self.rank_connections.pop_if(|g| matches!(g.stage, Stage::Gone));
            let strangers =
                self.rank_connections.iter().filter(|g| matches!(g.stage, Stage::Stranger)).count();
            if strangers > self.most_strangers {
                self.turn_the_eldest_stranger_away();
            }
        }
    }

    /// Accepts the next rank in a table of descriptors of its own, where there is room, only to tell it that its meeting has failed.
    /// Otherwise the ranks of a process without descriptors would wait for each other: none comes in, and none leaves. Returns `false`
    /// if there is none.
    fn refuse_next(&mut self, error: &Error, now: Instant) -> bool {
        let Some(Listener::Local(listener)) = self.listeners.first() else { return false };
        let verdict = Answer::Verdict(error.clone()).encode();
        let hear = move |listener: &OwnedFd| {
            let Some(connection) = socket::accept(listener)? else { return Ok(None) };
            if socket::peer(&connection)?.uid != uid() {
                return Ok(Some(Vec::new()));
            }
            // An honest rank has said hello by now, or does so at once.
            socket::wait(&mut [socket::PollEntry::readable(&connection)], Some(PAUSE))?;
            let mut buffer = vec![0; MAX_BYTES];
            let heard = socket::receive(&connection, &mut buffer).map_or(0, |packet| packet.len);
            if heard > 0 {
                socket::send(&connection, &verdict, &[])?;
            }
            buffer.truncate(heard);
            Ok(Some(buffer))
        };
        let Ok(Some(packet)) = background::with_only(listener, hear) else { return false };
        if let Some((serial, secret)) = HelloFrame::ticket(&packet)
            && let Some(table) = self.table(serial, &secret)
        {
            let by = HelloFrame::decode(&packet).map(|hello| (hello.rank, hello.nranks));
            if let (State::Failed(verdict), Some((rank, _))) = (&mut table.state, by) {
                verdict.tell(rank);
            }
            self.fail(serial, error.clone(), by, now);
            self.tell_ours(serial);
        }
        true
    }

    /// Closes the connection of the eldest stranger. Returns `false` if there is none.
    fn turn_the_eldest_stranger_away(&mut self) -> bool {
        let Some(at) = self.rank_connections.iter().position(|g| matches!(g.stage, Stage::Stranger)) else {
            return false;
        };
        self.rank_connections.remove(at);
        true
    }

    /// Checks a stranger's hello, and gives the rank its seat or the verdict.
    pub(super) fn welcome(
        &mut self,
        at: usize,
        packet: &[u8],
        fds: Vec<OwnedFd>,
        fds_lost: bool,
        now: Instant,
    ) {
        let Some((serial, mut secret)) = HelloFrame::ticket(packet) else { return };
        if let MeetingConnection::Network(session) = &self.rank_connections[at].connection {
            // The secret does not go over a network: the rank has proved that it knows it.
            match self.secret_of(serial).filter(|_| session.serial() == Some(serial)) {
                Some(proved) => secret = proved,
                None => return,
            }
        }
        let Some(table) = self.table(serial, &secret) else {
            return self.rank_connections[at].tell(&unknown_ticket());
        };
        let by = HelloFrame::decode(packet).map(|hello| (hello.rank, hello.nranks));
        if let State::Failed(verdict) = &mut table.state {
            by.inspect(|(rank, _)| verdict.tell(*rank));
            let (error, holds) = (verdict.error.clone(), verdict.holds());
            let is_ours = self.is_ours(&self.rank_connections[at]);
            let connection = &mut self.rank_connections[at];
            match by {
                Some((rank, _)) if holds && is_ours => {
                    connection.stage = Stage::Waiting { serial, rank };
                }
                _ => connection.tell(&error),
            }
            return self.tell_ours(serial);
        }
        if HelloFrame::refuses(packet) {
            let who = self.rank_connections[at].who;
            let refusal = same_build(packet, who, self.me).and_then(|()| {
                let hello = HelloFrame::decode(packet);
                hello.map(|hello| refused_by(&hello, who)).ok_or_else(|| senseless(who))
            });
            return self.fail(serial, refusal.unwrap_or_else(|e| e), by, now);
        }
        match self.seat(serial, packet, self.rank_connections[at].who, fds, fds_lost, now) {
            Ok(rank) => {
                self.rank_connections[at].stage = Stage::Waiting { serial, rank };
                self.begin_if_complete(serial);
            }
            Err(error) => {
                self.fail(serial, error.clone(), by, now);
                self.rank_connections[at].tell(&error);
            }
        }
    }

    /// Returns the table with this serial, laid now if it was only expected; `None` if there is none or the secret is wrong.
    fn table(&mut self, serial: u64, secret: &Secret) -> Option<&mut Table> {
        if let Some(secret) = self.expected_meetings.lock().take(serial, secret) {
            self.tables.insert(serial, Table { secret, state: State::Open(Rendezvous::default()) });
        }
        self.tables.get_mut(&serial).filter(|t| t.secret.admits(secret))
    }

    /// Adds the rank to the meeting and returns its number. An error is the verdict for all ranks.
    fn seat(
        &mut self,
        serial: u64,
        packet: &[u8],
        who: Who,
        fds: Vec<OwnedFd>,
        fds_lost: bool,
        now: Instant,
    ) -> Result<u32> {
        same_build(packet, who, self.me)?;
        let Some(hello) = HelloFrame::decode(packet) else {
            return Err(senseless(who));
        };
        // Descriptors do not pass between hosts.
        if fds_lost || who.host.is_none() && fds.len() != hello.nfds as usize {
            return Err(self.no_descriptors(&format!("receive those of rank {} ({who})", hello.rank)));
        }
        let Some(Table { state: State::Open(rendezvous), .. }) = self.tables.get_mut(&serial) else {
            return Err(unknown_ticket());
        };
        rendezvous.join(&hello, who, fds, now)?;
        Ok(hello.rank)
    }

    fn no_descriptors(&self, what: &str) -> Error {
        Error::system(format!(
            "{}, where the ranks meet, has no file descriptor left to {what}: its limit is {}; raise it with `ulimit -n` (the \
             meeting takes 3 for each rank)",
            self.me,
            descriptor_limit()
        ))
    }
}

fn senseless(who: Who) -> Error {
    Error::internal(format!("{who} sent a hello that makes no sense"))
}

fn unknown_ticket() -> Error {
    Error::usage(
        "this id is not open: it has made its communicator already, or its process has made thousands of younger \
         ones; make a new id for every communicator",
    )
}
