//! The serving thread: one poll loop over all connections.
//!
//! ```text
//!     accepted --> stranger --hello--> waiting --all have come--> fed --nranks members--> attaching --it has joined--> gone
//!                     |                   |                        |                          |
//!                  garbage,               '---- a rank leaves, gives up, disagrees or is late: every guest of ----'
//!                  evicted                      the meeting is told the verdict
//! ```
//!
//! A verdict stays for a while so that late ranks hear it too.

mod admission;
mod listener;
mod living;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::expected_meetings::ExpectedMeetings;
use super::frame::{Answer, MAX_BYTES, Secret, decode_farewell};
use super::rank_connection::{RankConnection, Stage};
use super::rendezvous::Rendezvous;
use super::verdict::Verdict;
use super::who::Who;
use crate::error::Error;
use crate::sync::lock::Mutex;
use crate::sys::credentials::descriptor_limit;
use crate::sys::{background, keeper, socket};
use listener::Listener;

/// The pause before accepting when no descriptor is free, and before serving when too many are in flight.
const PAUSE: Duration = Duration::from_millis(5);

/// A meeting to which at least one rank has come.
struct Table {
    secret: Secret,
    state: State,
}

enum State {
    Open(Rendezvous),
    Failed(Verdict),
    /// The ranks of several hosts have joined; it lasts until the last of them has left.
    Joined,
}

/// The state of a server. It lives on the server's thread.
struct Server {
    /// This process, as the ranks know it.
    me: Who,
    listeners: Vec<Listener>,
    expected_meetings: Arc<Mutex<ExpectedMeetings>>,
    tables: BTreeMap<u64, Table>,
    rank_connections: Vec<RankConnection>,
    most_strangers: usize,
    no_accept_before: Option<Instant>,
    next_ping: Option<Instant>,
}

/// Listens under `name` and serves the meetings of the returned list on a thread of its own. The thread ends when the
/// list is empty and the last meeting is over. `AddrInUse` if another server listens there already.
pub fn start(name: &[u8], first: Secret, until: Option<Instant>) -> io::Result<Arc<Mutex<ExpectedMeetings>>> {
    let listener = Listener::Local(socket::listen(name)?);
    let server = Server::new(vec![listener], Who::here(std::process::id()), Arc::default());
    let expected_meetings = server.expected_meetings.clone();
    expected_meetings.lock().expect(first, until, 1);
    // It also looks after a program that ends while this serves. Joining tells why there can be none.
    let _ = keeper::prepare();
    background::spawn("penny-meet", move || server.run(&|_| false))?;
    Ok(expected_meetings)
}

/// The same for ranks of several hosts. `me`: this process, as other hosts know it. A host that is silent for longer than `silence`
/// is taken for dead.
pub fn start_on_network(
    listeners: Vec<TcpListener>,
    silence: Duration,
    me: Who,
    expected_meetings: Arc<Mutex<ExpectedMeetings>>,
) -> io::Result<()> {
    let listeners = of_network(listeners, silence);
    let server = Server::new(listeners, me, expected_meetings);
    background::spawn("penny-meet", move || server.run(&|_| false))?;
    Ok(())
}

/// Listens under `name` on this thread until all ranks but 0 have come and been told `error`, or a while is over: for rank 0,
/// where the others would wait for it and it cannot serve their meeting.
pub fn refuse(name: &[u8], secret: Secret, nranks: u32, error: Error) -> io::Result<()> {
    let listeners = vec![Listener::Local(socket::listen(name)?)];
    refuse_at(listeners, Who::here(std::process::id()), (0, secret), nranks, error);
    Ok(())
}

/// The same for ranks of several hosts.
pub fn refuse_on_network(
    listeners: Vec<TcpListener>,
    silence: Duration,
    me: Who,
    meeting: (u64, Secret),
    nranks: u32,
    error: Error,
) {
    refuse_at(of_network(listeners, silence), me, meeting, nranks, error);
}

fn of_network(listeners: Vec<TcpListener>, silence: Duration) -> Vec<Listener> {
    listeners.into_iter().map(|tcp| Listener::Network(tcp, silence)).collect()
}

