//! A rank's side of a meeting: connect until the server answers, say hello, receive the data of the other ranks.

use std::io;
use std::time::{Duration, Instant};

use super::attendance::Attendance;
use super::connection::MeetingConnection;
use super::excuses::{host_gone, no_meeting, no_socket, nobody_opens, refused_so_far};
use super::frame::{self, ABI, Answer, MAX_BYTES, Secret, TimeLimit, VERSION};
use super::invitation::{Door, Invitation, Knock};
use super::network::door::Attempts;
use super::network::packets::ToRank;
use super::verdict::LINGER;
use super::who::Who;
use super::{Each, Hello, StopCheck};
use crate::error::{Error, Result};
use crate::log;
use crate::sys::credentials::{descriptor_limit, uid};
use crate::sys::interrupt;
use crate::sys::progress_hook::WaitHook;
use crate::sys::socket::{self, Datagram};
use crate::sys::{background, process};

/// Pauses between two knocks: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The time between two checks of the watch by a rank that waits for answers.
const LOOK: Duration = Duration::from_millis(50);

/// For how long a rank is refused for its secret before it says so: another job's meeting may be over by then.
const BEFORE_A_WARNING: Duration = Duration::from_secs(2);

/// The outcome of one visit.
enum Visit {
    Met,
    /// The connection was closed before a word was said: come again.
    TurnedAway,
}

/// The time limits of a rank that waits.
#[derive(Clone, Copy)]
struct Clock {
    start: Instant,
    timeout: Option<Duration>,
}

impl Clock {
    fn left(&self) -> Option<Duration> {
        self.timeout.map(|t| t.saturating_sub(self.start.elapsed()))
    }
    fn over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
    /// The server judges the deadline, for only it knows who is missing; if it is silent, we leave a little later.
    fn left_for_the_verdict(&self) -> Option<Duration> {
        self.timeout.map(|t| (t + t / 20 + Duration::from_secs(2)).saturating_sub(self.start.elapsed()))
    }
    fn seconds(&self) -> f64 {
        self.timeout.unwrap_or_default().as_secs_f64()
    }
}

/// Meets the other ranks where the ticket says. Until this rank has joined, they are told if it does not.
pub fn meet(
    ticket: &Invitation,
    hello: &Hello<'_>,
    timeout: Option<Duration>,
    each: &mut Each<'_>,
    watch: StopCheck<'_>,
) -> Result<Attendance> {
    let clock = Clock { start: Instant::now(), timeout };
    let mut backoff = BACKOFF.0;
    let mut host = None;
    let mut astray = None;
    let mut is_warned = false;
    let mut hook = WaitHook::default();
    loop {
        match ticket.knock() {
            Ok(connection) => {
                let who = host_of(&connection)?;
                host = Some(who);
                let attendance = Attendance::new(connection);
                match visit(&attendance, who, ticket, hello, clock, each, watch) {
                    Ok(Visit::Met) => return Ok(attendance),
                    Ok(Visit::TurnedAway) => {}
                    Err(e) => {
                        attendance.give_up(&e);
                        return Err(e);
                    }
                }
            }
            Err(Knock::Nobody) => {
                if let Some(who) = host {
                    return Err(host_gone(ticket, who));
                }
                if let Some(pid) = ticket.creator {
                    return Err(Error::remote(format!(
                        "nobody serves this unique id: PID {pid}, which made it, has ended, runs in another network \
                         namespace or on another host, or has no id open any more; each id makes one communicator. For ranks on \
                         several hosts set PENNY_NET on the rank that makes the id"
                    )));
                }
            }
            Err(Knock::Busy) => {}
            Err(Knock::Astray(attempts)) => {
                // The process that made an id listens from then on, so its refusal is final. So is a refusal after a first visit.
                if ticket.creator.is_some() && (attempts.is_refused() || attempts.is_unknown())
                    || host.is_some()
                {
                    return Err(no_meeting(ticket, hello, &attempts));
                }
                if attempts.is_refused() && !is_warned && clock.start.elapsed() > BEFORE_A_WARNING {
                    is_warned = true;
                    log::always(hello.rank, format_args!("{}", refused_so_far(&attempts)));
                }
                // That a server has found the secret wrong tells more than what came of it when it had ended.
                if attempts.is_refused() || !astray.as_ref().is_some_and(Attempts::is_refused) {
                    astray = Some(attempts);
                }
            }
            Err(Knock::Refused(e)) => {
                refuse(ticket, hello, &e);
                return Err(e);
            }
        }
        if clock.over() {
            return Err(nobody_opens(ticket, hello, host, astray, clock.seconds()));
        }
        // The others may know of this already, or not: they are in the meeting and do not watch.
        watch().inspect_err(|e| refuse(ticket, hello, e))?;
        interrupt::look_now()?;
        std::thread::sleep(hook.shorten(backoff.min(clock.left().unwrap_or(backoff))));
        backoff = (backoff * 2).min(BACKOFF.1);
    }
}

