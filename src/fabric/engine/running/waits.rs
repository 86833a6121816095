//! The report of a deadlock inside a call: which rank waits for which, when no message is under way.

use super::Running;
use crate::types::Rank;

impl Running {
    /// Two ranks that wait, and the ranks that they wait for.
    pub fn waits(&self) -> Vec<(Rank, Rank)> {
        let mut waits: Vec<(Rank, Rank)> = Vec::new();
        for (id, step) in (0..).zip(&self.program.steps) {
            if step.next == self.program.cut(step).slices || waits.iter().any(|&(rank, _)| rank == step.rank)
            {
                continue;
            }
            let arrivals = &self.program.operands[self.program.arrivals(id)];
            let Some(lacking) = arrivals.iter().find(|o| o.arrived <= step.next) else { continue };
            waits.push((step.rank, lacking.from));
            if waits.len() == 2 {
                break;
            }
        }
        waits
    }
}
