//! The smallest calls among ranks of one host, where every rank waits for every other: their payloads lie with the arrival lines.
//!
//! It is `direct.rs` for a call like the last one, without the questions that have the same answers each time (docs/decisions/0103).
//! What is seldom needed (lines that are not reserved, a peer that is calls behind, arguments that differ, a rank that offers its buffers)
//! it leaves to `direct.rs`, either before anything is done or after this rank's arrival.

use super::{PeerProgress, PreparedCall, direct};
use crate::error::Result;
use crate::kernels::{self, Dest, Fold, FoldSource, hints};
use crate::memory::control::INLINE;
use crate::memory::control::arrivals::BEHIND;
use crate::memory::control::lines::ArrivalPlace;
use crate::memory::view::Payload;
use crate::transport::Transport;
use crate::transport::arrival::{Offer, Said};
use crate::transport::waiting::Polls;
use crate::types::Collective;

/// What calls like the last one have in common.
pub struct SmallCall {
    collective: Collective,
    /// Bytes of each rank's payload.
    payload: usize,
    /// Elements and bytes of a block.
    count: usize,
    block: usize,
    fold: Option<Fold>,
    /// The payload is moved towards the shared cache.
    demotes: bool,
    /// The lines of the next payload are claimed.
    claims: bool,
}

/// How far a small call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// This rank has arrived, and [`direct`] goes on from there.
    Arrival {
        /// As in [`Scope`](crate::transport::Scope).
        deadline_ns: u64,
    },
    /// The output is complete. `doubt`: as in [`Scope`](crate::transport::Scope).
    End {
        /// Another rank says something else of the calls before.
        doubt: bool,
    },
}

/// A call that this rank has entered.
pub struct SmallArrival<'t> {
    /// What this rank has said.
    said: Said,
    /// The arrivals of all ranks.
    places: &'t [ArrivalPlace],
}

impl SmallCall {
    /// Prepares calls like this one, whose data come with the arrivals. `None`: they are not served here.
    pub fn of(t: &Transport, job: &PreparedCall<'_>) -> Option<SmallCall> {
        let (collective, payload, limits) = (job.collective, job.input.bytes(), hints::limits());
        let serves =
            collective.everybody() && payload <= BEHIND && !t.is_swapped(payload, true) && !t.has_far();
        serves.then(|| SmallCall {
            collective,
            payload,
            count: job.count,
            block: job.count * job.size,
            fold: job.fold.copied(),
            demotes: limits.demotes && direct::DEMOTED.contains(&payload),
            claims: payload > INLINE && payload <= limits.claimed_payload,
        })
    }

    /// Tells whether this rank may enter call `seq` at once, which needs no pages first and no look at how far its peers are.
    #[inline(always)]
    pub fn may_enter(t: &Transport, seq: u64, peers: &PeerProgress) -> bool {
        let control = t.control();
        control.has_all_arrivals() && seq <= peers.done + control.layout().depth as u64
    }

    /// Enters a call.
    #[inline(always)]
    pub fn enter<'t>(
        &self,
        t: &'t Transport,
        said: Said,
        input: Payload<'_>,
        in_place: bool,
    ) -> SmallArrival<'t> {
        let (control, me, seq) = (t.control(), t.rank() as usize, said.seq);
        let places = control.arrivals(seq);
        let place = &places[me];
        if self.payload > 0 {
            kernels::copy(place.payload(self.payload), input, false);
            die_point!(10 "arrival_payload");
        }
        t.arrive_here(place, &said, &Offer { in_place, ..direct::PACKED });
        if self.demotes {
            hints::demote(place.payload(self.payload));
        }
        let next = &control.arrivals(seq + 1)[me];
        hints::prefetch_for_write(next.line_bytes());
        if self.claims {
            hints::prefetch_for_write(next.payload(self.payload));
        }
        SmallArrival { said, places }
    }

    /// Waits for the peers' arrivals and takes their payloads. A call that is polled polls for no longer than a hand-off takes. `job`: the
    /// whole call.
    #[inline(always)]
    pub fn take<'a>(
        &self,
        t: &Transport,
        &SmallArrival { ref said, places }: &SmallArrival<'_>,
        polls: Polls,
        peers: &mut PeerProgress,
        [input, output]: [Payload<'a>; 2],
        job: impl Fn() -> PreparedCall<'a>,
    ) -> Result<Reached> {
        let me = t.rank() as usize;
        let is_early = polls.is_none() && self.copy_own_block(me, input, output);
        let (mut doubt, mut deadline_ns) = (false, 0);
        for (rank, place) in places.iter().enumerate() {
            if rank == me {
                continue;
            }
            if !t.awaits_here(place, said, self.payload) {
                if polls.is_some() {
                    return Ok(Reached::Arrival { deadline_ns });
                }
                t.wait_for_arrival(place, said, &mut deadline_ns)?;
            }
            match t.agrees_here(place, said) {
                Some(doubts) => doubt |= doubts,
                None => return Ok(Reached::Arrival { deadline_ns }),
            }
        }
        die_point!(16 "arrival_all");
        let payload = |rank: usize| places[rank].payload(self.payload);
        match (self.collective, &self.fold) {
            (Collective::Barrier, _) => {}
            // All operations commute.
            (Collective::AllReduce, Some(fold)) if places.len() == 2 => {
                let [mine, theirs] = [input, payload(1 - me)].map(|view| FoldSource { view, raw: true });
                fold.fold_two(mine, theirs, Dest::cached(output), self.count, true);
            }
            _ => self.output(t, &job(), places, is_early),
        }
        die_point!(17 "direct_done");
        peers.have_met(said.seq);
        Ok(Reached::End { doubt })
    }

    /// Copies the own block, where it is one of the output, while the peers' arrivals are under way. Tells whether it has.
    #[inline(always)]
    fn copy_own_block(&self, me: usize, input: Payload<'_>, output: Payload<'_>) -> bool {
        let at = match self.collective {
            Collective::AllGather => 0,
            Collective::AlltoAll => me * self.block,
            _ => return false,
        };
        kernels::copy(output.part(me * self.block, self.block), input.part(at, self.block), false);
        true
    }

    /// Makes this rank's output. `is_early`: the own block is there.
    #[inline(never)]
    fn output(&self, t: &Transport, job: &PreparedCall<'_>, places: &[ArrivalPlace], is_early: bool) {
        direct::take(t, job, is_early, |rank| {
            let whole = match rank == t.rank() {
                true => job.input,
                false => places[rank as usize].payload(self.payload),
            };
            direct::read_of(whole, t, job)
        });
    }
}
