//! A communicator of some ranks of another, made by these alone: the others may have died, or need not know.
//!
//! ```text
//!     parent    rank 0    rank 1    rank 2 (dead)    rank 3       all but rank 2 call, with {2} as the ranks to exclude
//!               takes a place behind the parent for 3 ranks
//!               life.shrink = {2}, the place
//!                         sees its own wish there            sees it, too
//!     child     rank 0    rank 1                     rank 2       all three map the place and wait until all have
//! ```
//!
//! A split agrees on the ranks by a call of the parent, which a failure or an abort has ended. A shrink needs no call: the first of the
//! remaining ranks says in its life line (`Life::shrink`) which ranks it excludes and where the new communicator lies. So it works on a broken
//! parent, and costs an allocation, a mapping and one wait.
//!
//! Ranks of several hosts do it on each host, the first of the remaining ranks there taking its place, and tell each other the same words by
//! frames, with the addresses of their endpoints for the new communicator (`transport/survivors.rs`).
//!
//! Ranks that exclude others than their peers do see it in these words. One that excludes fewer ranks fails, and may call
//! again with more; one that excludes more waits for it. A rank that fails leaves that in its words, until it calls again.

mod linked;

use super::child::{self, ChildEntrance, ChildMemory};
use crate::comm::communicator::CommCore;
use crate::comm::config::{Config, Settings};
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::hash::fnv64;
use crate::memory::control::{ChildPlace, Control};
use crate::sync::prim::Ordering;
use crate::timing::Timing;
use crate::transport::Transport;
use crate::transport::survivors::{GAVE_UP, ShrinkProgress};
use crate::types::{MAX_RANKS, Rank};
use linked::Since;
use std::cell::OnceCell;
use std::sync::Arc;

/// Bits of the hash in a wish.
const HASH_BITS: u32 = 32;
/// Bits of the pages of staging memory in a wish.
const STAGING_BITS: u32 = 21;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// The ranks that a rank excludes, as one word: how many, the staging memory of each remaining rank, which.
///
/// ```text
///     bits   63..53      52..32           31..16             15..0
///            excluded    staging pages    hash of them, odd  a bit for each of them: 1 << rank % 16
/// ```
#[derive(Clone, Copy)]
struct Wish(u64);

impl Wish {
    fn new(excluded: &[Rank], staging: u64) -> Wish {
        let bytes: Vec<u8> = excluded.iter().flat_map(|rank| rank.to_le_bytes()).collect();
        let mask = excluded.iter().fold(0, |mask, &rank| mask | Wish::bit(rank));
        let hash = (fnv64(&bytes) & 0xffff | 1) << 16 | mask;
        let pages = staging.div_ceil(PAGE).min((1 << STAGING_BITS) - 1);
        Wish((excluded.len() as u64) << (HASH_BITS + STAGING_BITS) | pages << HASH_BITS | hash)
    }
    fn bit(rank: Rank) -> u64 {
        1 << (rank % 16)
    }
    /// May it exclude a rank?
    fn may_exclude(self, rank: Rank) -> bool {
        self.0 & Wish::bit(rank) != 0
    }
    fn excluded(self) -> u64 {
        self.0 >> (HASH_BITS + STAGING_BITS)
    }
    fn staging(self) -> u64 {
        (self.0 >> HASH_BITS & ((1 << STAGING_BITS) - 1)) * PAGE
    }
    fn excludes_the_same(self, other: Wish) -> bool {
        let hash = |wish: Wish| wish.0 & ((1 << HASH_BITS) - 1);
        self.excluded() == other.excluded() && hash(self) == hash(other)
    }
}

/// The arguments of one rank, checked, and the handle of the communicator that is to be made.
pub(in crate::comm) struct PendingShrink {
    pub parent: CommHandle,
    handle: CommHandle,
    /// In order.
    excluded: Vec<Rank>,
    /// Ends the calls of the parent first.
    aborts: bool,
    config: Option<Config>,
}

