//! Quad ring: a quarter of the data on each of four rings, two orders in both directions.
//!
//! ```text
//!     n = 5    0-1-2-3-4-0 and 0-2-4-1-3-0           n = 6    0-1-2-3-4-5-0 and 0-2-4-1-5-3-0
//!
//!     4 x 3    0--1--2--3            0  1--2  3      a grid: rows back and forth, columns back and forth,
//!                       |            |  |  |  |      and each from its end to its beginning
//!              7--6--5--4            4  5  6  7
//!              |                     |  |  |  |
//!              8--9-10-11            8--9 10-11
//! ```
//!
//! From five ranks on, the two orders of a flat set share no link, so four links a rank are busy in both directions;
//! with fewer ranks there is no second cycle without links of the first, and both orders are the same. The orders of a
//! grid share some of the links at its rim.
//!
//! Cost: the bytes of `ring` in four times as many messages; a quarter of the time where every rank has its own link to
//! at least four others. Between nodes with a NIC a rank it is the wrong algorithm, and no second order makes it the right
//! one: that of a grid changes the node at nearly every hop; the mirrored one (`orders::mirrored`) enters and leaves a
//! node by the same two NICs as the plain one, so four rings of a quarter load them as two rings of a half do, and take as
//! long as `ring_pair`; and two orders by four different NICs are four of the `alternating_rings`, which use all NICs.
//! On 4 nodes of 8 (dgx-h100), an all-reduce of 64 MiB: plain and mirrored 1347 us, `ring_pair` 1347 us, four alternating
//! rings 676 us, `alternating_rings` 341 us, and this one 2084 us.
//!
//! On a declared machine of direct links, the two orders are cycles of its graph without a common link, or one such cycle twice.

use super::ring::{ascending, cost, plan};
use super::{Algorithm, Alike, any};
use crate::plan::{RankView, Shape};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static QUAD_RING: Algorithm = Algorithm {
    name: "quad_ring",
    about: "two ring orders in both directions, a quarter of the data each",
    cost_formula: "2(n-1)(a + S/4nB)",
    serves: &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather],
    rank_order: false,
    guard: any,
    alike: |_| Alike::StepByStep,
    cost: |v| cost(v, &orders(v)),
    plan: |v, out| plan(v, &orders(v), out),
};

/// Returns the four orders, a lane each: two, and the same the other way.
pub(super) fn orders(v: &RankView) -> [Vec<Rank>; 4] {
    if let Some(orders) = &v.orders {
        return orders.four();
    }
    let axes = v.shape.0.iter().filter(|&&extent| extent > 1).count();
    let [first, second] = match axes {
        0 | 1 => [ascending(v.nranks), every_other(v.nranks)],
        _ => [snake(v.shape, [0, 1, 2]), snake(v.shape, [2, 1, 0])],
    };
    let back = |order: &Vec<Rank>| order.iter().rev().copied().collect();
    let (first_back, second_back) = (back(&first), back(&second));
    [first, first_back, second, second_back]
}

/// Returns the cycle 0, 2, 4, ... through the even ranks and then through the odd ones: never to a rank's neighbour.
fn every_other(n: u32) -> Vec<Rank> {
    let (even, odd) = ((0..n).step_by(2), (1..n).step_by(2));
    match n {
        0..5 => ascending(n),
        // The last even rank is n-1, two before rank 1; the last odd one is two before rank 0.
        _ if n % 2 == 1 => even.chain(odd).collect(),
        // The last even rank is n-2, three before rank 1; back down from there the last odd one is 3.
        _ => even.chain([1]).chain(odd.skip(1).rev()).collect(),
    }
}

/// Returns the ranks of a grid back and forth, each next to the one before it, the first of the axes fastest.
fn snake(shape: Shape, axes: [usize; 3]) -> Vec<Rank> {
    let place = |mut index: u32| {
        let mut at = [0; 3];
        for axis in axes {
            let extent = shape.0[axis];
            let along = index % extent;
            index /= extent;
            at[axis] = if index.is_multiple_of(2) { along } else { extent - 1 - along };
        }
        shape.rank(at)
    };
    (0..shape.nranks()).map(place).collect()
}
