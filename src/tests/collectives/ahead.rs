//! A rank that only reads asks for the lines of calls that are written already, in every collective in which it only reads
//! (docs/decisions/0078).

use super::{Case, on_ranks, run};
use crate::comm::CommHandle;
use crate::transport::arrival::ASKED_FOR;
use crate::types::{Collective, Rank};
use std::sync::{Barrier, Mutex};

const CALLS: u32 = 20;
/// Arrivals in a row that a rank finds at once before it asks for others.
const UNASKED: u32 = 8;

/// Makes calls that the rank which only reads makes after the other rank has made all of its own. Returns the number of arrivals for whose
/// lines this rank has asked.
fn asked_for(case: &Case, [reader, me]: [Rank; 2], comm: CommHandle, turn: &Barrier) -> u32 {
    let before = ASKED_FOR.get();
    for of_reader in [false, true] {
        if of_reader == (me == reader) {
            (0..CALLS).for_each(|_| run(case, 2, me, comm));
        }
        turn.wait();
    }
    ASKED_FOR.get() - before
}

#[test]
fn a_rank_that_only_reads_asks_for_the_lines_of_calls_that_are_there() {
    use Collective::{Broadcast, Gather, Reduce, Scatter};
    let turn = Barrier::new(2);
    let found = Mutex::new(Vec::new());
    on_ranks(2, |me, comm| {
        // Words of a block: within the arrival line, and behind it.
        for count in [1, 50] {
            for (collective, root, reader) in
                [(Broadcast, 0, 1), (Scatter, 1, 0), (Gather, 0, 0), (Reduce, 1, 1)]
            {
                let case = Case { collective, root, count, heap: false, in_place: false };
                let asked = asked_for(&case, [reader, me], comm, &turn);
                found.lock().unwrap().push((collective, count, me == reader, asked));
            }
        }
    });
    // Not within: the other rank would wait for one that has failed.
    for (collective, count, is_reader, asked) in found.into_inner().unwrap() {
        let expected = if is_reader { CALLS - UNASKED..=CALLS } else { 0..=0 };
        assert!(expected.contains(&asked), "{collective} of {count} words, the reader {is_reader}: {asked}");
    }
}
