//! Collectives on machines that are not there: declared machines, the plans of collectives, and the time that they take.
//!
//! A machine is a network of ports with bandwidth and latency, written in a few lines of TOML or taken from the
//! [presets](topology::presets). [`times`] prices a collective on it with every algorithm. No process is started and no
//! data moves.
//!
//! ```
//! use penny::sim::{self, topology};
//! use penny::{Collective, DataType};
//!
//! let machine = topology::open("dgx-h100:nodes=2")?;
//! let times = sim::times(&machine, Collective::AllReduce, 16, 1 << 20, DataType::Float32)?;
//! for time in &times {
//!     println!("{:20} {}", time.algorithm, topology::units::print_time(time.picoseconds));
//! }
//! assert!(times.is_sorted_by_key(|time| time.picoseconds));
//! # Ok::<(), penny::Error>(())
//! ```
//!
//! The modules below are the parts of which `penny plan`, `penny sim`, `penny topo`, `penny trace` and
//! `penny calibrate` are made:
//!
//! | module | contents |
//! |---|---|
//! | [`topology`] | declared machines: ports, routes, places, files, presets, units |
//! | [`algorithms`] | the algorithms, and the plans that they write |
//! | [`plan`] | a plan as data: its steps, the checker, text and JSON |
//! | [`fabric`] | the price of a plan on a machine, message by message, and its trace |
//! | [`ethernet`] | the protocol of one Ethernet link, packet by packet |

use crate::error::{Error, Result};
use crate::types::{Collective, DataType, Rank};

/// Declared machines: ports, what they cost, and the way between two places.
pub mod topology {
    pub use crate::topology::{
        CarriedCall, Class, Cluster, DeviceSpec, Distance, MachineSpec, MailboxSpec, Network, Port, PortId,
        Protocol, Routes, Slicing, TierLoad, Wiring, faults, loads, matrix, of_library, open, parse, presets,
        text_of, units,
    };
}

/// The algorithms: for each collective and rank, the steps that it makes.
pub mod algorithms {
    pub use crate::algorithms::{
        ALL, Algorithm, Cost, MOST_LISTED, candidates, check_protocols, cycles, find, is_carried,
        is_followed, least_ps, linked, messages, parts, plan, plan_all,
    };
}

/// One rank's plan, as data: steps over chunks, with the checker that proves it and the ways to print it.
pub mod plan {
    pub use crate::plan::cycles;
    pub use crate::plan::{
        Arrangement, Chunk, InSwitch, Lane, LinkCycle, Operand, Peers, Plan, RankView, RingOrders, Shape,
        Step,
    };

    /// The checker: proves that the plans of all ranks fit together and compute the collective.
    pub mod check {
        pub use crate::plan::check::{Cost, PlanFault, Proof, prove};
    }
    /// Plans as text and as JSON.
    pub mod render {
        pub use crate::plan::render::{json, linked, text};
    }
}

/// The price of plans on a machine, in whole picoseconds.
pub mod fabric {
    pub use crate::fabric::{CallTimes, PortCounters, PricedCall};

    /// What a call takes at least.
    pub mod bound {
        pub use crate::fabric::bound::least_ps;
    }
    /// One engine that serves every message at every port of its way.
    pub mod engine {
        pub use crate::fabric::engine::{
            price, price_in_succession, price_of_nothing, price_traced, price_written,
        };
    }
    /// The same prices for calls that are too large for lists of steps.
    pub mod shortcuts {
        pub use crate::fabric::shortcuts::{
            Ask, Means, Summary, Used, count_within_reach, folds, messages, most_messages, price,
        };
    }
    /// The protocol and the slice with which a call is over soonest.
    pub mod tuning {
        pub use crate::fabric::slicing::{Divisible, PricedSlice};
        pub use crate::fabric::tuning::{Carriage, Tuning, expected_ps, quickest, quickest_of_any};
    }
    /// Which port carries what when, for Perfetto and chrome://tracing.
    pub mod trace {
        pub use crate::fabric::trace::{Span, perfetto};
    }
}

