//! Sentences of a rank that does not come to a meeting.

use std::io;

use super::Hello;
use super::invitation::Invitation;
use super::network::door::Attempts;
use super::who::Who;
use crate::error::Error;
use crate::sys::credentials::descriptor_limit;
use crate::sys::socket;

/// The server was there, and is gone.
pub fn host_gone(ticket: &Invitation, host: Who) -> Error {
    Error::remote(match ticket.creator {
        None => format!(
            "rank 0 ({host}), where the ranks meet, died or left before all ranks had met; see why it ended, and start all ranks \
             again"
        ),
        Some(_) => format!(
            "{host}, which made the unique id (as a rule rank 0) and where the ranks meet, died or left before all ranks had met; \
             see why it ended, and pass all ranks a new id of a process that lives until they have met"
        ),
    })
}

/// The server was found, and does not let this rank in, or is not reached any more.
pub fn no_meeting(ticket: &Invitation, hello: &Hello<'_>, attempts: &Attempts) -> Error {
    let (rank, tried) = (hello.rank, attempts.text());
    let remedy = match (attempts.is_unknown(), ticket.creator) {
        _ if attempts.are_unreachable() => {
            "it was reached before, so its network is cut or its process has ended: mend that, and start all ranks again"
        }
        (true, Some(_)) => "each id makes one communicator, of a process that lives: make a new id",
        _ => "hand all bytes of one id to all ranks, or the same PENNY_SECRET",
    };
    Error::remote(format!(
        "rank {rank} cannot join the meeting of the ranks: tried {tried}; {remedy}{}",
        attempts.hint()
    ))
}

/// What to do where a process of Penny has another secret.
const OTHER_SECRET: &str = "give all ranks the same PENNY_SECRET; if they have it, another job uses these ports: choose others by \
                            MASTER_PORT or PENNY_PORTS, the same for all ranks";

/// What a rank says that is refused for its secret, and goes on: rank 0 may come yet.
pub fn refused_so_far(attempts: &Attempts) -> String {
    format!("cannot join the meeting of the ranks so far: tried {}; {OTHER_SECRET}", attempts.text())
}

/// The server has not come, or cannot be reached, within `seconds`.
pub fn nobody_opens(
    ticket: &Invitation,
    hello: &Hello<'_>,
    host: Option<Who>,
    astray: Option<Attempts>,
    seconds: f64,
) -> Error {
    let (rank, nranks) = (hello.rank, hello.nranks);
    Error::timeout(match (host, astray) {
        (Some(host), _) => {
            format!(
                "{host}, where the ranks meet, has not heard rank {rank} within {seconds} s: it is flooded, or ends"
            )
        }
        (None, Some(attempts)) => format!(
            "rank {rank} has not reached {}{}, where the {nranks} ranks meet, within {seconds} s: tried {}; {}{}",
            if ticket.creator.is_some() { "the process that made the unique id" } else { "rank 0" },
            ticket.at(),
            attempts.text(),
            match attempts.is_refused() {
                true => OTHER_SECRET.to_owned(),
                false => format!(
                    "check that it was started and reaches this call, and that the network lets rank {rank} through to that port \
                     (PENNY_NET_IFACES chooses the interfaces, PENNY_PORTS the ports), or raise the timeout"
                ),
            },
            attempts.hint()
        ),
        (None, None) => format!(
            "rank 0 of {nranks}, where the ranks meet, has not come after {seconds} s (the timeout of rank {rank}); check that \
             it was started, reaches this call and runs in the same network namespace, or raise the timeout"
        ),
    })
}

/// This process has no socket.
pub fn no_socket(error: io::Error) -> Error {
    if socket::out_of_descriptors(&error) {
        return Error::system(format!(
            "no file descriptor left to meet the other ranks: this process's limit is {}; raise it with `ulimit -n`",
            descriptor_limit()
        ));
    }
    Error::system(format!("cannot meet the other ranks over a local socket: {error}"))
}
