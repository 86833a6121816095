//! The ranks as processes, and the rank that another rank blames when it gives up.
//!
//! The robust word of a life line is what waits look at. Behind it stands /proc: a rank whose PID is gone, or has another
//! start time, is dead though its word does not say so. That look counts only where this rank's /proc shows the other's PID
//! namespace; between namespaces the word alone tells.

use super::Transport;
use super::link::News;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};
use crate::sys::{clock, cpu, process};
use crate::types::Rank;

/// Time between two looks at /proc in a wait.
const LOOK_NS: u64 = 100_000_000;
/// If the last look at /proc is longer ago than this, a wait does not begin with one. It is far above the time between two watches
/// on a loaded machine.
const RESTED_NS: u64 = 10_000_000_000;
/// Ranks that one of them takes in.
const LOOKED_AT: usize = 16;

/// A rank's process.
pub struct Identity {
    /// Its PID, as itself sees it.
    pub pid: u32,
    /// When it started, as this process's /proc tells; `None`: that /proc says nothing of it.
    start: Option<u64>,
    /// /proc has shown that it is dead.
    dead: AtomicBool,
}

impl Identity {
    /// Makes the identity of the rank that has sent the card `told`; `mine` is this rank's own card.
    pub fn new(told: process::Card, mine: process::Card) -> Identity {
        let seen = (told.namespace != 0 && told.namespace == mine.namespace)
            .then(|| process::start_time(told.pid))
            .filter(|start| start.is_none_or(|start| start == told.start));
        Identity {
            pid: told.pid,
            // A process that is no more is as good as one with another start time.
            start: seen.map(|_| told.start),
            dead: AtomicBool::new(false),
        }
    }

    /// Returns the process as this one's /proc numbers it; `None`: it does not show it.
    fn process(&self) -> Option<u32> {
        self.start.map(|_| self.pid)
    }

    /// Returns the identity of the same process in another communicator.
    fn again(&self) -> Identity {
        Identity {
            pid: self.pid,
            start: self.start,
            dead: AtomicBool::new(self.dead.load(Ordering::Relaxed)),
        }
    }

    /// Has /proc shown, or does it show now, that the process is dead?
    fn is_dead(&self) -> bool {
        let Some(start) = self.start else { return false };
        if !self.dead.load(Ordering::Relaxed) {
            let gone = process::has_died(self.pid, start).unwrap_or_else(process::sees_itself);
            self.dead.store(gone, Ordering::Relaxed);
        }
        self.dead.load(Ordering::Relaxed)
    }

    /// Returns the scheduler's state of the process.
    fn state(&self) -> &'static str {
        match self.start {
            None => "in another PID namespace",
            Some(_) if self.is_dead() => "dead",
            Some(_) => process::state(self.pid).unwrap_or("dead"),
        }
    }
}

/// The processes of a communicator's ranks, and this rank's opinion of them.
#[derive(Default)]
pub(super) struct Identities {
    all: std::sync::OnceLock<Box<[Identity]>>,
    /// The cores for this process, once they have been asked for.
    cores: std::sync::OnceLock<u32>,
    /// Ranks of this process.
    here: std::sync::OnceLock<u32>,
    /// When a wait is to look at /proc again, and at which rank it goes on.
    next_ns: AtomicU64,
    next: AtomicU64,
    /// The rank that this rank has last found guilty.
    cause: AtomicU64,
}

/// A rank or a foreign process that others fail because of, in a word: bits 0..16 hold 1 + the rank, or 0 for a process
/// outside of the communicator; 16..24 the state; 32..64 the PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(pub u64);

/// The words for a far rank's process.
const ELSEWHERE: &str = "on another host";

const STATES: [&str; 9] = [
    "running",
    "sleeping",
    "blocked in the kernel",
    "stopped by a signal",
    "stopped by a debugger",
    "dead",
    "in another PID namespace",
    ELSEWHERE,
    "in an unknown state",
];

