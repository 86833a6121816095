//! What joins a communicator at the end of the open group: several ranks of one thread can only join together.

use super::batch;
use super::child::Birth;
use super::config::Config;
use super::life::{self, Entrance};
use super::registry::{self, Handle};
use crate::bootstrap::{Place, UniqueId};
use crate::error::Result;
use crate::types::Rank;
use std::sync::Arc;

/// A communicator that begins at the end of the group; its handle is valid from then on.
pub(super) enum Joining {
    /// By an id.
    Newcomer(Newcomer),
    /// From a parent.
    Birth(Birth),
}

/// A rank that joins the communicator that an id names.
pub(super) struct Newcomer {
    handle: Handle,
    id: UniqueId,
    rank: Rank,
    nranks: u32,
    config: Config,
}

impl Newcomer {
    pub(super) fn new(nranks: i32, id: &UniqueId, rank: i32, config: &Config) -> Result<Newcomer> {
        let (rank, nranks) = life::check_ranks(rank, nranks)?;
        Ok(Newcomer { handle: registry::reserve()?, id: *id, rank, nranks, config: config.clone() })
    }
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
    fn join(&self) -> Result<()> {
        life::settle(self.handle, &Entrance::of(Place::Id(self.id), self.rank, self.nranks, &self.config))
    }
}

impl Joining {
    /// `None`: a child that the rank is not in.
    pub(super) fn handle(&self) -> Option<Handle> {
        match self {
            Joining::Newcomer(newcomer) => Some(newcomer.handle),
            Joining::Birth(birth) => birth.handle(),
        }
    }
    fn join(&self) -> Result<()> {
        match self {
            Joining::Newcomer(newcomer) => newcomer.join(),
            Joining::Birth(birth) => birth.join(),
        }
    }
    /// It will not be.
    pub(super) fn give_up(&self) {
        self.handle().into_iter().for_each(registry::release);
    }
}

/// Those that can join side by side; the children of one parent, or of one rank on a declared machine, come one after
/// another.
fn side_by_side(all: Vec<Joining>) -> Vec<Vec<Joining>> {
    let parent = |joining: &Joining| match joining {
        Joining::Newcomer(_) => None,
        Joining::Birth(birth) => {
            let seat = registry::shared(birth.parent).ok().and_then(|shared| shared.seat.clone());
            Some(seat.map_or((birth.parent.0, 0), |seat| (0, Arc::as_ptr(&seat).addr())))
        }
    };
    let mut rows: Vec<Vec<Joining>> = Vec::new();
    for joining in all {
        let of = parent(&joining);
        match rows.iter_mut().find(|row| of.is_some() && parent(&row[0]) == of) {
            Some(row) => row.push(joining),
            None => rows.push(vec![joining]),
        }
    }
    rows
}

/// Join: rows side by side, those of a row one after another; all of them whatever becomes of the first. The first failure
/// counts.
pub(super) fn join_all(all: Vec<Joining>) -> Result<()> {
    let rows = side_by_side(all);
    let parent = |row: &Vec<Joining>| match row.first() {
        Some(Joining::Birth(birth)) if rows.len() > 1 => registry::shared(birth.parent).ok()?.seat.clone(),
        _ => None,
    };
    let activities = batch::activities(&rows.iter().map(parent).collect::<Vec<_>>())?;
    let mut rows: Vec<_> = rows.iter().zip(activities).collect();
    batch::side_by_side(&mut rows, |(row, (activity, _))| {
        let activity = activity.take();
        batch::acting(activity.as_ref(), || row.iter().map(Joining::join).fold(Ok(()), Result::and))
    })
}
