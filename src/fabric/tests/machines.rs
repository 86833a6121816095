//! Small machines with ways of their own.

use crate::plan::{Lane, Shape};
use crate::topology::{Class, Network, Port, PortId, Routes};
use crate::types::Rank;
use proptest::prelude::*;

/// How places are wired, and the ports that this makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Each place has a transmit (2r) and a receive port (2r + 1).
    Switch,
    /// Port r goes from place r to the next one.
    Ring,
    /// As `Switch`, with this many places a node, and per node and lane a NIC's transmit and receive port.
    Nodes(u32),
}

struct Ways {
    places: u32,
    wiring: Wiring,
}

const NICS: u32 = 2;

impl Routes for Ways {
    fn route(&self, from: Rank, to: Rank, lane: Lane, ports: &mut Vec<PortId>) -> Result<(), String> {
        let n = self.places;
        match self.wiring {
            _ if from == to => {}
            Wiring::Switch => ports.extend([2 * from, 2 * to + 1]),
            Wiring::Ring => ports.extend((0..(to + n - from) % n).map(|hop| (from + hop) % n)),
            Wiring::Nodes(a_node) if from / a_node == to / a_node => ports.extend([2 * from, 2 * to + 1]),
            Wiring::Nodes(a_node) => {
                let nic = |place: Rank| 2 * (n + place / a_node * NICS + lane as u32 % NICS);
                ports.extend([2 * from, nic(from), nic(to) + 1, 2 * to + 1]);
            }
        }
        Ok(())
    }

    fn switch(&self, place: Rank) -> Option<(u32, [PortId; 2])> {
        let ports = [2 * place, 2 * place + 1];
        match self.wiring {
            Wiring::Switch => Some((0, ports)),
            Wiring::Nodes(a_node) => Some((place / a_node, ports)),
            Wiring::Ring => None,
        }
    }
}

/// 1 byte a nanosecond, no other cost.
pub fn plain() -> Class {
    Class {
        name: "plain".into(),
        rate: 1_000_000_000,
        line_rate: 1_000_000_000,
        latency_ps: 0,
        post_ps: 0,
        gap_ps: 0,
        least_hold_ps: 0,
        mtu: 0,
        header: 0,
        lane_rate: 0,
        lane_piece: 0,
        store_and_forward: false,
        credits: 0,
        mover: None,
        in_switch: None,
    }
}

/// A class of few and small numbers, so that ties are many.
pub fn any_class() -> impl Strategy<Value = Class> {
    let rate = prop::sample::select(vec![1_000_000_000u64, 3_000_000_000, 500_000_000_000, u64::MAX]);
    let ps = || prop::sample::select(vec![0u64, 1, 1000, 1777]);
    let mtu = prop::sample::select(vec![0u64, 1, 16, 100]);
    let lane = prop::sample::select(vec![0u64, 0, 700_000_000, 2_000_000_000]);
    let piece = prop::sample::select(vec![0u64, 0, 3, 30]);
    let hold = prop::sample::select(vec![0u64, 0, 1500, 60_000]);
    // Half of the classes have no limit of messages under way.
    let credits = prop::sample::select(vec![0u32, 0, 0, 1, 2, 5]);
    (rate, ps(), ps(), ps(), mtu, 0..3u64, any::<bool>(), credits, (lane, piece, hold)).prop_map(
        |(
            rate,
            latency_ps,
            post_ps,
            gap_ps,
            mtu,
            header,
            store_and_forward,
            credits,
            (lane_rate, lane_piece, least_hold_ps),
        )| Class {
            line_rate: rate,
            name: "any".into(),
            rate,
            latency_ps,
            post_ps,
            gap_ps,
            least_hold_ps,
            mtu,
            header,
            lane_rate,
            lane_piece,
            store_and_forward,
            credits,
            mover: None,
            in_switch: None,
        },
    )
}

/// A machine whose ports take the classes in turn.
pub fn machine(wiring: Wiring, places: u32, classes: Vec<Class>) -> Network {
    let ports = match wiring {
        Wiring::Switch => 2 * places,
        Wiring::Ring => places,
        Wiring::Nodes(a_node) => 2 * (places + places.div_ceil(a_node) * NICS),
    };
    let port = |p: u32| Port { name: format!("p{p}"), class: p % classes.len() as u32 };
    Network {
        name: "small".into(),
        ports: std::sync::Arc::new((0..ports).map(port).collect()),
        classes,
        shape: Shape::flat(places),
        routes: std::sync::Arc::new(Ways { places, wiring }),
        faults: Vec::new(),
        placement: Vec::new(),
        fair: false,
        slicing: crate::topology::Slicing::Auto,
        launch_ps: 0,
        protocols: Vec::new(),
        mailbox: None,
        device: None,
    }
}
