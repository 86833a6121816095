//! Frames that were lost between two ranks that are alive.
//!
//! A connection may be lost and made anew, by the provider, which does not tell what was under way. So a rank that has posted nothing more for
//! a second tells its peer once how many frames it has posted. A peer to which fewer have come waits for the others for some seconds, and
//! then gives the communicator up. Where there are several rails, messages that are lost are sent again (see `messages.rs`).

use super::Others;
use super::rails::Rails;
use super::wire::Item;
use crate::error::{Error, Result};
use crate::sys::clock;
use crate::types::Rank;
use std::time::Duration;

/// The time between two looks at what was posted.
pub const LOOK_NS: u64 = 1_000_000_000;
/// How long a frame may be late.
pub const LATE_NS: u64 = 10_000_000_000;

/// What a rank and a peer have told each other of the numbers of their frames.
#[derive(Default)]
pub struct Tally {
    /// Frames that were posted to the peer at the last look, and those of which it was told.
    posted: u64,
    told: u64,
    /// Frames that the peer has posted, as it says.
    heard: u64,
    /// Since when fewer have come.
    since_ns: Option<u64>,
}

impl Tally {
    /// The peer says how many frames it has posted.
    pub fn hears(&mut self, frames: u64) {
        self.heard = self.heard.max(frames);
    }

    /// Returns how many of the peer's frames are late, and have been for so long. `come`: those that have come.
    fn lost(&mut self, come: u64, now: u64, late_ns: u64) -> Option<u64> {
        let missing = self.heard.checked_sub(come).filter(|&missing| missing > 0);
        if missing.is_none() {
            self.since_ns = None;
            return None;
        }
        let since = *self.since_ns.get_or_insert(now);
        missing.filter(|_| now.saturating_sub(since) > late_ns)
    }
}

impl Others {
    /// Returns how long nobody has to look at what was posted.
    pub(super) fn until_tally(&self) -> Duration {
        let is_open = |peer: &super::FarPeer| {
            !peer.is_gone() && (peer.posted != peer.tally.told || peer.come < peer.tally.heard)
        };
        match self.peers.iter().flatten().any(is_open) {
            true => Duration::from_nanos(self.look_ns),
            false => Duration::MAX,
        }
    }

    /// Tells peers how many frames were posted to them, and misses those that have not come.
    pub(super) fn look_for_lost_frames(&mut self, rails: &mut Rails) -> Result<()> {
        let now = clock::coarse_ns();
        if now < self.next_look_ns {
            return Ok(());
        }
        self.next_look_ns = now + self.look_ns;
        let late_ns = self.late_ns;
        for rank in 0..self.peers.len() as Rank {
            let Some(peer) = self.peer(rank).filter(|peer| !peer.is_gone()) else { continue };
            let posted = peer.posted;
            let rests = std::mem::replace(&mut peer.tally.posted, posted) == posted;
            let lost = peer.tally.lost(peer.come, now, late_ns);
            if rests && peer.tally.told != posted {
                peer.tally.told = posted;
                self.say(rails, rank, &Item::Posted(posted))?;
            }
            if let Some(lost) = lost {
                return Err(Error::remote(format!(
                    "{lost} of the frames that rank {rank}{} has sent are lost: its connection was lost and made anew; find what ends connections \
                     between the hosts, such as a firewall, and make a new communicator",
                    self.on_host(rank)
                )));
            }
        }
        Ok(())
    }
}
