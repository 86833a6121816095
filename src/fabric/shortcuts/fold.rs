//! Symmetry: where moving every rank on by k changes nothing, the first k ranks stand for all.
//!
//! ```text
//!     nodes 0 1 2 3 4 5, rings that tell even nodes from odd ones      rank r  ->  rank r + 16
//!           |-|                                                        port p  ->  the port at the same place of the
//!           these two are simulated, and their last link                           moved link's way, of the same class
//!           leads to the first
//! ```
//!
//! Nothing is taken on trust: the move is held against every link, port, entry and chunk, and refused where one does
//! not fit. What does not move with the ranks is who goes first at equal times, since ranks are numbered from one
//! place on. Within the k ranks the order is the same everywhere; the engine refuses whenever it would have to choose
//! between messages of different copies, see [`super::events`].

use super::Ask;
use super::links::Ways;
use crate::error::Result;
use crate::topology::Network;
use crate::types::Rank;

/// The ranks and ports that stand for all.
pub struct SymmetryFold {
    /// Ranks r and r + `ranks` are alike.
    pub ranks: u32,
    /// Ranks r and r + `period` are alike but for entries and chunks.
    pub period: u32,
    /// For each port of the network, its class, or [`UNUSED`].
    pub port_class: Vec<u32>,
    pub ports: u32,
}

/// The class of ports that no message passes.
pub const UNUSED: u32 = u32::MAX;

/// Every rank and every port for itself; ports are numbered as links pass them.
pub fn unfolded(network: &Network, ways: &Ways) -> SymmetryFold {
    let mut fold = SymmetryFold {
        ranks: ways.nranks,
        period: moves(ways).find(|&k| moved(network, ways, k).is_some()).unwrap_or(ways.nranks),
        port_class: vec![UNUSED; network.ports.len()],
        ports: 0,
    };
    for (rank, lane) in fold.links(ways.lanes) {
        for &port in ways.ports(ways.link(rank, lane)) {
            let class = &mut fold.port_class[port as usize];
            if *class == UNUSED {
                *class = fold.ports;
                fold.ports += 1;
            }
        }
    }
    fold
}

impl SymmetryFold {
    /// Rank and lane of all links, lane by lane, and of ranks that are alike one after the other: they act at the same
    /// moments.
    pub fn links(&self, lanes: u32) -> impl Iterator<Item = (Rank, u32)> + use<> {
        let (ranks, period) = (self.ranks, self.period);
        let kinds = (0..period).flat_map(move |kind| (0..lanes).map(move |lane| (kind, lane)));
        kinds.flat_map(move |(kind, lane)| {
            (kind..ranks).step_by(period as usize).map(move |rank| (rank, lane))
        })
    }
}

/// The smallest move that changes nothing, if there is one.
pub fn fold(network: &Network, ask: &Ask<'_>, ways: &Ways) -> Result<Option<SymmetryFold>> {
    for lane in 0..ways.lanes {
        let bytes = ask.first_bytes(0, lane)?;
        for rank in 1..ways.nranks {
            if ask.first_bytes(rank, lane)? != bytes {
                return Ok(None);
            }
        }
    }
    let fits = |&k: &u32| (0..ways.nranks as usize).all(|r| ask.entry_ps[r] == ask.entry_ps[r % k as usize]);
    Ok(moves(ways).filter(fits).find_map(|k| moved(network, ways, k)))
}

/// What may be a move.
fn moves(ways: &Ways) -> impl Iterator<Item = u32> {
    let n = ways.nranks;
    (1..=n / 2).filter(move |&k| n.is_multiple_of(k))
}

/// Holds the move by k ranks against all links.
fn moved(network: &Network, ways: &Ways, k: u32) -> Option<SymmetryFold> {
    let n = ways.nranks;
    let (mut image, mut origin) = (vec![UNUSED; network.ports.len()], vec![UNUSED; network.ports.len()]);
    for lane in 0..ways.lanes {
        for rank in 0..n {
            let (here, there) = (ways.link(rank, lane), ways.link((rank + k) % n, lane));
            let (ports, moved) = (ways.ports(here), ways.ports(there));
            if (ways.next[here] + k) % n != ways.next[there] || ports.len() != moved.len() {
                return None;
            }
            for (&port, &to) in ports.iter().zip(moved) {
                let (image, origin) = (&mut image[port as usize], &mut origin[to as usize]);
                if (*image, *origin) == (UNUSED, UNUSED) {
                    (*image, *origin) = (to, port);
                }
                if (*image, *origin) != (to, port)
                    || network.ports[port as usize].class != network.ports[to as usize].class
                {
                    return None;
                }
            }
        }
    }
    // Each port must come back after exactly all copies: one that comes back sooner is shared among them.
    let mut port_class = origin;
    port_class.fill(UNUSED);
    let mut ports = 0;
    for start in 0..image.len() {
        if image[start] == UNUSED || port_class[start] != UNUSED {
            continue;
        }
        let (mut port, mut copies) = (start, 0);
        while port_class[port] == UNUSED {
            port_class[port] = ports;
            port = image[port] as usize;
            copies += 1;
        }
        if copies != n / k {
            return None;
        }
        ports += 1;
    }
    Some(SymmetryFold { ranks: k, period: k, port_class, ports })
}
