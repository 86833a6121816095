//! Remembers prices: a repeated call costs a look-up.
//!
//! ```text
//!     entries    100 130 100 120        what is remembered     0  30   0  20       the same at any time, as long as
//!     free       170  60  90 180        of them, from 100 on  70   0   0  80       the differences are the same
//! ```
//!
//! What a call takes that is alone in the network depends on its ranks' entries, and on the ports that it passes and
//! that are still taken then, only by their differences from the first entry. In a loop of equal calls these
//! differences soon repeat. Where faults are declared, time itself matters, and nothing is remembered. Not for calls that find messages of others under way.

use super::engine::Engine;
use super::running::too_long;
use super::{Counters, Outcome, PortState, SharedCall};
use crate::error::Result;
use crate::plan::Plan;
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::collections::HashMap;
use std::sync::Arc;

/// A price: add `base_ps` to the outcome's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// When the first rank entered; 0 where faults are declared.
    pub base_ps: u64,
    /// What follows from it.
    pub outcome: Arc<Outcome>,
}

/// A network and the prices already asked of it.
pub struct Pricer {
    network: Arc<Network>,
    known: HashMap<Key, Known>,
    /// Numbers that all of it holds, about.
    held: usize,
}

/// The plans' address stands for them: [`Known`] keeps them where they are. Of the places, enough to tell most apart.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    plans: usize,
    count: u64,
    size: u64,
    slice_bytes: u64,
    first_place: Rank,
    last_place: Rank,
}

struct Known {
    _plans: Arc<[Plan]>,
    /// The latest last.
    prices: Vec<Price>,
}

/// What followed once. Times are after the first entry.
struct Price {
    places: Box<[Rank]>,
    entries: Box<[u64]>,
    ports: Box<[Passed]>,
    outcome: Arc<Outcome>,
    /// No time is later.
    last_ps: u64,
}

/// A port that the call passed.
struct Passed {
    port: PortId,
    /// It was taken until then before the call,
    before_ps: u64,
    /// and until then after it.
    after_ps: u64,
    counters: Counters,
}

/// Prices that are remembered of one call.
const PRICES: usize = 16;
/// Numbers held, beyond which all is forgotten: 128 MB.
const MOST_HELD: usize = 1 << 24;

impl Priced {
    /// When a rank is done.
    pub fn exit_ps(&self, rank: usize) -> u64 {
        self.base_ps + self.outcome.exit_ps[rank]
    }
}

impl Pricer {
    /// That remembers nothing yet.
    pub fn new(network: Arc<Network>) -> Pricer {
        Pricer { network, known: HashMap::new(), held: 0 }
    }

    /// What a [`World`](super::world::World) with these ports and nothing under way says of a call that stands at
    /// `places` and enters at `entry_ps`. Its ports afterwards are left in `ports`; after an error they are unchanged.
    /// The counters of the outcome are those of this call.
    ///
    /// # Panics
    /// If there is not one state for each port of the network.
    pub fn price(
        &mut self,
        call: &SharedCall,
        places: &[Rank],
        entry_ps: &[u64],
        ports: &mut [PortState],
    ) -> Result<Priced> {
        assert_eq!(ports.len(), self.network.ports.len(), "one state for each port");
        if !self.network.faults.is_empty() {
            return self.price_anew(call, places, entry_ps, ports);
        }
        let base_ps = entry_ps.iter().copied().min().unwrap_or(0);
        let key = Key {
            plans: call.plans.as_ptr().addr(),
            count: call.count,
            size: call.size,
            slice_bytes: call.slice_bytes,
            first_place: places.first().copied().unwrap_or(0),
            last_place: places.last().copied().unwrap_or(0),
        };
        if let Some(known) = self.known.get(&key) {
            let fits = |price: &&Price| price.fits(base_ps, places, entry_ps, ports);
            if let Some(price) = known.prices.iter().rev().find(fits) {
                return price.leave(base_ps, ports);
            }
        }
        let price = self.find(call, places, entry_ps, base_ps, ports)?;
        let priced = price.leave(base_ps, ports)?;
        self.remember(key, call, price);
        Ok(priced)
    }

