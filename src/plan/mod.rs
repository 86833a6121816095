//! The vocabulary between deciding, moving and pricing: a rank's program, as data.
//!
//! A plan never holds bytes or addresses. It speaks of **chunks**; a chunk is one part of one block of the
//! collective's vector, so one cached plan serves every count:
//!
//! ```text
//!     count elements a block, `parts` parts a block           block 0             block 1
//!     part p of a block = [p*c, (p+1)*c), c = ceil(count/parts)   | p0 | p1 | p2 |    | p0 | p1 | p2 |
//! ```
//!
//! The blocks of each collective, and where chunk (b, p) lies in a rank's buffers:
//!
//! | collective | blocks | input | output |
//! |---|---|---|---|
//! | AllReduce, Reduce, Broadcast | 1 | block 0 | block 0 |
//! | ReduceScatter | n: block b is for rank b | block b | block 0, at rank b only |
//! | AllGather, Gather | n: block b comes from rank b | block 0, at rank b only | block b |
//! | Scatter | n: block b is for rank b | block b, at the root only | block 0, at rank b only |
//! | AlltoAll | n*n: block s*n+d goes from s to d | block d, at rank s only | block s, at rank d only |
//!
//! A step is one motion: take operands (the rank's own input, what arrives from peers), fold them in the order
//! listed, keep the result in the output or not, pass it on to a set of ranks or not. All of `send`, `recv_copy`,
//! `recv_reduce` and the fused forms are such steps; the methods of [`Plan`] spell them.
//!
//! A send to a set is one copy with many readers. The k-th step of rank p that sends to r is received by the
//! k-th operand `From(p)` of rank r's program: matching is by order, and [`link`] makes it explicit.

pub mod check;
pub mod cycles;
pub mod hosts;
pub mod link;
pub mod render;
mod ring_orders;

pub use hosts::HostGroups;
pub use ring_orders::{LinkCycle, RingOrders};

use crate::types::{Collective, Rank};
use std::sync::Arc;

/// The channel of one NIC. On shared memory it is only a label; on a fabric each lane has its own links.
pub type Lane = u16;

/// A part of a block of the collective's vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chunk {
    /// The block (see the table in the module's head).
    pub block: u32,
    /// The part of the block, `0..parts`.
    pub part: u32,
}

/// The source of an operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The rank's own input for the step's chunk.
    Own,
    /// The value that arrives from a peer.
    From(Rank),
}

/// Fold the operands left to right, keep the result, pass it on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The piece of the vector that this step is about.
    pub chunk: Chunk,
    /// The channel that the arrivals and the sends use.
    pub lane: Lane,
    /// Left-to-right order of the fold; never empty.
    pub operands: Vec<Operand>,
    /// Store the result in the rank's output.
    pub keep: bool,
    /// The ranks that get the result: one copy with many readers. Empty: none.
    pub to: Vec<Rank>,
    /// Where a switch between the ranks copies and sums, it does: for all readers at it the result leaves this rank once, and
    /// what comes from ranks at it arrives as one sum. On shared memory it is only a label.
    pub in_switch: bool,
}

/// A rank's view of a collective: the whole input of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RankView {
    /// The collective to plan.
    pub collective: Collective,
    /// The rank whose program is written.
    pub rank: Rank,
    /// Ranks in the communicator.
    pub nranks: u32,
    /// The root, 0 for collectives without one.
    pub root: Rank,
    /// The arrangement of the ranks.
    pub shape: Shape,
    /// The rings over the links of a declared machine, if its devices are joined by direct links.
    pub orders: Option<Arc<RingOrders>>,
    /// Which ranks have a switch between them that copies and sums.
    pub in_switch: InSwitch,
    /// The hosts of the ranks, if they are several.
    pub hosts: Option<Arc<HostGroups>>,
}

/// How ranks stand on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrangement {
    /// See [`RankView::shape`].
    pub shape: Shape,
    /// See [`RankView::orders`].
    pub orders: Option<Arc<RingOrders>>,
    /// See [`RankView::in_switch`].
    pub in_switch: InSwitch,
    /// See [`RankView::hosts`].
    pub hosts: Option<Arc<HostGroups>>,
}

/// Which ranks have a switch between them that copies and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InSwitch {
    /// None that is known of.
    #[default]
    None,
    /// Those of each node.
    Nodes,
    /// All.
    All,
}

