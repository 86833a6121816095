//! From a request to a linked plan: the choice of the algorithm, and a cache, because plans do not depend on the count.

mod fastest;
pub mod options;
pub mod profile;
pub mod select;

pub use crate::algorithms::check_protocols;

use crate::algorithms;
use crate::error::{Error, Result};
use crate::fabric::tuning::Tuning;
use crate::log;
use crate::plan::link::Linked;
use crate::plan::{Arrangement, HostGroups, Plan, RankView};
use crate::types::{Collective, Rank};
use profile::HostProfile;
use select::{Selection, Why};
use std::sync::Arc;

/// Decides and remembers, for one rank of one communicator.
pub struct Planner {
    rank: Rank,
    nranks: u32,
    arrangement: Arrangement,
    selection: Selection,
    judge: Option<Judge>,
    plans: Vec<(Key, Arc<Linked>)>,
    choices: Vec<Choice>,
    /// The last new choice, where it is to be logged.
    news: Option<NewChoice>,
    one_shot: usize,
}

/// A function that returns how an algorithm's call is over soonest and its time, for a view, and for a block's elements and the bytes
/// of each. `None`: the machine does not carry the algorithm.
pub type Judge =
    Box<dyn Fn(&RankView, usize, [u64; 2], JudgeRequest) -> Result<Option<(Tuning, u64)>> + Send>;

/// What a [`Judge`] is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeRequest {
    /// The algorithm was asked for by name.
    Asked,
    /// It competes with another, which takes this time in picoseconds if there is one.
    Quicker(Option<u64>),
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The algorithm, by its index in the table.
    pub algorithm: usize,
    /// The reason.
    pub why: Why,
    /// How the declared machine carries it; the default if none is declared.
    pub tuning: Tuning,
}

/// A new choice, for logs.
pub struct NewChoice {
    /// The collective.
    pub collective: Collective,
    /// The whole vector.
    pub bytes: u64,
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// What made the choice, in words.
    pub by: &'static str,
}

type Key = (Collective, Rank, usize);

/// A remembered decision.
struct Choice {
    collective: Collective,
    bytes: u64,
    /// Root and block, on which a price depends.
    priced: Option<(Rank, [u64; 2])>,
    chosen: Chosen,
}

impl Planner {
    /// Makes the planner of a rank of a communicator.
    pub fn new(rank: Rank, nranks: u32, selection: Selection) -> Planner {
        Planner {
            rank,
            nranks,
            arrangement: Arrangement::flat(nranks),
            selection,
            judge: None,
            plans: Vec::new(),
            choices: Vec::new(),
            news: None,
            one_shot: algorithms::index("one_shot"),
        }
    }

    /// Ranks that stand on a declared machine: `auto` is what `judge` says is quickest there.
    pub fn on_machine(mut self, arrangement: Arrangement, judge: Judge) -> Planner {
        self.arrangement = arrangement;
        self.judge = Some(judge);
        self
    }

    /// Ranks of hosts that `host_of` tells by rank: those of one host have the same number.
    pub fn on_hosts(mut self, host_of: &[u32]) -> Planner {
        if let Some(hosts) = HostGroups::new(host_of) {
            self.arrangement = Arrangement::of_hosts(hosts);
        }
        self
    }

    /// How a call is made. `bytes` is the whole vector, `block` a block's elements and
    /// the bytes of each.
    #[inline]
    pub fn choose(
        &mut self,
        collective: Collective,
        root: Rank,
        bytes: u64,
        block: [u64; 2],
    ) -> Result<Chosen> {
        // The same call again, as in a training loop: the last choice is the first looked at.
        let priced = self.judge.is_some().then_some((root, block));
        let same = |c: &&Choice| c.collective == collective && c.bytes == bytes && c.priced == priced;
        if let Some(c) = self.choices.iter().find(same) {
            return Ok(c.chosen);
        }
        self.decide(collective, root, bytes, block)
    }

    #[cold]
    fn decide(&mut self, collective: Collective, root: Rank, bytes: u64, block: [u64; 2]) -> Result<Chosen> {
        let view = self.view(collective, root);
        let (mut algorithm, mut why) = self.selection.choose(&view, bytes)?;
        let mut tuning = Tuning::default();
        let mut by = why.name();
        if let Some(judge) = &self.judge {
            if why == Why::Auto && collective != Collective::Barrier {
                (algorithm, tuning) = self.quickest(judge, &view, bytes, block)?;
                by = "the declared machine's price";
            } else if collective != Collective::Barrier {
                tuning = judge(&view.of(0), algorithm, block, JudgeRequest::Asked)?.unwrap_or_default().0;
            }
            // Bytes move by the very algorithm that the machine's time is of.
            why = Why::Asked;
        }
        // All ranks choose alike, by the profile that rank 0 has told them.
        if (self.rank == 0 || why == Why::Profile) && log::tells_info() {
            self.news = Some(NewChoice { collective, bytes, algorithm: algorithms::ALL[algorithm].name, by });
        }
        let priced = self.judge.is_some().then_some((root, block));
        if self.choices.len() >= REMEMBERED {
            self.choices.pop();
        }
        let chosen = Chosen { algorithm, why, tuning };
        self.choices.insert(0, Choice { collective, bytes, priced, chosen });
        Ok(chosen)
    }

