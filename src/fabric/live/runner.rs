//! Runs the engine when all ranks wait.

use super::WINDOW_PS;
use super::clock_segment::{ABANDONED, FREE, POSTED, SERVED};
use super::known::{Admitted, Known, spec_of};
use super::log::{Journal, Logged, LoggedMember, TURNS};
use super::participant::Programs;
use super::spec::{CallSpec, Post, What, pause_plans, transfer_plans};
use crate::error::{Error, Result};
use crate::fabric::SharedCall;
use crate::fabric::pricer::Pricer;
use crate::plan::{Arrangement, Plan};
use crate::sync::prim::Ordering;
use crate::topology::Network;
use crate::types::{Collective, Rank};
use std::collections::HashMap;
use std::sync::Arc;

/// The state with which a process runs the engine.
pub struct Runner {
    pub(super) network: Arc<Network>,
    /// Its views.
    pub(super) views: Vec<Arc<Network>>,
    /// The place of each rank of the job.
    places: Vec<Rank>,
    programs: Programs,
    plans: HashMap<PlanKey, Arc<[Plan]>>,
    /// By places: how ranks stand there.
    placed: HashMap<Box<[Rank]>, Arrangement>,
    pricer: Pricer,
    /// The calls in progress that this process knows.
    pub(super) known: Option<Known>,
}

type PlanKey = (Collective, Rank, u8, u32, Arrangement);

/// Placements of ranks that are remembered.
const MOST_PLACED: usize = 256;

/// A call or transfer of which posts stand.
struct Gathered {
    comm: u64,
    key: u64,
    members: u32,
    posts: Vec<(Post, LoggedMember)>,
}

impl Gathered {
    fn complete(&self) -> bool {
        self.posts.len() >= self.members as usize
    }
    /// Tells whether all members have posted the same call, each once.
    fn agreed(&self) -> bool {
        let (first, _) = &self.posts[0];
        self.posts.iter().all(|(post, _)| (post.spec, post.members) == (first.spec, first.members))
            && (0..).zip(&self.posts).all(|(i, (post, _))| post.member == i)
    }
    fn entry_ps(&self) -> u64 {
        self.posts.iter().map(|(_, member)| member.entry_ps).min().unwrap_or(0)
    }
}

impl Runner {
    pub fn new(network: Arc<Network>, places: Vec<Rank>, programs: Programs) -> Runner {
        let pricer = Pricer::new(network.clone());
        let views = network.views();
        Runner {
            network,
            views,
            places,
            programs,
            plans: HashMap::new(),
            placed: HashMap::new(),
            pricer,
            known: None,
        }
    }

    /// Runs until a rank is done, or no call is in progress. Returns the number of tickets served.
    pub fn run(&mut self, journal: &Journal<'_>) -> Result<u32> {
        let ready = gather(journal);
        let (agreed, void): (Vec<_>, Vec<_>) = ready.into_iter().partition(Gathered::agreed);
        let is_meeting = |call: &Gathered| call.posts[0].0.spec.what == What::Meeting;
        let (meetings, agreed): (Vec<_>, Vec<_>) = agreed.into_iter().partition(is_meeting);
        let mut served = 0;
        for (_, member) in meetings.iter().flat_map(|meeting| &meeting.posts) {
            served += done(journal, member, member.entry_ps).is_some() as u32;
        }
        for call in &void {
            let latest = call.posts.iter().map(|(_, member)| member.entry_ps).max().unwrap_or(0);
            for (_, member) in &call.posts {
                served += done(journal, member, latest).is_some() as u32;
            }
        }
        if served > 0 {
            // Who is served now may post again at once; the calls come when all wait again.
            return Ok(served);
        }
        if let ([alone], 0) = (agreed.as_slice(), journal.len()) {
            return Ok(served + self.alone(journal, alone)?);
        }
        Ok(served + self.together(journal, agreed)?)
    }

    /// The plans of a call, and the call as the engine takes it.
    pub(super) fn call(&mut self, spec: &CallSpec, places: &[Rank]) -> Result<SharedCall> {
        let members = places.len() as u32;
        let placed = match spec.what {
            What::Collective { .. } => self.placed(places),
            _ => Arrangement::flat(members),
        };
        let view = spec.view(members, placed.clone());
        let plans = match spec.what {
            What::Transfer { .. } | What::Put { .. } | What::Meeting => transfer_plans(),
            What::Pause => pause_plans(),
            What::Collective { collective, root, algorithm } => {
                let key = (collective, root, algorithm, members, placed);
                match self.plans.get(&key) {
                    Some(plans) => plans.clone(),
                    None => {
                        let plans: Arc<[Plan]> = (self.programs)(algorithm, &view)?.into();
                        self.plans.insert(key, plans.clone());
                        plans
                    }
                }
            }
        };
        Ok(spec.call(plans, view))
    }

