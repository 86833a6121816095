//! Simple ring: the whole buffer down the chain 0..n-1, reducing, then round again as a broadcast.
//!
//! ```text
//!     n = 4     0 --x0--> 1 --x0+x1--> 2 --x0+x1+x2--> 3        rank 3 has it all
//!               3 --sum-> 0 ---sum---> 1 -----sum----> 2        the same links once more
//! ```
//!
//! Cost: two sends a rank, but of the whole buffer: the fewest messages of any chain, and the longest path. A rank
//! waits while the others work unless the buffer is long enough to be sliced, when the slices follow each other down
//! the chain. For a bandwidth-bound all-reduce `ring` moves 1/n of this in each send and keeps every link busy.

use super::ring::{Cycle, ascending};
use super::rounds::Rounds;
use super::{Algorithm, Cost, any, unlike, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Plan, RankView};
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

fn plan(v: &RankView, out: &mut Plan) {
    let order = ascending(v.nranks);
    let chain = Cycle::new(v, &order, 0);
    let mut rounds = Rounds::default();
    match v.collective {
        Collective::AllReduce => return all_reduce(v, out),
        Collective::Reduce => chain.reduce(v.root, 0..1, &mut rounds),
        Collective::Broadcast => chain.broadcast(v.root, 0..1, &mut rounds),
        _ => unserved(v),
    }
    rounds.write(out);
}

fn all_reduce(v: &RankView, out: &mut Plan) {
    let (prev, next, last) = (v.prev(1), v.next(1), v.nranks - 1);
    let all = Chunk::part(0);
    let fold = || vec![From(prev), Own];
    // Down the chain.
    match v.rank {
        0 => out.send(next, all),
        r if r < last => out.recv_reduce_send(fold(), all, false, next),
        _ => out.recv_reduce_send(fold(), all, true, next),
    };
    // Round again; the last rank has it already, and the one before it need not pass it on.
    match v.rank {
        r if r == last => {}
        r if r + 1 == last => {
            out.recv_copy(prev, all);
        }
        _ => {
            out.recv_copy_send(prev, all, next);
        }
    }
}

fn cost(v: &RankView) -> Cost {
    let hops = v.nranks - 1;
    let (sends, combines, depth) = match v.collective {
        // The last rank sends once, and so does the one before it.
        Collective::AllReduce => (if v.rank + 1 < hops { 2 } else { 1 }, (v.rank > 0) as u32, 2 * hops),
        Collective::Broadcast => ((v.next(1) != v.root) as u32, 0, hops),
        Collective::Reduce => ((v.rank != v.root) as u32, (v.prev(1) != v.root) as u32, hops),
        _ => unserved(v),
    };
    Cost { parts: 1, sends, chunks_sent: sends, combines, depth }
}
