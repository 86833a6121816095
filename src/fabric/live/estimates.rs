//! What calls would take on the idle machine.

use super::runner::Runner;
use super::spec::CallSpec;
use crate::error::Result;
use crate::fabric::slicing::{Divisible, PricedSlice};
use crate::fabric::tuning::{self, Tuning};
use crate::fabric::world::World;
use crate::fabric::{SharedCall, engine};
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
        let divisible = Divisible::of(&shared.plans, shared.count, shared.size);
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
        Ok(found.map(|(tuning, times)| (tuning, times.last_ps())))
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