    /// Returns how ranks stand at these places.
    pub fn placed(&mut self, places: &[Rank]) -> Arrangement {
        if let Some(placed) = self.placed.get(places) {
            return placed.clone();
        }
        let placed = self.network.arrangement(places);
        if self.placed.len() >= MOST_PLACED {
            self.placed.clear();
        }
        self.placed.insert(places.into(), placed.clone());
        placed
    }

    /// Returns the places of a call's ends and the times at which they enter.
    pub(super) fn ends(&self, spec: &CallSpec, members: &[LoggedMember]) -> (Vec<Rank>, Vec<u64>) {
        let places = members.iter().map(|member| self.places[member.rank as usize]).collect();
        let launch_ps = self.launch_ps(spec);
        let entry_ps = |member: &LoggedMember| member.entry_ps.saturating_add(launch_ps).min(u64::MAX - 1);
        spec.ends(places, members.iter().map(entry_ps).collect())
    }

    /// Returns what a call takes before its first message.
    pub(super) fn launch_ps(&self, spec: &CallSpec) -> u64 {
        match spec.what {
            What::Collective { .. } | What::Transfer { .. } => {
                self.views[spec.tuning.protocol as usize].launch_ps
            }
            What::Put { .. } | What::Pause | What::Meeting => 0,
        }
    }

    /// Prices a call that is alone in progress; its price is remembered.
    fn alone(&mut self, journal: &Journal<'_>, call: &Gathered) -> Result<u32> {
        let (spec, members) = parts(call);
        let (places, entries) = self.ends(&spec, &members);
        let shared = self.call(&spec, &places)?;
        let mut ports = journal.ports();
        let priced = self.pricer.price(&shared, &places, &entries, &mut ports)?;
        journal.begin(&ports);
        note_call(journal, call);
        let mut served = 0;
        for end in 0..places.len() {
            if let Some(member) = spec.finishes(end) {
                served += done(journal, &members[member], priced.exit_ps(end)).is_some() as u32;
            }
        }
        Ok(served)
    }

    /// Runs several calls: the engine stops soon after the first rank is done.
    fn together(&mut self, journal: &Journal<'_>, calls: Vec<Gathered>) -> Result<u32> {
        let known = self.catch_up(journal)?;
        let alone = known.world.idle() && calls.len() == 1;
        // Without room in the log the engine runs to the end, and nobody needs to know what it did.
        let room = journal.has_room(calls.iter().map(|call| call.posts.len()));
        let new = calls.iter().map(|call| {
            let (spec, members) = parts(call);
            Logged { spec: spec.words(), members }
        });
        let Admitted { mut known, new, finished, late } = self.admit_new(journal, known, new.collect())?;
        journal.clock_segment.header().late.fetch_add(late, Ordering::Relaxed);
        for (call, logged) in calls.iter().zip(&new) {
            for member in &logged.members {
                let posts = journal.clock_segment.posts(
                    member.rank,
                    member.ticket as usize,
                    member.post as usize + 1,
                );
                posts[member.post as usize].stage.store(1, Ordering::Relaxed);
                die_point!(176 "engine_staged");
            }
            if room {
                journal.append(logged)?;
                die_point!(177 "engine_logged");
            }
            note_call(journal, call);
        }
        known.read = journal.len();
        // Not 0: what happens at the very time at which somebody is done has happened in every process's world, or none's.
        let window_ps = if journal.is_exact() { 1 } else { WINDOW_PS };
        let mut served = 0;
        let mut horizon_ps = u64::MAX;
        // A call that was admitted in the past may end there. Every process's world goes on to this time without telling anybody, so whatever ends before
        // it is told now.
        let handled_ps = journal.handled_ps();
        let mut finished = finished.into_iter();
        // BOUND: one turn per member that finishes.
        while let Some(finished) =
            finished.next().map_or_else(|| known.advance(horizon_ps), |f| Ok(Some(f)))?
        {
            let call = &known.calls[finished.call as usize];
            let spec = spec_of(call)?;
            let Some(member) = spec.finishes(finished.member as usize) else { continue };
            let member = call.members[member];
            if let Some(exit_ps) = done(journal, &member, finished.exit_ps) {
                served += 1;
                if !alone && room {
                    horizon_ps = horizon_ps.min(exit_ps.saturating_add(window_ps).max(handled_ps));
                }
            }
        }
        if known.world.idle() {
            journal.begin(&known.world.ports());
        } else if horizon_ps == u64::MAX {
            let stuck = || Error::internal("the engine stopped with calls under way");
            return Err(known.world.deadlock().unwrap_or_else(stuck));
        } else {
            journal.clock_segment.header().reached_ps.fetch_max(horizon_ps, Ordering::AcqRel);
            journal.set_handled(horizon_ps);
            self.known = Some(known);
        }
        Ok(served)
    }
}

