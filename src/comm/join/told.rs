//! What a rank says when it joins: who it is, if `PENNY_DEBUG` is `info`, and which variables are misspelt.

use crate::bootstrap::{MeetingPlace, launcher};
use crate::comm::communicator::CommCore;
use crate::env;
use crate::log;
use crate::sys::{cpu, process};
use crate::types::Rank;
use std::sync::Once;

/// Tells that a rank has joined a communicator that its processes met for.
pub(super) fn joined(c: &CommCore, place: &MeetingPlace) {
    if !log::tells_info() {
        return;
    }
    let (rank, nranks, near) = (c.rank(), c.nranks(), c.transport.near_ranks());
    let met = match place {
        MeetingPlace::Id(_) => "joined by a unique id".into(),
        _ => format!("started by {}", launcher::name().unwrap_or("a launcher")),
    };
    let hosts = if near < nranks { format!(", {near} of them on this host") } else { String::new() };
    let machine =
        c.timing().network().map_or(String::new(), |machine| format!(", on the machine {}", machine.name));
    log::info(
        rank,
        format_args!(
            "Penny {}: PID {}, one of {nranks} ranks{hosts}, {met}; on core{} {}{machine}",
            env!("CARGO_PKG_VERSION"),
            process::pid(),
            if cpu::usable_cores() == 1 { "" } else { "s" },
            cpu::names_of_usable(),
        ),
    );
}

/// Warns once of variables that look like misspelt ones of Penny's, whatever `PENNY_DEBUG` is: they would do nothing, silently.
pub(super) fn warn_of_misspelt_variables(rank: Rank) {
    static ONCE: Once = Once::new();
    if rank == 0 {
        ONCE.call_once(|| {
            for (name, meant) in env::misspelt() {
                log::always(
                    rank,
                    format_args!("{name} is set, which is no variable of Penny; did you mean {meant}?"),
                );
            }
        });
    }
}
