//! The words that a rank publishes when it enters a call. With them every rank notices a disagreement before it uses the data.

use super::{Scope, Transport};
use crate::error::Result;
use crate::kernels::hints;
use crate::memory::control::lines::{ArrivalPlace, Lines};
use crate::memory::control::{Arrival, INLINE, Record};
use crate::sync::prim::Ordering;
use crate::sync::wait::eagerly;
use crate::types::{Collective, DataType, Rank, RedOp};

/// A call's arguments, as far as all ranks have to agree on them.
///
/// Packed as `args`: bits 0..8 collective, 8..16 type, 16..24 operation, 24..40 root, 40..48 algorithm, 48 padded;
/// bits 56.. are [`Offer`] flags, which may differ between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Which collective.
    pub collective: Collective,
    /// Element type.
    pub dtype: DataType,
    /// Reduction.
    pub op: RedOp,
    /// Root.
    pub root: u32,
    /// Index of the algorithm in the registry.
    pub algorithm: u8,
    /// See `comm::Call::padded`.
    pub padded: bool,
    /// Elements.
    pub count: u64,
}

/// A rank's offer to its peers in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offer {
    /// The whole input follows the arrival line.
    pub payload: bool,
    /// The input's offset in the rank's heap.
    pub input: Option<u64>,
    /// The output's offset in the rank's heap.
    pub output: Option<u64>,
    /// Input and output overlap.
    pub in_place: bool,
    /// `input` is an address in the rank's private memory, which the kernel reads for its peers.
    pub private: bool,
}

const PAYLOAD: u64 = 1 << 56;
const INPUT: u64 = 1 << 57;
const OUTPUT: u64 = 1 << 58;
const IN_PLACE: u64 = 1 << 59;
const PRIVATE: u64 = 1 << 60;
/// The flag of a far rank's arrival whose call failed before the payload was sent: there is none.
pub const WITHDRAWN: u64 = 1 << 61;
/// The bits of `args` on which ranks must agree.
pub const AGREED: u64 = (1 << 56) - 1;

impl Fingerprint {
    /// The agreed part of `args`.
    #[inline]
    pub fn pack(&self) -> u64 {
        self.collective as u64
            | (self.dtype as u64) << 8
            | (self.op as u64) << 16
            | (self.root as u64 & 0xffff) << 24
            | (self.algorithm as u64) << 40
            | (self.padded as u64) << 48
    }

    /// Reads what a peer wrote; `None` if it makes no sense.
    pub fn unpack(args: u64, count: u64) -> Option<Fingerprint> {
        Some(Fingerprint {
            collective: Collective::from_c((args & 0xff) as i32)?,
            dtype: DataType::from_c((args >> 8 & 0xff) as i32)?,
            op: RedOp::from_c((args >> 16 & 0xff) as i32)?,
            root: (args >> 24 & 0xffff) as u32,
            algorithm: (args >> 40 & 0xff) as u8,
            padded: args >> 48 & 1 == 1,
            count,
        })
    }
}

impl Offer {
    /// The flags' part of `args`.
    #[inline]
    pub fn pack(&self) -> u64 {
        (self.payload as u64 * PAYLOAD)
            | (self.input.is_some() as u64 * INPUT)
            | (self.output.is_some() as u64 * OUTPUT)
            | (self.in_place as u64 * IN_PLACE)
            | (self.private as u64 * PRIVATE)
    }

    /// Reads what a peer wrote.
    #[inline]
    pub fn unpack(args: u64, words: [u64; 2]) -> Offer {
        Offer {
            payload: args & PAYLOAD != 0,
            input: (args & INPUT != 0).then_some(words[0]),
            output: (args & OUTPUT != 0).then_some(words[1]),
            in_place: args & IN_PLACE != 0,
            private: args & PRIVATE != 0,
        }
    }
}

/// Stores a rank's record of a call and its arrival line. The payload is in its place already.
#[inline(always)]
pub(super) fn store_arrival(lines: &Lines, rank: Rank, seq: u64, said: [u64; 2], trail: u64, offer: &Offer) {
    store_at(lines.record(rank, seq), lines.arrival(rank, seq), seq, said, trail, offer);
}

