//! Two ranks whose rails are cut while writes and messages are under way.

use super::testing::{is_there, two_rails};
use super::{OfiLink, Prepared};
use crate::kernels;
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::memory::view::Payload;
use crate::transport::in_process::controls;
use crate::transport::link::{Body, Frame, Incoming, Link};
use std::sync::Arc;

/// Bytes of a slot that is written, and words of one that goes in a message.
const WRITTEN: usize = 9 << 10;
const SENT: usize = 100;
/// Frames that a rank posts in a round: each is a write, a message or a counter.
const POSTS: u64 = 8;
const ROUNDS: u64 = 3;

/// A rank, and what has come to it.
struct Side {
    rank: u32,
    link: OfiLink,
    control: Arc<Control>,
    mirror: Arc<Lines>,
    posted: u64,
    come: Vec<u64>,
}

impl Side {
    fn poll(&mut self) {
        let (come, mirror) = (&mut self.come, &self.mirror);
        let taken = self.link.poll(&mut |event| {
            let Incoming::Frame(Frame { from, number, body }) = event else { return };
            if let Body::Data { at, bytes, .. } = body {
                kernels::copy(mirror.staging(from, at, bytes.bytes()), bytes, false);
            }
            come.push(number);
        });
        taken.unwrap();
    }

    /// Where the frames of a number put their bytes, how many there are, and the first word.
    fn slot(&self, number: u64) -> Option<(usize, usize, u64)> {
        let at = (number % POSTS) as usize;
        let word = number << 8 | u64::from(self.rank);
        match at {
            0..3 => Some((at * WRITTEN, WRITTEN, word)),
            3..6 => Some((3 * WRITTEN + (at - 3) * SENT * 8, SENT * 8, word)),
            _ => None,
        }
    }

    fn post(&mut self) {
        let number = self.posted;
        self.posted += 1;
        let body = match self.slot(number) {
            Some((at, bytes, word)) => {
                let mut words: Vec<u64> = (word..word + bytes as u64 / 8).collect();
                let place = self.control.staging(self.rank, at, bytes);
                kernels::copy(place, Payload::from(&mut words[..]), false);
                Body::Data { at, bytes: place, counter: number }
            }
            None => Body::Counter(number),
        };
        self.link.post(1 - self.rank, Frame { from: self.rank, number, body }).unwrap();
    }

    /// Everything that the other has posted has come once, and its bytes are those of the last round.
    fn check(&mut self, other: &Side, what: &str) {
        self.come.sort();
        assert!(self.come.iter().copied().eq(0..other.posted), "{what}: {:?}", self.come);
        for (at, bytes, word) in (other.posted - POSTS..other.posted).filter_map(|number| other.slot(number))
        {
            let mut words = vec![0u64; bytes / 8];
            kernels::copy(Payload::from(&mut words[..]), self.mirror.staging(other.rank, at, bytes), false);
            assert!(words.iter().copied().eq(word..word + bytes as u64 / 8), "{what}: bytes at {at}");
        }
    }
}

fn sides(with_trailers: bool) -> [Side; 2] {
    let controls = controls(&[0, 1]);
    let prepare = |rank: u32| {
        let mut prepared = OfiLink::prepare(&controls[rank as usize], rank, 2, &two_rails(), None).unwrap();
        prepared.own.with_trailers &= with_trailers;
        prepared
    };
    let prepared = [prepare(0), prepare(1)];
    let blobs = prepared.each_ref().map(Prepared::blob);
    let mut sides = prepared.map(|prepared| {
        let (rank, control, mirror) = (prepared.rank, prepared.near.clone(), prepared.mirror.clone());
        let mut others = blobs.clone().map(Some);
        others[rank as usize] = None;
        let link = prepared.link(&others).unwrap();
        Side { rank, link, control, mirror, posted: 0, come: Vec::new() }
    });
    poll_until(&mut sides, "greetings", |sides| {
        sides
            .iter()
            .all(|side| side.link.state.lock().others.peers.iter().flatten().all(|peer| peer.is_free()))
    });
    sides
}

fn poll_until(sides: &mut [Side; 2], what: &str, done: impl Fn(&[Side; 2]) -> bool) {
    let start = std::time::Instant::now();
    while !done(sides) {
        sides.iter_mut().for_each(Side::poll);
        assert!(start.elapsed().as_secs() < 60, "{what}: {:?}", sides.each_ref().map(|side| &side.come));
    }
}

/// Cuts a rail when `at` frames were posted in the second round, for the second rank `later` frames later; the `finder` finds it.
fn cut(with_trailers: bool, rail: usize, at: u64, later: u64, finder: usize) {
    let what = format!("rail {rail}, {at} + {later}, found by {finder}, trailers: {with_trailers}");
    let mut sides = sides(with_trailers);
    for round in 0..ROUNDS {
        for step in 0..POSTS {
            for (side, from) in sides.iter_mut().zip([at, at + later]) {
                if round == 1 && step == from.min(POSTS - 1) {
                    side.link.state.lock().unpolled = 1 << rail;
                }
                side.post();
            }
            if step % 3 == 2 {
                sides.iter_mut().for_each(Side::poll);
            }
        }
        sides.iter_mut().for_each(|side| side.link.flush().unwrap());
        if round == 1 {
            (0..20).for_each(|_| sides.iter_mut().for_each(Side::poll));
            sides[finder].link.state.lock().others.to_close |= 1 << rail;
        }
        poll_until(&mut sides, &what, |sides| {
            sides.iter().all(|side| side.come.len() as u64 >= (round + 1) * POSTS)
        });
        let [one, other] = &mut sides;
        one.check(other, &what);
        other.check(one, &what);
    }
    let closed = sides.each_ref().map(|side| side.link.state.lock().others.closed);
    assert_eq!(closed, [1 << rail; 2], "{what}");
    // Each waits for the other's goodbye.
    std::thread::scope(|scope| sides.into_iter().for_each(|side| drop(scope.spawn(move || drop(side)))));
}

#[test]
fn what_was_under_way_on_a_rail_that_is_cut_comes_once_by_the_other() {
    if !is_there() {
        return;
    }
    for with_trailers in [true, false] {
        for rail in [0, 1] {
            for at in 0..POSTS {
                cut(with_trailers, rail, at, at % 3, at as usize % 2);
            }
        }
    }
}
