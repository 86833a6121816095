//! How a workload's calls are carried on a machine: by the algorithm, protocol and slice with which each is over soonest alone.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use penny::internals::fabric::SharedCall;
use penny::sim::algorithms;
use penny::sim::fabric::tuning::Tuning;
use penny::sim::plan::{Chunk, Plan, RankView};
use penny::sim::topology::Network;
use penny::{Collective, Rank};

use super::program::GroupCall;
use crate::candidates;
use crate::sim::{Block, Programs, Views, programs, quickest};

/// A call as it is carried.
pub struct Carried {
    /// What the engine takes.
    pub shared: SharedCall,
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// Picoseconds until the last rank is done, alone on the machine.
    pub alone_ps: u64,
    /// What the call takes before its first message.
    pub launch_ps: u64,
}

/// Chooses how calls are carried, and remembers it.
pub struct Carrier<'a> {
    network: &'a Network,
    views: Views,
    algorithms: &'a [String],
    programs: HashMap<RankView, Rc<[Candidate]>>,
    carried: HashMap<(GroupCall, Vec<Rank>), Rc<Carried>>,
}

struct Candidate {
    programs: Programs,
    shared: std::cell::OnceCell<Arc<[Plan]>>,
}

impl<'a> Carrier<'a> {
    /// A carrier that takes these algorithms where they can serve a call, and all others where none of them can.
    pub fn new(network: &'a Network, algorithms: &'a [String]) -> Result<Carrier<'a>, String> {
        for name in algorithms.iter().filter(|name| !["auto", "all"].contains(&name.as_str())) {
            if algorithms::find(name).is_none() {
                let known: Vec<_> = algorithms::ALL.iter().map(|algorithm| algorithm.name).collect();
                return Err(format!("--algorithm {name}: no such algorithm; there are {}", known.join(", ")));
            }
        }
        let views = Views::of(network);
        Ok(Carrier { network, views, algorithms, programs: HashMap::new(), carried: HashMap::new() })
    }

    /// Returns how a collective of ranks at these places is carried.
    pub fn collective(&mut self, call: GroupCall, places: &[Rank]) -> Result<Rc<Carried>, String> {
        let key = (call, places.to_vec());
        if let Some(known) = self.carried.get(&key) {
            return Ok(known.clone());
        }
        let carried = Rc::new(self.choose(call, places)?);
        self.carried.insert(key, carried.clone());
        Ok(carried)
    }

    /// Returns how a message is carried: whole, by no protocol, as between ranks that run.
    pub fn message(&self, bytes: u64) -> Carried {
        let (mut sender, mut receiver) = (Plan::new(1), Plan::new(1));
        sender.send(1, Chunk::part(0));
        receiver.recv_copy(0, Chunk::part(0));
        let shared = SharedCall {
            plans: Arc::from(vec![sender, receiver]),
            view: RankView::flat(Collective::Broadcast, 0, 2, 0),
            count: bytes,
            size: 1,
            tuning: Tuning::default(),
        };
        Carried { shared, algorithm: "send", alone_ps: 0, launch_ps: self.network.launch_ps }
    }

    fn choose(&mut self, call: GroupCall, places: &[Rank]) -> Result<Carried, String> {
        let nranks = places.len() as u32;
        // A barrier is a reduction of nothing, as on ranks that run.
        let collective = match call.collective {
            Collective::Barrier => Collective::AllReduce,
            collective => collective,
        };
        let view =
            RankView::flat(collective, 0, nranks, call.root).arranged(self.network.arrangement(places));
        let candidates = self.candidates(&view)?;
        // As `penny sim` has it by default: elements of 4 bytes, where the block divides into them.
        let size = if call.block.is_multiple_of(4) { 4 } else { 1 };
        let block = Block { count: call.block / size, size };
        let is_named = quickest::named(self.network, &view, self.algorithms);
        let all = candidates.iter().map(|candidate| &candidate.programs);
        let Some((index, priced)) = quickest::quickest(all, &self.views, places, is_named, |_| block)? else {
            return Err(format!(
                "no algorithm carries {} among {nranks} ranks on {}",
                call.words(),
                self.network.name
            ));
        };
        let Candidate { programs, shared } = &candidates[index];
        let (tuning, alone_ps) = (priced.tuning, priced.summary.last_ps());
        let plans = shared.get_or_init(|| programs.plans().into()).clone();
        Ok(Carried {
            shared: SharedCall { plans, view, count: block.count, size: block.size, tuning },
            algorithm: programs.algorithm.name,
            alone_ps,
            launch_ps: self.views.view(tuning).launch_ps,
        })
    }

    fn candidates(&mut self, view: &RankView) -> Result<Rc<[Candidate]>, String> {
        if let Some(known) = self.programs.get(view) {
            return Ok(known.clone());
        }
        let able = candidates::able(view)?;
        let named = able.iter().map(|algorithm| algorithm.name.to_owned());
        let named: Vec<String> = named.filter(|name| self.algorithms.contains(name)).collect();
        let names = if named.is_empty() { vec!["auto".to_owned()] } else { named };
        let made = programs(&names, view)?.into_iter();
        let made: Rc<[Candidate]> =
            made.map(|programs| Candidate { programs, shared: Default::default() }).collect();
        self.programs.insert(view.clone(), made.clone());
        Ok(made)
    }
}
