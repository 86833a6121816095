//! Meet in the middle: every chunk goes half-way round in both directions at once.
//!
//! ```text
//!     n = 5, the chunk of rank 2           gather:   0 <-- 1 <-- 2 --> 3 --> 4             2 rounds
//!                                          scatter:  0 --> 1 --> 2 <-- 3 <-- 4             2 rounds
//!     n = 4, the chunk of rank 1                     0 <-- 1 --> 2 --> 3                   2 rounds
//! ```
//!
//! In the reduce-scatter partial sums come to a chunk's owner from both sides. It folds what comes from below, its own
//! and what comes from above, once; in an all-reduce it passes this result on, so all ranks have the same bits. For
//! even n the rank opposite to the owner is reached upwards only, so in one round of each half (the first of the
//! scatter, the last of the gather) the links carry nothing downwards.
//!
//! Cost: the bytes of `ring` in half as many rounds, of which each moves two chunks a rank. It is twice as fast where
//! the two directions do not share a link, for small messages as well as for large; with one link for both,
//! `ring_pair` and `ring` move as much at a time. Both directions are on one lane: one fold takes from both sides. Parallel links of a
//! declared machine have a lane each.

use super::renamed::{along_cycle, cost_along_cycle};
use super::ring::cycled;
use super::rounds::Rounds;
use super::{Algorithm, Cost, any, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static MEET_IN_MIDDLE: Algorithm = Algorithm {
    name: "meet_in_middle",
    about: "each chunk half-way round in both directions at once",
    cost_formula: "2 ceil((n-1)/2)(a + S/nB)",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: cycled,
    cost: |v| cost_along_cycle(v, cost),
    plan: |v, out| along_cycle(v, out, |v, out| plan(v, [|v| v.nranks / 2, |v| (v.nranks - 1) / 2], out)),
};

/// The collectives that two directions that meet at each chunk's owner can do.
pub(super) const SERVES: &[Collective] =
    &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

/// Returns the number of hops that a rank's data goes in one direction.
pub(super) type Reach = fn(&RankView) -> u32;

/// Writes the program for data that goes as far up (to rank + 1) and as far down as the two reaches say. Between them
/// they reach every other rank once.
pub(super) fn plan(v: &RankView, [up, down]: [Reach; 2], out: &mut Plan) {
    let ways = [Way { v, reach: up, up: true }, Way { v, reach: down, up: false }];
    let hops = (0..v.nranks).flat_map(|r| [up(&v.of(r)), down(&v.of(r))]).max().expect("two ranks or more");
    let mut rounds = Rounds::default();
    match v.collective {
        Collective::AllReduce => {
            out.parts = v.nranks;
            reduce_scatter(&ways, hops, Chunk::part, onward(&ways), &mut rounds);
            all_gather(&ways, hops, hops, Chunk::part, &mut rounds);
        }
        Collective::ReduceScatter => reduce_scatter(&ways, hops, Chunk::block, vec![], &mut rounds),
        Collective::AllGather => {
            rounds.at(0).copy_send(Chunk::block(v.rank), onward(&ways));
            all_gather(&ways, 0, hops, Chunk::block, &mut rounds);
        }
        _ => unserved(v),
    }
    rounds.write(out);
}

/// One direction, as this rank sees it.
struct Way<'a> {
    v: &'a RankView,
    reach: Reach,
    up: bool,
}

impl Way<'_> {
    fn ahead(&self, distance: u32) -> Rank {
        if self.up { self.v.next(distance) } else { self.v.prev(distance) }
    }
    fn behind(&self, distance: u32) -> Rank {
        if self.up { self.v.prev(distance) } else { self.v.next(distance) }
    }
    /// Tells whether this rank's data goes at least `hops` hops.
    fn goes(&self, hops: u32) -> bool {
        (self.reach)(self.v) >= hops
    }
    /// Tells whether the data of the rank `distance` positions behind goes at least `hops` hops.
    fn comes(&self, distance: u32, hops: u32) -> bool {
        (self.reach)(&self.v.of(self.behind(distance))) >= hops
    }
    /// Returns the operands of a fold: the arrivals and this rank's own input, with those of lower ranks on the left.
    fn fold(&self) -> Vec<Operand> {
        let arrival = From(self.behind(1));
        if self.up { vec![arrival, Own] } else { vec![Own, arrival] }
    }
}

/// Returns the neighbours that this rank's data goes to.
fn onward(ways: &[Way<'_>; 2]) -> Vec<Rank> {
    ways.iter().filter(|way| way.goes(1)).map(|way| way.ahead(1)).collect()
}

/// Rounds `0..=hops`: partial sums go to the chunk's owner; those with `distance` hops to go leave `distance` rounds
/// before the last, in which every owner folds both sides and sends the result `onward`.
fn reduce_scatter(
    ways: &[Way<'_>; 2],
    hops: u32,
    chunk: impl Fn(Rank) -> Chunk,
    onward: Vec<Rank>,
    rounds: &mut Rounds,
) {
    for distance in (1..=hops).rev() {
        for way in ways.iter().filter(|way| way.goes(distance)) {
            let fold = if way.comes(1, distance + 1) { way.fold() } else { vec![Own] };
            let c = chunk(way.ahead(distance));
            rounds.at(hops - distance).recv_reduce_send(fold, c, false, way.ahead(1));
        }
    }
    let [below, above] = ways.each_ref().map(|way| way.comes(1, 1).then(|| From(way.behind(1))));
    let fold = [below, Some(Own), above].into_iter().flatten().collect();
    rounds.at(hops).recv_reduce_send(fold, chunk(ways[0].v.rank), true, onward);
}

/// Rounds `start + 1..=start + hops`: take what the owners have sent, and pass it on unless this is as far as it goes.
fn all_gather(
    ways: &[Way<'_>; 2],
    start: u32,
    hops: u32,
    chunk: impl Fn(Rank) -> Chunk,
    rounds: &mut Rounds,
) {
    for distance in 1..=hops {
        for way in ways.iter().filter(|way| way.comes(distance, distance)) {
            let onward = if way.comes(distance, distance + 1) { vec![way.ahead(1)] } else { vec![] };
            let c = chunk(way.behind(distance));
            rounds.at(start + distance).recv_copy_send(way.behind(1), c, onward);
        }
    }
}

fn cost(v: &RankView) -> Cost {
    let (n, peers, hops) = (v.nranks, v.nranks - 1, v.nranks / 2);
    // In the gather one send serves both neighbours.
    let gather = 1.max(n - 2);
    let (parts, sends, chunks_sent, combines, depth) = match v.collective {
        Collective::AllReduce => (n, peers + gather, 2 * peers, peers, 2 * hops),
        Collective::ReduceScatter => (1, peers, peers, peers, hops),
        Collective::AllGather => (1, gather, peers, 0, hops),
        _ => unserved(v),
    };
    Cost { parts, sends, chunks_sent, combines, depth }
}
