//! The price of a plan on this host: a simulation of its ranks, step by step, on the cores that there are.
//!
//! ```text
//!     rank 0, core 0    copy ->slot   | fold <-slot 1 ...        a step begins when its core is free, its operands are complete
//!     rank 1, core 1      copy ->slot | fold <-slot 0 ...        and a cache line has arrived; it takes bytes / rate
//!     rank 2, core 0                  copy ->slot ...            more ranks than cores: they take turns
//! ```
//!
//! The programs are linked and cut into slices exactly as the library does it. A small call that the library makes by one direct
//! exchange, without a program, is priced as such an exchange. The engine of declared machines is of no use here: it prices
//! messages on wires, and a host has none. A rank that sends to several peers copies its data once, and each peer spends the time
//! to read it.

use penny::Collective;
use penny::internals::exec::direct;
use penny::internals::memory::control::Layout;
use penny::internals::plan::link::{Linked, LinkedStep, OperandSource, StepPlace};
use penny::internals::transport::single_copy::SingleCopy;
use penny::sim::algorithms::{self, Algorithm};
use penny::sim::plan::RankView;

use super::cores::{Cores, Distance};
use super::probe::{HandOff, HostNumbers, Rates};

/// The largest slot of a rank's staging memory, as the executor has it.
const SLOT_LIMIT: u64 = 128 << 10;
/// The number of slices that are simulated one by one. For the slices after them the same pace is assumed.
const SLICES: u64 = 12;
/// The bytes of a cache line: the least that is transferred between cores.
const LINE: f64 = 64.0;
/// The fixed cost of a step, as a part of `call_ns`.
const STEP_OF_CALL: f64 = 0.1;

/// The model of a host on which plans are priced.
pub struct HostModel {
    /// The host's processors.
    pub cores: Cores,
    /// The rates and latencies that were measured on the host.
    pub numbers: HostNumbers,
}

/// The linked programs of all ranks.
pub struct LinkedPrograms {
    view: RankView,
    algorithm: &'static Algorithm,
    programs: Vec<Linked>,
}

impl LinkedPrograms {
    /// Links an algorithm's programs.
    pub fn of(algorithm: &'static Algorithm, view: &RankView) -> Result<LinkedPrograms, String> {
        let linked = |rank| algorithms::linked(algorithm, &view.of(rank));
        let programs = (0..view.nranks).map(linked).collect::<Result<_, _>>()?;
        Ok(LinkedPrograms { view: view.clone(), algorithm, programs })
    }
}

/// Returns the bytes of a block of a collective whose whole vector has `bytes` bytes.
pub fn block_bytes(collective: Collective, nranks: u32, bytes: u64) -> u64 {
    match collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => bytes,
        _ => bytes / u64::from(nranks),
    }
}

impl HostModel {
    /// Returns the nanoseconds until the last rank has finished a call of `bytes` bytes.
    pub fn price(&self, of: &LinkedPrograms, bytes: u64) -> Result<f64, String> {
        let LinkedPrograms { view, algorithm, programs } = of;
        let block = block_bytes(view.collective, view.nranks, bytes);
        if algorithm.name == "one_shot"
            && direct::fits(view.collective, view.nranks, block as usize, SingleCopy::default())
        {
            return Ok(self.direct(view, block));
        }
        let first = &programs[0];
        let part = block.div_ceil(u64::from(first.parts)).max(1);
        let slots = u64::from(first.slots.max(1)) * u64::from(first.depth.max(1));
        let slot = (Layout::default_staging(view.nranks) as u64 / 2 / slots).clamp(64, SLOT_LIMIT);
        let slices = part.div_ceil(slot);
        let slice = part.div_ceil(slices) as f64;
        let walk = |slices| Walk::new(self, of, bytes, slice, slices).run();
        if slices <= SLICES {
            return walk(slices);
        }
        let (half, whole) = (walk(SLICES / 2)?, walk(SLICES)?);
        Ok(whole + (slices - SLICES) as f64 * (whole - half) / (SLICES - SLICES / 2) as f64)
    }

    fn core_of(&self, rank: u32) -> usize {
        rank as usize % self.cores.len()
    }

    /// Returns the latency and the rate between two ranks.
    fn link(&self, one: u32, other: u32) -> HandOff {
        let (one, other) = (self.core_of(one), self.core_of(other));
        let distance = if one == other { Distance::Core } else { self.cores.distance(one, other) };
        let links = &self.numbers.links;
        // Ranks on the same core find each other's data in its cache.
        let own = HandOff { line_ns: 0.0, rate: self.numbers.copy.cache };
        match links.iter().find(|(known, _)| *known == distance) {
            _ if one == other => own,
            Some((_, link)) => *link,
            None => own,
        }
    }

    /// Returns the rate at which ranks read vectors of `bytes` bytes each: from the caches if all vectors fit, else from memory.
    fn rate(&self, rates: Rates, nranks: u32, bytes: u64) -> f64 {
        // The vectors are the input, the output and the staging of each rank.
        let all = 3 * bytes * u64::from(nranks);
        let caches = self.cores.cache_bytes() * self.cores.nodes() as u64;
        if all > caches { rates.memory } else { rates.cache }
    }