fn parts(call: &Gathered) -> (CallSpec, Vec<LoggedMember>) {
    (call.posts[0].0.spec, call.posts.iter().map(|(_, member)| *member).collect())
}

/// The calls of which all members have posted their part, first those that begin first.
fn gather(journal: &Journal<'_>) -> Vec<Gathered> {
    let clock_segment = journal.clock_segment;
    let mut calls: HashMap<(u64, u64), Gathered> = HashMap::new();
    for place in 0..clock_segment.places() {
        for (ticket, line) in (0..).zip(clock_segment.used_tickets(place)) {
            // ORDER: partner of the store in `Seat::enter`.
            if !matches!(line.state.load(Ordering::Acquire), POSTED | ABANDONED) {
                continue;
            }
            let count = line.posts.load(Ordering::Relaxed) as usize;
            let turn = line.turn.load(Ordering::Relaxed) & TURNS;
            for (index, post) in (0..).zip(clock_segment.posts(place, ticket as usize, count)) {
                if post.stage.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                let entry_ps = post.entry_ps.load(Ordering::Relaxed);
                let Some(post) = Post::read(post).filter(|post| post.members <= clock_segment.places())
                else {
                    continue;
                };
                let member = LoggedMember { rank: place, ticket, turn, post: index, entry_ps };
                let (comm, key, members) = (post.comm, post.key, post.members);
                let call = calls.entry((comm, key)).or_insert_with(|| Gathered {
                    comm,
                    key,
                    members,
                    posts: Vec::new(),
                });
                call.posts.push((post, member));
            }
        }
    }
    let mut ready: Vec<Gathered> = calls.into_values().filter(Gathered::complete).collect();
    for call in &mut ready {
        call.posts.sort_by_key(|(post, member)| (post.member, member.rank));
    }
    ready.sort_by_key(|call| (call.entry_ps(), call.comm, call.key));
    ready
}

/// A member's post is done. If it was the last of its ticket, its rank goes on: tells when.
///
/// A ticket that was withdrawn while the engine had its call is taken anew only after this run of the engine, and with
/// another turn: see `Seat::withdraw`.
fn done(journal: &Journal<'_>, member: &LoggedMember, exit_ps: u64) -> Option<u64> {
    let clock_segment = journal.clock_segment;
    let LoggedMember { rank: place, ticket: number, post, .. } = *member;
    let ticket = &clock_segment.tickets(place)[number as usize];
    trace(journal, &[place as u64, exit_ps]);
    let state = ticket.state.load(Ordering::Acquire);
    if !matches!(state, POSTED | ABANDONED) || ticket.turn.load(Ordering::Relaxed) & TURNS != member.turn {
        return None;
    }
    clock_segment.posts(place, number as usize, post as usize + 1)[post as usize]
        .stage
        .store(2, Ordering::Relaxed);
    die_point!(178 "engine_done");
    let exit_ps = ticket.exit_ps.fetch_max(exit_ps, Ordering::Relaxed).max(exit_ps);
    if ticket.done.fetch_add(1, Ordering::Relaxed) + 1 < ticket.posts.load(Ordering::Relaxed) {
        return None;
    }
    die_point!(179 "engine_counted");
    // Its rank has gone on.
    let given_back = |state| {
        state == ABANDONED && {
            ticket.state.store(FREE, Ordering::Release);
            true
        }
    };
    if given_back(state) {
        return None;
    }
    clock_segment.place(place).clock_ps.fetch_max(exit_ps, Ordering::AcqRel);
    let header = clock_segment.header();
    header.reached_ps.fetch_max(exit_ps, Ordering::AcqRel);
    // It runs before it can know, or it might post again before it is counted.
    header.running.fetch_add(1, Ordering::AcqRel);
    die_point!(180 "engine_running");
    // ORDER: publishes the exit; partner: the load in `Seat::leave`.
    if let Err(now) = ticket.state.compare_exchange(POSTED, SERVED, Ordering::Release, Ordering::Relaxed) {
        given_back(now);
        if header.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Withdrawn in the meantime, so its rank counts itself; and it has come to wait again, and found us counted.
            header.wanted.fetch_add(1, Ordering::AcqRel);
        }
    }
    die_point!(181 "engine_served");
    Some(exit_ps)
}

fn note_call(journal: &Journal<'_>, call: &Gathered) {
    journal.clock_segment.header().calls.fetch_add(1, Ordering::Relaxed);
    let (spec, members) = parts(call);
    trace(journal, &[call.comm, call.key]);
    trace(journal, &spec.words());
    members.iter().for_each(|member| trace(journal, &[member.rank as u64, member.entry_ps]));
}

/// Takes words into the hash of all that has happened.
fn trace(journal: &Journal<'_>, words: &[u64]) {
    let hash = &journal.clock_segment.header().trace;
    let mix = |h: u64, word: &u64| (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    hash.store(words.iter().fold(hash.load(Ordering::Relaxed), mix), Ordering::Relaxed);
}
