//! The counters that a rank shares with each of its peers: which are reserved, and how many signals have been taken.

use crate::error::Result;
use crate::memory::control::signals::{CONTEXTS, SIGNALS};
use crate::transport::Transport;
use crate::types::Rank;

/// A counter that there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::comm) struct SignalPlace {
    pub peer: Rank,
    pub context: usize,
    pub index: usize,
}

/// A rank's own record of the counters that it shares with each of its peers.
pub(in crate::comm) struct SignalCounters {
    peers: Vec<Peer>,
}

#[derive(Clone, Default)]
struct Peer {
    /// Space of the counters is reserved: towards the peer, from the peer.
    reserved: [bool; 2],
    /// Signals of the peer that have been waited for, by context and index; empty before the first.
    taken: Vec<u64>,
}

impl SignalCounters {
    /// Makes the counters for a communicator of `nranks` ranks.
    pub fn new(nranks: u32) -> SignalCounters {
        SignalCounters { peers: vec![Peer::default(); nranks as usize] }
    }

    /// Before the counters towards a peer, or from it, are touched.
    #[inline]
    pub fn reserve(&mut self, t: &Transport, peer: Rank, towards: bool) -> Result<()> {
        let reserved = &mut self.peers[peer as usize].reserved[!towards as usize];
        if !*reserved {
            let (from, to) = if towards { (t.rank(), peer) } else { (peer, t.rank()) };
            t.control().reserve_signals(from, to)?;
            *reserved = true;
        }
        Ok(())
    }

    pub fn taken(&mut self, place: &SignalPlace) -> &mut u64 {
        let taken = &mut self.peers[place.peer as usize].taken;
        taken.resize(CONTEXTS * SIGNALS, 0);
        &mut taken[place.context * SIGNALS + place.index]
    }
}