/// The arrangement of ranks: extents of a grid, the fastest first, with `x + X * (y + Y * z)` the rank at (x, y, z).
///
/// Nodes of g ranks are `[g, nodes, 1]`, a torus is its axes, and ranks of which nothing is known are `[n, 1, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape(pub [u32; 3]);

impl Arrangement {
    /// Returns the arrangement of ranks of which nothing is known.
    pub const fn flat(nranks: u32) -> Arrangement {
        Arrangement { shape: Shape::flat(nranks), orders: None, in_switch: InSwitch::None, hosts: None }
    }
    /// Returns the arrangement of ranks of several hosts.
    pub fn of_hosts(hosts: Arc<HostGroups>) -> Arrangement {
        Arrangement { shape: hosts.shape(), hosts: Some(hosts), ..Arrangement::flat(0) }
    }
}

impl Shape {
    /// Makes the shape of ranks without an arrangement.
    pub const fn flat(nranks: u32) -> Shape {
        Shape([nranks, 1, 1])
    }
    /// Ranks in the grid.
    pub const fn nranks(self) -> u32 {
        self.0[0] * self.0[1] * self.0[2]
    }
    /// Ranks a node, where the grid is nodes.
    pub const fn per_node(self) -> u32 {
        self.0[0]
    }
    /// Nodes, where the grid is nodes.
    pub const fn nodes(self) -> u32 {
        self.0[1] * self.0[2]
    }
    /// Returns the coordinates of a rank.
    pub const fn coordinates(self, rank: Rank) -> [u32; 3] {
        let [x, y, _] = self.0;
        [rank % x, rank / x % y, rank / x / y]
    }
    /// Returns the rank at these coordinates.
    pub const fn rank(self, at: [u32; 3]) -> Rank {
        let [x, y, _] = self.0;
        at[0] + x * (at[1] + y * at[2])
    }
}

/// The program of one rank for one collective.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plan {
    /// Parts that each block is divided into; the same on all ranks.
    pub parts: u32,
    /// The program, in order.
    pub steps: Vec<Step>,
}

/// A peer or a set of peers.
pub trait Peers {
    /// Converts to a list.
    fn list(self) -> Vec<Rank>;
}
impl Peers for Rank {
    fn list(self) -> Vec<Rank> {
        vec![self]
    }
}
impl Peers for Vec<Rank> {
    fn list(self) -> Vec<Rank> {
        self
    }
}
impl Peers for &[Rank] {
    fn list(self) -> Vec<Rank> {
        self.to_vec()
    }
}

impl RankView {
    /// Makes the view of a rank among ranks without an arrangement.
    pub const fn flat(collective: Collective, rank: Rank, nranks: u32, root: Rank) -> RankView {
        RankView {
            collective,
            rank,
            nranks,
            root,
            shape: Shape::flat(nranks),
            orders: None,
            in_switch: InSwitch::None,
            hosts: None,
        }
    }
    /// Returns the view of ranks that stand so.
    pub fn arranged(self, Arrangement { shape, orders, in_switch, hosts }: Arrangement) -> RankView {
        RankView { shape, orders, in_switch, hosts, ..self }
    }
    /// Returns the view of another rank.
    pub fn of(&self, rank: Rank) -> RankView {
        RankView { rank, ..self.clone() }
    }
    /// Returns all other ranks, beginning with the next one: if all ranks send in this order, they begin with different
    /// destinations.
    pub fn others(&self) -> Vec<Rank> {
        (1..self.nranks).map(|distance| self.next(distance)).collect()
    }
    /// Returns the rank `distance` after this one, round the ring.
    pub fn next(&self, distance: u32) -> Rank {
        (self.rank + distance % self.nranks) % self.nranks
    }
    /// Returns the rank `distance` before this one, round the ring.
    pub fn prev(&self, distance: u32) -> Rank {
        (self.rank + self.nranks - distance % self.nranks) % self.nranks
    }
    /// Blocks in the collective's vector (see the module's table).
    pub fn blocks(&self) -> u32 {
        match self.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => 1,
            Collective::ReduceScatter | Collective::AllGather | Collective::Gather | Collective::Scatter => {
                self.nranks
            }
            Collective::AlltoAll => self.nranks * self.nranks,
            Collective::Barrier => 0,
        }
    }
    /// Returns the input block that holds vector block `block` at this rank, if it has it.
    pub fn input_block(&self, block: u32) -> Option<u32> {
        let n = self.nranks;
        match self.collective {
            Collective::AllReduce | Collective::Reduce => Some(0),
            Collective::Broadcast => (self.rank == self.root).then_some(0),
            Collective::ReduceScatter => Some(block),
            Collective::AllGather | Collective::Gather => (block == self.rank).then_some(0),
            Collective::Scatter => (self.rank == self.root).then_some(block),
            Collective::AlltoAll => (block / n == self.rank).then_some(block % n),
            Collective::Barrier => None,
        }
    }
    /// Returns the output block where vector block `block` belongs at this rank, if it gets it.
    pub fn output_block(&self, block: u32) -> Option<u32> {
        let n = self.nranks;
        match self.collective {
            Collective::AllReduce | Collective::Broadcast => Some(0),
            Collective::Reduce => (self.rank == self.root).then_some(0),
            Collective::ReduceScatter | Collective::Scatter => (block == self.rank).then_some(0),
            Collective::AllGather => Some(block),
            Collective::Gather => (self.rank == self.root).then_some(block),
            Collective::AlltoAll => (block % n == self.rank).then_some(block / n),
            Collective::Barrier => None,
        }
    }
}

