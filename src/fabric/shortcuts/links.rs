//! Where the messages of cycles go: a link for each rank and lane, to the next rank of the lane.
//!
//! ```text
//!     link (rank 3, lane 0)   ports 15 -> 21   next (rank 4, lane 0)       its messages take one way, one behind the
//!                                                                          other, and never overtake
//! ```
//!
//! In-order arrival follows from the model: a port starts messages in the order in which heads reach it, a head leaves
//! it no sooner than the head before, and equal times are decided by the round. So the m-th message to arrive over a
//! link is the m-th that was sent, and a message needs no more than its link, its round and its size.

use super::Ask;
use super::fold::SymmetryFold;
use crate::error::{Error, Result};
use crate::fabric::engine::port::{LaneFeed, MessageCost};
use crate::topology::{Network, PortId};
use crate::types::Rank;

/// The ports of every link, at `rank + lane * nranks`, and who comes next.
pub struct Ways {
    pub nranks: u32,
    pub lanes: u32,
    /// The rank that follows on the lane.
    pub next: Vec<Rank>,
    first: Vec<u32>,
    ports: Vec<PortId>,
}

/// The costs of a message of one size at ports of one class.
#[derive(Clone, Copy)]
pub struct HopCost {
    /// The port is taken.
    pub hold_ps: u64,
    /// From the start until the head is at the next port.
    pub lead_ps: u64,
    pub latency_ps: u64,
    /// From the last byte's leaving until the port is free.
    pub rest_ps: u64,
}

/// A chunk of one size, as slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    pub slices: u32,
    /// Index in `sizes` of every slice but the last, and of the last.
    pub size: u32,
    pub last_size: u32,
}

impl Slices {
    /// Returns the index in `sizes` of a slice.
    #[inline]
    pub fn size_of(&self, slice: u32) -> u32 {
        if slice + 1 == self.slices { self.last_size } else { self.size }
    }
}

/// A port on a link's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHop {
    /// The ports that are alike count as one: its index.
    pub port: u32,
    /// Which of them.
    pub which: PortId,
    pub class: u32,
    /// Whether the next hop begins only when the whole message has come through.
    pub whole: bool,
}

pub struct LaneLink {
    pub rank: Rank,
    pub lane: u32,
    /// The link on which its messages go on.
    pub next: u32,
    pub first_hop: u32,
    pub hops: u32,
    pub post_ps: u64,
    /// Messages that may be under way.
    pub credits: u32,
    /// The chunk with which its rank begins: index in `chunks`.
    pub chunk: u32,
}

/// Links of the ranks that are simulated: all, or the first of each class.
pub struct Links {
    /// At [`Links::at`].
    pub links: Vec<LaneLink>,
    pub lanes: u32,
    /// Ranks at this distance from each other differ only in their entries and chunks.
    pub period: u32,
    pub hops: Vec<LinkHop>,
    pub ranks: u32,
    /// The number of ranks for which each simulated rank stands.
    pub copies: u32,
    pub ports: u32,
    /// Messages a link, each a chunk.
    pub rounds: u32,
    pub chunks: Vec<Slices>,
    pub sizes: Vec<u64>,
    /// The costs by class, then size.
    pub costs: Vec<HopCost>,
    /// How messages are fed into lanes, by class, then size; empty where lanes take what ports carry.
    pub feeds: Vec<LaneFeed>,
    /// The least latency of a port that is used.
    pub least_latency_ps: u64,
}

impl Ways {
    /// Asks the network for every link's way. `Err` names the ranks that no way connects.
    pub fn of(network: &Network, ask: &Ask<'_>) -> Result<Ways> {
        let (n, lanes) = (ask.cycles.nranks(), ask.cycles.lanes());
        let links = n as usize * lanes as usize;
        let mut ways = Ways { nranks: n, lanes, next: vec![0; links], first: vec![0], ports: Vec::new() };
        ways.first.reserve_exact(links);
        ways.ports.reserve(2 * links);
        for lane in 0..lanes {
            let order = ask.cycles.order(lane as u16);
            let next = &mut ways.next[(lane * n) as usize..][..n as usize];
            for (position, &rank) in order.iter().enumerate() {
                next[rank as usize] = order[(position + 1) % order.len()];
            }
            for rank in 0..n {
                let to = next[rank as usize];
                let lost = |why: String| {
                    Error::usage(format!("no way from rank {rank} to rank {to} on lane {lane}: {why}"))
                };
                let (here, there) = (ask.places[rank as usize], ask.places[to as usize]);
                network.routes.route(here, there, lane as u16, &mut ways.ports).map_err(lost)?;
                if *ways.first.last().expect("begins with one") == ways.ports.len() as u32 {
                    return Err(lost("it passes no port".into()));
                }
                ways.first.push(ways.ports.len() as u32);
            }
        }
        Ok(ways)
    }

    pub fn link(&self, rank: Rank, lane: u32) -> usize {
        lane as usize * self.nranks as usize + rank as usize
    }

