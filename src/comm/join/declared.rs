//! A communicator's ranks find their places on the declared machine.

use crate::error::{Error, Result};
use crate::fabric::live::clock_segment::ClockSegment;
use crate::fabric::live::{CallSpec, Machine, Participant, Placement};
use crate::planner::{self, JudgeRequest, Planner};
use crate::transport::Transport;
use crate::types::Rank;
use std::fs::File;
use std::sync::Arc;

/// Makes the participant of the first rank of a host, and the clock segment for the ranks there; fails if the ranks do not fit the machine.
/// `first_of`: by rank, the first rank of its host.
pub(in crate::comm) fn found(
    machine: Option<&Machine>,
    rank: Rank,
    first_of: &[Rank],
) -> Result<Option<Participant>> {
    let Some(machine) = machine else { return Ok(None) };
    planner::check_protocols(&machine.network)?;
    let nranks = first_of.len() as u32;
    machine.network.places(nranks).map_err(|e| Error::argument(format!("PENNY_FABRIC: {e}")))?;
    let is_first = first_of[rank as usize] == rank;
    is_first.then(|| Participant::found(machine.clone(), first_of, rank, planner::programs)).transpose()
}

/// Places ranks without a parent on a machine: the first of each host makes the clock segment, the others join it. `first_of`: as above.
pub(in crate::comm) fn stand(
    founded: Option<Participant>,
    machine: Option<Machine>,
    clock_segment: Option<File>,
    rank: Rank,
    first_of: &[Rank],
) -> Result<Option<Placement>> {
    let nranks = first_of.len() as u32;
    let participant = match (founded, machine) {
        (Some(participant), _) => participant,
        (None, None) => return Ok(None),
        (None, Some(machine)) => {
            let file =
                clock_segment.ok_or_else(|| Error::internal("the meeting ended without a clock segment"))?;
            let clock_segment = ClockSegment::open(file, nranks, machine.network.ports.len() as u32)?;
            Participant::join(clock_segment, machine, first_of, rank, planner::programs)?
        }
    };
    Placement::root(Arc::new(participant), nranks).map(Some)
}

/// Two ranks do not declare the same.
pub(in crate::comm) fn unlike(rank: Rank, machine: Option<&Machine>, peer: Rank) -> Error {
    let declared =
        machine.map_or("no machine".to_owned(), |machine| format!("{} ({})", machine.spec, machine.clock));
    Error::usage(format!(
        "rank {rank} declares {declared}, rank {peer} something else; PENNY_FABRIC must be the same on all ranks, and \
         PENNY_FABRIC_CLOCK too"
    ))
}

/// Adapts a planner to the declared machine, if there is one: it prices algorithms there, and waits end when no call can
/// end there any more.
pub(in crate::comm) fn planner(
    planner: Planner,
    transport: &Transport,
    placement: Option<&Placement>,
) -> Planner {
    let Some(placement) = placement else { return planner };
    let (participant, places) = (placement.participant().clone(), placement.places().clone());
    let alarmed = participant.clone();
    transport.set_alarm(Box::new(move || {
        alarmed.watch_own();
        alarmed.check()
    }));
    planner.on_machine(
        placement.arrangement().clone(),
        Box::new(move |view, algorithm, block, wanted| {
            let (asked, least_ps) = match wanted {
                JudgeRequest::Asked => (true, None),
                JudgeRequest::Quicker(least_ps) => (false, least_ps),
            };
            let name = planner::name_of(algorithm);
            participant.quickest(&CallSpec::of(view, algorithm as u8, block), name, &places, asked, least_ps)
        }),
    )
}
