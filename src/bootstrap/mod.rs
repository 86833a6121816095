//! The rendezvous of the ranks of one host, at which each gets descriptors of every other rank's memory.
//!
//! ```text
//!     rank 0     rank 1     rank 2               every rank connects to one abstract AF_UNIX socket,
//!       |  \        |        /  |                shows the secret, says who it is and hands over descriptors;
//!       |   hello   |   hello   |                the server waits until all have come
//!       |      \    v    /      |
//!       |       [ server ]      |                a thread of the process that made the id, or of rank 0
//!       |      /    |    \      |
//!       v     v     v     v     v                and tells each of them about each: number, info, descriptors
//!     members 0..n   ...   members 0..n          or one verdict, the same sentence for everybody
//! ```
//!
//! No other process gets in: both sides check the other's user (SO_PEERCRED), and the server compares a 128-bit secret in
//! constant time before it reads anything else. Nothing is left behind: the socket has no file. Nothing hangs: a death,
//! a disagreement or the shortest timeout ends the meeting for everyone. A meeting lasts until all ranks have joined, so a
//! rank that gives up or dies on the way from the meeting to its first call is named to all ([`Attendance`]).
//!
//! `client` knocks, `server` serves its `rank_connection`s, `rendezvous` decides, `frame` is what they say; `id` makes ids and
//! [`launcher`] finds out from the environment who we are and where to meet.

#![forbid(unsafe_code)]

mod ancestry;
mod attendance;
mod client;
mod expected_meetings;
mod frame;
mod id;
pub mod launcher;
mod rank_connection;
mod rendezvous;
mod server;
#[cfg(test)]
mod tests;
mod verdict;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
pub use attendance::Attendance;
pub use frame::MAX_INFO;
pub use id::create_id;

/// An identifier that all ranks of one future communicator share: the meeting place and the secret that admits them. It
/// is opaque to C.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; 128]);

/// The place at which ranks meet.
#[derive(Clone)]
pub enum MeetingPlace {
    /// The process that made the id.
    Id(UniqueId),
    /// A place derived from the launcher's variables, the same for all ranks of one job; rank 0 serves.
    Derived(DerivedPlace),
}

/// A place that every rank of a job computes for itself.
#[derive(Clone, PartialEq, Eq)]
pub struct DerivedPlace {
    name: Vec<u8>,
    secret: [u8; 16],
}

/// The contribution of a rank to the rendezvous.
pub struct Hello<'a> {
    /// The rank.
    pub rank: u32,
    /// The number of ranks that it expects.
    pub nranks: u32,
    /// The information for every rank; at most [`MAX_INFO`] bytes.
    pub info: &'a [u8],
    /// The descriptors for every rank; at most 2. Every rank gets duplicates; the caller keeps these.
    pub fds: &'a [BorrowedFd<'a>],
}

/// A function that handles one rank's info and descriptors.
pub type Each<'a> = dyn FnMut(u32, &[u8], Vec<OwnedFd>) -> Result<()> + 'a;

/// A check whether to continue waiting.
pub type StopCheck<'a> = &'a dyn Fn() -> Result<()>;

/// Meets all ranks. Calls `each(rank, info, fds)` once for every rank, its own included, in rank order; no more than
/// one rank's descriptors are open here at a time unless `each` keeps them.
///
/// Blocks until all ranks have come. `timeout` counts from this call, `None` waits for ever; the shortest timeout of
/// the ranks that have come ends the meeting for all of them. An error of `each` is returned as it is and the others
/// are told. An error of `watch`, which is asked now and then, ends the visit, and so the meeting for all. When this
/// returns an error, `each` may have been called for some ranks.
pub fn meet(
    place: &MeetingPlace,
    hello: &Hello<'_>,
    timeout: Option<Duration>,
    each: &mut Each<'_>,
    watch: StopCheck<'_>,
) -> Result<Attendance> {
    if hello.info.len() > MAX_INFO || hello.fds.len() > crate::sys::socket::MAX_FDS {
        return Err(Error::internal("a rank brings more to a meeting than a packet holds"));
    }
    if let MeetingPlace::Derived(derived) = place
        && hello.rank == 0
    {
        let until = timeout.and_then(|t| Instant::now().checked_add(t));
        match server::start(&derived.name, frame::Secret(derived.secret), until) {
            Ok(_) => {}
            // Another process claims to be rank 0, or belongs to another user: the visit finds out which.
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            Err(e) => {
                let e = Error::system(format!(
                    "rank 0 cannot serve the meeting of the ranks: {e}; check `ulimit -u` and `ulimit -n`"
                ));
                refuse(place, hello.rank, hello.nranks, &e);
                return Err(e);
            }
        }
    }
    client::meet(&ticket(place)?, hello, timeout, each, watch)
}

/// Tells all others that a rank cannot join, and why: they would wait for it until their deadline.
pub fn refuse(place: &MeetingPlace, rank: u32, nranks: u32, why: &Error) {
    if let MeetingPlace::Derived(derived) = place
        && rank == 0
    {
        let (name, secret) = (derived.name.clone(), frame::Secret(derived.secret));
        let verdict = Error::remote(format!(
            "rank 0 (PID {}), where the ranks meet, cannot join: {}",
            std::process::id(),
            why.message
        ));
        let serve = move || server::refuse(&name, secret, nranks, verdict.clone());
        if let Err(e) = serve()
            && crate::sys::socket::out_of_descriptors(&e)
        {
            let _ = crate::sys::background::with_free_descriptors(serve);
        }
        return;
    }
    if let Ok(ticket) = ticket(place) {
        client::refuse(&ticket, &Hello { rank, nranks, info: &[], fds: &[] }, why);
    }
}

/// The name of the socket where an id leads, and what a rank without memory says there first. For tests that say it as
/// somebody else.
#[cfg(feature = "internals")]
pub fn first_words(id: &UniqueId, rank: u32, nranks: u32) -> Result<(Vec<u8>, Vec<u8>)> {
    let client::Invitation { name, serial, secret, .. } = id::decode(id)?;
    let (version, abi) = (frame::VERSION, frame::ABI);
    let hello = frame::HelloFrame {
        serial,
        secret,
        version,
        abi,
        rank,
        nranks,
        nfds: 0,
        time_limit: None,
        info: b"",
    };
    Ok((name, hello.encode()))
}

fn ticket(place: &MeetingPlace) -> Result<client::Invitation> {
    Ok(match place {
        MeetingPlace::Id(id) => id::decode(id)?,
        MeetingPlace::Derived(place) => {
            let (name, secret) = (place.name.clone(), frame::Secret(place.secret));
            client::Invitation { name, serial: 0, secret, creator: None }
        }
    })
}