    /// Returns, once, the last choice that is new, where it is to be logged.
    #[inline]
    pub fn news(&mut self) -> Option<NewChoice> {
        self.news.take()
    }

    /// Tells whether a choice is new and was not told.
    pub fn has_news(&self) -> bool {
        self.news.is_some()
    }

    /// Returns the algorithm with the least time on the machine among those that can serve, and how it is carried; they are the
    /// same on all ranks.
    fn quickest(
        &self,
        judge: &Judge,
        view: &RankView,
        bytes: u64,
        block: [u64; 2],
    ) -> Result<(usize, Tuning)> {
        // A collective that no protocol carries goes over the bare machine, as one that was asked for by name.
        let carried = self.least(judge, view, bytes, block, JudgeRequest::Quicker)?;
        let best = match carried {
            None => self.least(judge, view, bytes, block, |_| JudgeRequest::Asked)?,
            best => best,
        };
        best.ok_or_else(|| Error::internal("an algorithm that serves was lost"))
    }

    fn least(
        &self,
        judge: &Judge,
        view: &RankView,
        bytes: u64,
        block: [u64; 2],
        request: impl Fn(Option<u64>) -> JudgeRequest,
    ) -> Result<Option<(usize, Tuning)>> {
        let mut best: Option<(u64, (usize, Tuning))> = None;
        let mut allowed: Vec<usize> = self.selection.allowed(view, bytes).collect();
        // Where every one has too many messages, all are priced nevertheless: some algorithm must be chosen.
        if allowed.iter().any(|&algorithm| algorithms::is_followed(algorithms::ALL[algorithm], view)) {
            allowed.retain(|&algorithm| algorithms::is_followed(algorithms::ALL[algorithm], view));
        }
        for algorithm in allowed {
            let least_ps = best.map(|(least_ps, _)| least_ps);
            let priced = judge(&view.of(0), algorithm, block, request(least_ps))?;
            if let Some((tuning, takes_ps)) = priced
                && least_ps.is_none_or(|least_ps| takes_ps < least_ps)
            {
                best = Some((takes_ps, (algorithm, tuning)));
            }
        }
        Ok(best.map(|(_, chosen)| chosen))
    }

    fn view(&self, collective: Collective, root: Rank) -> RankView {
        RankView::flat(collective, self.rank, self.nranks, root).arranged(self.arrangement.clone())
    }

    /// This rank's linked program of an algorithm.
    pub fn plan(&mut self, algorithm: usize, collective: Collective, root: Rank) -> Result<Arc<Linked>> {
        let key = (collective, root, algorithm);
        if let Some((_, plan)) = self.plans.iter().find(|(k, _)| *k == key) {
            return Ok(plan.clone());
        }
        let view = self.view(collective, root);
        let algorithm = algorithms::ALL[algorithm];
        let linked = Arc::new(algorithms::linked(algorithm, &view).map_err(|e| {
            Error::internal(format!("the plan of {} for {collective} is wrong: {e}", algorithm.name))
        })?);
        self.plans.insert(0, (key, linked.clone()));
        Ok(linked)
    }

    /// The algorithm that serves every call, whatever was asked for: what ranks tell each other for the library's own sake.
    pub fn plainest(&self) -> Chosen {
        Chosen { algorithm: self.one_shot, why: Why::Asked, tuning: Tuning::default() }
    }

    /// Tells whether this is the algorithm by which small messages can be exchanged without a program.
    #[inline]
    pub fn is_one_shot(&self, algorithm: usize) -> bool {
        algorithm == self.one_shot
    }

    /// Tells whether a pass over the buffers of all ranks does the same as this algorithm: it folds inputs in the order of the ranks, or copies and nobody has asked
    /// for it.
    #[inline]
    pub fn is_like_one_pass(&self, collective: Collective, algorithm: usize, why: Why) -> bool {
        match collective.reduces() {
            true => algorithms::ALL.get(algorithm).is_some_and(|algorithm| algorithm.rank_order),
            false => why != Why::Asked,
        }
    }

    /// The algorithm for calls whose buffers peers can reach, where it differs from the one for private buffers.
    pub fn shared_algorithm(&self, collective: Collective, algorithm: usize, why: Why) -> usize {
        if why != Why::Asked && self.is_one_shot(algorithm) && collective == Collective::AllReduce {
            return algorithms::index("two_shot");
        }
        algorithm
    }

    /// Returns the host profile by which it chooses, for planners of communicators that are made from this one.
    pub fn profile(&self) -> Option<Arc<HostProfile>> {
        self.selection.profile().cloned()
    }
}

/// Returns all ranks' programs of an algorithm, by its index in the table; fails if it cannot serve the view.
pub fn programs(index: u8, view: &RankView) -> Result<Vec<Plan>> {
    let algorithm = algorithms::ALL.get(index as usize).copied();
    let algorithm = algorithm.filter(|a| a.refuses(view).is_none()).ok_or_else(|| {
        Error::internal(format!(
            "algorithm {index} was posted for {}, which it cannot serve",
            view.collective
        ))
    })?;
    Ok(algorithms::plan_all(algorithm, view))
}

/// Returns the name of an algorithm, by its index in the table.
pub fn name_of(index: usize) -> &'static str {
    algorithms::ALL[index].name
}

/// Sizes for which the choice is remembered.
const REMEMBERED: usize = 32;
