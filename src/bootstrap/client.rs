//! A rank's side of a meeting: connect until the server answers, say hello, receive the data of the other ranks.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::attendance::Attendance;
use super::frame::{self, ABI, Answer, MAX_BYTES, Secret, TimeLimit, VERSION};
use super::verdict::LINGER;
use super::{Each, Hello, StopCheck};
use crate::error::{Error, Result};
use crate::sys::credentials::{descriptor_limit, uid};
use crate::sys::interrupt;
use crate::sys::progress_hook::WaitHook;
use crate::sys::socket::{self, Datagram};
use crate::sys::{background, process};

/// Pauses between two knocks: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The time between two checks of the watch by a rank that waits for answers.
const LOOK: Duration = Duration::from_millis(50);

/// The data with which a rank enters one meeting.
pub struct Invitation {
    /// The abstract name of the socket where it is served.
    pub name: Vec<u8>,
    /// Which of the meetings there.
    pub serial: u64,
    /// The secret that admits to the meeting.
    pub secret: Secret,
    /// The process that made the id and has listened ever since; `None`: rank 0 will listen when it comes.
    pub creator: Option<u32>,
}

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
    let mut hook = WaitHook::default();
    loop {
        match socket::connect(&ticket.name) {
            Ok(connection) => {
                let pid = host_of(&connection)?;
                host = Some(pid);
                let attendance = Attendance::new(connection);
                match visit(attendance.connection(), pid, ticket, hello, clock, each, watch) {
                    Ok(Visit::Met) => return Ok(attendance),
                    Ok(Visit::TurnedAway) => {}
                    Err(e) => {
                        attendance.give_up(&e);
                        return Err(e);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                if let Some(pid) = host {
                    return Err(host_gone(ticket, pid));
                }
                if let Some(pid) = ticket.creator {
                    return Err(Error::remote(format!(
                        "nobody serves this unique id: PID {pid}, which made it, has ended, runs in another network \
                         namespace, or has no id open any more; each id makes one communicator"
                    )));
                }
            }
            // Its queue is full.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => {
                let e = no_socket(e);
                refuse(ticket, hello, &e);
                return Err(e);
            }
        }
        if clock.over() {
            return Err(nobody_opens(hello, host, clock));
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
    // A process without a descriptor has one in a table of its own.
    let knock = || match socket::connect(&ticket.name) {
        Err(e) if socket::out_of_descriptors(&e) => background::with_free_descriptors({
            let name = ticket.name.clone();
            let packet = packet.clone();
            move || socket::connect(&name).and_then(|connection| tell(&connection, &packet))
        }),
        connected => connected.and_then(|connection| tell(&connection, &packet)),
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
fn tell(connection: &OwnedFd, packet: &[u8]) -> io::Result<()> {
    host_of(connection).map_err(|e| io::Error::other(e.message.clone()))?;
    socket::send(connection, packet, &[])?;
    socket::wait(&mut [socket::PollEntry::readable(connection)], Some(LOOK))
}

/// Returns the PID of the process that listens, if it is one of our user's.
fn host_of(connection: &OwnedFd) -> Result<i32> {
    let peer = socket::peer(connection).map_err(no_socket)?;
    if peer.uid != uid() {
        return Err(Error::system(format!(
            "the socket where the ranks should meet belongs to user {} (PID {}), not to user {}; all ranks must run \
             as one user. If that is no rank of this job, start the job again",
            peer.uid,
            peer.pid,
            uid()
        )));
    }
    Ok(peer.pid)
}

/// Says hello and hears the answers.
fn visit(
    connection: &OwnedFd,
    host: i32,
    ticket: &Invitation,
    hello: &Hello<'_>,
    clock: Clock,
    each: &mut Each<'_>,
    watch: StopCheck<'_>,
) -> Result<Visit> {
    if !say(connection, ticket, hello, clock)? {
        return Ok(Visit::TurnedAway);
    }
    let mut buffer = [0u8; MAX_BYTES];
    for expected in 0..hello.nranks {
        let Some(packet) = listen(connection, &mut buffer, host, clock, watch)? else {
            return if expected == 0 { Ok(Visit::TurnedAway) } else { Err(host_gone(ticket, host)) };
        };
        match Answer::decode(&buffer[..packet.len]) {
            Some(Answer::Member { rank, nfds, info }) if rank == expected => {
                if packet.fds_lost || packet.fds.len() != nfds as usize {
                    return Err(Error::system(format!(
                        "rank {} has no file descriptor left for those of rank {rank}: its limit is {}; raise it with \
                         `ulimit -n`",
                        hello.rank,
                        descriptor_limit()
                    )));
                }
                each(rank, info, packet.fds)?;
            }
            Some(Answer::Verdict(error)) => return Err(error),
            _ => {
                return Err(Error::remote(format!(
                    "PID {host}, where the ranks meet, sent something that this version of Penny does not understand; \
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
        secret: ticket.secret,
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
fn say(connection: &OwnedFd, ticket: &Invitation, hello: &Hello<'_>, clock: Clock) -> Result<bool> {
    loop {
        match socket::send(connection, &packet(ticket, hello, clock).encode(), hello.fds) {
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
    connection: &OwnedFd,
    buffer: &mut [u8],
    host: i32,
    clock: Clock,
    watch: StopCheck<'_>,
) -> Result<Option<Datagram>> {
    let mut hook = WaitHook::default();
    loop {
        match socket::receive(connection, buffer) {
            Ok(p) if p.len == 0 => return Ok(None),
            Ok(p) => return Ok(Some(p)),
            // The error comes once, before what the other side has sent, and then its end.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(no_socket(e)),
        }
        let left = clock.left_for_the_verdict();
        if left == Some(Duration::ZERO) {
            return Err(Error::timeout(format!(
                "PID {host}{}, where the ranks meet, has not answered within {} s; check that it runs and is not stopped",
                process::state(host as u32).map_or(String::new(), |state| format!(" ({state})")),
                clock.seconds()
            )));
        }
        watch()?;
        interrupt::look_now()?;
        let pause = hook.shorten(left.map_or(LOOK, |left| left.min(LOOK)));
        socket::wait(&mut [socket::PollEntry::readable(connection)], Some(pause)).map_err(no_socket)?;
    }
}

fn host_gone(ticket: &Invitation, pid: i32) -> Error {
    Error::remote(match ticket.creator {
        None => format!(
            "rank 0 (PID {pid}), where the ranks meet, died or left before all ranks had met; see why it ended, and start all ranks \
             again"
        ),
        Some(_) => format!(
            "PID {pid}, which made the unique id (as a rule rank 0) and where the ranks meet, died or left before all ranks had met; \
             see why it ended, and pass all ranks a new id of a process that lives until they have met"
        ),
    })
}

fn nobody_opens(hello: &Hello<'_>, host: Option<i32>, clock: Clock) -> Error {
    let seconds = clock.seconds();
    Error::timeout(match host {
        Some(pid) => format!(
            "PID {pid}, where the ranks meet, has not heard rank {} within {seconds} s: it is flooded, or ends",
            hello.rank
        ),
        None => format!(
            "rank 0 of {}, where the ranks meet, has not come after {seconds} s (the timeout of rank {}); check that \
             it was started, reaches this call and runs in the same network namespace, or raise the timeout",
            hello.nranks, hello.rank
        ),
    })
}

fn no_socket(error: io::Error) -> Error {
    if socket::out_of_descriptors(&error) {
        return Error::system(format!(
            "no file descriptor left to meet the other ranks: this process's limit is {}; raise it with `ulimit -n`",
            descriptor_limit()
        ));
    }
    Error::system(format!("cannot meet the other ranks over a local socket: {error}"))
}
