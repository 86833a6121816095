//! What a poll of a link does, and its end.

use super::wire::Item;
use super::{Incoming, State};
use crate::error::Result;
use crate::sys::endpoint::Report;
use crate::sys::{clock, cpu};
use crate::transport::link::Body;
use crate::types::Rank;

/// Polls that pass before frames go which their receivers can go on without for now: mostly something else goes to them before.
pub const PATIENCE: u8 = 4;
/// Polls that pass before arrivals without payload are sent, several in one message.
const PATIENCE_OF_ARRIVALS: u8 = 64;
/// How long a link that is dropped waits for its peers, and where a rail may be cut meanwhile.
const LINGER_NS: u64 = 2_000_000_000;
const LINGER_WITH_RAILS_NS: u64 = 4_000_000_000;

/// Returns how many polls may pass before a frame goes, if nothing else goes to its receiver; `None`: it goes at once.
pub fn patience_of(body: Body<'_>) -> Option<u8> {
    match body {
        Body::Taken(taken) => taken.may_wait.then_some(PATIENCE),
        Body::Arrival { payload, may_wait, .. } => {
            payload.is_empty().then_some(if may_wait { PATIENCE_OF_ARRIVALS } else { 0 })
        }
        Body::Counter(_) => Some(0),
        Body::Access(access) => access.may_be_held().then_some(0),
        Body::Data { .. } | Body::Piece { .. } | Body::Life(_) | Body::News(_) | Body::Shrink { .. } => None,
    }
}

impl State {
    /// Sends what was held back, and takes in what has come.
    pub(super) fn poll(&mut self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        let State { rails, others, .. } = self;
        if others.holds {
            match others.patience.checked_sub(1) {
                Some(less) => others.patience = less,
                None => others.send_held(rails)?,
            }
        }
        for rail in 0..rails.len() {
            if others.is_closed(rail) {
                // What is left of it says nothing.
                let _ = rails[rail].poll(&mut |_| ());
                continue;
            }
            #[cfg(test)]
            if self.unpolled >> rail & 1 == 1 {
                continue;
            }
            rails[rail].poll(&mut |event| match event {
                Report::Message(words) => others.message(rail, words, sink),
                Report::Written(data) => others.written(rail, data, sink),
                Report::Lost(peer, why) => others.lost(rail, peer, why),
            })?;
        }
        if others.to_close != 0 {
            others.close_rails(rails);
        }
        if others.is_waiting {
            others.send_waiting(rails)?;
        }
        match rails.len() {
            1 => others.look_for_lost_frames(rails)?,
            _ => others.watch_rails(rails)?,
        }
        if others.to_close != 0 {
            others.close_rails(rails);
        }
        if others.is_lost { others.check_lost() } else { Ok(()) }
    }

    /// Says goodbye to all peers, and waits until they have taken in everything.
    pub(super) fn linger(&mut self) -> Result<()> {
        let longest = if self.rails.len() > 1 { LINGER_WITH_RAILS_NS } else { LINGER_NS };
        let deadline = clock::now_ns() + longest;
        for rank in 0..self.others.peers.len() as Rank {
            let posted = self.others.peer(rank).map_or(0, |peer| peer.posted);
            self.others.say(&mut self.rails, rank, &Item::Bye(posted))?;
        }
        self.others.said_goodbye = true;
        // BOUND: the deadline.
        while self.others.awaits_peers() && clock::now_ns() < deadline {
            self.poll(&mut |_| ())?;
            cpu::yield_now();
        }
        Ok(())
    }
}
