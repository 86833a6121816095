//! Faults on purpose: the models (`models.rs`) break one line of the protocols at a time and must notice. In the library as it
//! is shipped nothing of this is left.

use crate::sync::prim::model::Ordering;

/// A line that a model can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlantedSite {
    /// `claim` does not acquire.
    Claim,
    /// `claim` does not bump the tag.
    Tag,
    /// `give_back` does not release.
    GiveBack,
    /// `commit` does not release.
    Commit,
    /// `committed` does not acquire.
    Committed,
    /// A receiver's `release` neither releases nor acquires.
    Release,
    /// `insert` commits before the entries are there.
    Early,
    /// An entry is stored without release.
    Entry,
    /// An entry is read without acquire.
    SeeEntry,
    /// `try_lock` does not acquire.
    Lock,
    /// `unlock` does not release.
    Unlock,
    /// Entering and leaving do not change the census's version.
    Version,
    /// Entering neither releases nor acquires.
    EnterIdle,
    /// The verdict is stored without release.
    Verdict,
}

/// Returns the ordering of a line; relaxed if the line is broken.
#[cfg(not(loom))]
#[inline(always)]
pub(super) const fn order(_site: PlantedSite, right: Ordering) -> Ordering {
    right
}

/// Tells whether the fault is planted at this site.
#[cfg(not(loom))]
#[inline(always)]
pub(super) const fn is(_site: PlantedSite) -> bool {
    false
}

#[cfg(all(loom, test))]
pub(super) use on_purpose::plant;
#[cfg(loom)]
pub(super) use on_purpose::{is, order};

#[cfg(loom)]
mod on_purpose {
    use super::{Ordering, PlantedSite};
    use std::cell::Cell;

    thread_local! {
        // The model checker runs all threads of a model on the one that started it.
        static PLANTED: Cell<Option<PlantedSite>> = const { Cell::new(None) };
    }

    /// Break a line of what this thread runs, or none.
    #[cfg(test)]
    pub fn plant(site: Option<PlantedSite>) {
        PLANTED.with(|planted| planted.set(site));
    }
    pub fn is(site: PlantedSite) -> bool {
        PLANTED.with(|planted| planted.get() == Some(site))
    }
    pub fn order(site: PlantedSite, right: Ordering) -> Ordering {
        if is(site) { Ordering::Relaxed } else { right }
    }
}
