//! Ring: reduce-scatter, then all-gather, around one directed cycle.
//!
//! ```text
//!     n = 3, chunks a b c; rank r first sends chunk r
//!       round 0   0 --a--> 1     1 --b--> 2     2 --c--> 0     own inputs
//!       round 1   0 --c--> 1     1 --a--> 2     2 --b--> 0     arrival + own: two contributions
//!       round 2   0 --b--> 1     1 --c--> 2     2 --a--> 0     all three: rank r keeps chunk r+1 and passes it on
//!       round 3   0 --a--> 1     1 --b--> 2     2 --c--> 0     complete chunks go round
//!       round 4   each takes its last one
//! ```
//!
//! Partial sums are never stored: an arrival is combined with the own input on its way out. A broadcast is n chunks
//! down the chain that starts at the root, a reduction n chunks down the chain that ends there; the chunks follow each
//! other closely.
//!
//! On a declared machine whose devices are joined by direct links, the cycle goes from neighbour to neighbour where there is such a
//! cycle, and over every parallel link, a lane each ([`RingOrders`](crate::plan::RingOrders)).
//!
//! Cost: 2(n-1) sends a rank, 2(n-1)/n of the buffer on the wire: the least an all-reduce can do.
//! Latency grows with n, so small messages are better served by `one_shot`.

