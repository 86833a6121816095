use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub struct Plain(RefCell<Vec<u64>>);

impl Cells for Plain {
    fn get(&self, at: usize) -> u64 {
        self.0.borrow()[at]
    }
    fn set(&self, at: usize, value: u64) {
        self.0.borrow_mut()[at] = value;
    }
}

pub fn clocks(n: u32) -> VectorClocks<Plain> {
    let cells = vec![0; VectorClocks::<Plain>::cells(n as usize)];
    VectorClocks::new(Plain(RefCell::new(cells)), n)
}

pub fn word(rank: Rank, at: u64) -> HeapWord {
    HeapWord { rank, at }
}

const PUT: Operation = Operation::Put;

#[test]
fn two_writers_without_a_signal_between_are_a_race_and_with_one_are_not() {
    let l = clocks(3);
    assert_eq!(l.access(0, PUT, 2, 100..200), Ok(()));
    let conflict = Conflict { rank: 0, operation: PUT, range: 150..200 };
    assert_eq!(l.access(1, Operation::RemoteCopy, 2, 150..300), Err(conflict.clone()));
    assert_eq!(
        l.access(1, PUT, 1, 150..300),
        Ok(()),
        "the same place of another rank's memory is another place"
    );
    assert_eq!(l.access(1, PUT, 2, 200..300), Ok(()), "ranges that touch do not overlap");
    l.release(0, word(1, 8));
    assert_eq!(l.access(1, PUT, 2, 150..300), Err(conflict), "a signal that nobody has seen orders nothing");
    l.acquire(1, word(1, 8));
    assert_eq!(l.access(1, PUT, 2, 150..300), Ok(()));
    assert_eq!(l.access(0, PUT, 2, 100..150), Ok(()), "its own");
    assert!(l.access(0, PUT, 2, 299..300).is_err(), "and now the other way round");
}

#[test]
fn what_is_written_after_the_signal_is_not_ordered_by_it() {
    let l = clocks(2);
    l.access(0, PUT, 1, 0..8).unwrap();
    l.release(0, word(1, 64));
    l.access(0, PUT, 1, 8..16).unwrap();
    l.acquire(1, word(1, 64));
    assert_eq!(l.access(1, PUT, 1, 0..8), Ok(()));
    assert_eq!(l.access(1, PUT, 1, 0..9), Err(Conflict { rank: 0, operation: PUT, range: 8..9 }));
}

#[test]
fn knowledge_goes_on_through_a_third_rank_and_through_a_word_that_was_put() {
    let l = clocks(3);
    l.access(0, PUT, 2, 0..8).unwrap();
    l.release(0, word(1, 0));
    l.acquire(1, word(1, 0));
    l.access(1, PUT, 2, 64..72).unwrap();
    l.acquire(2, word(2, 64));
    assert_eq!(l.access(2, PUT, 2, 0..72), Ok(()));
}

#[test]
fn a_collective_orders_what_was_before_it_and_not_what_came_after() {
    let l = clocks(2);
    l.access(0, PUT, 1, 0..8).unwrap();
    l.enter(0, 1);
    l.enter(1, 1);
    l.leave(0, 1);
    l.access(0, PUT, 1, 8..16).unwrap();
    l.leave(1, 1);
    assert_eq!(l.access(1, PUT, 1, 0..8), Ok(()));
    assert!(l.access(1, PUT, 1, 8..16).is_err());
}

#[test]
fn more_words_and_writes_than_fit_lose_races_and_invent_none() {
    let l = clocks(2);
    for k in 0..3 * WORDS as u64 {
        l.access(0, PUT, 1, 8 * k..8 * k + 8).unwrap();
        l.release(0, word(1, 8 * k));
    }
    for k in 0..2 * ACCESSES as u64 {
        l.access(0, PUT, 1, 16 * k..16 * k + 8).unwrap();
    }
    l.release(0, word(1, 0));
    l.acquire(1, word(1, 0));
    assert_eq!(l.access(1, PUT, 1, 0..1 << 40), Ok(()));
}

#[derive(Clone, Debug)]
enum Act {
    Write(Rank, Rank, u64, u64),
    Read(Rank, Rank, u64, u64),
    Signal(Rank, u64),
    Wait(Rank, u64),
    Add(Rank, u64, u64),
    Take(Rank, u64, u64),
    Hear(Rank, Rank),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let rank = || 0..3u32;
    let range = || (0..2u32, 0..24u64, 1..9u64);
    let act = prop_oneof![
        3 => (rank(), range()).prop_map(|(r, (to, at, len))| Act::Write(r, to, at, at + len)),
        3 => (rank(), range()).prop_map(|(r, (to, at, len))| Act::Read(r, to, at, at + len)),
        2 => (rank(), 0..4u64).prop_map(|(r, w)| Act::Signal(r, w)),
        2 => (rank(), 0..4u64).prop_map(|(r, w)| Act::Wait(r, w)),
        3 => (rank(), 0..3u64, 1..4u64).prop_map(|(r, w, by)| Act::Add(r, w, by)),
        3 => (rank(), 0..3u64, 1..4u64).prop_map(|(r, w, by)| Act::Take(r, w, by)),
        1 => (rank(), rank()).prop_map(|(r, from)| Act::Hear(r, from)),
    ];
    proptest::collection::vec(act, 1..120)
}

