//! Floating-point operands are folded in the order of the ranks by the algorithms that promise it, wherever the operands lie: in
//! staging memory, behind an arrival, in a heap or in private memory that the kernel reads.
//!
//! A sum of floats tells two operands that have changed places, unless they are the first two, whose order changes no bit.

use super::{Buffer, on_ranks_of};
use crate::algorithms::{ALL, Algorithm};
use crate::comm::{self, Call, CommHandle, Config};
use crate::memory::view::Address;
use crate::plan::RankView;
use crate::types::{Collective, DataType, Rank, RedOp};

const RANKS: u32 = 9;

/// Element `i` of a rank's input: of either sign, of any size within a factor of a thousand.
fn operand(rank: Rank, i: usize) -> f32 {
    let mixed = (rank * 1_000_003 + i as u32 + 1).wrapping_mul(0x9e37_79b9);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
    f32::from_bits(mixed & 0x807f_ffff | (122 + (mixed >> 13) % 10) << 23)
}

fn folded(i: usize) -> f32 {
    (1..RANKS).fold(operand(0, i), |sum, rank| sum + operand(rank, i))
}

/// Makes a call of `count` elements a block, and compares the bits of the output.
fn check(collective: Collective, count: usize, [heap, in_place]: [bool; 2], me: Rank, comm: CommHandle) {
    let ins = collective.blocks_in(me, RANKS, 0) as usize;
    let first = if collective == Collective::ReduceScatter { me as usize * count } else { 0 };
    let mut buffer = Buffer::new(heap, ins * count + if in_place { 0 } else { count });
    let recv = if in_place { first } else { ins * count };
    (0..ins * count).for_each(|i| buffer.slice()[i] = operand(me, i).to_bits());
    let has_output = collective.blocks_out(me, RANKS, 0) > 0;
    let call = Call {
        collective,
        send: buffer.at(0),
        recv: if has_output { buffer.at(recv) } else { Address::NULL },
        count,
        dtype: DataType::Float32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    comm::collective(comm, &call, None).unwrap();
    let output = &buffer.slice()[recv..];
    let wrong = (0..if has_output { count } else { 0 }).find(|&i| output[i] != folded(first + i).to_bits());
    assert_eq!(wrong, None, "{collective} of {count}, heap {heap}, in place {in_place}: rank {me}, element");
}

#[test]
fn operands_are_folded_in_the_order_of_the_ranks_wherever_they_lie() {
    use Collective::*;
    for collective in [AllReduce, ReduceScatter, Reduce] {
        let serves = |a: &&&Algorithm| {
            let view = RankView::flat(collective, 0, RANKS, 0);
            a.rank_order && a.serves.contains(&collective) && a.refuses(&view).is_none()
        };
        // Behind an arrival, in the payloads, in slots, and what the kernel reads where it may.
        let counts = if collective == ReduceScatter { [3, 90, 900, 8_009] } else { [3, 120, 3_000, 70_001] };
        for (algorithm, single_copy) in
            ALL.iter().filter(serves).flat_map(|algorithm| [(algorithm, false), (algorithm, true)])
        {
            let algo = Some(format!("{collective}:{}", algorithm.name));
            let config = |_| Config {
                timeout_ms: Some(60_000),
                threads: Some(1),
                algo: algo.clone(),
                single_copy: Some(single_copy),
                ..Config::default()
            };
            on_ranks_of(RANKS, config, |me, comm| {
                for count in counts {
                    for lies in [[false, false], [false, true], [true, false], [true, true]] {
                        check(collective, count, lies, me, comm);
                    }
                }
            });
        }
    }
}
