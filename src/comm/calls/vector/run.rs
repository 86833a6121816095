//! Runs vector calls: to their end, or polled.

use super::arguments::{Moves, Vector};
use super::counts::Counts;
use crate::comm::agree::PolledAgreement;
use crate::comm::calls::collective::Call;
use crate::comm::calls::exchange::Exchange;
use crate::comm::calls::point_to_point::{self, PolledTransfers};
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::memory::view::{HoldsViews, Payload, WithWords};

impl CommCore {
    /// Runs a vector call from check to return.
    pub(in crate::comm) fn vector(&mut self, vector: &Vector<'_>) -> Result<()> {
        let ended = self.run_vector(vector);
        self.report_late_mismatch(ended)
    }

    fn run_vector(&mut self, vector: &Vector<'_>) -> Result<()> {
        self.usable()?;
        let rank = self.rank();
        let moves = vector.checked(rank, self.nranks())?;
        if let Some(counts) = vector.common() {
            self.agree(&Counts { vector, counts, rank }, Ok(()))?;
        }
        match moves {
            Moves::Transfers(transfers) => point_to_point::run(self, &transfers, true),
            Moves::Copied(sends, receives) => {
                let mut words = vector.copy_of_input();
                let sends = vector.sends_of(&sends, Payload::from(&mut words[..]));
                point_to_point::run_with(self, sends, &receives)
            }
            Moves::Calls(calls) => calls.iter().try_for_each(|call| self.collective(call)),
        }
    }
}

/// A vector call that is polled.
pub(in crate::comm) struct PolledVector {
    vector: Vector<'static>,
    stage: Stage,
}

enum Stage {
    /// The ranks tell each other their counts.
    Agreeing(Box<PolledAgreement>),
    Moving(PolledTransfers<'static>),
    Copied(Box<WithWords<PolledTransfers<'static>>>),
    /// The calls that are left, the next one last; and the one that is under way.
    Calling(Vec<Call<'static>>, Option<Box<Exchange<'static>>>),
}

impl HoldsViews for PolledTransfers<'static> {
    type During<'x> = PolledTransfers<'x>;
}

impl PolledVector {
    /// Begins a vector call.
    pub fn begin(c: &mut CommCore, vector: Vector<'static>) -> Result<PolledVector> {
        match PolledVector::first_stage(c, &vector) {
            Ok(stage) => Ok(PolledVector { vector, stage }),
            Err(error) => Err(c.report_late_mismatch(Err(error.clone())).err().unwrap_or(error)),
        }
    }

    fn first_stage(c: &mut CommCore, vector: &Vector<'static>) -> Result<Stage> {
        c.usable()?;
        let rank = c.rank();
        let moves = vector.checked(rank, c.nranks())?;
        match vector.common() {
            Some(counts) => c
                .begin_agreeing(&Counts { vector, counts, rank })
                .map(|polled| Stage::Agreeing(Box::new(polled))),
            None => PolledVector::moving(c, vector, moves),
        }
    }

    fn moving(c: &mut CommCore, vector: &Vector<'static>, moves: Moves<'static>) -> Result<Stage> {
        Ok(match moves {
            Moves::Transfers(transfers) => Stage::Moving(PolledTransfers::begin(c, transfers.iter(), true)?),
            Moves::Copied(sends, receives) => {
                let words = [vector.copy_of_input(), Vec::new()];
                let made = WithWords::new(words, |input, _| {
                    PolledTransfers::begin_with(c, vector.sends_of(&sends, input), &receives)
                });
                Stage::Copied(Box::new(made?))
            }
            Moves::Calls(mut calls) => {
                calls.reverse();
                Stage::Calling(calls, None)
            }
        })
    }

    /// Goes on as far as it can without waiting.
    pub fn poll(&mut self, c: &mut CommCore) -> Result<()> {
        let ended = self.advance(c);
        match &ended {
            Err(error) if error.is_pending() => ended,
            _ => c.report_late_mismatch(ended),
        }
    }

    fn advance(&mut self, c: &mut CommCore) -> Result<()> {
        if let (Stage::Agreeing(agreement), Some(counts)) = (&mut self.stage, self.vector.common()) {
            let (vector, rank) = (&self.vector, c.rank());
            c.poll_agreement(agreement, &Counts { vector, counts, rank })?;
            let moves = vector.checked(rank, c.nranks())?;
            self.stage = PolledVector::moving(c, vector, moves)?;
        }
        match &mut self.stage {
            Stage::Agreeing(_) => Err(Error::internal("a vector call did not go on")),
            Stage::Moving(transfers) => transfers.poll(c),
            Stage::Copied(transfers) => transfers.with(|transfers| transfers.poll(c)),
            Stage::Calling(left, under_way) => {
                // BOUND: the calls that are left.
                loop {
                    if let Some(exchange) = under_way {
                        c.poll_collective(exchange)?;
                        *under_way = None;
                    }
                    let Some(call) = left.pop() else { return Ok(()) };
                    *under_way = c.begin_collective(&call)?.map(Box::new);
                }
            }
        }
    }
}
