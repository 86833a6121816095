//! How a call is carried on a declared machine: the protocol and the slice with which it is over soonest.

use super::slicing::{self, Divisible, PricedSlice};
use crate::error::Result;
use crate::topology::{Network, Slicing};

/// A protocol and a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuning {
    /// The protocol, as an index among the network's [`views`](Network::views); 0: none.
    pub protocol: u16,
    /// The largest slice of a chunk in bytes; 0: chunks are not cut.
    pub slice_bytes: u64,
}

/// A way to carry a call, and its price.
#[derive(Clone, Debug)]
pub struct Carriage<T> {
    /// The protocol and the slice.
    pub tuning: Tuning,
    /// The price.
    pub priced: T,
    /// What the library that the machine's protocols are of expects the call to take: by this it chooses.
    pub expected_ps: u64,
}

/// Returns the protocol and the slice with which an algorithm's call is expected to be over soonest, and its price. `None`: no protocol of the
/// machine carries the algorithm, or the library expects none to be quicker than `least_ps`, which otherwise is as for `slicing::quickest`.
pub fn quickest<T: PricedSlice>(
    network: &Network,
    algorithm: &str,
    call: Divisible,
    mut least_ps: Option<u64>,
    mut price: impl FnMut(Tuning) -> Result<T>,
) -> Result<Option<Carriage<T>>> {
    let mut best: Option<Carriage<T>> = None;
    // The least expected time first: what the library expects to take longer is not priced.
    let expected = |view| (view, network.expected_ps(view, call.carried));
    let mut carriers: Vec<(usize, Option<u64>)> =
        network.carriers(algorithm, call.carried).map(expected).collect();
    carriers.sort_by_key(|(_, expected_ps)| expected_ps.unwrap_or(u64::MAX));
    for (view, expected_ps) in carriers {
        let protocol = view as u16;
        let by = |slice_bytes| price(Tuning { protocol, slice_bytes });
        // What the machine's file or its argument says of slices is stronger than what a protocol has.
        let slicing = match (network.slicing, network.protocol_slice(view, call.chunk_bytes)) {
            (Slicing::Auto, Some(bytes)) => Slicing::Bytes(call.not_finer(bytes)),
            (slicing, _) => slicing,
        };
        if expected_ps.is_some_and(|ps| least_ps.is_some_and(|least_ps| ps >= least_ps)) {
            continue;
        }
        // What another way is expected to take says nothing about prices.
        let known_ps = least_ps.filter(|_| network.chooses_by_price());
        let (slice_bytes, priced) = slicing::quickest(slicing, call, known_ps, by)?;
        let expected_ps = expected_ps.unwrap_or_else(|| priced.last_ps());
        if best.as_ref().is_none_or(|known| expected_ps < known.expected_ps) {
            least_ps = Some(least_ps.map_or(expected_ps, |least_ps| least_ps.min(expected_ps)));
            best = Some(Carriage { tuning: Tuning { protocol, slice_bytes }, priced, expected_ps });
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
) -> Result<Carriage<T>> {
    if let Some(found) = quickest(network, algorithm, call, None, &mut price)? {
        return Ok(found);
    }
    let by = |slice_bytes| price(Tuning { protocol: 0, slice_bytes });
    let (slice_bytes, priced) = slicing::quickest(network.slicing, call, None, by)?;
    let expected_ps = priced.last_ps();
    Ok(Carriage { tuning: Tuning { protocol: 0, slice_bytes }, priced, expected_ps })
}

/// Returns the least that the machine's library expects an algorithm's call to take. `None`: it has no formula for it, or chooses by the price.
pub fn expected_ps(network: &Network, algorithm: &str, call: Divisible) -> Option<u64> {
    network.carriers(algorithm, call.carried).filter_map(|view| network.expected_ps(view, call.carried)).min()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::topology;
    use crate::topology::CarriedCall;
    use crate::types::Collective;

    /// A price without a call.
    struct Price;

    impl PricedSlice for Price {
        fn last_ps(&self) -> u64 {
            1000
        }
        fn busiest_ps(&self) -> u64 {
            1000
        }
    }

    #[test]
    fn of_what_a_library_chooses_by_its_formula_one_way_is_priced() {
        let network = topology::open("dgx-h100:nodes=4,as=nccl").unwrap();
        for bytes in [8, 1 << 20, 1 << 30] {
            let carried =
                CarriedCall { collective: Collective::AllReduce, nranks: 32, nodes: 4, bytes: Some(bytes) };
            let call = Divisible { chunk_bytes: bytes.div_ceil(256), messages: 1 << 12, carried };
            let least = expected_ps(&network, "alternating_rings", call).unwrap();
            let mut priced = Vec::new();
            let found = quickest(&network, "alternating_rings", call, None, |tuning| {
                priced.push(tuning);
                Ok(Price)
            });
            let found = found.unwrap().unwrap();
            assert_eq!((found.expected_ps, priced), (least, vec![found.tuning]), "{bytes} bytes");
            let slower = quickest(&network, "alternating_rings", call, Some(least), |_| -> Result<Price> {
                panic!("{bytes} bytes are priced, though another way is as quick");
            });
            assert!(slower.unwrap().is_none());
        }
    }
}
