//! The parts of a group on streams that have nothing to do with each other.
//!
//! ```text
//!     c0 on A, c1 on B, c1 on C, c2 on C, c3 on D          [c0 A]  [c1 B, c1 C, c2 C]  [c3 D]
//! ```
//!
//! Two calls are of one part if they share a stream or a communicator, directly or through others; on a declared machine also if their
//! communicators are of one rank, which enters all calls of a group at one time. Parts are queued as if each were a group: none waits for
//! another's streams. They may still wait for each other's ranks, so all are queued before any is made.

use crate::comm::group::batch::Queued;
use crate::comm::registry::CommHandle;
use crate::handle::{Handle, StreamKind};
use std::sync::Arc;

/// Calls and the stream of each.
pub(super) type StreamPart = Vec<(Queued, Handle<StreamKind>)>;

/// Divides calls into parts, in the order of the first call of each. Calls keep their order. `rank` tells ranks of a declared machine
/// apart.
pub(super) fn parts(calls: StreamPart, rank: impl Fn(CommHandle) -> Option<usize>) -> Vec<StreamPart> {
    let mut parts: Vec<StreamPart> = Vec::new();
    for (call, stream) in calls {
        let (comm, its_rank) = (call.comm(), rank(call.comm()));
        let is_of_its_rank = |other: CommHandle| its_rank.is_some() && rank(other) == its_rank;
        let meets = |part: &StreamPart| {
            let mut calls = part.iter().map(|(other, on)| (other.comm(), on));
            calls.any(|(other, on)| *on == stream || other == comm || is_of_its_rank(other))
        };
        let mut met = (0..parts.len()).filter(|&i| meets(&parts[i]));
        let Some(first) = met.next() else {
            parts.push(vec![(call, stream)]);
            continue;
        };
        // It joins what was apart so far.
        let others: Vec<usize> = met.collect();
        for &other in others.iter().rev() {
            let other = parts.remove(other);
            parts[first].extend(other);
        }
        parts[first].push((call, stream));
    }
    parts
}

/// Tells whether a stream is there twice.
pub(super) fn repeats(streams: &[Option<Handle<StreamKind>>]) -> bool {
    streams.iter().enumerate().any(|(i, stream)| streams[..i].contains(stream))
}

/// Removes duplicates and keeps the order of first occurrence.
pub(super) fn distinct<T>(all: Vec<Arc<T>>) -> Vec<Arc<T>> {
    let mut once: Vec<Arc<T>> = Vec::new();
    for one in all {
        if !once.iter().any(|known| Arc::ptr_eq(known, &one)) {
            once.push(one);
        }
    }
    once
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::comm::onesided::signals::AwaitedSignals;

    /// Returns the parts of calls of communicators on streams, as the numbers of both. From 100 on a communicator is of the rank of a
    /// declared machine that its hundreds tell.
    fn divided(calls: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
        let rank = |comm: CommHandle| Some(comm.bits() as usize / 100).filter(|&rank| rank > 0);
        let comm = |number: u64| CommHandle::from_bits(number);
        let call = |&(of, on): &(u64, u64)| {
            let awaited: Vec<AwaitedSignals> = Vec::new();
            (Queued::Awaited(comm(of), awaited), Handle::from_bits(on))
        };
        let numbers =
            |part: &StreamPart| part.iter().map(|(call, on)| (call.comm().bits(), on.bits())).collect();
        parts(calls.iter().map(call).collect(), rank).iter().map(numbers).collect()
    }

    #[test]
    fn calls_without_a_common_stream_or_communicator_are_apart() {
        assert_eq!(divided(&[(1, 11), (2, 12), (1, 11)]), [vec![(1, 11), (1, 11)], vec![(2, 12)]]);
    }

    #[test]
    fn what_meets_through_others_is_one_part() {
        let calls = [(1, 11), (2, 12), (3, 13), (2, 13), (3, 11)];
        assert_eq!(divided(&calls), [vec![(1, 11), (2, 12), (3, 13), (2, 13), (3, 11)]]);
    }

    #[test]
    fn communicators_of_one_rank_of_a_machine_are_one_part() {
        let calls = [(101, 11), (201, 12), (102, 13), (202, 14), (301, 15)];
        let parts = [vec![(101, 11), (102, 13)], vec![(201, 12), (202, 14)], vec![(301, 15)]];
        assert_eq!(divided(&calls), parts);
    }
}
