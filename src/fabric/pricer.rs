//! Remembers prices: a repeated call on an idle network costs a look-up.
//!
//! What a call takes depends on the ranks' entries only by their differences, so an outcome is kept as of an earliest
//! entry at 0 and shared. Not for calls that find messages of others under way.

use super::{Call, Outcome, engine};
use crate::error::Result;
use crate::plan::{Plan, View};
use crate::topology::Network;
use std::collections::HashMap;
use std::sync::Arc;

/// A call whose plans are shared, so that the same call can be recognised.
#[derive(Clone)]
pub struct SharedCall {
    /// All ranks' programs; those of another allocation count as others.
    pub plans: Arc<[Plan]>,
    /// What they are programs of.
    pub view: View,
    /// Elements a block.
    pub count: u64,
    /// Bytes of an element.
    pub size: u64,
    /// As in [`Call`].
    pub slice_bytes: u64,
}

/// A price: add `base_ps` to the outcome's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// When the first rank entered.
    pub base_ps: u64,
    /// What follows from it.
    pub outcome: Arc<Outcome>,
}

/// A network and the prices already asked of it.
pub struct Pricer {
    network: Arc<Network>,
    known: HashMap<Key, Known>,
}

/// The plans' address stands for them: [`Known`] keeps them where they are.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    plans: usize,
    count: u64,
    size: u64,
    slice_bytes: u64,
}

struct Known {
    _plans: Arc<[Plan]>,
    /// Entries after the first one, and what follows; the latest last.
    prices: Vec<(Vec<u64>, Arc<Outcome>)>,
}

/// Different entries that are remembered of one call.
const ENTRIES: usize = 16;
/// Different calls that are remembered.
const CALLS: usize = 4096;

impl SharedCall {
    /// As the engine takes it.
    pub fn call(&self) -> Call<'_> {
        Call {
            plans: &self.plans,
            view: self.view.clone(),
            count: self.count,
            size: self.size,
            slice_bytes: self.slice_bytes,
        }
    }
}

impl Priced {
    /// When a rank is done.
    pub fn exit_ps(&self, rank: usize) -> u64 {
        self.base_ps.saturating_add(self.outcome.exit_ps[rank])
    }
}

impl Pricer {
    /// That remembers nothing yet.
    pub fn new(network: Arc<Network>) -> Pricer {
        Pricer { network, known: HashMap::new() }
    }

    /// What [`engine::price`] says.
    pub fn price(&mut self, call: &SharedCall, entry_ps: &[u64]) -> Result<Priced> {
        let base_ps = entry_ps.iter().copied().min().unwrap_or(0);
        let SharedCall { ref plans, count, size, slice_bytes, .. } = *call;
        let key = Key { plans: plans.as_ptr().addr(), count, size, slice_bytes };
        if let Some(known) = self.known.get(&key) {
            let same = |entries: &[u64]| {
                entries.len() == entry_ps.len()
                    && entries.iter().zip(entry_ps).all(|(&e, &at)| e == at - base_ps)
            };
            if let Some((_, outcome)) = known.prices.iter().rev().find(|(entries, _)| same(entries)) {
                return Ok(Priced { base_ps, outcome: outcome.clone() });
            }
        }
        let entries: Vec<u64> = entry_ps.iter().map(|at| at - base_ps).collect();
        let outcome = Arc::new(engine::price(&self.network, &call.call(), &entries)?);
        if self.known.len() >= CALLS && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let known =
            self.known.entry(key).or_insert_with(|| Known { _plans: plans.clone(), prices: Vec::new() });
        if known.prices.len() >= ENTRIES {
            known.prices.remove(0);
        }
        known.prices.push((entries, outcome.clone()));
        Ok(Priced { base_ps, outcome })
    }
}
