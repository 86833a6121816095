//! Simple ring: the whole buffer down the chain 0..n-1, reducing, then round again as a broadcast.
//!
//! ```text
//!     n = 4     0 --x0--> 1 --x0+x1--> 2 --x0+x1+x2--> 3        rank 3 has it all
//!               3 --sum-> 0 ---sum---> 1 -----sum----> 2        the same links once more
//! ```
//!
//! On a declared machine of direct links the chain follows a cycle from neighbour to neighbour, and each parallel link is a chain with its
//! share of the buffer.
//!
//! Cost: two sends a rank, but of the whole buffer: the fewest messages of any chain, and the longest path. A rank
//! waits while the others work unless the buffer is long enough to be sliced, when the slices follow each other down
//! the chain. For a bandwidth-bound all-reduce `ring` moves 1/n of this in each send and keeps every link busy.

use super::ring::{Cycle, Order};
use super::rounds::Rounds;
use super::{Algorithm, Cost, any, unlike, unserved};
use crate::plan::{Lane, Plan, RankView};
use crate::types::Collective;

/// The row of the table.
pub static SIMPLE_RING: Algorithm = Algorithm {
    name: "simple_ring",
    about: "the whole buffer down a chain, reducing, then round again",
    cost_formula: "2(n-1)(a + S/B)",
    serves: &[Collective::AllReduce, Collective::Reduce, Collective::Broadcast],
    rank_order: false,
    guard: any,
    alike: unlike,
    cost,
    plan,
};

/// Returns the order of each chain.
fn orders(v: &RankView) -> Vec<Order<'_>> {
    match &v.orders {
        None => vec![Order::Ascending(v.nranks)],
        Some(orders) => vec![Order::Listed(orders.first()); orders.cycles()[0].width as usize],
    }
}

fn plan(v: &RankView, out: &mut Plan) {
    let orders = orders(v);
    let mut rounds = Rounds::default();
    for (lane, &order) in (0..).zip(&orders) {
        let chain = Cycle::new(v, order, lane as Lane);
        let share = lane..lane + 1;
        match v.collective {
            Collective::AllReduce => chain.down_and_round(lane, &mut rounds),
            Collective::Reduce => chain.reduce(v.root, share, &mut rounds),
            Collective::Broadcast => chain.broadcast(v.root, share, &mut rounds),
            _ => unserved(v),
        }
    }
    out.parts = orders.len() as u32;
    rounds.write(out);
}

fn cost(v: &RankView) -> Cost {
    let hops = v.nranks - 1;
    let orders = orders(v);
    let (mut sends, mut combines) = (0, 0);
    for &order in &orders {
        let chain = Cycle::new(v, order, 0);
        let (own_sends, own_combines) = match v.collective {
            // The last rank sends once, and so does the one before it.
            Collective::AllReduce => (if chain.at() + 1 < hops { 2 } else { 1 }, u32::from(chain.at() > 0)),
            Collective::Broadcast => (u32::from(chain.after(v.root) != hops), 0),
            Collective::Reduce => (u32::from(v.rank != v.root), u32::from(chain.after(v.root) != 1)),
            _ => unserved(v),
        };
        sends += own_sends;
        combines += own_combines;
    }
    let depth = if v.collective == Collective::AllReduce { 2 * hops } else { hops };
    Cost { parts: orders.len() as u32, sends, chunks_sent: sends, combines, depth }
}
