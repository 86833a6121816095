//! When a link's descriptor is open, which makes what comes dearer.

use super::super::Transport;
use super::super::far::Far;
use super::super::in_process::{connected, controls};
use super::super::link::{Frame, Incoming, Link};
use crate::error::Result;
use crate::memory::control::lines::Lines;
use crate::sync::prim::{AtomicBool, AtomicU32, Ordering};
use crate::sys::kick::Kick;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a test sees of a link.
#[derive(Default)]
struct Seen {
    is_open: AtomicBool,
    /// The attendant stands still in its polls.
    holds_attendant: AtomicBool,
    attended: AtomicU32,
}

/// A link by which nothing goes.
struct Idle {
    seen: Arc<Seen>,
    descriptor: Kick,
}

impl Link for Idle {
    fn post(&self, _: u32, _: Frame<'_>) -> Result<()> {
        Ok(())
    }
    fn poll(&self, _: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        if std::thread::current().name() == Some("penny-net") {
            self.seen.attended.fetch_add(1, Ordering::Relaxed);
            while self.seen.holds_attendant.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
    fn has_descriptor(&self) -> bool {
        true
    }
    fn open_descriptor(&self) -> Option<RawFd> {
        self.seen.is_open.store(true, Ordering::Relaxed);
        Some(self.descriptor.descriptor())
    }
    fn close_descriptor(&self) {
        self.seen.is_open.store(false, Ordering::Relaxed);
    }
    fn may_sleep(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}

/// Two ranks on two hosts; what is seen of the first one's link.
fn ranks() -> (Vec<Arc<Transport>>, Arc<Seen>) {
    let controls = controls(&[0, 1]);
    let seen = [Arc::<Seen>::default(), Arc::default()];
    let all = connected(&[0, 1], &controls, 60_000, |rank, far| {
        let near = &controls[rank as usize];
        let mirror = Arc::new(Lines::private(near.layout(), 0).unwrap());
        let link = Idle { seen: seen[rank as usize].clone(), descriptor: Kick::new().unwrap() };
        Far::new(near, rank, far, mirror, Box::new(link)).unwrap()
    });
    let [first, _] = seen;
    (all, first)
}

/// Lets the attendant go on, where a test fails as well: its owner waits for its end.
struct Hold(Arc<Seen>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds_attendant.store(false, Ordering::Relaxed);
    }
}

/// Does something until it is so.
fn until(is_so: impl Fn() -> bool, mut meanwhile: impl FnMut()) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not come to be so");
        meanwhile();
    }
}

#[test]
fn the_descriptor_is_closed_while_a_rank_polls_and_open_again_when_it_is_elsewhere() {
    let (ranks, seen) = ranks();
    let is_open = || seen.is_open.load(Ordering::Relaxed);
    for _ in 0..3 {
        until(is_open, || std::thread::sleep(Duration::from_millis(1)));
        until(|| !is_open(), || ranks[0].poll_far());
    }
}

#[test]
fn a_rank_that_polls_closes_it_where_the_attendant_has_no_core() {
    let (ranks, seen) = ranks();
    let is_open = || seen.is_open.load(Ordering::Relaxed);
    let hold = Hold(seen.clone());
    seen.holds_attendant.store(true, Ordering::Relaxed);
    until(|| is_open() && seen.attended.load(Ordering::Relaxed) > 0, std::thread::yield_now);
    until(
        || !is_open(),
        || {
            ranks[0].send_counter(1, 0);
            ranks[0].poll_far();
        },
    );
    // The attendant does not sleep on what was closed behind its back.
    let attended = seen.attended.load(Ordering::Relaxed);
    drop(hold);
    until(
        || is_open() && seen.attended.load(Ordering::Relaxed) > attended,
        || std::thread::sleep(Duration::from_millis(1)),
    );
}
