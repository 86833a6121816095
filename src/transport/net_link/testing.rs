//! Ranks that are threads of this process, with links over loopback between their hosts.

use super::NetLink;
use super::wire::HEADER;
use crate::error::Result;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::cpu;
use crate::sys::endpoint::Carrier;
pub use crate::sys::endpoint::carriers;
use crate::sys::network::Interface;
use crate::transport::Transport;
use crate::transport::far::Far;
use crate::transport::in_process::{connected, controls};
use crate::transport::link::{Frame, Incoming, Link, StraightLink};
use crate::types::Rank;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// How links write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// As the provider can.
    WithTrailers,
    /// As if it could fill one range only.
    Alone,
    /// As the provider can, by two rails.
    ByTwoRails,
}

/// Addresses of this host, for as many rails.
pub fn rails(number: u8) -> Vec<Interface> {
    let other =
        |at: u8| Interface { name: format!("lo{at}"), address: [127, 0, 0, at].into(), is_loopback: true };
    [Interface::loopback()].into_iter().chain((2..=number).map(other)).collect()
}

/// A link of a rank that may die.
struct Mortal {
    link: NetLink,
    dead: Arc<[AtomicBool]>,
    rank: Rank,
}

impl Mortal {
    fn is_dead(&self) -> bool {
        self.dead[self.rank as usize].load(Ordering::SeqCst)
    }
}

impl Link for Mortal {
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()> {
        if self.is_dead() { Ok(()) } else { self.link.post(to, frame) }
    }
    fn flush(&self) -> Result<()> {
        if self.is_dead() { Ok(()) } else { self.link.flush() }
    }
    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        if self.is_dead() { self.link.poll(&mut |_| ()) } else { self.link.poll(sink) }
    }
    fn is_behind(&self) -> bool {
        self.link.is_behind()
    }
    fn takes_lent(&self) -> Option<usize> {
        self.link.takes_lent()
    }
    fn holds_lent(&self) -> bool {
        self.link.holds_lent()
    }
    fn give_back_lent(&self) {
        self.link.give_back_lent()
    }
    fn straight(&self) -> Option<&dyn StraightLink> {
        self.link.straight()
    }
    fn has_descriptor(&self) -> bool {
        self.link.has_descriptor()
    }
    fn open_descriptor(&self) -> Option<RawFd> {
        self.link.open_descriptor()
    }
    fn close_descriptor(&self) {
        self.link.close_descriptor();
    }
    fn may_sleep(&self) -> Option<Duration> {
        self.link.may_sleep()
    }
}

/// The ranks of several hosts.
pub struct Loopback {
    /// Their transports, by rank.
    pub transports: Vec<Arc<Transport>>,
    dead: Arc<[AtomicBool]>,
}

impl Loopback {
    /// Ranks on hosts as `hosts` says by rank.
    pub fn new(hosts: &[u32], carrier: &Carrier, writes: Writes, timeout_ms: u64) -> Loopback {
        let controls = controls(hosts);
        let rails = if writes == Writes::ByTwoRails { rails(2) } else { vec![Interface::loopback()] };
        let prepare = |(rank, near): (Rank, _)| {
            let mut prepared = NetLink::prepare(near, rank, hosts.len() as u32, &rails, carrier).unwrap();
            prepared.own.with_trailers &= writes != Writes::Alone;
            Some(prepared)
        };
        let mut prepared: Vec<_> = (0..).zip(&controls).map(prepare).collect();
        let blobs: Vec<_> = prepared.iter().flatten().map(|prepared| prepared.blob()).collect();
        let dead: Arc<[AtomicBool]> = hosts.iter().map(|_| AtomicBool::new(false)).collect();
        let transports = connected(hosts, &controls, timeout_ms, |rank, far| {
            let blobs: Vec<_> =
                far.iter().zip(&blobs).map(|(&far, blob)| far.then(|| blob.clone())).collect();
            let prepared = prepared[rank as usize].take().unwrap();
            let (near, mirror) = (&controls[rank as usize], prepared.mirror.clone());
            let link = Mortal { link: prepared.link(&blobs).unwrap(), dead: dead.clone(), rank };
            Far::new(near, rank, far, mirror, Box::new(link)).unwrap()
        });
        Loopback { transports, dead }
    }

    /// Ends a rank's process, as far as others see: it sends nothing any more, and something else than the link tells of it.
    pub fn kill(&self, rank: Rank) {
        self.dead[rank as usize].store(true, Ordering::SeqCst);
        self.transports.iter().for_each(|t| t.note_far_death(rank));
    }
}

/// Ranks whose links nobody attends to, and their links.
pub struct Unattended {
    /// Their transports, by rank.
    pub transports: Vec<Arc<Transport>>,
    /// Their links.
    pub links: Vec<Arc<NetLink>>,
}

/// The same link without a descriptor.
struct Shared(Arc<NetLink>);

impl Link for Shared {
    fn post(&self, to: Rank, frame: Frame<'_>) -> Result<()> {
        self.0.post(to, frame)
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn poll(&self, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        self.0.poll(sink)
    }
    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }
}

impl Unattended {
    /// Ranks on hosts as `hosts` says by rank, which are connected.
    pub fn new(hosts: &[u32], carrier: &Carrier) -> Unattended {
        let controls = controls(hosts);
        let prepare = |(rank, near): (Rank, _)| {
            Some(NetLink::prepare(near, rank, hosts.len() as u32, &rails(1), carrier).unwrap())
        };
        let mut prepared: Vec<_> = (0..).zip(&controls).map(prepare).collect();
        let blobs: Vec<_> = prepared.iter().flatten().map(|prepared| prepared.blob()).collect();
        let mut links = Vec::new();
        let transports = connected(hosts, &controls, 60_000, |rank, far| {
            let blobs: Vec<_> =
                far.iter().zip(&blobs).map(|(&far, blob)| far.then(|| blob.clone())).collect();
            let prepared = prepared[rank as usize].take().unwrap();
            let mirror = prepared.mirror.clone();
            let link = Arc::new(prepared.link(&blobs).unwrap());
            links.push(link.clone());
            Far::new(&controls[rank as usize], rank, far, mirror, Box::new(Shared(link))).unwrap()
        });
        let all = Unattended { transports, links };
        let ranks = || 0..hosts.len() as Rank;
        all.until(|t| ranks().all(|rank| t.joined(rank)));
        all
    }

    /// Polls until `done` holds for all ranks.
    pub fn until(&self, done: impl Fn(&Transport) -> bool) {
        // BOUND: what was posted.
        while !self.transports.iter().all(|t| done(t)) {
            self.transports.iter().for_each(|t| t.poll_far());
            cpu::yield_now();
        }
    }
}

impl NetLink {
    /// Words that are held back for a rank.
    pub fn held_for(&self, to: Rank) -> usize {
        self.state.lock().others.peer(to).map_or(0, |peer| peer.held.len() - HEADER)
    }
}
