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
        let mut coming = vec![End { peer: 0, index: 0, step: 0, id: 0 }; readers.len()];
        for (number, step) in (0..).zip(&self.steps) {
            for id in step.first_send..step.first_send + step.sends {
                let place = &mut places[readers[id as usize] as usize];
                coming[*place as usize] = End { peer: step.rank, index: step.index, step: number, id };
                *place += 1;
            }
        }
        let mut wanted = Vec::new();
        for rank in 0..nranks {
            wanted.clear();
            for step in &self.steps[self.ranks[rank] as usize..self.ranks[rank + 1] as usize] {
                wanted.extend((step.first_operand..step.first_operand + step.operands).map(|id| End {
                    peer: self.operands[id as usize].from,
                    index: step.index,
                    step: self.operands[id as usize].step,
                    id,
                }));
            }
            let coming = &mut coming[starts[rank] as usize..starts[rank + 1] as usize];
            // Stable, and nearly always sorted already.
            coming.sort_by_key(|end| (end.peer, end.index));
            wanted.sort_by_key(|end| (end.peer, end.index));
            self.pair(rank as Rank, coming, &wanted, subjects)?;
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
            self.sends[sent.id as usize].operand = taken.id;
            self.sends[sent.id as usize].summed = summed;
            self.operands[taken.id as usize].summed = summed;
            self.operands[taken.id as usize].send = sent.id;
        }
        Ok(())
    }
}
