//! Calls whose buffers are copied and read where they lie in turns (docs/decisions/0100).

use super::swapped::Random;
use super::{Buffer, Case, input, on_ranks_of, run};
use crate::comm::{self, Call, Config, Transfer};
use crate::types::{Collective, DataType, RedOp};

fn tries() -> Config {
    Config { timeout_ms: Some(60_000), zero_copy_from: None, ..Config::default() }
}

#[test]
fn calls_are_right_whichever_way_each_rank_goes() {
    for n in [2, 3, 5] {
        on_ranks_of(
            n,
            |_| tries(),
            |me, comm| {
                let mut own = Random(31 + u64::from(me));
                for &collective in Collective::ALL.iter().filter(|&&c| c != Collective::Barrier) {
                    for count in [1_024, 5_000, 40_000] {
                        // Where the buffers of some ranks only can be reached, the ranks change over at different calls.
                        let all_in_heap = count != 5_000;
                        for call in 0..70 {
                            let (heap, in_place) = (all_in_heap || own.below(2) == 0, call % 7 == 6);
                            run(&Case { collective, root: call % n, count, heap, in_place }, n, me, comm);
                        }
                    }
                }
            },
        );
    }
}

/// Every rank sends to the next one, in each fourth group to all of them. Each writes its buffer anew as soon as the group has ended.
#[test]
fn groups_of_messages_are_right_whichever_way_each_rank_goes() {
    for n in [2, 3, 5] {
        on_ranks_of(
            n,
            |_| tries(),
            |me, comm| {
                let mut own = Random(77 + u64::from(me));
                for words in [5_000, 12_000, 90_000] {
                    for group in 0..90 {
                        let heap = words != 12_000 || own.below(2) == 0;
                        let most = if group % 4 == 0 { n - 1 } else { 1 };
                        let (mut out, mut into) =
                            (Buffer::new(heap, words), Buffer::new(heap, words * most as usize));
                        (0..).zip(out.slice()).for_each(|(i, to)| *to = input(me, group, i));
                        let transfer = |send, by: u32| Transfer {
                            send,
                            buffer: if send { out.at(0) } else { into.at((by as usize - 1) * words) },
                            count: words,
                            dtype: DataType::Uint32,
                            peer: ((if send { me + by } else { me + n - by }) % n) as i32,
                            of_collective: false,
                        };
                        let both = (1..=most).flat_map(|by| [transfer(true, by), transfer(false, by)]);
                        comm::transfers_now(comm, &both.collect::<Vec<_>>()).unwrap();
                        out.slice().fill(!0);
                        for by in 1..=most {
                            let from = (me + n - by) % n;
                            let come = &into.slice()[(by as usize - 1) * words..][..words];
                            let is_right = (0..).zip(come).all(|(i, &got)| got == input(from, group, i));
                            assert!(is_right, "group {group} of {words} words, from rank {from}");
                        }
                    }
                }
            },
        );
    }
}

#[test]
fn a_reduction_has_the_same_bits_whichever_way_it_goes() {
    for n in [2, 3, 5] {
        on_ranks_of(
            n,
            |_| tries(),
            |me, comm| {
                for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce] {
                    for words in [1_500, 20_000, 200_000] {
                        let words = words * n as usize;
                        let mut buffers = [Buffer::new(true, words), Buffer::new(true, words)];
                        let mut bits = Random(u64::from(me) + 5);
                        // Sums of numbers between 1 and 2^32: their order shows in the last bits.
                        let mut float = || f32::exp2(bits.below(1 << 16) as f32 / 2048.0).to_bits();
                        buffers[0].slice().iter_mut().for_each(|word| *word = float());
                        let blocks = if collective == Collective::ReduceScatter { n as usize } else { 1 };
                        let call = Call {
                            collective,
                            send: buffers[0].at(0),
                            recv: buffers[1].at(0),
                            count: words / blocks,
                            dtype: DataType::Float32,
                            op: RedOp::Sum,
                            root: 0,
                            padded: false,
                        };
                        let mut first = None;
                        for number in 0..70 {
                            buffers[1].slice().fill(0);
                            comm::collective(comm, &call, None).unwrap();
                            let output = buffers[1].slice().to_vec();
                            let first = first.get_or_insert_with(|| output.clone());
                            assert!(*first == output, "{collective} of {words} words, call {number}");
                        }
                    }
                }
            },
        );
    }
}
