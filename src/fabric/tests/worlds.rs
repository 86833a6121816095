//! Several calls under way in one network.

use super::machines::{Wiring, any_class, machine, plain};
use super::*;
use crate::fabric::pricer::Pricer;
use crate::fabric::trace::Span;
use crate::fabric::tuning::Tuning;
use crate::topology::Class;
use proptest::prelude::*;
use std::sync::Arc;

fn shared(name: &str, nranks: u32, count: u64) -> SharedCall {
    SharedCall {
        plans: all_reduce(name, nranks).into(),
        view: RankView::flat(Collective::AllReduce, 0, nranks, 0),
        count,
        size: 1,
        tuning: Tuning { protocol: 0, slice_bytes: 16 },
    }
}

/// All that happens.
fn finish(world: &mut World) -> Vec<Finished> {
    std::iter::from_fn(|| world.advance(u64::MAX).unwrap()).collect()
}

fn wire() -> Class {
    Class { latency_ps: 50, mtu: 10, ..plain() }
}

#[test]
fn two_calls_that_share_ports_take_longer_than_one() {
    let network = Arc::new(machine(Wiring::Ring, 4, vec![wire()]));
    let call = shared("ring", 4, 400);
    let mut world = World::new(network.clone());
    world.admit(&call, &PLACES[..4], &[0; 4]).unwrap();
    let alone = finish(&mut world).iter().map(|f| f.exit_ps).max().unwrap();
    let mut world = World::new(network);
    let ids = [0, 1].map(|_| world.admit(&call, &PLACES[..4], &[0; 4]).unwrap());
    let both = finish(&mut world);
    let end = |call| both.iter().filter(|f| f.call == call).map(|f| f.exit_ps).max().unwrap();
    assert_eq!((ids, both.len()), ([0, 1], 8));
    // The ports never idle: a byte takes 1000 ps, and each port carries six chunks of 100 bytes a call.
    assert!(end(0) > alone && end(1) >= 1_200_000 && end(1) < 2 * alone + 1_000, "{} {}", end(0), end(1));
}

#[test]
fn calls_at_different_places_do_not_meet() {
    let network = Arc::new(machine(Wiring::Switch, 8, vec![wire()]));
    let call = shared("ring", 4, 400);
    let exits = |places: [&[Rank]; 2]| {
        let mut world = World::new(network.clone());
        for places in places {
            world.admit(&call, places, &[0; 4]).unwrap();
        }
        let mut all = finish(&mut world);
        all.sort_unstable_by_key(|f| (f.call, f.member));
        all.iter().map(|f| f.exit_ps).collect::<Vec<_>>()
    };
    let apart = exits([&[0, 1, 2, 3], &[7, 4, 6, 5]]);
    assert_eq!(apart[..4], apart[4..]);
    assert_eq!(apart[..4], price(&network, &call.call(&PLACES[..4]), &[0; 4]).unwrap().exit_ps);
    assert_ne!(exits([&[0, 1, 2, 3], &[0, 1, 2, 3]]), apart);
}

#[test]
fn of_two_that_come_at_once_the_call_admitted_first_is_served_first() {
    let network = Arc::new(machine(Wiring::Switch, 3, vec![plain()]));
    let mut world = World::new(network);
    let mut plans = vec![Plan::new(1); 2];
    plans[0].send(1, crate::plan::Chunk::part(0));
    plans[1].recv_copy(0, crate::plan::Chunk::part(0));
    let call = SharedCall { plans: plans.into(), ..shared("ring", 2, 10) };
    // Both end at place 2. The later call has the lower place.
    world.admit(&call, &[1, 2], &[0, 0]).unwrap();
    world.admit(&call, &[0, 2], &[0, 0]).unwrap();
    let exit = |all: &[Finished], call| all.iter().find(|f| (f.call, f.member) == (call, 1)).unwrap().exit_ps;
    let all = finish(&mut world);
    assert_eq!((exit(&all, 0), exit(&all, 1)), (20_000, 30_000));
}

#[test]
fn a_member_is_reported_once_as_soon_as_its_exit_is_known() {
    let network = Arc::new(machine(Wiring::Ring, 2, vec![wire()]));
    let mut world = World::new(network);
    let mut plans = vec![Plan::new(1); 2];
    plans[0].send(1, crate::plan::Chunk::part(0));
    plans[1].recv_copy(0, crate::plan::Chunk::part(0));
    let call = SharedCall { plans: plans.into(), ..shared("ring", 2, 10) };
    world.admit(&call, &[0, 1], &[7, 0]).unwrap();
    assert_eq!(world.advance(7).unwrap(), None, "only the receiver entered");
    let sent = world.advance(8).unwrap();
    assert_eq!(sent, Some(Finished { call: 0, member: 0, exit_ps: 10_007 }), "known when the head sets out");
    assert_eq!(world.advance(10_057).unwrap(), None);
    assert!(!world.idle());
    let taken = world.advance(10_058).unwrap();
    assert_eq!(taken, Some(Finished { call: 0, member: 1, exit_ps: 10_057 }));
    assert!(world.idle());
    assert_eq!(world.advance(u64::MAX).unwrap(), None);
}

