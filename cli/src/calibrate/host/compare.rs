//! All algorithms against the built-in table: their prices, and the times of those that may win.
//!
//! A call's time is kept as a ratio to its time with the table's algorithm, so that measurements of different moments compare.

use std::collections::HashMap;

use penny::Collective;
use penny::internals::planner::profile::HostProfile;
use penny::internals::planner::select::Selection;
use penny::sim::algorithms::{self, Algorithm};
use penny::sim::plan::RankView;

use crate::launch::bind;

use super::price::{HostModel, LinkedPrograms};
use super::probe::median;
use super::timed::{Rounds, TimedCall};

/// The vector sizes that are priced and measured, in bytes: the powers of two from 1 KiB to 4 MiB.
pub const SIZES: [u64; 13] = {
    let mut sizes = [1 << 10; 13];
    let mut k = 0;
    while k < sizes.len() {
        sizes[k] <<= k;
        k += 1;
    }
    sizes
};
/// The size whose prices stand for all vectors above the last of [`SIZES`].
pub const HUGE: u64 = 64 << 20;
/// An algorithm is a candidate if its price is at most this multiple of the lowest price.
const NEAR: f64 = 1.5;
/// The largest number of candidates for a call.
const CANDIDATES: usize = 3;

/// Returns the collectives for which there are several algorithms.
pub fn collectives() -> impl Iterator<Item = Collective> {
    Collective::ALL.iter().copied().filter(|&c| c != Collective::Barrier)
}

/// Tells whether each of `nranks` ranks has a core of its own.
pub fn have_own_cores(nranks: u32) -> bool {
    nranks as usize <= bind::cores().map_or(1, |cores| cores.len())
}

/// Returns the index of the algorithm that the table takes for a call.
pub fn of_table(view: &RankView, bytes: u64) -> usize {
    let selection = Selection::default().with_own_cores(have_own_cores(view.nranks));
    selection.choose(view, bytes).map_or(0, |(algorithm, _)| algorithm)
}

/// A call: the number of ranks, the collective, and the index of the size in [`SIZES`].
pub type Place = (u32, Collective, usize);

/// What is known of a call with a candidate, as ratios to its time with the table's algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Against {
    /// The ratio of the prices.
    pub priced: f64,
    /// Measured in private buffers: the median and the upper quartile of the rounds' ratios.
    pub private: Option<[f64; 2]>,
    /// The same in buffers that all ranks reach.
    pub shared: Option<[f64; 2]>,
    /// The worst of both near the next size, where that was measured.
    pub near_next: Option<[f64; 2]>,
}

/// What is known of each call with each of its candidates.
#[derive(Default)]
pub struct Comparison {
    pub known: HashMap<(Place, usize), Against>,
    /// The numbers of ranks that were priced, and whether they are measured, too.
    pub ranks: Vec<(u32, bool)>,
}

