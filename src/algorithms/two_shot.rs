//! Two shot: two exchanges for any number of ranks; each rank is responsible for one chunk.
//!
//! ```text
//!     n = 3, chunks a b c      first     0 --b0--> 1    0 --c0--> 2    1 --a1--> 0    ...     chunk j to rank j
//!                              second    0 --a--> {1, 2}    1 --b--> {0, 2}    2 --c--> {0, 1}
//! ```
//!
//! Between the two, rank j folds chunk j in rank order: one rank computes it, all get the same bits. A reduction sends
//! the results to the root only. A broadcast turns it round: the root deals out n-1 chunks, and each receiver passes
//! its own on to the other receivers.
//!
//! Cost: two latencies, 2(n-1)/n of the buffer on the wire like `ring`, all to all at once. Where many ranks share few
//! links the exchanges collide and `ring` is better; for a few bytes the second latency is a waste, see `one_shot`.

use super::one_shot::{self, rank_order};
use super::{Algorithm, Cost, any, turned, unserved};
use crate::plan::{Chunk, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static TWO_SHOT: Algorithm = Algorithm {
    name: "two_shot",
    about: "chunk j to rank j, which folds it in rank order and sends the result to all",
    cost_formula: "2(a + (n-1)/n S/B)",
    serves: &[
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Reduce,
        Collective::Broadcast,
    ],
    rank_order: true,
    guard: any,
    alike: turned,
    cost,
    plan,
};

fn plan(v: &RankView, out: &mut Plan) {
    match v.collective {
        Collective::AllReduce => {
            reduce_own_chunk(v, v.others(), true, out);
            for from in (1..v.nranks).map(|k| v.prev(k)) {
                out.recv_copy(from, Chunk::part(from));
            }
        }
        Collective::Reduce if v.rank == v.root => {
            reduce_own_chunk(v, vec![], true, out);
            for from in (1..v.nranks).map(|k| v.next(k)) {
                out.recv_copy(from, Chunk::part(from));
            }
        }
        Collective::Reduce => reduce_own_chunk(v, vec![v.root], false, out),
        Collective::Broadcast => broadcast(v, out),
        Collective::ReduceScatter => one_shot::reduce_scatter(v, out),
        Collective::AllGather => one_shot::all_gather(v, out),
        _ => unserved(v),
    }
}

/// Chunk j to rank j; fold this rank's, keep it or not, send it on.
fn reduce_own_chunk(v: &RankView, onward: Vec<Rank>, keep: bool, out: &mut Plan) {
    out.parts = v.nranks;
    for to in (1..v.nranks).map(|k| v.next(k)) {
        out.send(to, Chunk::part(to));
    }
    out.recv_reduce_send(rank_order(v), Chunk::part(v.rank), keep, onward);
}

/// The rank that comes k-th after the root gets chunk k-1 first and passes it on.
fn broadcast(v: &RankView, out: &mut Plan) {
    let (n, root) = (v.nranks, v.root);
    out.parts = n - 1;
    if v.rank == root {
        for k in 1..n {
            out.copy_send(Chunk::part(k - 1), v.next(k));
        }
        return;
    }
    let chunk_of = |rank: Rank| Chunk::part((rank + n - root) % n - 1);
    let onward: Vec<Rank> = v.others().into_iter().filter(|&r| r != root).collect();
    out.recv_copy_send(root, chunk_of(v.rank), onward);
    for from in (1..n).map(|k| v.prev(k)).filter(|&r| r != root) {
        out.recv_copy(from, chunk_of(from));
    }
}

fn cost(v: &RankView) -> Cost {
    let (n, peers, root) = (v.nranks, v.nranks - 1, v.rank == v.root);
    let (parts, sends, chunks_sent, combines, depth) = match v.collective {
        Collective::AllReduce => (n, peers + 1, 2 * peers, peers, 2),
        Collective::Reduce if root => (n, peers, peers, peers, 2),
        Collective::Reduce => (n, peers + 1, peers + 1, peers, 2),
        Collective::Broadcast if root => (peers, peers, peers, 0, 2.min(peers)),
        // With two ranks there is no other receiver to pass it on to.
        Collective::Broadcast => (peers, 1.min(peers - 1), peers - 1, 0, 2.min(peers)),
        Collective::ReduceScatter => (1, peers, peers, peers, 1),
        Collective::AllGather => (1, 1, peers, 0, 1),
        _ => unserved(v),
    };
    Cost { parts, sends, chunks_sent, combines, depth }
}