impl Cause {
    fn new(rank: Rank, pid: u32, state: &str) -> Cause {
        let state = STATES.iter().position(|s| *s == state).unwrap_or(STATES.len() - 1);
        Cause(u64::from(rank + 1) | (state as u64) << 16 | u64::from(pid) << 32)
    }
    /// The same in a communicator that may have other ranks.
    pub fn abroad(self) -> Cause {
        Cause(self.0 & !0xffff)
    }
    fn rank(self) -> Option<Rank> {
        (self.0 as u32 & 0xffff).checked_sub(1)
    }
    fn text(self, me: Rank, nranks: u32) -> Option<String> {
        let state = STATES.get((self.0 >> 16 & 0xff) as usize)?;
        let pid = self.0 >> 32;
        match self.rank() {
            Some(rank) if rank >= nranks => None,
            Some(rank) if rank == me => Some(format!("rank {rank} (this rank; pid {pid}, {state} then)")),
            Some(rank) => Some(format!("rank {rank} (pid {pid}, {state})")),
            None if pid == 0 => None,
            None => {
                Some(format!("a rank of the communicator that this one was made from (pid {pid}, {state})"))
            }
        }
    }
}

fn is_stopped(state: &str) -> bool {
    state.starts_with("stopped")
}

/// Counts the ranks that may run on this rank's cores, itself among them.
pub fn rivals(all: &[Identity]) -> usize {
    match all.len() <= cpu::usable_cores() {
        true => all.len(),
        // Launchers give each rank cores of its own.
        false => cpu::sharing_cores(all.iter().map(Identity::process)),
    }
}

impl Transport {
    /// Tells this rank who the others are. Only the first counts.
    pub fn introduce(&self, all: Vec<Identity>) {
        let _ = self.identities.all.set(all.into());
    }

