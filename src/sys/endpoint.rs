//! What carries bytes to ranks of other hosts: an endpoint sends messages to others, writes to registered memory of theirs, and tells what has come.
//!
//! [`tcp`](super::tcp) is the library's own, over sockets; [`ofi`](super::ofi) is any provider of libfabric. Whatever comes from the network is
//! data for the caller to judge.

use super::ofi::OfiEndpoint;
use super::tcp::TcpEndpoint;
use crate::error::Result;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::RawFd;
use std::time::Duration;

/// What carries the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// TCP, at these ports; `None`: at any.
    Tcp(Option<RangeInclusive<u16>>),
    /// A provider of libfabric.
    Libfabric(String),
}

impl Carrier {
    /// Opens an endpoint at a local address, for messages of up to `words` words of 8 bytes.
    pub fn open(&self, address: IpAddr, words: usize) -> Result<Box<dyn Endpoint>> {
        Ok(match self {
            Carrier::Tcp(ports) => Box::new(TcpEndpoint::open(address, words, ports.as_ref())?),
            Carrier::Libfabric(provider) => Box::new(OfiEndpoint::open(provider, address, words)?),
        })
    }
}

/// TCP, and libfabric if there is one. If not, a line says that it is left out.
#[cfg(test)]
pub fn carriers() -> &'static [Carrier] {
    static ALL: std::sync::OnceLock<Vec<Carrier>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        let libfabric = super::ofi::is_there().inspect_err(|why| println!("LEFT OUT: {why}"));
        let libfabric = libfabric.map(|()| Carrier::Libfabric("tcp".into()));
        [Carrier::Tcp(None)].into_iter().chain(libfabric).collect()
    })
}

/// A queue of messages and writes to other endpoints of its kind, and of those that come. Dropping it ends what is under way.
pub trait Endpoint: Send {
    /// The name by which other endpoints reach this one.
    fn name(&self) -> &[u8];
    /// Ranges of a target's memory that one write can fill.
    fn most_ranges(&self) -> usize;
    /// Makes a peer of the endpoint with this name, which was made on another host.
    fn insert(&mut self, name: &[u8]) -> Result<PeerId>;
    /// Returns what keeps a peer from being reached, if that is known.
    fn obstacle(&self, to: PeerId) -> Option<String>;

