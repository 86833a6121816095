//! Two ranks that send and take pieces in an order that follows from a seed, and look at what each reads.

use super::{ANSWERED, LATELY, PiecePlaces, overlap};
use crate::memory::control::{PAIR_SLOTS, PLACES_APART, place_bytes};
use std::ops::Range;

/// Bytes of the places of a rank where all pieces have places, and where only the last ones of a message do.
const ALL: usize = 2 << 20;
const FEW: usize = 1 << 20;

/// A piece in the ring: who sent it, to which slot, and where it lies; `None`: in its slot.
#[derive(Clone)]
struct Piece {
    args: u64,
    bytes: usize,
    lies: Option<(usize, Range<usize>)>,
}

#[derive(Default)]
struct Side {
    places: PiecePlaces,
    /// Pieces sent; the last one of them is still being written.
    sent: Vec<Piece>,
    is_writing: bool,
    taken: u64,
    /// Slots of which the other has been told, and of which this one has heard.
    told: u64,
    heard: u64,
}

struct Model {
    sides: [Side; 2],
    /// The sender and the slot of the last write to each part of either rank's places.
    memory: [Vec<(usize, u64)>; 2],
    random: u64,
    /// Of eight pieces, those that go by slots.
    by_slot: u64,
    /// Of eight pieces, those that are not among the last of a message.
    begins: u64,
    /// Of sixteen pieces, those that are refused.
    refused: u64,
    /// Pieces in places that were read before.
    again: u64,
}

impl Model {
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn parts(range: &Range<usize>) -> Range<usize> {
        range.start / PLACES_APART..range.end.div_ceil(PLACES_APART)
    }

    /// Decides where a piece goes, and begins to write it.
    fn send(&mut self, me: usize, bytes: usize) {
        let index = self.sides[me].sent.len() as u64;
        if index >= self.sides[me].heard + PAIR_SLOTS as u64 {
            self.sides[me].heard = self.sides[1 - me].told;
            if index >= self.sides[me].heard + PAIR_SLOTS as u64 {
                return;
            }
        }
        let other = &self.sides[1 - me];
        let there = other.sent.len() as u64 - u64::from(other.is_writing);
        let taken = self.sides[me].taken;
        let pending: Vec<u64> = (taken..there).map(|index| other.sent[index as usize].args).collect();
        let begins = self.draw(8) < self.begins;
        let prefers_slot = self.draw(8) < self.by_slot;
        let places = &mut self.sides[me].places;
        let mut found = if prefers_slot || begins { None } else { places.take_read(index, bytes, taken) };
        self.again += u64::from(found.is_some());
        if found.is_none() && !prefers_slot {
            if let Some(at) = places.read_lately(index, bytes, pending.iter().copied()) {
                // A probe writes there.
                self.memory[me][Model::parts(&(at..at + bytes))].fill((2, index));
            }
            found = places.take_next(index, bytes, pending.into_iter());
        }
        let lies = found.map(|args| {
            let at = super::offset(args);
            (if args & super::OF_RECEIVER == 0 { me } else { 1 - me }, at..at + bytes)
        });
        self.sides[me].sent.push(Piece { args: found.unwrap_or(0), bytes, lies });
        self.sides[me].is_writing = true;
        self.write(me);
    }

    /// Writes the last piece, which takes from its first byte to its last.
    fn write(&mut self, me: usize) {
        let index = self.sides[me].sent.len() - 1;
        if let Some((owner, range)) = self.sides[me].sent[index].lies.clone() {
            self.memory[owner][Model::parts(&range)].fill((me, index as u64));
        }
    }

    fn publish(&mut self, me: usize) {
        if self.sides[me].is_writing {
            self.write(me);
            self.sides[me].is_writing = false;
        }
    }

    /// Takes a piece, if there is one; tells whether it was what the other sent. A rank writes and reads one after the other.
    fn take(&mut self, me: usize) -> Result<(), String> {
        self.publish(me);
        let (other, index) = (&self.sides[1 - me], self.sides[me].taken);
        let there = other.sent.len() as u64 - u64::from(other.is_writing);
        if index == there {
            return Ok(());
        }
        let piece = other.sent[index as usize].clone();
        if let Some((owner, range)) = &piece.lies {
            let found = &self.memory[*owner][Model::parts(range)];
            if let Some(other) = found.iter().find(|&&found| found != (1 - me, index)) {
                return Err(format!("rank {me} reads {other:?} in slot {index}"));
            }
        }
        let is_refused = self.draw(16) < self.refused;
        let side = &mut self.sides[me];
        if !is_refused {
            side.places.has_read(piece.args, index, piece.bytes, piece.bytes);
        }
        side.taken = index + 1;
        if side.taken.is_multiple_of(PAIR_SLOTS as u64 / 2) {
            side.told = side.taken;
        }
        Ok(())
    }

