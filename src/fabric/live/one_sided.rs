//! One rank's stores to others' memory, and waiting for them.
//!
//! ```text
//!     rank 0   put: [ticket] --engine: 2.1 us--> stores the signal, rank 1 counts as running again --> goes on at 2.1 us
//!     rank 1   waits for its signal, and does not count as running ......................... looks --> goes on at 2.1 us
//! ```
//!
//! A rank that puts waits until the engine has said when the bytes arrive, and only then stores; so all stores are made in the
//! order of the machine's time, and each with the time at which it is made. A rank that waits for one is woken by every
//! store to its memory and looks again. The one who wakes counts the woken as running before it goes on itself, or the
//! engine might run while they still have to look.
//!
//! For that order to hold no rank may run ahead: on a clock segment with one-sided access the engine stops as soon as one
//! rank is done, where it otherwise goes on for a moment ([`WINDOW_PS`](super::WINDOW_PS)).

use super::clock_segment::PlaceLine;
use super::participant::Participant;
use super::presence::Watchdog;
use super::sentence::{read_text, write_text};
use super::spec::{CallSpec, Post, What};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sync::wait::{NAP, Waiter};
use crate::sys::clock;
use crate::types::Rank;
use std::cell::Cell;

/// Woken so often: the upper half of `PlaceLine::awaiting`.
const TURN: u64 = 1 << 32;

/// Bytes have arrived. What they bring is stored while this lives: until then the thread counts as running, however many
/// others of its rank wait.
#[must_use = "what has arrived is stored before this is dropped"]
pub struct Delivery<'a> {
    participant: &'a Participant,
    line: u32,
    /// The time by the machine's clock.
    pub at_ps: u64,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.participant.come_out(self.line);
    }
}

impl Participant {
    /// Declares that ranks of the job store to each other's memory from now on.
    pub fn serve_exactly(&self) {
        if self.clock_segment().header().exact.swap(1, Ordering::AcqRel) == 0 {
            self.tell_exact();
        }
    }

    /// Send bytes from places of the machine to others, all at once, at this rank's clock or at `at_ps`; until the last have
    /// arrived.
    pub fn put_all(
        &self,
        ways: &[[Rank; 2]],
        bytes: u64,
        at_ps: Option<u64>,
        deadline_ns: u64,
        watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<Delivery<'_>> {
        let put = |&[from, to]: &[Rank; 2]| self.alone(CallSpec::plain(What::Put { from, to }, bytes, 1, 0));
        let posts: Vec<Post> = ways.iter().filter(|[from, to]| from != to).map(put).collect();
        let (line, entry_ps) = self.go_inside(clock::now_ns(), at_ps)?;
        let mut arrival = Delivery { participant: self, line, at_ps: entry_ps };
        if !posts.is_empty() {
            self.look_at_woken();
            let waiting = self.post(&posts, Some(entry_ps), Some(line))?;
            arrival.at_ps = self.leave(waiting, deadline_ns, watch, expired)?;
        }
        Ok(arrival)
    }

    /// Waits until a time of this rank's clock. Unlike [`advance_to`](Self::advance_to) it returns when all earlier
    /// events of other ranks are done.
    pub fn pause_until(
        &self,
        at_ps: u64,
        deadline_ns: u64,
        watch: impl FnMut() -> Result<()>,
        expired: impl FnOnce() -> Error,
    ) -> Result<u64> {
        let pause = self.alone(CallSpec::plain(What::Pause, 0, 1, 0));
        let waiting = self.enter(&[pause], Some(at_ps))?;
        self.leave(waiting, deadline_ns, watch, expired)
    }

    /// Makes a post of this rank without other members.
    fn alone(&self, spec: CallSpec) -> Post {
        // No communicator has such a number, and no two of these of a rank have the same.
        let (comm, key) = (u64::MAX - self.place() as u64, self.next_put());
        Post { comm, key, spec, member: 0, members: 1 }
    }

    /// Changes the number of mailbox places of this rank without a waiting thread. While there is one, a thread that is
    /// not known yet may still come (`verdict.rs`).
    pub fn expect_threads(&self, come: u32, gone: u32) {
        let outside = &self.clock_segment().place(self.place()).outside;
        outside.fetch_add(come, Ordering::AcqRel);
        outside.fetch_sub(gone, Ordering::AcqRel);
    }

    /// Returns the latest of some ranks' clocks.
    pub fn latest_ps(&self, ranks: &[Rank]) -> u64 {
        let clock = |&rank: &Rank| self.clock_segment().place(rank).clock_ps.load(Ordering::Acquire);
        ranks.iter().map(clock).max().unwrap_or(0)
    }

    /// Makes waiting threads of a rank of the job look again, after a store to its memory at this rank's clock.
    pub fn stored(&self, place: Rank) {
        match &self.hosts {
            Some(hosts) if !hosts.has(hosts.here, place) => self.tell_stored(hosts, place, self.clock_ps()),
            _ => self.wake(place, self.clock_ps()),
        }
    }

