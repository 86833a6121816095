//! Matches sends with arrivals: the k-th send of p to r is the k-th arrival from p that r takes.

use super::{Case, Checked, fault};
use crate::plan::Operand;
use crate::types::Rank;

/// One end of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageEnd {
    pub(super) rank: Rank,
    pub(super) step: usize,
}

/// Every message's two ends.
pub(super) struct Matching {
    /// For each rank and step, the senders of its arrivals, in the order of the operands; own input is left out.
    pub(super) senders: Vec<Vec<Vec<MessageEnd>>>,
}

impl Matching {
    pub(super) fn of(case: &Case<'_>) -> Checked<Matching> {
        let n = case.nranks() as usize;
        // sent[p * n + r]: the steps of p that send to r, in order.
        let mut sent = vec![Vec::new(); n * n];
        for (rank, plan) in case.ranks() {
            for (step, s) in plan.steps.iter().enumerate() {
                for &to in &s.to {
                    sent[rank as usize * n + to as usize].push(MessageEnd { rank, step });
                }
            }
        }
        let mut taken = vec![0; n * n];
        let mut senders = Vec::with_capacity(n);
        for (rank, plan) in case.ranks() {
            let mut steps = Vec::with_capacity(plan.steps.len());
            for (step, s) in plan.steps.iter().enumerate() {
                let mut ends = Vec::new();
                for &operand in &s.operands {
                    let Operand::From(from) = operand else { continue };
                    let pair = from as usize * n + rank as usize;
                    let Some(&end) = sent[pair].get(taken[pair]) else {
                        let what = format!("waits for a message from rank {from} that nobody sends");
                        return Err(fault(rank, step, s.chunk, what));
                    };
                    taken[pair] += 1;
                    let sender = case.step(from, end.step);
                    if sender.chunk != s.chunk || sender.lane != s.lane {
                        let what = format!(
                            "expects {} on lane {} from rank {from}, whose step {} sends {} on lane {}",
                            s.chunk, s.lane, end.step, sender.chunk, sender.lane
                        );
                        return Err(fault(rank, step, s.chunk, what));
                    }
                    ends.push(end);
                }
                steps.push(ends);
            }
            senders.push(steps);
        }
        for (pair, ends) in sent.iter().enumerate() {
            if let Some(&MessageEnd { rank, step }) = ends.get(taken[pair]) {
                let what = format!("sends a message that rank {} never takes", pair % n);
                return Err(fault(rank, step, case.step(rank, step).chunk, what));
            }
        }
        Ok(Matching { senders })
    }
}
