//! The beginning and the end of a communicator.

use super::calls::scaled;
use super::communicator::CommCore;
use super::config::Config;
use super::joining;
use super::mailbox;
use super::onesided::deferred_free::DeferredFree;
use super::onesided::shmem;
use super::registry::{self, CommHandle};
use super::shared::Origin;
use crate::bootstrap::{self, MeetingPlace, UniqueId, launcher};
use crate::error::{Error, Result};
use crate::planner::Planner;
use crate::sync::prim::Ordering;
use crate::sys::{background, interrupt};
use crate::timing::Timing;
use crate::transport::JOINING;
use crate::types::{MAX_RANKS, Rank};
use attach::attach;
use entrance::Entrance;
use meeting::{Met, PreparedRank};
use pending::PendingInit;
use std::sync::Arc;

/// Joins the communicator that `id` names.
pub(super) fn init_rank(nranks: i32, id: &UniqueId, rank: i32, config: &Config) -> Result<CommHandle> {
    let (rank, nranks) = check_ranks(rank, nranks)?;
    registered(&Entrance::of(MeetingPlace::Id(*id), rank, nranks, config))
}

/// Makes a communicator and its handle.
fn registered(entrance: &Entrance<'_>) -> Result<CommHandle> {
    let refuse = |e: &Error| bootstrap::refuse(&entrance.place, entrance.rank, entrance.nranks, e);
    let handle = registry::reserve().inspect_err(refuse)?;
    settle(handle, entrance).map(|()| handle)
}

/// Join, and put the communicator behind its reserved handle.
fn settle(handle: CommHandle, entrance: &Entrance<'_>) -> Result<()> {
    join(handle, entrance).map(registry::fill).inspect_err(|_| registry::release(handle))
}

/// Joins the communicator of all processes of this launch.
pub(super) fn init_from_env(config: &Config) -> Result<CommHandle> {
    let launched = launcher::from_env()?;
    let (rank, nranks) = check_ranks(launched.rank as i32, launched.nranks as i32)?;
    let device = launched.local_rank.unwrap_or(rank);
    if !config.blocking {
        return pending::begin(PendingInit::at(launched.place, rank, nranks, device, config)?);
    }
    registered(&Entrance { device, ..Entrance::of(launched.place, rank, nranks, config) })
}

/// `n` ranks in this process.
pub(super) fn init_all(n: i32) -> Result<Vec<CommHandle>> {
    if n < 1 || n as u32 > MAX_RANKS {
        return Err(Error::argument(format!("ndev is {n}; it must be from 1 to {MAX_RANKS}")));
    }
    let id = bootstrap::create_id()?;
    let mut ranks: Vec<i32> = (0..n).collect();
    let joined = background::at_once("penny-init", &mut ranks, |r| init_rank(n, &id, *r, &Config::default()));
    let joined = joined.map_err(|e| {
        Error::system(format!("no thread for one of {n} ranks: {e}; check `ulimit -u`, or make fewer ranks"))
    })?;
    let joined: Vec<Result<CommHandle>> =
        joined.into_iter().map(|r| r.unwrap_or_else(|_| Err(Error::internal("a rank panicked")))).collect();
    if let Some(Err(e)) = joined.iter().find(|j| j.is_err()) {
        let e = e.clone();
        joined.into_iter().flatten().for_each(|h| drop(destroy(h)));
        return Err(e);
    }
    joined.into_iter().collect()
}

pub(super) fn check_ranks(rank: i32, nranks: i32) -> Result<(Rank, u32)> {
    if nranks < 1 || nranks as u32 > MAX_RANKS {
        return Err(Error::argument(format!("nranks is {nranks}; it must be from 1 to {MAX_RANKS}")));
    }
    if rank < 0 || rank >= nranks {
        return Err(Error::no_rank("rank", rank, nranks as u32));
    }
    Ok((rank as Rank, nranks as u32))
}

/// Meets the others and joins them. If this rank cannot join, the others are told the reason.
fn join(handle: CommHandle, entrance: &Entrance<'_>) -> Result<CommCore> {
    let refuse = |e: &Error| bootstrap::refuse(&entrance.place, entrance.rank, entrance.nranks, e);
    told::warn_of_misspelt_variables(entrance.rank);
    let prepared = PreparedRank::new(entrance).inspect_err(refuse)?;
    let name = &entrance.config.name;
    let entered = enter(prepared, handle, entrance).inspect(|joined| told::joined(joined, &entrance.place));
    entered.map_err(|e| match name.is_empty() {
        true => e,
        false => e.with_message(format!("communicator {name}: {}", e.message)),
    })
}

