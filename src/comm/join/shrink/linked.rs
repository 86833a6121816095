//! Members of a smaller communicator on other hosts: connecting to them, and what becomes of them meanwhile.

use super::super::child::ChildMemory;
use super::{Attempt, Wish, did_not_call, given_up};
use crate::error::Result;
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// What a member on another host has done since this rank connected to it.
pub(super) enum Since {
    Nothing,
    Made,
    GaveUp,
}

impl Attempt<'_> {
    /// Adds links to the members on other hosts.
    pub(super) fn link(&self, memory: ChildMemory, rank: Rank) -> Result<ChildMemory> {
        let Some(link) = memory.prepare_link(self.t, self.members, rank)? else { return Ok(memory) };
        self.t.tell_shrink(&link.blob());
        let told = |&member: &Rank| {
            let making = self.t.making(member);
            let same = Wish(Self::words(self.t, member)[0]).excludes_the_same(self.wish);
            // It may not have ended the attempt to which this rank has connected before.
            let is_old = self.last_far.contains(&(member, making.ended()));
            (same && !is_old && making.endpoint.is_some()).then_some((member, making))
        };
        let far = || self.members.iter().filter(|&&member| self.t.is_far(member));
        let missing = || far().find(|&member| told(member).is_none());
        let expired = || did_not_call(*missing().unwrap_or(&self.first));
        self.t.wait_watching(self.t.deadline(), || missing().is_none(), || self.watch(), expired)?;
        let all = far().map(|member| told(member).ok_or_else(|| given_up(*member)));
        let all = all.collect::<Result<Vec<_>>>()?;
        let all = self.far.get_or_init(|| all);
        let blob = |&member: &Rank| all.iter().find(|(far, _)| *far == member)?.1.endpoint.clone();
        let blobs: Vec<_> = self.members.iter().map(blob).collect();
        Ok(ChildMemory { far: Some(link.connect_without(&blobs, self.t.cut_rails())?), ..memory })
    }

    /// Have all members on this host attached to the new communicator? Those on others may still be missing.
    pub(super) fn have_near_attached(&self) -> bool {
        let near = self.members.iter().filter(|&&member| !self.t.is_far(member)).count() as u32;
        self.child.get().is_some_and(|child| child.header().attached.load(Ordering::Acquire) >= near)
    }

    /// Tells what a member on another host has done since this rank connected to it.
    pub(super) fn since_then(&self, member: Rank) -> Since {
        let Some((_, then)) = self.far.get().and_then(|far| far.iter().find(|(rank, _)| *rank == member))
        else {
            return Since::Nothing;
        };
        let now = self.t.making(member);
        match (now.given_up != then.given_up, now.made != then.made) {
            (true, _) => Since::GaveUp,
            (false, true) => Since::Made,
            (false, false) => Since::Nothing,
        }
    }

    /// Has a member seen all others in the new communicator? Only one that leaves this one is asked about.
    pub(super) fn has_made(&self, member: Rank) -> bool {
        match self.t.is_far(member) {
            true => matches!(self.since_then(member), Since::Made),
            false => self.have_near_attached(),
        }
    }

    /// Returns the members to which this rank has connected, now or before, and how many attempts each had ended when it did so last.
    pub(super) fn connected(&self) -> Vec<(Rank, u64)> {
        let now = self.far.get().into_iter().flatten().map(|(rank, making)| (*rank, making.ended()));
        let mut all: Vec<(Rank, u64)> = now.collect();
        // An attempt without a member leaves what was known of it.
        let before = self.last_far.iter().filter(|(rank, _)| all.iter().all(|(now, _)| now != rank));
        let before: Vec<_> = before.copied().collect();
        all.extend(before);
        all
    }
}