impl PendingShrink {
    pub(in crate::comm) fn new(
        parent: CommHandle,
        excluded: &[i32],
        aborts: bool,
        config: Option<Config>,
    ) -> Result<PendingShrink> {
        let shared = registry::shared(parent)?;
        shared.refuse_forked()?;
        let excluded = check(excluded, shared.transport.rank(), shared.transport.nranks())?;
        Ok(PendingShrink { parent, handle: registry::reserve()?, excluded, aborts, config })
    }
    pub(in crate::comm) fn handle(&self) -> CommHandle {
        self.handle
    }
    pub(in crate::comm) fn join(&self) -> Result<()> {
        if self.aborts {
            registry::shared(self.parent).map(|parent| parent.abort()).inspect_err(|_| self.give_up())?;
        }
        let make = |c: &mut CommCore| c.shrink(self.handle, &self.excluded, self.config.as_ref());
        let made = match self.aborts {
            true => registry::enter_when_left(self.parent, make),
            false => registry::enter(self.parent, make),
        };
        made.inspect_err(|_| self.give_up())
    }
    pub(in crate::comm) fn give_up(&self) {
        registry::release(self.handle);
    }
}

/// Checks the ranks to exclude; returns them in order.
fn check(excluded: &[i32], me: Rank, nranks: u32) -> Result<Vec<Rank>> {
    let mut ranks = Vec::with_capacity(excluded.len());
    for &rank in excluded {
        let Some(rank) = u32::try_from(rank).ok().filter(|&rank| rank < nranks) else {
            return Err(Error::no_rank("excludeRanksList: rank", rank, nranks));
        };
        ranks.push(rank);
    }
    ranks.sort_unstable();
    if let Some(twice) = ranks.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::argument(format!(
            "excludeRanksList names rank {} twice; name each rank once",
            twice[0]
        )));
    }
    if ranks.contains(&me) {
        return Err(Error::argument(format!(
            "excludeRanksList names rank {me}, which is the caller; only the ranks that remain call pennyCommShrink"
        )));
    }
    Ok(ranks)
}

/// Makes the communicator of the ranks of `parent` that are not excluded.
pub(in crate::comm) fn shrink(
    parent: CommHandle,
    excluded: &[i32],
    aborts: bool,
    config: Option<Config>,
) -> Result<CommHandle> {
    let pending = PendingShrink::new(parent, excluded, aborts, config)?;
    pending.join().map(|()| pending.handle())
}

/// Attempts of a rank that its words tell apart, in the bits that the place of a page leaves.
const ATTEMPTS: u64 = PAGE / 2;

/// The attempt of this rank.
struct Attempt<'a> {
    t: &'a Transport,
    timing: &'a Timing,
    wish: Wish,
    /// Parent ranks, in order.
    members: &'a [Rank],
    /// The first of them that shares this rank's memory: it takes the place.
    first: Rank,
    /// The words of the members' life lines when the attempt began: of earlier ones, or of this one if they were first.
    before: Vec<[u64; 2]>,
    /// The new communicator's memory on this host, once it is mapped.
    child: OnceCell<Arc<Control>>,
    /// What members on other hosts had told when this rank connected to them; empty before.
    far: OnceCell<Vec<(Rank, ShrinkProgress)>>,
    /// The place of this rank's last attempt, and who named it: that rank may still do.
    last_place: (Rank, u64),
    /// The ranks of other hosts to which earlier ones connected, as in [`Shrinks`](crate::comm::communicator::Shrinks).
    last_far: &'a [(Rank, u64)],
}

