//! What a machine makes of a table: the time of each row, as `penny sim` computes it.
//!
//! A search for parameters prices a thousand machines, each of them with all algorithms, protocols and slices a row. So the search
//! has a short list a row: what was quickest, or nearly so, on the machines that were priced in full. A call of gigabytes has hundreds
//! of thousands of slices; the search prices it with a few thousand, and multiplies the time by what the true slices made of it on the machine
//! that was priced in full. Where the search ends, the full choice is made; if that is another time in a row, the list and the factors
//! are made anew and the search goes on. A few algorithms of few messages are priced in full throughout.

use penny::sim::fabric::engine;
use penny::sim::fabric::tuning::Tuning;
use penny::sim::plan::RankView;
use penny::sim::topology::Network;
use penny_bench::layout;
use penny_bench::subject::Subject;

use super::table::{Sample, Table};
use crate::sim::side_by_side::each;
use crate::sim::{Block, Programs, Views, Wanted, quickest};

/// The times of a table, and the settings to price them.
pub struct Question {
    pub subject: Subject,
    pub view: RankView,
    pub samples: Vec<Sample>,
    /// The rows that have no element for each rank.
    pub without: usize,
    candidates: Vec<Programs>,
    places: Vec<u32>,
    /// Bytes of an element.
    element: usize,
    /// The algorithms that are named.
    names: Vec<String>,
}

/// Ways to carry each row.
#[derive(Default)]
pub struct ShortLists(Vec<Vec<Way>>);

/// A way to carry a row.
#[derive(Clone, Copy)]
struct Way {
    /// The algorithm's number.
    number: usize,
    /// The protocol and the slice with which the call is carried.
    tuning: Tuning,
    /// The same with the slice that the search prices.
    priced: Tuning,
    /// What the true slice takes of the time with the other.
    factor: f64,
}

/// A way comes onto a short list if it is slower than the quickest by this factor at most.
const NEARLY: f64 = 1.25;
/// The most ways that come onto a short list at once.
const MOST_NEAR: usize = 3;
/// The messages of all algorithms in whole chunks with which rows are priced without short lists, at most.
const FEW: u64 = 512;
/// About how many times as long it takes to choose a slice as to price whole chunks.
const OF_SLICES: u64 = 16;
/// The work of a price without its messages, in messages.
const LEAST_WORK: u64 = 300;
/// The most messages that the search prices for a way, if its slices make them.
const MOST_SEARCHED: u64 = 1 << 11;

/// The fastest algorithm at a size, and its time.
pub struct Answer {
    pub time_ps: u64,
    pub algorithm: &'static str,
    /// The machine's protocol that carries it.
    pub protocol: Option<String>,
    pub slice_bytes: u64,
}

impl Answer {
    pub fn seconds(&self) -> f64 {
        self.time_ps as f64 * 1e-12
    }
}

impl Question {
    /// The rows of a table that can be priced among these ranks. `Err` if there are none.
    pub fn new(
        subject: Subject,
        view: RankView,
        candidates: Vec<Programs>,
        places: Vec<u32>,
        table: &Table,
        names: Vec<String>,
    ) -> Result<Question, String> {
        let element = table.element.0;
        let samples: Vec<Sample> = table
            .samples
            .iter()
            .copied()
            .filter(|sample| layout::count(subject, view.nranks, sample.bytes, element) > 0)
            .collect();
        if view.nranks < 2 {
            return Err(
                "one rank sends nothing, so its times say nothing of a machine; give the ranks with -n"
                    .into(),
            );
        }
        if samples.is_empty() {
            return Err(format!(
                "no row of the table has an element for each of {} ranks; give the ranks that were measured with -n",
                view.nranks
            ));
        }
        let without = table.samples.len() - samples.len();
        Ok(Question { subject, view, samples, without, candidates, places, element, names })
    }

    /// Computes the time of each size on a machine.
    pub fn answers(&self, network: &Network) -> Result<Vec<Answer>, String> {
        let machine = Views::of(network);
        each(&self.samples, |_| 0, |sample| self.answer(network, &machine, sample)).into_iter().collect()
    }

