//! Communication between hosts by libfabric, which is opened at run time.
//!
//! [`OfiEndpoint`] is the safe side. Whatever comes from the network is data for the caller to judge; here only the library itself is relied on.

#[allow(missing_docs)]
mod abi;
mod completions;
mod discovery;
mod endpoint;
mod library;
mod memory;
mod second;
#[cfg(all(test, not(loom)))]
mod tests;
mod transfer;
mod wakeup;

pub use endpoint::OfiEndpoint;

use crate::error::Result;
use crate::sys::endpoint::{
    Endpoint, LentRange, MappedRegion, MemoryId, PeerId, Place, RemoteMemory, Report, SourceRange, Use,
};
use std::os::fd::RawFd;
use std::time::Duration;

impl Endpoint for OfiEndpoint {
    fn name(&self) -> &[u8] {
        &self.name
    }
    fn most_ranges(&self) -> usize {
        self.most_ranges
    }
    fn insert(&mut self, name: &[u8]) -> Result<PeerId> {
        self.insert(name)
    }
    fn obstacle(&self, _: PeerId) -> Option<String> {
        None
    }
    fn register(
        &mut self,
        region: Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> Result<MemoryId> {
        self.register(region, at, bytes, used)
    }
    fn remote(&self, memory: MemoryId) -> RemoteMemory {
        self.remote(memory)
    }
    fn send(&mut self, to: PeerId, message: &[u64]) -> Result<bool> {
        self.send(to, message)
    }
    fn write(
        &mut self,
        to: PeerId,
        source: SourceRange<'_>,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        self.write(to, source, trailer, places, data)
    }
    fn pending(&self) -> usize {
        self.pending()
    }
    fn takes_lent(&self) -> bool {
        self.takes_lent()
    }
    fn holds_lent(&self) -> bool {
        self.lent != 0
    }
    fn give_back_lent(&mut self, to: &dyn Fn(PeerId) -> bool, withdraw: &dyn Fn(&mut [u64])) {
        self.give_back_lent(to, withdraw);
    }
    fn poll(&mut self, sink: &mut dyn FnMut(Report<'_>)) -> Result<()> {
        self.poll(sink)
    }
    fn has_descriptor(&self) -> bool {
        self.has_descriptor()
    }
    fn open_descriptor(&mut self) -> Option<RawFd> {
        self.open_descriptor()
    }
    fn close_descriptor(&mut self) {
        self.close_descriptor();
    }
    fn may_sleep(&mut self) -> Option<Duration> {
        self.may_sleep().then_some(Duration::MAX)
    }
    fn open_second(&mut self) -> Result<Vec<u8>> {
        self.open_second()
    }
    fn open_to_others(&mut self, range: &dyn LentRange) -> Result<RemoteMemory> {
        self.open_to_others(range)
    }
    fn close_to_others(&mut self, key: u64) {
        self.close_to_others(key);
    }
    fn write_by_second(
        &mut self,
        to: PeerId,
        range: &dyn LentRange,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool> {
        self.write_by_second(to, range, trailer, places, data)
    }
    fn held_by_second(&self, to: PeerId) -> usize {
        self.held_by_second(to)
    }
    fn shut_second(&mut self) {
        self.shut_second();
    }
    fn shut(&mut self) {
        self.shut();
    }
}

/// Tells whether a libfabric can be loaded, with the sentence if not.
#[cfg(test)]
pub fn is_there() -> crate::error::Result<()> {
    library::load().map(drop)
}
