//! Pairwise: an all-to-all as a tournament; in each round the ranks pair off and exchange their blocks.
//!
//! ```text
//!     n = 4, partner = rank ^ k       k = 1: 0-1 2-3      k = 2: 0-2 1-3      k = 3: 0-3 1-2
//!     n = 5, partner = k - rank       k = 0: 1-4 2-3 (0)  k = 1: 0-1 2-4 (3)  k = 2: 0-2 3-4 (1)  ...   modulo 5
//!     n = 6: that of 5, and the one left over meets rank 5
//! ```
//!
//! A rank sends the block for its partner, then takes its partner's into the same place, so an exchange in place never
//! overwrites what is still to be sent. (The usual partners for other n, send to rank+k and receive from rank-k, do.)
//! For odd n the rank left over copies its own block. Gather and scatter are linear: the root's link is the limit, and
//! no order of the messages changes that.
//!
//! Cost: n-1 sends a rank, each of one block: the least there is. Every block costs a latency, so for a few bytes a
//! rank `one_shot`, which does not wait in between, is better.

use super::one_shot::{gather, scatter, sends_linear};
use super::{Algorithm, Alike, Cost, any, unserved};
use crate::plan::{Chunk, Plan, RankView};
use crate::types::{Collective, Rank};

/// The row of the table.
pub static PAIRWISE: Algorithm = Algorithm {
    name: "pairwise",
    about: "an all-to-all in n-1 rounds of exchanges between pairs",
    cost_formula: "(n-1)(a + S/nB)",
    serves: &[Collective::AlltoAll, Collective::Gather, Collective::Scatter],
    rank_order: false,
    guard: any,
    alike,
    cost,
    plan,
};

/// For a power of two, partners differ by the bits of their ranks. Otherwise one rank is left over in each round, and the programs
/// depend on which one that is.
fn alike(v: &RankView) -> Alike {
    match v.collective {
        Collective::AlltoAll if v.nranks.is_power_of_two() => Alike::Exclusive,
        _ => Alike::No,
    }
}

fn plan(v: &RankView, out: &mut Plan) {
    match v.collective {
        Collective::AlltoAll => all_to_all(v, out),
        Collective::Gather => gather(v, out),
        Collective::Scatter => scatter(v, out),
        _ => unserved(v),
    }
}

fn all_to_all(v: &RankView, out: &mut Plan) {
    let (n, me) = (v.nranks, v.rank);
    let own = Chunk::block(me * n + me);
    for partner in partners(me, n) {
        if partner == me {
            out.copy(own);
        } else {
            out.send(partner, Chunk::block(me * n + partner));
            out.recv_copy(partner, Chunk::block(partner * n + me));
        }
    }
}

/// Returns a rank's partners, round by round. Each rank comes once, itself included.
fn partners(me: Rank, n: u32) -> Vec<Rank> {
    if n.is_power_of_two() {
        return (0..n).map(|k| me ^ k).collect();
    }
    // The number of players is odd. If there are evenly many ranks, the last one meets the rank that is left over.
    let players = if n % 2 == 1 { n } else { n - 1 };
    let extra = (n > players).then_some(n - 1);
    let mut met: Vec<Rank> = (0..players)
        .map(|k| {
            if Some(me) == extra {
                // The one left over in round k: twice its rank is k.
                if k % 2 == 0 { k / 2 } else { (k + players) / 2 }
            } else {
                let partner = (k + players - me) % players;
                if partner == me { extra.unwrap_or(me) } else { partner }
            }
        })
        .collect();
    if extra.is_some() {
        met.push(me);
    }
    met
}

fn cost(v: &RankView) -> Cost {
    let sends = if v.collective == Collective::AlltoAll { v.nranks - 1 } else { sends_linear(v) };
    Cost { parts: 1, sends, chunks_sent: sends, combines: 0, depth: 1 }
}
