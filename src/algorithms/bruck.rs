//! Bruck: an all-to-all in log(n) rounds, each block by the bits of its distance.
//!
//! ```text
//!     n = 8, the block of rank 1 for rank 6: distance 5 = 101b
//!       round 0, jumps of 1     1 --> 2           distances 1 3 5 7
//!       round 1, jumps of 2                       distances 2 3 6 7
//!       round 2, jumps of 4           2 --> 6     distances 4 5 6 7
//! ```
//!
//! A rank that a block only passes relays it without keeping it. All that is a rank's own has left before anything is
//! kept, so it is right in place.
//!
//! The blocks of a round that go to the same peer are each a message of their own, on a lane of their own: a block may
//! wait for its next jump while others overtake it.
//!
//! Cost: every rank talks to ceil(log2 n) others only, and a block takes at most as many messages in a row; in all a
//! rank sends about log(n) n/2 messages of a block, where `pairwise` sends n-1. So it is for machines on which
//! connections are dear. The algorithm's fame for small blocks comes from sending each round's n/2 blocks as one message,
//! which a step, being about one chunk, does not: here `one_shot` is better for those. Through shared memory there would
//! be nothing to gain, because a message there is no more than a counter that its reader looks at.

use std::cmp::Reverse;

use super::{Algorithm, Cost, turned, unserved};
use crate::plan::{Chunk, Lane, Plan, RankView};
use crate::types::Collective;

/// The row of the table.
pub static BRUCK: Algorithm = Algorithm {
    name: "bruck",
    about: "an all-to-all over log(n) peers, each block by the bits of its distance",
    cost_formula: "(n/2)log(n) messages, log(n) peers and rounds",
    serves: &[Collective::AlltoAll],
    rank_order: false,
    guard: |v| (v.nranks > Lane::MAX as u32).then_some("it needs a lane for each rank but one"),
    alike: turned,
    cost,
    plan,
};

fn plan(v: &RankView, out: &mut Plan) {
    if v.collective != Collective::AlltoAll {
        unserved(v);
    }
    let n = v.nranks;
    // The block whose way is `distance` and that has come `come` of it when it is here.
    let block = |distance: u32, come: u32| {
        let source = v.prev(come);
        Chunk::block(source * n + v.of(source).next(distance))
    };
    // The rank that sent it: its last jump was the highest bit of its way so far.
    let from = |come: u32| v.prev(1 << come.ilog2());
    let lane = |distance: u32| (distance - 1) as Lane;

    out.copy(block(0, 0));
    for round in 0..n.next_power_of_two().ilog2() {
        let jump = 1 << round;
        for distance in travelling(n, round) {
            let come = distance % jump;
            let (chunk, to) = (block(distance, come), v.next(jump));
            let step = if come == 0 { out.send(to, chunk) } else { out.relay(from(come), chunk, to) };
            step.on(lane(distance));
        }
    }
    for distance in 1..n {
        out.recv_copy(from(distance), block(distance, distance)).on(lane(distance));
    }
}

/// Returns the distances of the blocks that jump in a round, in the order in which the receiver takes them: those that it
/// passes on soonest first, those that are for it last.
fn travelling(n: u32, round: u32) -> Vec<u32> {
    let mut distances: Vec<u32> = (1..n).filter(|distance| distance >> round & 1 == 1).collect();
    distances.sort_by_key(|distance| Reverse((distance >> round >> 1).reverse_bits()));
    distances
}

fn cost(v: &RankView) -> Cost {
    let jumps = || (1..v.nranks).map(u32::count_ones);
    let sends = jumps().sum();
    Cost { parts: 1, sends, chunks_sent: sends, combines: 0, depth: jumps().max().unwrap_or(0) }
}
