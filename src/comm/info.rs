//! What `PENNY_DEBUG=info` tells of a communicator: who joined it, and how each new call is made.

use super::communicator::CommCore;
use crate::algorithms;
use crate::bootstrap::{MeetingPlace, launcher};
use crate::env;
use crate::log;
use crate::sys::{cpu, process};
use crate::transport::arrival::Offer;
use crate::types::{Collective, Rank};
use std::sync::Once;

/// Tells that a rank has joined a communicator that its processes met for.
pub(super) fn joined(c: &CommCore, place: &MeetingPlace) {
    if !log::tells_info() {
        return;
    }
    let (rank, nranks, near) = (c.rank(), c.nranks(), c.transport.near_ranks());
    let met = match place {
        MeetingPlace::Id(_) => "by a unique id",
        _ => launcher::name().unwrap_or("by the launcher's variables"),
    };
    let hosts = if near < nranks { format!(", {near} of them on this host") } else { String::new() };
    let machine =
        c.timing().network().map_or(String::new(), |machine| format!(", on the machine {}", machine.name));
    log::info(
        rank,
        format_args!(
            "Penny {}: PID {}, one of {nranks} ranks{hosts}, started {met}; {} cores ({}){machine}",
            env!("CARGO_PKG_VERSION"),
            process::pid(),
            cpu::usable_cores(),
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

/// Tells how a call is made that the planner has newly decided about, on the word of `by`.
#[cold]
pub(super) fn decided(
    rank: Rank,
    collective: Collective,
    bytes: u64,
    algorithm: usize,
    by: &str,
    offer: &Offer,
) {
    let way = match offer {
        Offer { payload: true, .. } => "the data travel with the announcement of the call",
        Offer { private: true, .. } => "peers read the private input through the kernel",
        Offer { input: Some(_), output: Some(_), .. } => "peers reach both buffers, nothing is staged",
        Offer { input: Some(_), .. } => "peers reach the input; the output is private",
        Offer { output: Some(_), .. } => "peers reach the output; the private input is staged",
        _ => "private buffers, staged through shared memory",
    };
    let name = algorithms::ALL[algorithm].name;
    log::info(rank, format_args!("{collective} of {bytes} bytes by {name}, says {by}; {way}"));
}
