//! Calls without a program that read their peers' inputs where these lie.
//!
//! ```text
//!     copied      rank 0 --copy--> payload --line--> | read by rank 1       one synchronisation
//!     borrowed    input of rank 0 ---------- line--> | read by rank 1 --counter--> rank 0 leaves
//! ```
//!
//! An input in a shared heap is not copied behind the arrival line from a size on ([`lends`]): its rank offers the place, and leaves
//! the call when the program counters of all its readers say that they have read (docs/decisions/0090). Ranks with private buffers
//! go on sending copies, in the same call.

use super::small_vec::SmallVec;
use super::{PreparedCall, direct};
use crate::error::Result;
use crate::memory::view::Payload;
use crate::transport::{Scope, Transport, counter_end};
use crate::types::{Collective, Rank};

/// Bytes of an input that some ranks read, from which on it is not copied.
const LENT_TO_SOME: usize = 4 << 10;
/// The same where each rank reads the inputs of all: all wait for all once more.
const LENT_TO_ALL: usize = 8 << 10;
/// The same where ranks share cores: to wait for a reader takes longer there than a copy of less.
const LENT_ON_SHARED_CORES: usize = 32 << 10;

/// Tells whether ranks lend their inputs where peers can reach these. All ranks tell the same. `own_cores`: each has a core of its own.
#[inline]
pub fn lends(collective: Collective, nranks: u32, block_bytes: usize, own_cores: bool) -> bool {
    let least = match collective {
        Collective::AllReduce | Collective::Barrier => return false,
        _ if nranks == 1 => return false,
        _ if !own_cores => LENT_ON_SHARED_CORES,
        _ if collective.everybody() => LENT_TO_ALL,
        _ => LENT_TO_SOME,
    };
    // A rank reads its own block itself.
    let for_others = (collective.blocks_in(0, nranks, 0) - 1).max(1) as usize;
    for_others * block_bytes >= least
}

/// Takes the peers' data, of which some lie in their heaps. All that this rank reads have arrived.
#[inline(never)]
pub(super) fn take(t: &Transport, scope: &mut Scope, job: &PreparedCall<'_>, early: bool) -> Result<()> {
    let mut inputs = SmallVec::new(Payload::EMPTY);
    for r in 0..t.nranks() {
        inputs.push(input_from(r, t, scope, job)?);
    }
    direct::take(t, job, early, |r| inputs.as_slice()[r as usize]);
    t.check_borrowed_in(scope.seq)?;
    die_point!(18 "borrowed_read");
    t.publish(counter_end(scope.seq));
    Ok(())
}

/// Returns what this rank reads of the input of a rank.
fn input_from<'v>(
    r: Rank,
    t: &'v Transport,
    scope: &mut Scope,
    job: &PreparedCall<'v>,
) -> Result<Payload<'v>> {
    if !is_read_by(t.rank(), r, job) {
        return Ok(Payload::EMPTY);
    }
    if r == t.rank() {
        return Ok(direct::read_of(job.input, t, job));
    }
    let offer = t.meet(r, scope)?;
    match offer.input.filter(|_| !offer.payload) {
        Some(at) => {
            let input = t.heap(r, at, direct::input_bytes(job, t.nranks()))?;
            Ok(direct::read_of(input, t, job))
        }
        None => Ok(direct::payload_from(r, t, scope, job)),
    }
}

/// Tells whether a rank reads the input of another.
fn is_read_by(reader: Rank, rank: Rank, job: &PreparedCall<'_>) -> bool {
    match job.collective {
        Collective::Reduce | Collective::Gather => reader == job.root,
        Collective::Broadcast | Collective::Scatter => rank == job.root,
        _ => true,
    }
}

/// Waits for all that read this rank's input, if it was lent, and tells that its part of the call is over.
pub fn await_readers(t: &Transport, scope: &mut Scope, job: &PreparedCall<'_>) -> Result<()> {
    if !job.offer.payload {
        die_point!(19 "borrowed_wait");
        scope.arrival_is_all = false;
        for r in (0..t.nranks()).filter(|&r| r != t.rank() && is_read_by(r, t.rank(), job)) {
            t.await_counter(r, counter_end(scope.seq), scope)?;
        }
    }
    t.publish_quietly(counter_end(scope.seq));
    Ok(())
}
