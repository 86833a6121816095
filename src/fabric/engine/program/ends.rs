//! Which send is which operand of its reader.

use super::{Program, Subject};
use crate::error::{Error, Result};
use crate::types::Rank;

/// One end of a message before its other end is known.
#[derive(Clone, Copy)]
struct End {
    peer: Rank,
    /// Place of the step in its rank's program, and among all steps.
    index: u32,
    step: u32,
    /// Index of the send or the operand.
    id: u32,
}

impl End {
    /// Returns peer and place, as one number: this is quicker to compare.
    fn key(&self) -> u64 {
        u64::from(self.peer) << 32 | u64::from(self.index)
    }
}

impl Program {
    /// The k-th send of p to r becomes the k-th operand from p in r's program.
    pub(super) fn match_ends(&mut self, readers: &[Rank], subjects: &[Subject]) -> Result<()> {
        let nranks = self.ranks.len() - 1;
        // Sends by reader; a counting sort, since there may be millions.
        let mut starts = vec![0u32; nranks + 1];
        for &to in readers {
            starts[to as usize + 1] += 1;
        }
        for r in 0..nranks {
            starts[r + 1] += starts[r];
        }
        let mut places = starts.clone();
        // Each send's step and number, no more: this is when the tables take most memory.
        let mut sent = vec![(0u32, 0u32); readers.len()];
        for (number, step) in (0..).zip(&self.steps) {
            for id in step.first_send..step.first_send + step.sends {
                let place = &mut places[readers[id as usize] as usize];
                sent[*place as usize] = (number, id);
                *place += 1;
            }
        }
        let (mut coming, mut wanted) = (Vec::new(), Vec::new());
        for rank in 0..nranks {
            let sent = &sent[starts[rank] as usize..starts[rank + 1] as usize];
            coming.clear();
            coming.extend(sent.iter().map(|&(step, id)| End {
                peer: self.steps[step as usize].rank,
                index: self.indices[step as usize],
                step,
                id,
            }));
            wanted.clear();
            for step in &self.steps[self.ranks[rank] as usize..self.ranks[rank + 1] as usize] {
                wanted.extend((step.first_operand..step.first_operand + step.operands).map(|id| End {
                    peer: self.operands[id as usize].from,
                    index: self.indices[self.operands[id as usize].step as usize],
                    step: self.operands[id as usize].step,
                    id,
                }));
            }
            // Stable, and nearly always sorted already.
            coming.sort_by_key(End::key);
            wanted.sort_by_key(End::key);
            self.pair(rank as Rank, &coming, &wanted, subjects)?;
        }
        Ok(())
    }

    fn pair(&mut self, rank: Rank, coming: &[End], wanted: &[End], subjects: &[Subject]) -> Result<()> {
        for k in 0..coming.len().max(wanted.len()) {
            let (sent, taken) = match (coming.get(k), wanted.get(k)) {
                (Some(sent), Some(taken)) if sent.peer == taken.peer => (sent, taken),
                (Some(sent), taken) if taken.is_none_or(|taken| taken.peer > sent.peer) => {
                    return Err(Error::usage(format!(
                        "step {} of rank {} sends to rank {rank}, which does not take it",
                        sent.index, sent.peer
                    )));
                }
                (_, Some(taken)) => {
                    return Err(Error::usage(format!(
                        "step {} of rank {rank} takes what rank {} does not send",
                        taken.index, taken.peer
                    )));
                }
                (_, None) => unreachable!("k is below one of the lengths"),
            };
            let (ours, theirs) = (subjects[taken.step as usize], subjects[sent.step as usize]);
            let ((chunk, lane), (sends, on)) = (ours.about, theirs.about);
            if (chunk, lane) != (sends, on) {
                return Err(Error::usage(format!(
                    "step {} of rank {} sends {sends} on lane {on} where step {} of rank {rank} takes {chunk} on lane {lane}",
                    sent.index, sent.peer, taken.index
                )));
            }
            let several = self.steps[taken.step as usize].operands > 1;
            let summed = ours.in_switch && several && self.share_switch(sent.peer, rank);
            self.sends[sent.id as usize].operand = taken.id << 2 | u32::from(summed) << 1;
            self.operands[taken.id as usize].send = sent.id << 1 | u32::from(summed);
        }
        Ok(())
    }
}
