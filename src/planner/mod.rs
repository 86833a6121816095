//! From a request to a linked plan: the choice of the method, and a cache, because plans do not depend on the count.

pub mod options;
pub mod select;

use crate::algorithms;
use crate::error::{Error, Result};
use crate::plan::View;
use crate::plan::link::{Linked, link};
use crate::types::{Collective, Rank};
use select::{Selection, Why};
use std::sync::Arc;

/// Decides and remembers, for one rank of one communicator.
pub struct Planner {
    rank: Rank,
    nranks: u32,
    selection: Selection,
    plans: Vec<(Key, Arc<Linked>)>,
    choices: Vec<Choice>,
    one_shot: usize,
}

type Key = (Collective, Rank, usize);

/// A remembered decision.
struct Choice {
    collective: Collective,
    bytes: u64,
    method: usize,
    why: Why,
}

impl Planner {
    /// For a rank of a communicator.
    pub fn new(rank: Rank, nranks: u32, selection: Selection) -> Planner {
        Planner {
            rank,
            nranks,
            selection,
            plans: Vec::new(),
            choices: Vec::new(),
            one_shot: algorithms::index("one_shot"),
        }
    }

    /// The method for a call, by its index in the registry.
    #[inline]
    pub fn choose(&mut self, collective: Collective, root: Rank, bytes: u64) -> Result<(usize, Why)> {
        // The same call again, as in a training loop: the last choice is the first looked at.
        if let Some(c) = self.choices.iter().find(|c| c.collective == collective && c.bytes == bytes) {
            return Ok((c.method, c.why));
        }
        self.decide(collective, root, bytes)
    }

    #[cold]
    fn decide(&mut self, collective: Collective, root: Rank, bytes: u64) -> Result<(usize, Why)> {
        let view = View::flat(collective, self.rank, self.nranks, root);
        let (method, why) = self.selection.choose(&view, bytes)?;
        if self.choices.len() >= REMEMBERED {
            self.choices.pop();
        }
        self.choices.insert(0, Choice { collective, bytes, method, why });
        Ok((method, why))
    }

    /// This rank's linked program of a method.
    pub fn plan(&mut self, method: usize, collective: Collective, root: Rank) -> Result<Arc<Linked>> {
        let key = (collective, root, method);
        if let Some((_, plan)) = self.plans.iter().find(|(k, _)| *k == key) {
            return Ok(plan.clone());
        }
        let view = View::flat(collective, self.rank, self.nranks, root);
        let plans = algorithms::plan_all(algorithms::ALL[method], &view);
        let linked = Arc::new(link(&plans, &view).map_err(|e| {
            Error::internal(format!(
                "the plan of {} for {collective} is wrong: {e}",
                algorithms::ALL[method].name
            ))
        })?);
        self.plans.insert(0, (key, linked.clone()));
        Ok(linked)
    }

    /// The method that serves every call, whatever was asked for: what ranks tell each other for the library's own sake.
    pub fn plainest(&self) -> (usize, Why) {
        (self.one_shot, Why::Asked)
    }

    /// Is this the method that small messages can be exchanged by without a program?
    #[inline]
    pub fn is_one_shot(&self, method: usize) -> bool {
        method == self.one_shot
    }

    /// The method for calls whose buffers peers can reach, where it differs from the one for private buffers.
    pub fn shared_method(&self, collective: Collective, method: usize, why: Why) -> usize {
        if why == Why::Auto && collective == Collective::AllReduce {
            return algorithms::index("two_shot");
        }
        method
    }
}

/// Sizes for which the choice is remembered.
const REMEMBERED: usize = 32;
