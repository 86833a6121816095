//! Why a wait may be hopeless, in words: deaths, departures, aborts, disagreements, deadlines.

use super::arrival::Fingerprint;
use super::link::Ending;
use super::{JOINING, Scope, Transport, counter_end};
use crate::error::{Error, Result};
use crate::memory::control::{ABSENT, ALIVE, FAILED, LEFT};
use crate::sync::prim::{Ordering, fence};
use crate::types::{Collective, Rank};

/// A call as a person would write it.
pub fn call_text(f: &Fingerprint) -> String {
    let mut text = f.collective.to_string();
    if f.collective == Collective::Barrier {
        return text;
    }
    text += &format!("(count {}, type {}", f.count, f.dtype);
    if f.collective.reduces() {
        text += &format!(", op {}", f.op);
    }
    if f.collective.rooted() {
        text += &format!(", root {}", f.root);
    }
    if f.padded {
        text += ", padded";
    }
    text + ")"
}

impl Transport {
    /// The slow look during a wait inside a call: an error if the wait cannot end well.
    pub(super) fn watch(&self, scope: &Scope) -> Result<()> {
        self.check_abort()?;
        self.check_alarm()?;
        self.check_difference(scope)?;
        let watched =
            self.watch_ranks((0..self.nranks).filter(|&r| r != self.rank && !self.part_is_over(r, scope)));
        // A rank that left because of a difference showed its arguments before, perhaps since the look above.
        watched.or_else(|gone| self.check_difference(scope).and(Err(gone)))
    }

    /// Fails if the ranks that have arrived differ: some never meet in a call, and where one waits in vain it may be because of the other's
    /// arguments.
    fn check_difference(&self, scope: &Scope) -> Result<()> {
        // Before its own arrival a rank may not leave: others count on it.
        if !self.has_arrived(self.rank, scope.seq) {
            return Ok(());
        }
        self.difference_now(scope.seq).map_or(Ok(()), |difference| Err(self.disagree(&difference)))
    }

    /// Has a rank aborted or revoked the communicator?
    #[inline]
    pub fn is_aborted(&self) -> bool {
        self.control.header().ended_by.load(Ordering::Acquire) != 0
    }

    /// Has this rank aborted or revoked the communicator?
    pub fn has_ended(&self) -> bool {
        let ended = Ending::of(self.control.header().ended_by.load(Ordering::Acquire));
        ended.is_some_and(|(_, by)| by == self.rank)
    }

    /// Has a rank revoked the communicator, and none aborted it before?
    pub fn is_revoked(&self) -> bool {
        let ended = Ending::of(self.control.header().ended_by.load(Ordering::Acquire));
        matches!(ended, Some((Ending::Revoked, _)))
    }

    /// Fails if a rank has aborted or revoked the communicator, with a sentence that says which.
    #[inline]
    pub fn check_abort(&self) -> Result<()> {
        match Ending::of(self.control.header().ended_by.load(Ordering::Acquire)) {
            None => Ok(()),
            Some((ending, by)) => Err(self.ended(ending, by)),
        }
    }

    #[cold]
    fn ended(&self, ending: Ending, by: Rank) -> Error {
        if let Some(dead) = self.first_dead() {
            return self.gone(dead);
        }
        let verb = ending.verb();
        let mine = by == self.rank;
        // The rank that ended the communicator may have done so because of an alarm, such as a deadlock: report that.
        if !mine && let Err(told) = self.check_alarm() {
            return told;
        }
        let because = if mine { String::new() } else { self.because(by) };
        let beside = if mine { String::new() } else { self.beside_the_ancestors_ranks() };
        let remedy = match (ending, mine) {
            (Ending::Revoked, _) => " (pennyCommShrink or pennyCommSplit makes one of its ranks)",
            (Ending::Aborted, false) => " (pennyCommShrink makes one of the ranks that are left)",
            // This rank has given its handle up.
            (Ending::Aborted, true) => "",
        };
        let this = if mine { " (this rank)" } else { "" };
        Error::remote(format!(
            "rank {by}{this} {verb} the communicator{because}; make a new one{remedy}{beside}"
        ))
    }

