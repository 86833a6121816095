//! Torus: rings along one axis after the other, in another order for each share of the data.
//!
//! ```text
//!     3 x 2, a chunk of rank 2, first along x and then along y; its way back is the same tree the other way
//!        0 ----> 1 ----> 2      folds (1), (5) and its own
//!                        ^
//!        3 ----> 4 ----> 5      folds (4) and its own
//! ```
//!
//! Each chunk has an owner. Up: it travels along the first axis to the owner's coordinate, gaining a contribution at
//! each hop; what gets there travels along the second, then the third. A rank folds all that comes in for a chunk in
//! one step, so nothing is stored between the axes. Down: a complete chunk goes along the last axis first, and each
//! rank hands it on along the axes before as well, one message with several readers.
//!
//! A **way** is an order of the axes and a direction. The data is shared among all rotations of the axes, so that each
//! axis comes first somewhere and all links are busy, and both directions, unless no axis is longer than two.
//!
//! Cost: 2(X-1 + Y-1 + Z-1) hops; the bytes of `ring`, over all links at once. A chunk is the n-th part of a way's
//! share: for small messages `tree` sends fewer. On one axis it is `ring_pair`.

use super::rounds::Rounds;
use super::{Algorithm, Alike, Cost, any, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Lane, Operand, Plan, RankView, Shape};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static TORUS: Algorithm = Algorithm {
    name: "torus",
    about: "rings along one axis after the other, the axes rotated for each share of the data",
    cost_formula: "2(X+Y+Z-3)a + 2(n-1)/n S/dB, d directions",
    serves: &[Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter],
    rank_order: false,
    guard: any,
    alike: |v| Alike::Shifted(v.shape),
    cost: |v| cost(v, v.shape, &ways(v.shape)),
    plan: |v, out| plan(v, v.shape, &ways(v.shape), out),
};

/// The way of one share of the data: how its chunks travel to their owners.
pub(super) struct Way {
    /// The axes in the order in which chunks are reduced along them.
    pub(super) axes: [usize; 3],
    /// Whether chunks travel towards lower coordinates.
    pub(super) backwards: bool,
}

impl Way {
    /// Returns the owner from which `rank` is `distance` hops away along each axis of the way.
    fn owner(&self, shape: Shape, rank: Rank, distance: [u32; 3]) -> [u32; 3] {
        let mut at = shape.coordinates(rank);
        for (axis, hops) in self.axes.into_iter().zip(distance) {
            let extent = shape.0[axis];
            at[axis] = (at[axis] + if self.backwards { hops } else { extent - hops }) % extent;
        }
        at
    }
}

/// Returns a way for every rotation of the axes, in both directions if these differ.
fn ways(shape: Shape) -> Vec<Way> {
    let (long, short): (Vec<usize>, Vec<usize>) = (0..3).partition(|&axis| shape.0[axis] > 1);
    let directions: &[bool] = if shape.0.iter().any(|&x| x > 2) { &[false, true] } else { &[false] };
    let mut ways = Vec::new();
    for turn in 0..long.len() {
        let mut rotated = long[turn..].iter().chain(&long[..turn]).chain(&short).copied();
        let axes = std::array::from_fn(|_| rotated.next().expect("three axes"));
        ways.extend(directions.iter().map(|&backwards| Way { axes, backwards }));
    }
    ways
}

/// Writes the program for one or several ways through a grid, each with its share of every block.
///
/// Chunks whose owners differ on the first axis only follow each other round its rings, one each round. Those of other
/// owners are not ahead or behind but beside them, and have a lane of their own. Within a round chunks stand in the order of how
/// far they have come along each axis: a hop adds one for all chunks that make it together, so sender and receiver agree on
/// the order, and it is the same as seen from every rank.
pub(super) fn plan(v: &RankView, shape: Shape, ways: &[Way], out: &mut Plan) {
    let n = v.nranks;
    let top = hops(shape);
    let mut rounds = Rounds::default();
    for (share, way) in (0..).zip(ways) {
        let extent = way.axes.map(|axis| shape.0[axis]);
        let lane = |owner: [u32; 3]| {
            let beside = owner[way.axes[1]] + extent[1] * owner[way.axes[2]];
            (beside as usize * ways.len() + share as usize) as Lane
        };
        let chunk = |owner: [u32; 3]| match v.collective {
            Collective::AllReduce => Chunk::part(share * n + shape.rank(owner)),
            _ => Chunk { block: shape.rank(owner), part: share },
        };
        let all = || (0..n).map(|i| [i % extent[0], i / extent[0] % extent[1], i / extent[0] / extent[1]]);
        if v.collective != Collective::AllGather {
            for passed in all() {
                let owner = way.owner(shape, v.rank, std::array::from_fn(|j| (passed[j] + 1) % extent[j]));
                let (place, chunk, lane) = (Place::new(shape, way, v.rank, owner), chunk(owner), lane(owner));
                if place.stage < 3 {
                    place.up(chunk, lane, &mut rounds);
                } else if v.collective == Collective::AllReduce {
                    rounds.at(top).recv_reduce_send(place.fold(), chunk, true, place.readers()).on(lane);
                } else {
                    rounds.at(top).recv_reduce(place.fold(), chunk).on(lane);
                }
            }
        }
        if v.collective != Collective::ReduceScatter {
            let start = if v.collective == Collective::AllReduce { top } else { 0 };
            for distance in all() {
                let owner = way.owner(shape, v.rank, distance);
                let (place, chunk, lane) = (Place::new(shape, way, v.rank, owner), chunk(owner), lane(owner));
                if place.stage < 3 {
                    place.down(start, chunk, lane, &mut rounds);
                } else if v.collective == Collective::AllGather {
                    rounds.at(0).copy_send(chunk, place.readers()).on(lane);
                }
            }
        }
    }
    out.parts = ways.len() as u32 * if v.collective == Collective::AllReduce { n } else { 1 };
    rounds.write(out);
}

