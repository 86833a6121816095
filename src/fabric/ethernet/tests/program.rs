//! Programs of channels on whole machines.

use super::*;
use crate::fabric::ethernet::measure::ring_ps;
use crate::fabric::ethernet::program::{LinkChannel, MoverSetup, ProgramTimes, run};
use crate::topology::Network;
use crate::types::Rank;

fn machine(more: &str) -> Network {
    topology::open(&format!("t3000:mover=ethernet{more}")).expect("a machine")
}

/// Payloads of 16 bytes that are there at once.
fn channel(from: Rank, to: Rank, messages: u64) -> LinkChannel {
    LinkChannel { from, to, link: 0, messages, bytes: 16, buffers: 0, every_ps: 0, relays: None }
}

fn times(network: &Network, channels: &[LinkChannel]) -> ProgramTimes {
    run(network, channels, MoverSetup::default(), &[0; 8]).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn a_ping_that_is_relayed_round_the_chips_takes_as_long_as_the_benchmarks() {
    const RING: [Rank; 9] = [0, 2, 4, 6, 7, 5, 3, 1, 0];
    for signal in SIGNALS {
        let network = machine("");
        let ring: Vec<LinkChannel> = (0..8)
            .map(|hop: usize| LinkChannel {
                relays: hop.checked_sub(1),
                ..channel(RING[hop], RING[hop + 1], 1)
            })
            .collect();
        let setup = MoverSetup { signal: Some(signal), ..MoverSetup::default() };
        // The sending worker has its payload when all have shaken hands.
        let late: Vec<LinkChannel> =
            ring.iter().map(|c| LinkChannel { every_ps: 5_000_000, messages: 2, ..c.clone() }).collect();
        let got = run(&network, &late, setup, &[0; 8]).unwrap();
        let parameters = Parameters::wormhole(network.classes[0].clone());
        // The second payload came into the core at 5 us.
        let way_ps = parameters.on_chip(16);
        assert_eq!(got.channels[7][1] - 5_000_000, ring_ps(&parameters, 8, 16, 1, signal).unwrap());
        assert_eq!(
            got.channels[0][1] - 5_000_000 + 7 * (got.channels[1][1] - got.channels[0][1]),
            got.channels[7][1] - 5_000_000
        );
        assert!(way_ps > 0 && got.places.iter().all(|&end_ps| end_ps > 5_000_000));
    }
}

#[test]
fn channels_of_a_link_share_it_and_those_of_another_do_not() {
    let network = machine("");
    let large = |link| LinkChannel { link, bytes: 8192, messages: 100, buffers: 2, ..channel(0, 1, 0) };
    let last =
        |channels: &[LinkChannel]| times(&network, channels).channels.iter().map(|c| c[1]).max().unwrap();
    let alone = last(&[large(0)]);
    assert_eq!(last(&[large(0), large(1)]), alone);
    let both = last(&[large(0), large(0)]);
    // One channel of two buffers uses 72 % of a wire.
    assert!(both > alone + alone / 4 && both < 2 * alone, "{alone} and {both}");
}

#[test]
fn places_that_begin_late_are_waited_for_and_those_without_channels_end_as_they_began() {
    let network = machine("");
    let start_ps = [0, 7_000_000, 1, 2, 3, 4, 5, 6];
    let got = run(&network, &[channel(0, 1, 1)], MoverSetup::default(), &start_ps).unwrap();
    assert!(got.channels[0][0] > 7_000_000);
    assert_eq!(got.places[2..], start_ps[2..]);
    for termination in TERMINATIONS {
        let setup = MoverSetup { termination: Some(termination), ..MoverSetup::default() };
        assert_eq!(run(&network, &[channel(0, 1, 1)], setup, &start_ps).unwrap(), got);
    }
}

#[test]
fn a_link_that_is_down_makes_its_channels_late() {
    let text = topology::presets().iter().find(|(name, _)| *name == "t3000").unwrap().1;
    let text = text.replace("optional = true", "");
    let fault =
        "[[fault]]\nlink = \"g0.x+.0\"\nkind = \"down\"\nat = \"20us\"\nfor = \"1us\"\nretrain = \"99us\"\n";
    let network = topology::parse("m.toml", &format!("{text}{fault}"), &[]).unwrap();
    let large = |from, to| LinkChannel { bytes: 8192, messages: 100, ..channel(from, to, 0) };
    let [whole, flapped] =
        [&machine(""), &network].map(|network| times(network, &[large(0, 1), large(1, 3)]));
    let late = flapped.channels[0][1] - whole.channels[0][1];
    assert!((100_000_000..101_000_000).contains(&late), "{late}");
    assert_eq!(flapped.channels[1], whole.channels[1]);
}

#[test]
fn channels_that_cannot_be_are_refused_with_the_remedy() {
    let (network, bare) = (machine(""), topology::open("t3000").unwrap());
    let said = |network: &Network, channels: &[LinkChannel]| {
        run(network, channels, MoverSetup::default(), &[0; 8]).expect_err("it cannot be").message.clone()
    };
    let one = channel(0, 1, 1);
    let relay = |source| LinkChannel { relays: Some(source), ..channel(1, 3, 1) };
    for (channels, why) in [
        (vec![channel(0, 3, 1)], "channel 0: places 0 and 3 are no neighbours; relay over those between"),
        (vec![channel(0, 8, 1)], "channel 0: goes from place 0 to place 8; name two of the 8 places"),
        (vec![channel(0, 0, 1)], "channel 0: goes from place 0 to place 0"),
        (vec![channel(0, 1, 0)], "channel 0: has no message; give it one"),
        (
            vec![LinkChannel { link: 2, ..one.clone() }],
            "channel 0: there is no link 2 between places 0 and 1; count from 0",
        ),
        (
            vec![relay(1), one.clone()],
            "channel 0: relays channel 1, which is not before it; list that one first",
        ),
        (
            vec![channel(0, 1, 2), relay(0)],
            "channel 1: sends 1 payloads of 16 B from place 1 and relays channel 0, which brings 2",
        ),
        (
            vec![one.clone(), relay(0), relay(0)],
            "channel 2: relays channel 0, which another one relays already; take one",
        ),
        (
            vec![LinkChannel { bytes: 20, ..one.clone() }],
            "link g0.x+.0: a payload of 20 B is not whole words of 16 B; make it 32 B",
        ),
        (
            vec![LinkChannel { buffers: 5000, ..one.clone() }],
            "link g0.x+.0: 1 channels with 160000 B of buffers",
        ),
        (vec![channel(0, 1, 1 << 23)], "8388608 payloads are too many to follow; send at most 4194304"),
    ] {
        let message = said(&network, &channels);
        assert!(message.starts_with(why), "{channels:?}\nsays: {message}");
    }
    assert!(
        said(&bare, &[one])
            .starts_with("channel 0: no data mover serves the links of t3000; take t3000:mover=ethernet")
    );
}
