//! Where everything lies in a control segment.

use super::arrivals::{BLOCK, PayloadHalf, depth, half};
use super::call_counters::CallCounters;
use super::lines::ArrivalPlace;
use super::{Header, Life, PAIR_SLOTS, PAIR_STRIDE, Pair, Progress, RECORDS, Record, signals};
use crate::sync::doorbell::Doorbell;

/// Where everything lies, a function of the number of ranks and the staging size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) nranks: usize,
    pub(super) staging: usize,
    pub(super) life: usize,
    pub(super) record: usize,
    pub(super) progress: usize,
    pub(super) doorbell: usize,
    pub(super) counters: usize,
    pub(super) arrival: usize,
    /// Arrival lines of a rank.
    pub depth: usize,
    /// A half of a rank's payloads.
    pub half: PayloadHalf,
    pub(super) payloads_at: usize,
    pub(super) pair: usize,
    pub(super) staging_at: usize,
    pub(super) rings_at: usize,
    pub(super) pieces_at: usize,
    /// Bytes of the places for the pieces of messages from one rank to another; 0: there are none.
    pub(super) pieces: usize,
    pub(super) total: usize,
}

/// What the usual size of staging memory depends on, beside the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagingKind {
    /// Nothing else.
    Usual,
    /// Ranks rotate through it.
    Rotated,
    /// What ranks of several hosts stage goes from one to another in messages, and each slice takes one: it is larger.
    BetweenHosts,
}

impl StagingKind {
    /// Returns the kind for ranks of one host or several, which rotate or do not.
    pub fn of(are_of_hosts: bool, rotate: bool) -> StagingKind {
        match (are_of_hosts, rotate) {
            (true, _) => StagingKind::BetweenHosts,
            (false, true) => StagingKind::Rotated,
            (false, false) => StagingKind::Usual,
        }
    }
}

/// Bytes of an arrival line and of the payload behind it.
const ARRIVAL: usize = size_of::<ArrivalPlace>();

/// Returns the bytes of a place in turn for `bytes` bytes: so much more that not all places begin at the same place of a page.
#[inline]
pub fn place_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(PLACES_APART) + PLACES_APART
}

/// Places begin at multiples of this.
pub const PLACES_APART: usize = 128;

/// Bytes through which ranks rotate: more than the second-level caches of two cores hold.
const ROTATED: usize = 2 << 20;

/// Bytes of the places for large messages of two ranks that do not rotate: room for 31 pieces. A place is its owner's again after 24
/// (`transport/pair/places.rs`).
const PIECES_OF_TWO: usize = 1 << 20;

impl Layout {
    /// Computes the layout for `nranks` ranks with `staging` bytes of staging each, rounded up to pages.
    pub fn new(nranks: u32, staging: usize) -> Layout {
        let n = nranks as usize;
        let staging = staging.max(4096).next_multiple_of(4096);
        let mut at = 0usize;
        let mut take = |bytes: usize, align: usize| {
            let here = at.next_multiple_of(align);
            at = here + bytes;
            here
        };
        take(size_of::<Header>(), 64);
        let life = take(n * size_of::<Life>(), 64);
        let record = take(n * RECORDS * size_of::<Record>(), 128);
        let progress = take(n * size_of::<Progress>(), 128);
        let doorbell = take(n * size_of::<Doorbell>(), 64);
        let counters = take(n * size_of::<CallCounters>(), 128);
        let pair = take(n * n * size_of::<Pair>(), 64);
        let rotates = staging >= ROTATED;
        let (depth, half) = (depth(n), PayloadHalf { blocks: half(n), few: rotates && n == 2 });
        let arrival = take(n * depth * ARRIVAL, 4096);
        let payloads_at = take(n * 2 * half.blocks * BLOCK, 4096);
        let staging_at = take(n * staging, 4096);
        let rings_at = take(0, 4096);
        let pieces_at = rings_at + n * n * (Self::RING + signals::PAGE);
        let pieces = match n {
            ..=4 if rotates => ROTATED,
            2 => PIECES_OF_TWO,
            _ => 0,
        };
        let total = pieces_at + n * n * pieces;
        Layout {
            nranks: n,
            staging,
            life,
            record,
            progress,
            doorbell,
            counters,
            arrival,
            depth,
            half,
            payloads_at,
            pair,
            staging_at,
            rings_at,
            pieces_at,
            pieces,
            total,
        }
    }

