//! Ports that serve packets in turns: 1 byte takes 1000 ps, a packet has 10 bytes.

use super::machines::{Wiring, machine, plain};
use super::*;
use crate::fabric::tuning::Tuning;
use crate::plan::Chunk;
use crate::topology::Class;
use proptest::prelude::*;
use std::sync::Arc;

fn fair(wiring: Wiring, places: u32, class: Class) -> Network {
    Network { fair: true, ..machine(wiring, places, vec![class]) }
}

/// Programs in which each (from, to) is a message of the same part.
fn messages(nranks: u32, all: &[(Rank, Rank)]) -> Vec<Plan> {
    let mut plans = vec![Plan::new(1); nranks as usize];
    for &(from, to) in all {
        plans[from as usize].send(to, Chunk::part(0));
        plans[to as usize].recv_copy(from, Chunk::part(0));
    }
    plans
}

fn packets() -> Class {
    Class { latency_ps: 50, mtu: 10, ..plain() }
}

#[test]
fn a_message_alone_takes_as_long_as_with_first_come_first_served() {
    let class = Class { gap_ps: 300, post_ps: 7, header: 2, ..packets() };
    for bytes in [0, 1, 10, 11, 95] {
        let plans = messages(4, &[(0, 3)]);
        let fifo = outcome(&machine(Wiring::Ring, 4, vec![class.clone()]), &plans, bytes, 0);
        let turns = outcome(&fair(Wiring::Ring, 4, class.clone()), &plans, bytes, 0);
        // A last packet that is smaller is there sooner: its head is not the first packet's.
        assert_eq!(turns.exit_ps[0], fifo.exit_ps[0], "{bytes}");
        assert!(turns.exit_ps[3] <= fifo.exit_ps[3] && turns.counters[0].bytes == bytes, "{bytes}");
        if bytes % 10 == 0 || bytes < 10 {
            assert_eq!((turns.exit_ps, turns.counters), (fifo.exit_ps, fifo.counters), "{bytes}");
        }
    }
}

#[test]
fn connections_take_turns_and_a_short_message_does_not_wait_for_a_long_one() {
    // Rank 0 sends 100 bytes, then rank 1 sends as much 5 ns later, to the same place.
    let plans = messages(3, &[(0, 2), (1, 2)]);
    let mut starts = Vec::new();
    let network = fair(Wiring::Switch, 3, packets());
    let call = call(&plans, 30, 0);
    price_traced(&network, &call, &[0, 5_000, 0], &mut |span| {
        if span.port == 5 {
            starts.push((span.place, span.start_ps, span.bytes));
        }
    })
    .unwrap();
    // Heads are there at 10 050, and 15 050; the other packets one after the other.
    let expected = [(0, 10_050), (1, 20_050), (0, 30_050), (1, 40_050), (0, 50_050), (1, 60_050)];
    assert_eq!(starts, expected.map(|(place, start)| (place, start, 10)));
}

proptest! {
    #[test]
    fn a_port_that_never_idles_is_done_at_one_time_whatever_the_order(
        offsets in prop::collection::vec(0..2_000u64, 4),
        bytes in 1..20u64,
    ) {
        let plans = messages(5, &[(0, 4), (1, 4), (2, 4), (3, 4)]);
        let class = Class { mtu: 1, latency_ps: 10, ..plain() };
        let entry: Vec<u64> = offsets.into_iter().chain([0]).collect();
        let call = call(&plans, 10 * bytes, 0);
        let fifo = price(&machine(Wiring::Switch, 5, vec![class.clone()]), &call, &entry).unwrap();
        let turns = price(&fair(Wiring::Switch, 5, class), &call, &entry).unwrap();
        prop_assert_eq!(fifo.exit_ps[4], turns.exit_ps[4], "the last finisher");
        for (a, b) in fifo.counters.iter().zip(&turns.counters) {
            prop_assert_eq!((a.bytes, a.messages, a.busy_ps), (b.bytes, b.messages, b.busy_ps));
        }
    }

    #[test]
    fn a_fair_world_says_the_same_however_it_is_cut(
        cuts in prop::collection::vec(0..200_000u64, 1..8),
        offsets in prop::collection::vec(0..3_000u64, 8),
        slice_bytes in 5..40u64,
    ) {
        let network = Arc::new(fair(Wiring::Nodes(2), 4, Class { gap_ps: 3, credits: 2, ..packets() }));
        let call = |name| SharedCall {
            plans: all_reduce(name, 4).into(),
            view: RankView::flat(Collective::AllReduce, 0, 4, 0),
            count: 100,
            size: 1,
            tuning: Tuning { protocol: 0, slice_bytes },
        };
        let calls = [call("ring"), call("two_shot")];
        let late: Vec<u64> = offsets[4..].iter().map(|offset| offset + 100_000).collect();
        let mut whole = World::new(network.clone());
        whole.admit(&calls[0], &PLACES[..4], &offsets[..4]).unwrap();
        whole.admit(&calls[1], &PLACES[..4], &late).unwrap();
        let expected: Vec<Finished> = std::iter::from_fn(|| whole.advance(u64::MAX).unwrap()).collect();
        prop_assert_eq!(expected.len(), 8);

        let mut world = World::new(network);
        world.admit(&calls[0], &PLACES[..4], &offsets[..4]).unwrap();
        let mut got = Vec::new();
        let mut now_ps = 0;
        for cut in cuts.into_iter().filter(|cut| *cut <= 100_000) {
            now_ps = cut.max(now_ps);
            got.extend(std::iter::from_fn(|| world.advance(now_ps).unwrap()));
        }
        world.admit(&calls[1], &PLACES[..4], &late).unwrap();
        got.extend(std::iter::from_fn(|| world.advance(u64::MAX).unwrap()));
        prop_assert_eq!(got, expected);
        prop_assert_eq!(world.ports(), whole.ports());
    }
}
