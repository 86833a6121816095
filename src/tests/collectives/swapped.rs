//! Two ranks that write where they have read last, in calls of all kinds and sizes one after the other (docs/decisions/0076).

use super::{Case, on_ranks, on_ranks_with, run};
use crate::types::Collective;

/// Numbers that follow from a seed, the same on all ranks.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A call that follows from the seed: mostly of private buffers, and mostly one in which each rank waits for the other.
fn drawn(random: &mut Random) -> [Case; 2] {
    use Collective::*;
    let all = [AllReduce, ReduceScatter, AllGather, AlltoAll, AllReduce, Broadcast, Gather, Scatter, Reduce];
    let collective = all[random.below(all.len() as u64) as usize];
    // Words: within the arrival, one page of a payload, larger payloads, one slice, and several.
    let most = [100, 1_000, 8_000, 60_000, 400_000][random.below(5) as usize];
    let (count, root) = (1 + random.below(most) as usize, random.below(2) as u32);
    [0, 1].map(|_| Case {
        collective,
        root,
        count,
        heap: random.below(4) == 0,
        in_place: random.below(3) == 0,
    })
}

fn calls_in_any_order(seed: u64, calls: u32, me: u32, comm: crate::comm::CommHandle) {
    let (mut random, mut own) = (Random(seed), Random(seed + 1 + u64::from(me)));
    for _ in 0..calls {
        let cases = drawn(&mut random);
        // One is early, or the other is.
        if own.below(4) == 0 {
            std::thread::sleep(std::time::Duration::from_micros(own.below(300)));
        }
        run(&cases[me as usize], 2, me, comm);
    }
}

#[test]
fn two_ranks_find_each_others_data_in_calls_of_all_kinds_and_sizes() {
    for seed in 1..9 {
        on_ranks(2, |me, comm| calls_in_any_order(seed * 1_000_003, 150, me, comm));
    }
}

#[test]
fn two_ranks_find_each_others_data_by_the_algorithms_that_swap() {
    let algo = "allreduce:two_shot;reducescatter:two_shot;allgather:two_shot;alltoall:pairwise";
    for algo in [algo, "allreduce:one_shot", "allreduce:ring;allgather:ring"] {
        on_ranks_with(2, algo, |me, comm| calls_in_any_order(77_777, 200, me, comm));
    }
}
