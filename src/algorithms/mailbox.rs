//! Mailbox: a rank that has data posts it once, to the set of all others; the ranks that need it read it from there.
//!
//! ```text
//!     broadcast      0 --x--> {1, 2, 3}                        one post, n-1 mailboxes
//!     all-gather     every r --b_r--> all others               n posts
//!     all-reduce     every r --x_r--> all others               then everybody folds in the order of the ranks
//! ```
//!
//! What the programs of small messages over mailboxes do, as a plan: a post to a set is one copy with many readers, and no
//! rank sends anything twice. A barrier is the all-reduce of nothing, and as such takes its time on a declared machine.
//!
//! [`one_shot`](super::one_shot) writes the same steps for these collectives, and serves the others as well: only through a
//! plan for a set is a message to many less than that many messages. This is the name to ask for where nothing else may
//! serve. `auto` stays with `one_shot`, which natively exchanges small messages without any plan. On a machine a post is
//! priced as its copies' ways to the places of the set; what a place that is a mailbox then needs to hand a message to its
//! threads is part of mailbox calls, and not of collectives, which end in a rank's buffer.
//!
//! Cost: one exchange, and n-1 whole buffers read; from some kilobytes on others, which share the work, are faster.

use super::one_shot::{all_gather, rank_order};
use super::{Algorithm, Cost, any, turned, unserved};
use crate::plan::{Chunk, Plan, RankView};
use crate::types::Collective;

/// The row of the table.
pub static MAILBOX: Algorithm = Algorithm {
    name: "mailbox",
    about: "each rank posts once to all that need the data, and combines what it receives in rank order",
    cost_formula: "a + (n-1)S/B",
    serves: &[Collective::AllReduce, Collective::Broadcast, Collective::AllGather],
    rank_order: true,
    guard: any,
    alike: turned,
    cost,
    plan,
};

fn plan(v: &RankView, out: &mut Plan) {
    let all = Chunk::part(0);
    match v.collective {
        Collective::Broadcast if v.rank == v.root => {
            out.copy_send(all, v.others());
        }
        Collective::Broadcast => {
            out.recv_copy(v.root, all);
        }
        Collective::AllGather => all_gather(v, out),
        Collective::AllReduce => {
            out.send(v.others(), all);
            out.recv_reduce(rank_order(v), all);
        }
        _ => unserved(v),
    }
}

fn cost(v: &RankView) -> Cost {
    let peers = v.nranks - 1;
    let (posts, combines) = match v.collective {
        Collective::Broadcast => (u32::from(v.rank == v.root), 0),
        Collective::AllGather => (1, 0),
        Collective::AllReduce => (1, peers),
        _ => unserved(v),
    };
    Cost { parts: 1, sends: posts, chunks_sent: posts * peers, combines, depth: 1 }
}