use super::rounds::Rounds;
use super::{Algorithm, Alike, Cost, any, turned, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Lane, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static RING: Algorithm = Algorithm {
    name: "ring",
    about: "reduce-scatter, then all-gather, around one directed cycle",
    cost_formula: "2(n-1)(a + S/nB)",
    serves: SERVES,
    rank_order: false,
    guard: any,
    alike: cycled,
    cost: |v| cost(v, &forward(v)),
    plan: |v, out| plan(v, &forward(v), out),
};

/// The collectives that any set of cycles can do.
pub(super) const SERVES: &[Collective] = &[
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
    Collective::Broadcast,
    Collective::Reduce,
];

/// Returns the programs of cycles: without a root all are one program, turned, where ranks follow each other by their numbers.
pub(super) fn cycled(v: &RankView) -> Alike {
    match &v.orders {
        Some(_) if !v.collective.rooted() => Alike::StepByStep,
        Some(_) => Alike::No,
        None => turned(v),
    }
}

/// Returns the cycle by which ranks follow each other, a lane for each of its links.
pub(super) fn forward(v: &RankView) -> Vec<Vec<Rank>> {
    v.orders.as_ref().map_or_else(|| vec![ascending(v.nranks)], |orders| orders.forward())
}

/// Returns the same cycle in the opposite direction.
pub(super) fn backward(v: &RankView) -> Vec<Vec<Rank>> {
    v.orders.as_ref().map_or_else(|| vec![descending(v.nranks)], |orders| orders.backward())
}

/// Returns both.
pub(super) fn both_ways(v: &RankView) -> Vec<Vec<Rank>> {
    [forward(v), backward(v)].concat()
}

/// Returns the cycle 0, 1, 2, ...
pub(super) fn ascending(nranks: u32) -> Vec<Rank> {
    (0..nranks).collect()
}

/// Returns the cycle ..., 2, 1, 0.
fn descending(nranks: u32) -> Vec<Rank> {
    (0..nranks).rev().collect()
}

/// Writes the program for one or several cycles, each a lane with its share of every block. Each order names every
/// rank once.
pub(super) fn plan(v: &RankView, orders: &[Vec<Rank>], out: &mut Plan) {
    let (n, lanes) = (v.nranks, orders.len() as u32);
    let mut rounds = Rounds::default();
    for (lane, order) in (0..lanes).zip(orders) {
        let cycle = Cycle::new(v, Order::Listed(order), lane as Lane);
        let share = lane * n..(lane + 1) * n;
        let of_buffer = |rank| Chunk::part(share.start + rank);
        let of_block = |rank| Chunk { block: rank, part: lane };
        match v.collective {
            Collective::AllReduce => {
                cycle.reduce_scatter(0, of_buffer, vec![cycle.next()], &mut rounds);
                cycle.all_gather(n, of_buffer, &mut rounds);
            }
            // One position further back than in the all-reduce, so that rank r completes block r.
            Collective::ReduceScatter => cycle.reduce_scatter(1, of_block, vec![], &mut rounds),
            Collective::AllGather => {
                rounds.at(0).copy_send(of_block(v.rank), cycle.next()).on(cycle.lane);
                cycle.all_gather(1, of_block, &mut rounds);
            }
            Collective::Broadcast => cycle.broadcast(v.root, share, &mut rounds),
            Collective::Reduce => cycle.reduce(v.root, share, &mut rounds),
            _ => unserved(v),
        }
    }
    out.parts = match v.collective {
        Collective::ReduceScatter | Collective::AllGather => lanes,
        _ => lanes * n,
    };
    rounds.write(out);
}

/// Returns the cost of [`plan`].
pub(super) fn cost(v: &RankView, orders: &[Vec<Rank>]) -> Cost {
    let (n, lanes) = (v.nranks, orders.len() as u32);
    let hops = n - 1;
    // In a chain all but one rank send: the last one, which for a reduction is the root.
    let chains = || orders.iter().map(|order| Cycle::new(v, Order::Listed(order), 0));
    let (parts, sends, combines, depth) = match v.collective {
        Collective::AllReduce => (lanes * n, lanes * 2 * hops, lanes * hops, 2 * hops),
        Collective::ReduceScatter => (lanes, lanes * hops, lanes * hops, hops),
        Collective::AllGather => (lanes, lanes * hops, 0, hops),
        Collective::Broadcast => {
            let passing_on = chains().filter(|c| c.after(v.root) < hops).count() as u32;
            (lanes * n, passing_on * n, 0, hops)
        }
        Collective::Reduce => {
            let sending = if v.rank == v.root { 0 } else { lanes };
            let combining = chains().filter(|c| c.after(v.root) != 1).count() as u32;
            (lanes * n, sending * n, combining * n, hops)
        }
        _ => unserved(v),
    };
    Cost { parts, sends, chunks_sent: sends, combines, depth }
}

/// The ranks in the order in which a cycle visits them.
#[derive(Clone, Copy)]
pub(super) enum Order<'a> {
    /// 0, 1, 2, ... of this many. A list would be written for each rank of a plan, which takes most of the time among 100,000 ranks.
    Ascending(u32),
    Listed(&'a [Rank]),
}

impl Order<'_> {
    fn len(self) -> u32 {
        match self {
            Order::Ascending(nranks) => nranks,
            Order::Listed(order) => order.len() as u32,
        }
    }
    fn at(self, position: u32) -> Rank {
        match self {
            Order::Ascending(_) => position,
            Order::Listed(order) => order[position as usize],
        }
    }
    fn position(self, rank: Rank) -> u32 {
        match self {
            Order::Ascending(_) => rank,
            Order::Listed(order) => {
                order.iter().position(|&r| r == rank).expect("a cycle visits every rank") as u32
            }
        }
    }
}

