//! The rails of a rank's link: an endpoint on each interface.
//!
//! ```text
//!     rail 0    messages, and writes            eth0  10.0.1.1  ------------  10.0.1.2  eth0    rail 0
//!     rail 1    writes                          eth1  10.0.2.1  ------------  10.0.2.2  eth1    rail 1
//! ```
//!
//! Rail i of a rank reaches rail i of each far rank. A write goes by the rail with the fewest bytes under way to its peer. Writes of all rails
//! have one sequence of numbers, and so have their frames: no order among rails is asked for.

use super::MESSAGE;
use crate::error::{Error, Result};
use crate::sys::endpoint::{Carrier, Endpoint, MappedRegion, MemoryId, PeerId, Use};
use crate::sys::network::Interface;
use crate::sys::watched::Watched;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;
use std::time::Duration;

/// The endpoints of a link, one on each rail.
pub struct Rails {
    endpoints: Vec<Box<dyn Endpoint>>,
    /// If there are several, while a thread may sleep.
    any: Option<Watched>,
}

impl Rails {
    /// Opens an endpoint on each of these interfaces.
    pub fn open(carrier: &Carrier, interfaces: &[Interface]) -> Result<Rails> {
        let open = |interface: &Interface| carrier.open(interface.address, MESSAGE);
        let endpoints = interfaces.iter().map(open).collect::<Result<Vec<_>>>()?;
        Ok(Rails { endpoints, any: None })
    }

    /// The same for a communicator that is made from another, of which the rails in `cut` are cut, a bit for each. A rail that cannot be opened has been cut
    /// since, and is added.
    pub fn open_without(carrier: &Carrier, interfaces: &[Interface], cut: &mut u32) -> Result<Rails> {
        let mut rails = Rails { endpoints: Vec::with_capacity(interfaces.len()), any: None };
        let mut why = None;
        for (at, interface) in interfaces.iter().enumerate() {
            let opened = (*cut >> at & 1 == 0).then(|| carrier.open(interface.address, MESSAGE));
            let endpoint = match opened {
                Some(Ok(endpoint)) => endpoint,
                failed => {
                    why = failed.and_then(Result::err).or(why);
                    *cut |= 1 << at;
                    // In its place, and shut before anything goes by it. Of the same kind: peers that have opened theirs take in no other address.
                    let loopback = match interface.address {
                        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
                    };
                    carrier.open(loopback, MESSAGE)?
                }
            };
            rails.endpoints.push(endpoint);
        }
        match *cut == (1 << interfaces.len()) - 1 {
            true => Err(why.unwrap_or_else(|| Error::internal("all rails are cut"))),
            false => Ok(rails),
        }
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Registers bytes with each endpoint. The number of the memory is the same for all: they are registered in one order.
    pub fn register(
        &mut self,
        region: impl Fn() -> Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> Result<MemoryId> {
        let mut first = None;
        for endpoint in &mut self.endpoints {
            let memory = endpoint.register(region(), at, bytes, used)?;
            assert_eq!(*first.get_or_insert(memory), memory, "rails that differ");
        }
        first.ok_or_else(|| Error::internal("a link without rails"))
    }

    /// Tells whether each endpoint can have a descriptor.
    pub fn have_descriptor(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.has_descriptor())
    }

    /// Opens a descriptor that becomes readable when something has come by any of them. `None`: there is none now.
    pub fn open_descriptor(&mut self) -> Option<RawFd> {
        let all: Option<Vec<RawFd>> =
            self.endpoints.iter_mut().map(|endpoint| endpoint.open_descriptor()).collect();
        match all?[..] {
            [one] => Some(one),
            ref several => Some(self.any.insert(Watched::of(several).ok()?).descriptor()),
        }
    }

    /// Closes it.
    pub fn close_descriptor(&mut self) {
        self.any = None;
        self.endpoints.iter_mut().for_each(|endpoint| endpoint.close_descriptor());
    }

    /// How long the descriptor may be waited for. `None`: poll first.
    pub fn may_sleep(&mut self) -> Option<Duration> {
        let mut times = self.endpoints.iter_mut().map(|endpoint| endpoint.may_sleep());
        times.try_fold(Duration::MAX, |least, time| Some(least.min(time?)))
    }
}

impl Index<usize> for Rails {
    type Output = dyn Endpoint;
    fn index(&self, rail: usize) -> &Self::Output {
        &*self.endpoints[rail]
    }
}

impl IndexMut<usize> for Rails {
    fn index_mut(&mut self, rail: usize) -> &mut Self::Output {
        &mut *self.endpoints[rail]
    }
}

/// Returns a rail's name for sentences: the interface, and the addresses of both ends.
pub fn text(interface: &Interface, there: IpAddr) -> String {
    let name = if interface.name.is_empty() { "the network" } else { &interface.name };
    format!("{name} ({} here, {there} there)", interface.address)
}

/// Returns what keeps a peer from being reached, in brackets; empty if that is not known.
pub fn obstacle(endpoint: &dyn Endpoint, to: PeerId) -> String {
    endpoint.obstacle(to).map_or(String::new(), |why| format!(" ({why})"))
}