    /// Returns the time of a direct exchange: each rank writes its input, then reads what it needs from the others.
    fn direct(&self, view: &RankView, block: u64) -> f64 {
        let HostNumbers { call_ns, switch_ns, copy, fold, .. } = &self.numbers;
        let (n, collective) = (view.nranks, view.collective);
        let input = f64::from(collective.blocks_in(1 % n, n, view.root)) * block as f64;
        let turns = n.div_ceil(self.cores.len() as u32);
        let arrive = f64::from(turns) * (call_ns + input / copy.cache) + f64::from(turns - 1) * switch_ns;
        let read = |rank: u32| {
            let all = matches!(
                collective,
                Collective::AllReduce
                    | Collective::ReduceScatter
                    | Collective::AllGather
                    | Collective::AlltoAll
            );
            let gathers = rank == view.root && matches!(collective, Collective::Reduce | Collective::Gather);
            let scatters =
                rank != view.root && matches!(collective, Collective::Broadcast | Collective::Scatter);
            let from = (0..n).filter(|&r| r != rank && (all || gathers || scatters && r == view.root));
            let (mut last, mut time) = (0f64, 0.0);
            for link in from.map(|r| self.link(r, rank)) {
                last = last.max(link.line_ns);
                time += (block as f64).max(LINE) / link.rate;
                time += if collective.reduces() { block as f64 / fold.cache } else { 0.0 };
            }
            last + time
        };
        let slowest = (0..n).map(read).fold(0.0, f64::max);
        arrive + slowest * f64::from(turns) + f64::from(turns - 1) * switch_ns
    }
}

/// A simulation of ranks that run their programs.
struct Walk<'a> {
    model: &'a HostModel,
    of: &'a LinkedPrograms,
    bytes: u64,
    slice: f64,
    slices: u64,
    /// For each rank, the end times of its steps, wave by wave.
    done_ns: Vec<Vec<f64>>,
    /// For each core, the time at which it is free, and the rank that ran on it last.
    free: Vec<(f64, u32)>,
}

