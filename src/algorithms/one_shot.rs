//! One shot: every message goes straight from the rank that has it to the ranks that need it.
//!
//! ```text
//!     n = 3, all-reduce      0 --x0--> {1, 2}    1 --x1--> {0, 2}    2 --x2--> {0, 1}      one exchange
//!                            everybody: x0 + x1 + x2, in this order
//! ```
//!
//! Each rank folds in rank order and so has the same bits; the latency is paid once. A send to a set is one copy with
//! many readers.
//!
//! Cost: one exchange; an all-reduce reads n-1 whole buffers and combines them n times over in all, so from some
//! kilobytes on `two_shot` and `ring`, which share the work, are faster.

use super::{Algorithm, Cost, any, turned, unserved};
use crate::plan::Operand::{From, Own};
use crate::plan::{Chunk, Operand, Plan, RankView};
use crate::types::Collective;

/// The row of the table.
pub static ONE_SHOT: Algorithm = Algorithm {
    name: "one_shot",
    about: "each rank sends to all that need the data at once, and combines what it receives in rank order",
    cost_formula: "a + (n-1)S/B",
    serves: &[
        Collective::AllReduce,
        Collective::Reduce,
        Collective::Broadcast,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AlltoAll,
        Collective::Gather,
        Collective::Scatter,
    ],
    rank_order: true,
    guard: any,
    alike: turned,
    cost,
    plan,
};

fn plan(v: &RankView, out: &mut Plan) {
    let (n, me, all) = (v.nranks, v.rank, Chunk::part(0));
    match v.collective {
        Collective::AllReduce => {
            out.send(v.others(), all);
            out.recv_reduce(rank_order(v), all);
        }
        Collective::Reduce if me == v.root => {
            out.recv_reduce(rank_order(v), all);
        }
        Collective::Reduce => {
            out.send(v.root, all);
        }
        Collective::Broadcast if me == v.root => {
            out.copy_send(all, v.others());
        }
        Collective::Broadcast => {
            out.recv_copy(v.root, all);
        }
        Collective::AllGather => all_gather(v, out),
        Collective::ReduceScatter => reduce_scatter(v, out),
        Collective::AlltoAll => {
            // Each rank starts with a different receiver, and sends everything before anything is overwritten.
            for to in (1..n).map(|k| v.next(k)) {
                out.send(to, Chunk::block(me * n + to));
            }
            out.copy(Chunk::block(me * n + me));
            for from in (1..n).map(|k| v.prev(k)) {
                out.recv_copy(from, Chunk::block(from * n + me));
            }
        }
        Collective::Gather => gather(v, out),
        Collective::Scatter => scatter(v, out),
        Collective::Barrier => unserved(v),
    }
}

fn cost(v: &RankView) -> Cost {
    let (peers, root) = (v.nranks - 1, v.rank == v.root);
    let (sends, chunks_sent, combines) = match v.collective {
        Collective::AllReduce => (1, peers, peers),
        Collective::Reduce if root => (0, 0, peers),
        Collective::Reduce => (1, 1, 0),
        Collective::Broadcast if root => (1, peers, 0),
        Collective::Broadcast => (0, 0, 0),
        Collective::AllGather => (1, peers, 0),
        Collective::ReduceScatter => (peers, peers, peers),
        Collective::AlltoAll => (peers, peers, 0),
        Collective::Gather | Collective::Scatter => (sends_linear(v), sends_linear(v), 0),
        Collective::Barrier => unserved(v),
    };
    Cost { parts: 1, sends, chunks_sent, combines, depth: 1 }
}

/// Returns the own input and all arrivals, in the order of the ranks.
pub(super) fn rank_order(v: &RankView) -> Vec<Operand> {
    (0..v.nranks).map(|r| if r == v.rank { Own } else { From(r) }).collect()
}

/// Sends block b to rank b, which folds its arrivals.
pub(super) fn reduce_scatter(v: &RankView, out: &mut Plan) {
    for to in (1..v.nranks).map(|k| v.next(k)) {
        out.send(to, Chunk::block(to));
    }
    out.recv_reduce(rank_order(v), Chunk::block(v.rank));
}

/// Sends every rank's block to all ranks.
pub(super) fn all_gather(v: &RankView, out: &mut Plan) {
    out.copy_send(Chunk::block(v.rank), v.others());
    for from in (1..v.nranks).map(|k| v.prev(k)) {
        out.recv_copy(from, Chunk::block(from));
    }
}

/// Sends every rank's block to the root.
pub(super) fn gather(v: &RankView, out: &mut Plan) {
    if v.rank != v.root {
        out.send(v.root, Chunk::block(v.rank));
        return;
    }
    out.copy(Chunk::block(v.rank));
    for from in (1..v.nranks).map(|k| v.next(k)) {
        out.recv_copy(from, Chunk::block(from));
    }
}

/// Sends a block from the root to every rank.
pub(super) fn scatter(v: &RankView, out: &mut Plan) {
    if v.rank != v.root {
        out.recv_copy(v.root, Chunk::block(v.rank));
        return;
    }
    for to in (1..v.nranks).map(|k| v.next(k)) {
        out.send(to, Chunk::block(to));
    }
    out.copy(Chunk::block(v.rank));
}

/// Returns the number of sends of [`gather`] and [`scatter`].
pub(super) fn sends_linear(v: &RankView) -> u32 {
    match (v.collective, v.rank == v.root) {
        (Collective::Scatter, true) => v.nranks - 1,
        (Collective::Gather, false) => 1,
        _ => 0,
    }
}
