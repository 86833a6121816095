//! Reduce-scatter of counts that the ranks do not divide: the last blocks end within the input, or lie past its end.

use super::collectives::on_ranks_with;
use super::fabric::on_machine;
use crate::algorithms;
use crate::comm::{self, Call, CommHandle};
use crate::memory::view::Address;
use crate::plan::RankView;
use crate::types::{Collective, DataType, Rank, RedOp};

fn word(rank: Rank, i: usize) -> u32 {
    (rank + 1) * 1_000_003 + i as u32 * 31
}

/// Private or shareable words.
enum Words {
    Private(Vec<u32>),
    Heap(usize, usize),
}

impl Words {
    fn new(heap: bool, len: usize) -> Words {
        if heap { Words::Heap(comm::mem_alloc(len * 4).unwrap(), len) } else { Words::Private(vec![0; len]) }
    }
    #[allow(unsafe_code)]
    fn slice(&mut self) -> &mut [u32] {
        match self {
            Words::Private(words) => words,
            // SAFETY: memory of the heap that only this rank uses, and no call at the moment.
            Words::Heap(at, len) => unsafe { std::slice::from_raw_parts_mut(*at as *mut u32, *len) },
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if let Words::Heap(at, _) = self {
            comm::mem_free(*at).unwrap();
        }
    }
}

/// The address of words that their rank keeps until its call has returned, and does not look at before.
#[allow(unsafe_code)]
fn address(words: &mut [u32]) -> Address<'static> {
    // SAFETY: see above; input and output are parts of one range only where the call is in place.
    unsafe { Address::from_raw(words.as_mut_ptr().cast()) }
}

/// `count` words, of which each rank gets its share, apart or in place, and nothing more is written.
fn padded(what: &str, n: u32, me: Rank, comm: CommHandle, count: usize, heap: bool, in_place: bool) {
    let share = count.div_ceil(n as usize);
    let first = me as usize * share;
    let at = if in_place { first } else { count };
    // In place, the shares of the last ranks reach past the input's end.
    let mut memory = Words::new(heap, count.max(at) + share + 1);
    let all = memory.slice();
    all.fill(u32::MAX);
    all[..count].iter_mut().enumerate().for_each(|(i, x)| *x = word(me, i));
    let call = Call {
        collective: Collective::ReduceScatter,
        send: address(all),
        recv: address(&mut all[at..]),
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: true,
    };
    let what = format!("{what}: {count} words on rank {me} of {n}, heap {heap}, in place {in_place}");
    comm::collective(comm, &call, None).unwrap_or_else(|e| panic!("{what}: {e}"));
    for i in 0..share {
        let sum = (0..n).map(|r| word(r, first + i)).fold(0, u32::wrapping_add);
        assert_eq!(all[at + i], if first + i < count { sum } else { 0 }, "{what}, word {i}");
    }
    assert_eq!(all[count.max(at) + share], u32::MAX, "{what}: the word after the share");
}

#[test]
fn every_algorithm_pads_every_small_count_on_one_to_eight_ranks() {
    for n in 1..=8 {
        for algorithm in algorithms::ALL {
            if algorithm.refuses(&RankView::flat(Collective::ReduceScatter, 0, n, 0)).is_some() {
                continue;
            }
            on_ranks_with(n, algorithm.name, |me, comm| {
                for count in 1..=2 * n as usize + 1 {
                    for (heap, in_place) in [(false, false), (true, false), (false, true), (true, true)] {
                        padded(algorithm.name, n, me, comm, count, heap, in_place);
                    }
                }
                // Two ranks: blocks of 1 KiB, and the last one ends before.
                for count in [509, 510, 511, 512, 513, 1000] {
                    padded(algorithm.name, n, me, comm, count, false, count % 2 == 0);
                }
                padded(algorithm.name, n, me, comm, 30_001, true, false);
            });
        }
    }
}

#[test]
fn declared_machines_pad_every_small_count() {
    for (fabric, n, algo) in [
        ("tpu-v5e", 4, ""),
        ("tpu-v5e", 6, ""),
        ("tpu-v5e", 8, ""),
        ("dgx-h100", 5, ""),
        ("dgx-h100", 8, "ring"),
    ] {
        on_machine(n, fabric, "virtual", algo, |me, comm| {
            for count in (1..=2 * n as usize + 1).chain([1000, 10_001]) {
                padded(&format!("{fabric} {algo}"), n, me, comm, count, count % 2 == 0, false);
            }
        });
    }
}
