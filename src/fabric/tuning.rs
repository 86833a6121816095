//! How a call is carried on a declared machine: the protocol and the slice with which it is over soonest.

use super::slicing::{self, Divisible, PricedSlice};
use crate::error::Result;
use crate::topology::Network;

/// A protocol and a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// The protocol, as an index among the network's [`views`](Network::views); 0: none.
    pub protocol: u8,
    /// The largest slice of a chunk in bytes; 0: chunks are not cut.
    pub slice_bytes: u64,
}

/// Returns the protocol and the slice with which an algorithm's call is over soonest, and its price. `None`: no protocol of the
/// machine carries the algorithm. `least_ps`: as for `slicing::quickest`.
pub fn quickest<T: PricedSlice>(
    network: &Network,
    algorithm: &str,
    call: Divisible,
    mut least_ps: Option<u64>,
    mut price: impl FnMut(Tuning) -> Result<T>,
) -> Result<Option<(Tuning, T)>> {
    let mut best: Option<(Tuning, T)> = None;
    for view in network.carriers(algorithm) {
        let protocol = view as u8;
        let by = |slice_bytes| price(Tuning { protocol, slice_bytes });
        let (slice_bytes, priced) = slicing::quickest(network.slicing, call, least_ps, by)?;
        if best.as_ref().is_none_or(|(_, known)| priced.last_ps() < known.last_ps()) {
            least_ps = Some(least_ps.map_or(priced.last_ps(), |least_ps| least_ps.min(priced.last_ps())));
            best = Some((Tuning { protocol, slice_bytes }, priced));
        }
    }
    Ok(best)
}

/// The same for an algorithm that is asked for by name: what no protocol carries is carried as on the bare machine.
pub fn quickest_of_any<T: PricedSlice>(
    network: &Network,
    algorithm: &str,
    call: Divisible,
    mut price: impl FnMut(Tuning) -> Result<T>,
) -> Result<(Tuning, T)> {
    if let Some(found) = quickest(network, algorithm, call, None, &mut price)? {
        return Ok(found);
    }
    let by = |slice_bytes| price(Tuning { protocol: 0, slice_bytes });
    let (slice_bytes, priced) = slicing::quickest(network.slicing, call, None, by)?;
    Ok((Tuning { protocol: 0, slice_bytes }, priced))
}
