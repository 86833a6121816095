//! A rank's connection to the server of a meeting of several hosts, as long as it is in the communicator: what tells it that a rank of
//! another host has died.
//!
//! The links between hosts do not tell: a rank that only receives sees nothing of a sender's end. A TCP connection does, within
//! milliseconds if the process ended, within seconds if its host or the network is gone.

use crate::bootstrap::{Attendance, Heard};
use crate::error::{Error, Result};
use crate::fabric::live::{HostNews, Participant};
use crate::log;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::background;
use crate::transport::Transport;
use crate::types::Rank;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The time between two looks at whether the rank has left.
const LOOK: Duration = Duration::from_millis(500);
/// The messages to the clock of a declared machine that are kept for a rank which has not joined.
const MOST_EARLY: usize = 4096;
/// Milliseconds after which a rank that has left is missed where its link has not told so.
const FAREWELL_MS: u64 = 30_000;
/// The stack of the thread, on which the engine of a declared machine may run.
const STACK: usize = 2 << 20;

/// The connection, which a thread listens to.
pub(in crate::comm) struct Lifeline {
    attendance: Attendance,
    /// The server is a thread of rank 0's process.
    is_at_rank_0: bool,
    /// The ranks of the server's host.
    beside: Vec<Rank>,
    /// The verdict: the communicator will not come to be.
    verdict: OnceLock<Error>,
    /// The rank has left.
    is_over: AtomicBool,
    /// The communicator of the meeting and those that were made from it, with the ranks of each in the meeting.
    listeners: Mutex<Vec<Listener>>,
    /// The ranks whose deaths were heard, in their order: for communicators that are made later.
    dead: Mutex<Vec<Rank>>,
    clock: Mutex<Clock>,
    /// The ranks of this host whose deaths this rank has told the server.
    told_dead: Mutex<Vec<Rank>>,
    /// How long the farewells of ranks that have left may be under way.
    farewell_ms: AtomicU64,
}

/// The clock of a declared machine.
enum Clock {
    /// This rank does not know yet whether there is one. What has come for it.
    Early(Vec<Heard>),
    Declared(Arc<Participant>),
    /// There is none, or the rank has left it.
    None,
}

struct Listener {
    transport: Weak<Transport>,
    ranks: Vec<Rank>,
}

impl Lifeline {
    /// Begins to listen, on a thread of its own, until the transport and all that were made from it are dropped.
    pub fn begin(
        attendance: Attendance,
        is_at_rank_0: bool,
        beside: Vec<Rank>,
        transport: &Arc<Transport>,
    ) -> Result<Arc<Lifeline>> {
        let lifeline = Arc::new(Lifeline {
            attendance,
            is_at_rank_0,
            beside,
            verdict: OnceLock::new(),
            is_over: AtomicBool::new(false),
            listeners: Mutex::default(),
            dead: Mutex::default(),
            clock: Mutex::new(Clock::Early(Vec::new())),
            told_dead: Mutex::default(),
            farewell_ms: AtomicU64::new(FAREWELL_MS),
        });
        lifeline.add(transport, (0..transport.nranks()).collect());
        transport.keep_until_end(Arc::new(Leave(lifeline.clone())));
        let listens = lifeline.clone();
        background::spawn_with_stack("penny-lifeline", STACK, move || listens.listen()).map_err(|e| {
            Error::system(format!("no thread to hear of other hosts: {e}; check `ulimit -u`"))
        })?;
        Ok(lifeline)
    }

    /// Has the ranks of a communicator that was made from another hear of deaths as those of that one do. `ranks`: its ranks where the
    /// hosts met.
    pub fn extend(parent: &Transport, child: &Arc<Transport>, ranks: Vec<Rank>) {
        let Some(kept) = parent.kept() else { return };
        if let Some(Leave(lifeline)) = kept.downcast_ref() {
            lifeline.add(child, ranks);
            child.keep_until_end(kept.clone());
        }
    }