    /// Are these ranks able to do their part? The dead are named before those who only failed because of them.
    pub fn check_ranks(&self, ranks: impl Iterator<Item = Rank> + Clone) -> Result<()> {
        let bad = |r: &Rank| {
            let life = self.lines(*r).life(*r);
            life.node.died() || self.life_state(*r) >= LEFT || self.seen_dead(*r)
        };
        if !ranks.clone().any(|r| bad(&r)) {
            return Ok(());
        }
        let left = || ranks.clone().find(|&r| self.has_left(r));
        let failed = || ranks.clone().find(|&r| self.gave_up(r));
        self.blame(self.first_dead().or_else(left).or_else(failed))
    }

    /// Has one of these ranks died or given up? One that has left may have done its part before.
    ///
    /// A filter by [`has_left`](Self::has_left) in front of [`check_ranks`](Self::check_ranks) would accuse a rank that leaves in between.
    pub fn check_not_lost(&self, ranks: impl Iterator<Item = Rank> + Clone) -> Result<()> {
        if !ranks.clone().any(|r| self.died_unprepared(r) || self.gave_up(r)) {
            return Ok(());
        }
        self.blame(self.first_dead().or_else(|| ranks.clone().find(|&r| self.gave_up(r))))
    }

    fn blame(&self, guilty: Option<Rank>) -> Result<()> {
        let Some(guilty) = guilty else { return Ok(()) };
        // A rank that fails or leaves because of an abort or an alarm has seen it, so this rank sees it now, too.
        self.check_abort()?;
        self.check_alarm()?;
        Err(self.gone(guilty))
    }

    /// The same during a wait, which may last: now and then /proc is asked, too.
    pub fn watch_ranks(&self, ranks: impl Iterator<Item = Rank> + Clone) -> Result<()> {
        self.look_at_proc(ranks.clone());
        self.check_ranks(ranks)
    }

    /// [`check_not_lost`](Self::check_not_lost) during a wait.
    pub fn watch_not_lost(&self, ranks: impl Iterator<Item = Rank> + Clone) -> Result<()> {
        self.look_at_proc(ranks.clone());
        self.check_not_lost(ranks)
    }

    /// Tells whether any rank can still store what a wait is for. None can if a rank died or gave up, nor if all
    /// others have left. A rank that has left after its part was done does no harm.
    pub fn check_hope(&self) -> Result<()> {
        self.check_abort()?;
        self.check_alarm()?;
        let others = || (0..self.nranks).filter(|&r| r != self.rank);
        self.check_not_lost(others())?;
        if self.nranks > 1 && others().all(|r| self.has_left(r)) {
            return Err(Error::remote(
                "every other rank has destroyed the communicator; nobody is left who could store what is waited for",
            ));
        }
        Ok(())
    }

    /// Tells whether these ranks' processes are alive and members still, whatever became of the communicator's calls. `may_part`: tells
    /// of a rank that has left whether it was free to do so.
    pub fn check_present(
        &self,
        ranks: impl Iterator<Item = Rank> + Clone,
        may_part: impl Fn(Rank) -> bool,
    ) -> Result<()> {
        self.look_at_proc(ranks.clone());
        for rank in ranks {
            let (life, pid, on) = (self.lines(rank).life(rank), self.pid(rank), self.on_host(rank));
            let died = life.node.died() || self.seen_dead(rank);
            // In this order: a rank leaves before its process ends, and is free to before it leaves.
            let has_left = self.has_left(rank);
            if has_left && may_part(rank) {
                continue;
            }
            if died {
                return Err(Error::remote(format!("rank {rank} (pid {pid}{on}) died; exclude it, too")));
            }
            if has_left {
                return Err(Error::remote(format!(
                    "rank {rank} (pid {pid}{on}) has destroyed the communicator; exclude it, too"
                )));
            }
        }
        Ok(())
    }

    /// The same during a wait, which may last: now and then /proc is asked, too.
    pub fn watch_hope(&self) -> Result<()> {
        self.look_at_proc((0..self.nranks).filter(|&r| r != self.rank));
        self.check_hope()
    }