/// Whose access, and its number.
type By = (Rank, usize);
/// What a rank knows: the numbers of accesses.
type Known = BTreeSet<usize>;

/// The definition: every rank has the set of all accesses that it knows of, every byte its last write and the reads since, every
/// semaphore the sets that its signals brought.
#[derive(Default)]
struct Definition {
    known: [Known; 3],
    left: BTreeMap<u64, Known>,
    bytes: BTreeMap<(Rank, u64), (Option<By>, Vec<By>)>,
    semaphores: BTreeMap<u64, VecDeque<(u64, Known)>>,
}

impl Definition {
    /// Does it? Tells whether that is a race; then nothing has changed.
    fn accesses(
        &mut self,
        rank: Rank,
        is_write: bool,
        target: Rank,
        range: Range<u64>,
        number: usize,
    ) -> bool {
        let known = &mut self.known[rank as usize];
        let unknown = |&(by, access): &(Rank, usize)| by != rank && !known.contains(&access);
        let races = |byte: u64| {
            self.bytes.get(&(target, byte)).is_some_and(|(write, reads)| {
                write.iter().any(unknown) || (is_write && reads.iter().any(unknown))
            })
        };
        if range.clone().any(races) {
            return true;
        }
        known.insert(number);
        for byte in range {
            let (write, reads) = self.bytes.entry((target, byte)).or_default();
            if is_write {
                *write = Some((rank, number));
                reads.clear();
            } else {
                reads.push((rank, number));
            }
        }
        false
    }

    /// Signals past the eighth go with it.
    fn adds(&mut self, rank: Rank, semaphore: u64, by: u64) {
        let (signals, known) = (self.semaphores.entry(semaphore).or_default(), &self.known[rank as usize]);
        if signals.len() < 8 {
            return signals.push_back((by, known.clone()));
        }
        let (amount, with) = &mut signals[7];
        *amount += by;
        with.extend(known);
    }

    /// Takes an amount off, if it is there. Tells whether it was.
    fn takes(&mut self, rank: Rank, semaphore: u64, mut by: u64) -> bool {
        let (signals, known) =
            (self.semaphores.entry(semaphore).or_default(), &mut self.known[rank as usize]);
        if signals.iter().map(|(amount, _)| amount).sum::<u64>() < by {
            return false;
        }
        while by > 0 {
            let (amount, with) = &mut signals[0];
            known.extend(with.iter());
            if *amount > by {
                *amount -= by;
                break;
            }
            by -= *amount;
            signals.pop_front();
        }
        true
    }
}

proptest! {
    #[test]
    fn a_race_is_found_exactly_where_a_byte_was_accessed_by_somebody_unknown(acts in acts()) {
        let l = clocks(3);
        let mut d = Definition::default();
        // Words and semaphores lie where nobody writes.
        let (at, counts) = (|w: u64| word(0, 1000 + 8 * w), |w: u64| word(1, 1000 + 8 * w));
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write(rank, target, start, end) => {
                    let raced = d.accesses(rank, true, target, start..end, number);
                    prop_assert_eq!(l.access(rank, PUT, target, start..end).is_err(), raced);
                }
                Act::Read(rank, target, start, end) => {
                    let raced = d.accesses(rank, false, target, start..end, number);
                    prop_assert_eq!(l.access(rank, Operation::Received, target, start..end).is_err(), raced);
                }
                Act::Signal(rank, w) => {
                    l.release(rank, at(w));
                    d.left.entry(w).or_default().extend(&d.known[rank as usize]);
                }
                Act::Wait(rank, w) => {
                    l.acquire(rank, at(w));
                    d.known[rank as usize].extend(d.left.get(&w).into_iter().flatten());
                }
                Act::Add(rank, w, by) => {
                    l.release_counted(rank, counts(w), by, 0..0);
                    d.adds(rank, w, by);
                }
                Act::Take(rank, w, by) => {
                    if d.takes(rank, w, by) {
                        l.acquire_counted(rank, counts(w), by);
                    }
                }
                Act::Hear(rank, from) => {
                    l.hear(rank, from);
                    let theirs = d.known[from as usize].clone();
                    d.known[rank as usize].extend(theirs);
                }
            }
        }
    }
}
