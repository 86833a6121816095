//! A small collective like the one before it: the quickest way that there is.
//!
//! It is a way of its own from the interface to the result, so that the compiler sees nothing else beside it.

use super::collective::Call;
use super::exchange::Directly;
use crate::comm::communicator::CommCore;
use crate::error::Result;
use crate::exec::small::{Reached, SmallCall};
use crate::memory::view::Payload;
use crate::sync::wait::Neighbours;
use crate::transport::Scope;
use crate::transport::arrival::Said;
use crate::transport::waiting::Polls;
use crate::types::Collective;

impl CommCore {
    /// Runs a small collective like the last one; `None`: it is another, and nothing is done.
    #[inline(always)]
    pub(in crate::comm) fn small_again(&mut self, call: &Call<'_>) -> Option<Result<()>> {
        let (arrived, reached) = self.small(call, None, 0)?;
        Some(match reached {
            Ok(Reached::End { doubt }) => self.end_small(&arrived.said, doubt),
            other => {
                let ended = self.go_on_otherwise(call.collective, &arrived, other);
                self.tell_late_mismatch(ended)
            }
        })
    }

    /// Runs a small collective like the last one as far as it comes without waiting: its peers are polled once, and if they are late and run
    /// on other cores, `more` times. `None`: it is another, and nothing is done.
    #[inline(always)]
    pub(in crate::comm) fn small_polled<'a>(&mut self, call: &Call<'a>, more: usize) -> Option<Directly<'a>> {
        let (arrived, reached) = self.small(call, Some(0), more)?;
        match reached {
            Ok(Reached::End { doubt }) => Some(Directly::Over(self.end_small(&arrived.said, doubt))),
            _ => {
                let Arrived { said, buffers, in_place } = arrived;
                let scope = Scope::new(said.seq, said.mine, said.trail, Some(0));
                self.leave_arrived(call.collective, buffers, in_place, scope)
            }
        }
    }

    /// Runs a small collective like an earlier one in the same way.
    #[inline(never)]
    pub(in crate::comm) fn earlier_small_polled<'a>(
        &mut self,
        call: &Call<'a>,
        more: usize,
    ) -> Option<Directly<'a>> {
        if self.recall(call) { self.small_polled(call, more) } else { None }
    }

    /// Ends a small collective whose output is complete.
    #[inline(always)]
    fn end_small(&mut self, said: &Said, doubt: bool) -> Result<()> {
        let ended = self.end_call(said.seq, said.mine, doubt, Ok(()));
        self.tell_late_mismatch(ended)
    }

    /// Enters a small collective like the last one, and takes its peers' data if they have arrived. `polls`, `more`: how long it waits.
    #[inline(always)]
    fn small<'a>(
        &mut self,
        call: &Call<'a>,
        polls: Polls,
        more: usize,
    ) -> Option<(Arrived<'a>, Result<Reached>)> {
        self.repeat.as_ref()?.small.as_ref()?;
        let (buffers, in_place) = self.like_the_last(call)?;
        let CommCore { repeat, transport: t, peers, agreement, seq, .. } = self;
        let repeat = repeat.as_ref()?;
        let small = repeat.small.as_ref()?;
        let said = Said { seq: *seq + 1, mine: repeat.recipe.mine, trail: agreement.trail() };
        if !SmallCall::may_enter(t, said.seq, peers) {
            return None;
        }
        *seq = said.seq;
        let entered = small.enter(t, said, buffers[0], in_place);
        let job = || repeat.job(call.collective, buffers[0], buffers[1], in_place);
        let mut reached = small.take(t, &entered, polls, peers, buffers, job);
        // Peers that need this core come no sooner.
        if more > 0 && matches!(reached, Ok(Reached::Arrival { .. })) && !t.are_on_this_core() {
            // BOUND: `more` polls.
            for _ in 0..more {
                reached = small.take(t, &entered, polls, peers, buffers, job);
                if !matches!(reached, Ok(Reached::Arrival { .. })) {
                    break;
                }
            }
        }
        Some((Arrived { said, buffers, in_place }, reached))
    }

    /// Goes on with such a call after this rank's arrival, or ends one that has failed.
    #[cold]
    #[inline(never)]
    fn go_on_otherwise(
        &mut self,
        collective: Collective,
        &Arrived { said, buffers, in_place }: &Arrived<'_>,
        reached: Result<Reached>,
    ) -> Result<()> {
        let mut scope = Scope::new(said.seq, said.mine, said.trail, None);
        if let Ok(Reached::Arrival { deadline_ns }) = reached {
            scope.deadline_ns = deadline_ns;
        }
        match self.take_or_leave(collective, buffers, in_place, scope, reached.map(drop)) {
            Some(Directly::Over(ended)) => ended,
            Some(Directly::Left(mut exchange)) => exchange.go_on(self),
            None => Ok(()),
        }
    }
}

/// A small collective whose rank has arrived.
struct Arrived<'a> {
    said: Said,
    buffers: [Payload<'a>; 2],
    in_place: bool,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::comm::{self, registry};
    use crate::memory::view::Address;
    use crate::types::{DataType, RedOp};

    #[test]
    fn calls_in_which_all_wait_for_all_are_small_up_to_the_bytes_behind_a_line() {
        let comm = comm::init_all(1).unwrap()[0];
        let mut memory = [[0u8; 513]; 2];
        let [send, recv] = memory.each_mut().map(|bytes| Address::of_mut(bytes));
        for &collective in Collective::ALL {
            for count in [1, 512, 513] {
                let (dtype, op) = (DataType::Uint8, RedOp::Sum);
                let call = Call { collective, send, recv, count, dtype, op, root: 0, padded: false };
                let is_small = registry::enter(comm, |c| {
                    c.collective(&call)?;
                    Ok(c.repeat.as_ref().is_some_and(|repeat| repeat.small.is_some()))
                });
                let bytes = if collective == Collective::Barrier { 0 } else { count };
                assert_eq!(
                    is_small.unwrap(),
                    collective.everybody() && bytes <= 512,
                    "{collective} of {bytes}"
                );
            }
        }
        comm::destroy(comm).unwrap();
    }
}