/// What [`plan`] costs. All places of a torus are alike, so each rank sends as many messages as reach it: one for each
/// chunk of another owner, up and down.
pub(super) fn cost(v: &RankView, shape: Shape, ways: &[Way]) -> Cost {
    let (n, shares) = (v.nranks, ways.len() as u32);
    let each = shares * (n - 1);
    // Down, a rank has no readers for the chunks that it is the last to get on the first axis that is one.
    let first = |way: &Way| way.axes.into_iter().map(|axis| shape.0[axis]).find(|&x| x > 1).unwrap_or(1);
    let down: u32 = ways.iter().map(|way| n - n / first(way)).sum();
    let (parts, sends, chunks_sent, combines, trips) = match v.collective {
        Collective::AllReduce => (shares * n, each + down, 2 * each, each, 2),
        Collective::ReduceScatter => (shares, each, each, each, 1),
        Collective::AllGather => (shares, down, each, 0, 1),
        _ => unserved(v),
    };
    Cost { parts, sends, chunks_sent, combines, depth: trips * hops(shape) }
}

/// Returns the number of hops to or from an owner on the longest way.
fn hops(shape: Shape) -> u32 {
    shape.0.iter().map(|x| x - 1).sum()
}

/// Where a rank stands in the tree of one chunk. Axes are in the order of the way.
struct Place {
    /// Ranks along each axis.
    extent: [u32; 3],
    /// Hops from the owner to here along each axis.
    distance: [u32; 3],
    /// The neighbours that messages come from and go to.
    behind: [Rank; 3],
    ahead: [Rank; 3],
    /// The axis of this rank's hop to the owner: the first on which they differ. 3: it is the owner.
    stage: usize,
}

impl Place {
    fn new(shape: Shape, way: &Way, rank: Rank, owner: [u32; 3]) -> Place {
        let here = shape.coordinates(rank);
        // The rank that is `hops` hops ahead along an axis.
        let step = |axis: usize, hops: u32| {
            let mut at = here;
            at[axis] = (at[axis] + hops) % shape.0[axis];
            shape.rank(at)
        };
        let (up, down) = (way.axes.map(|axis| step(axis, 1)), way.axes.map(|a| step(a, shape.0[a] - 1)));
        let (behind, ahead) = if way.backwards { (up, down) } else { (down, up) };
        let distance = way.axes.map(|axis| {
            let (from, to) = if way.backwards { (here, owner) } else { (owner, here) };
            (to[axis] + shape.0[axis] - from[axis]) % shape.0[axis]
        });
        let stage = distance.iter().position(|&d| d > 0).unwrap_or(3);
        Place { extent: way.axes.map(|axis| shape.0[axis]), distance, behind, ahead, stage }
    }

    /// Returns the operands of a fold: the arrivals on the axes that are done, the arrival along the present axis, the own input.
    fn fold(&self) -> Vec<Operand> {
        let done = |j: usize| j < self.stage && self.extent[j] > 1;
        let under_way = |j: usize| j == self.stage && self.distance[j] > 1;
        (0..3).filter(|&j| done(j) || under_way(j)).map(|j| From(self.behind[j])).chain([Own]).collect()
    }

    /// Returns the ranks that get the complete chunk from this one.
    fn readers(&self) -> Vec<Rank> {
        let reads = |&j: &usize| j <= self.stage && self.distance[j] + 1 < self.extent[j];
        (0..3).filter(reads).map(|j| self.ahead[j]).collect()
    }

    /// Adds to a chunk on its way to the owner, no sooner than it is wanted there.
    fn up(&self, chunk: Chunk, lane: Lane, rounds: &mut Rounds) {
        let passed = |j| if self.distance[j] == 0 { self.extent[j] - 1 } else { self.distance[j] - 1 };
        let round = (0..3).map(passed).sum();
        rounds.at(round).recv_reduce_send(self.fold(), chunk, false, self.ahead[self.stage]).on(lane);
    }

    /// Takes a complete chunk, which left its owner in round `start`.
    fn down(&self, start: u32, chunk: Chunk, lane: Lane, rounds: &mut Rounds) {
        let round = start + self.distance.iter().sum::<u32>();
        rounds.at(round).recv_copy_send(self.behind[self.stage], chunk, self.readers()).on(lane);
    }
}