impl Comparison {
    /// Prices all algorithms for `nranks` ranks, and keeps those that may be faster than the table's.
    pub fn price(&mut self, model: &HostModel, nranks: u32, measured: bool) -> Result<(), String> {
        self.ranks.push((nranks, measured));
        for collective in collectives() {
            let view = RankView::flat(collective, 0, nranks, 0);
            let able = algorithms::candidates(collective).filter(|a| a.refuses(&view).is_none());
            let programs: Vec<(usize, LinkedPrograms)> =
                able.map(|a| Ok((index(a), LinkedPrograms::of(a, &view)?))).collect::<Result<_, String>>()?;
            let mut near: Vec<Vec<usize>> = Vec::new();
            let mut ratios: Vec<Vec<(usize, f64)>> = Vec::new();
            for bytes in SIZES.into_iter().chain([HUGE]) {
                let prices: Result<Vec<(usize, f64)>, String> =
                    programs.iter().map(|(a, p)| Ok((*a, model.price(p, bytes)?))).collect();
                let mut prices = prices?;
                prices.sort_by(|one, other| one.1.total_cmp(&other.1));
                let table = of_table(&view, bytes);
                let of_table = prices.iter().find(|(a, _)| *a == table).map_or(f64::INFINITY, |p| p.1);
                let limit = prices.first().map_or(0.0, |cheapest| cheapest.1 * NEAR);
                let others = prices.iter().filter(|(a, price)| *a != table && *price <= limit);
                near.push(others.take(CANDIDATES).map(|(a, _)| *a).collect());
                ratios.push(prices.iter().map(|(a, price)| (*a, price / of_table)).collect());
            }
            for (size, ratios) in ratios.into_iter().enumerate() {
                // A candidate that wins at a size must not lose at the next one, so it is measured there, too.
                let may_win =
                    |a: &usize| near[size.saturating_sub(1)..=size].iter().flatten().any(|n| n == a);
                for (algorithm, priced) in ratios.into_iter().filter(|(a, _)| may_win(a)) {
                    let place = (nranks, collective, size);
                    self.known.insert((place, algorithm), Against { priced, ..Against::default() });
                }
            }
        }
        Ok(())
    }

    /// Returns the calls to time with `nranks` ranks, each with the table's algorithm first and then the candidates.
    pub fn calls(&self, nranks: u32) -> Vec<TimedCall> {
        let mut calls = Vec::new();
        for collective in collectives() {
            for (size, bytes) in SIZES.into_iter().enumerate() {
                let candidates = self.candidates((nranks, collective, size));
                let named = candidates.iter().map(|&a| Some(algorithms::ALL[a].name.to_owned()));
                let algorithms: Vec<Option<String>> = [None].into_iter().chain(named).collect();
                for shared in [false, true].into_iter().filter(|_| algorithms.len() > 1) {
                    let (collective, algorithms) = (collective.name().to_owned(), algorithms.clone());
                    calls.push(TimedCall { collective, bytes, shared, algorithms });
                }
            }
        }
        calls
    }

    /// Records the times of calls that [`calls`](Self::calls) returned.
    pub fn measured(&mut self, nranks: u32, calls: &[TimedCall], times: &[Rounds]) {
        for (call, rounds) in calls.iter().zip(times) {
            let Some(collective) = Collective::from_name(&call.collective) else { continue };
            let Some(size) = SIZES.iter().rposition(|&bytes| bytes <= call.bytes) else { continue };
            for (name, times) in call.algorithms.iter().zip(rounds).skip(1) {
                let Some(algorithm) = name.as_deref().and_then(algorithms::find) else { continue };
                let place = ((nranks, collective, size), index(algorithm));
                let Some(against) = self.known.get_mut(&place) else { continue };
                let ratios = quartiles(times, &rounds[0]);
                if call.bytes > SIZES[size] {
                    against.near_next = Some(against.near_next.map_or(ratios, |known| worse(known, ratios)));
                } else if call.shared {
                    against.shared = Some(ratios);
                } else {
                    against.private = Some(ratios);
                }
            }
        }
    }