    /// The rank whose death began it: survivors fail because of it, and may abort or exit in their turn.
    ///
    /// The first rank to notice a death notes it for all, in this communicator and in those that share its file: survivors may
    /// die next, before they could mark themselves as having given up.
    pub fn first_dead(&self) -> Option<Rank> {
        let noted = &self.control.header().first_dead;
        if let Some(rank) = noted.load(Ordering::Acquire).checked_sub(1).filter(|&r| r < self.nranks) {
            return Some(rank);
        }
        // The kernel marks a dead process's life words one after another: another communicator's may be marked before this one's.
        let alive = |r: Rank| self.life_state(r) < LEFT;
        let elsewhere = Some(self.control.dead_in_family()).filter(|&process| process != 0);
        let is = |rank: Rank, process: u64| self.family_name(rank) == process && alive(rank);
        let known = elsewhere.and_then(|process| (0..self.nranks).find(|&r| is(r, process)));
        // A dead rank of this host would have noted another's death before its own followed from it; a far one notes it elsewhere.
        let died = |far| (0..self.nranks).find(|&r| self.is_far(r) == far && self.died_unprepared(r));
        let dead = known.or_else(|| died(false)).or_else(|| died(true))?;
        if known.is_none() {
            self.control.note_dead_in_family(self.family_name(dead));
        }
        let note = noted.compare_exchange(0, dead + 1, Ordering::AcqRel, Ordering::Acquire);
        die_point!(44 "death_noted");
        match note {
            Err(earlier) if earlier <= self.nranks => Some(earlier - 1),
            _ => Some(dead),
        }
    }

    /// Has a rank died? What to say then.
    pub fn died(&self) -> Option<Error> {
        self.first_dead().map(|dead| self.gone(dead))
    }

    /// Has a rank left a call half-way? What was read from its heap, if that was still going on, may be anything.
    #[inline]
    pub fn check_borrowed(&self) -> Result<()> {
        // ORDER: the reads of peers' heaps come before this look; partner: the fence in `fail`.
        fence(Ordering::Acquire);
        if self.control.header().gave_up.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.check_abort()?;
        self.check_ranks((0..self.nranks).filter(|&r| r != self.rank))
    }

    /// The same after a call, of which ranks may also have left because they disagreed.
    #[inline]
    pub fn check_borrowed_in(&self, seq: u64) -> Result<()> {
        self.check_borrowed()?;
        if self.control.header().disagreement.load(Ordering::Relaxed) < seq {
            return Ok(());
        }
        self.difference_now(seq).map_or(Ok(()), |difference| Err(self.disagree(&difference)))
    }

    /// Did the rank's process end while the rank knew of no failure?
    fn died_unprepared(&self, rank: Rank) -> bool {
        let life = self.lines(rank).life(rank);
        (life.node.died() || self.seen_dead(rank)) && self.life_state(rank) < LEFT
    }

    fn gone(&self, rank: Rank) -> Error {
        let (life, pid, state) = (self.lines(rank).life(rank), self.pid(rank), self.life_state(rank));
        let (beside, on) = (self.beside_the_ancestors_ranks(), self.on_host(rank));
        // Another rank may have seen in /proc what the word does not show.
        if self.died_unprepared(rank) || matches!(state, ABSENT | ALIVE) {
            if rank == self.rank {
                return Error::remote(format!(
                    "this rank's connection to the meeting of the ranks was lost, so the other hosts take it for dead; make a new communicator{beside}"
                ));
            }
            self.accuse_dead(rank);
            return Error::remote(format!(
                "rank {rank} (pid {pid}{on}) {}; abort this communicator and make a new one among the survivors (pennyCommShrink){}{beside}",
                if self.is_far(rank) { "died, or its host cannot be reached" } else { "died" },
                self.beside_a_stopped_rank(rank)
            ));
        }
        let because = self.because(rank);
        let seq = life.failed_seq.load(Ordering::Relaxed);
        match state {
            LEFT => Error::remote(format!(
                "rank {rank} (pid {pid}{on}) has destroyed the communicator{because} and cannot take part in this call{beside}"
            )),
            FAILED if seq == JOINING => Error::remote(format!(
                "rank {rank} (pid {pid}{on}) gave up while joining{because}; abort this communicator and make a new one{beside}"
            )),
            FAILED => Error::remote(format!(
                "rank {rank} (pid {pid}{on}) gave up after an error{}{because}; abort this communicator and make a new one{beside}",
                if seq > 0 { format!(" in its call #{seq}") } else { String::new() }
            )),
            _ => Error::remote(format!(
                "rank {rank} (pid {pid}{on}) is in no state that there is: its life line was overwritten; abort this \
                 communicator and make a new one"
            )),
        }
    }

    /// Tells whether no rank needs rank `r` any more in this call.
    fn part_is_over(&self, r: Rank, scope: &Scope) -> bool {
        if scope.arrival_is_all {
            return self.has_arrived(r, scope.seq) && !self.has_withdrawn(r, scope.seq);
        }
        let counter = self.lines(r).progress(r).counter.load(Ordering::Acquire);
        counter >= counter_end(scope.seq)
    }

