//! The control segment: everything that the ranks of one communicator share besides their heaps.
//!
//! ```text
//!     header | life | records | progress | bell | counters | pairs (n x n) | arrivals | payloads | staging | rings, signals (n x n)
//!     '----------------------- its head ------------------------'                                 '---- at first use ---'
//!     '---------------------- reserved when it is made ---------------------------' '- by each rank -'
//! ```
//!
//! A communicator that is made from another has its segment in the same file, behind that of the first of its ancestry. Only its head
//! is reserved when it is made, its other pages at first use. When the last rank unmaps a segment its pages go back to the system, all but
//! the file's first one, and the end of the file's used part goes back to where the segment began, if it was the last.
//!
//! ```text
//!     file    | segment of the first | child | child of a child | ...        each where the file's first page said that the last ended
//! ```
//!
//! One writer a line wherever lines are hot. All counters are absolute and only grow, so nothing is ever reset.
pub mod arrivals;
pub mod call_counters;
mod family;
mod layout;
pub mod lines;
#[cfg(any(test, feature = "internals"))]
mod observed;
mod reserved;
pub mod signals;

use super::segment::{Segment, ShmSafe};
use crate::error::Result;
use crate::sync::doorbell::{Doorbell, Sleepers};
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::keeper::{self, Kept, LifeNode};
use crate::sys::{fork, limits, shm};
pub use arrivals::{DEPTH, INLINE, largest_payload};
pub use family::ChildPlace;
use family::{CHILDREN, FamilyFile, LIVE_CHILDREN};
pub use layout::{Layout, PLACES_APART, StagingKind, place_bytes};
use lines::Lines;
#[cfg(any(test, feature = "internals"))]
pub use observed::observed;
use reserved::Reserved;
use std::fs::File;
use std::sync::Arc;

/// Calls of a rank that others can look up.
pub const RECORDS: usize = 256;
/// Slots in a pair's ring.
pub const PAIR_SLOTS: usize = 8;
/// Payload bytes of a pair's slot.
pub const PAIR_SLOT: usize = 32 << 10;
/// Payload bytes inside a pair slot's own line.
pub const PAIR_INLINE: usize = 32;
const PAIR_STRIDE: usize = PAIR_SLOT + 64;

/// The words that all ranks look at.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`], written last by the maker.
    pub magic: AtomicU64,
    /// Ranks that have finished joining.
    pub attached: AtomicU32,
    /// Ranks that have unmapped it.
    left: AtomicU32,
    /// The cause that the first rank to give up has told (`transport::identity::Cause`); 0: none.
    pub cause: AtomicU64,
    /// In the file's first page: bytes of the file that children have been given.
    given: AtomicU64,
    /// In the file's first page: the process whose death one of the file's communicators has noticed first, its PID and the number of its host
    /// (`transport::endings`); 0: none.
    dead: AtomicU64,
    /// Where everything lies, for processes that look on: ranks and staging bytes of each.
    ranks: AtomicU64,
    staging: AtomicU64,
    _line: AtomicU64,
    /// Highest sequence number of a call in which ranks disagreed; any rank writes (fetch_max).
    pub disagreement: AtomicU64,
    /// The rank that has ended all calls, and how (`transport::link::Ending`); 0: none has.
    pub ended_by: AtomicU32,
    /// 1 + the rank whose death was noticed first; 0: none. Ranks that die later are not the cause.
    pub first_dead: AtomicU32,
    /// The number of ranks that have left a call before its end. Their buffers belong to their callers again.
    pub gave_up: AtomicU64,
    /// The number of messages that receivers have refused, on all ranks.
    pub refusals: AtomicU32,
    _pad2: AtomicU32,
    _line2: [AtomicU64; 4],
    /// Ranks that sleep.
    pub sleepers: Sleepers,
}

