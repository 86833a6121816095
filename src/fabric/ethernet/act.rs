//! What a core does, one thing after the other.

use super::end::Side;
use super::link::LinkEvent;
use super::parameters::Parameters;
use crate::topology::EthernetCore;

/// An action that takes a core's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    Greet,
    Send(u32),
    Announce(u32),
    Take(u32),
    Acknowledge(u32),
    Complete(u32),
}

impl Act {
    /// Returns what it does to the link.
    pub fn event(self, side: Side) -> LinkEvent {
        match self {
            Act::Greet => LinkEvent::Greet(side),
            Act::Send(id) => LinkEvent::Send(id),
            Act::Announce(id) => LinkEvent::Announce(id),
            Act::Take(id) => LinkEvent::Take(id),
            Act::Acknowledge(id) => LinkEvent::Acknowledge(id),
            Act::Complete(id) => LinkEvent::Complete(id),
        }
    }

    /// Returns the time that it takes. What follows from a word seen before costs no look of its own.
    pub fn ps(self, parameters: &Parameters) -> u64 {
        let EthernetCore { look_ps, issue_ps, .. } = parameters.core;
        match self {
            Act::Take(_) => look_ps,
            Act::Announce(_) | Act::Acknowledge(_) => issue_ps,
            Act::Greet | Act::Send(_) | Act::Complete(_) => look_ps.saturating_add(issue_ps),
        }
    }
}
