//! Communicators made from others: groups of ranks, and splits by colour.
//!
//! ```text
//!     16 ranks, groups of 4    CONSECUTIVE   {0 1 2 3} {4 5 6 7} {8 9 10 11} {12 13 14 15}
//!                              ORTHOGONAL    {0 4 8 12} {1 5 9 13} {2 6 10 14} {3 7 11 15}
//!
//!     parent   --- all tell all: colour, key ---> everybody knows its group
//!              --- all tell all: where a group's first rank has taken memory --->
//!     child    the members map that, and wait until all have
//! ```
//!
//! A group is a split whose colours are computed. The kinds are those of GCL's CommGroup. While the members wait, each
//! watches the parent: a death or an abort there ends the wait.

use super::child::{self, ChildEntrance};
use super::parent_watch::ParentWatch;
use super::shrink;
use crate::comm::agree::{Answers, Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::config::{Config, Settings};
use crate::comm::join;
use crate::comm::joining;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::memory::control::ChildPlace;
use crate::types::Rank;

/// The division of a communicator's ranks into groups of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// One group of all.
    All = 0,
    /// Size k: {0 .. k-1}, {k .. 2k-1}, ...
    Consecutive = 1,
    /// Size k of N ranks, m = N/k groups: {0, m, 2m, ...}, {1, m+1, 2m+1, ...}, ...
    Orthogonal = 2,
}

impl Grouping {
    /// Every kind, in the order of its number.
    pub const ALL: [Grouping; 3] = [Grouping::All, Grouping::Consecutive, Grouping::Orthogonal];

    /// Returns the group of a rank, counted from 0. `size` divides `nranks`.
    fn group_of(self, rank: Rank, nranks: u32, size: u32) -> u32 {
        match self {
            Grouping::All => 0,
            Grouping::Consecutive => rank / size,
            Grouping::Orthogonal => rank % (nranks / size),
        }
    }
}

/// The arguments of one rank.
#[derive(Clone, Debug)]
pub(in crate::comm) struct SplitArgs {
    /// The colour: ranks of one colour form a communicator; `None`: this rank joins none.
    colour: Option<i32>,
    /// The members are ordered by this key, then by their rank in the parent.
    key: i32,
    /// Kind and size of groups, whose colours are computed; the same on all ranks.
    group: Option<(Grouping, u32)>,
    /// `None`: the parent's.
    config: Option<Config>,
    /// The caller waits for a team, whatever its parent's `blocking` is.
    is_team: bool,
}

impl SplitArgs {
    /// Makes the arguments for the group of this kind and size that contains the rank.
    pub(in crate::comm) fn group(parent: CommHandle, kind: Grouping, size: i64) -> Result<SplitArgs> {
        let shared = registry::shared(parent)?;
        let (rank, nranks) = (shared.transport.rank(), shared.transport.nranks());
        let size = match kind {
            Grouping::All if size == 0 || size == nranks.into() => nranks,
            Grouping::All => {
                return Err(Error::argument(format!(
                    "size is {size}, and the one group of all has {nranks} ranks; pass 0 or {nranks}"
                )));
            }
            _ if (1..=nranks.into()).contains(&size) && nranks.is_multiple_of(size as u32) => size as u32,
            _ => {
                return Err(Error::argument(format!(
                    "size is {size}, which does not divide the {nranks} ranks of comm into groups; pass a divisor"
                )));
            }
        };
        let colour = kind.group_of(rank, nranks, size) as i32;
        let (colour, group) = (Some(colour), Some((kind, size)));
        Ok(SplitArgs { colour, key: rank as i32, group, config: None, is_team: false })
    }

    /// Tells whether the caller waits for the communicator.
    pub(in crate::comm) fn is_blocking(&self, parent: CommHandle) -> Result<bool> {
        let parent = registry::shared(parent)?;
        // The clock of a declared machine waits for each of a rank's threads.
        let config = self.config.as_ref().unwrap_or(&parent.origin.config);
        Ok(self.is_team || config.blocking || parent.timing.is_declared() || parent.transport.is_revoked())
    }

    /// Makes the arguments for the communicator of the ranks with this colour.
    pub(in crate::comm) fn split(colour: Option<i32>, key: i32, config: Option<Config>) -> SplitArgs {
        SplitArgs { colour, key, group: None, config, is_team: false }
    }

