//! A heap as this process reaches it: its own is mapped whole, a peer's as far as it is used.
//!
//! ```text
//!     a peer's heap   | first                |                                            |  announced
//!                     '- mapped on meeting --'                       :                    :
//!                     '- mapped when an offset beyond the first comes '                   :
//!                     '- and so on, each at least twice as long as the one before --------'
//! ```
//!
//! On most machines the first mapping is the whole heap. Where all heaps together are more than the addresses of a
//! process (hundreds of ranks on a machine of terabytes, or `ulimit -v`) it is this peer's share of them. A range is
//! always found in the first mapping that holds it, so a range has one address for as long as the heap is mapped.

use crate::error::Result;
use crate::memory::segment::Segment;
use crate::memory::view::Payload;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64};
use std::fs::File;
use std::sync::OnceLock;

/// Mappings beyond the first. Each is at least twice as long as the one before it, so they are never too few.
const MORE: usize = 48;

/// The least that is mapped of a peer's heap.
const LEAST: usize = 64 << 10;

/// A heap, mapped here.
pub struct PeerHeap {
    first: Segment,
    /// The size that the peer announced, which is that of its file.
    bytes: usize,
    more: [OnceLock<Segment>; MORE],
    growing: Mutex<()>,
}

impl From<Segment> for PeerHeap {
    /// Mapped whole.
    fn from(first: Segment) -> PeerHeap {
        PeerHeap {
            bytes: first.bytes(),
            first,
            more: [const { OnceLock::new() }; MORE],
            growing: Mutex::new(()),
        }
    }
}

impl PeerHeap {
    /// Maps the heap that a peer announced with `bytes` bytes, about `share` bytes of it at first.
    pub(super) fn map(file: &File, bytes: usize, share: usize) -> Result<PeerHeap> {
        let mut part = bytes.min((share & !(LEAST - 1)).max(LEAST));
        // BOUND: it halves down to LEAST.
        let first = loop {
            match Segment::map_first(file, bytes, part) {
                Err(_) if part > LEAST => part = (part / 2).next_multiple_of(LEAST),
                mapped => break mapped?,
            }
        };
        Ok(PeerHeap { bytes, ..PeerHeap::from(first) })
    }

    /// Bytes of the heap, mapped here or not.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Payload at `offset`; `None` if it does not lie within, or cannot be mapped.
    #[inline]
    pub fn view(&self, offset: usize, bytes: usize) -> Option<Payload<'_>> {
        match self.first.view(offset, bytes) {
            Some(view) => Some(view),
            None => self.beyond(offset, bytes)?.view(offset, bytes),
        }
    }

    /// The 64-bit word at `offset`; `None` as for [`view`](Self::view), or if it is misaligned.
    #[inline]
    pub fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        match self.first.word64(offset) {
            Some(word) => Some(word),
            None => self.beyond(offset, 8)?.word64(offset),
        }
    }

    /// The 32-bit word at `offset`, as [`word64`](Self::word64).
    #[inline]
    pub fn word32(&self, offset: usize) -> Option<&AtomicU32> {
        match self.first.word32(offset) {
            Some(word) => Some(word),
            None => self.beyond(offset, 4)?.word32(offset),
        }
    }

    /// A mapping with the first `end` bytes; `None` as for [`view`](Self::view).
    pub fn up_to(&self, end: usize) -> Option<&Segment> {
        self.beyond(0, end)
    }

    /// The first mapping that holds a range.
    #[cold]
    fn beyond(&self, offset: usize, bytes: usize) -> Option<&Segment> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes)?;
        let mapped = || std::iter::once(&self.first).chain(self.more.iter().map_while(OnceLock::get));
        if let Some(holds) = mapped().find(|segment| end <= segment.bytes()) {
            return Some(holds);
        }
        let _growing = self.growing.lock();
        if let Some(holds) = mapped().find(|segment| end <= segment.bytes()) {
            return Some(holds);
        }
        let slot = self.more.iter().find(|slot| slot.get().is_none())?;
        let longest = mapped().last().map_or(0, Segment::bytes);
        let wanted =
            end.checked_next_power_of_two().unwrap_or(end).max(longest.saturating_mul(2)).min(self.bytes);
        // Where addresses are scarce, what is needed now.
        let least = end.next_multiple_of(LEAST).min(self.bytes);
        // SAFETY: the file has `bytes` bytes, which was seen when it was mapped first.
        let grown = [wanted, least].into_iter().find_map(|bytes| unsafe { self.first.again(bytes) }.ok())?;
        Some(slot.get_or_init(|| grown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::prim::Ordering;

    /// A heap of 1 MiB and this process's view of it as a peer that mapped `share` bytes.
    fn heap(share: usize) -> (Segment, PeerHeap) {
        let (whole, file) = Segment::create(1 << 20, 1 << 20).unwrap();
        let peer = PeerHeap::map(&file, 1 << 20, share).unwrap();
        (whole, peer)
    }

    #[test]
    fn what_lies_beyond_the_first_mapping_is_mapped_when_it_is_asked_for() {
        let (whole, peer) = heap(LEAST);
        assert_eq!((peer.first.bytes(), peer.bytes()), (LEAST, 1 << 20));
        for at in [0, LEAST - 8, LEAST, 200_000, (1 << 20) - 8] {
            whole.word64(at).unwrap().store(at as u64 + 1, Ordering::Release);
            assert_eq!(peer.word64(at).unwrap().load(Ordering::Acquire), at as u64 + 1, "{at}");
            assert!(peer.view(at, 8).is_some() && peer.word32(at).is_some());
        }
        let mapped = peer.more.iter().map_while(OnceLock::get).count();
        assert!(mapped <= 4, "{mapped} mappings, each of which is twice as long as the one before");
    }

    #[test]
    fn a_range_keeps_its_address_when_more_is_mapped() {
        let (_whole, peer) = heap(LEAST);
        let across = peer.view(LEAST - 64, 128).unwrap().addr();
        let inside = peer.view(64, 64).unwrap().addr();
        peer.view((1 << 20) - 64, 64).unwrap();
        assert_eq!(peer.view(LEAST - 64, 128).unwrap().addr(), across);
        assert_eq!(peer.view(64, 64).unwrap().addr(), inside);
    }

    #[test]
    fn a_range_outside_of_the_heap_is_refused_and_maps_nothing() {
        let (_whole, peer) = heap(LEAST);
        for (at, bytes) in [(1 << 20, 1), (usize::MAX, 2), (1, 1 << 20), (LEAST, usize::MAX)] {
            assert!(peer.view(at, bytes).is_none(), "{at} {bytes}");
        }
        assert!(
            peer.word64(1 << 20).is_none()
                && peer.word64(4).is_none()
                && peer.word32(usize::MAX - 3).is_none()
        );
        assert_eq!(peer.more.iter().map_while(OnceLock::get).count(), 0);
    }

    #[test]
    fn threads_that_ask_at_once_get_the_same_mapping() {
        let (_whole, peer) = heap(LEAST);
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let ask = || peer.view(500_000, 64).unwrap().addr() as usize;
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|&at| at == addresses[0]), "{addresses:x?}");
    }
}
