//! What a rank's own threads share, and how many of them count as running.
//!
//! ```text
//!     threads    A  ---- call ======= ---------------- call ===
//!                B  ------------- call =========== -------------
//!     counted       1    1       2     1               1              less those that wait
//! ```
//!
//! A rank counts as one, whatever its threads do outside of calls; while several are in calls it counts as many.

use super::pace::{Clock, Pacer};
use super::seat::{Seat, lock};
use crate::memory::board::TICKETS;
use crate::sync::prim::Ordering;

/// What only this rank's own threads use.
#[derive(Default)]
pub struct Desk {
    pub taken: [bool; TICKETS],
    /// Taken, and left to the engine, which gives them back.
    pub left: [bool; TICKETS],
    /// Posts whose space is reserved, by ticket.
    pub reserved: [usize; TICKETS],
    /// Activities beside the rank's own: further communicators of a group.
    extra: u32,
    /// Threads that are in a call. More than there are activities: those of a rank with several, where the others count
    /// only while they are in calls.
    inside: u32,
    pub pacer: Pacer,
}

impl Desk {
    /// What counts as running as long as it does not wait: the rank and its further activities, or the threads in calls if
    /// these are more. Which of them came first does not matter: whoever waits stands for those who are in no call.
    fn counted(&self) -> u32 {
        self.inside.max(1 + self.extra)
    }
}

impl Seat {
    /// A thread of this rank goes into a call: when.
    pub(super) fn go_inside(&self, wall_ns: u64, at_ps: Option<u64>) -> u64 {
        self.looked_anew();
        self.inside(&mut lock(&self.desk), wall_ns, at_ps)
    }

    /// The same with the desk in hand.
    pub(super) fn inside(&self, desk: &mut Desk, wall_ns: u64, at_ps: Option<u64>) -> u64 {
        let before = desk.counted();
        desk.inside += 1;
        if desk.counted() > before {
            self.board.header().running.fetch_add(1, Ordering::AcqRel);
        }
        let entry_ps = self.go_in(1, at_ps);
        if let Clock::Paced(dilation) = self.machine().clock {
            desk.pacer.enter(wall_ns, entry_ps, dilation);
        }
        entry_ps
    }

    /// A call is over. By now this rank is counted as running again.
    pub(super) fn come_out(&self) {
        self.counts_less(|desk| desk.inside -= 1);
    }

    /// Further activities of this rank begin: the other communicators of a group.
    pub fn begin_activities(&self, more: u32) {
        let added = {
            let mut desk = lock(&self.desk);
            let before = desk.counted();
            desk.extra += more;
            desk.counted() - before
        };
        self.go_in(more, None);
        self.board.header().running.fetch_add(added, Ordering::AcqRel);
    }

    /// One of them is over.
    pub fn end_activity(&self) {
        self.counts_less(|desk| desk.extra -= 1);
    }

    fn counts_less(&self, change: impl FnOnce(&mut Desk)) {
        let fewer = {
            let mut desk = lock(&self.desk);
            let before = desk.counted();
            change(&mut desk);
            desk.counted() < before
        };
        self.go_out();
        if fewer {
            self.rest();
        }
    }
}