    /// A call of this communicator has ended with an error: has it, and all that were made from the same meeting, tell what they know of a
    /// death or an abort, the server too. This rank may end next: its end must not be told before what it ended for.
    pub fn tell_endings(of: &Transport) {
        let Some(kept) = of.kept() else { return };
        let Some(Leave(lifeline)) = kept.downcast_ref() else { return };
        let found = |l: &Listener| Some((l.transport.upgrade()?, l.ranks.clone()));
        let all: Vec<_> = lifeline.listeners.lock().iter().filter_map(found).collect();
        for (transport, ranks) in all {
            if let Some(dead) = transport.first_dead().filter(|&dead| !transport.is_far(dead)) {
                lifeline.tell_death(ranks[dead as usize]);
            }
            transport.tell_endings();
        }
    }

    /// Tells the server, once, that the process of a rank of this host has ended. Where it is gone, far ranks are told by their links all the same.
    fn tell_death(&self, dead: Rank) {
        let mut told = self.told_dead.lock();
        if !told.contains(&dead) {
            told.push(dead);
            let _ = self.attendance.tell_death(dead);
        }
    }

    fn add(&self, transport: &Arc<Transport>, ranks: Vec<Rank>) {
        {
            let mut listeners = self.listeners.lock();
            listeners.retain(|listener| listener.transport.strong_count() > 0);
            listeners.push(Listener { transport: Arc::downgrade(transport), ranks: ranks.clone() });
        }
        let dead = self.dead.lock().clone();
        let there = |rank: Rank| ranks.iter().position(|&r| r == rank);
        dead.into_iter().filter_map(there).for_each(|rank| transport.note_far_death(rank as Rank));
    }

    /// The process of a rank of the meeting has ended: tells each communicator that is left, and keeps it for those that are made later.
    fn note_death(&self, rank: Rank) {
        // Before the listeners are looked up: who is not among them yet finds it there.
        self.dead.lock().push(rank);
        self.listeners_of(rank).iter().for_each(|(transport, there)| transport.note_far_death(*there));
    }

    /// Returns the communicators that a rank of the meeting is in, and its rank in each.
    fn listeners_of(&self, rank: Rank) -> Vec<(Arc<Transport>, Rank)> {
        let found = |listener: &Listener| {
            let there = listener.ranks.iter().position(|&r| r == rank)?;
            Some((listener.transport.upgrade()?, there as Rank))
        };
        self.listeners.lock().iter().filter_map(found).collect()
    }