    /// Tells this rank of a communicator that was made from `parent` who the others are: `members` by rank.
    pub fn introduce_members(&self, parent: &Transport, members: &[Rank]) {
        if let Some(all) = parent.identities.all.get() {
            self.introduce(members.iter().map(|&r| all[r as usize].again()).collect());
        }
        // A far rank may die before it has told its PID here.
        for (rank, &member) in (0..).zip(members).filter(|&(rank, _)| self.is_far(rank)) {
            let (told, pid) = (&self.lines(rank).life(rank).pid, parent.pid(member));
            let _ = told.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn identity(&self, rank: Rank) -> Option<&Identity> {
        // This host's /proc says nothing of a far rank.
        self.identities.all.get()?.get(rank as usize).filter(|_| !self.is_far(rank))
    }

    /// A rank's PID, as the rank told it when it joined.
    pub fn pid(&self, rank: Rank) -> u32 {
        let told = || self.lines(rank).life(rank).pid.load(Ordering::Relaxed);
        self.identity(rank).map_or_else(told, |identity| identity.pid)
    }

    /// The processes of this host's ranks, as this process's /proc numbers them; `None`: it does not show a rank's.
    pub fn processes(&self) -> impl Iterator<Item = Option<u32>> {
        let near = (0..self.nranks).filter(|&rank| !self.is_far(rank));
        near.map(|rank| self.process(rank))
    }

    /// Returns how many of the host's cores there are for this process, if each of the communicator's processes that may run on them gets
    /// as many.
    pub fn cores_here(&self) -> u32 {
        let processes = || self.processes().flatten().collect::<std::collections::BTreeSet<u32>>();
        let sharing = || cpu::sharing_cores(processes().into_iter().map(Some)) + self.far_on_this_machine();
        *self.identities.cores.get_or_init(|| (cpu::usable_cores() / sharing().max(1)) as u32)
    }

    /// Tells whether threads of which each has as many ranks as `ranks_a_thread` keep this process's cores busy: a further one could not help.
    pub fn fill_cores(&self, ranks_a_thread: usize) -> bool {
        let own = self.process(self.rank);
        let here = || self.processes().filter(|process| *process == own).count() as u32;
        let here = *self.identities.here.get_or_init(here);
        self.cores_here() as usize * ranks_a_thread <= here as usize
    }

    /// A rank's PID, where this process's /proc shows it.
    pub(super) fn process(&self, rank: Rank) -> Option<u32> {
        self.identity(rank).and_then(Identity::process)
    }

    /// What the scheduler says of a rank's process, in words.
    pub fn state(&self, rank: Rank) -> &'static str {
        match self.identity(rank) {
            Some(identity) => identity.state(),
            None if self.is_far(rank) && self.lines(rank).life(rank).node.died() => "dead",
            None if self.is_far(rank) => ELSEWHERE,
            None => process::state(self.pid(rank)).unwrap_or("not visible from here"),
        }
    }

    /// Has /proc shown that a rank's process is dead? Costs no system call.
    #[inline]
    pub(super) fn seen_dead(&self, rank: Rank) -> bool {
        self.identity(rank).is_some_and(|identity| identity.dead.load(Ordering::Relaxed))
    }

    /// During a long wait for these ranks: looks at the next few of them in /proc, if it is time to.
    pub(super) fn look_at_proc(&self, ranks: impl Iterator<Item = Rank> + Clone) {
        let (now, next) = (clock::now_ns(), self.identities.next_ns.load(Ordering::Relaxed));
        if now < next {
            return;
        }
        self.identities.next_ns.store(now + LOOK_NS, Ordering::Relaxed);
        let all = ranks.clone().count();
        // After a long time without waits the first look only sets the time of the next: most waits are over by then.
        if all == 0 || now.saturating_sub(next) > RESTED_NS {
            return;
        }
        let from = self.identities.next.fetch_add(LOOKED_AT as u64, Ordering::Relaxed) as usize % all;
        let some = ranks.clone().skip(from).chain(ranks).take(LOOKED_AT.min(all));
        some.filter_map(|rank| self.identity(rank)).for_each(|identity| _ = identity.is_dead());
    }

    /// Remembers that a wait for these ranks was in vain. A rank that is stopped or dead, waited for or not, is guilty before
    /// one that is only late: that one may wait in its turn. Tells who is guilty, if that is none of `waited`.
    pub(super) fn accuse(&self, waited: &[Rank]) -> Option<Rank> {
        let others =
            (0..self.nranks).filter(|&r| r != self.rank && !self.has_left(r) && !waited.contains(&r));
        let all: Vec<(Rank, &str)> =
            waited.iter().copied().chain(others).map(|r| (r, self.state(r))).collect();
        let guilty = all
            .iter()
            .find(|(_, state)| is_stopped(state))
            .or_else(|| all.iter().find(|(_, state)| *state == "dead"))
            .or_else(|| all.first().filter(|_| !waited.is_empty()));
        let &(rank, state) = guilty?;
        self.identities.cause.store(Cause::new(rank, self.pid(rank), state).0, Ordering::Relaxed);
        (!waited.contains(&rank)).then_some(rank)
    }

    /// Remembers that a rank has died.
    pub(super) fn accuse_dead(&self, rank: Rank) {
        self.identities.cause.store(Cause::new(rank, self.pid(rank), "dead").0, Ordering::Relaxed);
    }

    /// Returns the rank that this rank has last found guilty.
    pub fn cause(&self) -> Option<Cause> {
        Some(Cause(self.identities.cause.load(Ordering::Relaxed))).filter(|cause| cause.0 != 0)
    }

    /// Tells all other ranks the cause for which this rank gives up, unless another rank has told its cause before.
    pub fn publish_cause(&self, cause: Cause) {
        let word = &self.control.header().cause;
        let _ = word.compare_exchange(0, cause.0, Ordering::AcqRel, Ordering::Acquire);
        self.send_news(News { cause: cause.0, ..News::default() });
    }

    /// Returns the cause of the first rank that gave up, as text to be added to a sentence about rank `of`. Empty where that is the cause
    /// itself, for which another has waited.
    pub(super) fn because(&self, of: Rank) -> String {
        let cause = Cause(self.control.header().cause.load(Ordering::Acquire));
        let text = Some(cause)
            .filter(|cause| cause.0 != 0 && cause.rank() != Some(of))
            .and_then(|c| c.text(self.rank, self.nranks));
        text.map_or(String::new(), |text| format!(", having waited in vain for {text}"))
    }

    /// Names a rank that is stopped, to be added to a sentence about the death of another: that one may have ended because it
    /// had waited in vain. Empty where no rank is stopped.
    pub(super) fn beside_a_stopped_rank(&self, dead: Rank) -> String {
        let mut others = (0..self.nranks).filter(|&r| r != self.rank && r != dead);
        let stopped = others.find(|&r| is_stopped(self.state(r)));
        stopped.map_or(String::new(), |r| format!("; {} holds up the others", self.named(r, self.state(r))))
    }

    /// Names a rank that is dead or stopped and has no part in this communicator, to be added to a sentence about one that
    /// has: that one may have ended because of it. Empty where this communicator was not made from another.
    pub(super) fn beside_the_ancestors_ranks(&self) -> String {
        let Some(ancestor) = self.ancestor.upgrade() else { return String::new() };
        let is_elsewhere = |r: Rank| (0..self.nranks).all(|rank| self.pid(rank) != ancestor.pid(r));
        let dead = ancestor.first_dead().filter(|&r| is_elsewhere(r));
        let stopped = || (0..ancestor.nranks).find(|&r| is_stopped(ancestor.state(r)) && is_elsewhere(r));
        let from = "of the communicator that this one was made from";
        if let Some(r) = dead {
            format!("; rank {r} (pid {}) {from} died", ancestor.pid(r))
        } else if let Some(r) = stopped() {
            format!("; rank {r} (pid {}, {}) {from} holds up the others", ancestor.pid(r), ancestor.state(r))
        } else {
            String::new()
        }
    }

    /// Ranks with PID and state, the first few of them and those that are stopped first. To be asked when a wait for them was
    /// in vain: see [`accuse`](Self::accuse).
    pub fn who(&self, ranks: &[Rank]) -> String {
        const SHOWN: usize = 4;
        let elsewhere = self.held_up_elsewhere(ranks);
        let mut told: Vec<(Rank, &str)> = ranks.iter().map(|&r| (r, self.state(r))).collect();
        told.sort_by_key(|(_, state)| !is_stopped(state));
        let mut text = told.iter().take(SHOWN).map(|&(r, s)| self.named(r, s)).collect::<Vec<_>>().join(", ");
        if ranks.len() > SHOWN {
            text += &format!(" and {} more", ranks.len() - SHOWN);
        }
        text + &elsewhere
    }

    /// Tells which of the ranks that are waited for are of this process, and how one thread calls for several. Empty where none is.
    pub fn of_this_process(&self, waited: &[Rank]) -> String {
        let own = |&&rank: &&Rank| !self.is_far(rank) && self.pid(rank) == self.pid(self.rank());
        waited.iter().find(own).map_or(String::new(), |rank| {
            format!(
                "; rank {rank} is of this process: a thread that calls for several ranks puts their calls into one group (pennyGroupStart, \
                 pennyGroupEnd)"
            )
        })
    }

    /// Names a stopped or dead rank that is none of `waited`, to be added to a sentence about a wait for those that was in vain.
    /// Empty where there is none. Remembers whom to blame: see [`accuse`](Self::accuse).
    pub fn held_up_elsewhere(&self, waited: &[Rank]) -> String {
        let named = |rank| format!("; held up by {}", self.named(rank, self.state(rank)));
        self.accuse(waited).map_or(String::new(), named)
    }

    fn named(&self, rank: Rank, state: &str) -> String {
        let (pid, call) = (self.pid(rank), self.last_call(rank));
        let last = call.map_or("in no collective yet".into(), |call| format!("last seen in {call}"));
        match state == ELSEWHERE {
            true => format!("rank {rank} (pid {pid}{}, {last})", self.on_host(rank)),
            false => format!("rank {rank} (pid {pid}{}, {state}, {last})", self.on_host(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_namespace_is_never_taken_for_dead() {
        let mine = process::card();
        let nobody = process::Card { pid: u32::MAX >> 1, start: 7, namespace: mine.namespace };
        assert!(Identity::new(nobody, mine).is_dead());
        let elsewhere = Identity::new(process::Card { namespace: mine.namespace + 1, ..nobody }, mine);
        assert!(!elsewhere.is_dead());
        assert_eq!(elsewhere.state(), "in another PID namespace");
        let hidden = process::Card { namespace: 0, ..mine };
        assert!(!Identity::new(nobody, hidden).is_dead() && !Identity::new(hidden, hidden).is_dead());
        assert!(!Identity::new(mine, mine).is_dead());
    }

    #[test]
    fn a_reused_pid_is_not_the_rank() {
        let mine = process::card();
        let identity = Identity { pid: mine.pid, start: Some(mine.start + 1), dead: AtomicBool::new(false) };
        assert!(identity.is_dead());
        assert_eq!(identity.state(), "dead");
    }

    #[test]
    fn any_word_is_a_cause_or_none() {
        assert_eq!(Cause(0).text(0, 4), None);
        assert_eq!(Cause(u64::MAX).text(0, 4), None);
        let cause = Cause::new(2, 77, "stopped by a signal");
        assert_eq!(cause.text(0, 4).as_deref(), Some("rank 2 (pid 77, stopped by a signal)"));
        assert_eq!(cause.text(0, 2), None);
        assert!(cause.abroad().text(0, 2).is_some_and(|text| text.contains("pid 77")));
    }
}