    /// Makes the arguments for the team of the ranks with this colour.
    pub(in crate::comm) fn team(colour: Option<i32>, key: i32) -> SplitArgs {
        SplitArgs { is_team: true, ..SplitArgs::split(colour, key, None) }
    }
}

/// In place of a colour: the rank joins no child.
const COLOURLESS: u64 = u64::MAX;

impl Proposal for SplitArgs {
    const SUBJECT: Subject = Subject::Communicators;
    const EQUAL: usize = 2;
    type Words = [u64; 4];

    /// Kind and size; and this rank's colour and key.
    fn words(&self) -> [u64; 4] {
        let (kind, size) = self.group.map_or((0, 0), |(kind, size)| (1 + kind as u64, size as u64));
        [kind, size, self.colour.map_or(COLOURLESS, |colour| colour as u32 as u64), self.key as u32 as u64]
    }

    fn reads(words: &[u64]) -> String {
        let size = words[1];
        match words[0] {
            0 => "a split".into(),
            1 => "the group of all".into(),
            2 => format!("consecutive groups of {size}"),
            _ => format!("orthogonal groups of {size}"),
        }
    }

    fn disagreement(&self, all: &Answers, [first, other]: [Rank; 2]) -> String {
        format!(
            "ranks disagree on the communicators to make: rank {first} asks for {}, rank {other} for {}; all ranks of comm must \
             pass the same",
            all.reads::<Self>(first),
            all.reads::<Self>(other)
        )
    }

    fn inability(&self, rank: Rank) -> String {
        format!(
            "rank {rank} cannot join a communicator that is made from this one, so none was made; its own error says why"
        )
    }
}

/// A child that is to be made, and its handle, which is good from then on.
pub(in crate::comm) struct PendingSplit {
    pub parent: CommHandle,
    handle: Option<CommHandle>,
    args: SplitArgs,
}

impl PendingSplit {
    /// Reserves the handle. If it cannot, and `tells`, the others count on this rank, and learn that there will be no child.
    pub(in crate::comm) fn new(parent: CommHandle, args: SplitArgs, tells: bool) -> Result<PendingSplit> {
        registry::shared(parent)?;
        match args.colour.map(|_| registry::reserve()).transpose() {
            Ok(handle) => Ok(PendingSplit { parent, handle, args }),
            Err(e) => {
                if tells {
                    let _ = registry::enter(parent, |c| c.members::<()>(&args, Err(e.clone())));
                }
                Err(e)
            }
        }
    }

    pub(in crate::comm) fn is_blocking(&self) -> bool {
        self.args.is_blocking(self.parent).unwrap_or(true)
    }
    /// `None`: the rank joins no child.
    pub(in crate::comm) fn handle(&self) -> Option<CommHandle> {
        self.handle
    }
    pub(in crate::comm) fn join(&self) -> Result<()> {
        let joined = match registry::shared(self.parent).is_ok_and(|parent| parent.transport.is_revoked()) {
            true => self.join_revoked(),
            false => registry::enter(self.parent, |c| c.child(self.handle, &self.args)),
        };
        joined.inspect_err(|_| self.give_up())
    }
    /// A revoked parent takes no call by which its ranks could tell each other what they wish. So they make a communicator of all of
    /// them without one, as a shrink does, and divide that.
    fn join_revoked(&self) -> Result<()> {
        let of_revoked = |e: Error| {
            e.with_message(format!("the split of a revoked communicator needs all its ranks: {}", e.message))
        };
        let all = shrink::shrink(self.parent, &[], false, None).map_err(of_revoked)?;
        let joined = registry::enter(all, |c| c.child(self.handle, &self.args));
        joined.and(join::destroy(all))
    }
    /// Joins while the parent is held for its children. `begun`: the rank may join; if not, the others learn that.
    pub(in crate::comm) fn join_held(&self, begun: Result<()>) -> Result<()> {
        let joins = |c: &mut CommCore| match begun {
            Ok(()) => c.child(self.handle, &self.args),
            Err(e) => c.members(&self.args, Err(e)).map(|((), _)| ()),
        };
        registry::resume(self.parent, joins).inspect_err(|_| self.give_up())
    }
    pub(in crate::comm) fn give_up(&self) {
        self.handle.into_iter().for_each(registry::release);
    }
}

