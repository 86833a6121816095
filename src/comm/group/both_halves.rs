//! Transfers of a group of which one thread makes both halves: sends and receives of ranks of one process.
//!
//! ```text
//!     rank 0:  send a to 1,    receive d from 1  --.      copy a to b
//!     rank 1:  receive b from 0,    send c to 0  --'      copy c to d
//! ```
//!
//! Both buffers of a transfer are memory of this process, and neither rank can be late, so nothing is sent: each input is copied to its
//! output, as [`one_pass`](super::one_pass) does it for collectives. Where a half is missing, where the halves of a transfer differ, where an earlier
//! message between the two ranks is still under way, or where buffers overlap, the transfers take the usual way, which also words the errors
//! (docs/decisions/0088).

use super::batch::{Queued, is_heavy};
use super::one_pass;
use super::shares;
use crate::comm::calls::point_to_point::Transfer;
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle, Entry, Occupant};
use crate::kernels;
use crate::memory::view::{self, Payload};
use crate::transport::pair::are_at_rest;
use crate::types::{DataType, Rank};
use std::ops::Range;

/// The most calls: of an all-to-all of eight ranks.
const MOST_CALLS: usize = 128;
/// The most bytes of all transfers together, as of a collective in one pass.
const MOST_BYTES: usize = one_pass::MOST_AT_A_GROUPS_END;
/// The most outputs that are compared with all other buffers, if some memory is mapped at two addresses.
const MOST_COMPARED: usize = 32;

/// One half of a transfer, and its two ranks.
#[derive(Clone, Copy)]
struct Half {
    from: Rank,
    to: Rank,
    data: Payload<'static>,
    count: usize,
    dtype: DataType,
}

/// Transfers whose halves fit.
pub(in crate::comm) struct BothHalves {
    /// Each communicator, and its rank.
    comms: Vec<(CommHandle, Rank)>,
    /// Sorted by their ranks, the halves of a transfer at the same place.
    sends: Vec<Half>,
    receives: Vec<Half>,
    /// Bytes of all transfers together.
    bytes: usize,
}

