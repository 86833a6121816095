use super::super::access::{Conflict, Operation};
use super::super::vector_clocks::tests::{clocks, word};
use crate::types::Rank;

const COPY: Operation = Operation::RemoteCopy;
const READ: Operation = Operation::Received;

#[test]
fn a_slot_that_is_written_again_before_its_reader_has_answered_is_a_race_whichever_comes_first() {
    let (recv, answer) = (word(1, 1000), word(0, 2000));
    let conflict = |rank: Rank, operation| Err(Conflict { rank, operation, range: 0..64 });
    let sent_once = || {
        let l = clocks(2);
        l.access(0, COPY, 1, 0..64).unwrap();
        l.release_counted(0, recv, 64, 0..64);
        l
    };
    // The reader is first.
    let l = sent_once();
    assert_eq!(l.acquire_counted(1, recv, 64), vec![0..64u64; 1]);
    l.access(1, READ, 1, 0..64).unwrap();
    assert_eq!(l.access(0, COPY, 1, 0..64), conflict(1, READ));
    l.release_counted(1, answer, 1, 0..0);
    l.acquire_counted(0, answer, 1);
    assert_eq!(l.access(0, COPY, 1, 0..64), Ok(()), "it has answered");
    // The writer is first.
    let l = sent_once();
    l.access(0, COPY, 1, 0..64).unwrap();
    l.release_counted(0, recv, 64, 0..64);
    l.acquire_counted(1, recv, 64);
    assert_eq!(
        l.access(1, READ, 1, 0..64),
        conflict(0, COPY),
        "the first signal does not tell of the second copy"
    );
    l.acquire_counted(1, recv, 64);
    assert_eq!(l.access(1, READ, 1, 0..64), Ok(()), "both were taken");
}

#[test]
fn an_answer_from_before_the_wait_does_not_count() {
    let l = clocks(2);
    l.access(0, COPY, 1, 0..64).unwrap();
    l.release_counted(0, word(1, 1000), 64, 0..64);
    l.release_counted(1, word(0, 2000), 1, 0..0);
    l.acquire_counted(1, word(1, 1000), 64);
    l.access(1, READ, 1, 0..64).unwrap();
    l.acquire_counted(0, word(0, 2000), 1);
    assert!(l.access(0, COPY, 1, 0..64).is_err());
}

#[test]
fn a_wait_reads_what_was_brought_by_the_signals_that_it_takes_off_as_a_whole() {
    let (l, recv) = (clocks(2), word(1, 1000));
    for k in 0..3 {
        l.release_counted(0, recv, 64, 64 * k..64 * k + 64);
    }
    assert_eq!(l.acquire_counted(1, recv, 32), []);
    assert_eq!(l.acquire_counted(1, recv, 64), vec![0..64u64; 1]);
    assert_eq!(l.acquire_counted(1, recv, 96), [64..128, 128..192]);
}

#[test]
fn more_semaphores_and_signals_than_fit_lose_races_and_invent_none() {
    let l = clocks(2);
    for semaphore in 0..2 * super::SEMAPHORES as u64 {
        for k in 0..3 * super::SIGNALS as u64 {
            let at = 10_000 * semaphore + 100 * k;
            l.access(0, COPY, 1, at..at + 64).unwrap();
            l.release_counted(0, word(1, 8 * semaphore), 64, 0..64);
        }
        for k in 0..3 * super::SIGNALS as u64 {
            let at = 10_000 * semaphore + 100 * k;
            l.acquire_counted(1, word(1, 8 * semaphore), 64);
            assert_eq!(l.access(1, READ, 1, at..at + 64), Ok(()), "semaphore {semaphore}, signal {k}");
        }
    }
}
