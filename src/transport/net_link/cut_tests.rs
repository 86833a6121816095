//! Two ranks whose rails are cut while writes and messages are under way.

use super::testing::{carriers, rails};
use super::{NetLink, Prepared};
use crate::kernels;
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::memory::view::Payload;
use crate::sys::endpoint::Carrier;
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
    link: NetLink,
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

    /// Returns the rails that it has closed, and that it knows the other to have closed.
    fn closed(&self) -> [u32; 2] {
        let others = &self.link.state.lock().others;
        [others.closed, others.peers.iter().flatten().map(|peer| peer.rails.closed_there()).sum()]
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

fn sides(carrier: &Carrier, with_trailers: bool, number: u8) -> [Side; 2] {
    sides_without(carrier, with_trailers, number, [None; 2], [0; 2])
}

/// The same, by side: with a parent whose rails in `cut` are cut, and those in `since` after their addresses were told.
fn sides_without(
    carrier: &Carrier,
    with_trailers: bool,
    number: u8,
    cut: [Option<u32>; 2],
    since: [u32; 2],
) -> [Side; 2] {
    let controls = controls(&[0, 1]);
    let prepare = |rank: u32| {
        let (control, cut) = (&controls[rank as usize], cut[rank as usize]);
        let mut prepared = NetLink::prepare_without(control, rank, 2, &rails(number), carrier, cut).unwrap();
        prepared.own.with_trailers &= with_trailers;
        prepared
    };
    let prepared = [prepare(0), prepare(1)];
    let blobs = prepared.each_ref().map(Prepared::blob);
    let mut sides = prepared.map(|prepared| {
        let (rank, control, mirror) = (prepared.rank, prepared.near.clone(), prepared.mirror.clone());
        let mut others = blobs.clone().map(Some);
        others[rank as usize] = None;
        let link = prepared.link_without(&others, since[rank as usize]).unwrap();
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

/// Rails that are cut.
#[derive(Debug)]
struct Cut<'a> {
    carrier: &'a Carrier,
    with_trailers: bool,
    /// The number of rails.
    rails: u8,
    /// By side: the rail, and when it is cut: after this number of frames of the second round.
    cut: [(usize, u64); 2],
    /// By side: it finds that.
    finds: [bool; 2],
}

impl Cut<'_> {
    fn sides(&self) -> [Side; 2] {
        sides(self.carrier, self.with_trailers, self.rails)
    }

    /// Posts a round, and cuts the rails in the second.
    fn post(&self, sides: &mut [Side; 2], round: u64) {
        for step in 0..POSTS {
            for (side, (rail, at)) in sides.iter_mut().zip(self.cut) {
                if round == 1 && step == at.min(POSTS - 1) {
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
            for ((side, (rail, _)), finds) in sides.iter().zip(self.cut).zip(self.finds) {
                side.link.state.lock().others.to_close |= u32::from(finds) << rail;
            }
        }
    }

    /// The ranks go on by the rails that are left.
    fn goes_on(&self) {
        let what = format!("{self:?}");
        let mut sides = self.sides();
        // What they find by themselves, after seconds, does not help.
        sides.iter().for_each(|side| side.link.state.lock().others.next_look_ns = u64::MAX);
        for round in 0..ROUNDS {
            self.post(&mut sides, round);
            poll_until(&mut sides, &what, |sides| {
                sides.iter().all(|side| side.come.len() as u64 >= (round + 1) * POSTS)
            });
            let [one, other] = &mut sides;
            one.check(other, &what);
            other.check(one, &what);
        }
        let found = self.cut.into_iter().zip(self.finds).filter(|(_, finds)| *finds);
        let closed = found.fold(0, |all, ((rail, _), _)| all | 1 << rail);
        poll_until(&mut sides, &what, |sides| sides.iter().all(|side| side.closed() == [closed; 2]));
        assert!(
            sides.iter().all(|side| side.link.state.lock().others.refused == 0),
            "{what}: something was refused"
        );
        // Each waits for the other's goodbye.
        std::thread::scope(|scope| sides.into_iter().for_each(|side| drop(scope.spawn(move || drop(side)))));
    }
}

#[test]
fn what_was_under_way_on_a_rail_that_is_cut_comes_once_by_the_other() {
    for carrier in carriers() {
        for with_trailers in [true, false] {
            for rail in [0, 1] {
                for at in 0..POSTS {
                    let cut = [(rail, at), (rail, at + at % 3)];
                    Cut { carrier, with_trailers, rails: 2, cut, finds: [at % 2 == 0, at % 2 == 1] }
                        .goes_on();
                }
            }
        }
    }
}

#[test]
fn two_ranks_that_close_different_rails_at_once_go_on_by_the_third() {
    for carrier in carriers() {
        for with_trailers in [true, false] {
            for rails in [[0, 1], [1, 0], [2, 0], [1, 2]] {
                for at in 0..POSTS {
                    let cut = [(rails[0], at), (rails[1], at + at % 3)];
                    Cut { carrier, with_trailers, rails: 3, cut, finds: [true; 2] }.goes_on();
                }
            }
        }
    }
}

#[test]
fn two_ranks_that_close_the_only_two_rails_at_once_are_told() {
    for carrier in carriers() {
        for at in 0..POSTS {
            let cut = Cut {
                carrier,
                with_trailers: true,
                rails: 2,
                cut: [(0, at), (1, POSTS - 1 - at)],
                finds: [true; 2],
            };
            let mut sides = cut.sides();
            cut.post(&mut sides, 0);
            for side in &sides {
                side.link.state.lock().others.settle_ns = 1_000_000;
            }
            cut.post(&mut sides, 1);
            for (side, left) in sides
                .iter()
                .zip(["lo2 (127.0.0.2 here, 127.0.0.2 there)", "lo (127.0.0.1 here, 127.0.0.1 there)"])
            {
                let start = std::time::Instant::now();
                let told = loop {
                    if let Err(told) = side.link.poll(&mut |_| ()) {
                        break told.message.clone();
                    }
                    assert!(start.elapsed().as_secs() < 60, "{cut:?}: nothing is told");
                };
                let named = format!("rank {} on ", 1 - side.rank);
                assert!(
                    told.contains(&named) && told.contains(&format!("those that are left ({left})")),
                    "{told}"
                );
            }
        }
    }
}

#[test]
fn what_goes_to_a_place_after_a_write_does_not_come_before_it_by_another_rail() {
    for carrier in carriers() {
        let place = WRITTEN;
        for (with_trailers, bytes) in [(true, SENT * 8), (true, WRITTEN), (false, SENT * 8)] {
            let mut sides = sides(carrier, with_trailers, 2);
            sides.iter().for_each(|side| side.link.state.lock().others.next_look_ns = u64::MAX);
            // The first goes by rail 0, the second by rail 1, which its receiver does not look at.
            sides[1].link.state.lock().unpolled = 1 << 1;
            for (at, bytes, word) in [(0, WRITTEN, 1), (place, WRITTEN, 2), (place, bytes, 3)] {
                let (side, mut words) = (&mut sides[0], vec![word; bytes / 8]);
                let source = side.control.staging(0, at, bytes);
                kernels::copy(source, Payload::from(&mut words[..]), false);
                let body = Body::Data { at, bytes: source, counter: word };
                side.link.post(1, Frame { from: 0, number: side.posted, body }).unwrap();
                side.posted += 1;
            }
            (0..100).for_each(|_| sides.iter_mut().for_each(Side::poll));
            sides[1].link.state.lock().unpolled = 0;
            poll_until(&mut sides, "what was posted", |sides| sides[1].come.len() == 3);
            let mut words = vec![0u64; bytes / 8];
            kernels::copy(Payload::from(&mut words[..]), sides[1].mirror.staging(0, place, bytes), false);
            assert!(words.iter().all(|&word| word == 3), "{with_trailers} {bytes}: the write came later");
            std::thread::scope(|scope| {
                sides.into_iter().for_each(|side| drop(scope.spawn(move || drop(side))))
            });
        }
    }
}

#[test]
fn ranks_of_a_communicator_that_is_made_from_another_do_without_rails_that_one_knows_to_be_cut() {
    for carrier in carriers() {
        for with_trailers in [true, false] {
            for (number, cut, since) in [
                (2, [0b10, 0b10], [0, 0]),
                (2, [0b01, 0], [0, 0]),
                (2, [0, 0b10], [0, 0]),
                (2, [0, 0], [0b10, 0]),
                (2, [0, 0], [0b01, 0b01]),
                (3, [0b001, 0b100], [0, 0]),
                (3, [0b010, 0], [0, 0b100]),
            ] {
                let what = format!("{carrier:?}, {with_trailers}, {cut:?}, {since:?}");
                let mut sides = sides_without(carrier, with_trailers, number, cut.map(Some), since);
                for _ in 0..POSTS {
                    sides.iter_mut().for_each(Side::post);
                }
                sides.iter_mut().for_each(|side| side.link.flush().unwrap());
                let closed = cut.iter().chain(&since).fold(0, |all, rails| all | rails);
                poll_until(&mut sides, &what, |sides| {
                    let has_all =
                        |side: &Side| side.come.len() as u64 == POSTS && side.closed() == [closed; 2];
                    sides.iter().all(has_all)
                });
                let [one, other] = &mut sides;
                one.check(other, &what);
                other.check(one, &what);
                assert!(sides.iter().all(|side| side.link.state.lock().others.refused == 0), "{what}");
                std::thread::scope(|scope| {
                    sides.into_iter().for_each(|side| drop(scope.spawn(move || drop(side))))
                });
            }
        }
    }
}

#[test]
fn ranks_that_have_no_rail_in_common_any_more_are_told() {
    let controls = controls(&[0, 1]);
    let prepare = |rank: u32, cut| {
        NetLink::prepare_without(&controls[rank as usize], rank, 2, &rails(2), &Carrier::Tcp(None), Some(cut))
            .unwrap()
    };
    let (one, other) = (prepare(0, 0b01), prepare(1, 0b10));
    let refused = one.link(&[None, Some(other.blob())]).err().unwrap();
    assert!(refused.message.contains("no network in common"), "{refused}");
}
