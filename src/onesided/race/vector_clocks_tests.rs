use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

struct Plain(RefCell<Vec<u64>>);

impl Cells for Plain {
    fn get(&self, at: usize) -> u64 {
        self.0.borrow()[at]
    }
    fn set(&self, at: usize, value: u64) {
        self.0.borrow_mut()[at] = value;
    }
}

fn clocks(n: u32) -> VectorClocks<Plain> {
    let cells = vec![0; VectorClocks::<Plain>::cells(n as usize)];
    VectorClocks::new(Plain(RefCell::new(cells)), n)
}

fn word(rank: Rank, at: u64) -> HeapWord {
    HeapWord { rank, at }
}

const PUT: Operation = Operation::Put;

#[test]
fn two_writers_without_a_signal_between_are_a_race_and_with_one_are_not() {
    let l = clocks(3);
    assert_eq!(l.write(0, PUT, 2, 100..200), Ok(()));
    let conflict = Conflict { writer: 0, operation: PUT, range: 150..200 };
    assert_eq!(l.write(1, Operation::RemoteCopy, 2, 150..300), Err(conflict.clone()));
    assert_eq!(
        l.write(1, PUT, 1, 150..300),
        Ok(()),
        "the same place of another rank's memory is another place"
    );
    assert_eq!(l.write(1, PUT, 2, 200..300), Ok(()), "ranges that touch do not overlap");
    l.release(0, word(1, 8));
    assert_eq!(l.write(1, PUT, 2, 150..300), Err(conflict), "a signal that nobody has seen orders nothing");
    l.acquire(1, word(1, 8));
    assert_eq!(l.write(1, PUT, 2, 150..300), Ok(()));
    assert_eq!(l.write(0, PUT, 2, 100..150), Ok(()), "its own");
    assert!(l.write(0, PUT, 2, 299..300).is_err(), "and now the other way round");
}

#[test]
fn what_is_written_after_the_signal_is_not_ordered_by_it() {
    let l = clocks(2);
    l.write(0, PUT, 1, 0..8).unwrap();
    l.release(0, word(1, 64));
    l.write(0, PUT, 1, 8..16).unwrap();
    l.acquire(1, word(1, 64));
    assert_eq!(l.write(1, PUT, 1, 0..8), Ok(()));
    assert_eq!(l.write(1, PUT, 1, 0..9), Err(Conflict { writer: 0, operation: PUT, range: 8..9 }));
}

#[test]
fn knowledge_goes_on_through_a_third_rank_and_through_a_word_that_was_put() {
    let l = clocks(3);
    l.write(0, PUT, 2, 0..8).unwrap();
    l.release(0, word(1, 0));
    l.acquire(1, word(1, 0));
    l.write(1, PUT, 2, 64..72).unwrap();
    l.acquire(2, word(2, 64));
    assert_eq!(l.write(2, PUT, 2, 0..72), Ok(()));
}

#[test]
fn a_collective_orders_what_was_before_it_and_not_what_came_after() {
    let l = clocks(2);
    l.write(0, PUT, 1, 0..8).unwrap();
    l.enter(0, 1);
    l.enter(1, 1);
    l.leave(0, 1);
    l.write(0, PUT, 1, 8..16).unwrap();
    l.leave(1, 1);
    assert_eq!(l.write(1, PUT, 1, 0..8), Ok(()));
    assert!(l.write(1, PUT, 1, 8..16).is_err());
}

#[test]
fn more_words_and_writes_than_fit_lose_races_and_invent_none() {
    let l = clocks(2);
    for k in 0..3 * WORDS as u64 {
        l.write(0, PUT, 1, 8 * k..8 * k + 8).unwrap();
        l.release(0, word(1, 8 * k));
    }
    for k in 0..2 * WRITES as u64 {
        l.write(0, PUT, 1, 16 * k..16 * k + 8).unwrap();
    }
    l.release(0, word(1, 0));
    l.acquire(1, word(1, 0));
    assert_eq!(l.write(1, PUT, 1, 0..1 << 40), Ok(()));
}

/// What a rank does.
#[derive(Clone, Debug)]
enum Act {
    Write(Rank, Rank, u64, u64),
    Signal(Rank, u64),
    Wait(Rank, u64),
    Hear(Rank, Rank),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let rank = || 0..3u32;
    let act = prop_oneof![
        3 => (rank(), 0..2u32, 0..24u64, 1..9u64).prop_map(|(r, to, at, len)| Act::Write(r, to, at, at + len)),
        2 => (rank(), 0..4u64).prop_map(|(r, w)| Act::Signal(r, w)),
        2 => (rank(), 0..4u64).prop_map(|(r, w)| Act::Wait(r, w)),
        1 => (rank(), rank()).prop_map(|(r, from)| Act::Hear(r, from)),
    ];
    proptest::collection::vec(act, 1..120)
}

proptest! {
    /// Against the definition: every rank has the set of all writes that it knows of, every byte its last one.
    #[test]
    fn a_race_is_found_exactly_where_a_byte_was_last_written_by_somebody_unknown(acts in acts()) {
        let l = clocks(3);
        let mut known = vec![BTreeSet::new(); 3];
        let mut left: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        let mut last: BTreeMap<(Rank, u64), (Rank, usize)> = BTreeMap::new();
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write(rank, target, start, end) => {
                    let raced = (start..end).filter_map(|byte| last.get(&(target, byte)))
                        .any(|(writer, write)| *writer != rank && !known[rank as usize].contains(write));
                    prop_assert_eq!(l.write(rank, PUT, target, start..end).is_err(), raced);
                    if !raced {
                        known[rank as usize].insert(number);
                        last.extend((start..end).map(|byte| ((target, byte), (rank, number))));
                    }
                }
                // Words lie where nobody writes.
                Act::Signal(rank, w) => {
                    l.release(rank, word(0, 1000 + 8 * w));
                    left.entry(w).or_default().extend(&known[rank as usize]);
                }
                Act::Wait(rank, w) => {
                    l.acquire(rank, word(0, 1000 + 8 * w));
                    known[rank as usize].extend(left.get(&w).into_iter().flatten());
                }
                Act::Hear(rank, from) => {
                    l.hear(rank, from);
                    let theirs = known[from as usize].clone();
                    known[rank as usize].extend(theirs);
                }
            }
        }
    }
}
