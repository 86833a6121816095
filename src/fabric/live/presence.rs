//! Ranks in their own programs, whom the clock of all waits for, but not for ever.
//!
//! ```text
//!     presence   0 --enter--> 1 --leave--> 0              counted in `running` while 0, by its tickets while in calls
//!                0 --a waiter, after the grace period--> AWAY      whoever makes this change counts it out
//!                AWAY --enter--> 1                                 and its rank, when it comes back, in again
//! ```
//!
//! A rank that comes back enters no earlier than what the engine has told others: it is late, and counted as such.
//! As long as nobody stays in its own program for longer than [`GRACE_NS`] while others wait, none of this happens, and
//! the outcome does not depend on wall time. Who died in its own program is counted out at once, as if it had left; who
//! died in a call may have left anything half done, so no call on the machine can end any more.

use super::seat::Seat;
use crate::error::{Error, Result};
use crate::memory::board::AWAY;
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::Rank;

/// How long waiting ranks let a rank that is in its own program hold the clock, unless they are told otherwise.
pub const GRACE_NS: u64 = 2_000_000_000;
/// Who waits looks this often who holds the clock.
const A_GLANCE_NS: u64 = 20_000_000;

/// Reads `PENNY_FABRIC_GRACE`: seconds, 0 for never. In nanoseconds.
pub(super) fn parse_grace(text: &str) -> Result<u64> {
    let seconds = text.trim().parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s));
    seconds.map(|s| (s * 1e9).ceil() as u64).ok_or_else(|| {
        Error::argument(format!("PENNY_FABRIC_GRACE is `{text}`; it takes seconds such as 2.5, 0 for never"))
    })
}

/// A waiting rank's looks at who holds the clock.
pub(super) struct Lookout {
    since_ns: u64,
    next_ns: u64,
}

impl Lookout {
    pub fn new() -> Lookout {
        let since_ns = clock::now_ns();
        Lookout { since_ns, next_ns: since_ns + A_GLANCE_NS }
    }
}

impl Seat {
    /// This rank goes into a call, or into `calls` of them, at its clock or at `at_ps`. Tells when.
    pub(super) fn go_in(&self, calls: u32, at_ps: Option<u64>) -> u64 {
        let line = self.board.place(self.place());
        // ORDER: partner of the exchange in `count_out`: exactly one of both sees the other.
        let before = line
            .presence
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |presence| Some((presence & !AWAY) + calls));
        let header = self.board.header();
        let mut reached_ps = 0;
        if before.is_ok_and(|presence| presence & AWAY != 0) {
            header.running.fetch_add(1, Ordering::AcqRel);
            reached_ps = header.reached_ps.load(Ordering::Acquire);
        }
        let entry_ps = at_ps.unwrap_or_else(|| self.clock_ps());
        if entry_ps < reached_ps {
            header.late.fetch_add(1, Ordering::AcqRel);
            line.clock_ps.fetch_max(reached_ps, Ordering::AcqRel);
        }
        entry_ps.max(reached_ps)
    }

    /// One of its calls is over. By now the rank is counted as running again.
    pub(super) fn go_out(&self) {
        let line = self.board.place(self.place());
        line.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        line.presence.fetch_sub(1, Ordering::AcqRel);
    }

    /// It leaves for good. Tells whether it was counted until now.
    pub(super) fn go_away(&self) -> bool {
        let line = self.board.place(self.place());
        line.left.store(1, Ordering::Release);
        line.presence.swap(AWAY, Ordering::AcqRel) & AWAY == 0
    }

    /// While waiting: who holds the clock that will not let go?
    pub(super) fn look_out(&self, lookout: &mut Lookout) {
        let now_ns = clock::now_ns();
        if now_ns < lookout.next_ns {
            return;
        }
        lookout.next_ns = now_ns + A_GLANCE_NS;
        let runner = self.board.header().runner.load(Ordering::Acquire);
        for place in 0..self.board.places() {
            let line = self.board.place(place);
            if line.left.load(Ordering::Acquire) != 0 {
                continue;
            }
            let in_call = line.presence.load(Ordering::Acquire) & !AWAY != 0;
            if line.died() && (in_call || runner == place + 1) {
                self.halt(&self.death(place));
            } else if line.died() {
                line.left.store(1, Ordering::Release);
                if !self.count_out(place) {
                    // It was counted out before. That it will not come back may leave the others without hope.
                    self.drive();
                }
            } else if self.machine().grace_ns > 0 && !in_call {
                let since_ns = line.since_ns.load(Ordering::Relaxed).max(lookout.since_ns);
                if now_ns.saturating_sub(since_ns) > self.machine().grace_ns {
                    self.count_out(place);
                }
            }
        }
    }

    /// What all are told of a rank that died.
    pub(super) fn death(&self, place: Rank) -> Error {
        Error::remote(format!(
            "rank {place} (pid {}) died, and the clock of the declared machine cannot go on without it; abort the \
             communicators on it and make new ones among the survivors",
            self.board.place(place).pid.load(Ordering::Relaxed)
        ))
    }

    /// Let the clock go on without a rank, unless it is in a call or away already.
    fn count_out(&self, place: Rank) -> bool {
        let presence = &self.board.place(place).presence;
        let mine = presence.compare_exchange(0, AWAY, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if mine {
            self.rest();
        }
        mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_a_number_of_seconds() {
        assert_eq!(parse_grace("2").unwrap(), GRACE_NS);
        assert_eq!(parse_grace("0").unwrap(), 0);
        assert_eq!(parse_grace("0.25").unwrap(), 250_000_000);
        for wrong in ["", "-1", "soon", "2s", "inf", "NaN"] {
            let sentence = parse_grace(wrong).unwrap_err().message;
            assert!(sentence.contains("PENNY_FABRIC_GRACE") && sentence.contains("seconds"), "{sentence}");
        }
    }
}
