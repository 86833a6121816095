//! A rank's part in a declared machine: its clock, and the tickets with which it waits.

use super::Machine;
use super::clock_segment::{ABANDONED, ClockSegment, FREE, MAGIC, POSTED, PRESENT, SERVED};
use super::hosts::ClockHosts;
use super::local_threads::LocalThreads;
use super::pace::Clock;
use super::polls;
use super::presence::Watchdog;
use super::process_ranks::ProcessRanks;
use super::program_time;
use super::runner::Runner;
use super::sentence::write_text;
use super::spec::Post;
use super::threads;
use crate::error::{Error, Result};
use crate::plan::{Plan, RankView};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sync::wait::{Backoff, NAP, Waiter};
use crate::sys::{clock, cpu, interrupt, process};
use crate::topology::Network;
use crate::types::Rank;
use std::sync::Arc;

/// Gives all ranks' programs of a posted collective.
pub type Programs = fn(algorithm: u8, view: &RankView) -> Result<Vec<Plan>>;

/// A rank of the job, shared by all its communicators.
pub struct Participant {
    clock_segment: Arc<ClockSegment>,
    /// A number that no other participant of this process has.
    pub(super) number: u64,
    machine: Machine,
    place: Rank,
    pub(super) runner: Mutex<Runner>,
    pub(super) local_threads: Mutex<LocalThreads>,
    backoff: Backoff,
    /// Where this rank has more threads than there are cores.
    crowded: Backoff,
    cores: usize,
    /// Looks at the clock since the last call.
    looks: AtomicU32,
    /// Puts so far.
    puts: AtomicU64,
    /// The ranks of this job that are of this process.
    pub(super) process_ranks: Arc<ProcessRanks>,
    /// If they run on several hosts.
    pub(super) hosts: Option<ClockHosts>,
}

/// A rank's part in a call that it has posted.
#[must_use]
pub struct PendingCall {
    ticket: usize,
    entry_ps: u64,
    wall_ns: u64,
    /// The presence of the thread that has posted.
    line: u32,
    /// True if the thread stays inside for another post.
    held: bool,
}

/// Looks at the clock with nothing between that cost no time.
const FREE_LOOKS: u32 = 16;
/// The cost of the next look.
const LOOK_PS: u64 = 50_000;
/// A paced call looks this often whether it still makes sense to wait.
const A_LOOK_NS: u64 = 10_000_000;
/// The largest cost of a look.
const DEAR_LOOK_PS: u64 = 1_000_000;

impl Participant {
    /// Makes a new clock segment for the ranks of one host; the caller is the first of them. `first_of`: by rank, the first rank of its host.
    pub fn found(
        machine: Machine,
        first_of: &[Rank],
        place: Rank,
        programs: Programs,
    ) -> Result<Participant> {
        let ranks = first_of.len() as u32;
        let clock_segment = ClockSegment::create(ranks, machine.network.ports.len() as u32)?;
        let header = clock_segment.header();
        header.network.store(machine.network.hash(), Ordering::Relaxed);
        header.places.store(ranks, Ordering::Relaxed);
        header.ports.store(machine.network.ports.len() as u32, Ordering::Relaxed);
        // Each rank is there from now on, by a presence that its first thread takes.
        let (present, tokens) = Participant::present_at_first(first_of, place);
        header.running.store(present.len() as u32 + tokens, Ordering::Relaxed);
        for place in present {
            clock_segment.all_threads(place)[0].presence.store(PRESENT, Ordering::Relaxed);
            clock_segment.place(place).threads_used.store(1, Ordering::Relaxed);
        }
        write_text(&header.spec, &machine.spec);
        header.magic.store(MAGIC, Ordering::Release);
        let hosts = ClockHosts::new(first_of, place);
        Participant::at(clock_segment, machine, place, programs, hosts)
    }

    /// Joins the clock segment that the first rank of this host has made, for the same machine.
    pub fn join(
        clock_segment: ClockSegment,
        machine: Machine,
        first_of: &[Rank],
        place: Rank,
        programs: Programs,
    ) -> Result<Participant> {
        let hosts = ClockHosts::new(first_of, place);
        Participant::at(clock_segment, machine, place, programs, hosts)
    }

    fn at(
        clock_segment: ClockSegment,
        machine: Machine,
        place: Rank,
        programs: Programs,
        hosts: Option<ClockHosts>,
    ) -> Result<Participant> {
        let places = machine.network.places(clock_segment.places())?;
        clock_segment.keep(place)?;
        clock_segment.all_threads(place)[0].since_ns.store(clock::now_ns(), Ordering::Relaxed);
        clock_segment.place(place).pid.store(process::pid(), Ordering::Release);
        let runner = Runner::new(machine.network.clone(), places, programs);
        let ranks = clock_segment.places() as usize;
        let process_ranks = ProcessRanks::with(&clock_segment, place)?;
        let clock_segment = Arc::new(clock_segment);
        program_time::attend(&clock_segment)?;
        Ok(Participant {
            clock_segment,
            number: threads::next_number(),
            machine,
            place,
            runner: Mutex::new(runner),
            local_threads: Mutex::default(),
            backoff: Backoff::for_ranks(ranks, None),
            crowded: Backoff::for_crowds(),
            cores: cpu::usable_cores(),
            looks: AtomicU32::new(0),
            puts: AtomicU64::new(0),
            process_ranks,
            hosts,
        })
    }

