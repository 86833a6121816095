//! The slice with which a call is over soonest on a declared machine.
//!
//! ```text
//!     whole chunks   rank 0  [---- chunk ----]
//!                    rank 1                   [---- chunk ----]
//!     slices         rank 0  [-][-][-][-]                         a rank hands a slice on while the next one arrives,
//!                    rank 1     [-][-][-][-]                      but each slice costs a message of its own
//! ```
//!
//! Slices of a half, a quarter and so on of the largest chunk are priced, rounded up to powers of two, until two in a row were
//! no quicker. No slice makes a call quicker than its busiest port is: the search ends there.

use super::{CallTimes, shortcuts::Summary};
use crate::error::Result;
use crate::plan::cycles::Cycles;
use crate::plan::{Plan, RankView};
use crate::topology::{CarriedCall, Slicing};

/// Most slices into which a chunk is divided.
const MOST_SLICES: u64 = 128;
/// Fewest bytes of a slice.
const SMALLEST_SLICE: u64 = 4 << 10;
/// Calls with more messages than this are not priced: it would take seconds.
const MOST_MESSAGES: u64 = 1 << 20;
/// A call that takes at most this part more than its busiest port is not cut more finely.
const NEAR_BOUND: u64 = 128;
/// The search ends when this number of slices in a row were no quicker.
const IN_VAIN: u32 = 2;

/// A call as far as the search needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisible {
    /// Bytes of the largest chunk.
    pub chunk_bytes: u64,
    /// Messages of all ranks if chunks are not cut.
    pub messages: u64,
    /// What protocols need to know.
    pub carried: CarriedCall,
}

/// A price, as far as the search needs to know it.
pub trait PricedSlice {
    /// Returns when the last rank is done.
    fn last_ps(&self) -> u64;
    /// Returns how long the busiest port is taken.
    fn busiest_ps(&self) -> u64;
}

impl PricedSlice for CallTimes {
    fn last_ps(&self) -> u64 {
        self.exit_ps.iter().copied().max().unwrap_or(0)
    }
    fn busiest_ps(&self) -> u64 {
        self.counters.iter().map(|port| port.busy_ps).max().unwrap_or(0)
    }
}

impl<T> PricedSlice for (Summary, T) {
    fn last_ps(&self) -> u64 {
        self.0.last_ps()
    }
    fn busiest_ps(&self) -> u64 {
        self.0.busiest_ps()
    }
}

impl Divisible {
    /// Returns the call of these plans of a view with blocks of `count` elements of `size` bytes.
    pub fn of(plans: &[Plan], view: &RankView, count: u64, size: u64) -> Divisible {
        let parts = plans.first().map_or(1, |plan| plan.parts);
        let messages = plans.iter().flat_map(|plan| &plan.steps).map(|step| step.to.len() as u64).sum();
        Divisible::counted(parts, messages, view, count, size)
    }

    /// Returns the call of programs of `parts` parts and `messages` messages of a view, with blocks of `count` elements of `size` bytes.
    pub fn counted(parts: u32, messages: u64, view: &RankView, count: u64, size: u64) -> Divisible {
        let chunk_bytes = count.div_ceil(parts.max(1).into()).saturating_mul(size);
        Divisible { chunk_bytes, messages, carried: CarriedCall::of(view, count, size) }
    }

    /// Returns the call of these cycles of a view with blocks of `count` elements of `size` bytes.
    pub fn of_cycles(cycles: &Cycles, view: &RankView, count: u64, size: u64) -> Divisible {
        Divisible::counted(cycles.parts(), super::shortcuts::messages(cycles), view, count, size)
    }

    /// Returns a slice, or the next larger one by doubling with which the call has no more slices and messages than the search would give it.
    pub fn not_finer(self, mut slice_bytes: u64) -> u64 {
        let slices = |slice_bytes: u64| self.chunk_bytes.div_ceil(slice_bytes);
        let too_fine = |slices: u64| {
            slices > MOST_SLICES || slices > 1 && slices.saturating_mul(self.messages) > MOST_MESSAGES
        };
        while slice_bytes > 0 && too_fine(slices(slice_bytes)) {
            slice_bytes = slice_bytes.saturating_mul(2);
        }
        slice_bytes
    }

    /// Tells whether it is priced once, however long that price is.
    pub fn has_one_price(self, slicing: Slicing) -> bool {
        slicing != Slicing::Auto || self.slices().next().is_none()
    }

    /// Returns the slices that are tried, the largest first.
    fn slices(self) -> impl Iterator<Item = u64> {
        let Divisible { chunk_bytes, messages, .. } = self;
        let halves = (1..).map(|halvings| 1u64 << halvings).take_while(|&slices| slices <= MOST_SLICES);
        let mut before = u64::MAX;
        halves
            .map(move |slices| chunk_bytes.div_ceil(slices).next_power_of_two())
            .take_while(move |&slice| {
                slice >= SMALLEST_SLICE
                    && chunk_bytes.div_ceil(slice).saturating_mul(messages) <= MOST_MESSAGES
            })
            .filter(move |&slice| slice < chunk_bytes && std::mem::replace(&mut before, slice) != slice)
    }
}

