//! Ways on which a message waits at the first port only, so that its arrival follows from its start there.
//!
//! ```text
//!     first port    |-- a --|-- b --|            b starts no sooner than a's hold is over; if b's head then finds each
//!     second port       |-- a --|-- b --|        later port free of a, whatever the sizes of the two, nobody ever
//!     arrival                                    waits there, and the way is two sums: when the port is free again,
//!                                                and when the message arrives
//! ```
//!
//! Most ways are so: their ports are alike, or the first is the slowest.

use super::links::{LinkHop, Links};

/// The passage of a message of one size along a way, from its start at the first port.
#[derive(Clone)]
pub struct Passage {
    /// For each port, the times at which the head arrives and the port is released.
    pub stays: Vec<(u64, u64)>,
    /// The arrival.
    pub through_ps: u64,
}

/// The passages of all sizes. `None`: a message may wait at a later port, a port stays taken after a
/// message, or times are too long.
pub fn passages(links: &Links, hops: &[LinkHop]) -> Option<Vec<Passage>> {
    let all: Vec<Passage> =
        (0..links.sizes.len() as u32).map(|size| passage(links, hops, size)).collect::<Option<_>>()?;
    let apart = |first: &Passage, second: &Passage| {
        let hold = first.stays[0].1;
        first
            .stays
            .iter()
            .zip(&second.stays)
            .all(|(a, b)| hold.checked_add(b.0).is_some_and(|head| a.1 <= head))
    };
    all.iter().all(|first| all.iter().all(|second| apart(first, second))).then_some(all)
}

fn passage(links: &Links, hops: &[LinkHop], size: u32) -> Option<Passage> {
    let (mut head_ps, mut tail_ps) = (0u64, 0u64);
    let mut stays = Vec::new();
    for hop in hops {
        let cost = links.cost(hop.class, size);
        if cost.rest_ps > 0 {
            return None;
        }
        let end_ps = head_ps.checked_add(cost.hold_ps)?.max(tail_ps);
        stays.push((head_ps, end_ps));
        tail_ps = end_ps.checked_add(cost.latency_ps)?;
        head_ps = if hop.whole { tail_ps } else { head_ps.checked_add(cost.lead_ps)? };
    }
    Some(Passage { stays, through_ps: head_ps })
}
