//! Whether ranks made the same calls, asked of every pair of ranks about every call, whatever the calls made them tell.
//!
//! Ranks that disagree on a root may never meet in that call: each gives its data and leaves. So a rank keeps a **trail**,
//! a sum over its arguments to its latest calls, which travels with every arrival, and a **record** of those calls where
//! others can look them up:
//!
//! ```text
//!     calls of rank 0    ... 41  42  43 [44] 45  46  47  48  arrives at 49 with the trail of 33..=48
//!     calls of rank 1    ... 41  42  43 (44) 45  46  47  48  finds another trail than its own, looks: it was 44
//! ```
//!
//! Before a rank may write an arrival line anew, it must have seen that all others are done with the line's last call. When
//! it looks at their arrivals it compares the trails as well. So before its call s a rank has compared its calls up to s - DEPTH with those of
//! every other rank, in calls where all need all its calls up to s - 1. If ranks differ in a call, each rank differs from
//! some other in it: hence each rank finds out by itself, and no rank has to be told. (docs/decisions/0003)

use super::arrival::AGREED;
use super::link::News;
use super::{Transport, watch};
use crate::error::{Code, Error, Result};
use crate::memory::control::{DEPTH, RECORDS};
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// Calls that a trail covers: more than pass between two comparisons with one rank.
const COVERED: usize = 2 * DEPTH;
/// Calls that are looked up when trails differ: what two trails may cover that are not of the same call. A record is
/// written anew later than that, however far its rank runs ahead.
const LOOKED_UP: u64 = (COVERED + DEPTH) as u64;
const _: () = assert!(LOOKED_UP as usize + DEPTH <= RECORDS);

/// A rank's arguments to its latest calls, as one number, and what came of comparing it.
pub struct Agreement {
    /// The sum of `terms`.
    trail: u64,
    /// The terms of the latest calls, by the call's number.
    terms: [u64; COVERED],
    /// The calls, of those that may be looked up, in which a disagreement has been told here.
    told: Vec<u64>,
    /// The last call before which the other ranks' findings have been looked at.
    heard: u64,
}

impl Default for Agreement {
    fn default() -> Agreement {
        Agreement { trail: 0, terms: [0; COVERED], told: Vec::new(), heard: 0 }
    }
}

/// A call to which two ranks passed different arguments.
pub(super) struct Difference {
    pub seq: u64,
    pub mine: [u64; 2],
    pub peer: Rank,
    pub theirs: [u64; 2],
}

