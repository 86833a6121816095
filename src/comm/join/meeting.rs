//! How the ranks of one host meet: each brings its heap, the first of them the control segment.

use super::declared;
use super::entrance::Entrance;
use super::introduction::Introduction;
use super::lifeline::Lifeline;
use crate::bootstrap::{self, Attendance, Hello, MeetingPlace, StopCheck};
use crate::comm::config::{MOST_STAGING, Settings};
use crate::comm::host_profile;
use crate::error::{Error, Result};
use crate::fabric::live::{Machine, Participant};
use crate::kernels::hints::Rotation;
use crate::memory::control::{Control, Layout, Membership, StagingKind};
use crate::memory::heap::{self, PeerHeap};
use crate::planner::profile::HostProfile;
use crate::sync::wait::Backoff;
use crate::sys::process::Card;
use crate::sys::{cpu, keeper, process};
use crate::transport::Transport;
use crate::transport::far::Far;
use crate::transport::identity::{self, Identity};
use crate::transport::rotation;
use crate::transport::threads::RankThreads;
use crate::types::Rank;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The resources that a rank needs before it meets the others.
pub(super) struct PreparedRank {
    pub settings: Settings,
    pub machine: Option<Machine>,
    pub heap: &'static heap::Heap,
    pub founded: Option<Participant>,
    /// Rank 0's, for all.
    pub profile: Option<HostProfile>,
    pub introduction: Introduction,
}

/// What a rank has once it has met the others.
pub(super) struct Met {
    pub presence: Presence,
    pub settings: Settings,
    pub machine: Option<Machine>,
    pub founded: Option<Participant>,
    pub clock_segment: Option<File>,
    pub profile: Option<HostProfile>,
    pub transport: Arc<Transport>,
    pub membership: Result<Membership>,
}

/// A rank's connection to the server until it has joined, or longer.
pub(super) enum Presence {
    /// Of ranks of one host.
    Local(Attendance),
    /// Of ranks of several.
    Hosts(Arc<Lifeline>),
}

impl Presence {
    /// Reads the verdict, if there is one: another rank has died or given up.
    pub fn check(&self) -> Result<()> {
        match self {
            Presence::Local(attendance) => attendance.check(),
            Presence::Hosts(lifeline) => lifeline.check(),
        }
    }

    /// Waits a moment for the verdict.
    pub fn last_check(&self) -> Result<()> {
        match self {
            Presence::Local(attendance) => attendance.last_check(),
            Presence::Hosts(lifeline) => lifeline.last_check(),
        }
    }

    /// Tells the server that this rank has joined.
    pub fn joined(self) {
        match self {
            Presence::Local(attendance) => attendance.joined(),
            Presence::Hosts(lifeline) => lifeline.tell_joined(),
        }
    }

    /// Tells all others that this rank gives up, and why.
    pub fn give_up(self, why: &Error) {
        match self {
            Presence::Local(attendance) => attendance.give_up(why),
            Presence::Hosts(lifeline) => lifeline.give_up(why),
        }
    }
}

/// What ranks that share memory have of each other once they have met.
pub(super) struct Gathered {
    pub attendance: Attendance,
    pub control: Arc<Control>,
    /// By rank of the communicator. This rank's own stands for one of another host, which none reaches.
    pub heaps: Vec<Arc<PeerHeap>>,
    /// Of the ranks that have met.
    pub cards: Vec<(Rank, Card)>,
    pub clock_segment: Option<File>,
    pub profile: Option<HostProfile>,
}

/// The ranks of one host that meet.
pub(super) struct Gathering<'a> {
    pub place: &'a MeetingPlace,
    /// Their ranks in the communicator; the first brings the control segment.
    pub ranks: &'a [Rank],
    pub rank: Rank,
    pub layout: Layout,
    pub watch: StopCheck<'a>,
}