fn enter(prepared: PreparedRank, handle: CommHandle, entrance: &Entrance<'_>) -> Result<CommCore> {
    let &Entrance { rank, nranks, .. } = entrance;
    let card = prepared.introduction.card;
    let met = match entrance.place.is_of_hosts() {
        true => hosts::meet(prepared, entrance)?,
        false => prepared.meet(entrance)?,
    };
    let Met { presence, settings, machine, founded, clock_segment, profile, transport, membership } = met;
    die_point!(84 "join_kept");
    let joined = membership.and_then(|membership| {
        let watch = || (entrance.watch)().and_then(|()| presence.check());
        // The server may know why a rank gave up that has only said that it did.
        let why = |e| presence.last_check().err().unwrap_or(e);
        attach(&transport, card, &watch, &why)?;
        die_point!(89 "attach_all");
        let first_of = match transport.host_numbers() {
            [] => vec![0; nranks as usize],
            numbers => numbers.to_vec(),
        };
        let placement = declared::stand(founded, machine, clock_segment, rank, &first_of)?;
        if let meeting::Presence::Hosts(lifeline) = &presence {
            let participant = placement.as_ref().map(|placement| placement.participant());
            if let Some(participant) = participant {
                let pid = |rank: Rank| transport.lines(rank).life(rank).pid.load(Ordering::Relaxed);
                (0..nranks).for_each(|rank| participant.note_process(rank, pid(rank)));
            }
            lifeline.carry(participant);
            presence.check()?;
        }
        Ok((membership, placement))
    });
    die_point!(90 "join_placed");
    let (membership, placement) = match joined {
        Ok(joined) => {
            presence.joined();
            die_point!(91 "join_over");
            joined
        }
        Err(e) => {
            // First why, for those who are still here, then that, for those who went on.
            presence.give_up(&e);
            transport.fail(JOINING);
            return Err(e);
        }
    };
    let own_cores = transport.single_copy().has_own_cores();
    let selection = settings.selection.with_profile(profile.map(Arc::new)).with_own_cores(own_cores);
    let planner = Planner::new(rank, nranks, selection).on_hosts(transport.host_numbers());
    let planner = declared::planner(planner, &transport, placement.as_ref());
    let world = (0..nranks).collect();
    let origin = Origin { config: entrance.config.clone(), parent_ranks: None, root: handle, world };
    let timing = Timing::new(transport, placement, &origin.world);
    Ok(CommCore::new(handle, timing, membership, planner, entrance.device, origin, settings.zero_copy_from))
}

/// Frees a communicator: others learn that this rank has left.
pub(super) fn destroy(handle: CommHandle) -> Result<()> {
    if let Some(ended) = joining::destroy(handle) {
        return ended;
    }
    // It waits for what was queued on streams.
    registry::enter(handle, |c| c.shared.refuse_forked())?;
    let (mut communicator, told) = part(registry::remove(handle)?);
    if communicator.broken().is_err() {
        communicator.registered.keep_mapped(communicator.transport.clone());
    }
    end(communicator);
    told
}

/// Drops a communicator that this rank has left. Memory that peers may access yet may keep its transport, which keeps nothing else.
fn end(communicator: CommCore) {
    let transport = Arc::downgrade(&communicator.transport);
    drop(communicator);
    if let Some(transport) = transport.upgrade() {
        transport.end_kept();
    }
}

/// Makes all ranks' calls fail, gets our own thread out of its call, and frees the communicator; in a thread's interrupt check
/// it is not freed.
pub(super) fn abort(handle: CommHandle) -> Result<()> {
    if joining::abort(handle) {
        return Ok(());
    }
    let shared = registry::shared(handle)?;
    shared.refuse_forked()?;
    shared.abort();
    if interrupt::is_asking() {
        // This thread may be inside a call on the communicator, and would wait for itself.
        return Ok(());
    }
    registry::remember_abort(handle);
    let (mut communicator, _) = part(registry::remove_aborted(handle)?);
    communicator.registered.keep_mapped(communicator.transport.clone());
    end(communicator);
    Ok(())
}

/// Ends what hangs on a communicator that was taken out, and leaves it. With it, what was left in its semaphores and what its ranks
/// disagreed on.
fn part(mut communicator: CommCore) -> (CommCore, Result<()>) {
    let handle = communicator.handle();
    if communicator.is_held {
        // Polled calls may be in progress. No thread is inside them that could tell the others that the buffers are the program's
        // again.
        let aborted = communicator.transport.check_abort().err();
        communicator.end_with(
            &aborted.unwrap_or_else(|| Error::internal("a communicator was removed during a call")),
        );
    }
    die_point!(60 "leave_begun");
    mailbox::forget(handle);
    scaled::forget(handle);
    shmem::forget();
    let semaphores = communicator.semaphores_left();
    let told = communicator.report_last_mismatch(semaphores);
    communicator.semaphores_close().into_iter().for_each(DeferredFree::keep);
    communicator.symmetric_close();
    communicator.transport.leave();
    communicator.transport.end_threads();
    (communicator, told)
}
mod attach;
mod child;
pub(in crate::comm) mod declared;
mod entrance;
#[cfg(test)]
pub(in crate::comm) mod given;
pub(in crate::comm) mod grow;
mod hosts;
pub(in crate::comm) mod introduction;
pub(in crate::comm) mod lifeline;
mod linked_child;
mod meeting;
mod parent_watch;
pub(in crate::comm) mod pending;
pub(in crate::comm) mod shrink;
pub(in crate::comm) mod split;
pub(in crate::comm) mod team;
mod told;
