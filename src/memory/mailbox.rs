//! A mailbox's memory: a block of its rank's shareable heap, which all ranks write to.
//!
//! ```text
//!     head | bell x threads | waiting x ranks | tail x threads | entry rows x capacity | slot x slots | payload x slots | send slot x threads
//!            rung when a      senders that      where the next   [threads] each: the     count or       what receivers    the owner's alone:
//!            message comes    wait for slots    entry goes       threads' queues         link           read              messages being written
//! ```
//!
//! The queues lie side by side: an entry's row is its position in its queue, so a message to all threads of a mailbox whose
//! queues are equally long writes one row, which is four lines for 64 threads.

use super::heap::PeerHeap;
use super::segment::{Segment, ShmSafe};
use super::view::Payload;
use crate::error::{Error, Result};
use crate::sync::doorbell::{Doorbell, Sleepers};
use crate::sync::prim::model::{AtomicU32, AtomicU64};
use crate::types::Rank;

/// Bytes of a flit: the unit of a message's length.
pub const FLIT: usize = 16;
/// The most threads of a mailbox: the bits of a mask.
pub const MAX_THREADS: u32 = 64;
/// The most slots of a mailbox.
pub const MAX_SLOTS: u32 = 1 << 16;
/// The most bytes of a slot.
pub const MAX_SLOT_BYTES: u32 = 64 << 10;

/// The size of a rank's mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxShape {
    /// Threads that it serves.
    pub threads: u32,
    /// Messages that it holds.
    pub slots: u32,
    /// Bytes of a message at most, a multiple of [`FLIT`].
    pub slot_bytes: u32,
    /// Ranks that may send to it.
    pub ranks: u32,
}

/// A word with a line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Lone(pub AtomicU64, [AtomicU64; 7]);

/// The part of a mailbox that exists once for all its threads.
#[repr(C, align(64))]
#[derive(Default)]
pub struct MailboxHeader {
    /// 1 + the rank that is inserting; 0: none. That rank alone writes the rest of this line, the tails and the entries.
    pub lock: AtomicU32,
    _pad: AtomicU32,
    /// Messages inserted.
    pub messages: AtomicU64,
    /// Threads that they were addressed to, all together.
    pub deliveries: AtomicU64,
    /// Bytes copied to slots.
    pub bytes: AtomicU64,
    /// Rank 0's: when the last round ended on a declared machine. The thread that ends a round writes it, before the verdict.
    pub ended_ps: AtomicU64,
    _line: [AtomicU64; 3],
    /// The first free slot, and a tag (see `mailbox::slots`).
    pub free: Lone,
    /// The number of senders that wait for a slot.
    pub waiting: Lone,
    /// Its threads that are idle, a bit each: for error sentences only.
    pub idle: Lone,
    /// Rank 0's counts for all: how many threads are idle (see `mailbox::idle`).
    pub census: Lone,
    /// Rank 0's tells all: the last round's outcome.
    pub verdict: Lone,
    /// Threads of this mailbox that sleep.
    pub sleepers: Sleepers,
}

/// Where the census lies in a mailbox.
pub const CENSUS_AT: usize = std::mem::offset_of!(MailboxHeader, census);

/// A message's line, but for the payload.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Slot {
    /// In use: how many threads still have to free it. Free: which slot is free next. See `mailbox::slots`.
    pub word: AtomicU64,
    /// Rank << 32 | thread of the sender.
    pub source: AtomicU64,
    /// Length.
    pub flits: AtomicU32,
    /// The word of a programmed key for this receiver; 0 without a key.
    pub local_key: AtomicU32,
    _rest: [AtomicU64; 5],
}

// SAFETY: repr(C), atomics only, any bits valid.
unsafe impl ShmSafe for MailboxHeader {}
// SAFETY: as above.
unsafe impl ShmSafe for Slot {}

#[cfg(not(loom))]
const _: () =
    assert!(size_of::<MailboxHeader>() == 448 && size_of::<Slot>() == 64 && size_of::<Lone>() == 64);

/// A mailbox's words, wherever they lie: what the protocols of `mailbox` are written over.
#[derive(Clone, Copy)]
pub struct MailboxWords<'a> {
    /// The part that exists once for all threads.
    pub head: &'a MailboxHeader,
    /// One a slot.
    pub slots: &'a [Slot],
    /// One a thread: the next position of its queue.
    pub tails: &'a [AtomicU32],
    /// `capacity` rows of `stride` entries.
    pub entries: &'a [AtomicU32],
    /// Positions of a queue: a power of two, at least the number of slots.
    pub capacity: u32,
    /// Entries of a row: at least the number of threads.
    pub stride: u32,
}