/// Makes the communicator of those who wish the same; `None` for a rank without a colour. Every rank of the parent calls.
pub(in crate::comm) fn child(parent: CommHandle, args: SplitArgs) -> Result<Option<CommHandle>> {
    let pending = PendingSplit::new(parent, args, true)?;
    pending.join().map(|()| pending.handle())
}

impl CommCore {
    fn child(&mut self, handle: Option<CommHandle>, args: &SplitArgs) -> Result<()> {
        self.usable()?;
        let config = args.config.clone().unwrap_or_else(|| self.shared.origin.config.clone());
        let settings = args.colour.map(|_| self.settings_of_child(args, &config)).transpose();
        let (settings, members) = self.members(args, settings)?;
        let rank = members.iter().position(|&r| r == self.rank()).map(|rank| rank as Rank);
        if rank.is_none() && args.colour.is_some() {
            return Err(Error::remote(
                "what this rank told the others of its wish came back changed: the communicator's shared memory was \
                 overwritten; destroy it",
            ));
        }
        let placement = self.timing().with_placement(|placement| placement.child(rank, &members)).flatten();
        let parent = self.transport.clone();
        let place = self.place_of_child(&members, settings.as_ref())?;
        // Others may wait for this rank from here on.
        let linked = match self.links_of_child(&members, rank, place) {
            Ok(linked) => linked,
            Err(e) => {
                self.break_with(&e);
                return Err(e);
            }
        };
        let (Some(handle), Some(rank), Some(settings)) = (handle, rank, settings) else {
            return Ok(());
        };
        let memory = linked.ok_or_else(|| {
            Error::system(format!(
                "rank {} could not take memory for its group of {} ranks; its own error says why",
                members[0],
                members.len()
            ))
        })?;
        let watched = ParentWatch::new(&parent, &members);
        let watch = || joining::check(handle).and_then(|()| watched.check());
        let entrance =
            ChildEntrance { handle, rank, members: &members, config: &config, settings, placement };
        let joined = entrance.join(self, memory, &watch).map(registry::fill);
        // The parent knows which ranks are dead or stopped; that the child misses ranks is only the consequence.
        let held_up = |e: Error| e.with_message(format!("{}{}", e.message, parent.held_up_elsewhere(&[])));
        // A rank that cannot join says so through the parent, or the others would wait for it.
        joined.map_err(|e| watch().err().unwrap_or_else(|| held_up(e))).inspect_err(|e| self.break_with(e))
    }

    /// Reads the settings with which this rank joins a child.
    fn settings_of_child(&self, args: &SplitArgs, config: &Config) -> Result<Settings> {
        let own = args.config.as_ref();
        if own.is_some_and(|c| c.fabric.is_some() || c.fabric_clock.is_some()) && !self.timing().is_declared()
        {
            return Err(Error::argument(
                "config->fabric: a communicator that is made from another is where that one is, on no declared machine; pass it to \
                 pennyCommInitRankConfig",
            ));
        }
        Settings::read(config, true)
    }

    /// Agrees with all on a split, and returns this rank's part and the members of its child: ranks of the parent, in the
    /// child's order; none without a colour.
    fn members<T>(&mut self, args: &SplitArgs, part: Result<T>) -> Result<(T, Vec<Rank>)> {
        let (part, all) = self.agree(args, part)?;
        let Some(colour) = args.colour else { return Ok((part, Vec::new())) };
        let mut members: Vec<(i32, Rank)> = all
            .ranks()
            .filter(|(_, words)| words[2] == colour as u32 as u64)
            .map(|(rank, words)| (words[3] as u32 as i32, rank))
            .collect();
        members.sort_unstable();
        Ok((part, members.into_iter().map(|(_, rank)| rank).collect()))
    }

