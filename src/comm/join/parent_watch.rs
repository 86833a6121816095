//! What a rank that waits for the other members of a new communicator learns from the parent.
//!
//! ```text
//!     rank A, host 0    child: all have come ---> parent: destroyed
//!     rank B, host 0    child: C is missing       parent: A has left        C's word comes by the child's link, and is late
//!     rank C, host 1
//! ```
//!
//! A rank destroys or aborts the parent of a communicator that it has made when it has seen all members come. On one host each other
//! member that sees the one has seen the other. Between hosts the words of parent and child travel by links of their own, so the parent's
//! may overtake the child's. There the end of the parent counts only when the child's words have had time to come; a member that could not
//! join tells it, and a death counts at once.

use crate::bootstrap;
use crate::error::Result;
use crate::transport::Transport;
use crate::types::Rank;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The watch over a parent while its child is made.
pub(super) struct ParentWatch<'a> {
    parent: &'a Transport,
    /// The members' ranks in the parent.
    members: &'a [Rank],
    /// How long the parent's end may be ahead of the child's words.
    ahead: Duration,
    /// When the end was noticed.
    noticed: Cell<Option<Instant>>,
}

impl<'a> ParentWatch<'a> {
    /// The parent's end may be ahead for as long as a silent host is waited for.
    pub fn new(parent: &'a Transport, members: &'a [Rank]) -> ParentWatch<'a> {
        let ahead = bootstrap::silence().unwrap_or_default();
        ParentWatch { parent, members, ahead, noticed: Cell::new(None) }
    }

    fn others(&self) -> impl Iterator<Item = Rank> + Clone {
        let me = self.parent.rank();
        self.members.iter().copied().filter(move |&rank| rank != me)
    }

    /// Fails if a member can no longer join.
    pub fn check(&self) -> Result<()> {
        let parent = self.parent;
        let ended = parent.check_abort().and_then(|()| parent.watch_ranks(self.others()));
        let Err(error) = ended else {
            self.noticed.set(None);
            return Ok(());
        };
        if !parent.has_far() || parent.has_ended() {
            return Err(error);
        }
        match parent.is_aborted() {
            // Members that have joined may have failed in later calls because of it.
            true => parent.died().map_or(Ok(()), Err)?,
            false => parent.check_not_lost(self.others())?,
        }
        let noticed = self.noticed.get().unwrap_or_else(Instant::now);
        self.noticed.set(Some(noticed));
        if noticed.elapsed() < self.ahead { Ok(()) } else { Err(error) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::transport::in_process::{Delivery, transports};
    use crate::transport::link::Ending;

    const HOUR: Duration = Duration::from_secs(3600);

    /// What rank 0 learns of two members on its host and one on another, at first and at last, when the parent `ends`.
    fn learns(hosts: &[u32], ends: impl Fn(&[std::sync::Arc<Transport>])) -> [bool; 2] {
        let (ranks, _) = transports(hosts, Delivery::InOrder, 60_000);
        ends(&ranks);
        [HOUR, Duration::ZERO].map(|ahead| {
            let watch =
                ParentWatch { parent: &ranks[0], members: &[0, 1, 2], ahead, noticed: Cell::new(None) };
            (0..3).all(|_| watch.check().is_ok())
        })
    }

    #[test]
    fn between_hosts_the_end_of_the_parent_counts_when_the_childs_words_have_had_time_to_come() {
        let far = |ends: fn(&[std::sync::Arc<Transport>])| learns(&[0, 0, 1], ends);
        assert_eq!(far(|_| {}), [true, true]);
        assert_eq!(far(|ranks| ranks[1].leave()), [true, false]);
        assert_eq!(far(|ranks| ranks[1].end_calls(Ending::Aborted)), [true, false]);
        // What a rank has done itself, and what members tell of their failures, counts at once.
        assert_eq!(far(|ranks| ranks[0].end_calls(Ending::Aborted)), [false, false]);
        assert_eq!(far(|ranks| ranks[1].fail(1)), [false, false]);
    }

    #[test]
    fn on_one_host_the_end_of_the_parent_counts_at_once() {
        assert_eq!(learns(&[0; 3], |ranks| ranks[1].leave()), [false, false]);
        assert_eq!(learns(&[0; 3], |ranks| ranks[1].end_calls(Ending::Aborted)), [false, false]);
    }
}