/// The protocol on one Ethernet link between two accelerators, packet by packet.
pub mod ethernet {
    pub use crate::fabric::ethernet::channel::{Setup, SignalMode, Termination};
    pub use crate::fabric::ethernet::clockwork::{At, Clockwork, Taken};
    pub use crate::fabric::ethernet::end::Side;
    pub use crate::fabric::ethernet::measure::{
        Directions, one_way_ps, ring_ps, round_trip_ps, streamed, utilisation,
    };
    pub use crate::fabric::ethernet::parameters::Parameters;
    pub use crate::fabric::ethernet::program::{LinkChannel, MoverSetup, ProgramTimes, run as run_channels};
}

/// The time of a collective with one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The algorithm's name, as `PENNY_ALGO` takes it.
    pub algorithm: &'static str,
    /// Picoseconds until the last rank is done, if all ranks begin at once.
    pub picoseconds: u64,
}

/// Prices a collective of `ranks` ranks on a machine with every algorithm that can serve it, the fastest first. Among many ranks, algorithms
/// of more than two million messages are left out.
///
/// `count` is the number of elements of a block: for all-reduce, reduce and broadcast the whole buffer, for the other
/// collectives what one rank contributes or receives. The root of a rooted collective is rank 0.
///
/// # Errors
///
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument) if the machine has no places for `ranks` ranks.
pub fn times(
    machine: &topology::Network,
    collective: Collective,
    ranks: Rank,
    count: u64,
    datatype: DataType,
) -> Result<Vec<Time>> {
    if ranks == 0 {
        return Err(Error::argument("ranks is 0; at least one rank is needed"));
    }
    let places = machine.places(ranks)?;
    let view = plan::RankView::flat(collective, 0, ranks, 0).arranged(machine.arrangement(&places));
    algorithms::check_protocols(machine)?;
    let (views, is_carried) = (machine.views(), algorithms::is_carried(machine, &view));
    let mut times = Vec::new();
    let able = algorithms::candidates(collective).filter(|a| a.refuses(&view).is_none());
    for algorithm in able.filter(|a| algorithms::is_followed(a, &view)) {
        let plans = algorithms::plan_all(algorithm, &view);
        let size = datatype.size() as u64;
        let divisible = fabric::tuning::Divisible::of(&plans, &view, count, size);
        let price = |tuning: fabric::tuning::Tuning| {
            let (plans, places, view, slice_bytes) = (&plans, &places, view.clone(), tuning.slice_bytes);
            let call = fabric::PricedCall { plans, places, view, count, size, slice_bytes };
            let network = &views[tuning.protocol as usize];
            if count == 0 && collective != Collective::Barrier {
                return Ok(fabric::engine::price_of_nothing(network, ranks as usize));
            }
            fabric::engine::price(network, &call, &vec![network.launch_ps; ranks as usize])
        };
        let priced = match is_carried {
            true => fabric::tuning::quickest(machine, algorithm.name, divisible, None, price)?,
            false => Some(fabric::tuning::quickest_of_any(machine, algorithm.name, divisible, price)?),
        };
        let Some(carriage) = priced else { continue };
        let picoseconds = carriage.priced.exit_ps.iter().copied().max().unwrap_or(0);
        times.push(Time { algorithm: algorithm.name, picoseconds });
    }
    times.sort_by_key(|time| time.picoseconds);
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_that_can_serve_a_call_has_a_time() {
        let machine = topology::open("dgx-h100").unwrap();
        let times = times(&machine, Collective::AllReduce, 8, 1 << 10, DataType::Float32).unwrap();
        assert!(times.iter().any(|time| time.algorithm == "ring") && times.len() > 3, "{times:?}");
        assert!(times[0].picoseconds > 0);
    }

    #[test]
    fn ranks_that_do_not_stand_on_the_machine_are_refused() {
        let machine = topology::open("dgx-h100").unwrap();
        for ranks in [0, 9999] {
            assert!(times(&machine, Collective::AllReduce, ranks, 1, DataType::Float32).is_err());
        }
    }
}