    /// Adds to the lists what is quickest on a machine, or nearly so, and takes their factors anew; returns the time of each row in picoseconds.
    pub fn lengthen(&self, network: &Network, lists: &mut ShortLists) -> Result<Vec<u64>, String> {
        let machine = Views::of(network);
        let is_named = quickest::named(network, &self.view, &self.names);
        lists.0.resize(self.samples.len(), Vec::new());
        let rows: Vec<(&Sample, &Vec<Way>)> = self.samples.iter().zip(&lists.0).collect();
        let longer = each(&rows, |_| 0, |(sample, list)| self.longer(&machine, sample, list, &is_named));
        let mut times = Vec::new();
        for (list, longer) in lists.0.iter_mut().zip(longer) {
            let (new, least_ps) = longer?;
            *list = new;
            times.push(least_ps);
        }
        Ok(times)
    }

    /// Returns a row's list with what is quickest on a machine, or nearly so, and the row's time in picoseconds.
    fn longer(
        &self,
        machine: &Views,
        sample: &Sample,
        list: &[Way],
        is_named: &dyn Fn(&str) -> bool,
    ) -> Result<(Vec<Way>, u64), String> {
        let network = machine.bare();
        let by_price = network.chooses_by_price();
        let nearly = |ps: u64| if by_price { (ps as f64 * NEARLY) as u64 } else { ps };
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        order.sort_by_key(|&number| {
            let candidate = &self.candidates[number];
            let expected_ps = candidate.expected_ps(machine, self.block(candidate, sample));
            (expected_ps.unwrap_or(u64::MAX), candidate.effort())
        });
        let mut found: Vec<(u64, u64, usize, Tuning)> = Vec::new();
        for number in order {
            let candidate = &self.candidates[number];
            let (block, name) = (self.block(candidate, sample), candidate.algorithm.name);
            let most_ps = found.iter().map(|(expected_ps, ..)| nearly(*expected_ps)).min();
            if most_ps.is_some_and(|most_ps| {
                candidate.expected_ps(machine, block).is_some_and(|expected_ps| expected_ps >= most_ps)
                    || candidate.is_slower(machine, &self.places, block, most_ps)
            }) {
                continue;
            }
            let wanted = match is_named(name) {
                true => Wanted::Named,
                false => Wanted::Quicker(most_ps),
            };
            let priced = candidate.price(machine, &self.places, block, wanted);
            if let Some(priced) = priced.map_err(|e| e.message.clone())? {
                found.push((priced.expected_ps, priced.summary.last_ps(), number, priced.tuning));
            }
        }
        found.sort_by_key(|(expected_ps, ..)| *expected_ps);
        let Some(&(expected_ps, least_ps @ 1.., ..)) = found.first() else {
            return Err(self.no_time(sample));
        };
        // A library's formula does not change with the parameters, so neither does its choice.
        let most = if by_price { MOST_NEAR } else { 1 };
        let near = found.iter().filter(|found| found.0 <= nearly(expected_ps)).take(most);
        let mut ways: Vec<(usize, Tuning, Option<u64>)> =
            near.map(|&(_, last_ps, number, tuning)| (number, tuning, Some(last_ps))).collect();
        for way in list.iter().filter(|_| by_price) {
            if !ways.iter().any(|(number, tuning, _)| (*number, *tuning) == (way.number, way.tuning)) {
                ways.push((way.number, way.tuning, None));
            }
        }
        let mut new = Vec::new();
        for (number, tuning, last_ps) in ways {
            let (way, last_ps) = self.way(machine, sample, number, tuning, last_ps)?;
            if last_ps <= nearly(least_ps) {
                new.push(way);
            }
        }
        Ok((new, least_ps))
    }

    /// Returns a way as the search prices it, and what it takes; `last_ps` says that where it is known.
    fn way(
        &self,
        machine: &Views,
        sample: &Sample,
        number: usize,
        tuning: Tuning,
        last_ps: Option<u64>,
    ) -> Result<(Way, u64), String> {
        let candidate = &self.candidates[number];
        let block = self.block(candidate, sample);
        let slice_bytes = candidate.coarser(block, tuning.slice_bytes, MOST_SEARCHED);
        let priced = Tuning { slice_bytes, ..tuning };
        let price = |tuning| -> Result<u64, String> {
            let priced = candidate.price_as(machine, &self.places, block, tuning);
            Ok(priced.map_err(|e| e.message.clone())?.0.last_ps())
        };
        let last_ps = last_ps.map_or_else(|| price(tuning), Ok)?;
        let factor = if priced == tuning { 1.0 } else { last_ps as f64 / price(priced)?.max(1) as f64 };
        Ok((Way { number, tuning, priced, factor }, last_ps))
    }