impl Attempt<'_> {
    /// Returns a rank's wish and place.
    fn words(t: &Transport, rank: Rank) -> [u64; 2] {
        let life = t.lines(rank).life(rank);
        // ORDER: partner of the store in `publish`, or of that in `shrink_frame`.
        let wish = life.shrink[0].load(Ordering::Acquire);
        [wish, life.shrink[1].load(Ordering::Relaxed)]
    }

    /// Returns the wish and the place of a member, by its number, if they have changed since the attempt began.
    fn of(&self, number: usize) -> Option<(Wish, u64)> {
        let [wish, at] = Self::words(self.t, self.members[number]);
        (wish != 0 && [wish, at] != self.before[number]).then_some((Wish(wish), at))
    }

    /// Returns the wish and the place of the first member here, if that is not the place of an earlier attempt.
    fn first(&self) -> Option<(Wish, u64)> {
        let [wish, at] = Self::words(self.t, self.first);
        (wish != 0 && at != GAVE_UP && (self.first, at) != self.last_place).then_some((Wish(wish), at))
    }

    fn publish(&self, at: u64) {
        let life = self.t.control().life(self.t.rank());
        life.shrink[1].store(at, Ordering::Relaxed);
        // ORDER: publishes the place; partner: `words`.
        life.shrink[0].store(self.wish.0, Ordering::Release);
        self.t.tell_shrink(&[]);
    }

    /// Ends it. A rank that gives up leaves that for the others to see.
    fn end<T>(&self, made: &Result<T>) {
        let life = self.t.control().life(self.t.rank());
        match made {
            Ok(_) => life.shrink[0].store(0, Ordering::Release),
            Err(_) => life.shrink[1].store(GAVE_UP, Ordering::Release),
        }
        self.t.tell_shrink(&[]);
    }

    /// Fails if a member is gone, or has given up, or excludes as many ranks or more, and others.
    fn watch(&self) -> Result<()> {
        let me = self.t.rank();
        check_clock(self.timing)?;
        // A member that has made it may leave this one, before the words of others have come from their hosts.
        let others = self.members.iter().copied().filter(|&member| member != me);
        self.t.check_present(others, |member| self.has_made(member))?;
        for (number, &member) in self.members.iter().enumerate().filter(|&(_, &member)| member != me) {
            // It may be at another communicator by now. If it failed meanwhile, its life line in this one says so.
            if !self.t.is_far(member) && self.have_near_attached() {
                continue;
            }
            match self.since_then(member) {
                Since::GaveUp => return Err(given_up(member)),
                // Its words may be of another communicator by now.
                Since::Made => continue,
                Since::Nothing => {}
            }
            let Some((its, at)) = self.of(number) else { continue };
            if its.excludes_the_same(self.wish) {
                if at == GAVE_UP {
                    return Err(given_up(member));
                }
            } else if its.excluded() >= self.wish.excluded() && !its.may_exclude(me) {
                // One that excludes this rank is at another communicator, and comes to this one or not.
                let (mine, theirs) = (ranks_in_words(self.wish.excluded()), ranks_in_words(its.excluded()));
                let lists = match mine == theirs {
                    true => {
                        format!("the lists of rank {me} and of rank {member} name {mine} each, and differ")
                    }
                    false => {
                        format!("the list of rank {me} names {mine}, that of rank {member} names {theirs}")
                    }
                };
                return Err(Error::usage(format!(
                    "ranks disagree on the ranks to exclude: {lists}; all remaining ranks must pass the same excludeRanksList"
                )));
            }
        }
        Ok(())
    }

    /// Waits until the first member says where the communicator lies.
    fn place(&self) -> Result<ChildPlace> {
        let there = || self.first().filter(|(its, _)| its.excludes_the_same(self.wish));
        let expired = || did_not_call(self.first);
        self.t.wait_watching(self.t.deadline(), || there().is_some(), || self.watch(), expired)?;
        there().map(|(its, at)| ChildPlace { at, staging: its.staging() }).ok_or_else(|| given_up(self.first))
    }

    /// Fails if the first member here has begun again, without this rank.
    fn watch_place(&self, place: ChildPlace) -> Result<()> {
        self.watch()?;
        match self.first() {
            Some((its, at)) if at == place.at && its.excludes_the_same(self.wish) => Ok(()),
            _ if self.have_near_attached() => Ok(()),
            _ => Err(given_up(self.first)),
        }
    }
}