    /// Ask the engine.
    fn find(
        &self,
        call: &SharedCall,
        places: &[Rank],
        entry_ps: &[u64],
        base_ps: u64,
        ports: &[PortState],
    ) -> Result<Price> {
        let entries: Box<[u64]> = entry_ps.iter().map(|at_ps| at_ps - base_ps).collect();
        let before = |port: &PortState| port.free_ps.saturating_sub(base_ps);
        let fresh = |port| PortState { free_ps: before(port), counters: Counters::default() };
        let mut engine = Engine::resume(&self.network, ports.iter().map(fresh));
        let outcome = engine.run(&self.network, &call.call(places), &entries, &mut |_| {})?;
        let passed = (0..).zip(ports).zip(engine.ports()).filter(|(_, after)| after.counters.messages > 0);
        let ports: Box<[Passed]> = passed
            .map(|((port, state), after)| Passed {
                port,
                before_ps: before(state),
                after_ps: after.free_ps,
                counters: after.counters,
            })
            .collect();
        let times = ports.iter().map(|p| p.after_ps).chain(outcome.exit_ps.iter().copied());
        let last_ps = times.max().unwrap_or(0);
        Ok(Price { places: places.into(), entries, ports, outcome: Arc::new(outcome), last_ps })
    }

    /// Faults come at their time, whatever the entries: nothing repeats.
    fn price_anew(
        &self,
        call: &SharedCall,
        places: &[Rank],
        entry_ps: &[u64],
        ports: &mut [PortState],
    ) -> Result<Priced> {
        let mut engine = Engine::resume(&self.network, ports.iter().copied());
        let mut outcome = engine.run(&self.network, &call.call(places), entry_ps, &mut |_| {})?;
        for ((counters, before), after) in outcome.counters.iter_mut().zip(ports).zip(engine.ports()) {
            *counters = after.counters.since(&before.counters);
            *before = after;
        }
        Ok(Priced { base_ps: 0, outcome: Arc::new(outcome) })
    }

    fn remember(&mut self, key: Key, call: &SharedCall, price: Price) {
        self.held += price.held();
        if self.held > MOST_HELD {
            self.known.clear();
            self.held = price.held();
        }
        let known = Known { _plans: call.plans.clone(), prices: Vec::new() };
        let known = self.known.entry(key).or_insert(known);
        if known.prices.len() >= PRICES {
            self.held -= known.prices.remove(0).held();
        }
        known.prices.push(price);
    }
}

impl Price {
    fn fits(&self, base_ps: u64, places: &[Rank], entry_ps: &[u64], ports: &[PortState]) -> bool {
        *self.places == *places
            && self.entries.len() == entry_ps.len()
            && self.entries.iter().zip(entry_ps).all(|(&entry, &at_ps)| entry == at_ps - base_ps)
            && self
                .ports
                .iter()
                .all(|passed| passed.before_ps == ports[passed.port as usize].free_ps.saturating_sub(base_ps))
    }

    /// Leave the ports as the call leaves them.
    fn leave(&self, base_ps: u64, ports: &mut [PortState]) -> Result<Priced> {
        if base_ps.checked_add(self.last_ps).is_none_or(|last_ps| last_ps == u64::MAX) {
            return Err(too_long());
        }
        for passed in &self.ports {
            let port = &mut ports[passed.port as usize];
            port.free_ps = base_ps + passed.after_ps;
            port.counters.add(&passed.counters);
        }
        Ok(Priced { base_ps, outcome: self.outcome.clone() })
    }

    /// Numbers that it holds, about.
    fn held(&self) -> usize {
        let words = |bytes: usize| bytes.div_ceil(size_of::<u64>());
        self.entries.len() * 3
            + words(size_of_val(&*self.ports))
            + words(size_of_val(&*self.outcome.counters))
    }
}
