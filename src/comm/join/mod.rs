//! The beginning and the end of a communicator.

use super::calls::scaled;
use super::communicator::CommCore;
use super::config::{Config, MOST_STAGING, Settings};
use super::host_profile;
use super::joining;
use super::mailbox;
use super::onesided::deferred_free::DeferredFree;
use super::onesided::shmem;
use super::registry::{self, CommHandle};
use super::shared::Origin;
use crate::bootstrap::{self, Hello, MeetingPlace, StopCheck, UniqueId, launcher};
use crate::error::{Error, Result};
use crate::fabric::live::{Machine, Participant};
use crate::memory::control::{Control, Layout};
use crate::memory::heap::{self, PeerHeap};
use crate::planner::Planner;
use crate::planner::profile::HostProfile;
use crate::sync::wait::Backoff;
use crate::sys::{background, cpu, interrupt, keeper, process};
use crate::timing::Timing;
use crate::transport::identity::{self, Identity};
use crate::transport::threads::RankThreads;
use crate::transport::{JOINING, Transport};
use crate::types::{MAX_RANKS, Rank};
use attach::attach;
use introduction::Introduction;
use pending::PendingInit;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

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
pub(super) fn settle(handle: CommHandle, entrance: &Entrance<'_>) -> Result<()> {
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
        return Err(Error::argument(format!("ndev is {n}; it must be in 1..={MAX_RANKS}")));
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
        return Err(Error::argument(format!("nranks is {nranks}; it must be in 1..={MAX_RANKS}")));
    }
    if rank < 0 || rank >= nranks {
        return Err(Error::argument(format!("rank {rank} is not in 0..{nranks}")));
    }
    Ok((rank as Rank, nranks as u32))
}

/// The parameters with which a rank joins.
pub(super) struct Entrance<'a> {
    pub place: MeetingPlace,
    pub rank: Rank,
    pub nranks: u32,
    /// The caller's index on its machine.
    pub device: u32,
    pub config: &'a Config,
    /// The check that runs while the rank waits for the others.
    pub watch: StopCheck<'a>,
}

impl<'a> Entrance<'a> {
    pub(super) fn of(place: MeetingPlace, rank: Rank, nranks: u32, config: &'a Config) -> Entrance<'a> {
        Entrance { place, rank, nranks, device: rank, config, watch: &|| Ok(()) }
    }
}

/// Meets the others and joins them. If this rank cannot join, the others are told the reason.
pub(super) fn join(handle: CommHandle, entrance: &Entrance<'_>) -> Result<CommCore> {
    let refuse = |e: &Error| bootstrap::refuse(&entrance.place, entrance.rank, entrance.nranks, e);
    let prepared = Prepared::new(entrance).inspect_err(refuse)?;
    let name = &entrance.config.name;
    prepared.enter(handle, entrance).map_err(|e| match name.is_empty() {
        true => e,
        false => e.with_message(format!("communicator {name}: {}", e.message)),
    })
}

/// The resources that a rank needs before it meets the others.
struct Prepared {
    settings: Settings,
    machine: Option<Machine>,
    heap: &'static heap::Heap,
    /// Rank 0's.
    control: Option<Control>,
    founded: Option<Participant>,
    /// Rank 0's, for all.
    profile: Option<HostProfile>,
    introduction: Introduction,
}

impl Prepared {
    fn new(entrance: &Entrance<'_>) -> Result<Prepared> {
        let &Entrance { rank, nranks, config, .. } = entrance;
        let settings = Settings::read(config, false)?;
        let machine = settings.machine.clone();
        let heap = heap::mine()?;
        keeper::prepare()?;
        let staging = settings.staging_bytes(nranks, machine.is_some());
        let layout = || Layout::new(nranks, staging as usize);
        let control = (rank == 0).then(|| Control::create(layout())).transpose()?;
        let founded = declared::found(settings.machine.as_ref(), rank, nranks)?;
        let profiled = rank == 0 && nranks > 1 && machine.is_none();
        let profile = if profiled { host_profile::of_rank_0() } else { None };
        let introduction = Introduction {
            heap: heap.id(),
            heap_bytes: heap.bytes() as u64,
            card: process::card(),
            staging,
            machine: machine.as_ref().map_or(0, Machine::word),
        };
        Ok(Prepared { settings, machine, heap, control, founded, profile, introduction })
    }