    /// Runs phases in which either rank sends much or little, pieces of one size or of many.
    fn run(seed: u64, all: usize) -> Result<u64, String> {
        let memory = || vec![(2, 0); all / PLACES_APART];
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut model = Model {
            sides: [(); 2]
                .map(|()| Side { places: PiecePlaces { all, ..PiecePlaces::default() }, ..Side::default() }),
            memory: [memory(), memory()],
            random,
            by_slot: 0,
            begins: 0,
            refused: 0,
            again: 0,
        };
        for _ in 0..60 {
            let sizes = [1024, 4096, 5000, 8 << 10, 16 << 10, 32 << 10];
            let (one, mixes) = (sizes[model.draw(6) as usize], model.draw(2) == 0);
            model.by_slot = [0, 1, 6][model.draw(3) as usize];
            model.begins = [0, 2, 7][model.draw(3) as usize];
            model.refused = [0, 1, 15][model.draw(3) as usize];
            let weights = [1 + model.draw(6), 1 + model.draw(6), 1 + model.draw(6), 1 + model.draw(6)];
            let sum = weights.iter().sum();
            for _ in 0..200 {
                let mut drawn = model.draw(sum);
                let what = weights.iter().position(|&weight| {
                    let is_here = drawn < weight;
                    drawn = drawn.saturating_sub(weight);
                    is_here
                });
                match what.expect("one of four") {
                    me @ (0 | 1) => {
                        let bytes = if mixes { sizes[model.draw(6) as usize] } else { one };
                        model.publish(me);
                        model.send(me, bytes);
                    }
                    taker => model.take(taker - 2)?,
                }
            }
        }
        Ok(model.again)
    }
}

#[test]
fn whoever_reads_a_place_finds_what_was_sent() {
    for all in [ALL, FEW] {
        let again: u64 = (1..400)
            .map(|seed| Model::run(seed, all).unwrap_or_else(|why| panic!("seed {seed}, {all} bytes: {why}")))
            .sum();
        assert!(again > 100_000, "places that were read are written: {again}");
    }
}

#[test]
fn two_ranks_that_answer_each_other_stay_in_one_place() {
    let mut sides = [(); 2].map(|()| PiecePlaces { all: ALL, ..PiecePlaces::default() });
    let mut args = Vec::new();
    for message in 0..10u64 {
        let (me, index) = ((message % 2) as usize, message / 2);
        let found = sides[me].take_read(index, 16 << 10, index + me as u64);
        let found = found.or_else(|| sides[me].take_next(index, 16 << 10, std::iter::empty()));
        let found = found.expect("nobody else is there");
        sides[1 - me].has_read(found, index, 16 << 10, 16 << 10);
        args.push(found);
    }
    assert!(args.iter().all(|&found| super::offset(found) == 0));
    assert!(args.chunks(2).all(|pair| pair[0] != pair[1] && pair == &args[..2]), "{args:x?}");
}

#[test]
fn a_line_tells_a_place_from_a_slot() {
    assert!(super::is_placed(super::PLACED) && super::is_placed(super::PLACE));
    assert!(!super::is_placed(super::word(ALL)), "it lies in its slot");
}

#[test]
fn what_was_read_lately_is_what_nobody_reads() {
    let mut places = PiecePlaces { all: ALL, ..PiecePlaces::default() };
    let step = place_bytes(32 << 10);
    for index in 0..200 {
        let lately = places.read_lately(index, 32 << 10, std::iter::empty());
        let next = places.take_next(index, 32 << 10, std::iter::empty()).expect("free");
        let Some(at) = lately else { continue };
        let distance = (super::offset(next) + ALL - at) % ALL;
        assert!(distance > ANSWERED as usize * step && distance <= LATELY + 2 * step, "{index}: {distance}");
        assert!(!overlap(&(at..at + 1), &(super::offset(next)..super::offset(next) + step)));
    }
}
