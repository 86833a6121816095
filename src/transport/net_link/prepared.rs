//! An endpoint on each rail before and while it comes to know its peers.

use super::address::{RailAddress, RankAddress};
use super::peer::{self, FarPeer};
use super::rails::Rails;
use super::straight::Straight;
use super::trailer::TRAILERS;
use super::{CONNECT_NS, GRACE_NS, LARGEST_ADDRESS, NetLink, Others, State, lost_frames};
use crate::env;
use crate::error::{Error, Result};
use crate::memory::control::Control;
use crate::memory::control::lines::Lines;
use crate::sync::lock::Mutex;
use crate::sync::prim::AtomicBool;
use crate::sys::endpoint::{Carrier, Use};
use crate::sys::host::{self, HostIdentity};
use crate::sys::network::Interface;
use crate::sys::{fork, process};
use crate::transport::far::Far;
use crate::types::Rank;
use std::sync::Arc;

/// An endpoint that others can be told of, before they are known.
pub struct Prepared {
    rails: Rails,
    interfaces: Vec<Interface>,
    pub(super) near: Arc<Control>,
    pub(super) mirror: Arc<Lines>,
    pub(super) rank: Rank,
    pub(super) own: RankAddress,
    /// The communicator is made from another.
    is_child: bool,
}

impl NetLink {
    /// Opens an endpoint for rank `rank` of `nranks` on each of some interfaces, which are its rails.
    /// `near`: the control segment of this rank's host, whose layout is the same on all hosts.
    pub fn prepare(
        near: &Arc<Control>,
        rank: Rank,
        nranks: u32,
        interfaces: &[Interface],
        carrier: &Carrier,
    ) -> Result<Prepared> {
        NetLink::prepare_without(near, rank, nranks, interfaces, carrier, None)
    }

    /// The same. `cut`: the rails that are cut of the communicator that this one is made from, a bit for each.
    pub fn prepare_without(
        near: &Arc<Control>,
        rank: Rank,
        nranks: u32,
        interfaces: &[Interface],
        carrier: &Carrier,
        cut: Option<u32>,
    ) -> Result<Prepared> {
        if nranks > 1 << (u32::BITS - peer::NUMBER_BITS) {
            return Err(Error::usage(format!(
                "{nranks} ranks are too many for several hosts, which can have {}",
                1 << (u32::BITS - peer::NUMBER_BITS)
            )));
        }
        let layout = near.layout();
        let mut left_out = cut.unwrap_or(0);
        let mut rails = match cut {
            None => Rails::open(carrier, interfaces)?,
            Some(_) => Rails::open_without(carrier, interfaces, &mut left_out)?,
        };
        let behind = nranks as usize * TRAILERS * 8;
        let mirror = Arc::new(Lines::private(layout, behind)?);
        let (begin, end) = (layout.bytes_at(), mirror.segment().bytes());
        let region = || Box::new(mirror.segment().clone()) as _;
        let written = rails.register(region, begin, end - begin, Use::Written)?;
        let rail = |(at, interface): (usize, &Interface)| RailAddress {
            at: interface.address,
            endpoint: rails[at].name().to_vec(),
            memory: rails[at].remote(written),
        };
        let own = RankAddress {
            host: HostIdentity::this(env::get("PENNY_HOST_ID").as_deref()).name(),
            rails: interfaces.iter().enumerate().map(rail).collect(),
            machine: host::machine(),
            token: u64::from_ne_bytes(process::random()),
            with_trailers: (0..rails.len()).all(|rail| rails[rail].most_ranges() >= 2),
            total: layout.total() as u64,
            cut: left_out,
        };
        let bytes = own.bytes().len();
        if bytes > LARGEST_ADDRESS {
            return Err(Error::usage(format!(
                "the addresses of {} interfaces take {bytes} bytes with this provider, more than the {LARGEST_ADDRESS} that there is room for; \
                 name fewer in PENNY_NET_IFACES",
                rails.len()
            )));
        }
        Ok(Prepared {
            rails,
            interfaces: interfaces.to_vec(),
            near: near.clone(),
            mirror,
            rank,
            own,
            is_child: cut.is_some(),
        })
    }
}

