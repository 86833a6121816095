//! Ports with faults, in numbers worked out by hand: 1 byte takes 1000 ps.

use super::machines::{Wiring, machine, plain};
use super::*;
use crate::error::Code;
use crate::fabric::pricer::Pricer;
use crate::fabric::trace::Span;
use crate::fabric::tuning::Tuning;
use crate::plan::Chunk;
use crate::topology::{self, Class};
use std::sync::Arc;

/// A machine of two places, port g0.tx of which has a fault; 1 byte takes 1000 ps, and 100 from port to port.
fn faulty(fault: &str) -> Network {
    let text = format!(
        "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"100ps\"\nmtu = \"10B\"\ngap = \"500ps\"\n\
         [switch]\nplaces = 2\nport = \"w\"\n{fault}"
    );
    topology::parse("m.toml", &text, &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn fault(kind: &str, rest: &str) -> Network {
    faulty(&format!("[[fault]]\nlink = \"g0.tx\"\nkind = \"{kind}\"\n{rest}"))
}

/// Sends `messages` messages of `bytes` bytes from place 0 to place 1. Returns the times and the stays at ports.
fn sent(network: &Network, messages: u32, bytes: u64) -> (CallTimes, Vec<Span>) {
    let mut plans = vec![Plan::new(messages); 2];
    for part in 0..messages {
        plans[0].send(1, Chunk::part(part));
        plans[1].recv_copy(0, Chunk::part(part));
    }
    let mut spans = Vec::new();
    let call = call(&plans, bytes * u64::from(messages), 0);
    let outcome = price_traced(network, &call, &[0, 0], &mut |span| spans.push(span)).unwrap();
    (outcome, spans)
}

#[test]
fn a_message_that_is_cut_off_is_sent_again_when_the_port_is_back() {
    let network = fault("down", "at = \"30ns\"\nfor = \"20ns\"\nretrain = \"5ns\"");
    let (outcome, spans) = sent(&network, 2, 20);
    // 20.5 ns each: the second is cut off at 30 ns and sent again at 55 ns.
    // Its head is at the other port 10.6 ns after that, and holds it as long.
    assert_eq!(outcome.exit_ps, [75_500, 55_000 + 10_600 + 20_500 + 100]);
    let tx = outcome.counters[0];
    assert_eq!((tx.errors, tx.resends, tx.down_ps), (0, 1, 25_000));
    assert_eq!((tx.messages, tx.bytes, tx.busy_ps), (2, 40, 2 * 20_500 + 9_500));
    let stays: Vec<_> =
        spans.iter().filter(|s| s.port == 0).map(|s| (s.start_ps, s.end_ps, s.bytes)).collect();
    assert_eq!(stays, [(0, 20_500, 20), (20_500, 30_000, 0), (55_000, 75_500, 20)]);
    // A message that comes while the port is down waits.
    let network = fault("down", "at = \"0s\"\nfor = \"20ns\"\nretrain = \"5ns\"");
    let tx = sent(&network, 2, 20).0.counters[0];
    assert_eq!((tx.resends, tx.queue_high, tx.down_ps, tx.busy_ps), (0, 2, 25_000, 41_000));
}

#[test]
fn a_slow_port_takes_longer_for_the_bytes_that_fall_into_the_time() {
    let end = |at: &str, length: &str| {
        let rest = format!("at = \"{at}\"\nfor = \"{length}\"\nfactor = \"0.5x\"");
        sent(&fault("slow", &rest), 1, 20).0.exit_ps[0]
    };
    assert_eq!(end("0s", "1s"), 500 + 2 * 20_000);
    // 5 bytes, then 10 at half the rate, then 5 more.
    assert_eq!(end("5500ps", "20ns"), 500 + 5_000 + 20_000 + 5_000);
    // The gap is not for bytes.
    assert_eq!(end("0s", "500ps"), 20_500);
    assert_eq!(end("20500ps", "1s"), 20_500);
    let rest = "at = \"0s\"\nfor = \"1s\"\nlanes = \"1/4\"";
    let (outcome, spans) = sent(&fault("drop_lane", rest), 1, 20);
    assert_eq!(outcome.exit_ps[0], 500 + 4 * 20_000);
    // The head comes through when its packet of 10 bytes has: at a quarter of the rate.
    assert_eq!(spans[1].start_ps, 500 + 4 * 10_000 + 100);
}

#[test]
fn the_same_seed_damages_the_same_messages_and_another_seed_others() {
    let network = |seed: u64| fault("crc", &format!("rate = 0.1\nretries = 9\nseed = {seed}"));
    let (outcome, spans) = sent(&network(1), 1000, 20);
    assert_eq!((&outcome, &spans), (&sent(&network(1), 1000, 20).0, &sent(&network(1), 1000, 20).1));
    assert_ne!(spans, sent(&network(2), 1000, 20).1);
    let tx = outcome.counters[0];
    let lost = spans.iter().filter(|span| span.port == 0 && span.bytes == 0).count() as u64;
    assert_eq!((tx.errors, tx.resends, tx.down_ps, tx.messages), (lost, lost, 0, 1000));
    assert!((80..=140).contains(&lost), "{lost} of about 111");
    assert_eq!(tx.busy_ps, (1000 + lost) * 20_500);
}

#[test]
fn past_the_retry_limit_the_call_fails_and_names_the_link() {
    let network = fault("crc", "rate = 1.0\nretries = 3\nseed = 1");
    let mut plans = vec![Plan::new(1); 2];
    plans[0].send(1, Chunk::part(0));
    plans[1].recv_copy(0, Chunk::part(0));
    let error = price(&network, &call(&plans, 9, 0), &[0, 0]).unwrap_err();
    let expected = "link g0.tx damaged a message 4 times, and may send it again only 3 times; \
                    repair the link, or declare more retries";
    assert_eq!((error.code, error.message.as_str()), (Code::RemoteError, expected));
}

#[test]
fn damage_goes_on_from_call_to_call_and_is_never_remembered() {
    let network = Arc::new(fault("crc", "rate = 0.5\nretries = 99\nseed = 3"));
    let call = SharedCall {
        plans: all_reduce("ring", 2).into(),
        view: RankView::flat(Collective::AllReduce, 0, 2, 0),
        count: 20,
        size: 1,
        tuning: Tuning { protocol: 0, slice_bytes: 0 },
    };
    let (mut pricer, mut world) = (Pricer::new(network.clone()), World::new(network.clone()));
    let mut ports = world.ports();
    let (mut at_ps, mut errors) = (0, 0);
    for _ in 0..40 {
        let priced = pricer.price(&call, &PLACES[..2], &[at_ps; 2], &mut ports).unwrap();
        world.admit(&call, &PLACES[..2], &[at_ps; 2]).unwrap();
        while let Some(finished) = world.advance(u64::MAX).unwrap() {
            at_ps = finished.exit_ps.max(at_ps);
            assert_eq!(finished.exit_ps, priced.exit_ps(finished.member as usize));
        }
        assert_eq!(world.ports(), ports);
        errors += priced.outcome.counters[0].errors;
    }
    assert_eq!(ports[0].counters.errors, errors);
    assert!((40..=140).contains(&errors), "{errors} of about 80");
}

#[test]
fn ports_without_faults_are_as_they_were() {
    let plans = all_reduce("ring", 2);
    let clean = faulty("");
    let network =
        faulty("[[fault]]\nlink = \"g1.*\"\nkind = \"slow\"\nat = \"1s\"\nfor = \"1s\"\nfactor = \"0.5x\"");
    assert_eq!(outcome(&clean, &plans, 999, 7), outcome(&network, &plans, 999, 7));
    let same = machine(Wiring::Switch, 2, vec![Class { latency_ps: 100, gap_ps: 500, mtu: 10, ..plain() }]);
    assert_eq!(outcome(&clean, &plans, 999, 7), outcome(&same, &plans, 999, 7));
}
