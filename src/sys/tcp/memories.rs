//! The memory that an endpoint sends from, or that others write to.

use crate::sys::endpoint::{LentRange, MappedRegion, MemoryId, Place, RemoteMemory, Use};
use crate::sys::process;

/// A part of a region that an endpoint has registered.
struct Memory {
    base: usize,
    bytes: usize,
    /// `None`: nobody else writes to it.
    key: Option<u64>,
    /// Keeps it mapped.
    _region: Box<dyn MappedRegion>,
}

/// A range that was opened to others.
struct Opened {
    key: u64,
    base: usize,
    bytes: usize,
}

/// All memory of an endpoint.
#[derive(Default)]
pub struct Memories {
    all: Vec<Memory>,
    opened: Vec<Opened>,
}

/// No key of one communicator is good for another, and none can be guessed.
fn new_key() -> u64 {
    u64::from_ne_bytes(process::random())
}

impl Memories {
    /// Registers bytes of a region.
    pub fn register(
        &mut self,
        region: Box<dyn MappedRegion>,
        at: usize,
        bytes: usize,
        used: Use,
    ) -> MemoryId {
        assert!(at <= region.bytes() && bytes <= region.bytes() - at, "a memory outside of its region");
        let key = (used == Use::Written).then(new_key);
        self.all.push(Memory { base: region.base() + at, bytes, key, _region: region });
        MemoryId(self.all.len() - 1)
    }

    /// What another endpoint has to know to write to a memory.
    pub fn remote(&self, memory: MemoryId) -> RemoteMemory {
        RemoteMemory { address: 0, key: self.all[memory.0].key.unwrap_or(0) }
    }

    /// Returns the address of a range of a memory.
    pub fn source(&self, memory: MemoryId, at: usize, bytes: usize) -> usize {
        let memory = &self.all[memory.0];
        assert!(at <= memory.bytes && bytes <= memory.bytes - at, "a write from outside of its memory");
        memory.base + at
    }

    /// Opens a range to others.
    pub fn open(&mut self, range: &dyn LentRange) -> RemoteMemory {
        let key = new_key();
        self.opened.push(Opened { key, base: range.base(), bytes: range.bytes() });
        RemoteMemory { address: 0, key }
    }

    /// Closes it.
    pub fn close(&mut self, key: u64) {
        self.opened.retain(|opened| opened.key != key);
    }

    /// Closes all.
    pub fn close_all(&mut self) {
        self.opened.clear();
    }

    /// Finds the address of bytes that a peer may write to. `is_second`: it writes by the second endpoint, by which alone it reaches what was opened to others.
    pub fn target(&self, place: Place, bytes: usize, is_second: bool) -> Option<usize> {
        let registered = self.all.iter().filter_map(|m| Some((m.key?, m.base, m.bytes)));
        let opened = self.opened.iter().filter(|_| is_second).map(|o| (o.key, o.base, o.bytes));
        let (_, base, length) = registered.chain(opened).find(|&(key, ..)| key == place.key)?;
        let at = usize::try_from(place.address).ok()?;
        (at <= length && bytes <= length - at).then(|| base + at)
    }
}
