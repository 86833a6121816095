//! The link model in numbers worked out by hand: 1 byte takes 1000 ps where nothing else is said.

use super::machines::{Wiring, any_class, machine, plain};
use super::*;
use crate::error::Code;
use crate::fabric::trace;
use crate::plan::{Chunk, Shape};
use crate::topology::Class;
use crate::types::Rank;
use proptest::prelude::*;

/// Programs of `nranks` in which each (from, to, part) is a message.
fn messages(nranks: u32, parts: u32, all: &[(Rank, Rank, u32)]) -> Vec<Plan> {
    let mut plans = vec![Plan::new(parts); nranks as usize];
    for &(from, to, part) in all {
        plans[from as usize].send(to, Chunk::part(part));
        plans[to as usize].recv_copy(from, Chunk::part(part));
    }
    plans
}

#[test]
fn a_ring_takes_two_n_minus_one_times_post_latency_gap_and_a_chunk() {
    for nranks in 2..=12 {
        let class = Class { latency_ps: 700, post_ps: 90, gap_ps: 33, ..plain() };
        let network = machine(Wiring::Ring, nranks, vec![class]);
        let got = outcome(&network, &all_reduce("ring", nranks), 1200 * nranks as u64, 0);
        let steps = 2 * (nranks as u64 - 1);
        assert_eq!(got.exit_ps, vec![steps * (90 + 700 + 33 + 1_200_000); nranks as usize]);
        assert!(got.counters.iter().all(|c| c.messages == steps && c.bytes == steps * 1200));
        assert!(got.counters.iter().all(|c| c.queue_high == 0 && c.busy_ps == steps * 1_200_033));
    }
}

#[test]
fn the_second_of_two_messages_waits_for_the_port_that_both_need() {
    let network = machine(Wiring::Switch, 3, vec![Class { latency_ps: 50, mtu: 10, ..plain() }]);
    let plans = messages(3, 1, &[(0, 2, 0), (1, 2, 0)]);
    let got = price(&network, &call(&plans, 100, 0), &[0, 2_000, 0]).unwrap();
    // Heads reach the receive port after 10 bytes and the latency: at 10 050 and at 12 050.
    // The first holds it until 110 050, the second until 210 050; each arrives 50 later.
    assert_eq!(got.exit_ps, [100_000, 102_000, 210_100]);
    assert_eq!((got.counters[5].queue_high, got.counters[5].busy_ps), (1, 200_000));
    assert_eq!(got.events, 3 + 3 * 2);
}

#[test]
fn a_shared_port_that_never_idles_is_done_at_one_time_whoever_comes_first() {
    let network = machine(Wiring::Switch, 5, vec![Class { latency_ps: 10, mtu: 1, ..plain() }]);
    let plans = messages(5, 1, &[(0, 4, 0), (1, 4, 0), (2, 4, 0), (3, 4, 0)]);
    let mut order = [0, 1_000, 2_000, 3_000];
    for turn in 0..4 {
        order.rotate_left(1);
        order.swap(turn % 2, 3);
        let entry: Vec<u64> = order.into_iter().chain([0]).collect();
        let got = price(&network, &call(&plans, 100, 0), &entry).unwrap();
        assert_eq!(got.exit_ps[4], 1_010 + 400_000 + 10, "{order:?}");
        assert_eq!(got.counters[9].queue_high, 3);
    }
}

#[test]
fn cut_through_overlaps_ports_and_store_and_forward_does_not() {
    let plans = messages(4, 1, &[(0, 3, 0)]);
    let class = Class { latency_ps: 7, gap_ps: 5, mtu: 10, ..plain() };
    let whole = Class { store_and_forward: true, ..class.clone() };
    // Three ports: two heads of gap, packet and latency; then gap, message, latency.
    let got = outcome(&machine(Wiring::Ring, 4, vec![class.clone()]), &plans, 100, 0);
    assert_eq!(got.exit_ps[3], 2 * (5 + 10_000 + 7) + 5 + 100_000 + 7);
    let got = outcome(&machine(Wiring::Ring, 4, vec![whole.clone()]), &plans, 100, 0);
    assert_eq!(got.exit_ps[3], 3 * (5 + 100_000 + 7));
    // Only the port in the middle takes the message in whole.
    let got = outcome(&machine(Wiring::Ring, 4, vec![class, whole]), &plans, 100, 0);
    assert_eq!(got.exit_ps[3], (5 + 100_000 + 7) + (5 + 10_000 + 7) + (5 + 100_000 + 7));
}

