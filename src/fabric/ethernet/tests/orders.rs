//! No order of events loses a byte, and every order ends.

use super::*;
use crate::fabric::ethernet::fault::ProtocolFault;
use crate::fabric::ethernet::link::{EthernetLink, LinkEvent, Mistake};
use proptest::prelude::*;
use std::collections::HashSet;

/// What every state keeps to.
fn check(link: &EthernetLink) {
    for channel in &link.channels {
        let (s, r) = (&channel.sender, &channel.receiver);
        let buffers = u64::from(channel.setup.buffers);
        assert!(s.credited <= s.acked && s.acked <= s.signalled && s.signalled <= s.sent, "{channel:?}");
        assert!(s.sent <= s.filled && s.filled <= s.acked + buffers, "{channel:?}");
        assert!(s.sent - s.credited <= buffers, "more payloads than buffers: {channel:?}");
        assert!(r.completed <= r.read && r.read <= r.taken && r.taken <= s.signalled, "{channel:?}");
        assert!(s.credited <= r.completed && s.acked <= r.acknowledged, "{channel:?}");
    }
}

/// At the end every worker has read all, once and in order, and nothing is left.
fn check_end(link: &EthernetLink) {
    assert!(link.is_finished(), "nothing happens any more, and it has not ended: {link:?}");
    assert!(link.is_empty(), "something is left: {link:?}");
    for (id, channel) in (0..).zip(&link.channels) {
        assert_eq!(link.progress(id), (u64::from(channel.setup.buffers), channel.setup.messages));
        assert!(channel.receiver.contents.iter().all(Option::is_none));
    }
}