    pub fn ports(&self, link: usize) -> &[PortId] {
        &self.ports[self.first[link] as usize..self.first[link + 1] as usize]
    }
}

impl Links {
    /// The links of the ranks that stand for all.
    pub fn new(network: &Network, ask: &Ask<'_>, ways: &Ways, fold: &SymmetryFold) -> Result<Links> {
        let ranks = fold.ranks;
        let mut links = Links {
            links: Vec::with_capacity((ranks * ways.lanes) as usize),
            lanes: ways.lanes,
            period: fold.period,
            hops: Vec::new(),
            ranks,
            copies: ways.nranks / ranks,
            ports: fold.ports,
            rounds: ask.cycles.rounds(),
            chunks: Vec::new(),
            sizes: Vec::new(),
            costs: Vec::new(),
            feeds: Vec::new(),
            least_latency_ps: u64::MAX,
        };
        for (rank, lane) in fold.links(ways.lanes) {
            let link = ways.link(rank, lane);
            let chunk = links.chunk(ask.first_bytes(rank, lane)?, ask.slice_bytes)?;
            let first_hop = links.hops.len() as u32;
            links.way(network, ways.ports(link), &fold.port_class);
            let credits = links.hops[first_hop as usize..].iter().map(|hop| network.class(hop.which).credits);
            links.links.push(LaneLink {
                rank,
                lane,
                next: links.at(ways.next[link] % ranks, lane),
                first_hop,
                hops: links.hops.len() as u32 - first_hop,
                post_ps: network.class(links.hops[first_hop as usize].which).post_ps,
                credits: credits.filter(|&c| c > 0).min().unwrap_or(u32::MAX),
                chunk,
            });
        }
        links.feeds = LaneFeed::table(&network.classes, &links.sizes);
        links.costs = MessageCost::table(&network.classes, &links.sizes)
            .map(|MessageCost { hold_ps, lead_ps, latency_ps, rest_ps, .. }| HopCost {
                hold_ps,
                lead_ps,
                latency_ps,
                rest_ps,
            })
            .collect();
        Ok(links)
    }

    fn way(&mut self, network: &Network, ports: &[PortId], port_class: &[u32]) {
        for (i, &port) in ports.iter().enumerate() {
            let whole = ports.get(i + 1).is_none_or(|&next| network.class(next).store_and_forward);
            let class = network.ports[port as usize].class;
            self.least_latency_ps = self.least_latency_ps.min(network.class(port).latency_ps);
            self.hops.push(LinkHop { port: port_class[port as usize], which: port, class, whole });
        }
    }

    /// Returns the index of a chunk of `bytes` bytes. There are only a few different sizes.
    fn chunk(&mut self, bytes: u64, slice_bytes: u64) -> Result<u32> {
        let slice = if slice_bytes == 0 { u64::MAX } else { slice_bytes };
        let slices = bytes.div_ceil(slice).max(1);
        let last = bytes - (slices - 1) * slice.min(bytes);
        let slices = u32::try_from(slices)
            .map_err(|_| Error::argument("there are too many slices of a chunk to be priced"))?;
        let chunk = Slices { slices, size: self.size(slice.min(bytes)), last_size: self.size(last) };
        let found = self.chunks.iter().position(|&c| c == chunk);
        Ok(found.unwrap_or_else(|| {
            self.chunks.push(chunk);
            self.chunks.len() - 1
        }) as u32)
    }

    fn size(&mut self, bytes: u64) -> u32 {
        let found = self.sizes.iter().position(|&b| b == bytes);
        found.unwrap_or_else(|| {
            self.sizes.push(bytes);
            self.sizes.len() - 1
        }) as u32
    }

    /// The index of a rank's link: lane by lane, and those of ranks that are alike next to each other, since they act at
    /// the same time.
    pub fn at(&self, rank: Rank, lane: u32) -> u32 {
        let (kind, copy) = (rank % self.period, rank / self.period);
        (kind * self.lanes + lane) * (self.ranks / self.period) + copy
    }

    pub fn hops(&self, link: &LaneLink) -> &[LinkHop] {
        &self.hops[link.first_hop as usize..][..link.hops as usize]
    }

    pub fn cost(&self, class: u32, size: u32) -> HopCost {
        self.costs[class as usize * self.sizes.len() + size as usize]
    }

    /// Returns when a message of a size sets out on a link that is ready at `now_ps`, where its lane is taken until `fed_ps`.
    #[inline]
    pub fn feed(&self, first_cost: u32, size: u32, now_ps: u64, fed_ps: &mut u64) -> u64 {
        self.feeds.get((first_cost + size) as usize).map_or(now_ps, |feed| feed.feed(now_ps, fed_ps))
    }

    /// Messages of all links that are simulated.
    pub fn messages(&self) -> u64 {
        let slices = |link: &LaneLink| u64::from(self.chunks[link.chunk as usize].slices);
        u64::from(self.rounds) * self.links.iter().map(slices).sum::<u64>()
    }

    pub fn is_folded(&self) -> bool {
        self.copies > 1
    }
}