    fn listen(&self) {
        let mut rank_0_left = false;
        let mut left = Vec::new();
        // BOUND: the rank leaves, or its process ends.
        while !self.is_over.load(Ordering::Acquire) {
            self.miss_farewells(&mut left);
            let heard = self.attendance.hear(LOOK);
            match heard {
                Some(Heard::Silence | Heard::Cut) if self.is_at_rank_0 && !rank_0_left => {
                    self.tell_clock(&Some(Heard::Death(0)));
                }
                _ => self.tell_clock(&heard),
            }
            let Some(heard) = heard else {
                self.attendance.ping();
                continue;
            };
            match heard {
                Heard::Death(rank) => self.note_death(rank),
                Heard::Failed(error) => self.fail(error),
                Heard::Left(rank) => {
                    rank_0_left |= rank == 0;
                    left.push((rank, Instant::now()));
                }
                // For the clock alone.
                Heard::Told { .. } => {}
                Heard::Silence => {
                    self.miss_the_server(rank_0_left);
                    break;
                }
                // None of those ranks answers any more, and nobody tells of their end.
                Heard::Cut => {
                    for &rank in &self.beside {
                        self.note_death(rank);
                    }
                    self.miss_the_server(rank_0_left);
                    break;
                }
            }
        }
        // BOUND: the farewells, or the rank leaves.
        while !left.is_empty() && !self.is_over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
            self.miss_farewells(&mut left);
        }
    }

    /// Misses ranks that have left a while ago, and whose links have not told so.
    fn miss_farewells(&self, left: &mut Vec<(Rank, Instant)>) {
        let patience = Duration::from_millis(self.farewell_ms.load(Ordering::Relaxed));
        let missed = left.extract_if(.., |(_, when)| when.elapsed() > patience);
        for (rank, _) in missed {
            for (transport, there) in self.listeners_of(rank) {
                transport.miss_far_farewell(there);
            }
        }
    }

    /// The communicator will not come to be.
    fn fail(&self, error: Error) {
        let _ = self.verdict.set(error);
        // The rank still joins: there is one communicator.
        let all: Vec<_> = self.listeners.lock().iter().filter_map(|l| l.transport.upgrade()).collect();
        all.iter().for_each(|transport| transport.wake_own());
    }

    /// Carries what the clock of a declared machine tells other hosts, and what they tell it. `None`: no machine is declared.
    pub fn carry(self: &Arc<Lifeline>, participant: Option<&Arc<Participant>>) {
        let mut clock = self.clock.lock();
        let Some(participant) = participant else {
            *clock = Clock::None;
            return;
        };
        let tells = self.clone();
        participant.connect(Box::new(move |bytes| tells.attendance.tell(bytes)));
        participant.share_known();
        if let Clock::Early(early) = std::mem::replace(&mut *clock, Clock::Declared(participant.clone())) {
            early.into_iter().for_each(|heard| participant.hear(&news_of(&Some(heard))));
        }
    }

    fn tell_clock(&self, heard: &Option<Heard>) {
        let mut clock = self.clock.lock();
        match (&mut *clock, heard) {
            (Clock::Declared(participant), _) => {
                let participant = participant.clone();
                drop(clock);
                participant.hear(&news_of(heard));
            }
            (Clock::Early(early), Some(heard @ (Heard::Told { .. } | Heard::Left(_)))) => {
                match early.len() < MOST_EARLY {
                    true => early.push(heard.clone()),
                    false => self.fail(too_early()),
                }
            }
            (Clock::Early(_) | Clock::None, _) => {}
        }
    }

    /// Leaves the clock of a declared machine, while the connection is there by which others are told.
    fn leave_clock(&self) {
        let clock = std::mem::replace(&mut *self.clock.lock(), Clock::None);
        if let Clock::Declared(participant) = clock {
            participant.depart();
        }
    }

    /// The server's connection has ended: its process has ended, or cannot be reached.
    fn miss_the_server(&self, rank_0_left: bool) {
        if self.is_over.load(Ordering::Acquire) || rank_0_left && self.is_at_rank_0 {
            return;
        }
        if self.is_at_rank_0 {
            return self.note_death(0);
        }
        log::decided(format_args!(
            "{}, where the ranks met, is gone: the death of a rank on another host will be noticed at the deadline only",
            self.attendance.host()
        ));
    }

    /// Returns the verdict, if there is one.
    pub fn check(&self) -> Result<()> {
        self.verdict.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Waits a moment for the verdict.
    pub fn last_check(&self) -> Result<()> {
        std::thread::sleep(Duration::from_millis(100));
        self.check()
    }

    /// Tells the server that this rank has joined.
    pub fn tell_joined(&self) {
        self.attendance.tell_joined();
    }

    /// Tells all others that this rank gives up, and why.
    pub fn give_up(&self, why: &Error) {
        self.is_over.store(true, Ordering::Release);
        self.leave_clock();
        self.attendance.tell_why(why);
    }
}

/// What was heard, for the clock of a declared machine.
fn news_of(heard: &Option<Heard>) -> HostNews<'_> {
    match heard {
        Some(Heard::Told { from, bytes }) => HostNews::Message { from: *from, bytes },
        Some(Heard::Death(rank)) => HostNews::Death(*rank),
        Some(Heard::Left(rank)) => HostNews::Left(*rank),
        Some(Heard::Silence | Heard::Cut) => HostNews::Silence,
        Some(Heard::Failed(_)) | None => HostNews::Nothing,
    }
}

fn too_early() -> Error {
    Error::remote(format!(
        "the ranks of other hosts have told this one more than {MOST_EARLY} messages of the declared machine's clock before it has joined; \
         have them begin when all have joined, or give a longer PENNY_FABRIC_GRACE"
    ))
}

/// Tells the server that the rank has left, when the last transport that keeps it is dropped.
struct Leave(Arc<Lifeline>);

impl Drop for Leave {
    fn drop(&mut self) {
        if !self.0.is_over.swap(true, Ordering::AcqRel) {
            self.0.leave_clock();
            self.0.attendance.leave();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lifeline_tests.rs"]
mod tests;