/// Tells the others that this rank cannot join, if they meet already or soon do.
pub fn refuse(ticket: &Invitation, hello: &Hello<'_>, why: &Error) {
    let clock = Clock { start: Instant::now(), timeout: Some(LINGER) };
    let info = frame::cut(&why.message).as_bytes();
    let packet = packet(ticket, &Hello { info, fds: &[], ..*hello }, clock).encode_refusal();
    let connect = || {
        ticket.knock().map_err(|knock| match knock {
            Knock::Busy => io::ErrorKind::WouldBlock.into(),
            Knock::Nobody | Knock::Astray(_) | Knock::Refused(_) => {
                io::Error::from(io::ErrorKind::ConnectionRefused)
            }
        })
    };
    let knock = || match &ticket.door {
        // A process without a descriptor has one in a table of its own.
        Door::Local(name) => match socket::connect(name) {
            Err(e) if socket::out_of_descriptors(&e) => background::with_free_descriptors({
                let name = name.clone();
                let packet = packet.clone();
                move || {
                    socket::connect(&name).and_then(|local| tell(&MeetingConnection::Local(local), &packet))
                }
            }),
            connected => connected.and_then(|local| tell(&MeetingConnection::Local(local), &packet)),
        },
        Door::Network { .. } => connect().and_then(|connection| tell(&connection, &packet)),
    };
    // BOUND: the clock. Who meets at a process that made the id meets there now or never.
    while let Err(e) = knock()
        && !clock.over()
        && (ticket.creator.is_none() || e.kind() == io::ErrorKind::WouldBlock)
    {
        std::thread::sleep(BACKOFF.1);
    }
}

/// Says something and hears that it was heard: the other side closes.
fn tell(connection: &MeetingConnection, packet: &[u8]) -> io::Result<()> {
    host_of(connection).map_err(|e| io::Error::other(e.message.clone()))?;
    connection.send(packet, &[])?;
    connection.wait(Some(LOOK))
}

/// Returns the process that listens, if it is one of our user's or knows the secret.
fn host_of(connection: &MeetingConnection) -> Result<Who> {
    let MeetingConnection::Local(local) = connection else {
        return connection.peer().ok_or_else(|| Error::internal("a session without its peer"));
    };
    let peer = socket::peer(local).map_err(no_socket)?;
    if peer.uid != uid() {
        return Err(Error::system(format!(
            "the socket where the ranks should meet belongs to user {} (PID {}), not to user {}; all ranks must run \
             as one user. If that is no rank of this job, start the job again",
            peer.uid,
            peer.pid,
            uid()
        )));
    }
    Ok(Who::here(peer.pid as u32))
}

