//! What a rank's own threads share: which tickets are free, and how many calls each thread has open.

use super::clock_segment::{ClockSegment, FREE, POSTS, THREADS, TICKETS, WIDE};
use super::pace::{Clock, Pacer};
use super::participant::Participant;
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;

/// The state that only this rank's own threads use.
pub struct LocalThreads {
    pub taken: [bool; TICKETS],
    /// Taken, and left to the engine, which gives them back.
    pub left: [bool; TICKETS],
    /// Withdrawn during this run of the engine, which may still write to them.
    retired: [Option<u64>; TICKETS],
    /// Posts whose space is reserved, by ticket.
    pub reserved: [usize; TICKETS],
    /// Calls that each thread has open.
    depth: [u32; THREADS],
    pub pacer: Pacer,
}

impl Default for LocalThreads {
    fn default() -> LocalThreads {
        LocalThreads {
            taken: [false; TICKETS],
            left: [false; TICKETS],
            retired: [None; TICKETS],
            reserved: [0; TICKETS],
            depth: [0; THREADS],
            pacer: Pacer::default(),
        }
    }
}

impl Participant {
    /// Takes a free ticket with room for `posts` posts.
    pub(super) fn take_ticket(&self, local_threads: &mut LocalThreads, posts: usize) -> Result<usize> {
        let (tickets, header) = (self.clock_segment().tickets(self.place()), self.clock_segment().header());
        let untouched = |run: u64| {
            header.runner.load(Ordering::Acquire) == 0 || header.runs.load(Ordering::Acquire) != run
        };
        let is_free = |i: &usize| {
            let given_back = || local_threads.left[*i] && tickets[*i].state.load(Ordering::Acquire) == FREE;
            (!local_threads.taken[*i] || given_back()) && local_threads.retired[*i].is_none_or(untouched)
        };
        let fits = |i: &usize| posts <= ClockSegment::room(*i);
        // The first is for the only thread of most ranks. Others with much room are for calls that need it.
        let found = (0..1).chain(WIDE..TICKETS).chain(1..WIDE).filter(fits).find(is_free);
        let number = match found {
            Some(number) => number,
            // It says why not.
            None if posts > POSTS => 0,
            None => {
                return Err(Error::usage(format!(
                    "more than {TICKETS} calls of one rank at once, by its threads or by a group over as many communicators; \
                     let fewer call, or divide the group"
                )));
            }
        };
        if local_threads.reserved[number] < posts {
            self.clock_segment().reserve_posts(self.place(), number, posts)?;
            local_threads.reserved[number] = posts;
        }
        (local_threads.taken[number], local_threads.left[number], local_threads.retired[number]) =
            (true, false, None);
        self.clock_segment().place(self.place()).tickets_used.fetch_max(number as u32 + 1, Ordering::AcqRel);
        Ok(number)
    }

    /// Gives back a ticket whose call has failed. A current run of the engine may still write to it; later runs see
    /// that it is free. A rank that is stopped in the middle of a run keeps one ticket from reuse, but blocks no other
    /// rank.
    pub(super) fn retire_ticket(&self, ticket: usize) {
        let header = self.clock_segment().header();
        let run = header.runs.load(Ordering::Acquire);
        let mut local_threads = self.local_threads.lock();
        local_threads.retired[ticket] = (header.runner.load(Ordering::Acquire) != 0).then_some(run);
        local_threads.taken[ticket] = false;
    }

    /// Enters a call with the calling thread; returns its presence and the time.
    pub(super) fn go_inside(&self, wall_ns: u64, at_ps: Option<u64>) -> Result<(u32, u64)> {
        self.looked_anew();
        let line = self.presence()?;
        Ok((line, self.inside(&mut self.local_threads.lock(), line, wall_ns, at_ps)))
    }

    /// Enters a call; the caller holds the lock of the local threads.
    pub(super) fn inside(
        &self,
        local_threads: &mut LocalThreads,
        line: u32,
        wall_ns: u64,
        at_ps: Option<u64>,
    ) -> u64 {
        local_threads.depth[line as usize] += 1;
        let entry_ps = if local_threads.depth[line as usize] == 1 {
            self.go_in(line, at_ps)
        } else {
            // A second call of a thread whose first is open counts by itself.
            self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
            at_ps.unwrap_or_else(|| self.clock_ps())
        };
        if let Clock::Paced(dilation) = self.machine().clock {
            local_threads.pacer.enter(wall_ns, entry_ps, dilation);
        }
        entry_ps
    }

    /// Leaves a call of a thread. Its presence is counted again by now.
    pub(super) fn come_out(&self, line: u32) {
        let last = {
            let mut local_threads = self.local_threads.lock();
            let depth = &mut local_threads.depth[line as usize];
            *depth = depth.saturating_sub(1);
            *depth == 0
        };
        if last {
            self.go_out(line);
        } else {
            self.rest();
        }
    }
}