impl BothHalves {
    /// Finds the transfers of these calls. `None`: there are other calls, or other halves than those of one communicator's ranks here.
    pub fn find<'c>(calls: impl ExactSizeIterator<Item = &'c Queued>) -> Option<BothHalves> {
        let n = calls.len();
        if !(2..=MOST_CALLS).contains(&n) || !n.is_multiple_of(2) {
            return None;
        }
        let mut found = BothHalves {
            comms: Vec::new(),
            sends: Vec::with_capacity(n / 2),
            receives: Vec::with_capacity(n / 2),
            bytes: 0,
        };
        for call in calls {
            let Queued::Transfer(comm, transfer, _) = call else { return None };
            let half = found.half(*comm, transfer)?;
            match transfer.send {
                true => found.sends.push(half),
                false => {
                    found.bytes = found.bytes.saturating_add(half.data.bytes());
                    found.receives.push(half);
                }
            }
        }
        // The k-th send from a rank to another meets the k-th receive.
        found.sends.sort_by_key(|half| (half.from, half.to));
        found.receives.sort_by_key(|half| (half.from, half.to));
        let what = |half: &Half| (half.from, half.to, half.count, half.dtype);
        let fit = found.sends.iter().map(what).eq(found.receives.iter().map(what));
        (found.bytes <= MOST_BYTES && fit && found.are_apart()).then_some(found)
    }

    fn half(&mut self, handle: CommHandle, transfer: &Transfer<'static>) -> Option<Half> {
        let known = self.comms.iter().find(|(known, _)| *known == handle);
        let rank = match known {
            Some((_, rank)) => *rank,
            None => {
                let (rank, _) = registry::rank_and_number(handle).ok()?;
                self.comms.push((handle, rank));
                rank
            }
        };
        let bytes = transfer.count.checked_mul(transfer.dtype.size()).filter(|bytes| *bytes <= MOST_BYTES)?;
        if transfer.of_collective {
            return None;
        }
        let (from, to) = match transfer.send {
            true => (rank, transfer.peer as Rank),
            false => (transfer.peer as Rank, rank),
        };
        let (data, count, dtype) = (transfer.buffer.view(bytes), transfer.count, transfer.dtype);
        Some(Half { from, to, data, count, dtype })
    }

    /// Returns the buffers that are written: not those in which a rank sends itself what is there already.
    fn outputs(&self) -> impl Iterator<Item = &Half> {
        let is_there =
            |send: &Half, receive: &Half| send.from == send.to && send.data.addr() == receive.data.addr();
        let both = self.sends.iter().zip(&self.receives);
        both.filter(move |(send, receive)| !is_there(send, receive)).map(|(_, receive)| receive)
    }

    /// Tells whether no output shares memory with another buffer.
    fn are_apart(&self) -> bool {
        if view::some_are_mapped_twice() {
            let meets = |(i, output): (usize, &Half)| {
                self.outputs().take(i).chain(&self.sends).any(|other| output.data.overlaps(other.data))
            };
            return self.receives.len() <= MOST_COMPARED && !self.outputs().enumerate().any(meets);
        }
        let range = |half: &Half, is_output| (half.data.addr() as usize, half.data.bytes(), is_output);
        let inputs = self.sends.iter().map(|half| range(half, false));
        let outputs = self.outputs().map(|half| range(half, true));
        let mut ranges: Vec<_> = inputs.chain(outputs).filter(|(_, bytes, _)| *bytes > 0).collect();
        ranges.sort_unstable();
        // Where the outputs end, and all buffers, that begin before the next.
        let (mut outputs, mut all) = (0, 0);
        ranges.into_iter().all(|(at, bytes, is_output)| {
            let is_apart = at >= outputs && !(is_output && at < all);
            all = all.max(at + bytes);
            if is_output {
                outputs = outputs.max(at + bytes);
            }
            is_apart
        })
    }

    /// Makes them. Returns false if it has done nothing.
    pub fn make(&self, entry: Entry) -> bool {
        self.try_make(entry).is_some()
    }

    fn try_make(&self, entry: Entry) -> Option<()> {
        let inside = |(comm, _): &(CommHandle, _)| registry::go_inside_if_free(*comm, entry);
        let inside: Vec<Occupant> = self.comms.iter().map(inside).collect::<Option<_>>()?;
        let all: Vec<&CommCore> = inside.iter().map(Occupant::get).collect::<Option<_>>()?;
        let first = all.first()?;
        let are_of_one = all
            .iter()
            .all(|c| c.may_transfer_in_place() && c.transport.control().is(first.transport.control()));
        let of_rank = |rank| all.iter().find(|c| c.rank() == rank);
        let is_next = |half: &Half| {
            let (from, to) = (of_rank(half.from)?, of_rank(half.to)?);
            (half.from == half.to || are_at_rest([&from.transport, &to.transport], [&from.pairs, &to.pairs]))
                .then_some(())
        };
        if !are_of_one || self.bytes > one_pass::most_bytes(&first.transport, self.comms.len()) {
            return None;
        }
        self.sends.iter().try_for_each(is_next)?;
        self.copy(first);
        for (is_sent, halves) in [(true, &self.sends), (false, &self.receives)] {
            for half in halves.iter().filter(|half| half.from != half.to) {
                let rank = if is_sent { half.from } else { half.to };
                first.transport.control().counters(rank).messages(is_sent, 1, half.data.bytes() as u64);
            }
        }
        Some(())
    }

    fn copy(&self, c: &CommCore) {
        let longest = self.receives.iter().map(|half| half.data.bytes()).max().unwrap_or(0);
        let all = self.bytes;
        match if is_heavy(longest, all) { c.transport.threads_for_group(self.comms.len()) } else { None } {
            Some(helpers) => shares::run(helpers, all, 1, &|bytes| self.copy_part(bytes)),
            None => self.copy_part(0..all),
        }
    }

    /// Copies these of the bytes of all transfers, one transfer after the other.
    fn copy_part(&self, bytes: Range<usize>) {
        let mut at = 0;
        for (send, receive) in self.sends.iter().zip(&self.receives) {
            let end = at + send.data.bytes();
            let (from, to) = (bytes.start.max(at), bytes.end.min(end));
            if from < to && send.data.addr() != receive.data.addr() {
                let part = |data: Payload<'static>| data.part(from - at, to - from);
                kernels::copy(part(receive.data), part(send.data), false);
            }
            at = end;
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "both_halves_tests.rs"]
mod tests;
