//! What a machine makes of a table: the time of each row, as `penny sim` computes it.
//!
//! A search for parameters prices thousands of machines, each of them with all algorithms, protocols and slices a row. So the search
//! has a short list a row: what was quickest, or nearly so, on the machines that were priced in full, and the slices beside it. Its
//! times are those of the full choice or longer. Where the search ends, the full choice is made; if that is quicker in a row, the list
//! gets longer and the search goes on. A few algorithms are priced in full throughout.

use penny::sim::fabric::engine;
use penny::sim::fabric::tuning::Tuning;
use penny::sim::plan::RankView;
use penny::sim::topology::{Network, Slicing};
use penny_bench::layout;
use penny_bench::subject::Subject;

use super::table::{Sample, Table};
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

/// Ways to carry each row: an algorithm's number, and its protocol and slice.
#[derive(Default)]
pub struct ShortLists(Vec<Vec<(usize, Tuning)>>);

/// A way comes onto a short list if it is slower than the quickest by this factor at most.
const NEARLY: f64 = 1.25;
/// The most ways that come onto a short list at once.
const MOST_NEAR: usize = 3;
/// The most algorithms that are priced without short lists.
const FEW: usize = 4;

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
        self.samples.iter().map(|sample| self.answer(network, &machine, sample)).collect()
    }

    /// Adds to the lists what is quickest on a machine, or nearly so; returns the time of each row in picoseconds.
    pub fn lengthen(&self, network: &Network, lists: &mut ShortLists) -> Result<Vec<u64>, String> {
        let machine = Views::of(network);
        let is_named = quickest::named(network, &self.view, &self.names);
        lists.0.resize(self.samples.len(), Vec::new());
        let mut times = Vec::new();
        for (sample, list) in self.samples.iter().zip(&mut lists.0) {
            let mut found = Vec::new();
            for (number, candidate) in self.candidates.iter().enumerate() {
                let wanted = match is_named(candidate.algorithm.name) {
                    true => Wanted::Named,
                    false => Wanted::Quicker(None),
                };
                let block = self.block(candidate, sample);
                let priced = candidate.price(&machine, &self.places, block, wanted);
                if let Some(priced) = priced.map_err(|e| e.message.clone())? {
                    found.push((priced.summary.last_ps(), (number, priced.tuning)));
                }
            }
            found.sort_by_key(|(ps, _)| *ps);
            let least = found.first().map_or(0, |(ps, _)| *ps);
            let near = found.iter().filter(|(ps, _)| *ps as f64 <= least as f64 * NEARLY).take(MOST_NEAR);
            for &(_, (number, tuning)) in near {
                let slices = [tuning.slice_bytes, tuning.slice_bytes / 2, tuning.slice_bytes * 2];
                let free = network.slicing == Slicing::Auto && tuning.slice_bytes > 4096;
                for slice_bytes in slices.into_iter().take(if free { 3 } else { 1 }) {
                    let way = (number, Tuning { slice_bytes, ..tuning });
                    if !list.contains(&way) {
                        list.push(way);
                    }
                }
            }
            times.push(least);
        }
        Ok(times)
    }

    /// Computes the time of each row in picoseconds by the ways on its list, or in full where that is quick enough.
    pub fn short(&self, network: &Network, lists: &ShortLists) -> Result<Vec<u64>, String> {
        if self.candidates.len() <= FEW {
            let times = self.answers(network)?;
            return Ok(times.iter().map(|answer| answer.time_ps).collect());
        }
        let machine = Views::of(network);
        let rows = self.samples.iter().zip(&lists.0);
        rows.map(|(sample, list)| {
            let mut least = u64::MAX;
            for &(number, tuning) in list {
                let candidate = &self.candidates[number];
                let block = self.block(candidate, sample);
                let priced = candidate.price_as(&machine, &self.places, block, tuning);
                let (summary, _) = priced.map_err(|e| e.message.clone())?;
                least = least.min(summary.last_ps());
            }
            match least {
                0 | u64::MAX => {
                    Err(format!("{} B take no time among {} ranks", sample.bytes, self.view.nranks))
                }
                least => Ok(least),
            }
        })
        .collect()
    }

    /// Chooses as `penny sim` does for these names.
    fn answer(&self, network: &Network, machine: &Views, sample: &Sample) -> Result<Answer, String> {
        let is_named = quickest::named(network, &self.view, &self.names);
        let block = |candidate: &Programs| self.block(candidate, sample);
        let found = quickest::quickest(&self.candidates, machine, &self.places, is_named, block)?;
        let found = found.map(|(number, priced)| (number, priced.summary.last_ps(), priced.tuning));
        let Some((number, time_ps @ 1.., tuning)) = found else {
            return Err(format!("{} B take no time among {} ranks", sample.bytes, self.view.nranks));
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
