//! The lines of a communicator's ranks, wherever they lie: in the control segment, or in a private mirror of one.

use super::arrivals::{BEHIND, BLOCK, INLINE, largest_payload};
use super::{
    Arrival, Header, Layout, Life, PAIR_INLINE, PAIR_SLOT, PAIR_SLOTS, PAIR_STRIDE, Pair, PairSlot, Progress,
    RECORDS, Record,
};
use crate::error::Result;
use crate::memory::segment::{Segment, ShmSafe, Structs, shared_layout};
use crate::memory::view::Payload;
use crate::sync::doorbell::Doorbell;
use crate::sync::prim::{AtomicU64, Ordering};

shared_layout! {
    /// A rank's arrival line and the memory behind it.
    #[repr(C, align(64))]
    pub struct ArrivalPlace {
        /// The line.
        pub line: Arrival,
        behind: [AtomicU64; BEHIND / 8],
    }
}

impl ArrivalPlace {
    /// Tells whether the rank has entered call `seq` or a later one.
    #[inline(always)]
    pub fn has_arrived(&self, seq: u64) -> bool {
        // ORDER: partner of the store in `Transport::arrive`.
        self.line.seq.load(Ordering::Acquire) >= seq
    }
    /// Returns the memory of the line, for hints: its words are written one by one.
    #[inline(always)]
    pub fn line_bytes(&self) -> Payload<'_> {
        Payload::from(std::slice::from_ref(self)).part(0, size_of::<Arrival>())
    }
    /// Returns a payload of up to [`BEHIND`] bytes (see `arrivals.rs`).
    #[inline(always)]
    pub fn payload(&self, bytes: usize) -> Payload<'_> {
        if bytes <= INLINE { Payload::from(&self.line.words[..]) } else { Payload::from(&self.behind[..]) }
            .part(0, bytes)
    }
}

/// The lines of all ranks, in the control segment's layout.
pub struct Lines {
    pub(super) segment: Segment,
    pub(super) layout: Layout,
    /// Of private lines: where the rings from each rank to this one begin, one after another.
    rings: Option<usize>,
    /// What each call looks at.
    header: Structs<Header>,
    records: Structs<Record>,
    arrivals: Structs<ArrivalPlace>,
}

