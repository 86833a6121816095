//! What the queue and the pricer keep.

use super::machines::{Wiring, machine, plain};
use super::*;
use crate::fabric::pricer::{Pricer, SharedCall};
use crate::fabric::queue::{Event, Queue};
use crate::topology::Class;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn shared(count: u64) -> SharedCall {
    SharedCall {
        plans: all_reduce("ring", 4).into(),
        view: View::flat(Collective::AllReduce, 0, 4, 0),
        count,
        size: 4,
        slice_bytes: 0,
    }
}

#[test]
fn a_repeat_at_another_time_has_the_same_outcome_object() {
    let network = Arc::new(machine(Wiring::Ring, 4, vec![Class { latency_ps: 5, ..plain() }]));
    let (mut pricer, call) = (Pricer::new(network.clone()), shared(100));
    let first = pricer.price(&call, &[0, 10, 20, 30]).unwrap();
    let again = pricer.price(&call, &[1_000_000, 1_000_010, 1_000_020, 1_000_030]).unwrap();
    assert!(Arc::ptr_eq(&first.outcome, &again.outcome));
    let fresh = price(&network, &call.call(), &[1_000_000, 1_000_010, 1_000_020, 1_000_030]).unwrap();
    assert_eq!((0..4).map(|r| again.exit_ps(r)).collect::<Vec<_>>(), fresh.exit_ps);
}

#[test]
fn another_entry_count_or_plan_is_priced_anew() {
    let network = Arc::new(machine(Wiring::Ring, 4, vec![Class { latency_ps: 5, ..plain() }]));
    let mut pricer = Pricer::new(network.clone());
    for call in [shared(100), shared(200), SharedCall { size: 8, ..shared(100) }] {
        for late in (0..40).chain(0..40) {
            let entries = [0, late * 1000, 0, 0];
            let got = pricer.price(&call, &entries).unwrap();
            assert_eq!(*got.outcome, price(&network, &call.call(), &entries).unwrap());
        }
    }
}

#[test]
fn a_refused_call_is_refused_again() {
    let network = Arc::new(machine(Wiring::Ring, 3, vec![plain()]));
    let mut pricer = Pricer::new(network);
    let first = pricer.price(&shared(1), &[0; 4]).unwrap_err();
    assert_eq!(pricer.price(&shared(1), &[0; 4]).unwrap_err(), first);
}

proptest! {
    #[test]
    fn the_queue_pops_what_a_sorted_set_would(pushes in prop::collection::vec((0..5u32, 0..40u32, 0..9u64), 1..300)) {
        let (mut queue, mut model) = (Queue::new(), BTreeSet::new());
        let mut now_ps = 0;
        for (who, (pops, bit, order)) in (0..).zip(pushes) {
            // Now and then the present time, with an order below what was popped.
            let at_ps = now_ps + ((1u64 << bit) >> 3) * (order % 3);
            let event = Event { at_ps, order, who };
            queue.push(event);
            model.insert(event);
            for _ in 1..pops {
                let popped = queue.pop();
                prop_assert_eq!(popped, model.pop_first());
                now_ps = popped.map_or(now_ps, |e| e.at_ps);
            }
        }
        while let Some(event) = model.pop_first() {
            prop_assert_eq!(queue.pop(), Some(event));
        }
        prop_assert_eq!(queue.pop(), None);
    }
}