/// One rank's mailbox, mapped here.
pub struct MailboxMemory {
    shape: MailboxShape,
    layout: Layout,
    /// Into `heap`, which this block keeps; handed out for as long as the block is there.
    words: MailboxWords<'static>,
    doorbells: &'static [Doorbell],
    waiting: &'static [AtomicU64],
    /// The rank's heap, from its beginning to the end of the block.
    heap: Segment,
}

/// Offsets in the heap.
#[derive(Clone, Copy)]
struct Layout {
    doorbells: usize,
    waiting: usize,
    tails: usize,
    entries: usize,
    slots: usize,
    payload: usize,
    send: usize,
    end: usize,
}

impl MailboxShape {
    /// Is it within the limits? The error names the field that is not.
    pub fn check(&self) -> Result<()> {
        let within = |what: &str, value: u32, most: u32| match (1..=most).contains(&value) {
            true => Ok(()),
            // C passes an int.
            false => Err(Error::argument(format!("{what} is {}; it must be from 1 to {most}", value as i32))),
        };
        within("threads", self.threads, MAX_THREADS)?;
        within("slots", self.slots, MAX_SLOTS)?;
        within("slotBytes", self.slot_bytes, MAX_SLOT_BYTES)?;
        if !(self.slot_bytes as usize).is_multiple_of(FLIT) {
            return Err(Error::argument(format!(
                "slotBytes is {}; it must be a multiple of {FLIT}",
                self.slot_bytes
            )));
        }
        Ok(())
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> usize {
        self.layout(0).end
    }

    /// From one slot's payload to the next.
    fn pitch(&self) -> usize {
        (self.slot_bytes as usize).next_multiple_of(64)
    }
    fn capacity(&self) -> u32 {
        self.slots.next_power_of_two()
    }
    /// Rows begin at lines of their own, so that mailboxes of few threads have one line a row.
    fn stride(&self) -> u32 {
        self.threads.next_multiple_of(16)
    }

    fn layout(&self, at: usize) -> Layout {
        let (threads, slots) = (self.threads as usize, self.slots as usize);
        let mut end = at;
        let mut take = |bytes: usize| {
            let here = end;
            end = (here + bytes).next_multiple_of(64);
            here
        };
        take(size_of::<MailboxHeader>());
        let doorbells = take(threads * size_of::<Doorbell>());
        let waiting = take(self.ranks as usize * 8);
        let tails = take(threads * 4);
        let entries = take(self.capacity() as usize * self.stride() as usize * 4);
        let slots_at = take(slots * size_of::<Slot>());
        let payload = take(slots * self.pitch());
        let send = take(threads * self.pitch());
        Layout { doorbells, waiting, tails, entries, slots: slots_at, payload, send, end }
    }
}

impl MailboxMemory {
    /// The mailbox of `rank`, which told its place and shape. An error if these cannot be.
    pub fn new(heap: &PeerHeap, offset: u64, shape: MailboxShape, rank: Rank) -> Result<MailboxMemory> {
        let faulty = || {
            Error::remote(format!(
                "rank {rank} told a mailbox outside of its shared heap; destroy the communicator"
            ))
        };
        shape.check().map_err(|_| faulty())?;
        let offset = usize::try_from(offset).map_err(|_| faulty())?;
        let end = offset.checked_add(shape.bytes()).ok_or_else(faulty)?;
        if !offset.is_multiple_of(64) || end > heap.bytes() {
            return Err(faulty());
        }
        let heap = heap.up_to(end).cloned().ok_or_else(|| {
            Error::system(format!(
                "cannot map rank {rank}'s mailbox of {} bytes; raise `ulimit -v`",
                shape.bytes()
            ))
        })?;
        let layout = shape.layout(offset);
        let rows = shape.capacity() as usize * shape.stride() as usize;
        let words = MailboxWords {
            head: &stay(heap.structs::<MailboxHeader>(offset, 1))[0],
            slots: stay(heap.structs(layout.slots, shape.slots as usize)),
            tails: stay(heap.structs(layout.tails, shape.threads as usize)),
            entries: stay(heap.structs(layout.entries, rows)),
            capacity: shape.capacity(),
            stride: shape.stride(),
        };
        let doorbells = stay(heap.structs(layout.doorbells, shape.threads as usize));
        let waiting = stay(heap.structs(layout.waiting, shape.ranks as usize));
        Ok(MailboxMemory { shape, layout, words, doorbells, waiting, heap })
    }