impl PreparedRank {
    pub fn new(entrance: &Entrance<'_>) -> Result<PreparedRank> {
        let &Entrance { rank, nranks, config, .. } = entrance;
        let settings = Settings::read(config, false)?;
        let machine = settings.machine.clone();
        let heap = heap::mine()?;
        keeper::prepare()?;
        let rotate = rotation::here(nranks) == Rotation::All;
        let kind = StagingKind::of(entrance.place.is_of_hosts(), rotate);
        let staging = settings.staging_bytes(nranks, machine.is_some(), kind);
        // Ranks of several hosts learn first who is where.
        let founded = match entrance.place.is_of_hosts() {
            true => None,
            false => declared::found(settings.machine.as_ref(), rank, &vec![0; nranks as usize])?,
        };
        let profiled = rank == 0 && nranks > 1 && machine.is_none();
        let profile = if profiled { host_profile::of_rank_0() } else { None };
        let introduction = Introduction {
            heap: heap.id(),
            heap_bytes: heap.bytes() as u64,
            card: process::card(),
            staging,
            machine: machine.as_ref().map_or(0, Machine::word),
        };
        Ok(PreparedRank { settings, machine, heap, founded, profile, introduction })
    }

    /// Returns the time after which this rank gives up.
    pub fn timeout(&self) -> Option<Duration> {
        (self.settings.timeout_ns != 0).then(|| Duration::from_nanos(self.settings.timeout_ns))
    }

    /// The layout of the control segment, if rank 0 has the same settings.
    pub fn layout(&self, nranks: u32) -> Layout {
        Layout::new(nranks, self.introduction.staging.min(MOST_STAGING) as usize)
    }

    /// Meets the ranks of this host, which are all.
    pub fn meet(self, entrance: &Entrance<'_>) -> Result<Met> {
        let &Entrance { rank, nranks, .. } = entrance;
        let ranks: Vec<Rank> = (0..nranks).collect();
        let layout = self.layout(nranks);
        let gathering =
            Gathering { place: &entrance.place, ranks: &ranks, rank, layout, watch: entrance.watch };
        let Gathered { attendance, control, heaps, cards, clock_segment, profile } =
            self.gather(&gathering)?;
        die_point!(81 "join_met");
        // ONE-WAY: from here on the others may count on this rank, so every way out either joins or tells them.
        let transport = match self.transport(rank, control.clone(), heaps, cards, None) {
            Ok(transport) => transport,
            Err(e) => {
                attendance.give_up(&e);
                return Err(e);
            }
        };
        let PreparedRank { settings, machine, founded, .. } = self;
        let (presence, membership) = (Presence::Local(attendance), control.keep(rank));
        Ok(Met { presence, settings, machine, founded, clock_segment, profile, transport, membership })
    }

