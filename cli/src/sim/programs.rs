//! An algorithm's programs, priced: by their closed form, as a list of steps that is kept, or written rank by rank.

use std::sync::OnceLock;

use indicatif::HumanBytes;
use penny::sim::algorithms::{self, Algorithm};
use penny::sim::fabric::shortcuts::{self, Ask, Summary, Used};
use penny::sim::fabric::tuning::{self, Carriage, Divisible, Tuning};
use penny::sim::fabric::{CallTimes, PricedCall, bound, engine};
use penny::sim::plan::cycles::Cycles;
use penny::sim::plan::{Lane, Operand, Plan, RankView};
use penny::sim::topology::{CarriedCall, Network, Slicing};

use super::{Block, Priced, Views, Wanted};

/// Messages of calls in succession, at most: more take minutes.
const MOST_IN_SUCCESSION: u64 = 200_000_000;
/// Programs with more messages are written anew for each price: kept, those of all algorithms would take gigabytes.
const MOST_KEPT: u64 = 1 << 17;
/// Messages into which slices cut a call, at most: they take about ten seconds.
const MOST_IN_SLICES: u64 = 1 << 23;
/// About what it takes to follow a message, with slices left out: nanoseconds, and bytes.
const EACH_NS: u64 = 1_500;
const EACH_BYTES: u64 = 150;
/// The same more exactly, in bytes: a message, one that is under way at the same time as all others, and a way from one rank to another.
const EACH_MATCHED: u64 = 88;
const EACH_UNDER_WAY: u64 = 48;
const EACH_WAY: u64 = 56;
/// Calls with fewer messages are priced as soon as it is known whether they can be quick.
const FEW: u64 = 1 << 15;
/// Messages of one rank up to which the programs of a few ranks are written to know it.
const MOST_OF_ONE: u64 = 1 << 16;

/// An algorithm and its programs, which serve every size; the lists of steps only where they are needed.
pub struct Programs {
    pub algorithm: &'static Algorithm,
    view: RankView,
    cycles: Option<Cycles>,
    messages: u64,
    plans: OnceLock<Vec<Plan>>,
}

impl Programs {
    pub fn new(algorithm: &'static Algorithm, view: &RankView) -> Programs {
        let cycles = algorithms::cycles(algorithm, view);
        let messages = match &cycles {
            Some(cycles) => shortcuts::messages(cycles),
            None => algorithms::messages(algorithm, view),
        };
        Programs { algorithm, view: view.clone(), cycles, messages, plans: OnceLock::new() }
    }

    /// Returns about how long a price takes, in messages of a list of steps.
    pub fn effort(&self) -> u64 {
        if self.cycles.is_some() { self.messages / 32 } else { self.messages }
    }

    /// Returns about how much memory a price takes while it is made.
    pub fn bytes(&self) -> u64 {
        if self.cycles.is_some() || self.messages <= MOST_KEPT {
            return 0;
        }
        // A rank that is no end of a line or a tree tells what the others do.
        let nranks = self.view.nranks;
        let plan = algorithms::plan(self.algorithm, &self.view.of(nranks / 2));
        let first = plan.steps.iter().filter(|step| step.operands == [Operand::Own]);
        let at_once: u64 = first.map(|step| step.to.len() as u64).sum();
        let mut ways: Vec<(Lane, u32)> =
            plan.steps.iter().flat_map(|step| step.to.iter().map(|&to| (step.lane, to))).collect();
        ways.sort_unstable();
        ways.dedup();
        let of_each = at_once * EACH_UNDER_WAY + ways.len() as u64 * EACH_WAY;
        self.messages.saturating_mul(EACH_MATCHED).saturating_add(of_each * u64::from(nranks))
    }

    /// Returns all ranks' programs as lists of steps.
    pub fn plans(&self) -> &[Plan] {
        self.plans.get_or_init(|| algorithms::plan_all(self.algorithm, &self.view))
    }

    /// Passes sender, receiver and lane of every message; one that is sent several times perhaps several times.
    pub fn flows(&self, mut flow: impl FnMut(u32, u32, Lane)) {
        if let Some(cycles) = &self.cycles {
            for lane in 0..cycles.lanes() as Lane {
                let order = cycles.order(lane);
                let next = order.iter().cycle().skip(1);
                order.iter().zip(next).for_each(|(&from, &to)| flow(from, to, lane));
            }
            return;
        }
        for rank in 0..self.view.nranks {
            for step in &algorithms::plan(self.algorithm, &self.view.of(rank)).steps {
                step.to.iter().for_each(|&to| flow(rank, to, step.lane));
            }
        }
    }

    /// Returns the number of elements that can be priced, at most `count`.
    pub fn within_reach(&self, count: usize) -> usize {
        let within = |cycles| shortcuts::count_within_reach(cycles, count as u64).try_into().unwrap_or(count);
        self.cycles.as_ref().map_or(count, within)
    }

