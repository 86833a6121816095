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
use crate::sys::any_readable::AnyReadable;
use crate::sys::network::Interface;
use crate::sys::ofi::{Endpoint, MappedRegion, MemoryId, Use};
use std::net::IpAddr;
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;

/// The endpoints of a link, one on each rail.
pub struct Rails {
    endpoints: Vec<Endpoint>,
    /// If there are several.
    any: Option<AnyReadable>,
}

impl Rails {
    /// Opens an endpoint on each of these interfaces.
    pub fn open(provider: Option<&str>, interfaces: &[Interface]) -> Result<Rails> {
        let open = |interface: &Interface| Endpoint::open(provider, interface.address, MESSAGE);
        let endpoints = interfaces.iter().map(open).collect::<Result<Vec<_>>>()?;
        let mut rails = Rails { endpoints, any: None };
        let descriptors: Option<Vec<RawFd>> = rails.endpoints.iter().map(Endpoint::descriptor).collect();
        if let Some(descriptors) = descriptors.filter(|all| all.len() > 1) {
            let any = AnyReadable::of(&descriptors);
            rails.any = Some(any.map_err(|e| {
                Error::system(format!(
                    "cannot wait for several network interfaces: {e}; raise the limit of open files"
                ))
            })?);
        }
        Ok(rails)
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

    /// Returns a descriptor that becomes readable when something has come by any of them.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.any {
            Some(any) => Some(any.descriptor()),
            None => self.endpoints.first().filter(|_| self.len() == 1)?.descriptor(),
        }
    }

    /// Tells whether the descriptor may be waited for.
    pub fn may_sleep(&mut self) -> bool {
        self.endpoints.iter_mut().all(Endpoint::may_sleep)
    }
}

impl Index<usize> for Rails {
    type Output = Endpoint;
    fn index(&self, rail: usize) -> &Endpoint {
        &self.endpoints[rail]
    }
}

impl IndexMut<usize> for Rails {
    fn index_mut(&mut self, rail: usize) -> &mut Endpoint {
        &mut self.endpoints[rail]
    }
}

/// Returns a rail's name for sentences: the interface, and the addresses of both ends.
pub fn text(interface: &Interface, there: IpAddr) -> String {
    let name = if interface.name.is_empty() { "the network" } else { &interface.name };
    format!("{name} ({} here, {there} there)", interface.address)
}