    pub(super) const RING: usize = (PAIR_SLOTS * PAIR_STRIDE).next_multiple_of(4096);

    /// Staging bytes a rank gets when nothing else is said: the segment stays below 8 MiB for up to 64 ranks.
    pub fn default_staging(nranks: u32) -> usize {
        ((3 << 20) / nranks.max(1) as usize).clamp(32 << 10, 1 << 20)
    }
    /// The same for ranks of this kind.
    pub fn usual_staging(nranks: u32, kind: StagingKind) -> usize {
        match kind {
            StagingKind::Rotated if nranks <= 8 => ROTATED,
            StagingKind::BetweenHosts => {
                ((6 << 20) / nranks.max(1) as usize).clamp(32 << 10, ROTATED * 3 / 4)
            }
            _ => Layout::default_staging(nranks),
        }
    }
    /// Staging bytes of a rank for two calls, where ranks rotate.
    pub fn window(&self) -> usize {
        Layout::default_staging(self.nranks as u32).max(256 << 10).min(self.staging)
    }
    /// Staging bytes of a rank.
    pub fn staging_bytes(&self) -> usize {
        self.staging
    }
    /// Bytes that are reserved when all ranks have joined.
    pub fn reserved(&self) -> usize {
        self.rings_at
    }
    /// Bytes that the maker reserves: all of these but the staging memory.
    pub(super) fn makers(&self) -> usize {
        self.staging_at
    }
    /// The range of a rank's staging memory.
    pub fn staging(&self, rank: u32) -> (usize, usize) {
        (self.staging_at + rank as usize * self.staging, self.staging)
    }
    /// The range of a rank's payloads that do not lie behind its arrival lines.
    pub fn payloads_of(&self, rank: u32) -> (usize, usize) {
        (self.payloads(rank), 2 * self.half.blocks * BLOCK)
    }
    /// Where bytes begin that ranks write for others to read and that no line describes: payloads, then staging memory up to
    /// [`reserved`](Self::reserved).
    pub fn bytes_at(&self) -> usize {
        self.payloads_at
    }
    /// Bytes of a child that are reserved at once.
    pub(super) fn head(&self) -> usize {
        self.arrival
    }
    /// Where the arrivals of all ranks in call `seq` begin.
    pub(super) fn arrivals(&self, seq: u64) -> usize {
        self.arrival + self.call(seq) * self.arrivals_of_a_call()
    }
    /// Which lines, of those that are used in turn, call `seq` uses.
    #[inline(always)]
    pub(super) fn call(&self, seq: u64) -> usize {
        seq.wrapping_sub(1) as usize & (self.depth - 1)
    }
    /// Bytes of the arrivals of all ranks in a call.
    pub(super) fn arrivals_of_a_call(&self) -> usize {
        self.nranks * ARRIVAL
    }
    /// Where a rank's payloads begin.
    pub(super) fn payloads(&self, rank: u32) -> usize {
        self.payloads_at + rank as usize * 2 * self.half.blocks * BLOCK
    }
    /// Ranks.
    pub fn nranks(&self) -> u32 {
        self.nranks as u32
    }
    /// Bytes of address space.
    pub fn total(&self) -> usize {
        self.total
    }
    /// The range of the rings from a rank to all.
    pub fn rings_of(&self, rank: u32) -> (usize, usize) {
        (self.ring(rank, 0).0, self.nranks * Self::RING)
    }
    /// The range of the ring from one rank to another, to be reserved before either touches it.
    pub fn ring(&self, from: u32, to: u32) -> (usize, usize) {
        (self.rings_at + (from as usize * self.nranks + to as usize) * Self::RING, Self::RING)
    }
    /// Bytes of the places for the pieces of messages from one rank to another; 0: there are none.
    #[inline]
    pub fn bytes_for_pieces(&self) -> usize {
        self.pieces
    }
    /// The range of the pieces of messages from one rank to another.
    pub(super) fn places_for_pieces(&self, from: u32, to: u32) -> (usize, usize) {
        (self.pieces_at + (from as usize * self.nranks + to as usize) * self.pieces, self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_ranks_stay_within_eight_mebibytes_and_between_hosts_within_twelve() {
        let layout = Layout::new(64, Layout::default_staging(64));
        assert!(layout.reserved() <= 8 << 20, "{}", layout.reserved());
        let layout = Layout::new(64, Layout::usual_staging(64, StagingKind::BetweenHosts));
        assert!(layout.reserved() <= 12 << 20, "{}", layout.reserved());
    }
}