#[test]
fn who_has_nothing_to_do_is_done_on_entry() {
    let network = Arc::new(machine(Wiring::Ring, 3, vec![wire()]));
    let mut world = World::new(network);
    let call = SharedCall { plans: vec![Plan::new(1); 3].into(), ..shared("ring", 3, 10) };
    world.admit(&call, &PLACES[..3], &[30, 10, 20]).unwrap();
    let order: Vec<_> = finish(&mut world).iter().map(|f| (f.member, f.exit_ps)).collect();
    assert_eq!(order, [(1, 10), (2, 20), (0, 30)]);
}

#[test]
fn an_entry_before_the_latest_event_is_moved_up_to_it_and_an_idle_world_takes_earlier_ones() {
    let network = Arc::new(machine(Wiring::Ring, 2, vec![wire()]));
    let (call, late) = (shared("ring", 2, 32), [5_000, 0]);
    let run = |early: &[u64], cut_ps: u64| {
        let mut world = World::new(network.clone());
        world.admit(&call, &PLACES[..2], &late).unwrap();
        assert_eq!(world.advance(cut_ps).unwrap(), None);
        let boundary_ps = world.boundary_ps();
        world.admit(&call, &PLACES[..2], early).unwrap();
        (boundary_ps, finish(&mut world), world.ports())
    };
    let (boundary_ps, moved, ports) = run(&[0, 1], 6_000);
    assert_eq!(boundary_ps, 5_000);
    assert_eq!(run(&[5_000, 5_000], 1), (0, moved, ports));

    let mut world = World::new(network.clone());
    world.admit(&call, &PLACES[..2], &late).unwrap();
    finish(&mut world);
    let free_ps = world.ports()[0].free_ps;
    world.admit(&call, &PLACES[..2], &[0, 0]).unwrap();
    let mut first = u64::MAX;
    while world.advance_traced(u64::MAX, &mut |span| first = first.min(span.start_ps)).unwrap().is_some() {}
    assert_eq!(first, free_ps, "the ports are taken until then");
}

#[test]
fn a_refused_call_changes_nothing() {
    let network = Arc::new(machine(Wiring::Ring, 3, vec![wire()]));
    let mut world = World::new(network.clone());
    let call = shared("ring", 3, 30);
    world.admit(&call, &PLACES[..3], &[0; 3]).unwrap();
    assert!(world.admit(&call, &[0, 1, 3], &[0; 3]).is_err());
    assert!(world.admit(&call, &[0, 1, 1], &[0; 3]).is_err(), "no way from a place to itself");
    assert_eq!(world.admit(&call, &PLACES[..3], &[0; 3]).unwrap(), 1);
    assert_eq!(finish(&mut world).len(), 6);
}

#[test]
fn calls_that_can_never_end_are_a_deadlock_that_names_two() {
    let network = Arc::new(machine(Wiring::Ring, 3, vec![plain()]));
    let mut plans = vec![Plan::new(1); 3];
    for rank in 0..3 {
        let part = crate::plan::Chunk::part(0);
        plans[rank as usize].recv_copy_send((rank + 2) % 3, part, (rank + 1) % 3);
    }
    let stuck = SharedCall { plans: plans.into(), ..shared("ring", 3, 8) };
    let mut world = World::new(network);
    world.admit(&stuck, &PLACES[..3], &[0; 3]).unwrap();
    world.admit(&shared("ring", 3, 8), &PLACES[..3], &[50; 3]).unwrap();
    assert_eq!((world.advance(50).unwrap(), world.deadlock()), (None, None), "the other call is under way");
    let good: Vec<_> = (0..3).map(|_| world.advance(u64::MAX).unwrap().unwrap().call).collect();
    assert_eq!(good, [1; 3]);
    let error = world.advance(u64::MAX).unwrap_err();
    let expected = "deadlock: rank 0 waits for rank 2, rank 1 waits for rank 0, and nothing is under way";
    assert_eq!((error.message.as_str(), world.idle()), (expected, false));
}

#[test]
fn tables_are_freed_with_the_last_member_of_a_call() {
    let network = Arc::new(machine(Wiring::Ring, 2, vec![wire()]));
    let (call, mut world) = (shared("ring", 2, 1), World::new(network));
    let (mut at_ps, mut most) = (0, 0);
    for id in 0..100_000 {
        // Always one call under way, so that the world never begins anew.
        assert_eq!(world.admit(&call, &PLACES[..2], &[at_ps; 2]).unwrap(), id);
        most = most.max(world.under_way());
        while let Some(finished) = world.advance(at_ps + 1).unwrap() {
            assert!(finished.call <= id);
        }
        at_ps += 2_000;
    }
    finish(&mut world);
    assert!(world.idle() && world.under_way() == 0 && most <= 4, "{most}");
}

/// One call of a random few: algorithm, places, bytes, and entries after the one before.
type Wish = (usize, Vec<Rank>, u64, u64, Vec<u64>);

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let places = (2..=6usize).prop_flat_map(|n| {
        Just((0..6).collect::<Vec<Rank>>()).prop_shuffle().prop_map(move |all| all[..n].to_vec())
    });
    let few = || prop::sample::select(vec![0u64, 0, 1000, 54_321]);
    let wish = (0..4usize, places, 0..100u64, few(), prop::collection::vec(few(), 6));
    prop::collection::vec(wish, 1..6)
}

