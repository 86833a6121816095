//! Disagreements in a communicator's earlier calls, which come to light in later ones.

use super::communicator::CommCore;
use crate::error::{Code, Error, Result};

impl CommCore {
    /// Keeps disagreements in earlier calls that have come up, until a call of the program reports them.
    #[cold]
    pub(super) fn keep_late_mismatch(&mut self, mismatch: Error) {
        self.late_mismatch = Some(match self.late_mismatch.take() {
            Some(earlier) => Error::usage(format!("{earlier}; and {mismatch}")),
            None => mismatch,
        });
    }

    /// Adds the kept disagreements, of which there are seldom any, to the outcome of a call of the program.
    #[inline(always)]
    pub(super) fn tell_late_mismatch(&mut self, ended: Result<()>) -> Result<()> {
        if self.late_mismatch.is_some() { self.report_late_mismatch(ended) } else { ended }
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
    ///
    /// Where another rank's end has broken the communicator, ranks have left their calls at different places: that is no disagreement.
    pub(super) fn report_last_mismatch(&mut self, ended: Result<()>) -> Result<()> {
        if self.shared.broken.get().is_some_and(|why| why.code == Code::RemoteError) {
            return ended;
        }
        // What another host's rank has told of its last call may be under way.
        self.transport.hear_far_arrivals(self.seq);
        if let Some(mismatch) = self.agreement.look_back(&self.transport, self.seq) {
            self.keep_late_mismatch(mismatch);
        }
        let Some(mismatch) = self.late_mismatch.take() else { return ended };
        let rank = self.rank();
        let also = ended.err().map_or(String::new(), |e| format!("; {e}"));
        Err(Error::usage(format!("{mismatch} (found when rank {rank} ended the communicator){also}")))
    }
}
