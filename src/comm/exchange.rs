//! What the ranks of a communicator tell each other for the library's own sake, and what comes to light meanwhile.

use super::calls::collective::{Call, Checked};
use super::communicator::CommCore;
use crate::error::{Code, Error, Result};
use crate::memory::view::{Address, Payload};
use crate::types::{Collective, DataType, RedOp};

impl CommCore {
    /// Tell every rank the same number of words and hear every rank's, in rank order. An all-gather like any other: it
    /// counts as one of the communicator's calls, and disagreements in it are found. `PENNY_ALGO` has no say in it.
    pub(super) fn tell_all(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        self.usable()?;
        self.broken()?;
        let call = Call {
            collective: Collective::AllGather,
            send: Address::NULL,
            recv: Address::NULL,
            count: mine.len(),
            dtype: DataType::Uint64,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        let mut own = mine.to_vec();
        let mut all = vec![0; mine.len() * self.nranks() as usize];
        let checked = Checked {
            bytes: size_of_val(&all[..]) as u64,
            input: Payload::from(&mut own[..]),
            output: Payload::from(&mut all[..]),
            count: mine.len(),
            limit: usize::MAX,
            root: 0,
            in_place: false,
        };
        let algorithm = self.planner.plainest();
        self.untimed(|c| c.carry_out(&call, &checked, algorithm)).map(|()| all)
    }

    /// Keeps disagreements in earlier calls that have come up, until a call of the program reports them.
    #[cold]
    pub(super) fn keep_late_mismatch(&mut self, mismatch: Error) {
        self.late_mismatch = Some(match self.late_mismatch.take() {
            Some(earlier) => Error::usage(format!("{earlier}; and {mismatch}")),
            None => mismatch,
        });
    }

    /// Adds the kept disagreements to the outcome of a call of the program.
    #[cold]
    pub(super) fn report_late_mismatch(&mut self, ended: Result<()>) -> Result<()> {
        let (rank, Some(mismatch)) = (self.rank(), self.late_mismatch.take()) else { return ended };
        match ended {
            Ok(()) => Err(Error::usage(format!(
                "{mismatch} (found after rank {rank} had left that call; the present call was carried out)"
            ))),
            Err(e) if e.code == Code::InvalidUsage => Err(Error::usage(format!(
                "{e}; and earlier, {mismatch} (found after rank {rank} had left that call)"
            ))),
            // What ended the communicator comes first.
            Err(e) => {
                self.late_mismatch = Some(mismatch);
                Err(e)
            }
        }
    }

    /// Does the same where no call follows: reports what can be seen without waiting for a rank that has not made the
    /// last calls yet. That rank sees it in its turn.
    pub(super) fn report_last_mismatch(&mut self, ended: Result<()>) -> Result<()> {
        if let Some(mismatch) = self.agreement.look_back(&self.transport, self.seq) {
            self.keep_late_mismatch(mismatch);
        }
        let Some(mismatch) = self.late_mismatch.take() else { return ended };
        let rank = self.rank();
        let also = ended.err().map_or(String::new(), |e| format!("; {e}"));
        Err(Error::usage(format!("{mismatch} (found when rank {rank} ended the communicator){also}")))
    }

    /// Meet all ranks: the collective as a program calls it.
    pub(super) fn barrier(&mut self) -> Result<()> {
        self.collective(&Call {
            collective: Collective::Barrier,
            send: Address::NULL,
            recv: Address::NULL,
            count: 0,
            dtype: DataType::Uint8,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        })
    }
}