    /// Returns its size.
    #[inline]
    pub fn shape(&self) -> &MailboxShape {
        &self.shape
    }
    /// Its words.
    #[inline]
    pub fn words(&self) -> &MailboxWords<'_> {
        &self.words
    }
    /// Rung for a thread of it: a message has come, or what it waits for elsewhere.
    #[inline]
    pub fn doorbell(&self, thread: u32) -> &Doorbell {
        &self.doorbells[thread as usize]
    }
    /// A word for each rank: its threads that wait for a slot, a bit each.
    #[inline]
    pub fn waiting(&self) -> &[AtomicU64] {
        self.waiting
    }
    /// Returns the first bytes of a slot. Panics if the mailbox has no such slot: callers have checked it.
    #[inline]
    pub fn payload(&self, slot: u32, bytes: usize) -> Payload<'_> {
        self.part(self.layout.payload, slot, self.shape.slots, bytes)
    }
    /// The first bytes of where a thread writes its next message.
    #[inline]
    pub fn send_slot(&self, thread: u32, bytes: usize) -> Payload<'_> {
        self.part(self.layout.send, thread, self.shape.threads, bytes)
    }
    #[inline]
    fn part(&self, at: usize, index: u32, of: u32, bytes: usize) -> Payload<'_> {
        assert!(index < of && bytes <= self.shape.slot_bytes as usize, "a message outside of its mailbox");
        self.heap.view(at + index as usize * self.shape.pitch(), bytes).expect("within the layout")
    }
    /// The slot whose payload begins at this address.
    #[inline]
    pub fn slot_at(&self, addr: usize) -> Option<u32> {
        self.index_at(self.layout.payload, self.shape.slots, addr)
    }
    /// The thread whose send slot begins at this address.
    #[inline]
    pub fn sender_at(&self, addr: usize) -> Option<u32> {
        self.index_at(self.layout.send, self.shape.threads, addr)
    }
    #[inline]
    fn index_at(&self, at: usize, of: u32, addr: usize) -> Option<u32> {
        let offset = addr.wrapping_sub(self.heap.base() + at);
        let index = offset / self.shape.pitch();
        (index < of as usize && index * self.shape.pitch() == offset).then_some(index as u32)
    }
}

/// Words of a heap's segment, which live as long as the heap is kept.
fn stay<T: ShmSafe>(words: &[T]) -> &'static [T] {
    // SAFETY: only `MailboxMemory::new` calls this, with words of the segment that the block holds; the block hands them out under
    // its own lifetime only, and a segment stays mapped where it is until it is dropped.
    unsafe { std::slice::from_raw_parts(words.as_ptr(), words.len()) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn heap() -> PeerHeap {
        PeerHeap::from(Segment::create(1 << 20, 1 << 20).unwrap().0)
    }

    #[test]
    fn nothing_overlaps_in_a_block() {
        let shape = MailboxShape { threads: 17, slots: 33, slot_bytes: 48, ranks: 3 };
        let block = MailboxMemory::new(&heap(), 4096, shape, 0).unwrap();
        let place = |addr: *const u8, bytes: usize| (addr as usize, bytes);
        let mut ranges = vec![place((&raw const *block.words.head).cast(), size_of::<MailboxHeader>())];
        ranges.push(place(block.doorbells.as_ptr().cast(), size_of_val(block.doorbells)));
        ranges.push(place(block.waiting.as_ptr().cast(), size_of_val(block.waiting)));
        ranges.push(place(block.words.tails.as_ptr().cast(), size_of_val(block.words.tails)));
        ranges.push(place(block.words.entries.as_ptr().cast(), size_of_val(block.words.entries)));
        ranges.push(place(block.words.slots.as_ptr().cast(), size_of_val(block.words.slots)));
        ranges.extend((0..33).map(|slot| place(block.payload(slot, 48).addr(), 48)));
        ranges.extend((0..17).map(|thread| place(block.send_slot(thread, 48).addr(), 48)));
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        let (first, end) = (ranges[0].0, ranges.last().map(|(at, bytes)| at + bytes).unwrap());
        assert_eq!(first, block.heap.base() + 4096);
        assert!(end <= first + shape.bytes());
    }

    #[test]
    fn only_the_start_of_a_slot_is_a_slot() {
        let shape = MailboxShape { threads: 2, slots: 5, slot_bytes: 80, ranks: 1 };
        let block = MailboxMemory::new(&heap(), 0, shape, 0).unwrap();
        for slot in 0..5 {
            let at = block.payload(slot, 80).addr() as usize;
            assert_eq!(
                (block.slot_at(at), block.slot_at(at + 16), block.sender_at(at)),
                (Some(slot), None, None)
            );
        }
        let after = block.payload(4, 80).addr() as usize + 128;
        assert_eq!((block.slot_at(after), block.sender_at(after)), (None, Some(0)));
        assert_eq!((block.slot_at(0), block.slot_at(usize::MAX)), (None, None));
    }

    #[test]
    fn a_block_past_the_end_of_its_heap_is_refused_by_the_name_of_its_rank() {
        let shape = MailboxShape { threads: 64, slots: 512, slot_bytes: 64, ranks: 2 };
        for offset in [1 << 20, u64::MAX, u64::MAX - 63, (1 << 20) - 64, 8] {
            let e = MailboxMemory::new(&heap(), offset, shape, 7).map(drop).unwrap_err();
            assert!(e.message.contains("rank 7"), "{e}");
        }
    }
}