fn refuse_at(listeners: Vec<Listener>, me: Who, meeting: (u64, Secret), nranks: u32, error: Error) {
    let (serial, secret) = meeting;
    let mut server = Server::new(listeners, me, Arc::default());
    let verdict = Verdict::of_rank_0(nranks, error, Instant::now());
    server.tables.insert(serial, Table { secret, state: State::Failed(verdict) });
    let is_known = |table: &Table| matches!(&table.state, State::Failed(verdict) if verdict.is_known());
    server.run(&|server| server.tables.values().all(is_known));
}

impl Server {
    fn new(listeners: Vec<Listener>, me: Who, expected_meetings: Arc<Mutex<ExpectedMeetings>>) -> Server {
        Server {
            me,
            listeners,
            expected_meetings,
            tables: BTreeMap::new(),
            rank_connections: Vec::new(),
            most_strangers: admission::MOST_STRANGERS.min(descriptor_limit() as usize / 8).max(2),
            no_accept_before: None,
            next_ping: None,
        }
    }

    /// Serves until no meeting is expected or in progress, or until `enough` returns true.
    fn run(mut self, enough: &dyn Fn(&Server) -> bool) {
        let mut buffer = [0u8; MAX_BYTES];
        loop {
            let now = Instant::now();
            self.look_at_the_clock(now);
            if self.finished() || enough(&self) {
                return;
            }
            let Ok((newcomers, ready)) = self.wait(now) else {
                // poll(2) fails only for want of memory; the guests see the door close.
                return;
            };
            let now = Instant::now();
            for at in ready {
                match self.rank_connections[at].stage {
                    Stage::Stranger
                    | Stage::Waiting { .. }
                    | Stage::Attaching { .. }
                    | Stage::Joined { .. } => self.hear(at, &mut buffer, now),
                    Stage::Fed { .. } => self.feed(at, now),
                    Stage::Gone => {}
                }
            }
            self.rank_connections.retain(|g| !matches!(g.stage, Stage::Gone));
            if newcomers {
                self.accept(&mut buffer, now);
            }
        }
    }

    /// Tells whether no meeting is expected or in progress. The list is then closed, so that its owner starts another server.
    fn finished(&mut self) -> bool {
        self.tables.is_empty() && self.expected_meetings.lock().close_if_empty()
    }

    /// Sleeps until a rank connects or sends something, or until a deadline passes. Returns whether there are connections to
    /// accept, and the indices of the connections to serve.
    fn wait(&self, now: Instant) -> io::Result<(bool, Vec<usize>)> {
        let paused = |until: Option<Instant>| until.is_some_and(|t| t > now);
        // A program may end as soon as it has met the others, and this thread ends with it. So the ranks of this process are
        // told last: by then the others have been sent everything.
        let ours = |rank_connection: &RankConnection| self.is_ours(rank_connection);
        let others: BTreeSet<u64> =
            self.rank_connections.iter().filter(|g| !ours(g)).filter_map(RankConnection::fed_by).collect();
        let mut watches = Vec::with_capacity(self.rank_connections.len() + 1);
        let mut who = Vec::with_capacity(self.rank_connections.len());
        let mut next = self.next_deadline();
        let mut sooner = |t: Instant| next = Some(next.map_or(t, |n| n.min(t)));
        for (at, rank_connection) in self.rank_connections.iter().enumerate() {
            match rank_connection.stage {
                Stage::Fed { serial, .. } if ours(rank_connection) && others.contains(&serial) => continue,
                Stage::Fed { pause: Some(until), .. } if until > now => {
                    sooner(until);
                    continue;
                }
                Stage::Fed { .. } => watches.push(socket::PollEntry::writable(&rank_connection.connection)),
                _ => watches.push(rank_connection.connection.watched()),
            }
            who.push(at);
        }
        let accepting = !paused(self.no_accept_before);
        match self.no_accept_before {
            Some(until) if !accepting => sooner(until),
            _ => watches.extend(self.listeners.iter().map(Listener::watched)),
        }
        socket::wait(&mut watches, next.map(|t| t.saturating_duration_since(now)))?;
        let newcomers = accepting && watches[who.len()..].iter().any(|w| w.ready());
        let ready = who.into_iter().zip(&watches).filter(|(_, w)| w.ready()).map(|(at, _)| at).collect();
        Ok((newcomers, ready))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let expected = self.expected_meetings.lock().next_deadline();
        let tables = self.tables.values().filter_map(|t| match &t.state {
            State::Open(rendezvous) => rendezvous.deadline(),
            State::Failed(verdict) => Some(verdict.next_deadline()),
            State::Joined => self.next_ping,
        });
        tables.chain(expected).min()
    }