    /// Registers bytes `at .. at + bytes` of a region. They must lie within.
    fn register(
        &mut self,
        region: Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> Result<MemoryId>;
    /// What another endpoint has to know to write to a memory.
    fn remote(&self, memory: MemoryId) -> RemoteMemory;

    /// Sends a message, which is copied. `false`: not now; poll and try again.
    fn send(&mut self, to: PeerId, message: &[u64]) -> Result<bool>;
    /// Writes a range of a memory of this endpoint, then `trailer`, which is copied, to two places of a peer's memory, and tells the peer
    /// `data` when both are there. Without a trailer there is one place. The range must stay as it is until the peer has been told.
    /// `false`: not now.
    fn write(
        &mut self,
        to: PeerId,
        source: SourceRange<'_>,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool>;
    /// Messages and writes under way that are not done yet. Messages that were copied as a whole are not counted.
    fn pending(&self) -> usize;
    /// Tells whether ranges that were not registered can be written from.
    fn takes_lent(&self) -> bool;
    /// Tells whether writes from lent memory are under way.
    fn holds_lent(&self) -> bool;
    /// Forgets which writes to some peers are from lent memory, whose bytes may be sent as they will be then. `withdraw` may change the
    /// trailer of each, which has not gone as a whole.
    fn give_back_lent(&mut self, to: &dyn Fn(PeerId) -> bool, withdraw: &dyn Fn(&mut [u64]));

    /// Makes progress, and passes on what has come.
    fn poll(&mut self, sink: &mut dyn FnMut(Report<'_>)) -> Result<()>;
    /// Tells whether the endpoint can have a descriptor.
    fn has_descriptor(&self) -> bool;
    /// Opens a descriptor that becomes readable when something has come, or returns that which is open. `None`: there is none, or the process cannot
    /// open more files.
    fn open_descriptor(&mut self) -> Option<RawFd>;
    /// Closes it, if it is dearer to keep.
    fn close_descriptor(&mut self);
    /// How long the descriptor may be waited for, where everything that has come has been polled. `None`: poll first.
    fn may_sleep(&mut self) -> Option<Duration>;

    /// Opens a second endpoint beside the first, which can be closed alone, and returns the name by which others reach it. Call it once. Its peers have names of their own;
    /// it is polled with the first.
    fn open_second(&mut self) -> Result<Vec<u8>>;
    /// Opens a range to others: who knows the answer can write to it by the second endpoint, until it is [closed to them](Self::close_to_others).
    fn open_to_others(&mut self, range: &dyn LentRange) -> Result<RemoteMemory>;
    /// Closes a range to others. A write to it that has begun may go on, as long as the second endpoint is open.
    fn close_to_others(&mut self, key: u64);
    /// Writes a lent range by the second endpoint, as [`write`](Self::write) does by the first. The peer is one of the second endpoint.
    fn write_by_second(
        &mut self,
        to: PeerId,
        range: &dyn LentRange,
        trailer: &[u64],
        places: [Place; 2],
        data: u32,
    ) -> Result<bool>;
    /// Returns how many writes to a peer by the second endpoint are under way.
    fn held_by_second(&self, to: PeerId) -> usize;
    /// Closes the second endpoint, and all that was opened to others. Nobody can write to it from then on, nor is anything more sent from lent memory by it.
    fn shut_second(&mut self);

    /// Ends all that is under way, and takes in nothing any more. Of the other functions `poll`, `may_sleep` and those of the descriptor go on, and have nothing to
    /// tell; nothing can be sent.
    fn shut(&mut self);
}

/// The number of a peer of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerId(pub(super) u32);

impl PeerId {
    /// Peers are counted in the order in which they were inserted.
    #[cfg(test)]
    pub fn nth(index: u32) -> PeerId {
        PeerId(index)
    }

    /// The number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of memory.
///
/// # Safety
/// The range stays mapped, readable and writable as long as the value lives. No reference of Rust's to its bytes exists: others may
/// change them at any time.
pub unsafe trait MappedRegion: Send {
    /// The address of the first byte.
    fn base(&self) -> usize;
    /// The length in bytes.
    fn bytes(&self) -> usize;
}

/// A range of memory that is lent for some time.
///
/// # Safety
/// The range is readable until the endpoint that has written from it [holds nothing lent](Endpoint::holds_lent), or has [given it
/// back](Endpoint::give_back_lent): from then on the system answers what cannot be read by an error. What is written by the second endpoint is readable
/// until that [holds none](Endpoint::held_by_second) or is [shut](Endpoint::shut_second). What was opened to others is writable until it is
/// [closed to them](Endpoint::close_to_others) and nobody is writing to it, or the second endpoint is shut.
pub unsafe trait LentRange {
    /// The address of the first byte.
    fn base(&self) -> usize;
    /// The length in bytes.
    fn bytes(&self) -> usize;
}

/// The number of a memory of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryId(pub(super) usize);

/// The use of a registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// This endpoint sends from it.
    Send,
    /// Others write to it.
    Written,
}

/// What another endpoint has to know to write to a memory of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The address of its first byte, as its endpoint counts.
    pub address: u64,
    /// The key.
    pub key: u64,
}

impl RemoteMemory {
    /// Returns a place in it.
    pub fn place(self, at: usize) -> Place {
        Place { address: self.address.wrapping_add(at as u64), key: self.key }
    }
}

/// Where a range goes in another endpoint's memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The address, as that endpoint counts.
    pub address: u64,
    /// The memory's key.
    pub key: u64,
}

/// The range that a write sends.
#[derive(Clone, Copy)]
pub enum SourceRange<'a> {
    /// A range of a memory of this endpoint.
    Memory {
        /// The memory.
        memory: MemoryId,
        /// Where the range begins in it.
        at: usize,
        /// Its length.
        bytes: usize,
    },
    /// A range of other memory, if the endpoint [takes such](Endpoint::takes_lent).
    Lent(&'a dyn LentRange),
}

/// Something that an endpoint reports.
pub enum Report<'a> {
    /// A message has come. Its last word may have bytes behind the message's end.
    Message(&'a mut [u64]),
    /// A peer has written to a memory of this endpoint, and tells this.
    Written(u32),
    /// A message or a write to a peer has failed, or the failure of a small one, whose receiver is not known.
    Lost(Option<PeerId>, String),
}

#[cfg(all(test, not(loom)))]
#[path = "endpoint_tests.rs"]
pub(super) mod tests;