#[test]
fn headers_take_time_and_are_no_payload() {
    let network = machine(Wiring::Ring, 2, vec![Class { mtu: 40, header: 4, ..plain() }]);
    let got = outcome(&network, &messages(2, 1, &[(0, 1, 0)]), 100, 0);
    assert_eq!((got.exit_ps[1], got.counters[0].bytes), ((100 + 3 * 4) * 1000, 100));
}

#[test]
fn a_slow_port_stretches_the_time_of_a_fast_one_behind_it() {
    let fast = Class { rate: 10_000_000_000, latency_ps: 3, mtu: 10, ..plain() };
    let slow = Class { latency_ps: 3, mtu: 10, ..plain() };
    let network = machine(Wiring::Ring, 3, vec![slow, fast]);
    let got = outcome(&network, &messages(3, 1, &[(0, 2, 0)]), 100, 0);
    // The last byte leaves the slow port at 100 000; the fast one is taken from the head, at 10 003, until 100 003.
    assert_eq!(got.exit_ps, [100_000, 0, 100_006]);
    assert_eq!(got.counters[1].busy_ps, 90_000);
}

#[test]
fn one_credit_lets_a_message_out_when_the_one_before_it_arrived() {
    let class = |credits| Class { latency_ps: 500, post_ps: 20, credits, ..plain() };
    let plans = messages(2, 3, &[(0, 1, 0), (0, 1, 1), (0, 1, 2)]);
    let took = |credits| outcome(&machine(Wiring::Ring, 2, vec![class(credits)]), &plans, 3, 0).exit_ps[1];
    assert_eq!(took(1), 3 * (20 + 1000 + 500));
    assert_eq!(took(3), 20 + 3 * 1000 + 500);
    assert_eq!(took(0), took(3));
    // With two, the third is posted when the first arrives, at 1520, and finds the port taken until 2020.
    assert_eq!(took(2), 2020 + 1000 + 500);
}

#[test]
fn a_lane_is_fed_at_its_own_rate_and_leaves_the_port_to_others() {
    // The port sends 100 bytes in 100 ns, a lane takes 400 ns for them.
    let class = |lane_rate| Class { lane_rate, latency_ps: 7, post_ps: 20, ..plain() };
    let machine = |lane_rate| machine(Wiring::Switch, 3, vec![class(lane_rate)]);
    let one = messages(2, 1, &[(0, 1, 0)]);
    let hop = |machine: &Network| outcome(machine, &one, 100, 0).exit_ps[1];
    assert_eq!(hop(&machine(250_000_000)), hop(&machine(0)) + 300_000);
    assert_eq!(hop(&machine(9_000_000_000)), hop(&machine(0)), "no less than the port takes");
    // One after the other into one lane; into two lanes side by side, though both begin at one port.
    let in_turn = messages(2, 2, &[(0, 1, 0), (0, 1, 1)]);
    let got = outcome(&machine(250_000_000), &in_turn, 200, 0);
    assert_eq!(got.exit_ps[0], 20 + 2 * 400_000);
    assert_eq!(got.counters[0].busy_ps, 2 * 100_000);
    let beside = messages(3, 2, &[(0, 1, 0), (0, 2, 1)]);
    assert_eq!(outcome(&machine(250_000_000), &beside, 200, 0).exit_ps[0], 20 + 400_000 + 100_000);
}