    /// Ends everything whose time is over: expectations, waits, verdicts, and meetings that all ranks have left.
    fn look_at_the_clock(&mut self, now: Instant) {
        let over = |until: Option<Instant>| until.is_some_and(|t| now >= t);
        self.expected_meetings.lock().forget_late(now);
        let overdue: Vec<(u64, Error)> = self
            .tables
            .iter()
            .filter_map(|(serial, table)| match &table.state {
                State::Open(rendezvous) => Some((*serial, rendezvous.overdue(now)?)),
                State::Failed(_) | State::Joined => None,
            })
            .collect();
        for (serial, error) in overdue {
            self.fail(serial, error, None, now);
        }
        for table in self.tables.values_mut() {
            if let State::Failed(verdict) = &mut table.state {
                verdict.look_at_the_clock(now);
            }
        }
        let failed = self.tables.iter().filter(|(_, table)| matches!(table.state, State::Failed(_)));
        let failed: Vec<u64> = failed.map(|(serial, _)| *serial).collect();
        failed.into_iter().for_each(|serial| self.tell_ours(serial));
        self.look_at_the_joined(now);
        self.ping_the_joined(now);
        let rank_connections = &mut self.rank_connections;
        self.tables.retain(|serial, table| match &table.state {
            State::Failed(verdict) => !verdict.is_over(now),
            State::Joined => rank_connections.iter().any(|g| g.is_in() == Some(*serial)),
            State::Open(rendezvous) if rendezvous.complete() => {
                let mut here = rank_connections.iter_mut().filter(|g| g.is_in() == Some(*serial));
                if over(rendezvous.deadline()) {
                    here.for_each(RankConnection::give_up);
                    return false;
                }
                here.next().is_some()
            }
            State::Open(_) => true,
        });
        rank_connections.retain(|g| !matches!(g.stage, Stage::Gone));
    }

    /// Reads what a rank sends.
    fn hear(&mut self, at: usize, buffer: &mut [u8], now: Instant) {
        if !self.hear_claim(at) {
            return;
        }
        let rank_connection = &mut self.rank_connections[at];
        let packet = match rank_connection.receive(buffer) {
            Ok(packet) => Some(packet),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => None,
        };
        match rank_connection.stage {
            // After its hello a rank only says that it has joined, or why it gives up. Anything else means that it died or is
            // faulty.
            Stage::Joined { .. } => self.hear_joined(at, packet.map(|p| &buffer[..p.len])),
            Stage::Waiting { serial, rank } | Stage::Attaching { serial, rank } => {
                let attaching = matches!(rank_connection.stage, Stage::Attaching { .. });
                if attaching && self.passes_on(at, packet.as_ref().map(|p| &buffer[..p.len])) {
                    return;
                }
                let rank_connection = &mut self.rank_connections[at];
                rank_connection.stage = Stage::Gone;
                let said = packet.as_ref().and_then(|p| decode_farewell(&buffer[..p.len]));
                if attaching && matches!(said, Some(None)) {
                    if rank_connection.connection.is_network() {
                        rank_connection.stage = Stage::Joined { serial, rank };
                    }
                    return;
                }
                if let Some(Table { state: State::Open(rendezvous), .. }) = self.tables.get(&serial) {
                    // If the time is over, the ranks that are missing are to blame, and not this one that leaves.
                    let overdue = rendezvous.overdue(Instant::now());
                    let error = overdue.unwrap_or_else(|| rendezvous.deserted_by(rank, said.flatten()));
                    self.fail(serial, error, Some((rank, 0)), now);
                }
            }
            Stage::Stranger => {
                rank_connection.stage = Stage::Gone;
                if let Some(packet) = packet.filter(|p| p.len > 0 && !p.cut) {
                    self.welcome(at, &buffer[..packet.len], packet.fds, packet.fds_lost, now);
                }
            }
            Stage::Fed { .. } | Stage::Gone => {}
        }
    }

