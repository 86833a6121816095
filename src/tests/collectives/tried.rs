//! Calls whose buffers are copied and read where they lie in turns (docs/decisions/0100).

use super::swapped::Random;
use super::{Buffer, Case, on_ranks_of, run};
use crate::comm::{self, Call, Config};
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