#[test]
fn a_lanes_message_is_handed_on_after_a_piece_and_takes_the_lane_for_all_of_it() {
    // A lane takes 400 ns for 100 bytes, and 40 ns for a piece of them; the port sends 100 bytes in 100 ns.
    let class = |lane_piece, rate| Class {
        lane_rate: 250_000_000,
        lane_piece,
        rate,
        latency_ps: 7,
        post_ps: 20,
        ..plain()
    };
    let machine = |lane_piece, rate| machine(Wiring::Switch, 3, vec![class(lane_piece, rate)]);
    let hop = |machine: &Network| outcome(machine, &messages(2, 1, &[(0, 1, 0)]), 100, 0).exit_ps[1];
    let quick = u64::MAX;
    assert_eq!(hop(&machine(0, quick)) - hop(&machine(10, quick)), 360_000);
    assert_eq!(hop(&machine(100, quick)), hop(&machine(0, quick)));
    assert_eq!(hop(&machine(1000, quick)), hop(&machine(0, quick)));
    // The port's own time counts where it is the longer one.
    assert_eq!(hop(&machine(0, 1_000_000_000)) - hop(&machine(10, 1_000_000_000)), 300_000);
    // Of two messages, the second finds the lane taken until the first is fed.
    let in_turn = messages(2, 2, &[(0, 1, 0), (0, 1, 1)]);
    assert_eq!(outcome(&machine(10, quick), &in_turn, 200, 0).exit_ps[0], 20 + 400_000 + 40_000);
}

#[test]
fn a_message_takes_its_port_for_a_least_time_in_which_its_bytes_pass() {
    // The port sends 100 bytes in 100 ns and 900 in 900 ns, but each message takes it for 300 ns.
    let class = Class { latency_ps: 7, least_hold_ps: 300_000, ..plain() };
    let network = machine(Wiring::Switch, 2, vec![class]);
    let two = messages(2, 2, &[(0, 1, 0), (0, 1, 1)]);
    let got = outcome(&network, &two, 200, 0);
    assert_eq!((got.exit_ps[0], got.counters[0].busy_ps), (600_000, 600_000));
    // The head of the first is at the second port after its packet, which here is the message: 100 ns and the latency.
    assert_eq!(got.exit_ps[1], 100_007 + 2 * 300_000 + 7);
    assert_eq!(outcome(&network, &two, 1800, 0).exit_ps[0], 1_800_000);
}

#[test]
fn nothing_still_takes_latency_gap_and_post() {
    let network =
        machine(Wiring::Ring, 2, vec![Class { latency_ps: 500, post_ps: 20, gap_ps: 9, ..plain() }]);
    let got = outcome(&network, &messages(2, 1, &[(0, 1, 0)]), 0, 64);
    assert_eq!(got.exit_ps, [29, 529]);
    assert_eq!((got.counters[0].messages, got.counters[0].bytes), (1, 0));
}

#[test]
fn slices_follow_each_other_down_a_chain() {
    let network = machine(Wiring::Ring, 4, vec![Class { latency_ps: 100, ..plain() }]);
    let plans = all_reduce("simple_ring", 4);
    // Six hops of the whole; or twenty tenths through the first link, which serves both rounds, and one hop more.
    assert_eq!(last(&outcome(&network, &plans, 1000, 0)), 6 * 1_000_100);
    assert_eq!(last(&outcome(&network, &plans, 1000, 100)), 20 * 100_000 + 100 + 100_100);
    let plans = all_reduce("tree", 7);
    let network = machine(Wiring::Switch, 7, vec![Class { latency_ps: 100, mtu: 64, ..plain() }]);
    assert!(last(&outcome(&network, &plans, 10_000, 500)) < last(&outcome(&network, &plans, 10_000, 0)));
}

#[test]
fn a_step_of_several_readers_sends_to_one_after_the_other() {
    let mut plans = vec![Plan::new(1); 3];
    plans[0].send(vec![2, 1], Chunk::part(0));
    plans[1].recv_copy(0, Chunk::part(0));
    plans[2].recv_copy(0, Chunk::part(0));
    let got = outcome(&machine(Wiring::Switch, 3, vec![Class { mtu: 1, ..plain() }]), &plans, 10, 0);
    assert_eq!(got.exit_ps, [20_000, 21_000, 11_000]);
}

#[test]
fn a_rank_that_only_copies_is_done_when_it_enters() {
    let mut plans = vec![Plan::new(1)];
    plans[0].copy(Chunk::part(0));
    let network = machine(Wiring::Ring, 1, vec![plain()]);
    assert_eq!(price(&network, &call(&plans, 9, 0), &[77]).unwrap().exit_ps, [77]);
}

