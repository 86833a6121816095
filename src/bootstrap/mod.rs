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
//! `client` knocks by an `invitation` (or has its `excuses`), `server` serves its `rank_connection`s, `rendezvous` decides, `frame` is what they say; `id` makes ids,
//! [`launcher`] finds out from the environment who we are and where to meet, and `published` what rank 0 has told through the launcher.

#![forbid(unsafe_code)]

mod ancestry;
mod attendance;
mod client;
mod connection;
mod excuses;
mod expected_meetings;
mod frame;
mod id;
mod invitation;
pub mod launcher;
mod network;
mod published;
mod rank_connection;
mod rendezvous;
mod server;
#[cfg(test)]
mod tests;
mod verdict;
mod who;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
pub use attendance::{Attendance, Heard};
pub use frame::MAX_INFO;
pub use id::{create_id, create_id_for_hosts};
use invitation::{Door, Invitation};
pub use network::place::{HostsPlace, carrier, rails, reachable, silence, this_host};
pub use published::PublishedPlace;
pub use who::Who;

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
    /// The same for a job whose ranks run on several hosts.
    Hosts(HostsPlace),
    /// The same where rank 0 publishes through the launcher where that is.
    Published(PublishedPlace),
}

impl MeetingPlace {
    /// Tells whether ranks of several hosts may meet there.
    pub fn is_of_hosts(&self) -> bool {
        match self {
            MeetingPlace::Id(id) => id::is_of_hosts(id),
            MeetingPlace::Derived(_) => false,
            MeetingPlace::Hosts(_) | MeetingPlace::Published(_) => true,
        }
    }
}

/// A place that every rank of a job computes for itself.
#[derive(Clone, PartialEq, Eq)]
pub struct DerivedPlace {
    name: Vec<u8>,
    secret: [u8; 16],
}

impl DerivedPlace {
    /// Makes the place of the ranks of one host of a job on several, from what its first rank has told all others: nobody else
    /// can guess it.
    pub fn of_host(told: &[u8; 32]) -> DerivedPlace {
        let (name, secret) = told.split_at(16);
        let name = name.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        DerivedPlace {
            name: format!("penny/host/{name}").into_bytes(),
            secret: std::array::from_fn(|i| secret[i]),
        }
    }
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
    if let MeetingPlace::Published(published) = place {
        let place = MeetingPlace::Hosts(published.resolve(hello.rank, timeout, watch)?);
        return meet(&place, hello, timeout, each, watch);
    }
    let until = || timeout.and_then(|t| Instant::now().checked_add(t));
    let invitation = match place {
        MeetingPlace::Derived(derived) if hello.rank == 0 => {
            serve(place, derived, hello, until())?;
            invitation(place)?
        }
        MeetingPlace::Hosts(hosts) if hello.rank == 0 => hosts.serve(until())?,
        _ => invitation(place)?,
    };
    client::meet(&invitation, hello, timeout, each, watch)
}

/// Serves the meeting of a derived place, as rank 0.
fn serve(
    place: &MeetingPlace,
    derived: &DerivedPlace,
    hello: &Hello<'_>,
    until: Option<Instant>,
) -> Result<()> {
    match server::start(&derived.name, frame::Secret(derived.secret), until) {
        Ok(_) => Ok(()),
        // Another process claims to be rank 0, or belongs to another user: the visit finds out which.
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Ok(()),
        Err(e) => {
            let e = Error::system(format!(
                "rank 0 cannot serve the meeting of the ranks: {e}; check `ulimit -u` and `ulimit -n`"
            ));
            refuse(place, hello.rank, hello.nranks, &e);
            Err(e)
        }
    }
}

/// Tells all others that a rank cannot join, and why: they would wait for it until their deadline.
pub fn refuse(place: &MeetingPlace, rank: u32, nranks: u32, why: &Error) {
    let verdict = || {
        Error::remote(format!(
            "rank 0 (PID {}), where the ranks meet, cannot join: {}",
            std::process::id(),
            why.message
        ))
    };
    match place {
        MeetingPlace::Derived(derived) if rank == 0 => {
            let (name, secret, verdict) = (derived.name.clone(), frame::Secret(derived.secret), verdict());
            let serve = move || server::refuse(&name, secret, nranks, verdict.clone());
            if let Err(e) = serve()
                && crate::sys::socket::out_of_descriptors(&e)
            {
                let _ = crate::sys::background::with_free_descriptors(serve);
            }
        }
        MeetingPlace::Hosts(hosts) if rank == 0 => hosts.refuse(nranks, verdict()),
        MeetingPlace::Published(published) => {
            // The others may wait for what rank 0 publishes.
            if let Ok(hosts) = published.resolve(rank, Some(verdict::LINGER), &|| Ok(())) {
                refuse(&MeetingPlace::Hosts(hosts), rank, nranks, why);
            }
        }
        _ => {
            if let Ok(invitation) = invitation(place) {
                client::refuse(&invitation, &Hello { rank, nranks, info: &[], fds: &[] }, why);
            }
        }
    }
}

/// The name of the socket where an id leads, and what a rank without memory says there first. For tests that say it as
/// another user.
#[cfg(feature = "internals")]
pub fn first_words(id: &UniqueId, rank: u32, nranks: u32) -> Result<(Vec<u8>, Vec<u8>)> {
    let Invitation { door: Door::Local(name), serial, secret, .. } = id::decode(id)? else {
        return Err(Error::argument("the id is for several hosts, which meet at no local socket"));
    };
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

fn invitation(place: &MeetingPlace) -> Result<Invitation> {
    Ok(match place {
        MeetingPlace::Hosts(hosts) => hosts.invitation(),
        MeetingPlace::Published(_) => return Err(Error::internal("a place that was not resolved")),
        MeetingPlace::Id(id) => id::decode(id)?,
        MeetingPlace::Derived(place) => {
            let (name, secret) = (place.name.clone(), frame::Secret(place.secret));
            Invitation { door: Door::Local(name), serial: 0, secret, creator: None }
        }
    })
}