/// The same where the places of both are known.
#[inline(always)]
fn store_at(record: &Record, line: &Arrival, seq: u64, said: [u64; 2], trail: u64, offer: &Offer) {
    record.said[0].store(said[0] & AGREED, Ordering::Relaxed);
    record.said[1].store(said[1], Ordering::Relaxed);
    die_point!(11 "arrival_record");
    // ORDER: publishes the record; partner: `on_record`.
    record.seq.store(seq, Ordering::Release);
    die_point!(12 "arrival_recorded");
    line.args.store(said[0], Ordering::Relaxed);
    line.count.store(said[1], Ordering::Relaxed);
    line.trail.store(trail, Ordering::Relaxed);
    if let Some(offset) = offer.input {
        line.words[0].store(offset, Ordering::Relaxed);
    }
    if let Some(offset) = offer.output {
        line.words[1].store(offset, Ordering::Relaxed);
    }
    die_point!(13 "arrival_line");
    // ORDER: publishes the line, the payload and the input buffer; partner: `arrived`.
    line.seq.store(seq, Ordering::Release);
    die_point!(14 "arrival_posted");
}

#[cfg(test)]
thread_local! {
    /// The number of arrivals for whose lines this thread has asked: without the hint a program does the same.
    pub(crate) static ASKED_FOR: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Bytes of a payload that are fetched with the arrival line; the processor itself notices longer ones.
const FETCHED_TOGETHER: usize = 256;

/// What a rank says with its arrival.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// The call's number.
    pub seq: u64,
    /// This rank's arguments.
    pub mine: [u64; 2],
    /// See [`agreement`](super::agreement).
    pub trail: u64,
}

/// Arrivals of ranks that are all of this host, and whose payloads lie with their lines.
impl Transport {
    /// Enters a call whose payload is in its place.
    #[inline(always)]
    pub fn arrive_here(&self, place: &ArrivalPlace, said: &Said, offer: &Offer) {
        let &Said { seq, mine, trail } = said;
        let record = self.control.record(self.rank, seq);
        store_at(record, &place.line, seq, [mine[0] | offer.pack(), mine[1]], trail, offer);
        self.after_post();
        die_point!(15 "arrival_rung");
    }

    /// Polls for an arrival as long as a hand-off takes. The beginning of its payload is fetched together with the line.
    #[inline(always)]
    pub fn awaits_here(&self, place: &ArrivalPlace, said: &Said, bytes: usize) -> bool {
        if bytes <= INLINE {
            return eagerly(|| place.has_arrived(said.seq));
        }
        let first = place.payload(bytes.min(FETCHED_TOGETHER));
        eagerly(|| {
            let has_arrived = place.has_arrived(said.seq);
            hints::prefetch(first);
            has_arrived
        })
    }

    /// Goes on with that wait. `deadline_ns`: as in [`Scope`].
    #[cold]
    pub fn wait_for_arrival(&self, place: &ArrivalPlace, said: &Said, deadline_ns: &mut u64) -> Result<()> {
        let mut scope = Scope::new(said.seq, said.mine, said.trail, None);
        (scope.arrival_is_all, scope.deadline_ns) = (true, *deadline_ns);
        let ended = self.wait_further(&mut scope, || place.has_arrived(said.seq));
        *deadline_ns = scope.deadline_ns;
        ended
    }

    /// Tells whether a rank that has arrived says something else of the calls before. `None`: it has other arguments, or its payload is
    /// elsewhere.
    #[inline(always)]
    pub fn agrees_here(&self, place: &ArrivalPlace, said: &Said) -> Option<bool> {
        let line = &place.line;
        let (args, count) = (line.args.load(Ordering::Relaxed), line.count.load(Ordering::Relaxed));
        let agrees = args & (AGREED | PAYLOAD) == said.mine[0] | PAYLOAD && count == said.mine[1];
        agrees.then(|| line.trail.load(Ordering::Relaxed) != said.trail)
    }
}

impl Transport {
    /// Enters a call: payload first, whose length is `bytes`, then the line. `reads`: whether a rank of another host reads the payload.
    #[inline(always)]
    pub fn arrive(&self, scope: &Scope, offer: &Offer, bytes: usize, reads: impl Fn(Rank) -> bool) {
        let &Scope { seq, mine, trail, .. } = scope;
        store_arrival(&self.control, self.rank, seq, [mine[0] | offer.pack(), mine[1]], trail, offer);
        if self.has_far() {
            self.arrive_far(scope, offer, bytes, reads);
        }
        // A rank without others on its host has nobody to ring.
        if !self.has_far_only() {
            self.after_post();
        }
        die_point!(15 "arrival_rung");
    }