    /// Returns the clock segment.
    pub fn clock_segment(&self) -> &ClockSegment {
        &self.clock_segment
    }
    pub(super) fn shared_board(&self) -> &Arc<ClockSegment> {
        &self.clock_segment
    }
    /// Returns the rank in the job.
    pub fn place(&self) -> Rank {
        self.place
    }
    /// Returns the machine.
    pub fn network(&self) -> &Network {
        &self.machine.network
    }
    /// Returns the machine as it was declared.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the number of this rank's next put.
    pub(super) fn next_put(&self) -> u64 {
        self.puts.fetch_add(1, Ordering::Relaxed)
    }
    /// Resets the cost of the next look at the clock to nothing.
    pub(super) fn looked_anew(&self) {
        polls::act();
        self.looks.store(0, Ordering::Relaxed);
    }
    /// Returns the backoff for waits.
    pub(super) fn backoff(&self) -> &Backoff {
        let threads = self.clock_segment.place(self.place).threads_used.load(Ordering::Relaxed);
        if threads as usize > self.cores { &self.crowded } else { &self.backoff }
    }

    /// This rank's clock.
    pub fn clock_ps(&self) -> u64 {
        self.clock_segment.place(self.place).clock_ps.load(Ordering::Acquire)
    }

    /// Moves the clock on to a time, if that is later. Returns what it was.
    pub(super) fn advance_clock(&self, at_ps: u64) -> u64 {
        self.clock_segment.place(self.place).clock_ps.fetch_max(at_ps, Ordering::AcqRel)
    }

