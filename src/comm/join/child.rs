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
    let t = &parent.transport;
    t.control().place_for_child(nranks, settings.staging_bytes(nranks, on_machine, t.staging_kind(members)))
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
        let own_cores = transport.single_copy().has_own_cores();
        let selection = settings.selection.with_profile(parent.planner.profile()).with_own_cores(own_cores);
        let planner = Planner::new(rank, nranks, selection);
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
        Ok(CommCore::new(handle, timing, membership, planner, shared.device, origin, settings.zero_copy_from))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::comm::{self, Call, CommHandle, Transfer, registry};
    use crate::memory::view::Address;
    use crate::transport::look::Communicators;
    use crate::types::{Collective, DataType, RedOp};

    fn sum(comm: CommHandle, bytes: usize) {
        let mut data = vec![1u8; bytes];
        let address = Address::of_mut(&mut data);
        let (collective, dtype) = (Collective::AllReduce, DataType::Uint8);
        let call = Call {
            collective,
            send: address,
            recv: address,
            count: bytes,
            dtype,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        comm::collective_now(comm, &call).unwrap();
    }

    #[test]
    fn a_look_from_outside_finds_calls_messages_and_children() {
        let ranks = comm::init_all(2).unwrap();
        let file =
            registry::shared(ranks[0]).unwrap().transport.control().file().unwrap().try_clone().unwrap();
        let look = || Communicators::of(&file).look();
        assert_eq!(look().len(), 1);
        let (tell, told) = std::sync::mpsc::channel();
        let mut told = Some(told);
        let child = std::thread::scope(|scope| {
            let mut one = |rank: usize| {
                let comm = ranks[rank];
                let told = if rank == 1 { told.take() } else { None };
                scope.spawn(move || {
                    told.inspect(|told| told.recv().unwrap());
                    (0..10).for_each(|_| sum(comm, 100));
                    sum(comm, 3000);
                    let mut byte = [7];
                    let (buffer, peer) = (Address::of_mut(&mut byte), 1 - rank as i32);
                    let (count, dtype) = (1, DataType::Uint8);
                    let transfer =
                        Transfer { send: rank == 0, buffer, count, dtype, peer, of_collective: false };
                    comm::transfer_now(comm, &transfer).unwrap();
                    let child = comm::split_now(comm, Some(0), 0).unwrap().unwrap();
                    sum(child, 5);
                    child
                })
            };
            let threads = [0, 1].map(&mut one);
            // Rank 1 goes on when rank 0 is seen to wait for it.
            while look()[0].ranks[0].waiting_ns.is_none() {
                std::thread::yield_now();
            }
            tell.send(()).unwrap();
            threads.map(|thread| thread.join().unwrap())
        });
        let filled = || crate::sys::shm::filled(&file);
        let before = filled();
        let looks = look();
        assert_eq!((look().len(), filled()), (2, before), "a look takes no memory");
        let places: Vec<_> = looks.iter().map(|look| (look.at > 0, look.nranks, look.ranks.len())).collect();
        assert_eq!(places, [(false, 2, 2), (true, 2, 2)]);
        for (number, rank) in looks[0].ranks.iter().enumerate() {
            let (collective, amount) = rank.collectives[0];
            assert_eq!((collective, rank.state), (Collective::AllReduce, "member"));
            assert_eq!((rank.rank, rank.pid), (number as u32, std::process::id()));
            assert!(number == 1 || rank.waited_ns > 0);
            assert_eq!((amount.number, amount.bytes), (11, 4000), "{rank:?}");
            let messages = [rank.sent, rank.received].map(|amount| (amount.number, amount.bytes));
            assert_eq!(messages[number], (1, 1));
            assert_eq!(messages[1 - number], (0, 0));
        }
        let last = looks[1].ranks[0].last_call.as_deref();
        assert_eq!(last, Some("#1 all_reduce(count 5, type uint8, op sum)"));
        child.into_iter().chain(ranks).for_each(|rank| comm::abort(rank).unwrap());
    }
}