    /// Returns the error for a deadline that has passed: which rank is late, and what it is doing.
    pub(super) fn expired(&self, scope: &Scope) -> Error {
        let late: Vec<Rank> =
            (0..self.nranks).filter(|&r| r != self.rank && !self.has_arrived(r, scope.seq)).collect();
        let slow: Vec<Rank> = (0..self.nranks)
            .filter(|&r| r != self.rank && !late.contains(&r) && !self.part_is_over(r, scope))
            .collect();
        let mut text = format!(
            "call #{} {} did not finish within {}",
            scope.seq,
            Self::describe(scope.mine),
            seconds(self.timeout_ns)
        );
        if !late.is_empty() {
            text += &format!("; not arrived: {}{}", self.who(&late), self.of_this_process(&late));
        }
        if !slow.is_empty() {
            text += &format!("; arrived but not finished: {}", self.who(&slow));
        }
        self.accuse(&[late, slow].concat());
        text += "; if they are only slow, raise PENNY_TIMEOUT or timeoutMs; else abort and make a new communicator";
        Error::timeout(text)
    }

    /// Has one of these ranks given up, and none died?
    pub fn has_given_up(&self, mut ranks: impl Iterator<Item = Rank>) -> bool {
        self.first_dead().is_none() && ranks.any(|r| self.gave_up(r))
    }

    /// Did this rank ever join? Peers that are still joining are absent.
    pub fn joined(&self, rank: Rank) -> bool {
        self.life_state(rank) != ABSENT
    }

    /// Tells whether a rank has destroyed the communicator.
    pub fn has_left(&self, rank: Rank) -> bool {
        self.life_state(rank) == LEFT
    }

    /// Tells whether a rank has failed in a call, or while it joined.
    fn gave_up(&self, rank: Rank) -> bool {
        self.life_state(rank) >= FAILED
    }

    /// Returns the state in a rank's life line.
    pub(super) fn life_state(&self, rank: Rank) -> u32 {
        self.lines(rank).life(rank).state.load(Ordering::Acquire)
    }
}

/// A time-out in the unit a person would use.
pub fn seconds(ns: u64) -> String {
    format!("{} s", ns as f64 / 1e9)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::transport::in_process::{Delivery, transports};

    #[test]
    fn a_rank_that_leaves_while_it_is_looked_at_has_left() {
        let (ranks, _) = transports(&[0; 3], Delivery::InOrder, 60_000);
        let others = || [1, 2].into_iter();
        let leaving = || others().inspect(|&rank| ranks[rank as usize].leave());
        ranks[0].check_present(leaving(), |_| true).unwrap();
        ranks[0].watch_not_lost(others()).unwrap();
        let told = ranks[0].check_present(others(), |rank| rank != 2).unwrap_err();
        assert!(told.message.starts_with("rank 2 (pid") && told.message.contains("destroyed"), "{told}");
        assert!(ranks[0].check_ranks(others()).is_err());
    }

    #[test]
    fn ranks_that_give_up_or_die_are_lost() {
        let (ranks, _) = transports(&[0; 4], Delivery::InOrder, 60_000);
        let told = || ranks[0].check_not_lost([1, 2, 3].into_iter()).unwrap_err().message.clone();
        ranks[1].leave();
        ranks[2].fail(7);
        // Another rank has waited for rank 2, which is no reason of rank 2's own.
        ranks[1].accuse_dead(2);
        ranks[1].publish_cause(ranks[1].cause().unwrap());
        assert!(told().starts_with("rank 2 (pid") && told().contains("its call #7; abort"), "{}", told());
        ranks[0].lines(3).life(3).node.mark_dead();
        assert!(told().starts_with("rank 3 (pid") && told().contains("died"), "{}", told());
    }

    #[test]
    fn a_death_that_another_communicator_of_the_file_noticed_is_named_before_the_abort_that_followed() {
        let (ranks, _) = transports(&[0; 3], Delivery::InOrder, 60_000);
        // No life word of this communicator tells of it yet.
        ranks[0].lines(1).life(1).pid.store(77, Ordering::Relaxed);
        ranks[0].control.note_dead_in_family(ranks[0].family_name(1));
        ranks[2].end_calls(Ending::Aborted);
        let told = ranks[0].check_abort().unwrap_err();
        assert!(told.message.contains("rank 1 (pid 77) died"), "{told}");
    }
}