    /// Returns why a call of `block` cannot be followed message by message, if it cannot.
    pub fn too_many(&self, machine: &Views, places: &[u32], block: Block) -> Option<String> {
        let most = match &self.cycles {
            Some(cycles) => shortcuts::most_messages(cycles),
            None => algorithms::MOST_LISTED,
        };
        if self.messages <= most {
            return None;
        }
        if let Some(cycles) = &self.cycles {
            let Block { count, size } = block;
            let entry_ps = &vec![0; places.len()];
            let ask = Ask { cycles, places, count, size, slice_bytes: 0, entry_ps };
            if shortcuts::folds(machine.bare(), &ask).unwrap_or(true) {
                return None;
            }
        }
        let which = match &self.cycles {
            Some(_) => " of ranks that are not alike".to_owned(),
            None => format!(
                ", about {} s and {}",
                (self.messages.saturating_mul(EACH_NS) / 1_000_000_000).max(1),
                HumanBytes(self.messages.saturating_mul(EACH_BYTES))
            ),
        };
        Some(format!(
            "{} among {} ranks has {} messages{which}, and at most {most} are followed one by one",
            self.algorithm.name, self.view.nranks, self.messages
        ))
    }

    /// Checks that a call is not cut in more messages than can be followed by the slice that the machine or --slice says. No algorithm is left out for
    /// this: ranks would leave out none.
    pub fn check_slices(&self, machine: &Views, block: Block) -> Result<(), String> {
        let Slicing::Bytes(slice_bytes @ 1..) = machine.bare().slicing else { return Ok(()) };
        if self.cycles.is_some() {
            return Ok(());
        }
        let chunk_bytes = self.divisible(block).chunk_bytes;
        let messages = self.messages.saturating_mul(chunk_bytes.div_ceil(slice_bytes));
        if messages <= MOST_IN_SLICES {
            return Ok(());
        }
        Err(format!(
            "slices of {slice_bytes} bytes: {} among {} ranks has chunks of {chunk_bytes} bytes, {messages} messages in all, and at most {MOST_IN_SLICES} are \
             followed one by one; take larger slices (--slice), fewer ranks, or another algorithm",
            self.algorithm.name, self.view.nranks
        ))
    }

    /// Returns the call as the search for slices takes it.
    fn divisible(&self, Block { count, size }: Block) -> Divisible {
        match &self.cycles {
            Some(cycles) => Divisible::of_cycles(cycles, &self.view, count, size),
            None => {
                let parts = algorithms::parts(self.algorithm, &self.view);
                Divisible::counted(parts, self.messages, &self.view, count, size)
            }
        }
    }

    /// Returns the smallest slice by doubling this one with which a price follows at most `most` messages; 0 for whole chunks, if there is none.
    pub fn coarser(&self, block: Block, mut slice_bytes: u64, most: u64) -> u64 {
        let chunk_bytes = self.divisible(block).chunk_bytes;
        while (1..chunk_bytes).contains(&slice_bytes) && self.followed(block, slice_bytes) > most {
            slice_bytes = slice_bytes.saturating_mul(2);
        }
        if slice_bytes < chunk_bytes { slice_bytes } else { 0 }
    }

    /// Returns about how many messages a price with this slice follows.
    pub fn followed(&self, block: Block, slice_bytes: u64) -> u64 {
        // A single ring is priced round by round, several ones message by message.
        let is_swept = self.cycles.as_ref().is_some_and(|cycles| cycles.lanes() == 1);
        let messages = if is_swept { self.effort() } else { self.messages };
        let slices =
            if slice_bytes == 0 { 1 } else { self.divisible(block).chunk_bytes.div_ceil(slice_bytes) };
        messages.saturating_mul(slices.max(1))
    }

    /// Returns the least that the machine's library expects the call to take, if it chooses by that.
    pub fn expected_ps(&self, machine: &Views, block: Block) -> Option<u64> {
        tuning::expected_ps(machine.bare(), self.algorithm.name, self.divisible(block))
    }

    /// Tells whether no way to carry the call can be quicker than `least_ps`.
    pub fn is_slower(&self, machine: &Views, places: &[u32], block: Block, least_ps: u64) -> bool {
        let name = self.algorithm.name;
        if !machine.bare().chooses_by_price() {
            return false;
        }
        let call = CarriedCall::of_any_size(&self.view);
        let mut carriers = machine.bare().carriers(name, call).peekable();
        carriers.peek().is_some()
            && carriers.all(|view| {
                let protocol = view as u16;
                let network = machine.view(Tuning { protocol, slice_bytes: 0 });
                algorithms::least_ps(self.algorithm, &self.view, network) >= least_ps
                    || self.bound_ps(network, places, block) >= least_ps
            })
    }

