//! What calls would take on the idle machine.

use super::participant::Participant;
use super::runner::Runner;
use super::spec::CallSpec;
use crate::error::Result;
use crate::fabric::slicing::Divisible;
use crate::fabric::tuning::{self, Tuning};
use crate::fabric::world::World;
use crate::fabric::{SharedCall, engine};
use crate::plan::Arrangement;
use crate::types::Rank;

impl Runner {
    /// Returns how a collective is over soonest on the idle machine, and when its last member is done then: see
    /// [`Participant::quickest`](super::Participant::quickest).
    pub fn quickest(
        &mut self,
        spec: &CallSpec,
        name: &str,
        places: &[Rank],
        asked: bool,
        least_ps: Option<u64>,
    ) -> Result<Option<(Tuning, u64)>> {
        let shared = self.call(spec, places)?;
        let divisible = Divisible::of(&shared.plans, &shared.view, shared.count, shared.size);
        let (network, views) = (&self.network, &self.views);
        let price = |tuning: Tuning| {
            let view = &views[tuning.protocol as usize];
            let entry_ps = vec![view.launch_ps; places.len()];
            engine::price(view, &SharedCall { tuning, ..shared.clone() }.call(places), &entry_ps)
        };
        let found = match asked {
            true => Some(tuning::quickest_of_any(network, name, divisible, price)?),
            false => tuning::quickest(network, name, divisible, least_ps, price)?,
        };
        Ok(found.map(|carriage| (carriage.tuning, carriage.expected_ps)))
    }

    /// Returns the time at which the last member of calls that begin together would be done on the idle machine.
    pub fn estimate(&mut self, calls: &[(CallSpec, Vec<Rank>)]) -> Result<u64> {
        let mut world = World::new(self.network.clone());
        for (spec, places) in calls {
            let shared = self.call(spec, places)?;
            world.admit(&shared, places, &vec![self.launch_ps(spec); places.len()])?;
        }
        let mut last_ps = 0;
        // BOUND: one turn per member that finishes.
        while let Some(finished) = world.advance(u64::MAX)? {
            last_ps = last_ps.max(finished.exit_ps);
        }
        Ok(last_ps)
    }
}

impl Participant {
    /// Returns how a collective is over soonest on the idle machine, and the time of its last member then. `None`: no protocol carries
    /// its algorithm, which is called `name`. `asked`: it was asked for by name; otherwise one that cannot be quicker than `least_ps` is not looked at closely.
    pub fn quickest(
        &self,
        spec: &CallSpec,
        name: &str,
        places: &[Rank],
        asked: bool,
        least_ps: Option<u64>,
    ) -> Result<Option<(Tuning, u64)>> {
        self.runner.lock().quickest(spec, name, places, asked, least_ps)
    }

    /// Returns how ranks stand at these places, and their rings over the machine's links.
    pub fn arrangement(&self, places: &[Rank]) -> Arrangement {
        self.runner.lock().placed(places)
    }

    /// Computes the time of calls that begin together on the idle machine, until their last member is done. Each call
    /// comes with the places of its members.
    pub fn estimate(&self, calls: &[(CallSpec, Vec<Rank>)]) -> Result<u64> {
        self.runner.lock().estimate(calls)
    }
}