fn ranks_in_words(count: u64) -> String {
    match count {
        1 => "one rank".into(),
        count => format!("{count} ranks"),
    }
}

fn did_not_call(rank: Rank) -> Error {
    Error::timeout(format!(
        "rank {rank} did not call pennyCommShrink with the same excludeRanksList within the deadline"
    ))
}

fn given_up(rank: Rank) -> Error {
    Error::remote(format!("rank {rank} has given up making this communicator; call pennyCommShrink again"))
}

/// Fails if the clock of a declared machine cannot go on, because a rank died within a call.
fn check_clock(timing: &Timing) -> Result<()> {
    timing.participant().map_or(Ok(()), |participant| participant.check_deaths())
}

impl CommCore {
    fn shrink(&mut self, handle: CommHandle, excluded: &[Rank], config: Option<&Config>) -> Result<()> {
        self.shared.refuse_forked()?;
        let members: Vec<Rank> = (0..self.nranks()).filter(|rank| !excluded.contains(rank)).collect();
        let rank = members.iter().position(|&member| member == self.rank());
        let rank = rank.ok_or_else(|| Error::internal("a rank shrinks a communicator without itself"))?;
        let config = config.unwrap_or(&self.shared.origin.config).clone();
        let settings = Settings::read(&config, true)?;
        let (t, timing) = (self.transport.clone(), self.timing().clone());
        let first = members.iter().copied().find(|&member| !t.is_far(member)).unwrap_or(self.rank());
        let on_machine = timing.is_declared();
        let mut place = ChildPlace {
            at: 0,
            staging: settings.staging_bytes(members.len() as u32, on_machine, t.staging_kind(&members)),
        };
        if first == self.rank() {
            place = child::place(self, &members, &settings)?;
        }
        // A rank that waits for this one in a call of the parent, which it may have entered before it learned of the death, must not
        // wait any longer.
        if self.broken().is_ok()
            && let Some(death) = t.died()
        {
            self.end_with(&death);
        }
        let last_far = std::mem::take(&mut self.shrinks.last_far);
        let attempt = Attempt {
            t: &t,
            timing: &timing,
            wish: Wish::new(excluded, place.staging),
            members: &members,
            first,
            before: members.iter().map(|&member| Attempt::words(&t, member)).collect(),
            child: OnceCell::new(),
            far: OnceCell::new(),
            last_place: self.shrinks.last_place,
            last_far: &last_far,
        };
        self.shrinks.attempts += 1;
        attempt.publish(place.at | (1 + self.shrinks.attempts % (ATTEMPTS - 1)));
        let made = check_clock(&timing).and_then(|()| attempt.place()).and_then(|named| {
            self.shrinks.last_place = (first, named.at);
            let entrance = ChildEntrance {
                handle,
                rank: rank as Rank,
                members: &members,
                config: &config,
                settings,
                // Ranks may have made unlike numbers of the parent's calls, but the place is the same to all of them.
                placement: timing
                    .with_placement(|placement| placement.survivors(rank as Rank, &members, named.at)),
            };
            let place = ChildPlace { at: named.at & !(PAGE - 1), ..named };
            let memory = ChildMemory::map(&t, &members, place)?;
            let _ = attempt.child.set(memory.control.clone());
            let memory = attempt.link(memory, rank as Rank)?;
            entrance.join(self, memory, &|| attempt.watch_place(named)).map(registry::fill)
        });
        attempt.end(&made);
        self.shrinks.last_far = attempt.connected();
        made
    }
}

const _: () = assert!(
    MAX_RANKS < 1 << (64 - HASH_BITS - STAGING_BITS),
    "a wish has room for the number of excluded ranks"
);
