//! Remembers prices: a repeated call costs a look-up.
//!
//! ```text
//!     entries    100 130 100 120        what is remembered     0  30   0  20       the same at any time, as long as
//!     free       170  60  90 180        of them, from 100 on  70   0   0  80       the differences are the same
//! ```
//!
//! What a call takes that is alone in the network depends on its ranks' entries, and on the ports that it passes and
//! that are still taken then, only by their differences from the first entry. In a loop of equal calls these
//! differences soon repeat. Where faults are declared, time itself matters, and nothing is remembered. Not for calls
//! that find messages of others under way.
//!
//! A call of a thousand ranks passes thousands of ports, and to bring each up to date takes longer than everything else. A
//! [`LazyPorts`] only notes that a price was paid, and how often; its ports are brought up to date when they are read.

use super::engine::Engine;
use super::engine::running::too_long;
use super::tuning::Tuning;
use super::{CallTimes, PortCounters, PortState, SharedCall};
use crate::error::Result;
use crate::plan::Plan;
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::collections::HashMap;
use std::sync::Arc;

/// A price: add `base_ps` to the outcome's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priced {
    /// The time at which the first rank entered; 0 if faults are declared.
    pub base_ps: u64,
    /// The times that follow from it.
    pub outcome: Arc<CallTimes>,
}

/// A network and the prices already asked of it.
pub struct Pricer {
    network: Arc<Network>,
    /// Its views.
    views: Vec<Arc<Network>>,
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
    tuning: Tuning,
    first_place: Rank,
    last_place: Rank,
}

struct Known {
    _plans: Arc<[Plan]>,
    /// The latest last.
    prices: Vec<Arc<Price>>,
}

/// A price: the times that a call had once. They count from the first entry.
struct Price {
    places: Box<[Rank]>,
    entries: Box<[u64]>,
    ports: Box<[Passed]>,
    outcome: Arc<CallTimes>,
    /// No time is later.
    last_ps: u64,
    /// All its ports were free before.
    #[cfg(any(test, feature = "internals"))]
    idle: bool,
}

/// A port that the call passed.
struct Passed {
    port: PortId,
    /// The time until which the port was occupied before the call.
    before_ps: u64,
    /// The time until which it is occupied after the call.
    after_ps: u64,
    bytes: u64,
    messages: u64,
    busy_ps: u64,
    queue_high: u32,
}

/// Ports, of which the latest changes are noted and not yet made.
#[cfg(any(test, feature = "internals"))]
pub struct LazyPorts {
    ports: Vec<PortState>,
    /// Every port is free from then on.
    free_ps: u64,
    pending: Option<Pending>,
}

/// A price that was paid several times in a row.
#[cfg(any(test, feature = "internals"))]
struct Pending {
    price: Arc<Price>,
    times: u64,
    /// The begin of the last call.
    base_ps: u64,
    /// If the call is repeated this long after itself, it finds the ports in the state for which the price holds.
    period_ps: Option<u64>,
}

/// Prices that are remembered of one call.
const PRICES: usize = 16;
/// Numbers held, beyond which all is forgotten: 128 MB.
const MOST_HELD: usize = 1 << 24;

impl Priced {
    /// Returns the end time of a rank.
    pub fn exit_ps(&self, rank: usize) -> u64 {
        self.base_ps + self.outcome.exit_ps[rank]
    }
}

impl Pricer {
    /// Makes a pricer that remembers no prices yet.
    pub fn new(network: Arc<Network>) -> Pricer {
        Pricer { views: network.views(), network, known: HashMap::new(), held: 0 }
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
        let key = Key::of(call, places);
        if let Some(known) = self.known.get(&key)
            && let Some((price, base_ps)) =
                known.find(places, entry_ps, |price, base_ps| price.meets(base_ps, ports))
        {
            return price.leave(base_ps, ports);
        }
        let base_ps = entry_ps.iter().copied().min().unwrap_or(0);
        let price = Arc::new(self.find(call, places, entry_ps, base_ps, ports)?);
        let priced = price.leave(base_ps, ports)?;
        self.remember(key, call, price);
        Ok(priced)
    }