const ALGORITHMS: [&str; 4] = ["ring", "two_shot", "ring_pair", "simple_ring"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn however_it_is_cut_a_world_says_what_the_naive_engine_says(
        wiring in prop::sample::select(vec![Wiring::Switch, Wiring::Ring, Wiring::Nodes(2)]),
        classes in prop::collection::vec(any_class(), 1..4),
        wishes in wishes(),
        cuts in prop::collection::vec(0..30_000u64, 0..12),
    ) {
        let network = Arc::new(machine(wiring, 6, classes));
        let mut world = World::new(network.clone());
        let (mut calls, mut entries, mut exits, mut spans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut now_ps, mut last_ps, mut cuts) = (0, 0, cuts.into_iter());
        let mut take = |world: &mut World, until_ps, exits: &mut Vec<Vec<Option<u64>>>, last_ps: &mut u64| {
            while let Some(Finished { call, member, exit_ps }) =
                world.advance_traced(until_ps, &mut |span| spans.push(span)).unwrap()
            {
                // Where the world is idle by now, nothing happened after the last exit.
                let handled_ps = if world.idle() { exit_ps } else { world.boundary_ps() };
                *last_ps = handled_ps.max(*last_ps);
                assert_eq!(exits[call as usize][member as usize].replace(exit_ps), None, "reported twice");
            }
            *last_ps = world.boundary_ps().max(*last_ps);
        };
        for (algorithm, places, count, later, offsets) in wishes {
            for cut in cuts.by_ref().take(2) {
                now_ps += cut;
                take(&mut world, now_ps, &mut exits, &mut last_ps);
            }
            let call = shared(ALGORITHMS[algorithm], places.len() as u32, count);
            // As entries take effect; an idle world would take earlier ones, and then the calls were not together.
            let entry_ps: Vec<u64> =
                places.iter().zip(offsets).map(|(_, offset)| (last_ps + offset + later).max(last_ps)).collect();
            world.admit(&call, &places, &entry_ps).unwrap();
            exits.push(vec![None; places.len()]);
            calls.push((call, places));
            entries.push(entry_ps);
        }
        take(&mut world, u64::MAX, &mut exits, &mut last_ps);
        prop_assert!(world.idle());

        let naive: Vec<PricedCall<'_>> = calls.iter().map(|(call, places)| call.call(places)).collect();
        let mut ports = vec![PortState::default(); network.ports.len()];
        let (expected, _) = naive::together(&network, &naive, &entries, &mut ports);
        let exits: Vec<Vec<u64>> = exits.iter().map(|call| call.iter().map(|e| e.unwrap()).collect()).collect();
        prop_assert_eq!(exits, expected);
        prop_assert_eq!(world.ports(), ports);

        // At once and without cuts: the same, to each message's stay at each port.
        let mut whole = World::new(network);
        for ((call, places), entry_ps) in calls.iter().zip(&entries) {
            whole.admit(call, places, entry_ps).unwrap();
        }
        let mut same: Vec<Span> = Vec::new();
        while whole.advance_traced(u64::MAX, &mut |span| same.push(span)).unwrap().is_some() {}
        prop_assert_eq!(spans, same);
    }

    #[test]
    fn calls_one_after_the_other_meet_ports_as_they_were_left(
        wiring in prop::sample::select(vec![Wiring::Switch, Wiring::Ring, Wiring::Nodes(2)]),
        classes in prop::collection::vec(any_class(), 1..4),
        wishes in wishes(),
    ) {
        let network = Arc::new(machine(wiring, 6, classes));
        let (mut pricer, mut world) = (Pricer::new(network.clone()), World::new(network.clone()));
        let mut ports = world.ports();
        // Thrice, so that some of it is remembered.
        for (algorithm, places, count, later, offsets) in wishes.iter().cycle().take(3 * wishes.len()) {
            let call = shared(ALGORITHMS[*algorithm], places.len() as u32, *count);
            // No word of when the calls before were done.
            let entry_ps: Vec<u64> = places.iter().zip(offsets).map(|(_, offset)| later + offset).collect();
            let mut resumed = World::resume(network.clone(), ports.clone());
            let mut naive_ports = ports.clone();
            let priced = pricer.price(&call, places, &entry_ps, &mut ports).unwrap();
            let (expected, _) = naive::together(
                &network,
                &[call.call(places)],
                std::slice::from_ref(&entry_ps),
                &mut naive_ports,
            );
            for world in [&mut world, &mut resumed] {
                world.admit(&call, places, &entry_ps).unwrap();
                for f in finish(world) {
                    prop_assert_eq!(f.exit_ps, expected[0][f.member as usize]);
                    prop_assert_eq!(f.exit_ps, priced.exit_ps(f.member as usize));
                }
                prop_assert_eq!(&world.ports(), &ports);
            }
            prop_assert_eq!(&naive_ports, &ports);
        }
    }
}