/// One call's part of a trail. Calls that differ in their packed arguments alone never have the same.
#[inline]
fn term(seq: u64, mine: [u64; 2]) -> u64 {
    let count = mine[1].wrapping_mul(0x9fb2_1c65_1e98_df25);
    let mut x = mine[0].wrapping_add(count).wrapping_add(seq.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Agreement {
    /// Returns the next arrival's word about the calls before it.
    #[inline]
    pub fn trail(&self) -> u64 {
        self.trail
    }

    /// A call has been made.
    #[inline(always)]
    pub fn add(&mut self, seq: u64, mine: [u64; 2]) {
        let place = &mut self.terms[seq as usize % COVERED];
        let new = term(seq, mine);
        self.trail = self.trail.wrapping_sub(*place).wrapping_add(new);
        *place = new;
    }

    /// After a call: the disagreements of earlier ones that have come up. Those are told once.
    #[inline(always)]
    pub fn late_mismatch(
        &mut self,
        t: &Transport,
        seq: u64,
        doubt: bool,
        ended: &Result<()>,
    ) -> Option<Error> {
        let found = t.control.header().disagreement.load(Ordering::Acquire);
        if !doubt && found <= self.heard && ended.is_ok() {
            return None;
        }
        self.look_for_late_mismatch(t, seq, ended)
    }

    #[cold]
    fn look_for_late_mismatch(&mut self, t: &Transport, seq: u64, ended: &Result<()>) -> Option<Error> {
        if matches!(ended, Err(e) if e.code == Code::InvalidUsage) {
            // The call's own; its error tells it.
            self.told.push(seq);
        }
        self.look_back(t, seq)
    }

    /// The disagreements in the latest calls up to `last` that can be seen now and have not been told.
    #[cold]
    pub fn look_back(&mut self, t: &Transport, last: u64) -> Option<Error> {
        self.heard = last;
        let first = last.saturating_sub(LOOKED_UP - 1).max(1);
        self.told.retain(|&told| told >= first);
        let untold = (first..=last).filter(|seq| !self.told.contains(seq));
        let found: Vec<Difference> = untold.filter_map(|seq| t.difference_on_record(seq)).collect();
        let latest = found.last()?.seq;
        self.told.extend(found.iter().map(|difference| difference.seq));
        // The other ranks look at their next call's end, and need not wait until they compare trails.
        die_point!(32 "disagreement_found");
        t.note_disagreement(latest);
        die_point!(33 "disagreement_noted");
        Some(t.text(&found))
    }
}

impl Transport {
    /// Do this rank's and another's arguments differ in calls before `seq`, at which both have arrived? A yes may be wrong
    /// where the other runs ahead, a no may not. `latest`: the last call at which this rank has arrived.
    #[inline]
    pub(crate) fn trails_differ(&self, peer: Rank, seq: u64, latest: u64) -> bool {
        // A rank that is a round of lines ahead has been at `latest`, and cannot be a round ahead of that.
        let at =
            if self.lines(peer).arrival(peer, seq).seq.load(Ordering::Acquire) == seq { seq } else { latest };
        let trail = |rank| self.lines(rank).arrival(rank, at).trail.load(Ordering::Relaxed);
        trail(peer) != trail(self.rank)
    }

    /// Returns the arguments of `rank` to this rank's present call, if it has arrived there.
    fn said(&self, rank: Rank, seq: u64) -> Option<[u64; 2]> {
        let line = self.lines(rank).arrival(rank, seq);
        let there = line.seq.load(Ordering::Acquire) == seq;
        there.then(|| [line.args.load(Ordering::Relaxed) & AGREED, line.count.load(Ordering::Relaxed)])
    }

    /// Returns the arguments of `rank` to a recent call, if it has made that call.
    fn on_record(&self, rank: Rank, seq: u64) -> Option<[u64; 2]> {
        let record = self.lines(rank).record(rank, seq);
        let there = record.seq.load(Ordering::Acquire) == seq;
        there.then(|| record.said.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// Another rank that passed other arguments.
    fn difference(
        &self,
        seq: u64,
        passed: impl Fn(&Transport, Rank, u64) -> Option<[u64; 2]>,
    ) -> Option<Difference> {
        let mine = passed(self, self.rank, seq)?;
        (0..self.nranks).filter(|&r| r != self.rank).find_map(|peer| {
            let theirs = passed(self, peer, seq).filter(|theirs| *theirs != mine)?;
            Some(Difference { seq, mine, peer, theirs })
        })
    }

    /// In the call in which this rank is.
    pub(super) fn difference_now(&self, seq: u64) -> Option<Difference> {
        self.difference(seq, Transport::said)
    }

    fn difference_on_record(&self, seq: u64) -> Option<Difference> {
        self.difference(seq, Transport::on_record)
    }

    fn note_disagreement(&self, seq: u64) {
        self.control.header().disagreement.fetch_max(seq, Ordering::AcqRel);
        self.send_news(News { disagreement: seq, ..News::default() });
    }

    /// This rank and another disagree in the call in which this one is: wakes all ranks, and says so. Where a rank has died,
    /// that is why: the other has learnt of it in an earlier call and has gone on.
    #[cold]
    pub(super) fn disagree(&self, difference: &Difference) -> Error {
        let found = self.text(std::slice::from_ref(difference));
        if let Some(cause) = self.cause_of_disagreement(&found) {
            return cause;
        }
        die_point!(30 "disagreement_seen");
        self.note_disagreement(difference.seq);
        die_point!(31 "disagreement_told");
        self.ring_all();
        found
    }

    /// Returns the error to report in place of a disagreement: a rank that has learnt of a death, or has given up waiting for a
    /// stopped rank, goes on to calls that the others do not make. `None`: no rank is dead or stopped.
    #[cold]
    pub(super) fn cause_of_disagreement(&self, found: &Error) -> Option<Error> {
        if let Some(died) = self.died() {
            return Some(died);
        }
        let stopped = self.beside_a_stopped_rank(self.rank);
        if stopped.is_empty() {
            return None;
        }
        self.accuse(&[]);
        Some(Error::remote(format!("{found}{stopped}")))
    }

    fn text(&self, found: &[Difference]) -> Error {
        let sides = |d: &Difference| [d.mine, d.theirs].map(Self::describe);
        let each = found.iter().map(|d| {
            let [mine, theirs] = sides(d);
            format!("in call #{}: rank {} passed {mine}, rank {} passed {theirs}", d.seq, self.rank, d.peer)
        });
        let alike = |d: &Difference| {
            let [mine, theirs] = sides(d);
            mine == theirs
        };
        let hint = match found.iter().all(alike) {
            true => {
                "they chose different algorithms: PENNY_ALGO, PENNY_OPTIONS and PENNY_REPRODUCIBLE must be the same on all ranks"
            }
            false => "all ranks must make the same calls in the same order",
        };
        Error::usage(format!("ranks disagree {}; {hint}", each.collect::<Vec<_>>().join(", and ")))
    }

    /// Describes a peer's packed arguments.
    pub(super) fn describe(args: [u64; 2]) -> String {
        match super::Fingerprint::unpack(args[0], args[1]) {
            Some(f) => watch::call_text(&f),
            None => "something that is not a call".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trails_differ_while_they_cover_a_difference_and_not_after() {
        for other in (1..=1024).map(|root| root << 24) {
            let (mut a, mut b) = (Agreement::default(), Agreement::default());
            for seq in 1..100 {
                a.add(seq, [5, 7]);
                b.add(seq, [if seq == 40 { 5 + other } else { 5 }, 7]);
                assert_eq!(a.trail() != b.trail(), (40..40 + COVERED as u64).contains(&seq), "{seq}");
            }
        }
    }

    #[test]
    fn one_difference_does_not_hide_another() {
        let roots = (1..60u64).flat_map(|x| (1..60u64).map(move |y| (x << 24, y << 24)));
        for ((x, y), apart) in roots.zip((1..COVERED as u64).cycle()) {
            let (mut a, mut b) = (Agreement::default(), Agreement::default());
            for seq in 1..=20 {
                // The second call has the roots of the first the other way round.
                let (root_a, root_b) = match seq {
                    2 => (x, y),
                    _ if seq == 2 + apart => (y, x),
                    _ => (0, 0),
                };
                a.add(seq, [root_a, 7]);
                b.add(seq, [root_b, 7]);
                assert_eq!(a.trail() == b.trail(), x == y || seq < 2 || seq >= 2 + apart + COVERED as u64);
            }
        }
    }
}
