//! Who runs the engine, and what becomes of all if it cannot go on.
//!
//! ```text
//!     the last to wait:  wanted + 1,  runner 0 -> me?  no: whoever holds it looks at `wanted` once more when it lets go
//!                                                      yes: run,  runner -> 0,  wanted as before? else again
//! ```
//!
//! So a run that is wanted is never lost, and nobody waits for the right to make it.

use super::log::Journal;
use super::report;
use super::seat::{Seat, lock};
use super::sentence::{read_text, write_text};
use crate::error::{Code, Error, Result};
use crate::memory::board::{AWAY, POSTED};
use crate::sync::prim::Ordering;
use crate::sys::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `BoardHeader::deadlock` while the sentence is being written.
const WRITING: u32 = u32::MAX;
/// A deadlock is reported when nothing has changed for so long; where threads of waiting ranks may compute, for the grace
/// period.
const STANDSTILL_NS: u64 = 300_000_000;
/// Until then it is looked at so often.
const A_MOMENT_NS: u64 = 1_000_000;

impl Seat {
    /// One activity of this rank waits or is over.
    pub(super) fn rest(&self) {
        // ORDER: all posts of all ranks come before the last of these; partner: the load in `drive`.
        if self.board.header().running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.drive();
        }
    }

    /// Nobody is running: run the engine, unless somebody does.
    pub(super) fn drive(&self) {
        let header = self.board.header();
        header.wanted.fetch_add(1, Ordering::AcqRel);
        // BOUND: as often as somebody wanted it in the meantime.
        loop {
            let mine =
                header.runner.compare_exchange(0, self.place() + 1, Ordering::AcqRel, Ordering::Acquire);
            if mine.is_err() {
                return;
            }
            let wanted = header.wanted.load(Ordering::Acquire);
            if header.running.load(Ordering::Acquire) == 0 && self.check().is_ok() {
                // A panic must not leave the others without anybody who may run the engine.
                let ended = catch_unwind(AssertUnwindSafe(|| self.run(wanted)));
                if ended.is_err() {
                    self.halt(&Error::internal("the engine of the declared machine panicked"));
                }
            }
            header.runs.fetch_add(1, Ordering::AcqRel);
            header.runner.store(0, Ordering::Release);
            // ORDER: not a load, which could come before the store above: who wanted a run before this line is seen here,
            // who wants one after it sees that nobody holds `runner`.
            if header.wanted.fetch_add(0, Ordering::AcqRel) == wanted {
                return;
            }
        }
    }

    fn run(&self, wanted: u64) {
        let journal = Journal::new(&self.board);
        let ended = lock(&self.runner).run(&journal);
        match ended {
            Ok(0) if self.stands_still(wanted) => {
                // What the others wait for in vain may be because of a rank that died.
                let dead = (0..self.board.places()).find(|&place| self.board.place(place).died());
                let why = || Error::usage(report::deadlock(&self.board));
                self.halt(&dead.map_or_else(why, |place| self.death(place)));
            }
            Ok(_) => {}
            Err(error) => self.halt(&error),
        }
        if self.board.header().sleepers.after_post() {
            self.ring_all();
        }
    }

    fn ring_all(&self) {
        for place in 0..self.board.places() {
            #[cfg(not(loom))]
            self.board.place(place).bell.ring();
            #[cfg(loom)]
            let _ = place;
        }
    }

    /// Is there no hope, and does it stay so for a moment? Another thread of a waiting rank may still post something.
    fn stands_still(&self, wanted: u64) -> bool {
        let until_ns = match (self.thread_outside(), self.machine().grace_ns) {
            (false, _) => clock::now_ns() + STANDSTILL_NS,
            (true, 0) => return false,
            (true, grace_ns) => clock::now_ns() + grace_ns.max(STANDSTILL_NS),
        };
        // BOUND: `until_ns`.
        while clock::now_ns() < until_ns {
            if !self.stuck() || self.board.header().wanted.load(Ordering::Acquire) != wanted {
                return false;
            }
            clock::sleep_until(clock::now_ns() + A_MOMENT_NS);
        }
        self.stuck()
    }

    /// Is there a thread that nobody counts as running, and that may still do something?
    fn thread_outside(&self) -> bool {
        let outside = |place| {
            let line = self.board.place(place);
            line.left.load(Ordering::Acquire) == 0 && line.outside.load(Ordering::Acquire) > 0
        };
        (0..self.board.places()).any(outside)
    }

    /// Does somebody wait, and nobody is left who could post what is missing?
    fn stuck(&self) -> bool {
        let posted =
            |place| self.board.tickets(place).iter().any(|t| t.state.load(Ordering::Acquire) == POSTED);
        let waits = |place| posted(place) || self.board.awaits(place);
        let away = |place| {
            let line = self.board.place(place);
            line.left.load(Ordering::Acquire) == 0 && line.presence.load(Ordering::Acquire) & AWAY != 0
        };
        // Who takes its posts back counts as running before it does.
        (0..self.board.places()).any(waits)
            && !(0..self.board.places()).any(away)
            && self.board.header().running.load(Ordering::Acquire) == 0
    }

    /// No call on this machine can end any more. The first reason counts.
    pub(super) fn halt(&self, error: &Error) {
        let header = self.board.header();
        let first = header.deadlock.compare_exchange(0, WRITING, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            return;
        }
        let length = write_text(&header.sentence, &error.message);
        header.deadlock.store((error.code as u32) << 16 | length as u32, Ordering::Release);
        self.ring_all();
    }

    /// Can calls on this machine still end?
    pub fn check(&self) -> Result<()> {
        match self.board.header().deadlock.load(Ordering::Acquire) {
            0 | WRITING => Ok(()),
            word => {
                let codes = [Code::InvalidArgument, Code::InvalidUsage, Code::RemoteError, Code::SystemError];
                let code = codes.into_iter().find(|&code| code as u32 == word >> 16);
                Err(Error::new(code.unwrap_or(Code::InternalError), read_text(&self.board.header().sentence)))
            }
        }
    }
}