impl Prepared {
    /// What the far ranks have to know of this one, at most [`LARGEST_ADDRESS`] bytes. Who knows it can write to this communicator's mirror.
    pub fn blob(&self) -> Vec<u8> {
        self.own.bytes()
    }

    /// Makes far peers of the ranks whose blobs are given, by rank.
    pub fn connect(self, far: &[Option<Vec<u8>>]) -> Result<Far> {
        self.connect_without(far, 0)
    }

    /// The same without these rails, which have been cut since, a bit for each. Those that a rank has not opened are left out, too.
    pub fn connect_without(self, far: &[Option<Vec<u8>>], cut_since: u32) -> Result<Far> {
        let is_far: Box<[bool]> = far.iter().map(Option::is_some).collect();
        let (rank, mirror) = (self.rank, self.mirror.clone());
        let (near, machine) = (self.near.clone(), self.own.machine);
        let link = self.link_without(far, cut_since)?;
        let beside = link.state.lock().others.ranks_of(machine);
        let mut far = Far::new(&near, rank, is_far, mirror, Box::new(link))?;
        far.beside = beside;
        Ok(far)
    }

    #[cfg(test)]
    pub(super) fn link(self, far: &[Option<Vec<u8>>]) -> Result<NetLink> {
        self.link_without(far, 0)
    }

    pub(super) fn link_without(mut self, far: &[Option<Vec<u8>>], cut_since: u32) -> Result<NetLink> {
        let layout = self.near.layout();
        let (mut peers, mut ranks) = (Vec::new(), Vec::new());
        for (rank, blob) in (0..).zip(far) {
            let Some(blob) = blob else {
                peers.push(None);
                continue;
            };
            let address = RankAddress::of(blob, rank, layout)?;
            address.check_rails(rank, &self.interfaces)?;
            let mut id = None;
            for (at, rail) in address.rails.iter().enumerate() {
                id = Some(self.rails[at].insert(&rail.endpoint)?);
            }
            peers.extend(id.map(|id| Some(FarPeer::new(id, address))));
            ranks.push(rank);
        }
        let mut sources = Vec::new();
        for (at, bytes) in
            [layout.payloads_of(self.rank), layout.staging(self.rank), layout.rings_of(self.rank)]
        {
            let region = || Box::new(self.near.segment().clone()) as _;
            sources.push((self.rails.register(region, at, bytes, Use::Send)?, at, bytes));
        }
        let others = Others {
            rank: self.rank,
            near: self.near,
            mirror: self.mirror,
            sources,
            token: self.own.token,
            with_trailers: self.own.with_trailers,
            takes_lent: self.own.with_trailers && self.rails.len() == 1 && self.rails[0].takes_lent(),
            straight: Straight::Closed,
            // Peers are to be greeted by several.
            is_waiting: self.interfaces.len() > 1,
            interfaces: self.interfaces,
            owes_answers: false,
            closed: 0,
            to_close: 0,
            is_child: self.is_child,
            next_look_ns: 0,
            peers,
            ranks,
            holds: false,
            holds_arrival: false,
            patience: 0,
            patience_ns: CONNECT_NS,
            settle_ns: GRACE_NS,
            look_ns: lost_frames::LOOK_NS,
            late_ns: lost_frames::LATE_NS,
            is_lost: false,
            said_goodbye: false,
            refused: 0,
        };
        let mut state = State {
            rails: self.rails,
            others,
            #[cfg(test)]
            unpolled: 0,
        };
        state.leave_out(self.own.cut, cut_since)?;
        let state = Mutex::new(state);
        Ok(NetLink { state, may_hold_arrival: AtomicBool::new(false), generation: fork::generation() })
    }
}