/// Says hello and hears the answers.
fn visit(
    attendance: &Attendance,
    host: Who,
    ticket: &Invitation,
    hello: &Hello<'_>,
    clock: Clock,
    each: &mut Each<'_>,
    watch: StopCheck<'_>,
) -> Result<Visit> {
    let connection = attendance.connection();
    if !say(connection, ticket, hello, clock)? {
        return Ok(Visit::TurnedAway);
    }
    let mut buffer = [0u8; MAX_BYTES];
    let mut expected = 0;
    while expected < hello.nranks {
        let Some(packet) = listen(connection, &mut buffer, host, clock, watch)? else {
            return if expected == 0 { Ok(Visit::TurnedAway) } else { Err(host_gone(ticket, host)) };
        };
        if let Some(early) = ToRank::decode(&buffer[..packet.len]) {
            // A rank that has been told all members already tells the others something.
            attendance.keep(&early);
            continue;
        }
        match Answer::decode(&buffer[..packet.len]) {
            Some(Answer::Member { rank, nfds, info }) if rank == expected => {
                if packet.fds_lost || !connection.is_network() && packet.fds.len() != nfds as usize {
                    return Err(Error::system(format!(
                        "rank {} has no file descriptor left for those of rank {rank}: its limit is {}; raise it with \
                         `ulimit -n`",
                        hello.rank,
                        descriptor_limit()
                    )));
                }
                each(rank, info, packet.fds)?;
                expected += 1;
            }
            Some(Answer::Verdict(error)) => return Err(error),
            _ => {
                return Err(Error::remote(format!(
                    "{host}, where the ranks meet, sent something that this version of Penny does not understand; \
                     run all ranks with one libpenny"
                )));
            }
        }
    }
    Ok(Visit::Met)
}

fn packet<'a>(ticket: &Invitation, hello: &Hello<'a>, clock: Clock) -> frame::HelloFrame<'a> {
    frame::HelloFrame {
        serial: ticket.serial,
        // It does not go over a network, where it has been proved instead.
        secret: match ticket.door {
            Door::Local(_) => ticket.secret,
            Door::Network { .. } => Secret([0; 16]),
        },
        version: VERSION,
        abi: ABI,
        rank: hello.rank,
        nranks: hello.nranks,
        nfds: hello.fds.len() as u32,
        time_limit: clock.timeout.map(|total| TimeLimit { total, left: clock.left().unwrap_or_default() }),
        info: hello.info,
    }
}

/// Sends the hello; `false` if the door was closed meanwhile.
fn say(connection: &MeetingConnection, ticket: &Invitation, hello: &Hello<'_>, clock: Clock) -> Result<bool> {
    loop {
        match connection.send(&packet(ticket, hello, clock).encode(), hello.fds) {
            Ok(()) => return Ok(true),
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return Ok(false);
            }
            Err(e) if socket::too_many_in_flight(&e) && !clock.over() => std::thread::sleep(BACKOFF.0),
            Err(e) => return Err(no_socket(e)),
        }
    }
}

/// Returns the next packet with its descriptors; `None` if the other side has closed.
///
/// BOUND: the clock, the watch, or the other side's end.
fn listen(
    connection: &MeetingConnection,
    buffer: &mut [u8],
    host: Who,
    clock: Clock,
    watch: StopCheck<'_>,
) -> Result<Option<Datagram>> {
    let mut hook = WaitHook::default();
    loop {
        match connection.receive(buffer) {
            Ok(p) if p.len == 0 => return Ok(None),
            Ok(p) => return Ok(Some(p)),
            // The error comes once, before what the other side has sent, and then its end.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset && !connection.is_network() => continue,
            Err(e) if connection.is_network() && is_end(&e) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(no_socket(e)),
        }
        let left = clock.left_for_the_verdict();
        if left == Some(Duration::ZERO) {
            return Err(Error::timeout(format!(
                "{host}{}, where the ranks meet, has not answered within {} s; check that it runs and is not stopped",
                host_state(host).map_or(String::new(), |state| format!(" ({state})")),
                clock.seconds()
            )));
        }
        watch()?;
        interrupt::look_now()?;
        let pause = hook.shorten(left.map_or(LOOK, |left| left.min(LOOK)));
        connection.wait(Some(pause)).map_err(no_socket)?;
    }
}

/// Has a connection between hosts ended, or is it of no use any more?
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionReset | ConnectionAborted | BrokenPipe | InvalidData | TimedOut | UnexpectedEof
    )
}

/// What the scheduler says of the process that listens, if it is of this host.
fn host_state(host: Who) -> Option<&'static str> {
    if host.host.is_some() { None } else { process::state(host.pid) }
}
