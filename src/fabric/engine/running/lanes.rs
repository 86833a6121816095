//! Lanes that take less than their ports carry: the messages of a connection are fed into its lane one after the other.
//!
//! ```text
//!     lane a    [=== a0 ===][=== a1 ===]            a port serves many lanes: each message holds it for as long as the
//!     lane b    [=== b0 ===][=== b1 ===]            port needs, and is late by what its lane needs longer
//!     port              [a0][b0]  [a1][b1]
//! ```

use crate::fabric::engine::port::LaneFeed;
use crate::fabric::engine::program::Program;
use crate::topology::Network;

/// The lanes of a call's connections.
#[derive(Clone)]
pub struct Lanes {
    /// By class, then size; empty where lanes take what ports carry.
    feeds: Vec<LaneFeed>,
    /// By connection, when the last message was fed.
    fed_ps: Vec<u64>,
}

impl Lanes {
    /// Returns the lanes of a call into which nothing was fed yet.
    pub fn of(network: &Network, program: &Program) -> Lanes {
        let feeds = LaneFeed::table(&network.classes, &program.sizes);
        let connections = if feeds.is_empty() { 0 } else { program.connections.len() };
        Lanes { feeds, fed_ps: vec![0; connections] }
    }

    /// Returns when a message of a size that is ready at `now_ps` sets out.
    #[inline]
    pub fn feed(&mut self, program: &Program, connection: u32, size: u32, now_ps: u64) -> u64 {
        let Some(fed_ps) = self.fed_ps.get_mut(connection as usize) else { return now_ps };
        let class = program.hops[program.connections[connection as usize].first_hop as usize].class();
        self.feeds[class as usize * program.sizes.len() + size as usize].feed(now_ps, fed_ps)
    }
}