#[test]
fn a_deadlock_names_two_who_wait_and_for_whom() {
    let mut plans = vec![Plan::new(1); 3];
    for rank in 0..3 {
        plans[rank as usize].recv_copy_send((rank + 2) % 3, Chunk::part(0), (rank + 1) % 3);
    }
    let network = machine(Wiring::Ring, 3, vec![plain()]);
    let error = price(&network, &call(&plans, 8, 0), &[0; 3]).unwrap_err();
    let expected = "deadlock: rank 0 waits for rank 2, rank 1 waits for rank 0, and nothing is under way";
    assert_eq!((error.code, error.message.as_str()), (Code::InvalidUsage, expected));
}

#[test]
fn programs_that_do_not_fit_together_are_refused() {
    let network = machine(Wiring::Ring, 3, vec![plain()]);
    let refusal = |plans: &[Plan]| price(&network, &call(plans, 8, 0), &[0; 3]).unwrap_err().message.clone();
    let good = messages(3, 2, &[(0, 1, 0), (0, 1, 1)]);

    let mut plans = good.clone();
    plans[1].steps.pop();
    assert_eq!(refusal(&plans), "step 1 of rank 0 sends to rank 1, which does not take it");
    let mut plans = good.clone();
    plans[0].steps.pop();
    assert_eq!(refusal(&plans), "step 1 of rank 1 takes what rank 0 does not send");
    let mut plans = good.clone();
    plans[1].steps.swap(0, 1);
    let expected = "step 0 of rank 0 sends block 0 part 0 on lane 0 where step 0 of rank 1 takes block 0 part 1 on lane 0";
    assert_eq!(refusal(&plans), expected);
    let mut plans = good.clone();
    plans[0].steps[1].to = vec![0];
    assert_eq!(refusal(&plans), "rank 0 of 3 sends to rank 0");
    let mut plans = good;
    plans[2].parts = 5;
    plans[2].copy(Chunk::part(0));
    assert_eq!(refusal(&plans), "programs divide blocks into 2 and 5 parts");
}

#[test]
fn times_beyond_what_fits_are_an_error_and_no_wrap() {
    let plans = messages(2, 1, &[(0, 1, 0)]);
    for class in [Class { rate: 1, ..plain() }, Class { latency_ps: u64::MAX, ..plain() }] {
        let network = machine(Wiring::Ring, 2, vec![class]);
        let error = price(&network, &call(&plans, u64::MAX / 2, 0), &[5, 5]).unwrap_err();
        assert_eq!(error.message, "the call takes longer than 2^64 picoseconds");
    }
}

#[test]
fn who_is_listed_first_does_not_matter() {
    // Steps of one rank that do not depend on each other, in another order among lanes.
    let class = Class { latency_ps: 40, gap_ps: 3, mtu: 16, ..plain() };
    let network = machine(Wiring::Nodes(2), 6, vec![class]);
    let plans = all_reduce("ring_pair", 6);
    let by_lane: Vec<Plan> = plans
        .iter()
        .map(|plan| {
            let mut plan = plan.clone();
            plan.steps.sort_by_key(|step| std::cmp::Reverse(step.lane));
            plan
        })
        .collect();
    assert_ne!(plans, by_lane);
    assert_eq!(outcome(&network, &plans, 999, 32), outcome(&network, &by_lane, 999, 32));
}

#[test]
fn a_trace_holds_what_the_counters_count() {
    let network = machine(Wiring::Nodes(2), 4, vec![Class { latency_ps: 40, mtu: 16, ..plain() }]);
    let plans = all_reduce("ring", 4);
    let mut spans = Vec::new();
    let traced =
        price_traced(&network, &call(&plans, 100, 7), &[0, 9, 3, 4], &mut |span| spans.push(span)).unwrap();
    assert_eq!(traced, price(&network, &call(&plans, 100, 7), &[0, 9, 3, 4]).unwrap());
    for (port, counters) in (0..).zip(&traced.counters) {
        let here: Vec<_> = spans.iter().filter(|s| s.port == port).collect();
        assert!(here.windows(2).all(|w| w[0].end_ps <= w[1].start_ps));
        assert_eq!(here.iter().map(|s| s.bytes).sum::<u64>(), counters.bytes);
        assert_eq!(here.iter().map(|s| s.end_ps - s.start_ps).sum::<u64>(), counters.busy_ps);
        assert_eq!(here.len() as u64, counters.messages);
    }
}