    /// Returns the clock, for a program that asks. One that asks again and again with nothing between must see it move, or a
    /// loop that waits for a time would never end: after 16 looks each costs 50 ns, then twice as much, up to 1 us.
    pub fn look(&self) -> u64 {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        match looks.checked_sub(FREE_LOOKS) {
            None => self.clock_ps(),
            Some(more) => {
                let cost = LOOK_PS.checked_shl(more.min(8)).unwrap_or(u64::MAX).min(DEAR_LOOK_PS);
                let dearer = |now_ps: u64| now_ps.saturating_add(cost);
                let clock = &self.clock_segment.place(self.place).clock_ps;
                let before = clock.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(dearer(now)));
                dearer(before.unwrap_or_else(|now_ps| now_ps))
            }
        }
    }

    /// Moves the clock on to a time, if that is later; a paced clock takes its time, unless the watch ends it. Tells the
    /// clock then.
    pub fn advance_to(&self, at_ps: u64, watch: impl FnMut() -> Result<()>) -> Result<u64> {
        self.looked_anew();
        let line = self.presence()?;
        let before = self.advance_clock(at_ps);
        if let Clock::Paced(dilation) = self.machine.clock
            && at_ps > before
        {
            let due = {
                let mut local_threads = self.local_threads.lock();
                local_threads.pacer.enter(clock::now_ns(), before, dilation);
                local_threads.pacer.due(at_ps, dilation)
            };
            // It has declared how long it computes, so it is not away.
            self.go_in(line, None);
            let ended = sleep_until(due.unwrap_or(0), watch);
            self.go_out(line);
            ended?;
        }
        Ok(at_ps.max(before))
    }

    /// Posts this rank's next call, at its clock or at `at_ps`. The rank that posts last runs the engine.
    pub fn enter(&self, posts: &[Post], at_ps: Option<u64>) -> Result<PendingCall> {
        self.post(posts, at_ps, None)
    }

    /// Posts; `held`: the presence of a thread that is inside already and stays inside after the engine's answer.
    pub(super) fn post(&self, posts: &[Post], at_ps: Option<u64>, held: Option<u32>) -> Result<PendingCall> {
        self.check().and_then(|()| self.check_engine())?;
        self.looked_anew();
        let wall_ns = clock::now_ns();
        let line = held.map_or_else(|| self.presence(), Ok)?;
        let (number, entry_ps) = {
            let mut local_threads = self.local_threads.lock();
            let number = self.take_ticket(&mut local_threads, posts.len())?;
            let entry_ps = match (held, at_ps) {
                (Some(_), Some(at_ps)) => at_ps,
                _ => self.inside(&mut local_threads, line, wall_ns, at_ps),
            };
            (number, entry_ps)
        };
        for (post, line) in posts.iter().zip(self.clock_segment.posts(self.place, number, posts.len())) {
            post.write(line, entry_ps);
        }
        die_point!(170 "clock_posts");
        let ticket = &self.clock_segment.tickets(self.place)[number];
        ticket.turn.fetch_add(1, Ordering::Relaxed);
        ticket.posts.store(posts.len() as u32, Ordering::Relaxed);
        ticket.done.store(0, Ordering::Relaxed);
        ticket.exit_ps.store(entry_ps, Ordering::Relaxed);
        ticket.thread.store(line, Ordering::Relaxed);
        die_point!(171 "clock_ticket");
        // ORDER: publishes the posts; partner: the collection in `Runner`.
        ticket.state.store(POSTED, Ordering::Release);
        die_point!(172 "clock_posted");
        if held.is_none() {
            self.look_at_woken();
        }
        self.rest();
        Ok(PendingCall { ticket: number, entry_ps, wall_ns, line, held: held.is_some() })
    }

    /// Waits until the engine has said when this rank is done, and with a paced clock until then. `watch` tells what
    /// else ends the wait. Returns the rank's exit.
    pub fn leave(
        &self,
        waiting: PendingCall,
        deadline_ns: u64,
        mut watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<u64> {
        let ticket = &self.clock_segment.tickets(self.place)[waiting.ticket];
        // ORDER: partner of the store in `Runner::serve`.
        let served = || ticket.state.load(Ordering::Acquire) == SERVED;
        if !served() {
            let waiter = Waiter {
                backoff: self.backoff(),
                doorbell: &ticket.doorbell,
                sleepers: &self.clock_segment.header().sleepers,
                deadline_ns,
                nap: NAP,
                neighbours: None,
                time: None,
            };
            let mut watchdog = Watchdog::new();
            let look = || {
                self.look_out(&mut watchdog);
                self.check().and_then(|()| self.check_engine()).and_then(|()| watch())
            };
            let ended = waiter.until(served, look, expired);
            if let Err(error) = ended {
                let error = self.blame(error);
                self.withdraw(waiting);
                return Err(error);
            }
        }
        let exit_ps = ticket.exit_ps.load(Ordering::Relaxed);
        ticket.state.store(FREE, Ordering::Release);
        die_point!(184 "clock_freed");
        self.local_threads.lock().taken[waiting.ticket] = false;
        let ended = self.pace(waiting.entry_ps, waiting.wall_ns, exit_ps, watch);
        self.over(&waiting);
        ended.map(|()| exit_ps)
    }

    /// Abandons a call in which ranks disagree: this rank continues, and its posts remain, so that the others do not
    /// wait for them.
    pub fn abandon(&self, waiting: PendingCall) {
        let ticket = &self.clock_segment.tickets(self.place)[waiting.ticket];
        let header = self.clock_segment.header();
        header.running.fetch_add(1, Ordering::AcqRel);
        let stands =
            ticket.state.compare_exchange(POSTED, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if stands {
            self.local_threads.lock().left[waiting.ticket] = true;
        } else {
            header.running.fetch_sub(1, Ordering::AcqRel);
            ticket.state.store(FREE, Ordering::Release);
            self.local_threads.lock().taken[waiting.ticket] = false;
        }
        self.come_out(waiting.line);
    }

    /// Completes a call after the engine's answer: a paced call lasts until its exit is due.
    pub(super) fn pace(
        &self,
        entry_ps: u64,
        wall_ns: u64,
        exit_ps: u64,
        watch: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut local_threads = self.local_threads.lock();
        let worked_ns = clock::now_ns().saturating_sub(wall_ns);
        let mut late_ns = 0;
        let mut dilation = 0.0;
        if let Clock::Paced(times) = self.machine.clock {
            dilation = times;
            let due = local_threads.pacer.due(exit_ps, dilation).unwrap_or(0);
            drop(local_threads);
            sleep_until(due, watch)?;
            local_threads = self.local_threads.lock();
            late_ns = clock::now_ns().saturating_sub(due);
        }
        local_threads.pacer.leave(entry_ps, exit_ps, worked_ns, late_ns, dilation);
        Ok(())
    }

    /// Withdraws the posts of a failed call, if the engine has not answered them.
    pub fn withdraw(&self, waiting: PendingCall) {
        let ticket = &self.clock_segment.tickets(self.place)[waiting.ticket];
        let header = self.clock_segment.header();
        // It runs before its posts are gone, or the engine could find that nobody does, and see a deadlock.
        header.running.fetch_add(1, Ordering::AcqRel);
        if ticket.state.compare_exchange(POSTED, FREE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            ticket.state.store(FREE, Ordering::Release);
            // The engine has counted it already, so this is not the last that runs.
            header.running.fetch_sub(1, Ordering::AcqRel);
        }
        self.tell_withdrawn(waiting.ticket, ticket.turn.load(Ordering::Relaxed));
        self.retire_ticket(waiting.ticket);
        self.over(&waiting);
    }

    fn over(&self, waiting: &PendingCall) {
        if !waiting.held {
            self.come_out(waiting.line);
        }
    }
}

/// Sleeps, and checks at intervals whether the wait can still succeed.
fn sleep_until(due_ns: u64, mut watch: impl FnMut() -> Result<()>) -> Result<()> {
    // BOUND: `due_ns` comes, or the watch ends it.
    while clock::now_ns() < due_ns {
        clock::sleep_until(due_ns.min(clock::now_ns() + A_LOOK_NS));
        watch()?;
        interrupt::look_now()?;
    }
    Ok(())
}