/// One rank's place in one directed cycle through all ranks.
pub(super) struct Cycle<'a> {
    order: Order<'a>,
    /// This rank's index in `order`.
    position: u32,
    /// The lane of all of the cycle's messages.
    lane: Lane,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(v: &RankView, order: Order<'a>, lane: Lane) -> Cycle<'a> {
        Cycle { order, position: order.position(v.rank), lane }
    }

    fn n(&self) -> u32 {
        self.order.len()
    }
    /// Returns the rank that is `distance` positions behind this one, where messages come from.
    fn behind(&self, distance: u32) -> Rank {
        self.order.at((self.position + 2 * self.n() - distance) % self.n())
    }
    fn next(&self) -> Rank {
        self.order.at((self.position + 1) % self.n())
    }
    /// Returns this rank's position in the cycle.
    pub(super) fn at(&self) -> u32 {
        self.position
    }
    /// Returns the number of hops from `root` to this rank.
    pub(super) fn after(&self, root: Rank) -> u32 {
        (self.position + self.n() - self.order.position(root)) % self.n()
    }
    fn fold(&self) -> Vec<Operand> {
        vec![From(self.behind(1)), Own]
    }

    /// Writes rounds `0..n`, in which a chunk gains one contribution at each hop. The first chunk that this rank sends is that of
    /// the rank `first` positions behind. The last one that arrives is then complete; it is kept and sent to `onward`.
    fn reduce_scatter(
        &self,
        first: u32,
        chunk: impl Fn(Rank) -> Chunk,
        onward: Vec<Rank>,
        rounds: &mut Rounds,
    ) {
        let last = self.n() - 1;
        rounds.at(0).send(self.next(), chunk(self.behind(first))).on(self.lane);
        for t in 1..last {
            let c = chunk(self.behind(first + t));
            rounds.at(t).recv_reduce_send(self.fold(), c, false, self.next()).on(self.lane);
        }
        let c = chunk(self.behind(first + last));
        rounds.at(last).recv_reduce_send(self.fold(), c, true, onward).on(self.lane);
    }

    /// Writes rounds `start..start + n - 1`, in which ranks pass complete chunks on, except the last one that arrives.
    fn all_gather(&self, start: u32, chunk: impl Fn(Rank) -> Chunk, rounds: &mut Rounds) {
        let last = start + self.n() - 2;
        for t in start..last {
            let c = chunk(self.behind(t));
            rounds.at(t).recv_copy_send(self.behind(1), c, self.next()).on(self.lane);
        }
        rounds.at(last).recv_copy(self.behind(1), chunk(self.behind(last))).on(self.lane);
    }

    /// Sends parts of block 0 down the chain that starts at the root.
    pub(super) fn broadcast(&self, root: Rank, parts: std::ops::Range<u32>, rounds: &mut Rounds) {
        let hop = self.after(root);
        for (i, part) in (0..).zip(parts) {
            let (c, at) = (Chunk::part(part), rounds.at(i + hop));
            let step = match hop {
                0 => at.copy_send(c, self.next()),
                h if h < self.n() - 1 => at.recv_copy_send(self.behind(1), c, self.next()),
                _ => at.recv_copy(self.behind(1), c),
            };
            step.on(self.lane);
        }
    }

    /// Sends a part down the chain from the cycle's first rank to its last, where it is complete, and round again as far as it is wanted.
    pub(super) fn down_and_round(&self, part: u32, rounds: &mut Rounds) {
        let (c, last, hop) = (Chunk::part(part), self.n() - 1, self.position);
        let down = rounds.at(hop);
        let step = match hop {
            0 => down.send(self.next(), c),
            h if h < last => down.recv_reduce_send(self.fold(), c, false, self.next()),
            _ => down.recv_reduce_send(self.fold(), c, true, self.next()),
        };
        step.on(self.lane);
        if hop < last {
            let round = rounds.at(self.n() + hop);
            // The last rank has it already, so the one before it need not pass it on.
            let step = match hop + 1 == last {
                true => round.recv_copy(self.behind(1), c),
                false => round.recv_copy_send(self.behind(1), c, self.next()),
            };
            step.on(self.lane);
        }
    }

    /// Sends parts of block 0 down the chain that ends at the root; each hop adds its own input.
    pub(super) fn reduce(&self, root: Rank, parts: std::ops::Range<u32>, rounds: &mut Rounds) {
        // The rank after the root starts; the root itself is the last hop.
        let hop = (self.after(root) + self.n() - 1) % self.n();
        for (i, part) in (0..).zip(parts) {
            let (c, at) = (Chunk::part(part), rounds.at(i + hop));
            let step = match hop {
                0 => at.send(self.next(), c),
                h if h < self.n() - 1 => at.recv_reduce_send(self.fold(), c, false, self.next()),
                _ => at.recv_reduce(self.fold(), c),
            };
            step.on(self.lane);
        }
    }
}
