//! What the queue and the pricer keep.

use super::machines::{Wiring, machine, plain};
use super::*;
use crate::fabric::engine::queue::{Queue, TimedEvent};
use crate::fabric::pricer::{LazyPorts, Priced, Pricer};
use crate::fabric::tuning::Tuning;
use crate::topology::Class;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn shared(count: u64) -> SharedCall {
    SharedCall {
        plans: all_reduce("ring", 4).into(),
        view: RankView::flat(Collective::AllReduce, 0, 4, 0),
        count,
        size: 4,
        tuning: Tuning { protocol: 0, slice_bytes: 0 },
    }
}

/// The price of a call on ports that nothing passed yet.
fn fresh(pricer: &mut Pricer, network: &Network, call: &SharedCall, entry_ps: &[u64]) -> Priced {
    let mut ports = vec![PortState::default(); network.ports.len()];
    pricer.price(call, &PLACES[..4], entry_ps, &mut ports).unwrap()
}

fn ring(nranks: u32) -> Arc<Network> {
    Arc::new(machine(Wiring::Ring, nranks, vec![Class { latency_ps: 5, ..plain() }]))
}

#[test]
fn a_repeat_at_another_time_has_the_same_outcome_object() {
    let network = ring(4);
    let (mut pricer, call) = (Pricer::new(network.clone()), shared(100));
    let first = fresh(&mut pricer, &network, &call, &[0, 10, 20, 30]);
    let later = [1_000_000, 1_000_010, 1_000_020, 1_000_030];
    let again = fresh(&mut pricer, &network, &call, &later);
    assert!(Arc::ptr_eq(&first.outcome, &again.outcome));
    let new = price(&network, &call.call(&PLACES[..4]), &later).unwrap();
    assert_eq!((0..4).map(|r| again.exit_ps(r)).collect::<Vec<_>>(), new.exit_ps);
}

#[test]
fn another_entry_count_or_plan_is_priced_anew() {
    let network = ring(4);
    let mut pricer = Pricer::new(network.clone());
    for call in [shared(100), shared(200), SharedCall { size: 8, ..shared(100) }] {
        for late in (0..40).chain(0..40) {
            let entries = [0, late * 1000, 0, 0];
            let got = fresh(&mut pricer, &network, &call, &entries);
            assert_eq!(*got.outcome, price(&network, &call.call(&PLACES[..4]), &entries).unwrap());
        }
    }
}

#[test]
fn other_places_are_priced_anew() {
    let network = ring(9);
    let mut pricer = Pricer::new(network.clone());
    let call = shared(100);
    for places in [[0, 1, 2, 3], [0, 2, 1, 3], [0, 8, 7, 3], [4, 5, 6, 7], [0, 1, 2, 3]] {
        let mut ports = vec![PortState::default(); 9];
        let got = pricer.price(&call, &places, &[0; 4], &mut ports).unwrap();
        assert_eq!(*got.outcome, price(&network, &call.call(&places), &[0; 4]).unwrap(), "{places:?}");
        assert!(got.outcome.counters.iter().eq(ports.iter().map(|port| &port.counters)));
    }
}

#[test]
fn a_loop_of_equal_calls_is_asked_of_the_engine_only_at_first() {
    // Ports of different classes, so that ranks leave apart and find ports taken.
    let classes = vec![
        Class { latency_ps: 5_000, mtu: 16, ..plain() },
        Class { rate: 3_000_000_000, gap_ps: 777, mtu: 16, ..plain() },
        Class { rate: 2_000_000_000, post_ps: 90, ..plain() },
    ];
    let network = Arc::new(machine(Wiring::Switch, 4, classes));
    let (mut pricer, call) = (Pricer::new(network.clone()), shared(100));
    let mut world = World::new(network.clone());
    let mut ports = world.ports();
    let mut lazy_ports = LazyPorts::new(ports.clone());
    let (mut entry_ps, mut outcomes) = (vec![0, 3_000, 1_000, 0], Vec::new());
    for turn in 1..100 {
        let noted = pricer.price_onto(&call, &PLACES[..4], &entry_ps, &mut lazy_ports).unwrap();
        let priced = pricer.price(&call, &PLACES[..4], &entry_ps, &mut ports).unwrap();
        assert_eq!(noted, priced);
        if turn % 33 == 0 {
            assert_eq!(lazy_ports.ports(), ports);
        }
        world.admit(&call, &PLACES[..4], &entry_ps).unwrap();
        // Now and then everybody pauses, so that all ports are free.
        let pause_ps = if turn % 20 == 0 { 1_000_000_000 } else { 0 };
        let exit_ps: Vec<u64> = (0..4).map(|rank| priced.exit_ps(rank)).collect();
        entry_ps = exit_ps.iter().map(|at_ps| at_ps + pause_ps).collect();
        while let Some(finished) = world.advance(u64::MAX).unwrap() {
            assert_eq!(finished.exit_ps, exit_ps[finished.member as usize]);
        }
        assert_eq!(ports, world.ports());
        if !outcomes.iter().any(|known| Arc::ptr_eq(known, &priced.outcome)) {
            outcomes.push(priced.outcome);
        }
    }
    assert!(outcomes.len() <= 10, "{} different outcomes", outcomes.len());
}

#[test]
fn a_refused_call_is_refused_again_and_leaves_the_ports_alone() {
    let mut pricer = Pricer::new(ring(3));
    let before = vec![PortState { free_ps: 9, counters: PortCounters::default() }; 3];
    let mut ports = before.clone();
    let first = pricer.price(&shared(1), &PLACES[..4], &[0; 4], &mut ports).unwrap_err();
    assert_eq!(first.message, "there is no place 3 among the 3 of small; give it more nodes, or fewer ranks");
    assert_eq!(pricer.price(&shared(1), &PLACES[..4], &[0; 4], &mut ports).unwrap_err(), first);
    assert_eq!(ports, before);
    let late = pricer.price(&shared(1), &PLACES[..3], &[0; 3], &mut ports).unwrap_err();
    assert!(late.message.starts_with("4 programs, 3 places and 3 entries"), "{late}");
}

proptest! {
    #[test]
    fn the_queue_pops_what_a_sorted_set_would(pushes in prop::collection::vec((0..5u32, 0..40u32, 0..9u64, 0..3u32), 1..300)) {
        let (mut queue, mut model) = (Queue::new(), BTreeSet::new());
        let mut now_ps = 0;
        for (who, (pops, bit, order, call)) in (0..).zip(pushes) {
            // Now and then the present time, with an order below what was popped.
            let at_ps = now_ps + ((1u64 << bit) >> 3) * (order % 3);
            let event = TimedEvent { at_ps, call, order, who };
            queue.push(event);
            model.insert(event);
            for _ in 1..pops {
                // Perhaps too early: then the next one stays.
                let until_ps = now_ps + (1 << bit);
                let popped = queue.pop_before(until_ps);
                let first = model.first().copied().filter(|first| first.at_ps < until_ps);
                first.map(|first| model.remove(&first));
                prop_assert_eq!(popped, first);
                now_ps = popped.map_or(now_ps, |e| e.at_ps);
            }
        }
        while let Some(event) = model.pop_first() {
            prop_assert_eq!(queue.pop_before(u64::MAX), Some(event));
        }
        prop_assert_eq!(queue.pop_before(u64::MAX), None);
    }
}