    /// Makes waiting threads of a rank of this host look again, after a store to its memory at this time.
    pub(super) fn wake(&self, place: Rank, at_ps: u64) {
        let line = self.clock_segment().place(place);
        line.stored_ps.fetch_max(at_ps, Ordering::AcqRel);
        let running = &self.clock_segment().header().running;
        // ORDER: not a load, which could come before the store that was made; partner: the addition in `await_store`.
        let mut before = line.awaiting.fetch_add(0, Ordering::AcqRel);
        // BOUND: each further turn means that another thread has come to wait or gone, or woken them.
        loop {
            let threads = before as u32;
            if threads == 0 {
                return;
            }
            running.fetch_add(threads, Ordering::AcqRel);
            die_point!(187 "put_woken");
            let woken = (before & !(TURN - 1)).wrapping_add(TURN);
            match line.awaiting.compare_exchange(before, woken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => {
                    if running.fetch_sub(threads, Ordering::AcqRel) == threads {
                        self.drive();
                    }
                    before = now;
                }
            }
        }
        if self.clock_segment().header().sleepers.after_post() {
            #[cfg(not(loom))]
            line.doorbell.ring();
        }
    }

    /// Waits until `ready`, which some rank's store brings about; `watch` tells what else ends the wait, `what` what is awaited.
    pub fn await_store(
        &self,
        mut ready: impl FnMut() -> bool,
        deadline_ns: u64,
        mut watch: impl FnMut() -> Result<()>,
        expired: impl Fn() -> Error,
        what: impl Fn() -> String,
    ) -> Result<()> {
        let line = self.clock_segment().place(self.place());
        let wall_ns = clock::now_ns();
        // Once it has gone inside it stays there until it is done, however often it is woken.
        let mut inside = None;
        // BOUND: a store that makes it ready, or what ends `woken`.
        let ended = loop {
            if ready() {
                break Ok(());
            }
            // ORDER: before the look; partner: the look at it in `stored`, after the store.
            let turn = line.awaiting.fetch_add(1, Ordering::AcqRel) >> 32;
            if ready() {
                self.wait_no_more(turn);
                break Ok(());
            }
            if inside.is_none() {
                match self.go_inside(wall_ns, None) {
                    Ok(entered) => inside = Some(entered),
                    Err(e) => {
                        self.wait_no_more(turn);
                        break Err(e);
                    }
                }
                self.look_at_woken();
            }
            let (number, _) = inside.unwrap_or_default();
            let thread = &self.clock_segment().all_threads(self.place())[number as usize];
            thread.awaits.store(1, Ordering::Relaxed);
            self.rest();
            let described = AwaitedText { line, thread: number, what: &what, has_looked: Cell::new(false) };
            let woken = self.woken(turn, deadline_ns, &mut watch, &expired, &described);
            drop(described);
            thread.awaits.store(0, Ordering::Relaxed);
            if let Err(error) = woken {
                let error = self.blame(error);
                // It runs again, and says so before it is gone from those who wait.
                self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
                self.wait_no_more(turn);
                break Err(error);
            }
            line.clock_ps.fetch_max(line.stored_ps.load(Ordering::Acquire), Ordering::AcqRel);
        };
        let Some((thread, entry_ps)) = inside else { return ended };
        let paced = ended.and_then(|()| self.pace(entry_ps, wall_ns, self.clock_ps(), watch));
        self.come_out(thread);
        paced
    }

    fn woken(
        &self,
        turn: u64,
        deadline_ns: u64,
        watch: &mut impl FnMut() -> Result<()>,
        expired: &impl Fn() -> Error,
        described: &AwaitedText<'_, impl Fn() -> String>,
    ) -> Result<()> {
        let line = self.clock_segment().place(self.place());
        let mut watchdog = Watchdog::new();
        let look = || {
            described.write();
            self.look_out(&mut watchdog);
            self.check().and_then(|()| self.check_engine()).and_then(|()| watch())
        };
        let waiter = Waiter {
            backoff: self.backoff(),
            doorbell: &line.doorbell,
            sleepers: &self.clock_segment().header().sleepers,
            deadline_ns,
            nap: NAP,
            neighbours: None,
            time: None,
        };
        waiter.until(|| line.awaiting.load(Ordering::Acquire) >> 32 != turn, look, expired)
    }

    /// This thread is not to be woken any more. If it has been, it was counted as running once too often.
    fn wait_no_more(&self, turn: u64) {
        let line = self.clock_segment().place(self.place());
        let leaves = |now: u64| (now >> 32 == turn).then(|| now - 1);
        let gone = line.awaiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, leaves);
        if gone.is_err() {
            self.rest();
        }
    }
}

/// What a thread waits for. It writes that down at its second look, for others, if no thread of its rank has done so, and takes it back
/// at its end. A deadlock is reported after further looks of all.
struct AwaitedText<'a, W: Fn() -> String> {
    line: &'a PlaceLine,
    thread: u32,
    what: &'a W,
    has_looked: Cell<bool>,
}

impl<W: Fn() -> String> AwaitedText<'_, W> {
    fn write(&self) {
        if !self.has_looked.replace(true) || self.line.awaited_by.load(Ordering::Relaxed) != 0 {
            return;
        }
        let text = (self.what)();
        let brief = text.split(';').next().unwrap_or_default();
        let by = &self.line.awaited_by;
        if by.compare_exchange(0, WRITING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            write_text(&self.line.awaited, brief);
            // ORDER: publishes the text; partner: `awaited_text`.
            by.store(self.thread + 1, Ordering::Release);
        }
    }
}

impl<W: Fn() -> String> Drop for AwaitedText<'_, W> {
    fn drop(&mut self) {
        let _ =
            self.line.awaited_by.compare_exchange(self.thread + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// `PlaceLine::awaited_by` while the text is being written.
const WRITING: u32 = u32::MAX;

/// Returns what a thread of a rank waits for, if it has written it down.
pub(super) fn awaited_text(line: &PlaceLine, thread: u32) -> Option<String> {
    (line.awaited_by.load(Ordering::Acquire) == thread + 1).then(|| read_text(&line.awaited))
}
