//! Who runs the engine, and what becomes of all if it cannot go on.
//!
//! ```text
//!     the last to wait:  wanted + 1,  runner 0 -> me?  no: its holder looks at `wanted` once more when it lets go
//!                                                      yes: run,  runner -> 0,  wanted as before? else again
//! ```
//!
//! So a run that is wanted is never lost, and nobody waits for the right to make it. Where nothing can be run and nobody
//! is left who could change that, see `verdict.rs`.

use super::clock_segment::{POSTED, Ticket};
use super::log::Journal;
use super::participant::Participant;
use super::sentence::{read_text, write_text};
use crate::error::{Code, Error, Result};
use crate::sync::prim::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `BoardHeader::deadlock` while the sentence is being written.
const WRITING: u32 = u32::MAX;

impl Participant {
    /// Counts one presence as waiting or ended.
    pub(super) fn rest(&self) {
        self.rest_of(1);
    }

    /// Counts presences as waiting or ended. Requests a run of the engine if no presence is running, even if none was
    /// before.
    pub(super) fn rest_of(&self, presences: u32) {
        // ORDER: all posts of all ranks come before the last of these; partner: the load in `drive`.
        if self.clock_segment().header().running.fetch_sub(presences, Ordering::AcqRel) == presences {
            die_point!(173 "clock_rested");
            self.drive();
        }
    }

    /// Runs the engine when no presence is running, unless another thread runs it.
    pub(super) fn drive(&self) {
        let header = self.clock_segment().header();
        header.wanted.fetch_add(1, Ordering::AcqRel);
        die_point!(174 "clock_wanted");
        // BOUND: as often as somebody wanted it in the meantime.
        self.as_runner(|| {
            if header.running.load(Ordering::Acquire) == 0 && self.check().is_ok() {
                self.run();
            }
        });
    }

    /// Runs work with the right to run the engine, unless another thread has that right; repeats it if a run was
    /// requested meanwhile. No thread waits for this right: a rank that is stopped here keeps the others from running
    /// the engine, but not from checking their deadlines.
    pub(super) fn as_runner(&self, work: impl FnOnce()) {
        let header = self.clock_segment().header();
        let mut work = Some(work);
        // BOUND: as often as somebody wanted it in the meantime.
        loop {
            let mine =
                header.runner.compare_exchange(0, self.place() + 1, Ordering::AcqRel, Ordering::Acquire);
            if mine.is_err() {
                return;
            }
            die_point!(175 "engine_begun");
            let wanted = header.wanted.load(Ordering::Acquire);
            // A panic must not leave the others without anybody who may run the engine.
            let ended = catch_unwind(AssertUnwindSafe(|| match work.take() {
                Some(work) => work(),
                None if header.running.load(Ordering::Acquire) == 0 && self.check().is_ok() => self.run(),
                None => {}
            }));
            if ended.is_err() {
                self.halt(&Error::internal("the engine of the declared machine panicked"));
            }
            header.runs.fetch_add(1, Ordering::AcqRel);
            header.runner.store(0, Ordering::Release);
            die_point!(183 "engine_released");
            // ORDER: not a load, which could come before the store above: who wanted a run before this line is seen here,
            // who wants one after it sees that nobody holds `runner`.
            if header.wanted.fetch_add(0, Ordering::AcqRel) == wanted {
                return;
            }
        }
    }

    fn run(&self) {
        if !self.has_engine() {
            return self.tell_rest();
        }
        let journal = Journal::new(self.clock_segment());
        let ended = self.runner.lock().run(&journal);
        if let Err(error) = ended {
            self.halt(&error);
        }
        die_point!(182 "engine_over");
        self.tell_served();
        self.ring_served();
    }

    /// Wakes the threads whose calls are served.
    pub(super) fn ring_served(&self) {
        if self.clock_segment().header().sleepers.after_post() {
            self.ring_tickets(|ticket| ticket.state.load(Ordering::Acquire) != POSTED);
        }
    }

    /// Wakes the threads that wait with such tickets.
    fn ring_tickets(&self, which: impl Fn(&Ticket) -> bool) {
        for place in 0..self.clock_segment().places() {
            for ticket in self.clock_segment().used_tickets(place).iter().filter(|ticket| which(ticket)) {
                #[cfg(not(loom))]
                ticket.doorbell.ring();
                #[cfg(loom)]
                let _ = ticket;
            }
        }
    }

    /// Wakes all threads that wait on the machine.
    fn ring_all(&self) {
        self.ring_tickets(|_| true);
        for place in 0..self.clock_segment().places() {
            #[cfg(not(loom))]
            self.clock_segment().place(place).doorbell.ring();
            #[cfg(loom)]
            let _ = place;
        }
    }

    /// Records that no call on this machine can end any more. The first reason counts.
    pub(super) fn halt(&self, error: &Error) {
        let header = self.clock_segment().header();
        let first = header.deadlock.compare_exchange(0, WRITING, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            return;
        }
        die_point!(185 "halt_writing");
        let length = write_text(&header.sentence, &error.message);
        die_point!(186 "halt_written");
        header.deadlock.store((error.code as u32) << 16 | length as u32, Ordering::Release);
        self.ring_all();
    }

    /// Checks that calls on this machine can still end.
    pub fn check(&self) -> Result<()> {
        match self.clock_segment().header().deadlock.load(Ordering::Acquire) {
            0 | WRITING => Ok(()),
            word => {
                let codes = [Code::InvalidArgument, Code::InvalidUsage, Code::RemoteError, Code::SystemError];
                let code = codes.into_iter().find(|&code| code as u32 == word >> 16);
                Err(Error::new(
                    code.unwrap_or(Code::InternalError),
                    read_text(&self.clock_segment().header().sentence),
                ))
            }
        }
    }
}