/// All states that any order reaches; the first fault, if there is one.
fn explore(first: EthernetLink) -> Result<usize, ProtocolFault> {
    let mut known = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(link) = open.pop() {
        check_unless_broken(&link);
        let events = link.events();
        if events.is_empty() {
            check_end(&link);
        }
        for event in events {
            let mut next = link.clone();
            next.apply(event)?;
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

fn check_unless_broken(link: &EthernetLink) {
    if link.mistake.is_none() {
        check(link);
    }
}

fn small(setups: &[Setup], signal: SignalMode, termination: Termination) -> EthernetLink {
    EthernetLink::new(&parameters("n300"), setups, signal, termination).expect("it fits")
}

#[test]
fn every_order_of_two_channels_over_two_queues_ends_with_nothing_left() {
    for signal in SIGNALS {
        for termination in TERMINATIONS {
            let one_way = [setup(Side::Near, 2, 1), setup(Side::Near, 1, 1)];
            let both_ways = [setup(Side::Far, 1, 1), setup(Side::Near, 2, 1)];
            for setups in [one_way, both_ways] {
                let states = explore(small(&setups, signal, termination));
                assert!(states.is_ok_and(|states| states > 500), "{states:?}");
            }
        }
    }
}

#[test]
fn every_order_of_a_channel_of_two_buffers_ends_with_nothing_left() {
    for signal in SIGNALS {
        let states = explore(small(&[setup(Side::Near, 4, 2)], signal, Termination::MessageCount));
        assert!(states.is_ok_and(|states| states > 100), "{states:?}");
    }
}

#[test]
fn every_broken_rule_is_found_in_some_order() {
    use Side::{Far, Near};
    let faults = |mistake, setups: &[Setup]| {
        let mut link = small(setups, SignalMode::Separate, Termination::MessageCount);
        link.mistake = Some(mistake);
        explore(link).expect_err("a fault")
    };
    let one = [setup(Near, 2, 1)];
    assert_eq!(faults(Mistake::SignalOvertakes, &one), ProtocolFault::NotThere { channel: 0, message: 0 });
    assert_eq!(faults(Mistake::AckOvertakes, &one), ProtocolFault::DoneBeforeAck { channel: 0 });
    assert_eq!(faults(Mistake::OneSource, &one), ProtocolFault::DoneBeforeAck { channel: 0 });
    assert_eq!(faults(Mistake::NoCredits, &one), ProtocolFault::Overwritten { channel: 0, message: 1 });
    let nobody = faults(Mistake::NoDraining, &one);
    assert_eq!(nobody, ProtocolFault::NobodyThere { side: Near });
    let nobody = faults(Mistake::NoHandshake, &one);
    assert_eq!(nobody, ProtocolFault::NobodyThere { side: Far });
}

#[test]
fn a_channel_goes_through_the_states_of_the_guide() {
    use crate::fabric::ethernet::channel::State::*;
    let mut link = small(&[setup(Side::Near, 1, 1)], SignalMode::Merged, Termination::MessageCount);
    let mut seen = vec![link.states(0)];
    // The first event that can happen, always.
    while let Some(&event) = link.events().first() {
        link.apply(event).expect("no fault");
        if link.states(0) != seen[seen.len() - 1] {
            seen.push(link.states(0));
        }
    }
    let expected = [
        (WaitingForWorker, WaitingForEth),
        (ReadyForEthTransfer, WaitingForEth),
        (WaitingForEth, WaitingForEth),
        (WaitingForEth, SignalingWorker),
        (WaitingForEth, WaitingForWorker),
        (WaitingForEth, WaitingForEth),
        (WaitingForEth, Done),
        (Done, Done),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_payload_waits_for_the_far_program_to_begin() {
    let mut link = small(&[setup(Side::Near, 1, 1)], SignalMode::Merged, Termination::MessageCount);
    let begin = LinkEvent::Start(Side::Far);
    while let Some(&event) = link.events().iter().find(|&&event| event != begin) {
        link.apply(event).expect("no fault");
    }
    assert_eq!(link.events(), [begin]);
    assert!(!link.can(LinkEvent::Fill(0)) && link.is_empty());
}

#[test]
fn what_does_not_fit_is_refused_with_the_remedy() {
    let p = parameters("n300");
    let said = |setups: &[Setup], termination| {
        EthernetLink::new(&p, setups, SignalMode::Merged, termination)
            .expect_err("it does not fit")
            .message
            .clone()
    };
    let with = |bytes| Setup { bytes, last_bytes: bytes, ..setup(Side::Near, 1, 1) };
    assert_eq!(
        said(&[with(20)], Termination::MessageCount),
        "a payload of 20 B is not whole words of 16 B; make it 32 B"
    );
    assert!(said(&[with(0)], Termination::MessageCount).ends_with("make it 16 B"));
    assert!(said(&[with(80_000)], Termination::MessageCount).ends_with("make it at most 76784 B"));
    assert!(said(&[with(40_000); 2], Termination::MessageCount).contains("keep to 30 channels and 76800 B"));
    assert!(said(&[with(16); 31], Termination::MessageCount).contains("31 channels"));
    assert!(said(&[setup(Side::Far, 1, 0)], Termination::MessageCount).contains("give it one"));
    assert!(said(&[setup(Side::Far, 0, 1)], Termination::WorkerInitiated).contains("give it one"));
}

prop_compose! {
    pub(super) fn any_setup()(far: bool, messages in 1u64..6, words in 1u64..300, buffers in 1u32..4) -> Setup {
        let sender = if far { Side::Far } else { Side::Near };
        Setup { sender, messages, bytes: words * 16, last_bytes: words.div_ceil(2) * 16, buffers }
    }
}

proptest! {
    #[test]
    fn no_order_and_no_outage_loses_or_repeats_a_byte(
        setups in prop::collection::vec(any_setup(), 1..6),
        separate: bool,
        by_worker: bool,
        queues in 1u32..3,
        queue_commands in 1u32..4,
        outages in 0usize..5,
        choices in prop::collection::vec(any::<u16>(), 1..2000),
    ) {
        let parameters = with_queues(parameters("t3000"), queues, queue_commands);
        let (signal, termination) = (SIGNALS[usize::from(separate)], TERMINATIONS[usize::from(by_worker)]);
        let mut link = EthernetLink::new(&parameters, &setups, signal, termination).expect("it fits");
        let mut outages = outages;
        let mut choices = choices.iter().cycle();
        loop {
            let events = link.events();
            if events.is_empty() {
                break;
            }
            let choice = usize::from(*choices.next().expect("a cycle"));
            // One in eight: the link goes down, as often as it may.
            if choice % 8 == 7 && outages > 0 {
                outages -= 1;
                link.apply(LinkEvent::GoDown).expect("no fault");
                check(&link);
                continue;
            }
            link.apply(events[choice / 8 % events.len()]).expect("no fault");
            check(&link);
        }
        check_end(&link);
    }
}