    /// Meets ranks that share memory, at a place of theirs.
    pub fn gather(&self, gathering: &Gathering<'_>) -> Result<Gathered> {
        let &Gathering { place, ranks, rank, layout, watch } = gathering;
        let index = ranks.iter().position(|&r| r == rank);
        let index = index.ok_or_else(|| Error::internal("a rank is not among those that it meets"))? as u32;
        let refuse = |e: &Error| bootstrap::refuse(place, index, ranks.len() as u32, e);
        let own_control = (index == 0).then(|| Control::create(layout)).transpose().inspect_err(refuse)?;
        let info = self.introduction.encode(self.profile.as_ref());
        let mut fds = vec![self.heap.file()?.as_fd()];
        if let Some(control) = &own_control {
            fds.push(control.file()?.as_fd());
        }
        if let Some(participant) = &self.founded {
            fds.push(participant.clock_segment().file()?.as_fd());
        }
        let hello = Hello { rank: index, nranks: ranks.len() as u32, info: &info, fds: &fds };
        let nranks = layout.nranks();
        let mut heaps: Vec<Option<Arc<PeerHeap>>> = (0..nranks).map(|_| None).collect();
        let (mut cards, mut opened, mut clock_segment, mut profile) = (Vec::new(), None, None, None);
        let mut unlike = None;
        let mut each = |peer: u32, info: &[u8], fds: Vec<OwnedFd>| {
            let peer = *ranks.get(peer as usize).ok_or_else(|| Error::internal("a rank too many"))?;
            let faulty = || faulty(peer);
            let faulty_memory = |e: Error| {
                Error::new(e.code, format!("what rank {peer} shares cannot be mapped: {}", e.message))
            };
            let introduction = Introduction::decode(info).ok_or_else(faulty)?;
            if introduction.machine != self.introduction.machine {
                unlike.get_or_insert(peer);
            }
            if peer == 0 {
                profile = Introduction::decode_profile(info).ok_or_else(faulty)?;
            }
            let mut fds = fds.into_iter().map(File::from);
            let heap_file = fds.next().ok_or_else(faulty)?;
            if peer == ranks[0] && index != 0 {
                let file = fds.next().ok_or_else(faulty)?;
                let layout = Layout::new(nranks, introduction.staging.min(MOST_STAGING) as usize);
                opened = Some(Control::open(file, layout).map_err(faulty_memory)?);
                clock_segment = fds.next();
            }
            let heap_bytes = usize::try_from(introduction.heap_bytes).map_err(|_| faulty())?;
            let heap =
                heap::peer(introduction.heap, &heap_file, heap_bytes, nranks).map_err(faulty_memory)?;
            heaps[peer as usize] = Some(heap);
            cards.push((peer, introduction.card));
            Ok(())
        };
        die_point!(80 "join_prepared");
        let attendance = bootstrap::meet(place, &hello, self.timeout(), &mut each, watch)?;
        let gathered = || {
            if let Some(peer) = unlike {
                return Err(declared::unlike(rank, self.machine.as_ref(), peer));
            }
            let control = own_control
                .or(opened)
                .ok_or_else(|| Error::internal("the meeting ended without its segment"))?;
            control.reserve_staging(rank..rank + 1)?;
            let own = heap::own()?;
            let heaps = heaps.into_iter().map(|heap| heap.unwrap_or_else(|| own.clone())).collect();
            Ok((Arc::new(control), heaps))
        };
        match gathered() {
            Ok((control, heaps)) => {
                Ok(Gathered { attendance, control, heaps, cards, clock_segment, profile })
            }
            Err(e) => {
                attendance.give_up(&e);
                Err(e)
            }
        }
    }

    /// Makes the transport over what this rank's host shares. `far`: the ranks of other hosts.
    pub fn transport(
        &self,
        rank: Rank,
        control: Arc<Control>,
        heaps: Vec<Arc<PeerHeap>>,
        cards: Vec<(Rank, Card)>,
        far: Option<Far>,
    ) -> Result<Arc<Transport>> {
        let (settings, own) = (&self.settings, self.introduction.card);
        let near: Vec<Identity> = cards.iter().map(|(_, card)| Identity::new(*card, own)).collect();
        let rivals = identity::rivals(&near);
        let backoff = Backoff::for_ranks(rivals + far.as_ref().map_or(0, |far| far.beside), settings.spins);
        let nranks = heaps.len();
        let transport = Transport::new(control, rank, heaps, backoff, settings.timeout_ns);
        let transport = Arc::new(transport.with_far(far).with_threads(RankThreads::new(settings.threads)));
        let mut identities: Vec<Option<Identity>> = (0..nranks).map(|_| None).collect();
        for ((rank, _), identity) in cards.iter().zip(near) {
            identities[*rank as usize] = Some(identity);
        }
        // A far rank's is never asked.
        let of_none = || Identity::new(own, own);
        transport
            .introduce(identities.into_iter().map(|identity| identity.unwrap_or_else(of_none)).collect());
        transport.tell_single_copy(settings.single_copy, rivals <= cpu::usable_cores());
        Ok(transport)
    }

    /// Takes out what belongs to the communicator.
    pub fn into_parts(self) -> (Settings, Option<Machine>) {
        (self.settings, self.machine)
    }
}

/// The error where what a rank says of itself makes no sense.
pub(super) fn faulty(peer: Rank) -> Error {
    Error::remote(format!("rank {peer} introduced itself wrongly; are all ranks using one libpenny?"))
}
