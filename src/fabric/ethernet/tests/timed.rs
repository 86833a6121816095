//! The protocol in time: it ends, it is the same again, and what it costs to share and to lose.

use super::orders::any_setup;
use super::*;
use crate::fabric::ethernet::clockwork::{At, Clockwork};
use crate::fabric::ethernet::measure::ring_ps;
use proptest::prelude::*;

#[test]
fn an_outage_costs_its_time_and_no_payload() {
    let p = parameters("n300");
    let setups = [setup(Side::Near, 200, 2), setup(Side::Far, 200, 2)];
    for signal in SIGNALS {
        for termination in TERMINATIONS {
            let end = |outage: Option<u64>| {
                let mut works = Clockwork::new(&p);
                let link = works.link(&setups, signal, termination, [0, 5_000_000]).unwrap();
                for channel in 0..2 {
                    (0..200).for_each(|_| works.offer(At { link, channel }, 0));
                }
                outage.into_iter().for_each(|for_ps| works.outage(link, 30_000_000, for_ps));
                works.run().unwrap();
                assert!(works.is_finished());
                assert_eq!(works.taken().len(), 400);
                works.now_ps()
            };
            let (whole, flapped) = (end(None), end(Some(1_000_000_000)));
            assert!(whole > 30_000_000, "the outage comes too late: {whole}");
            // A millisecond; what was lost, and that the directions no longer keep pace, are less than 1 % of it.
            let lost = flapped - whole;
            assert!((1_000_000_000..1_010_000_000).contains(&lost), "{lost}");
            assert_eq!(flapped, end(Some(1_000_000_000)), "the same again");
        }
    }
}

#[test]
fn pings_at_once_take_longer_than_one_and_less_than_one_after_the_other() {
    let p = parameters("t3000");
    for signal in SIGNALS {
        for bytes in [16, 1024, 8192] {
            let times: Vec<u64> =
                [1, 2, 4, 8].map(|channels| ring_ps(&p, 8, bytes, channels, signal).unwrap()).into();
            assert!(times.is_sorted_by(|a, b| a < b), "{bytes} B: {times:?}");
            assert!(times.windows(2).all(|pair| pair[1] < 2 * pair[0]), "{bytes} B: {times:?}");
        }
    }
    // A hop is a hop, however long the ring.
    let ring = |chips: u32| ring_ps(&p, chips, 16, 1, SignalMode::Merged).unwrap();
    assert_eq!(ring(12) * 8, ring(8) * 12);
}

#[test]
fn nothing_is_sent_before_the_later_program_has_begun() {
    let p = parameters("n300");
    for late in [[0, 9_000_000], [9_000_000, 0]] {
        let mut works = Clockwork::new(&p);
        let link = works
            .link(&[setup(Side::Far, 1, 1)], SignalMode::Merged, Termination::MessageCount, late)
            .unwrap();
        works.offer(At { link, channel: 0 }, 0);
        works.run().unwrap();
        assert!(works.is_finished());
        assert!(works.taken()[0].at_ps > 9_000_000 + p.wire.latency_ps, "{:?}", works.taken());
    }
}

proptest! {
    #[test]
    fn every_run_ends_with_each_payload_seen_once_in_its_order(
        setups in prop::collection::vec(any_setup(), 1..8),
        separate: bool,
        by_worker: bool,
        queues in 1u32..3,
        queue_commands in 1u32..4,
        start_ps in [0u64..3_000_000, 0u64..3_000_000],
        offers in prop::collection::vec(0u64..5_000_000, 1..8),
        outages in prop::collection::vec((0u64..8_000_000, 1u64..2_000_000), 0..4),
    ) {
        let parameters = with_queues(parameters("t3000"), queues, queue_commands);
        let (signal, termination) = (SIGNALS[usize::from(separate)], TERMINATIONS[usize::from(by_worker)]);
        let run = || {
            let mut works = Clockwork::new(&parameters);
            let link = works.link(&setups, signal, termination, start_ps).expect("it fits");
            for (channel, setup) in (0..).zip(&setups) {
                for message in 0..setup.messages {
                    let after_ps = offers[(u64::from(channel) + message) as usize % offers.len()];
                    works.offer(At { link, channel }, after_ps);
                }
            }
            outages.iter().for_each(|&(at_ps, for_ps)| works.outage(link, at_ps, for_ps));
            works.run().expect("no fault");
            assert!(works.is_finished());
            (works.taken().to_vec(), works.now_ps())
        };
        let (taken, end_ps) = run();
        for (channel, setup) in (0..).zip(&setups) {
            let seen = taken.iter().filter(|t| t.at.channel == channel).count() as u64;
            prop_assert_eq!(seen, setup.messages);
        }
        prop_assert!(taken.is_sorted_by_key(|t| t.at_ps));
        prop_assert_eq!((taken, end_ps), run());
    }
}