    /// Tells whether a far rank has entered call `seq` and left it before its payload was sent.
    #[inline]
    pub(super) fn has_withdrawn(&self, rank: Rank, seq: u64) -> bool {
        let line = self.lines(rank).arrival(rank, seq);
        line.args.load(Ordering::Relaxed) & WITHDRAWN != 0 && line.seq.load(Ordering::Acquire) == seq
    }

    /// Takes the lines of the next call's arrival out of the peers' caches while this call waits for them. Most calls are followed
    /// by another like them; `bytes`: of the payload; `mutual`: see [`Transport::payload_of`].
    #[inline(always)]
    pub fn prepare_next_arrival(&self, seq: u64, bytes: usize, mutual: bool) {
        if !self.control.has_arrivals(seq + 1) {
            return;
        }
        hints::prefetch_for_write(self.control.arrival_bytes(self.rank, seq + 1));
        if bytes > INLINE && bytes <= hints::limits().claimed_payload {
            hints::prefetch_for_write(self.payload_of(self.rank, seq + 1, bytes, mutual));
        }
    }

    /// Asks for the lines of a rank's arrival with a payload that lies behind the line, and waits for nothing.
    #[inline]
    pub fn ask_for_arrival(&self, rank: Rank, seq: u64, bytes: usize) {
        let lines = self.lines(rank);
        if self.control.has_arrivals(seq) {
            hints::prefetch(lines.arrival_bytes(rank, seq));
            hints::prefetch(lines.payload(rank, seq, bytes));
            #[cfg(test)]
            ASKED_FOR.set(ASKED_FOR.get() + 1);
        }
    }

    /// The last call that a rank has entered.
    pub(super) fn last_call(&self, rank: Rank) -> Option<String> {
        (0..self.control.layout().depth as u64)
            .filter(|&s| self.control.has_arrivals(s))
            .map(|s| self.lines(rank).arrival(rank, s))
            .max_by_key(|line| line.seq.load(Ordering::Acquire))
            .filter(|line| line.seq.load(Ordering::Acquire) > 0)
            .map(|line| {
                let args = line.args.load(Ordering::Relaxed) & AGREED;
                let text = Self::describe([args, line.count.load(Ordering::Relaxed)]);
                format!("call #{} {text}", line.seq.load(Ordering::Relaxed))
            })
    }

    /// Waits for a rank's arrival as [`meet`](Self::meet) does, and for the beginning of its payload of `bytes` bytes: the lines are
    /// fetched together, and not one after the other. `mutual`: see [`Transport::payload_of`].
    #[inline(always)]
    pub fn meet_payload(&self, peer: Rank, scope: &mut Scope, bytes: usize, mutual: bool) -> Result<Offer> {
        if bytes > INLINE {
            let line = self.lines(peer).arrival(peer, scope.seq);
            let first = self.payload_of(peer, scope.seq, bytes, mutual);
            let first = first.part(0, bytes.min(FETCHED_TOGETHER));
            eagerly(|| {
                let has_arrived = line.seq.load(Ordering::Acquire) >= scope.seq;
                hints::prefetch(first);
                has_arrived
            });
        }
        self.meet(peer, scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_reversible_and_flags_do_not_count() {
        for &collective in Collective::ALL {
            for &dtype in DataType::ALL {
                for &op in RedOp::ALL {
                    let f = Fingerprint {
                        collective,
                        dtype,
                        op,
                        root: 1023,
                        algorithm: 9,
                        padded: true,
                        count: 77,
                    };
                    let offer = Offer {
                        payload: false,
                        input: Some(64),
                        output: None,
                        in_place: true,
                        private: false,
                    };
                    let args = f.pack() | offer.pack();
                    assert_eq!(args & AGREED, f.pack());
                    assert_eq!(Fingerprint::unpack(args, 77), Some(f));
                    assert_eq!(Offer::unpack(args, [64, 0]), offer);
                }
            }
        }
        assert_eq!(Fingerprint::unpack(u64::MAX, 0), None);
    }
}
