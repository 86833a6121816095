//! What the ranks of a communicator tell each other for the library's own sake.

use super::call::{Call, Checked};
use super::communicator::Communicator;
use crate::error::Result;
use crate::memory::view::{Address, View};
use crate::types::{Collective, DataType, RedOp};

impl Communicator {
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
            input: View::from(&mut own[..]),
            output: View::from(&mut all[..]),
            count: mine.len(),
            limit: usize::MAX,
            root: 0,
            in_place: false,
        };
        let method = self.planner.plainest();
        self.exchanging = true;
        let ended = self.untimed(|c| c.carry_out(&call, &checked, method));
        self.exchanging = false;
        ended.map(|()| all)
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
