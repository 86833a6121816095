//! What joins a communicator at the end of the open group: several ranks of one thread can only join together.

use super::entrance::Entrance;
use super::shrink::PendingShrink;
use super::split::PendingSplit;
use crate::bootstrap::{self, MeetingPlace, UniqueId};
use crate::comm::config::Config;
use crate::comm::group::batch;
use crate::comm::join;
use crate::comm::joining::{self, JoinTicket};
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::sys::background;
use crate::timing::Timing;
use crate::types::Rank;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A communicator that begins at the end of the group; its handle is valid from then on.
pub(in crate::comm) enum Joining {
    /// A rank that joins by a unique id.
    Init(PendingInit),
    /// A rank of a split or a group.
    Split(PendingSplit),
    /// A rank that remains where others are excluded.
    Shrink(PendingShrink),
}

/// A rank that joins the communicator that an id names.
pub(in crate::comm) struct PendingInit {
    handle: CommHandle,
    place: MeetingPlace,
    rank: Rank,
    nranks: u32,
    device: u32,
    config: Config,
}

impl PendingInit {
    pub(in crate::comm) fn new(
        nranks: i32,
        id: &UniqueId,
        rank: i32,
        config: &Config,
    ) -> Result<PendingInit> {
        let (rank, nranks) = join::check_ranks(rank, nranks)?;
        PendingInit::at(MeetingPlace::Id(*id), rank, nranks, rank, config)
    }
    /// `device`: the caller's index on its machine.
    pub(in crate::comm) fn at(
        place: MeetingPlace,
        rank: Rank,
        nranks: u32,
        device: u32,
        config: &Config,
    ) -> Result<PendingInit> {
        let refuse = |e: &Error| bootstrap::refuse(&place, rank, nranks, e);
        let handle = registry::reserve().inspect_err(refuse)?;
        Ok(PendingInit { handle, place, rank, nranks, device, config: config.clone() })
    }
    pub(in crate::comm) fn handle(&self) -> CommHandle {
        self.handle
    }
    fn join(&self) -> Result<()> {
        let of = Entrance::of(self.place.clone(), self.rank, self.nranks, &self.config);
        let watch = || joining::check(self.handle);
        join::settle(self.handle, &Entrance { device: self.device, watch: &watch, ..of })
    }
}

impl Joining {
    /// `None`: a child that the rank is not in.
    pub(in crate::comm) fn handle(&self) -> Option<CommHandle> {
        match self {
            Joining::Init(pending) => Some(pending.handle),
            Joining::Split(pending) => pending.handle(),
            Joining::Shrink(pending) => Some(pending.handle()),
        }
    }
    fn join(&self) -> Result<()> {
        match self {
            Joining::Init(pending) => pending.join(),
            Joining::Split(pending) => pending.join(),
            Joining::Shrink(pending) => pending.join(),
        }
    }
    /// Joins in the background. `begun`: it may; if not, the others learn that.
    fn join_held(&self, begun: Result<()>) -> Result<()> {
        match self {
            Joining::Init(pending) => match begun {
                Ok(()) => pending.join(),
                Err(e) => {
                    self.give_up(&e);
                    Err(e)
                }
            },
            Joining::Split(pending) => pending.join_held(begun),
            Joining::Shrink(pending) => {
                begun.inspect_err(|_| pending.give_up()).and_then(|()| pending.join())
            }
        }
    }
    fn parent(&self) -> Option<CommHandle> {
        match self {
            Joining::Init(_) => None,
            Joining::Split(pending) => Some(pending.parent),
            Joining::Shrink(pending) => Some(pending.parent),
        }
    }
    /// Tells whether the caller waits for it.
    fn is_blocking(&self) -> bool {
        match self {
            Joining::Init(pending) => pending.config.blocking,
            Joining::Split(pending) => pending.is_blocking(),
            Joining::Shrink(_) => true,
        }
    }
    /// Ends an attempt that panicked, and the communicator that it was inside.
    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let e = Error::panicked(panic);
        self.parent().into_iter().for_each(|parent| registry::poison(parent, &e.message));
        self.handle().into_iter().for_each(registry::release);
        e
    }
    /// Gives up joining. Ranks that wait for this one at a unique id get the reason; ranks of a parent learn it from
    /// its next call.
    pub(in crate::comm) fn give_up(&self, why: &Error) {
        if let Joining::Init(pending) = self {
            bootstrap::refuse(&pending.place, pending.rank, pending.nranks, why);
        }
        self.handle().into_iter().for_each(registry::release);
    }
}