#[test]
fn a_timeline_has_a_track_a_rank_and_port_with_exact_times() {
    let mut network = machine(Wiring::Ring, 2, vec![plain()]);
    std::sync::Arc::make_mut(&mut network.ports)[0].name = "a\"b\\\n".into();
    let span = trace::Span {
        call: 0,
        place: 3,
        port: 0,
        step: 1,
        slice: 2,
        start_ps: 1_000_001,
        end_ps: 3_500_000,
        bytes: 9,
    };
    let expected = r#"{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"ports"}},
{"ph":"M","name":"process_name","pid":4,"tid":0,"args":{"name":"rank 3"}},
{"ph":"M","name":"thread_name","pid":4,"tid":0,"args":{"name":"a\"b\\\u000a"}},
{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"a\"b\\\u000a"}},
{"ph":"X","name":"step 1 slice 2","pid":4,"tid":0,"ts":1.000001,"dur":2.499999,"args":{"bytes":9}},
{"ph":"X","name":"rank 3 step 1 slice 2","pid":0,"tid":0,"ts":1.000001,"dur":2.499999,"args":{"bytes":9}}
]}
"#;
    assert_eq!(trace::perfetto(&[span], &network), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_engine_and_the_naive_one_agree_to_the_picosecond(
        algorithm in 0..ALL.len(),
        nranks in 2..=9u32,
        wiring in prop::sample::select(vec![Wiring::Switch, Wiring::Ring, Wiring::Nodes(2), Wiring::Nodes(3)]),
        classes in prop::collection::vec(any_class(), 1..4),
        count in 0..200u64,
        slice_bytes in prop::sample::select(vec![5u64, 16, 64, 1000]),
        entries in prop::collection::vec(prop::sample::select(vec![0u64, 0, 1000, 54_321]), 9),
    ) {
        let network = machine(wiring, nranks, classes);
        let entries = &entries[..nranks as usize];
        for &collective in ALL[algorithm].serves {
            let view = RankView::flat(collective, 0, nranks, 1);
            let view = if collective.rooted() { view } else { RankView { root: 0, ..view } };
            if ALL[algorithm].refuses(&view).is_some() {
                continue;
            }
            let plans = algorithms::plan_all(ALL[algorithm], &view);
            let call = PricedCall { plans: &plans, places: &PLACES[..nranks as usize], view, count, size: 3, slice_bytes };
            let engine = price(&network, &call, entries).unwrap();
            prop_assert_eq!(engine, naive::price(&network, &call, entries), "{} {}", ALL[algorithm].name, collective);
        }
    }

    #[test]
    fn where_switches_copy_and_sum_the_engine_and_the_naive_one_agree_too(
        nodes in 1..=3u32,
        places in 2..=5u32,
        classes in prop::collection::vec(any_class(), 1..4),
        part in prop::sample::select(vec!["1", "0.5", "0.37"]),
        count in 0..200u64,
        slice_bytes in prop::sample::select(vec![5u64, 16, 64, 1000]),
        entries in prop::collection::vec(prop::sample::select(vec![0u64, 0, 1000, 54_321]), 15),
    ) {
        let part = crate::topology::units::ratio(part).unwrap();
        let classes: Vec<Class> =
            classes.into_iter().map(|class| Class { in_switch: Some(part), ..class }).collect();
        let nranks = nodes * places;
        let wiring = if nodes == 1 { Wiring::Switch } else { Wiring::Nodes(places) };
        let mut network = machine(wiring, nranks, classes);
        network.shape = Shape([places, nodes, 1]);
        let (places, entries) = (&PLACES[..nranks as usize], &entries[..nranks as usize]);
        let algorithm = algorithms::find(if nodes == 1 { "in_switch" } else { "in_switch_trees" }).unwrap();
        for &collective in algorithm.serves {
            let view = RankView::flat(collective, 0, nranks, u32::from(collective.rooted()));
            let view = view.arranged(network.arrangement(places));
            let plans = algorithms::plan_all(algorithm, &view);
            let call = PricedCall { plans: &plans, places, view, count, size: 3, slice_bytes };
            let engine = price(&network, &call, entries).unwrap();
            prop_assert_eq!(engine, naive::price(&network, &call, entries), "{}", collective);
        }
    }
}
