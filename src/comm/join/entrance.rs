//! What a rank joins with.

use crate::bootstrap::{MeetingPlace, StopCheck};
use crate::comm::config::Config;
use crate::types::Rank;

/// The parameters with which a rank joins.
pub(super) struct Entrance<'a> {
    pub place: MeetingPlace,
    pub rank: Rank,
    pub nranks: u32,
    /// The caller's index on its machine.
    pub device: u32,
    pub config: &'a Config,
    /// The check that runs while the rank waits for the others.
    pub watch: StopCheck<'a>,
}

impl<'a> Entrance<'a> {
    pub(super) fn of(place: MeetingPlace, rank: Rank, nranks: u32, config: &'a Config) -> Entrance<'a> {
        Entrance { place, rank, nranks, device: rank, config, watch: &|| Ok(()) }
    }
}
