//! Joining a communicator that is made from another. Its ranks know each other and share memory already: it gets a part of the file
//! that holds the first communicator of its ancestry, and the heaps that its parent has mapped.

use super::attach::attach;
use super::declared;
use super::lifeline::Lifeline;
use crate::bootstrap::StopCheck;
use crate::comm::communicator::CommCore;
use crate::comm::config::{Config, MOST_STAGING, Settings};
use crate::comm::registry;
use crate::comm::shared::{CommHandle, Origin};
use crate::error::Result;
use crate::fabric::live::Placement;
use crate::memory::control::{ChildPlace, Control};
use crate::planner::Planner;
use crate::sys::process;
use crate::timing::Timing;
use crate::transport::far::Far;
use crate::transport::identity::Cause;
use crate::transport::threads::RankThreads;
use crate::transport::{JOINING, Transport};
use crate::types::Rank;
use std::sync::{Arc, Weak};

/// The parameters with which a rank joins.
pub(super) struct ChildEntrance<'a> {
    pub handle: CommHandle,
    /// This rank in the child.
    pub rank: Rank,
    /// The members' ranks in the parent, by rank.
    pub members: &'a [Rank],
    pub config: &'a Config,
    pub settings: Settings,
    /// The members' places on the parent's declared machine, if it has one.
    pub placement: Option<Placement>,
}

/// Takes the memory of a child, for all its members.
pub(super) fn place(parent: &CommCore, members: &[Rank], settings: &Settings) -> Result<ChildPlace> {
    let on_machine = parent.timing().is_declared();
    let nranks = members.len() as u32;
    parent.transport.control().place_for_child(nranks, settings.staging_bytes(nranks, on_machine))
}

/// What the ranks of a child share: the segment of its ranks on this host, and links to those on others.
pub(super) struct ChildMemory {
    pub control: Arc<Control>,
    pub far: Option<Far>,
}

impl ChildMemory {
    /// Maps the segment that the first of `members` on this host has taken.
    pub fn map(parent: &Transport, members: &[Rank], place: ChildPlace) -> Result<ChildMemory> {
        let place = ChildPlace { staging: place.staging.min(MOST_STAGING), ..place };
        let near = members.iter().filter(|&&rank| !parent.is_far(rank)).count();
        let control = Control::child(parent.control(), members.len() as u32, near as u32, place)?;
        Ok(ChildMemory { control: Arc::new(control), far: None })
    }
}

impl ChildEntrance<'_> {
    /// Joins the child in the memory that its first rank has taken. `watch`: the check while the rank waits for the others.
    pub fn join(self, parent: &CommCore, memory: ChildMemory, watch: StopCheck<'_>) -> Result<CommCore> {
        let ChildEntrance { handle, rank, members, config, settings, placement } = self;
        let (shared, above) = (&parent.shared, &parent.transport);
        let nranks = members.len() as u32;
        let ChildMemory { control, far } = memory;
        die_point!(81 "join_met");
        let heaps = members.iter().map(|&r| above.shared_heap(r)).collect();
        let backoff = above.backoff_for_child(settings.spins);
        let root = registry::shared(shared.origin.root).ok();
        let ancestor = root.map_or_else(Weak::new, |root| Arc::downgrade(&root.transport));
        let transport = Transport::new(control.clone(), rank, heaps, backoff, settings.timeout_ns);
        let threads = RankThreads::new(settings.threads);
        let transport = transport.with_ancestor(ancestor).with_threads(threads);
        let transport = Arc::new(transport.with_far(far));
        transport.introduce_members(above, members);
        if transport.has_far() {
            transport.know_hosts(above, members);
            let world = members.iter().map(|&r| shared.origin.world[r as usize]).collect();
            Lifeline::extend(above, &transport, world);
        }
        transport.tell_single_copy_as(above);
        let membership = control.keep(rank)?;
        die_point!(84 "join_kept");
        // ONE-WAY: from here on the others may count on this rank, so every way out either joins or tells them.
        attach(&transport, process::card(), watch, &|e| e).inspect_err(|_| {
            if let Some(cause) = watch().err().and_then(|_| above.cause()) {
                transport.publish_cause(Cause::abroad(cause));
            }
            transport.fail(JOINING);
        })?;
        die_point!(89 "attach_all");
        let planner = Planner::new(rank, nranks, settings.selection.with_profile(parent.planner.profile()));
        let planner = planner.on_hosts(transport.host_numbers());
        let planner = declared::planner(planner, &transport, placement.as_ref());
        let origin = Origin {
            config: config.clone(),
            parent_ranks: Some(members.to_vec()),
            root: shared.origin.root,
            world: members.iter().map(|&r| shared.origin.world[r as usize]).collect(),
        };
        let timing = Timing::new(transport, placement, &origin.world);
        die_point!(90 "join_placed");
        Ok(CommCore::new(handle, timing, membership, planner, shared.device, origin))
    }
}
