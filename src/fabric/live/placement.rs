//! A communicator as the declared machine sees it: who stands where, and which call is which.

use super::participant::Participant;
use super::spec::{CallSpec, Post, What};
use crate::error::Result;
use crate::plan::Arrangement;
use crate::types::Rank;
use std::sync::Arc;

/// A rank's view of its communicator's places on the machine.
pub struct Placement {
    participant: Arc<Participant>,
    /// Names the communicator among all of the job; the same at all members.
    comm: u64,
    rank: Rank,
    /// The place of each rank.
    places: Arc<[Rank]>,
    arrangement: Arrangement,
    /// Transfers so far, by peer: sent, received.
    transfers: Vec<[u32; 2]>,
    /// Communicators made of this one.
    children: u64,
}

impl Placement {
    /// The job's first communicator, whose ranks stand where the machine says.
    pub fn root(participant: Arc<Participant>, nranks: u32) -> Result<Placement> {
        let rank = participant.place();
        let places = participant.network().places(nranks)?.into();
        Ok(Placement::new(participant, 0, rank, places))
    }

    fn new(participant: Arc<Participant>, comm: u64, rank: Rank, places: Arc<[Rank]>) -> Placement {
        participant.fail_for(None);
        let arrangement = participant.arrangement(&places);
        let transfers = vec![[0; 2]; places.len()];
        Placement { participant, comm, rank, places, arrangement, transfers, children: 0 }
    }

    /// Makes a communicator made of this one: `members` are its ranks' ranks here, `rank` is the caller's rank there, if it is
    /// in it. All members of this communicator call it, in the same order.
    pub fn child(&mut self, rank: Option<Rank>, members: &[Rank]) -> Option<Placement> {
        self.children += 1;
        Some(self.named([self.children, 0], rank?, members))
    }

    /// Makes a communicator made of this one by its members alone. `name`: the same at all of them, and at no other communicator that is
    /// made of this one in this way.
    pub fn survivors(&self, rank: Rank, members: &[Rank], name: u64) -> Placement {
        self.named([name, 1], rank, members)
    }

    fn named(&self, name: [u64; 2], rank: Rank, members: &[Rank]) -> Placement {
        let first = members.first().map_or(0, |&first| first as u64);
        let words = [name[0], first + 1 + (name[1] << 32)];
        let comm = words.iter().fold(self.comm ^ 0x9e37_79b9_7f4a_7c15, |h, &word| {
            (h ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31)
        });
        let places = members.iter().map(|&r| self.places[r as usize]).collect();
        Placement::new(self.participant.clone(), comm, rank, places)
    }

    /// Returns the participant whose clock it uses.
    pub fn participant(&self) -> &Arc<Participant> {
        &self.participant
    }

    /// Returns how the ranks stand.
    pub fn arrangement(&self) -> &Arrangement {
        &self.arrangement
    }

    /// Returns the place of each rank.
    pub fn places(&self) -> &Arc<[Rank]> {
        &self.places
    }

    /// This rank's part in a collective call, by the call's number.
    pub fn collective(&self, number: u64, spec: CallSpec) -> Post {
        Post { comm: self.comm, key: number, spec, member: self.rank, members: self.places.len() as u32 }
    }

    /// This rank's half of the next transfer with a peer.
    pub fn transfer(&mut self, send: bool, peer: Rank, count: u64, size: u64, kind: u64) -> Post {
        let number = &mut self.transfers[peer as usize][!send as usize];
        *number += 1;
        let (from, to) = if send { (self.rank, peer) } else { (peer, self.rank) };
        let key = 1 << 63 | (from as u64) << 47 | (to as u64) << 31 | (*number as u64 & 0x7fff_ffff);
        let spec = CallSpec::plain(What::Transfer { from, to }, count, size, kind);
        Post { comm: self.comm, key, spec, member: !send as u32, members: 2 }
    }
}
