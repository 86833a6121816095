//! Why a wait may be hopeless, in words: deaths, departures, aborts, disagreements, deadlines.

use super::arrival::{AGREED, Fingerprint};
use super::{Scope, Transport, counter_base};
use crate::error::{Error, Result};
use crate::memory::control::{ABSENT, DEPTH, FAILED, LEFT};
use crate::sync::prim::{AtomicU64, Ordering, fence};
use crate::sys::process;
use crate::types::{Collective, Rank};
use std::ops::Range;

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
        // Before its own arrival a rank may not leave: others count on it.
        if self.has_arrived(self.rank, scope.seq) {
            if self.control.header().disagreement.load(Ordering::Acquire) >= scope.seq
                && let Some(error) = self.disagreement_in(scope.seq..scope.seq + 1)
            {
                return Err(error);
            }
            // Some ranks never meet in a call; where one waits in vain it may be because of the other's arguments.
            let differs = |r: &Rank| self.said(*r, scope.seq).is_some_and(|theirs| theirs != scope.mine);
            if let Some(r) = (0..self.nranks).find(differs)
                && let Some(theirs) = self.said(r, scope.seq)
            {
                return Err(self.disagree(scope.seq, scope.mine, r, theirs));
            }
        }
        self.check_ranks((0..self.nranks).filter(|&r| r != self.rank && !self.part_is_over(r, scope)))
    }

    /// Has anybody aborted?
    #[inline]
    pub fn check_abort(&self) -> Result<()> {
        let by = self.control.header().aborted_by.load(Ordering::Acquire);
        if by != 0
            && let Some(dead) = self.first_dead()
        {
            return Err(self.gone(dead));
        }
        match by {
            0 => Ok(()),
            by if by - 1 == self.rank => Err(Error::remote(format!(
                "rank {} (this rank) aborted the communicator; make a new one",
                self.rank
            ))),
            by => Err(Error::remote(format!("rank {} aborted the communicator; make a new one", by - 1))),
        }
    }

    /// Are these ranks able to do their part? The dead are named before those who only failed because of them.
    pub fn check_ranks(&self, ranks: impl Iterator<Item = Rank> + Clone) -> Result<()> {
        let bad = |r: &Rank| {
            let life = self.control.life(*r);
            life.node.died() || life.state.load(Ordering::Acquire) >= LEFT
        };
        if !ranks.clone().any(|r| bad(&r)) {
            return Ok(());
        }
        let state = |r: &Rank| self.control.life(*r).state.load(Ordering::Acquire);
        let guilty = self
            .first_dead()
            .or_else(|| ranks.clone().find(|r| state(r) == LEFT))
            .or_else(|| ranks.clone().find(|r| state(r) == FAILED));
        guilty.map_or(Ok(()), |r| Err(self.gone(r)))
    }

    /// Can what a wait is for still be stored by somebody, whoever that may be? Not if a rank died or gave up, nor if all
    /// others have left. One that has left after its part was done harms nobody.
    pub fn check_hope(&self) -> Result<()> {
        self.check_abort()?;
        self.check_alarm()?;
        let others = || (0..self.nranks).filter(|&r| r != self.rank);
        let state = |r: Rank| self.control.life(r).state.load(Ordering::Acquire);
        if others().any(|r| self.died_unprepared(r) || state(r) == FAILED) {
            return self.check_ranks(others().filter(|&r| state(r) != LEFT));
        }
        if self.nranks > 1 && others().all(|r| state(r) == LEFT) {
            return Err(Error::remote(
                "every other rank has destroyed the communicator; nobody is left who could store what is waited for",
            ));
        }
        Ok(())
    }

    /// The rank whose death began it: survivors fail because of it, and may abort or exit in their turn.
    ///
    /// Whoever notices a death writes it down for all: survivors may die next, before they could mark themselves as
    /// having given up.
    fn first_dead(&self) -> Option<Rank> {
        let noted = &self.control.header().first_dead;
        if let Some(rank) = noted.load(Ordering::Acquire).checked_sub(1).filter(|&r| r < self.nranks) {
            return Some(rank);
        }
        let dead = (0..self.nranks).find(|&r| self.died_unprepared(r))?;
        match noted.compare_exchange(0, dead + 1, Ordering::AcqRel, Ordering::Acquire) {
            Err(earlier) if earlier <= self.nranks => Some(earlier - 1),
            _ => Some(dead),
        }
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
        self.disagreement_in(seq..seq + 1).map_or(Ok(()), Err)
    }

    /// Did the rank's process end while the rank knew of no failure?
    fn died_unprepared(&self, rank: Rank) -> bool {
        let life = self.control.life(rank);
        life.node.died() && life.state.load(Ordering::Acquire) < LEFT
    }

    fn gone(&self, rank: Rank) -> Error {
        let life = self.control.life(rank);
        let pid = life.pid.load(Ordering::Relaxed);
        if self.died_unprepared(rank) {
            return Error::remote(format!(
                "rank {rank} (pid {pid}) died; abort this communicator and make a new one among the survivors"
            ));
        }
        match life.state.load(Ordering::Acquire) {
            LEFT => Error::remote(format!(
                "rank {rank} (pid {pid}) has destroyed the communicator and cannot take part in this call"
            )),
            _ => Error::remote(format!(
                "rank {rank} (pid {pid}) gave up after an error in its call #{}; abort this communicator and make a new one",
                life.failed_seq.load(Ordering::Relaxed)
            )),
        }
    }

    /// Does nobody need rank `r` any more in this call?
    fn part_is_over(&self, r: Rank, scope: &Scope) -> bool {
        if scope.arrival_is_all {
            return self.has_arrived(r, scope.seq);
        }
        let counter = self.control.progress(r).counter.load(Ordering::Acquire);
        counter >= counter_base(scope.seq + 1) - 1
    }

    /// The deadline has passed: who is late, and what is it doing?
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
            text += &format!("; not arrived: {}", self.who(&late));
        }
        if !slow.is_empty() {
            text += &format!("; arrived but not finished: {}", self.who(&slow));
        }
        text += "; if they are only slow, raise PENNY_TIMEOUT or timeoutMs; else abort and make a new communicator";
        Error::timeout(text)
    }

    /// Ranks with PID and state, the first few of them.
    pub fn who(&self, ranks: &[Rank]) -> String {
        const SHOWN: usize = 4;
        let mut text = ranks
            .iter()
            .take(SHOWN)
            .map(|&r| {
                let pid = self.control.life(r).pid.load(Ordering::Relaxed);
                let state = process::state(pid).unwrap_or("not visible from here");
                match self.last_call(r) {
                    Some(call) => format!("rank {r} (pid {pid}, {state}, last seen in {call})"),
                    None => format!("rank {r} (pid {pid}, {state}, no call yet)"),
                }
            })
            .collect::<Vec<_>>()
            .join(", ");
        if ranks.len() > SHOWN {
            text += &format!(" and {} more", ranks.len() - SHOWN);
        }
        text
    }

    /// The last call that a rank has entered.
    fn last_call(&self, rank: Rank) -> Option<String> {
        (0..DEPTH as u64)
            .map(|s| self.control.arrival(rank, s))
            .max_by_key(|line| line.seq.load(Ordering::Acquire))
            .filter(|line| line.seq.load(Ordering::Acquire) > 0)
            .map(|line| {
                let args = line.args.load(Ordering::Relaxed) & AGREED;
                let text = Self::describe([args, line.count.load(Ordering::Relaxed)]);
                format!("call #{} {text}", line.seq.load(Ordering::Relaxed))
            })
    }

    /// Two ranks disagree: tell everybody, and say so.
    #[cold]
    pub(super) fn disagree(&self, seq: u64, mine: [u64; 2], peer: Rank, theirs: [u64; 2]) -> Error {
        let notice = self.control.notice(self.rank, seq);
        for (to, from) in notice.mine.iter().zip(mine).chain(notice.theirs.iter().zip(theirs)) {
            to.store(from, Ordering::Relaxed);
        }
        notice.peer.store(peer as u64, Ordering::Relaxed);
        // ORDER: publishes the notice; partner: `disagreement_in`.
        notice.seq.store(seq, Ordering::Release);
        self.control.header().disagreement.fetch_max(seq, Ordering::AcqRel);
        self.ring_all();
        disagreement_text(seq, self.rank, mine, peer, theirs)
    }

    /// The latest disagreement that anybody else noticed in these calls.
    pub fn disagreement_in(&self, calls: Range<u64>) -> Option<Error> {
        let noticed = |seq: u64| {
            (0..self.nranks).filter(|&r| r != self.rank).find_map(|finder| {
                let notice = self.control.notice(finder, seq);
                if notice.seq.load(Ordering::Acquire) != seq {
                    return None;
                }
                let pair = |w: &[AtomicU64; 2]| w.each_ref().map(|w| w.load(Ordering::Relaxed));
                let peer = notice.peer.load(Ordering::Relaxed) as Rank;
                Some(disagreement_text(seq, finder, pair(&notice.mine), peer, pair(&notice.theirs)))
            })
        };
        calls.rev().take(DEPTH).find_map(noticed)
    }

    /// What a rank passed to call `seq`, if it has arrived there. The line holds until we have arrived at the next.
    fn said(&self, rank: Rank, seq: u64) -> Option<[u64; 2]> {
        let line = self.control.arrival(rank, seq);
        let there = line.seq.load(Ordering::Acquire) == seq;
        there.then(|| [line.args.load(Ordering::Relaxed) & AGREED, line.count.load(Ordering::Relaxed)])
    }

    /// Did ranks pass different arguments to one of these past calls, and leave it before anybody could notice? That
    /// happens where each takes another for the root. To be asked before arriving at a call that needs everybody.
    ///
    /// Nobody leaves that call before we arrive at it, so the lines of the calls before it hold; and the last rank to
    /// arrive finds all of them written. What it finds all others learn before they leave.
    pub fn unnoticed_in(&self, calls: Range<u64>) -> Option<Error> {
        calls.rev().take(DEPTH - 1).find_map(|seq| {
            let mine = self.said(self.rank, seq)?;
            let differs = |r| Some((r, self.said(r, seq).filter(|theirs| *theirs != mine)?));
            let (peer, theirs) = (0..self.nranks).find_map(differs)?;
            Some(self.disagree(seq, mine, peer, theirs))
        })
    }

    /// Did this rank ever join? Peers that are still joining are absent.
    pub fn joined(&self, rank: Rank) -> bool {
        self.control.life(rank).state.load(Ordering::Acquire) != ABSENT
    }
}

fn disagreement_text(seq: u64, a: Rank, a_args: [u64; 2], b: Rank, b_args: [u64; 2]) -> Error {
    let (a_text, b_text) = (Transport::describe(a_args), Transport::describe(b_args));
    let hint = if a_text == b_text {
        "they chose different methods: PENNY_ALGO, PENNY_OPTIONS and PENNY_REPRODUCIBLE must be the same on all ranks"
    } else {
        "all ranks must make the same calls in the same order"
    };
    Error::usage(format!(
        "ranks disagree in call #{seq}: rank {a} passed {a_text}, rank {b} passed {b_text}; {hint}"
    ))
}

/// A time-out in the unit a person would use.
pub fn seconds(ns: u64) -> String {
    format!("{} s", ns as f64 / 1e9)
}