    /// Returns what the call takes at least as the programs of the ranks of a node tell it; 0 where to ask takes as long as to price.
    fn bound_ps(&self, network: &Network, places: &[u32], block: Block) -> u64 {
        let nranks = self.view.nranks;
        if self.messages < FEW || self.messages / u64::from(nranks) > MOST_OF_ONE {
            return 0;
        }
        let write = |rank| algorithms::plan(self.algorithm, &self.view.of(rank));
        let call = self.call_of(&[], places, block, Tuning::default());
        let node = self.view.shape.per_node().min(nranks).min(8);
        bound::least_ps(network, &call, &write, 0..node)
    }

    /// Prices the call as it is over soonest, by the fastest exact method. `None`: no protocol of the machine carries the algorithm.
    pub fn price(
        &self,
        machine: &Views,
        places: &[u32],
        block: Block,
        wanted: Wanted,
    ) -> penny::Result<Option<Priced>> {
        let divisible = self.divisible(block);
        // What is priced once need not be followed past the time of another way, unless the choice is by another time than the price.
        let by_price = machine.bare().chooses_by_price();
        let limit_ps = match wanted {
            Wanted::Quicker(Some(least_ps))
                if by_price && divisible.has_one_price(machine.bare().slicing) =>
            {
                least_ps
            }
            _ => u64::MAX,
        };
        let price = |tuning| self.price_before(machine, places, block, tuning, limit_ps);
        let (network, name) = (machine.bare(), self.algorithm.name);
        let found = match wanted {
            Wanted::Named => tuning::quickest_of_any(network, name, divisible, price).map(Some),
            Wanted::Quicker(least_ps) => tuning::quickest(network, name, divisible, least_ps, price),
        };
        let found = found?.filter(|carriage| carriage.priced.0.last_ps() < u64::MAX);
        Ok(found.map(|Carriage { tuning, priced: (summary, used), expected_ps }| Priced {
            tuning,
            summary,
            used,
            expected_ps,
        }))
    }

    /// Prices the call as it is carried in one way.
    pub fn price_as(
        &self,
        machine: &Views,
        places: &[u32],
        block: Block,
        tuning: Tuning,
    ) -> penny::Result<(Summary, Used)> {
        self.price_before(machine, places, block, tuning, u64::MAX)
    }

    /// The same; a call that is not over before `limit_ps` may have a price without end. Faults and ports that serve in turns need the
    /// general engine.
    fn price_before(
        &self,
        machine: &Views,
        places: &[u32],
        block: Block,
        tuning: Tuning,
        limit_ps: u64,
    ) -> penny::Result<(Summary, Used)> {
        let network = machine.view(tuning);
        let entry_ps = &vec![network.launch_ps; places.len()];
        if let Some(cycles) = self.cycles.as_ref().filter(|_| network.faults.is_empty() && !network.fair) {
            let Block { count, size } = block;
            let ask = Ask { cycles, places, count, size, slice_bytes: tuning.slice_bytes, entry_ps };
            return shortcuts::price(network, &ask);
        }
        let used = Used::steps(places.len() as u32);
        if self.messages <= MOST_KEPT {
            let outcome = engine::price(network, &self.call(places, block, tuning), entry_ps)?;
            return Ok((outcome.into(), used));
        }
        let write = |rank| algorithms::plan(self.algorithm, &self.view.of(rank));
        let call = self.call_of(&[], places, block, tuning);
        let outcome = engine::price_written(network, &call, &write, entry_ps, limit_ps)?;
        let endless = || CallTimes { exit_ps: vec![u64::MAX; places.len()], counters: Vec::new(), events: 0 };
        Ok((outcome.unwrap_or_else(endless).into(), used))
    }

    /// Prices calls in succession that are carried as a single one is soonest over.
    pub fn in_succession(
        &self,
        machine: &Views,
        places: &[u32],
        block: Block,
        priced: Priced,
        times: u32,
    ) -> Result<Priced, String> {
        if self.messages.saturating_mul(times.into()) > MOST_IN_SUCCESSION {
            return Err(format!(
                "--iters {times}: each call has {} messages, which are followed one by one; give fewer calls, so that they have \
                 {MOST_IN_SUCCESSION} at most",
                self.messages
            ));
        }
        let network = machine.view(priced.tuning);
        let call = self.call(places, block, priced.tuning);
        let outcome = engine::price_in_succession(network, &call, network.launch_ps, times);
        let summary = outcome.map_err(|e| e.message.clone())?.into();
        Ok(Priced { summary, used: Used::steps(places.len() as u32), ..priced })
    }

    /// Returns the call as the engine takes it.
    pub fn call<'a>(&'a self, places: &'a [u32], block: Block, tuning: Tuning) -> PricedCall<'a> {
        self.call_of(self.plans(), places, block, tuning)
    }

    fn call_of<'a>(
        &'a self,
        plans: &'a [Plan],
        places: &'a [u32],
        block: Block,
        tuning: Tuning,
    ) -> PricedCall<'a> {
        let (Block { count, size }, slice_bytes) = (block, tuning.slice_bytes);
        PricedCall { plans, places, view: self.view.clone(), count, size, slice_bytes }
    }
}