    /// Tells whether the search can price a row in full each time.
    fn is_small(&self) -> bool {
        self.whole() <= FEW
    }

    /// Returns the messages of all algorithms in whole chunks.
    fn whole(&self) -> u64 {
        let block = |candidate| self.block(candidate, &self.samples[0]);
        self.candidates.iter().map(|candidate| candidate.followed(block(candidate), 0)).sum()
    }

    /// Computes the time of each row in picoseconds by the ways on its list, or in full where that is quick enough.
    pub fn short(&self, network: &Network, lists: &ShortLists) -> Result<Vec<u64>, String> {
        if self.is_small() {
            let times = self.answers(network)?;
            return Ok(times.iter().map(|answer| answer.time_ps).collect());
        }
        let machine = Views::of(network);
        let rows: Vec<(&Sample, &Vec<Way>)> = self.samples.iter().zip(&lists.0).collect();
        let times = each(
            &rows,
            |_| 0,
            |(sample, list)| {
                let mut least = u64::MAX;
                for way in *list {
                    let candidate = &self.candidates[way.number];
                    let block = self.block(candidate, sample);
                    let priced = candidate.price_as(&machine, &self.places, block, way.priced);
                    let (summary, _) = priced.map_err(|e| e.message.clone())?;
                    least = least.min((summary.last_ps() as f64 * way.factor) as u64);
                }
                match least {
                    0 | u64::MAX => Err(self.no_time(sample)),
                    least => Ok(least),
                }
            },
        );
        times.into_iter().collect()
    }

    /// Returns about how much work it is to price all rows by their lists, in messages.
    pub fn work(&self, lists: &ShortLists) -> u64 {
        if self.is_small() {
            return self.samples.len() as u64 * (LEAST_WORK + self.whole() * OF_SLICES);
        }
        let rows = self.samples.iter().zip(&lists.0);
        let ways = rows.flat_map(|(sample, list)| list.iter().map(move |way| (sample, way)));
        ways.map(|(sample, way)| {
            let candidate = &self.candidates[way.number];
            LEAST_WORK + candidate.followed(self.block(candidate, sample), way.priced.slice_bytes)
        })
        .sum()
    }

    /// Says that a row is of nothing.
    fn no_time(&self, sample: &Sample) -> String {
        format!("{} B take no time among {} ranks", sample.bytes, self.view.nranks)
    }

    /// Chooses as `penny sim` does for these names.
    fn answer(&self, network: &Network, machine: &Views, sample: &Sample) -> Result<Answer, String> {
        let is_named = quickest::named(network, &self.view, &self.names);
        let block = |candidate: &Programs| self.block(candidate, sample);
        let found = quickest::quickest(&self.candidates, machine, &self.places, is_named, block)?;
        let found = found.map(|(number, priced)| (number, priced.summary.last_ps(), priced.tuning));
        let Some((number, time_ps @ 1.., tuning)) = found else {
            return Err(self.no_time(sample));
        };
        Ok(Answer {
            time_ps,
            algorithm: self.candidates[number].algorithm.name,
            protocol: network.protocol_name(tuning.protocol as usize).map(str::to_owned),
            slice_bytes: tuning.slice_bytes,
        })
    }

    /// Tells whether no algorithm was named.
    pub fn is_auto(&self) -> bool {
        self.names.iter().any(|name| name == "auto")
    }

    fn block(&self, candidate: &Programs, sample: &Sample) -> Block {
        let count = layout::count(self.subject, self.view.nranks, sample.bytes, self.element);
        Block { count: candidate.within_reach(count) as u64, size: self.element as u64 }
    }

    /// Returns the names of the link classes that messages pass.
    pub fn used_classes<'a>(&self, network: &'a Network) -> Result<Vec<&'a str>, String> {
        let mut used = Vec::new();
        for candidate in &self.candidates {
            let block = self.block(candidate, &self.samples[0]);
            let call = candidate.call(&self.places, block, Tuning::default());
            let entry = vec![0; self.view.nranks as usize];
            let outcome = engine::price(network, &call, &entry).map_err(|e| e.message.clone())?;
            let ports = (0..).zip(&outcome.counters).filter(|(_, passed)| passed.messages > 0);
            used.extend(ports.map(|(port, _)| network.class(port).name.as_str()));
        }
        Ok(used)
    }
}
