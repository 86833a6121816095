//! What a server does for the ranks of several hosts after they have met: it passes on what each tells the others, and tells all
//! of each death, until the last rank has left.

use std::io;
use std::time::{Duration, Instant};

use super::super::connection::MeetingConnection;
use super::super::frame::Secret;
use super::super::network::packets::{FromRank, ToRank};
use super::super::rank_connection::{RankConnection, Stage};
use super::{Server, State, is_of};

/// The time between two pings to a rank.
const PING: Duration = Duration::from_millis(500);

impl Server {
    /// Returns the secret of a meeting that is expected or in progress.
    pub(super) fn secret_of(&self, serial: u64) -> Option<Secret> {
        let of_table = self.tables.get(&serial).map(|table| table.secret);
        of_table.or_else(|| self.expected_meetings.lock().secret(serial))
    }

    /// Hears the proof of a connection between hosts. Returns whether the rank may speak.
    pub(super) fn hear_claim(&mut self, at: usize) -> bool {
        let MeetingConnection::Network(session) = &self.rank_connections[at].connection else { return true };
        if session.flush().is_err() {
            // What it has sent before its end is still read.
            return true;
        }
        if session.peer().is_some() {
            return true;
        }
        let heard = session.hear_claim(&|serial| self.secret_of(serial), &self.me);
        let (peer, waits) =
            (session.peer(), matches!(&heard, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock));
        let connection = &mut self.rank_connections[at];
        match peer {
            Some(peer) if heard.is_ok() => {
                connection.who = peer;
                true
            }
            _ => {
                if !waits {
                    connection.stage = Stage::Gone;
                }
                false
            }
        }
    }

    /// Hears a rank that has joined. `None`, or an empty packet: its connection has ended.
    pub(super) fn hear_joined(&mut self, at: usize, packet: Option<&[u8]>) {
        let Some((serial, rank)) = self.rank_connections[at].joined() else { return };
        if self.passes_on(at, packet) {
            return;
        }
        let leaves = packet.is_some_and(|packet| FromRank::decode(packet) == Some(FromRank::Leave));
        self.rank_connections[at].stage = Stage::Gone;
        let told = if leaves { ToRank::Left { rank } } else { ToRank::Death { rank } };
        // Before its connection is closed, which a rank that leaves waits for: its process may be this one, and end then.
        self.tell_others(serial, rank, &told.encode());
    }

    /// Passes a message on to the ranks of other hosts. Returns `false` if the packet is none.
    pub(super) fn passes_on(&mut self, at: usize, packet: Option<&[u8]>) -> bool {
        let sender = &self.rank_connections[at];
        let (Stage::Attaching { serial, rank } | Stage::Joined { serial, rank }) = sender.stage else {
            return false;
        };
        match packet.and_then(FromRank::decode) {
            Some(FromRank::Tell(bytes)) => {
                self.tell_others(serial, rank, &ToRank::Told { from: rank, bytes }.encode());
            }
            Some(FromRank::Ended(dead)) => self.hear_of_death(serial, dead),
            Some(FromRank::Ping) => {}
            Some(FromRank::Leave) | None => return false,
        }
        true
    }

    /// A rank says that the process of another has ended. It may end because of that, and its connection before the other's.
    fn hear_of_death(&mut self, serial: u64, dead: u32) {
        let is_its = |g: &RankConnection| g.joined() == Some((serial, dead));
        if let Some(connection) = self.rank_connections.iter_mut().find(|g| is_its(g)) {
            connection.stage = Stage::Gone;
            self.tell_others(serial, dead, &ToRank::Death { rank: dead }.encode());
        }
    }

    /// Tells all ranks that have joined nothing, so that one whose host is gone is missed.
    pub(super) fn ping_the_joined(&mut self, now: Instant) {
        if self.next_ping.is_some_and(|next| now < next) {
            return;
        }
        self.next_ping = Some(now + PING);
        let packet = ToRank::Ping.encode();
        // What a rank has sent before its process ended is read before its end is.
        let may_go_on = |e: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, WouldBlock};
            matches!(e.kind(), WouldBlock | BrokenPipe | ConnectionReset)
        };
        let has_ended = |g: &RankConnection| {
            g.joined().is_some() && g.connection.ping(&packet).is_err_and(|e| !may_go_on(&e))
        };
        let ended: Vec<usize> =
            (0..self.rank_connections.len()).filter(|&at| has_ended(&self.rank_connections[at])).collect();
        ended.into_iter().for_each(|at| self.hear_joined(at, None));
    }

    /// Sends a packet to all ranks of a meeting but one. A rank that does not take what it is told for long is given up.
    fn tell_others(&mut self, serial: u64, but: u32, packet: &[u8]) {
        let told = |g: &RankConnection| match g.stage {
            Stage::Fed { serial: s, rank, .. }
            | Stage::Attaching { serial: s, rank }
            | Stage::Joined { serial: s, rank } => s == serial && rank != but,
            _ => false,
        };
        let (me, mut lost) = (self.me, Vec::new());
        // The ranks of this process last: it may end once they know, and this thread with it.
        for is_ours in [false, true] {
            let those = |g: &&mut RankConnection| told(g) && is_of(me, g) == is_ours;
            for connection in self.rank_connections.iter_mut().filter(those) {
                if connection.connection.send(packet, &[]).is_err()
                    && let Some((_, rank)) = connection.joined()
                {
                    connection.stage = Stage::Gone;
                    lost.push(rank);
                }
            }
        }
        for rank in lost {
            self.tell_others(serial, rank, &ToRank::Death { rank }.encode());
        }
    }

    /// Ends the meetings whose ranks have all joined, or whose time to join is over: what remains of them are the living.
    pub(super) fn look_at_the_joined(&mut self, now: Instant) {
        let mut late = Vec::new();
        for (serial, table) in &mut self.tables {
            let State::Open(rendezvous) = &table.state else { continue };
            if !rendezvous.complete() {
                continue;
            }
            let is_here = |g: &RankConnection| g.is_in() == Some(*serial);
            let is_joining = |g: &RankConnection| is_here(g) && g.joined().is_none();
            let connections = &mut self.rank_connections;
            if !connections.iter().any(|g| is_here(g) && g.joined().is_some()) {
                continue;
            }
            if rendezvous.deadline().is_some_and(|t| now >= t) {
                for connection in connections.iter_mut().filter(|g| is_joining(g)) {
                    late.extend(connection.attaching());
                    connection.give_up();
                }
            }
            if !connections.iter().any(is_joining) {
                table.state = State::Joined;
            }
        }
        // Those that have joined would wait for them in their first call.
        for (serial, rank) in late {
            self.tell_others(serial, rank, &ToRank::Death { rank }.encode());
        }
    }
}