    /// Begins a meeting if all ranks have come: from now on each rank is sent the data of all ranks, as fast as its socket accepts
    /// them.
    fn begin_if_complete(&mut self, serial: u64) {
        let Some(Table { state: State::Open(rendezvous), .. }) = self.tables.get(&serial) else { return };
        if !rendezvous.complete() {
            return;
        }
        for rank_connection in &mut self.rank_connections {
            if let Stage::Waiting { serial: s, rank } = rank_connection.stage
                && s == serial
            {
                rank_connection.stage = Stage::Fed { serial, rank, next: 0, pause: None };
            }
        }
    }

    /// Sends as many members as the rank's socket accepts now.
    fn feed(&mut self, at: usize, now: Instant) {
        let rank_connection = &mut self.rank_connections[at];
        let Stage::Fed { serial, rank, mut next, .. } = rank_connection.stage else { return };
        let Some(Table { state: State::Open(rendezvous), .. }) = self.tables.get(&serial) else { return };
        while let Some(member) = rendezvous.member(next) {
            let fds: Vec<BorrowedFd<'_>> = member.fds.iter().map(AsFd::as_fd).collect();
            let answer = Answer::Member { rank: next, nfds: fds.len() as u32, info: &member.info };
            match rank_connection.connection.send(&answer.encode(), &fds) {
                Ok(()) => next += 1,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    rank_connection.stage = Stage::Fed { serial, rank, next, pause: None };
                    return;
                }
                Err(e) if socket::too_many_in_flight(&e) => {
                    rank_connection.stage = Stage::Fed { serial, rank, next, pause: Some(now + PAUSE) };
                    return;
                }
                Err(_) => {
                    rank_connection.stage = Stage::Gone;
                    let mut buffer = [0; MAX_BYTES];
                    let said = rank_connection
                        .receive(&mut buffer)
                        .ok()
                        .and_then(|p| decode_farewell(&buffer[..p.len]));
                    let error = rendezvous.deserted_by(rank, said.flatten());
                    return self.fail(serial, error, Some((rank, 0)), now);
                }
            }
        }
        rank_connection.stage = Stage::Attaching { serial, rank };
    }

    /// Tells the verdict to all ranks of a meeting, and keeps it for ranks that come later. `by`: the rank that knows it already,
    /// and the number of ranks that it expects.
    fn fail(&mut self, serial: u64, error: Error, by: Option<(u32, u32)>, now: Instant) {
        let Some(table) = self.tables.get_mut(&serial) else { return };
        let State::Open(rendezvous) = &table.state else { return };
        let verdict = Verdict::of(rendezvous, error, by, now);
        let me = self.me;
        let others = |g: &&mut RankConnection| g.is_in() == Some(serial) && !is_of(me, g);
        self.rank_connections.iter_mut().filter(others).for_each(|other| other.tell(&verdict.error));
        table.state = State::Failed(verdict);
        self.tell_ours(serial);
    }

    /// Tells the verdict to the ranks of this process if all others have heard it.
    fn tell_ours(&mut self, serial: u64) {
        let Some(Table { state: State::Failed(verdict), .. }) = self.tables.get(&serial) else { return };
        if !verdict.holds() {
            let ours = self.rank_connections.iter_mut().filter(|g| g.is_in() == Some(serial));
            ours.for_each(|own| own.tell(&verdict.error));
        }
    }

    fn is_ours(&self, connection: &RankConnection) -> bool {
        is_of(self.me, connection)
    }

    fn fail_all_open(&mut self, error: &Error, now: Instant) {
        let open = |t: &Table| matches!(&t.state, State::Open(rendezvous) if !rendezvous.complete());
        let serials: Vec<u64> = self.tables.iter().filter(|(_, t)| open(t)).map(|(s, _)| *s).collect();
        for serial in serials {
            self.fail(serial, error.clone(), None, now);
        }
    }
}

/// Is this a connection of a rank that process `me` runs?
fn is_of(me: Who, connection: &RankConnection) -> bool {
    let who = connection.who;
    who.pid == me.pid && who.host.is_none_or(|host| me.host.is_some_and(|mine| mine.id == host.id))
}
