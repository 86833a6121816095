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

    /// Disagreements have come up.
    #[cold]
    pub(super) fn keep_news(&mut self, news: Error) {
        self.news = Some(match self.news.take() {
            Some(earlier) => Error::usage(format!("{earlier}; and {news}")),
            None => news,
        });
    }

    /// How a call of the program's ends that has to tell them.
    #[cold]
    pub(super) fn with_news(&mut self, ended: Result<()>) -> Result<()> {
        let (rank, Some(news)) = (self.rank(), self.news.take()) else { return ended };
        match ended {
            Ok(()) => Err(Error::usage(format!(
                "{news} (found after rank {rank} had left that call; the present call was carried out)"
            ))),
            Err(e) if e.code == Code::InvalidUsage => Err(Error::usage(format!(
                "{e}; and earlier, {news} (found after rank {rank} had left that call)"
            ))),
            // What ended the communicator comes first.
            Err(e) => {
                self.news = Some(news);
                Err(e)
            }
        }
    }

    /// The same where no call follows: what can be seen without waiting for a rank that has not made the last calls yet,
    /// which sees it in its turn.
    pub(super) fn last_news(&mut self, ended: Result<()>) -> Result<()> {
        if let Some(news) = self.agreement.look_back(&self.transport, self.seq) {
            self.keep_news(news);
        }
        let Some(news) = self.news.take() else { return ended };
        let rank = self.rank();
        let also = ended.err().map_or(String::new(), |e| format!("; {e}"));
        Err(Error::usage(format!("{news} (found when rank {rank} ended the communicator){also}")))
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