    /// Returns the calls to time again with `nranks` ranks, to confirm the choices of `profile`. Among many candidates a few
    /// win by chance.
    pub fn confirming(&self, nranks: u32, profile: &HostProfile) -> Vec<TimedCall> {
        let mut calls: Vec<TimedCall> = Vec::new();
        for choice in profile.choices().iter().filter(|choice| choice.ranks.contains(&nranks)) {
            let concerned = (0..SIZES.len()).filter(|&size| {
                let starts = |size: usize| choice.sizes.contains(&SIZES[size]);
                // The next size as well: the choice must not lose there.
                starts(size) || size.checked_sub(1).is_some_and(starts)
            });
            for size in concerned {
                let place = (nranks, choice.collective, size);
                if !self.known.contains_key(&(place, choice.algorithm)) {
                    continue;
                }
                let name = Some(algorithms::ALL[choice.algorithm].name.to_owned());
                // Where the table takes the same algorithm from the next size on, that size says nothing of those below it.
                let next = SIZES.get(size + 1).copied().unwrap_or(HUGE);
                let view = RankView::flat(choice.collective, 0, nranks, 0);
                let is_tables = |bytes| of_table(&view, bytes) == choice.algorithm;
                let ends = choice.sizes.contains(&SIZES[size]) && is_tables(next) && !is_tables(near(size));
                for bytes in [SIZES[size]].into_iter().chain(ends.then_some(near(size))) {
                    let both = [false, true].map(|shared| TimedCall {
                        collective: choice.collective.name().to_owned(),
                        bytes,
                        shared,
                        algorithms: vec![None, name.clone()],
                    });
                    // Choices for several numbers of ranks may meet at a size.
                    calls.extend(both.into_iter().filter(|call| !calls.contains(call)).collect::<Vec<_>>());
                }
            }
        }
        calls
    }

    /// Records the times of calls that [`confirming`](Self::confirming) returned. A candidate that was not timed again loses its
    /// measurement; for the others the worse of the two ratios counts.
    pub fn confirmed(&mut self, nranks: u32, calls: &[TimedCall], times: &[Rounds]) {
        let first: HashMap<(Place, usize), Against> = self.known.clone();
        for ((place, _), against) in &mut self.known {
            if place.0 == nranks {
                (against.private, against.shared, against.near_next) = (None, None, None);
            }
        }
        self.measured(nranks, calls, times);
        let both = |one: Option<[f64; 2]>, other: Option<[f64; 2]>| Some(worse(one?, other?));
        for (key, against) in &mut self.known {
            if let Some(before) = first.get(key).filter(|_| key.0.0 == nranks) {
                against.private = both(against.private, before.private);
                against.shared = both(against.shared, before.shared);
            }
        }
    }

    /// Returns the candidates for a call.
    pub fn candidates(&self, place: Place) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.known.keys().filter(|(known, _)| *known == place).map(|(_, a)| *a).collect();
        let view = RankView::flat(place.1, 0, place.0, 0);
        let table = of_table(&view, SIZES.get(place.2).copied().unwrap_or(HUGE));
        all.retain(|&a| a != table);
        all.sort_unstable();
        all
    }

    /// Returns the error of the prices: the root mean square of ln(priced ratio / measured ratio).
    pub fn error(&self) -> f64 {
        let wrong = |against: &Against| Some((against.priced / against.private?[0]).ln());
        let squares: Vec<f64> =
            self.known.values().filter_map(wrong).filter(|e| e.is_finite()).map(|e| e * e).collect();
        if squares.is_empty() { 0.0 } else { (squares.iter().sum::<f64>() / squares.len() as f64).sqrt() }
    }
}

/// Returns the index of an algorithm in [`algorithms::ALL`].
pub fn index(algorithm: &Algorithm) -> usize {
    algorithms::ALL.iter().position(|known| known.name == algorithm.name).unwrap_or(0)
}

/// Returns the larger median and the larger upper quartile.
fn worse(one: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    [one[0].max(other[0]), one[1].max(other[1])]
}

/// Returns a vector size near the one after `SIZES[size]`.
pub fn near(size: usize) -> u64 {
    let next = SIZES.get(size + 1).copied().unwrap_or(HUGE);
    (next / 8 * 7).min(8 * SIZES[size])
}

/// Returns the median and the upper quartile of the ratios of `times` to `table`, round by round.
pub fn quartiles(times: &[f64], table: &[f64]) -> [f64; 2] {
    let mut ratios: Vec<f64> = times.iter().zip(table).map(|(time, table)| time / table.max(1.0)).collect();
    ratios.sort_by(f64::total_cmp);
    let upper = ratios.get(ratios.len() * 3 / 4).copied().unwrap_or(f64::INFINITY);
    [median(ratios), upper]
}