/// Divides pending joins into rounds that can run at the same time; the children of one parent, or of one rank on a
/// declared machine, join one after another.
fn side_by_side(all: Vec<Joining>) -> Vec<Vec<Joining>> {
    let parent = |joining: &Joining| {
        let parent = joining.parent()?;
        let key = registry::shared(parent).ok().and_then(|shared| shared.timing.key());
        Some(key.map_or((parent.bits(), 0), |key| (0, key)))
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

/// Joins in the background, and returns the handle by which the program asks how far that is.
pub(in crate::comm) fn begin(pending: PendingInit) -> Result<CommHandle> {
    let handle = pending.handle;
    begin_all(vec![Joining::Init(pending)]).map(|()| handle)
}

/// Joins in the background: a thread for each row, because each waits for others.
pub(in crate::comm) fn begin_all(all: Vec<Joining>) -> Result<()> {
    side_by_side(all).into_iter().map(begin_row).fold(Ok(()), Result::and)
}

/// Joins one after another, in the background. While that lasts their parent takes no calls of the program.
fn begin_row(row: Vec<Joining>) -> Result<()> {
    let parent = row[0].parent();
    let ticket = |(at, one): (usize, &Joining)| joining::list(one.handle(), one.parent(), at > 0);
    let tickets: Vec<JoinTicket> = row.iter().enumerate().map(ticket).collect();
    let fails = |why: &Error, row: &[Joining]| {
        for (one, &ticket) in row.iter().zip(&tickets) {
            joining::end(ticket, &Err(why.clone()));
            one.handle().into_iter().for_each(|handle| drop(joining::destroy(handle)));
        }
    };
    if let Err(e) = parent.map_or(Ok(()), registry::hold_for_children) {
        row.iter().for_each(|one| one.give_up(&e));
        fails(&e, &row);
        return Err(e);
    }
    let row = Arc::new(row);
    let (theirs, of) = (row.clone(), tickets.clone());
    let joins = move || {
        let last = theirs.len() - 1;
        for (at, (one, &ticket)) in theirs.iter().zip(&of).enumerate() {
            let joined = catch_unwind(AssertUnwindSafe(|| one.join_held(joining::begin(ticket))));
            let joined = joined.unwrap_or_else(|panic| Err(one.panicked(&*panic)));
            if let (Err(e), None, Some(parent)) = (&joined, one.handle(), parent) {
                // No child's state can tell it.
                let _ = registry::shared(parent).map(|parent| parent.turns.failed(e));
            }
            // As soon as its state is known the parent takes calls.
            if at == last {
                parent.into_iter().for_each(registry::let_go);
            }
            joining::end(ticket, &joined);
        }
    };
    background::spawn("penny-join", joins).map(drop).map_err(|e| {
        let e = Error::system(format!("no thread for a rank that joins: {e}; check `ulimit -u`"));
        row.iter().for_each(|one| drop(one.join_held(Err(e.clone()))));
        fails(&e, &row);
        parent.into_iter().for_each(registry::let_go);
        e
    })
}

/// Joins, or begins to, at the end of a group. Returns whether some join in the background; where one child of a parent does, all
/// that are made from it in the group do.
pub(in crate::comm) fn join_or_begin(all: Vec<Joining>) -> Result<bool> {
    let (now, later): (Vec<_>, Vec<_>) =
        side_by_side(all).into_iter().partition(|row| row.iter().all(Joining::is_blocking));
    let in_background = !later.is_empty();
    let begun = later.into_iter().map(begin_row).fold(Ok(()), Result::and);
    begun.and(join_all(now)).map(|()| in_background)
}

/// Join: rows side by side, those of a row one after another; all of them whatever becomes of the first. The first failure
/// counts.
fn join_all(rows: Vec<Vec<Joining>>) -> Result<()> {
    let parent = |row: &Vec<Joining>| match row.first() {
        Some(Joining::Split(pending)) if rows.len() > 1 => registry::shared(pending.parent).ok(),
        _ => None,
    };
    let parents: Vec<_> = rows.iter().map(parent).collect();
    let timings: Vec<_> = parents.iter().map(|shared| shared.as_ref().map(|shared| &shared.timing)).collect();
    let mut rows: Vec<_> = rows.iter().zip(Timing::divide(&timings)?).collect();
    batch::side_by_side(&mut rows, |(row, part)| {
        std::mem::take(part).act(|| row.iter().map(Joining::join).fold(Ok(()), Result::and))
    })
}

#[cfg(test)]
mod tests {
    use crate::bootstrap::{Attendance, Hello};
    use crate::comm::join::introduction::Introduction;
    use crate::comm::join::pending::*;
    use crate::error::Code;
    use crate::memory::heap;
    use crate::sys::process;
    use std::os::fd::AsFd;

    /// Ranks 0 and 1 of three join; rank 2 meets them, and then `ends` instead of joining.
    fn half_joined(ends: impl FnOnce(Attendance) + Send, told: &str) {
        let id = bootstrap::create_id().unwrap();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                scope.spawn(move || {
                    let e = join::init_rank(3, &id, rank, &Config::default()).unwrap_err();
                    assert_eq!(e.code, Code::RemoteError, "{e}");
                    assert!(e.message.starts_with("rank 2 (PID ") && e.message.contains(told), "{e}");
                });
            }
            scope.spawn(move || {
                let own = heap::mine().unwrap();
                let info = Introduction {
                    heap: own.id(),
                    heap_bytes: own.bytes() as u64,
                    card: process::card(),
                    staging: 4096,
                    machine: 0,
                }
                .encode(None);
                let hello = Hello { rank: 2, nranks: 3, info: &info, fds: &[own.file().unwrap().as_fd()] };
                let each = &mut |_, _: &[u8], _| Ok(());
                ends(bootstrap::meet(&MeetingPlace::Id(id), &hello, None, each, &|| Ok(())).unwrap());
            });
        });
    }

    #[test]
    fn a_rank_that_gives_up_after_the_meeting_is_named_to_all_with_its_reason() {
        half_joined(|there| there.give_up(&Error::system("no thread is left")), "no thread is left");
    }

    #[test]
    fn a_rank_that_is_lost_after_the_meeting_is_named_to_all() {
        half_joined(drop, "died or gave up while joining");
    }

    #[test]
    fn a_rank_whose_group_fails_is_named_to_those_who_wait_for_it() {
        let id = bootstrap::create_id().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let e = join::init_rank(2, &id, 0, &Config::default()).unwrap_err();
                assert!(
                    e.message.contains("rank 1 (PID ") && e.message.contains("rank 9 is out of range"),
                    "{e}"
                );
            });
            crate::comm::group_start().unwrap();
            crate::comm::init_rank(2, &id, 1, &Config::default()).unwrap();
            crate::comm::init_rank(2, &id, 9, &Config::default()).unwrap_err();
            crate::comm::group_end().unwrap_err();
        });
    }

    #[test]
    fn a_rank_that_cannot_come_is_named_to_all_with_its_reason() {
        let id = bootstrap::create_id().unwrap();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                scope.spawn(move || {
                    let e = join::init_rank(3, &id, rank, &Config::default()).unwrap_err();
                    assert!(e.message.contains("rank 2 (PID "), "{e}");
                    assert!(e.message.contains("cannot join: PENNY_HEAP_SIZE is no number"), "{e}");
                });
            }
            bootstrap::refuse(&MeetingPlace::Id(id), 2, 3, &Error::argument("PENNY_HEAP_SIZE is no number"));
        });
    }
}