impl Chunk {
    /// Part `part` of block 0: all there is to say for AllReduce, Reduce and Broadcast.
    pub const fn part(part: u32) -> Chunk {
        Chunk { block: 0, part }
    }
    /// Returns the whole of a block that is not divided.
    pub const fn block(block: u32) -> Chunk {
        Chunk { block, part: 0 }
    }
}

impl std::fmt::Display for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} part {}", self.block, self.part)
    }
}

impl Plan {
    /// Makes an empty program over blocks of `parts` parts.
    pub fn new(parts: u32) -> Plan {
        Plan { parts, steps: Vec::new() }
    }
    /// Hands the rank's own input chunk to a peer or a set.
    pub fn send(&mut self, to: impl Peers, chunk: Chunk) -> &mut Step {
        self.step(chunk, vec![Operand::Own], false, to.list())
    }
    /// Own input to own output.
    pub fn copy(&mut self, chunk: Chunk) -> &mut Step {
        self.step(chunk, vec![Operand::Own], true, Vec::new())
    }
    /// Own input to own output and to a set: touches the input once.
    pub fn copy_send(&mut self, chunk: Chunk, to: impl Peers) -> &mut Step {
        self.step(chunk, vec![Operand::Own], true, to.list())
    }
    /// Takes what arrives into the output.
    pub fn recv_copy(&mut self, from: Rank, chunk: Chunk) -> &mut Step {
        self.step(chunk, vec![Operand::From(from)], true, Vec::new())
    }
    /// Takes what arrives into the output and passes it on.
    pub fn recv_copy_send(&mut self, from: Rank, chunk: Chunk, to: impl Peers) -> &mut Step {
        self.step(chunk, vec![Operand::From(from)], true, to.list())
    }
    /// Passes on what arrives without keeping it.
    pub fn relay(&mut self, from: Rank, chunk: Chunk, to: impl Peers) -> &mut Step {
        self.step(chunk, vec![Operand::From(from)], false, to.list())
    }
    /// Folds arrivals and own input, in the given order, into the output.
    pub fn recv_reduce(&mut self, operands: Vec<Operand>, chunk: Chunk) -> &mut Step {
        self.step(chunk, operands, true, Vec::new())
    }
    /// Folds arrivals and own input and passes the result on; `keep` stores it in the output as well.
    pub fn recv_reduce_send(
        &mut self,
        operands: Vec<Operand>,
        chunk: Chunk,
        keep: bool,
        to: impl Peers,
    ) -> &mut Step {
        self.step(chunk, operands, keep, to.list())
    }

    fn step(&mut self, chunk: Chunk, operands: Vec<Operand>, keep: bool, to: Vec<Rank>) -> &mut Step {
        self.steps.push(Step { chunk, lane: 0, operands, keep, to, in_switch: false });
        self.steps.last_mut().expect("just pushed")
    }
}

impl Step {
    /// Puts this step on a lane.
    pub fn on(&mut self, lane: Lane) -> &mut Step {
        self.lane = lane;
        self
    }
    /// Lets a switch copy and sum for this step.
    pub fn in_switch(&mut self) -> &mut Step {
        self.in_switch = true;
        self
    }
}