impl<'a> Walk<'a> {
    fn new(model: &'a HostModel, of: &'a LinkedPrograms, bytes: u64, slice: f64, slices: u64) -> Walk<'a> {
        let done_ns = of.programs.iter().map(|_| Vec::new()).collect();
        let free = (0..model.cores.len()).map(|core| (0.0, core as u32)).collect();
        Walk { model, of, bytes, slice, slices, done_ns, free }
    }

    /// Runs the ranks in turn, each until it has to wait, as ranks on one core do. Returns the end time of the last rank.
    fn run(mut self) -> Result<f64, String> {
        let ranks = self.of.view.nranks;
        let mut enter: Vec<f64> = Vec::new();
        for rank in 0..ranks {
            let at = self.take(rank, 0.0, self.model.numbers.call_ns);
            enter.push(at);
        }
        // No rank reads from another before that one has entered the call.
        let mut clocks = enter.clone();
        loop {
            let mut moved = false;
            for rank in 0..ranks {
                while let Some(step) = self.next(rank) {
                    let Some(ready) = self.ready(rank, step.0, step.1, &enter) else { break };
                    let cost = self.cost(rank, step.1);
                    let begin = ready.max(clocks[rank as usize]);
                    clocks[rank as usize] = self.take(rank, begin, cost);
                    self.done_ns[rank as usize].push(clocks[rank as usize]);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        match (0..ranks).all(|rank| self.next(rank).is_none()) {
            true => Ok(clocks.into_iter().fold(0.0, f64::max)),
            false => Err(format!("{}: its ranks wait for each other", self.of.algorithm.name)),
        }
    }

    /// Occupies the core of `rank` for `cost` nanoseconds, not before `begin`. Returns the end time.
    fn take(&mut self, rank: u32, begin: f64, cost: f64) -> f64 {
        let core = self.model.core_of(rank);
        let (free, last) = self.free[core];
        let switch = if last == rank { 0.0 } else { self.model.numbers.switch_ns };
        let end = begin.max(free + switch) + cost;
        self.free[core] = (end, rank);
        end
    }

    /// Returns the next step of a rank and its wave. Steps that have no slice in a wave are skipped and take no time.
    fn next(&mut self, rank: u32) -> Option<(u64, &'a LinkedStep)> {
        let program = &self.of.programs[rank as usize];
        let steps = program.steps.len();
        let waves = self.slices + u64::from(program.levels.max(1)) - 1;
        loop {
            let at = self.done_ns[rank as usize].len();
            let wave = at.checked_div(steps).map_or(waves, |wave| wave as u64);
            if wave >= waves {
                return None;
            }
            let step = &program.steps[at % steps];
            if wave.checked_sub(u64::from(step.level)).is_some_and(|slice| slice < self.slices) {
                return Some((wave, step));
            }
            let before = self.done_ns[rank as usize].last().copied().unwrap_or(0.0);
            self.done_ns[rank as usize].push(before);
        }
    }

    /// Returns the time at which everything that a step waits for is ready; `None` while that is unknown.
    fn ready(&self, rank: u32, wave: u64, step: &LinkedStep, enter: &[f64]) -> Option<f64> {
        let slice = wave - u64::from(step.level);
        let mut ready = 0f64;
        for operand in &step.operands {
            let OperandSource::From { place, .. } = operand else { continue };
            let line_ns = self.model.link(place.rank, rank).line_ns;
            ready = ready.max(self.done(place, slice)? + line_ns).max(enter[place.rank as usize] + line_ns);
        }
        let depth = u64::from(self.of.programs[rank as usize].depth);
        if let Some(before) = slice.checked_sub(depth) {
            for reader in &step.readers {
                ready = ready.max(self.done(&reader.place, before)?);
            }
        }
        Some(ready)
    }

    fn done(&self, place: &StepPlace, slice: u64) -> Option<f64> {
        let at = (slice + u64::from(place.level)) * u64::from(place.steps) + u64::from(place.position);
        self.done_ns[place.rank as usize].get(at as usize).copied()
    }

    /// Returns the nanoseconds of a step: reading its operands, folding them, and writing the result to each place.
    fn cost(&self, rank: u32, step: &LinkedStep) -> f64 {
        let numbers = &self.model.numbers;
        let rate = |rates| self.model.rate(rates, self.of.view.nranks, self.bytes);
        let (copy, fold) = (rate(numbers.copy), rate(numbers.fold));
        let mut time = 0.0;
        for operand in &step.operands {
            time += match operand {
                OperandSource::From { place, .. } => {
                    self.slice.max(LINE) / self.model.link(place.rank, rank).rate.min(copy)
                }
                OperandSource::Own if step.operands.len() > 1 => 0.0,
                OperandSource::Own => self.slice / copy,
            };
        }
        time += self.slice * (step.operands.len() - 1) as f64 / fold;
        let places = usize::from(step.keep.is_some()) + usize::from(!step.readers.is_empty());
        time += self.slice * places.saturating_sub(1) as f64 / copy;
        numbers.call_ns * STEP_OF_CALL + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a host of `nodes` nodes with `each` cores, and plausible numbers.
    fn host(nodes: usize, each: usize) -> HostModel {
        let link = |line_ns, rate| HandOff { line_ns, rate };
        let numbers = HostNumbers {
            links: vec![(Distance::Cache, link(60.0, 15.0)), (Distance::Far, link(250.0, 5.0))],
            switch_ns: 1500.0,
            copy: Rates { cache: 30.0, memory: 6.0 },
            fold: Rates { cache: 20.0, memory: 4.0 },
            call_ns: 150.0,
        };
        HostModel { cores: Cores::imagined(nodes, each), numbers }
    }

    fn price(host: &HostModel, nranks: u32, collective: Collective, name: &str, bytes: u64) -> f64 {
        let view = RankView::flat(collective, 0, nranks, 0);
        let algorithm = algorithms::find(name).unwrap();
        host.price(&LinkedPrograms::of(algorithm, &view).unwrap(), bytes).unwrap()
    }

    #[test]
    fn every_plan_has_a_price_that_grows_with_its_bytes() {
        for (nodes, each, nranks) in [(1, 2, 2), (1, 2, 5), (2, 4, 8), (8, 16, 16)] {
            let host = host(nodes, each);
            for &collective in Collective::ALL.iter().filter(|c| **c != Collective::Barrier) {
                let view = RankView::flat(collective, 0, nranks, 0);
                for algorithm in algorithms::candidates(collective).filter(|a| a.refuses(&view).is_none()) {
                    let programs = LinkedPrograms::of(algorithm, &view).unwrap();
                    let prices: Vec<f64> = [1 << 10, 1 << 16, 1 << 20, 1 << 26]
                        .iter()
                        .map(|&bytes| host.price(&programs, bytes).unwrap())
                        .collect();
                    let name = algorithm.name;
                    assert!(
                        prices[0] > 0.0 && prices.is_sorted(),
                        "{collective} {name} {nranks}: {prices:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn small_messages_are_cheapest_in_one_exchange_and_large_ones_by_sharing_the_work() {
        for (nodes, each, nranks) in [(1, 4, 4), (8, 16, 128)] {
            let host = host(nodes, each);
            let price = |name, bytes| price(&host, nranks, Collective::AllReduce, name, bytes);
            assert!(price("one_shot", 8) < price("two_shot", 8), "{nranks} ranks");
            assert!(price("two_shot", 4 << 20) < price("one_shot", 4 << 20), "{nranks} ranks");
            assert!(
                price("two_shot", 256) < price("ring", 256),
                "{nranks} ranks: 2(n-1) hand-offs are more than 2"
            );
        }
    }

    #[test]
    fn far_cores_and_shared_cores_cost_more_than_near_ones() {
        let [near, far] = [host(1, 8), host(8, 1)];
        for bytes in [1 << 10, 1 << 20] {
            let on = |host| price(host, 8, Collective::AllReduce, "two_shot", bytes);
            assert!(on(&near) < on(&far));
            let shared = price(&host(1, 2), 8, Collective::AllReduce, "two_shot", bytes);
            assert!(on(&near) < shared);
        }
    }
}