    /// The same, with ports of which nobody looks at every one after every call: a call that is repeated with the same
    /// differences does not touch them.
    ///
    /// # Panics
    /// If there is not one state for each port of the network.
    #[cfg(any(test, feature = "internals"))]
    pub fn price_onto(
        &mut self,
        call: &SharedCall,
        places: &[Rank],
        entry_ps: &[u64],
        lazy_ports: &mut LazyPorts,
    ) -> Result<Priced> {
        assert_eq!(lazy_ports.ports.len(), self.network.ports.len(), "one state for each port");
        if self.network.faults.is_empty()
            && let Some(known) = self.known.get(&Key::of(call, places))
            && let Some((price, base_ps)) =
                known.find(places, entry_ps, |price, base_ps| lazy_ports.fits(price, base_ps))
        {
            return lazy_ports.pay(price, base_ps);
        }
        lazy_ports.settle();
        let priced = self.price(call, places, entry_ps, &mut lazy_ports.ports)?;
        lazy_ports.free_ps = lazy_ports.ports.iter().map(|port| port.free_ps).max().unwrap_or(0);
        Ok(priced)
    }

    /// Asks the engine.
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
        let fresh = |port| PortState { free_ps: before(port), counters: PortCounters::default() };
        let mut engine = Engine::resume(&self.network, ports.iter().map(fresh));
        let view = &self.views[call.tuning.protocol as usize];
        let outcome = engine.run(view, &call.call(places), &entries, None)?;
        let passed = (0..).zip(ports).zip(engine.ports()).filter(|(_, after)| after.counters.messages > 0);
        let ports: Box<[Passed]> = passed
            .map(|((port, state), after)| Passed {
                port,
                before_ps: before(state),
                after_ps: after.free_ps,
                bytes: after.counters.bytes,
                messages: after.counters.messages,
                busy_ps: after.counters.busy_ps,
                queue_high: after.counters.queue_high,
            })
            .collect();
        let times = ports.iter().map(|p| p.after_ps).chain(outcome.exit_ps.iter().copied());
        let last_ps = times.max().unwrap_or(0);
        Ok(Price {
            places: places.into(),
            entries,
            #[cfg(any(test, feature = "internals"))]
            idle: ports.iter().all(|passed| passed.before_ps == 0),
            ports,
            outcome: Arc::new(outcome),
            last_ps,
        })
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
        let view = &self.views[call.tuning.protocol as usize];
        let mut outcome = engine.run(view, &call.call(places), entry_ps, None)?;
        for ((counters, before), after) in outcome.counters.iter_mut().zip(ports).zip(engine.ports()) {
            *counters = after.counters.since(&before.counters);
            *before = after;
        }
        Ok(Priced { base_ps: 0, outcome: Arc::new(outcome) })
    }

    fn remember(&mut self, key: Key, call: &SharedCall, price: Arc<Price>) {
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

impl Key {
    fn of(call: &SharedCall, places: &[Rank]) -> Key {
        Key {
            plans: call.plans.as_ptr().addr(),
            count: call.count,
            size: call.size,
            tuning: call.tuning,
            first_place: places.first().copied().unwrap_or(0),
            last_place: places.last().copied().unwrap_or(0),
        }
    }
}

impl Known {
    /// The latest price of such a call whose ports fit, and when the call begins.
    fn find(
        &self,
        places: &[Rank],
        entry_ps: &[u64],
        mut fits: impl FnMut(&Arc<Price>, u64) -> bool,
    ) -> Option<(&Arc<Price>, u64)> {
        self.prices.iter().rev().find_map(|price| {
            let base_ps = price.base_ps(places, entry_ps)?;
            fits(price, base_ps).then_some((price, base_ps))
        })
    }
}

#[cfg(any(test, feature = "internals"))]
impl LazyPorts {
    /// Ports as they are left.
    pub fn new(ports: Vec<PortState>) -> LazyPorts {
        let free_ps = ports.iter().map(|port| port.free_ps).max().unwrap_or(0);
        LazyPorts { ports, free_ps, pending: None }
    }

    /// Returns the ports as they are: what was noted is made first.
    pub fn ports(&mut self) -> &[PortState] {
        self.settle();
        &self.ports
    }

    fn settle(&mut self) {
        if let Some(Pending { price, times, base_ps, .. }) = self.pending.take() {
            price.apply(base_ps, times, &mut self.ports);
        }
    }

    /// Tells whether the ports are in the state for which the price holds.
    fn fits(&mut self, price: &Arc<Price>, base_ps: u64) -> bool {
        if self.free_ps <= base_ps {
            return price.idle;
        }
        if let Some(pending) = &mut self.pending
            && Arc::ptr_eq(&pending.price, price)
            && let Some(gap_ps) = base_ps.checked_sub(pending.base_ps)
        {
            // Its ports are as it left them itself, so that only the time since then counts.
            if pending.period_ps == Some(gap_ps) {
                return true;
            }
            let fits = price.ports.iter().all(|p| p.before_ps == p.after_ps.saturating_sub(gap_ps));
            pending.period_ps = if fits { Some(gap_ps) } else { pending.period_ps };
            return fits;
        }
        self.settle();
        price.meets(base_ps, &self.ports)
    }

    /// Notes that a call took what it takes.
    fn pay(&mut self, price: &Arc<Price>, base_ps: u64) -> Result<Priced> {
        let priced = price.at(base_ps)?;
        self.free_ps = self.free_ps.max(base_ps + price.last_ps);
        match &mut self.pending {
            Some(pending) if Arc::ptr_eq(&pending.price, price) => {
                pending.times += 1;
                pending.base_ps = base_ps;
            }
            _ => {
                self.settle();
                self.pending = Some(Pending { price: price.clone(), times: 1, base_ps, period_ps: None });
            }
        }
        Ok(priced)
    }
}

impl Price {
    /// When a call at these places begins, if it is of one with these differences between entries.
    fn base_ps(&self, places: &[Rank], entry_ps: &[u64]) -> Option<u64> {
        // Where all differences are the same, the first entry tells the least, and no search is needed.
        let base_ps = entry_ps.first()?.checked_sub(*self.entries.first()?)?;
        base_ps.checked_add(self.last_ps)?;
        let same = self.entries.len() == entry_ps.len()
            && *self.places == *places
            // No early end, so that many are compared at once.
            && self.entries.iter().zip(entry_ps).fold(0, |d, (&entry, &at_ps)| d | (entry ^ at_ps.wrapping_sub(base_ps))) == 0;
        same.then_some(base_ps)
    }

    /// Tells whether its ports are occupied as they were then.
    fn meets(&self, base_ps: u64, ports: &[PortState]) -> bool {
        let before = |passed: &Passed| ports[passed.port as usize].free_ps.saturating_sub(base_ps);
        self.ports.iter().all(|passed| passed.before_ps == before(passed))
    }

    /// Returns the price of a call that begins at `base_ps`.
    fn at(&self, base_ps: u64) -> Result<Priced> {
        if base_ps.checked_add(self.last_ps).is_none_or(|last_ps| last_ps == u64::MAX) {
            return Err(too_long());
        }
        Ok(Priced { base_ps, outcome: self.outcome.clone() })
    }

    /// Leaves the ports as the call leaves them.
    fn leave(&self, base_ps: u64, ports: &mut [PortState]) -> Result<Priced> {
        let priced = self.at(base_ps)?;
        self.apply(base_ps, 1, ports);
        Ok(priced)
    }

    /// Brings the ports into the state after `times` calls, of which the last began at `base_ps`. The counters of faults stay.
    fn apply(&self, base_ps: u64, times: u64, ports: &mut [PortState]) {
        for passed in &self.ports {
            let port = &mut ports[passed.port as usize];
            port.free_ps = base_ps + passed.after_ps;
            let counters = &mut port.counters;
            counters.bytes = counters.bytes.saturating_add(passed.bytes.saturating_mul(times));
            counters.messages += passed.messages * times;
            counters.busy_ps = counters.busy_ps.saturating_add(passed.busy_ps.saturating_mul(times));
            counters.queue_high = counters.queue_high.max(passed.queue_high);
        }
    }

    /// Returns about how many numbers it holds.
    fn held(&self) -> usize {
        let words = |bytes: usize| bytes.div_ceil(size_of::<u64>());
        self.entries.len() * 3
            + words(size_of_val(&*self.ports))
            + words(size_of_val(&*self.outcome.counters))
    }
}