/// Returns the largest slice in bytes with which a call is over soonest, 0 for whole chunks, and its price. `price` takes a slice.
///
/// `least_ps`: the time of another way to make the call. A call that cannot be quicker is priced once.
pub fn quickest<T: PricedSlice>(
    slicing: Slicing,
    call: Divisible,
    least_ps: Option<u64>,
    mut price: impl FnMut(u64) -> Result<T>,
) -> Result<(u64, T)> {
    if let Slicing::Bytes(bytes) = slicing {
        return Ok((bytes, price(bytes)?));
    }
    let mut best = (0, price(0)?);
    let bound_ps = best.1.busiest_ps();
    if least_ps.is_some_and(|least_ps| bound_ps >= least_ps) {
        return Ok(best);
    }
    let mut in_vain = 0;
    for slice_bytes in call.slices() {
        if in_vain == IN_VAIN || best.1.last_ps() <= bound_ps.saturating_add(bound_ps / NEAR_BOUND) {
            break;
        }
        let priced = price(slice_bytes)?;
        if priced.last_ps() < best.1.last_ps() {
            best = (slice_bytes, priced);
            in_vain = 0;
        } else {
            in_vain += 1;
        }
    }
    Ok(best)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::fabric::{PricedCall, engine};
    use crate::plan::RankView;
    use crate::topology;
    use crate::types::Collective;

    /// A price without a call.
    #[derive(Clone, Copy)]
    struct Price(u64, u64);

    impl PricedSlice for Price {
        fn last_ps(&self) -> u64 {
            self.0
        }
        fn busiest_ps(&self) -> u64 {
            self.1
        }
    }

    const CARRIED: CarriedCall =
        CarriedCall { collective: Collective::AllReduce, nranks: 4, nodes: 1, bytes: None };
    const CALL: Divisible = Divisible { chunk_bytes: 1 << 20, messages: 10, carried: CARRIED };

    /// Returns the chosen slice and the slices that were priced, by the time of each slice.
    fn search(least_ps: Option<u64>, time: impl Fn(u64) -> u64, busy: u64) -> (u64, Vec<u64>) {
        let mut asked = Vec::new();
        let price = |slice| {
            asked.push(slice);
            Ok(Price(time(slice), busy))
        };
        (quickest(Slicing::Auto, CALL, least_ps, price).unwrap().0, asked)
    }

    #[test]
    fn a_search_ends_when_two_slices_in_a_row_are_no_quicker() {
        let time = |slice: u64| if slice == 0 { 1 << 30 } else { slice.abs_diff(1 << 17) + 1000 };
        assert_eq!(search(None, time, 10), (1 << 17, vec![0, 1 << 19, 1 << 18, 1 << 17, 1 << 16, 1 << 15]));
    }

    #[test]
    fn a_search_ends_at_the_busiest_ports_time_and_where_another_way_is_quicker() {
        let time = |slice: u64| if slice == 0 { 2000 } else { 1005 };
        assert_eq!(search(None, time, 1000), (1 << 19, vec![0, 1 << 19]));
        assert_eq!(search(Some(1000), time, 1000), (0, vec![0]));
    }

    #[test]
    fn neither_small_chunks_nor_many_messages_are_cut() {
        let slices =
            |chunk_bytes, messages| Divisible { chunk_bytes, messages, carried: CARRIED }.slices().count();
        assert_eq!(slices(4 << 10, 1), 0);
        assert_eq!(slices(8 << 10, 1), 1);
        assert_eq!(slices(1 << 30, 1), 7);
        assert_eq!(slices(1 << 30, MOST_MESSAGES / 4), 2);
        assert_eq!(slices(1 << 30, MOST_MESSAGES), 0);
        assert_eq!(slices(0, 1), 0);
        let not_finer = |chunk_bytes, messages, slice| {
            Divisible { chunk_bytes, messages, carried: CARRIED }.not_finer(slice)
        };
        assert_eq!(not_finer(1 << 20, 1, 1 << 13), 1 << 13);
        assert_eq!(not_finer(1 << 20, 1, 1 << 12), 1 << 13);
        assert_eq!(not_finer(1 << 20, MOST_MESSAGES / 2, 1 << 13), 1 << 19);
        assert_eq!(not_finer(1 << 20, MOST_MESSAGES, 1 << 13), 1 << 20);
        assert_eq!(not_finer(1 << 20, 1, 0), 0, "whole chunks");
    }

    #[test]
    fn a_chain_of_sixteen_ranks_hands_slices_on() {
        let network = topology::open("dgx-h100:nodes=2").unwrap();
        let view = RankView::flat(Collective::Broadcast, 0, 16, 0);
        let plans = algorithms::plan_all(algorithms::find("simple_ring").unwrap(), &view);
        let (places, count) = (network.places(16).unwrap(), 16 << 20);
        let price = |slice_bytes| {
            let call = PricedCall {
                plans: &plans,
                places: &places,
                view: view.clone(),
                count,
                size: 4,
                slice_bytes,
            };
            engine::price(&network, &call, &[0; 16])
        };
        let whole = price(0).unwrap().last_ps();
        let call = Divisible::of(&plans, &view, count, 4);
        assert_eq!((call.chunk_bytes, call.messages, call.carried.bytes), (64 << 20, 15, Some(64 << 20)));
        let (slice, priced) = quickest(Slicing::Auto, call, None, price).unwrap();
        assert!(slice > 0 && priced.last_ps() < whole / 2, "{slice}: {} of {whole} ps", priced.last_ps());
    }
}
