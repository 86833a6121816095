//! What is told of semaphores that went wrong.

use super::waits::{PATIENCE_NS, Wanted};
use super::{SemaphoreMemory, SemaphoreUnit, Semaphores, Set};
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// Semaphores and ranks that a sentence lists.
const LISTED: usize = 16;

impl Set {
    fn called(&self, index: usize) -> String {
        format!("`{}`[{index}]", self.name)
    }

    fn amount(&self, value: u64) -> String {
        match self.kind {
            SemaphoreUnit::Dma => format!("{value} bytes"),
            SemaphoreUnit::Regular => value.to_string(),
        }
    }

    /// Describes a failed wait: the semaphore, the ranks that have added to it, and what the other ranks wait for.
    pub(super) fn wanting(&self, home: &SemaphoreMemory, index: usize, value: u64) -> String {
        let t = home.symmetric.transport();
        let me = t.rank();
        let Ok(line) = self.line(home, me, index) else { return self.called(index) };
        let last = line.last.load(Ordering::Relaxed);
        let added =
            |by: Rank| self.added_by(home, me, index, by).map_or(0, |word| word.load(Ordering::Relaxed));
        let (some, none): (Vec<Rank>, Vec<Rank>) = (0..t.nranks()).partition(|&by| added(by) > 0);
        let some: Vec<String> = some
            .into_iter()
            .map(|by| {
                let last = if last == u64::from(by) + 1 { ", the last" } else { "" };
                format!("rank {by} ({}{last})", self.amount(added(by)))
            })
            .collect();
        let mut text = format!(
            "semaphore {} to be {}; it is {}, signalled so far by {}",
            self.called(index),
            self.amount(value),
            self.amount(line.value.load(Ordering::Relaxed)),
            if some.is_empty() { "nobody".into() } else { listed(&some) }
        );
        if !none.is_empty() {
            let none: Vec<String> = none.iter().map(|by| by.to_string()).collect();
            text += &format!(" and never by rank {}", listed(&none));
        }
        let others: Vec<Rank> = (0..t.nranks()).filter(|&r| r != me).collect();
        let others = home.waiting(&others);
        text + "; meanwhile "
            + &if others.is_empty() { "no other rank waits for a semaphore".into() } else { listed(&others) }
    }
}

impl SemaphoreMemory {
    /// Describes the current and failed waits of these ranks' threads.
    fn waiting(&self, ranks: &[Rank]) -> Vec<String> {
        let t = self.symmetric.transport();
        let said = self.waits.of(&self.symmetric, ranks);
        let set_of = |&Wanted { set, index, .. }: &Wanted| {
            self.sets().iter().find(|known| known.id == set && (index as usize) < known.count).cloned()
        };
        let waits = || {
            ranks.iter().zip(&said).flat_map(|(&rank, waits)| waits.iter().flatten().map(move |w| (rank, w)))
        };
        let far = waits().filter(|&(rank, _)| t.is_far(rank)).filter_map(|(rank, (wanted, _))| {
            set_of(wanted).map(|set| (rank, set.at(rank, wanted.index as usize, 0)))
        });
        let mut far_values = t.words_of_each::<1>(&far.collect::<Vec<_>>(), PATIENCE_NS).into_iter();
        let mut clause = |rank: Rank, (wanted, gave_up): &(Wanted, bool)| {
            let how = if *gave_up { "has given up waiting" } else { "waits" };
            let Some(set) = set_of(wanted) else {
                return format!("rank {rank} {how} for a semaphore that was destroyed here");
            };
            let index = wanted.index as usize;
            let now = match t.is_far(rank) {
                true => far_values.next().flatten().map(|[now]| now),
                false => set.line(self, rank, index).ok().map(|it| it.value.load(Ordering::Relaxed)),
            };
            let now = now.map_or(String::new(), |now| format!(" (it is {})", set.amount(now)));
            format!("rank {rank} {how} for {} to be {}{now}", set.called(index), set.amount(wanted.value))
        };
        let mut clauses = Vec::new();
        for (&rank, waits) in ranks.iter().zip(&said) {
            match waits {
                Some(waits) => clauses.extend(waits.iter().map(|wait| clause(rank, wait))),
                None => clauses.push(format!("rank {rank} does not say what it waits for")),
            }
        }
        clauses
    }

    /// An error that lists every semaphore of this rank that is not 0. From now on no report knows any.
    pub fn retire(&self) -> Result<()> {
        let sets = std::mem::take(&mut *self.sets());
        self.check(sets.iter().map(|set| (&**set, 0..set.count)))
    }

    fn check<'a>(&self, sets: impl Iterator<Item = (&'a Set, std::ops::Range<usize>)>) -> Result<()> {
        let me = self.symmetric.my_pe();
        let mut left = Vec::new();
        for (set, range) in sets {
            for index in range {
                let line = set.line(self, me, index)?;
                // ORDER: partner of `Semaphores::add`: the last writer is there with the value.
                let value = line.value.load(Ordering::Acquire);
                if value != 0 {
                    let by = line.last.load(Ordering::Relaxed).saturating_sub(1);
                    left.push(format!(
                        "{} is {} (last signalled by rank {by})",
                        set.called(index),
                        set.amount(value)
                    ));
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "semaphores of rank {me} are not 0 at their end: {}; wait for all that is signalled, or signal less",
            listed(&left)
        )))
    }
}

impl Semaphores {
    /// An error that lists those of this rank that are not 0. From now on no report knows them.
    pub fn retire(&self) -> Result<()> {
        let mut sets = self.home.sets();
        sets.retain(|set| set.id != self.set.id);
        drop(sets);
        self.home.check(std::iter::once((&*self.set, 0..self.set.count)))
    }
}

fn listed(all: &[String]) -> String {
    let shown = all[..all.len().min(LISTED)].join(", ");
    match all.len().checked_sub(LISTED) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