/// A rank's words about its own life. The owner writes them, and the kernel does at the process's end.
#[repr(C, align(64))]
pub struct Life {
    /// Shows the end of the owner's process.
    pub node: LifeNode,
    /// PID.
    pub pid: AtomicU32,
    /// [`ALIVE`] and so on.
    pub state: AtomicU32,
    /// Start time of the process: with the PID it names the process for good.
    pub start: AtomicU64,
    /// The call in which it failed, while `state` is [`FAILED`].
    pub failed_seq: AtomicU64,
    /// 1 + the core on which it was when it last told; 0: it has not told yet.
    pub core: AtomicU32,
    /// How it may reach the others' private memory, and what cores it has (`transport::single_copy::SingleCopy`).
    pub reads: AtomicU32,
    /// The ranks that it leaves out of a new communicator, and where that lies (`comm::join::shrink`).
    pub shrink: [AtomicU64; 2],
}
/// `Life::state`: not joined yet.
pub const ABSENT: u32 = 0;
/// `Life::state`: a member.
pub const ALIVE: u32 = 1;
/// `Life::state`: destroyed its communicator.
pub const LEFT: u32 = 2;
/// `Life::state`: gave up after an error of its own (deadline, panic).
pub const FAILED: u32 = 3;

/// A rank's arguments to one of its latest calls. They are read only if ranks disagree.
#[repr(C, align(32))]
pub struct Record {
    /// Sequence number of the call; written last.
    pub seq: AtomicU64,
    /// Packed arguments (see `transport::arrival`) and elements.
    pub said: [AtomicU64; 2],
    _rest: AtomicU64,
}

/// A rank's program counter (see `exec`): alone on two lines, because cores fetch lines in pairs.
#[repr(C, align(128))]
pub struct Progress {
    /// Steps done, counted over the communicator's life.
    pub counter: AtomicU64,
    _rest: [AtomicU64; 15],
}

/// The line in which a rank tells the others the call that it has entered, its arguments, and the data if they are few.
#[repr(C, align(64))]
pub struct Arrival {
    /// The call's number; written last (Release), so a reader that sees it sees the other fields.
    pub seq: AtomicU64,
    /// Packed arguments (see `transport::arrival`).
    pub args: AtomicU64,
    /// Elements.
    pub count: AtomicU64,
    /// The arguments to the calls before, as one number (see `transport::agreement`).
    pub trail: AtomicU64,
    /// Inline payload, or where the buffers lie in the heap.
    pub words: [AtomicU64; INLINE / 8],
}

/// A receiver's words to a sender. The receiver writes them.
#[repr(C, align(64))]
pub struct Pair {
    /// Slots taken from the ring.
    pub taken: AtomicU64,
    /// 1 + the index of the first slot of the last message it refused.
    pub refused: AtomicU64,
    /// The refusing side's arguments: type and count.
    pub refused_args: [AtomicU64; 2],
    /// Messages that it has begun to send to the sender, and to receive from it.
    pub begun: [AtomicU64; 2],
    _rest: [AtomicU64; 2],
}

/// The head of a slot in a pair's ring. Written by the sender.
#[repr(C, align(64))]
pub struct PairSlot {
    /// 1 + the slot's index; written last.
    pub full: AtomicU64,
    /// Packed: element type, flags.
    pub args: AtomicU64,
    /// Elements of the whole message.
    pub count: AtomicU64,
    /// Heap offset of the whole message, if the flags say so.
    pub heap: AtomicU64,
    /// The payload of a tiny message.
    pub words: [AtomicU64; PAIR_INLINE / 8],
}

// SAFETY: repr(C), atomics only, any bits valid.
unsafe impl ShmSafe for Header {}
// SAFETY: as above.
unsafe impl ShmSafe for Life {}
// SAFETY: as above.
unsafe impl ShmSafe for Record {}
// SAFETY: as above.
unsafe impl ShmSafe for Progress {}
// SAFETY: as above.
unsafe impl ShmSafe for Arrival {}
// SAFETY: as above.
unsafe impl ShmSafe for Pair {}
// SAFETY: as above.
unsafe impl ShmSafe for PairSlot {}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 192 && size_of::<Life>() == 64 && size_of::<Record>() == 32);
    assert!(size_of::<Progress>() == 128 && size_of::<Doorbell>() == 64 && size_of::<Arrival>() == 64);
    assert!(size_of::<Pair>() == 64 && size_of::<PairSlot>() == 64);
    assert!(std::mem::offset_of!(Arrival, words) + INLINE == size_of::<Arrival>());
    assert!(std::mem::offset_of!(PairSlot, words) + PAIR_INLINE == size_of::<PairSlot>());
};