impl Lines {
    /// Makes the lines of a segment, or of the beginning of one.
    pub(super) fn of(segment: Segment, layout: Layout, rings: Option<usize>) -> Lines {
        let header = Structs::of(&segment, 0, 1);
        let records = Structs::of(&segment, layout.record, layout.nranks * RECORDS);
        let arrivals = Structs::of(&segment, layout.arrivals(1), layout.depth * layout.nranks);
        Lines { segment, layout, rings, header, records, arrivals }
    }
    /// Private lines, which no other rank sees: those of ranks that do not share the control segment, as a link tells of them.
    /// Of the rings they have those to one rank; signals have no place in them. Behind them are `behind` bytes for the link's own use.
    pub fn private(layout: Layout, behind: usize) -> Result<Lines> {
        let rings = (layout.reserved() + behind).next_multiple_of(64);
        let segment = Segment::private(rings + layout.nranks * Layout::RING)?;
        Ok(Lines::of(segment, layout, Some(rings)))
    }
    /// A range of the bytes behind private lines.
    pub fn behind(&self, at: usize, bytes: usize) -> Payload<'_> {
        let place = self.layout.reserved().checked_add(at).and_then(|at| self.segment.view(at, bytes));
        place.expect("within the bytes behind the lines")
    }
    /// The memory in which they lie.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
    /// Where a range of them begins in their memory; `None`: it does not lie there.
    pub fn offset_of(&self, range: Payload<'_>) -> Option<usize> {
        let at = (range.addr() as usize).checked_sub(self.segment.base())?;
        (at <= self.segment.bytes() && range.bytes() <= self.segment.bytes() - at).then_some(at)
    }
    /// Where everything lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }
    #[inline(always)]
    pub(super) fn nth<T: ShmSafe>(&self, base: usize, index: usize, limit: usize) -> &T {
        assert!(index < limit, "a rank outside of its communicator");
        &self.segment.structs::<T>(base + index * size_of::<T>(), 1)[0]
    }
    /// Returns the words that all ranks look at.
    #[inline(always)]
    pub fn header(&self) -> &Header {
        // SAFETY: of this segment.
        unsafe { self.header.one(0) }
    }
    /// A rank's life.
    #[inline]
    pub fn life(&self, rank: u32) -> &Life {
        self.nth(self.layout.life, rank as usize, self.layout.nranks)
    }
    /// A rank's record of call `seq`.
    #[inline(always)]
    pub fn record(&self, rank: u32, seq: u64) -> &Record {
        assert!((rank as usize) < self.layout.nranks, "a rank outside of its communicator");
        // SAFETY: of this segment.
        unsafe { self.records.one(rank as usize * RECORDS + seq as usize % RECORDS) }
    }
    /// A rank's program counter.
    #[inline]
    pub fn progress(&self, rank: u32) -> &Progress {
        self.nth(self.layout.progress, rank as usize, self.layout.nranks)
    }
    /// A rank's bell.
    #[inline]
    pub fn doorbell(&self, rank: u32) -> &Doorbell {
        self.nth(self.layout.doorbell, rank as usize, self.layout.nranks)
    }
    /// Returns the arrivals of all ranks in call `seq`.
    #[inline(always)]
    pub fn arrivals(&self, seq: u64) -> &[ArrivalPlace] {
        // SAFETY: of this segment.
        unsafe { self.arrivals.part(self.layout.call(seq) * self.layout.nranks, self.layout.nranks) }
    }
    /// A rank's arrival line for call `seq`.
    #[inline(always)]
    pub fn arrival(&self, rank: u32, seq: u64) -> &Arrival {
        &self.arrivals(seq)[rank as usize].line
    }
    /// That arrival's payload of `bytes` bytes (see `arrivals.rs`).
    #[inline(always)]
    pub fn payload(&self, rank: u32, seq: u64, bytes: usize) -> Payload<'_> {
        assert!(bytes <= largest_payload(self.layout.nranks), "a payload larger than its place");
        if bytes > BEHIND {
            return self.payload_in_blocks(rank, seq, bytes);
        }
        self.arrivals(seq)[rank as usize].payload(bytes)
    }
    /// Returns the first place of a half for a payload of `bytes` bytes, however small: the half of call `seq`.
    #[inline]
    pub fn first_payload(&self, rank: u32, seq: u64, bytes: usize) -> Payload<'_> {
        let first = self.layout.half.first_blocks(seq, bytes).start;
        self.segment.view(self.layout.payloads(rank) + first * BLOCK, bytes).expect("within the layout")
    }
    /// Returns the place that a payload of `bytes` bytes has among those that are too large for the memory behind the line.
    #[inline(never)]
    fn payload_in_blocks(&self, rank: u32, seq: u64, bytes: usize) -> Payload<'_> {
        let first = self.layout.half.payload_blocks(seq, bytes).start;
        self.segment.view(self.layout.payloads(rank) + first * BLOCK, bytes).expect("within the layout")
    }
    /// The memory of a rank's arrival line for call `seq`.
    #[inline(always)]
    pub fn arrival_bytes(&self, rank: u32, seq: u64) -> Payload<'_> {
        self.arrivals(seq)[rank as usize].line_bytes()
    }
    /// A range of a rank's staging memory.
    #[inline]
    pub fn staging(&self, rank: u32, offset: usize, bytes: usize) -> Payload<'_> {
        assert!(
            (rank as usize) < self.layout.nranks
                && offset <= self.layout.staging
                && bytes <= self.layout.staging - offset,
            "a slot outside of its staging memory"
        );
        self.segment
            .view(self.layout.staging_at + rank as usize * self.layout.staging + offset, bytes)
            .expect("within the layout")
    }
    /// Staging bytes of each rank.
    #[inline]
    pub fn staging_bytes(&self) -> usize {
        self.layout.staging
    }
    /// Returns the words of `to` for `from` about the ring between them.
    #[inline(always)]
    pub fn pair(&self, from: u32, to: u32) -> &Pair {
        let n = self.layout.nranks;
        assert!((from as usize) < n && (to as usize) < n, "a rank outside of its communicator");
        self.nth(self.layout.pair, from as usize * n + to as usize, n * n)
    }
    /// Slot `index` (counted over the communicator's life) of the ring from one rank to another, with its payload.
    #[inline(always)]
    pub fn pair_slot(&self, from: u32, to: u32, index: u64, bytes: usize) -> (&PairSlot, Payload<'_>) {
        let at = self.pair_slot_at(from, to, index, bytes);
        let head = &self.segment.structs::<PairSlot>(at, 1)[0];
        let data = if bytes <= PAIR_INLINE { at + 64 - PAIR_INLINE } else { at + 64 };
        (head, self.segment.view(data, bytes).expect("within the layout"))
    }
    /// Returns the place of a piece of a message from one rank to another, `at` bytes behind the first; `None`: it is outside of all.
    #[inline]
    pub fn piece_place(&self, from: u32, to: u32, at: usize, bytes: usize) -> Option<Payload<'_>> {
        let (first, all) = self.layout.places_for_pieces(from, to);
        if at <= all && bytes <= all - at { self.segment.view(first + at, bytes) } else { None }
    }
    /// Returns where that slot begins in the segment; it holds `bytes` bytes.
    #[inline]
    fn pair_slot_at(&self, from: u32, to: u32, index: u64, bytes: usize) -> usize {
        assert!(bytes <= PAIR_SLOT, "a message piece larger than its slot");
        let ring = match self.rings {
            None => self.layout.ring(from, to).0,
            Some(rings) => rings + from as usize * Layout::RING,
        };
        ring + (index as usize % PAIR_SLOTS) * PAIR_STRIDE
    }
    /// Where in private lines of rank `to` the byte lies that is at `at` in the control segment of rank `from`, who is on another host.
    pub fn mirrored(&self, from: u32, to: u32, at: usize) -> usize {
        let (ring, bytes) = self.layout.ring(from, to);
        match (self.rings, at.checked_sub(ring).filter(|within| *within < bytes)) {
            (Some(rings), Some(within)) => rings + from as usize * Layout::RING + within,
            _ => at,
        }
    }
    /// The memory of that slot, line and payload.
    #[inline]
    pub fn pair_slot_bytes(&self, from: u32, to: u32, index: u64, bytes: usize) -> Payload<'_> {
        let at = self.pair_slot_at(from, to, index, bytes);
        let behind = if bytes <= PAIR_INLINE { 0 } else { bytes };
        self.segment.view(at, size_of::<PairSlot>() + behind).expect("within the layout")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::control::Control;

    #[test]
    fn a_small_payload_can_lie_where_larger_ones_do() {
        let control = Control::create(Layout::new(2, 4096)).unwrap();
        for (rank, seq) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let small = control.first_payload(rank, seq, BEHIND / 2);
            let larger = control.payload(rank, seq, BEHIND + 1);
            assert_eq!((small.addr(), small.bytes()), (larger.addr(), BEHIND / 2));
            assert!((0..32).all(|s| !small.overlaps(control.payload(rank, s, BEHIND / 2))));
        }
    }
}