    /// Returns the memory that the first of the members has taken for all; `None` if it could not.
    fn place_of_child(
        &mut self,
        members: &[Rank],
        settings: Option<&Settings>,
    ) -> Result<Option<ChildPlace>> {
        // Each host has memory of its own.
        let first = members.iter().find(|&&rank| !self.transport.is_far(rank));
        let taken = match settings.filter(|_| first == Some(&self.rank())) {
            Some(settings) => child::place(self, members, settings).map(|place| [place.at, place.staging]),
            None => Ok([0; 2]),
        };
        let mine = taken.as_ref().map_or([0; 2], |words| *words);
        die_point!(80 "join_prepared");
        let all = self.tell_all(&mine)?;
        taken?;
        let told = first.map(|&first| &all[first as usize * mine.len()..][..mine.len()]);
        Ok(told.filter(|told| told[0] != 0).map(|told| ChildPlace { at: told[0], staging: told[1] }))
    }
}

#[cfg(test)]
mod tests {
    use crate::comm;
    use crate::comm::join::split::*;
    use crate::error::Code;

    /// Ranks 0 and 1 of three make a child of all; rank 2 goes through both exchanges, and then `ends` instead of joining.
    fn half_born(ends: fn(CommHandle) -> Result<()>) {
        let ranks = comm::init_all(3).unwrap();
        let args = |comm| SplitArgs::group(comm, Grouping::All, 3).unwrap();
        std::thread::scope(|scope| {
            for &comm in &ranks[..2] {
                scope.spawn(move || {
                    let e = child(comm, args(comm)).unwrap_err();
                    assert_eq!(e.code, Code::RemoteError, "{e}");
                    assert!(e.message.contains("rank "), "{e}");
                    // The parent has lost a member: it says so and is of no further use.
                    assert_eq!(comm::split(comm, Some(0), 0, None).unwrap_err().code, Code::RemoteError);
                    comm::destroy(comm).unwrap();
                });
            }
            let gone = ranks[2];
            registry::enter(gone, |c| {
                let settings = Settings::read(&Config::default(), true);
                let (settings, members) = c.members(&args(gone), settings)?;
                assert_eq!(members, [0, 1, 2]);
                c.place_of_child(&members, Some(&settings)).map(|place| assert!(place.is_some()))
            })
            .unwrap();
            ends(gone).unwrap();
        });
    }

    #[test]
    fn a_rank_that_leaves_or_aborts_while_the_members_meet_fails_the_others_at_once() {
        half_born(comm::destroy);
        half_born(comm::abort);
    }

    #[test]
    fn a_revoked_communicator_is_split() {
        let ranks = comm::init_all(4).unwrap();
        comm::revoke(ranks[3]).unwrap();
        std::thread::scope(|scope| {
            for (rank, &comm) in ranks.iter().enumerate() {
                scope.spawn(move || {
                    let (colour, key) = ((rank != 3).then_some(rank as i32 / 2), -(rank as i32));
                    let made = comm::split(comm, colour, key, None).unwrap();
                    let place =
                        made.map(|child| (comm::count(child).unwrap(), comm::user_rank(child).unwrap()));
                    assert_eq!(place, [Some((2, 1)), Some((2, 0)), Some((1, 0)), None][rank]);
                    made.into_iter().for_each(|child| {
                        comm::split(child, Some(0), 0, None)
                            .map(|twin| comm::destroy(twin.unwrap()))
                            .unwrap()
                            .unwrap();
                        comm::destroy(child).unwrap();
                    });
                    comm::destroy(comm).unwrap();
                });
            }
        });
    }

    #[test]
    fn a_rank_without_room_for_a_communicator_is_named_to_all_and_the_parent_lives_on() {
        let ranks = comm::init_all(2).unwrap();
        let args = |comm| SplitArgs::group(comm, Grouping::All, 2).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let e = child(ranks[0], args(ranks[0])).unwrap_err();
                assert_eq!(e.code, Code::SystemError);
                assert!(e.message.contains("rank 1 cannot join"), "{e}");
            });
            let told = registry::enter(ranks[1], |c| {
                c.members::<()>(&args(ranks[1]), Err(Error::system("no room")))
            });
            assert_eq!(told.unwrap_err().code, Code::SystemError);
        });
        std::thread::scope(|scope| {
            for &comm in &ranks {
                scope.spawn(move || comm::destroy(child(comm, args(comm)).unwrap().unwrap()).unwrap());
            }
        });
        ranks.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
    }
}