    fn enter(self, handle: CommHandle, entrance: &Entrance<'_>) -> Result<CommCore> {
        let Prepared { settings, machine, heap: own_heap, control, founded, mut profile, introduction } =
            self;
        let &Entrance { rank, nranks, .. } = entrance;
        let info = introduction.encode(profile.as_ref());
        let mut fds = vec![own_heap.file().as_fd()];
        fds.extend(control.as_ref().map(|c| c.file().as_fd()));
        fds.extend(founded.as_ref().map(|participant| participant.clock_segment().file().as_fd()));
        let hello = Hello { rank, nranks, info: &info, fds: &fds };
        let mut peers: Vec<Option<(Arc<PeerHeap>, Introduction)>> = (0..nranks).map(|_| None).collect();
        let mut opened: Option<Control> = None;
        let mut clock_segment: Option<File> = None;
        let (own_machine, mut unlike) = (introduction.machine, None);
        let timeout = (settings.timeout_ns != 0).then(|| Duration::from_nanos(settings.timeout_ns));
        let mut each = |peer: u32, info: &[u8], fds: Vec<OwnedFd>| {
            let faulty = || {
                Error::remote(format!(
                    "rank {peer} introduced itself wrongly; are all ranks using one libpenny?"
                ))
            };
            let faulty_memory = |e: Error| {
                Error::new(e.code, format!("what rank {peer} shares cannot be mapped: {}", e.message))
            };
            let introduction = Introduction::decode(info).ok_or_else(faulty)?;
            if introduction.machine != own_machine {
                unlike.get_or_insert(peer);
            }
            if peer == 0 {
                profile = Introduction::decode_profile(info).ok_or_else(faulty)?;
            }
            let mut fds = fds.into_iter().map(File::from);
            let heap_file = fds.next().ok_or_else(faulty)?;
            if peer == 0 && rank != 0 {
                let file = fds.next().ok_or_else(faulty)?;
                let layout = Layout::new(nranks, introduction.staging.min(MOST_STAGING) as usize);
                opened = Some(Control::open(file, layout).map_err(faulty_memory)?);
                clock_segment = fds.next();
            }
            let heap_bytes = usize::try_from(introduction.heap_bytes).map_err(|_| faulty())?;
            let heap =
                heap::peer(introduction.heap, &heap_file, heap_bytes, nranks).map_err(faulty_memory)?;
            *peers.get_mut(peer as usize).ok_or_else(faulty)? = Some((heap, introduction));
            Ok(())
        };
        die_point!(80 "join_prepared");
        let attendance = bootstrap::meet(&entrance.place, &hello, timeout, &mut each, entrance.watch)?;
        die_point!(81 "join_met");
        let begun = move || {
            if let Some(peer) = unlike {
                return Err(declared::unlike(rank, machine.as_ref(), peer));
            }
            let control = control
                .or(opened)
                .ok_or_else(|| Error::internal("the meeting ended without rank 0's segment"))?;
            if peers[rank as usize].is_none() {
                peers[rank as usize] = Some((heap::own()?, introduction));
            }
            let mut heaps = Vec::with_capacity(nranks as usize);
            let mut identities = Vec::with_capacity(nranks as usize);
            for (r, peer) in peers.into_iter().enumerate() {
                let (heap, who) =
                    peer.ok_or_else(|| Error::internal(format!("the meeting ended without rank {r}")))?;
                heaps.push(heap);
                identities.push(Identity::new(who.card, introduction.card));
            }
            control.reserve_staging(rank)?;
            let control = Arc::new(control);
            let rivals = identity::rivals(&identities);
            let backoff = Backoff::for_ranks(rivals, settings.spins);
            let transport = Transport::new(control.clone(), rank, heaps, backoff, settings.timeout_ns);
            let transport = Arc::new(transport.with_threads(RankThreads::new(settings.threads)));
            transport.introduce(identities);
            transport.tell_single_copy(settings.single_copy, rivals <= cpu::usable_cores());
            let membership = control.keep(rank);
            Ok((transport, membership, clock_segment))
        };
        // ONE-WAY: from here on the others may count on this rank, so every way out either joins or tells them.
        let (transport, membership, clock_segment) = match begun() {
            Ok(begun) => begun,
            Err(e) => {
                attendance.give_up(&e);
                return Err(e);
            }
        };
        die_point!(84 "join_kept");
        let joined = membership.and_then(|membership| {
            let watch = || (entrance.watch)().and_then(|()| attendance.check());
            // The server may know why a rank gave up that has only said that it did.
            let why = |e| attendance.last_check().err().unwrap_or(e);
            attach(&transport, introduction.card, &watch, &why)?;
            die_point!(89 "attach_all");
            let placement = declared::stand(founded, settings.machine, clock_segment, rank, nranks)?;
            Ok((membership, placement))
        });
        die_point!(90 "join_placed");
        let (membership, placement) = match joined {
            Ok(joined) => {
                attendance.joined();
                die_point!(91 "join_over");
                joined
            }
            Err(e) => {
                // First why, for those who are still here, then that, for those who went on.
                attendance.give_up(&e);
                transport.fail(JOINING);
                return Err(e);
            }
        };
        let selection = settings.selection.with_profile(profile.map(Arc::new));
        let planner = Planner::new(rank, nranks, selection);
        let planner = declared::planner(planner, &transport, placement.as_ref());
        let world = (0..nranks).collect();
        let origin = Origin { config: entrance.config.clone(), parent_ranks: None, root: handle, world };
        let timing = Timing::new(transport, placement, &origin.world);
        Ok(CommCore::new(handle, timing, membership, planner, entrance.device, origin))
    }
}

/// Frees a communicator: others learn that this rank has left.
pub(super) fn destroy(handle: CommHandle) -> Result<()> {
    if let Some(ended) = joining::destroy(handle) {
        return ended;
    }
    // It waits for what was queued on streams.
    registry::enter(handle, |c| c.shared.refuse_forked())?;
    let (mut communicator, told) = part(handle)?;
    if communicator.broken().is_err() {
        communicator.registered.keep_mapped(communicator.transport.clone());
    }
    told
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
    let (mut communicator, _) = part(handle)?;
    communicator.registered.keep_mapped(communicator.transport.clone());
    Ok(())
}

/// Takes a communicator out, end what hangs on it, and leave. With it, what was left in its semaphores and what its ranks
/// disagreed on.
fn part(handle: CommHandle) -> Result<(CommCore, Result<()>)> {
    let mut communicator = registry::remove(handle)?;
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
    Ok((communicator, told))
}
mod attach;
mod child;
pub(in crate::comm) mod declared;
#[cfg(test)]
pub(in crate::comm) mod given;
pub(in crate::comm) mod grow;
pub(in crate::comm) mod introduction;
pub(in crate::comm) mod pending;
pub(in crate::comm) mod shrink;
pub(in crate::comm) mod split;
pub(in crate::comm) mod team;