/// Written into a finished header; changes with the layout.
pub const MAGIC: u64 = u64::from_be_bytes(*b"penny\0\0\x07");

/// A mapped control segment.
pub struct Control {
    lines: Lines,
    file: Arc<FamilyFile>,
    /// Where it begins in the file; 0: it is the first of its ancestry.
    at: usize,
    reserved: Reserved,
    /// The process that mapped it.
    generation: u32,
    /// Ranks that map it: those of this host.
    sharers: u32,
}

impl std::ops::Deref for Control {
    type Target = Lines;
    #[inline]
    fn deref(&self) -> &Lines {
        &self.lines
    }
}

/// A rank's entry in the list of those whose end the kernel announces. Dropping it takes the rank off the list.
pub struct Membership {
    _kept: Kept,
}

impl Control {
    /// New and empty.
    pub fn create(layout: Layout) -> Result<Control> {
        let most = limits::file_bytes().saturating_sub(layout.total()).min(CHILDREN);
        let room = layout.total() + LIVE_CHILDREN * layout.reserved();
        let file = shm::create(layout.total() + most, layout.makers(), room)?;
        let segment = Segment::of(&file, layout.total())?;
        Control::first(segment, layout, file)
    }
    /// Opens the segment that another process made.
    pub fn open(file: File, layout: Layout) -> Result<Control> {
        let segment = Segment::map(&file, layout.total())?;
        Control::first(segment, layout, file)
    }
    fn first(segment: Segment, layout: Layout, file: File) -> Result<Control> {
        let file = Arc::new(FamilyFile::new(file, layout.total())?);
        let (reserved, generation) = (Reserved::by_its_maker(), fork::generation());
        let sharers = layout.nranks();
        Ok(Control { lines: Lines::of(segment, layout, None), file, at: 0, reserved, generation, sharers })
    }
    /// Takes a place for a child.
    pub fn place_for_child(&self, nranks: u32, staging: u64) -> Result<ChildPlace> {
        let layout = Layout::new(nranks, staging as usize);
        let place = self.file.take(staging, layout)?;
        shm::reserve(self.file.get()?, place.at as usize, layout.head())?;
        Ok(place)
    }
    /// Maps a child at the place that one of its ranks has taken. `sharers`: its ranks that share memory, of `nranks`.
    pub fn child(parent: &Control, nranks: u32, sharers: u32, place: ChildPlace) -> Result<Control> {
        let layout = Layout::new(nranks, place.staging as usize);
        let (file, at) = (parent.file.clone(), place.at as usize);
        file.check(place, layout)?;
        // Each for itself: the place was read from shared memory.
        shm::reserve(file.get()?, at, layout.head())?;
        let segment = Segment::part(file.get()?, at, layout.total())?;
        let (reserved, generation) = (Reserved::default(), fork::generation());
        Ok(Control { lines: Lines::of(segment, layout, None), file, at, reserved, generation, sharers })
    }
    /// The process whose death a communicator of this file has noticed first; 0: none.
    #[inline]
    pub fn dead_in_family(&self) -> u64 {
        self.file.dead()
    }
    /// Tells the other communicators of this file of the first death.
    pub fn note_dead_in_family(&self, process: u64) {
        self.file.note_dead(process);
    }
    /// Tells processes that look on that everything is in its place.
    pub fn announce(&self) {
        let header = self.header();
        header.ranks.store(self.layout.nranks as u64, Ordering::Relaxed);
        header.staging.store(self.layout.staging as u64, Ordering::Relaxed);
        // ORDER: publishes both; partner: `observed`.
        header.magic.store(MAGIC, Ordering::Release);
    }
    /// Tells whether another rank's is the same segment.
    pub fn is(&self, other: &Control) -> bool {
        self.at == other.at && self.file.is(&other.file)
    }
    /// The file by which others map it.
    pub fn file(&self) -> Result<&File> {
        self.file.get()
    }
    /// Has the kernel announce the end of this process in a rank's life line.
    pub fn keep(&self, rank: u32) -> Result<Membership> {
        assert!((rank as usize) < self.layout.nranks, "a rank outside of its communicator");
        let line = self.layout.life + rank as usize * size_of::<Life>();
        Ok(Membership {
            _kept: keeper::keep(self.file.get()?, self.at + line + std::mem::offset_of!(Life, node))?,
        })
    }
    /// Reserves a range of the segment.
    fn reserve(&self, offset: usize, bytes: usize) -> Result<()> {
        shm::reserve(self.file.get()?, self.at + offset, bytes)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The last rank gives the pages back. One that died never counts.
        if self.generation == fork::generation() {
            let before = self.header().left.fetch_add(1, Ordering::AcqRel);
            if before.wrapping_add(1) == self.sharers {
                self.file.release(self.at, self.layout.total());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::arrivals::BEHIND;
    use super::*;
    use crate::memory::view::Payload;

    #[test]
    fn nothing_overlaps() {
        let layout = Layout::new(3, 4096);
        let control = Control::create(layout).unwrap();
        let mut ranges = Vec::new();
        for r in 0..3 {
            for (at, bytes) in [
                (control.life(r) as *const _ as usize, 64),
                (control.record(r, 0) as *const _ as usize, RECORDS * 32),
                (control.progress(r) as *const _ as usize, 128),
                (control.doorbell(r) as *const _ as usize, 64),
                (control.staging(r, 0, 4096).addr() as usize, 4096),
            ] {
                ranges.push((at, bytes));
            }
            for s in 0..layout.depth as u64 {
                ranges.push((control.arrival(r, s) as *const _ as usize, 64));
                ranges.push((control.payload(r, s, BEHIND).addr() as usize, BEHIND));
            }
            for s in 0..16 {
                ranges.push((control.payload(r, s, 8 << 10).addr() as usize, 8 << 10));
            }
            for to in 0..3 {
                ranges.push((control.pair(r, to) as *const _ as usize, 64));
                for s in 0..PAIR_SLOTS as u64 {
                    let (head, data) = control.pair_slot(r, to, s, PAIR_SLOT);
                    ranges.push((head as *const _ as usize, 64));
                    ranges.push((data.addr() as usize, PAIR_SLOT));
                }
            }
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
    }

    #[test]
    fn places_of_pieces_are_their_pairs_own() {
        for kind in [StagingKind::Rotated, StagingKind::Usual] {
            let control = Control::create(Layout::new(2, Layout::usual_staging(2, kind))).unwrap();
            let range = |view: Payload<'_>| (view.addr() as usize, view.addr() as usize + view.bytes());
            let (base, all) = (control.segment().base(), control.layout().total());
            let last_at = control.layout().bytes_for_pieces() - PAIR_SLOT;
            let mut ranges = Vec::new();
            for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                ranges.push(range(control.pair_slot(from, to, PAIR_SLOTS as u64 - 1, PAIR_SLOT).1));
                let [first, last] =
                    [0, last_at].map(|at| range(control.piece_place(from, to, at, PAIR_SLOT).unwrap()));
                for (at, bytes) in
                    [(last_at + PLACES_APART, PAIR_SLOT), (last_at + PAIR_SLOT, 1), (usize::MAX, 0)]
                {
                    assert!(control.piece_place(from, to, at, bytes).is_none(), "{bytes} bytes at {at}");
                }
                ranges.push((first.0, last.1));
            }
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0));
            assert!(ranges.iter().all(|range| base <= range.0 && range.1 <= base + all));
        }
    }
}
