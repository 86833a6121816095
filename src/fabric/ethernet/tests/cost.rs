//! The closed form against the clockwork, which follows every packet.

use super::*;
use crate::fabric::ethernet::clockwork::{At, Clockwork, Taken};
use crate::fabric::ethernet::cost::MoverCost;
use crate::fabric::{PricedCall, engine};
use crate::plan::{Chunk, Plan, RankView};
use crate::topology::{Class, MoverSpec, Network};
use crate::types::Collective;
use proptest::prelude::*;

/// A machine of two chips whose link has the mover with these keys.
fn machine(keys: &str) -> Network {
    let text = topology::presets().iter().find(|(name, _)| *name == "n300").expect("a preset").1;
    let text = text.replace("optional = true", keys);
    topology::parse("mover.toml", &text, &[]).unwrap_or_else(|why| panic!("{keys}: {why}"))
}

fn parts(network: &Network) -> (&Class, &MoverSpec) {
    let class = &network.classes[0];
    (class, class.mover.as_ref().expect("a mover"))
}

/// The payloads of a message in turn over the channels, each way in `ways`, all there at once after the handshake. Returns
/// that time, and what the far end saw.
fn clocked(class: &Class, mover: &MoverSpec, bytes: u64, ways: &[Side]) -> (u64, Vec<Taken>) {
    let parameters = Parameters::of_mover(class, mover);
    let payloads = bytes.div_ceil(mover.payload);
    let last = bytes - (payloads - 1) * mover.payload;
    let channels = payloads.min(mover.channels.into());
    let setup = |sender, channel: u64| {
        let messages = (payloads - channel).div_ceil(channels);
        let ends = channel == (payloads - 1) % channels;
        // A channel of one short payload has no other.
        let last_bytes = if ends { last } else { mover.payload };
        let bytes = if ends && messages == 1 { last } else { mover.payload };
        Setup { sender, messages, bytes, last_bytes, buffers: mover.buffers }
    };
    let setups: Vec<Setup> =
        ways.iter().flat_map(|&way| (0..channels).map(move |channel| setup(way, channel))).collect();
    let mut works = Clockwork::new(&parameters);
    let link = works.link(&setups, mover.signal, mover.termination, [0; 2]).expect("it fits");
    works.run().expect("no fault");
    let start_ps = works.now_ps();
    for (channel, setup) in (0..).zip(&setups) {
        (0..setup.messages).for_each(|_| works.offer(At { link, channel }, 0));
    }
    works.run().expect("no fault");
    assert!(works.is_finished());
    let seen = works.taken().iter().filter(|taken| u64::from(taken.at.channel) < channels);
    (start_ps, seen.copied().collect())
}

/// When the last payload is seen, by the clockwork and by the closed form.
fn both(network: &Network, bytes: u64) -> (u64, u64) {
    let (class, mover) = parts(network);
    let (start_ps, taken) = clocked(class, mover, bytes, &[Side::Near]);
    let cost = MoverCost::of(class, mover, bytes, bytes);
    let last = bytes - (bytes - 1) / mover.payload * mover.payload;
    let way_ps = mover.over_chip_ps(last.max(bytes.min(mover.payload)));
    let seen_ps = class.post_ps + cost.hold_ps + cost.latency_ps - way_ps;
    (taken.last().expect("a payload").at_ps - start_ps, seen_ps)
}

/// What the receiver's core does for each payload.
fn receiver_ps(mover: &MoverSpec) -> u64 {
    2 * (mover.core.look_ps + mover.core.issue_ps)
}

#[test]
fn the_closed_form_of_a_message_is_the_clockworks_time() {
    for keys in [
        "",
        "channels = 1",
        "channels = 2\npayload = \"4KiB\"",
        "sharing = \"round_robin\"\npayload = \"4KiB\"\nbuffers = 2",
        "sharing = \"shared\"",
        "sharing = \"round_robin_and_shared\"\nchannels = 3\nbuffers = 3\npayload = \"2KiB\"",
        "channels = 30\npayload = \"2KiB\"",
        "channels = 1\npayload = \"64KiB\"",
        "receiver = \"pull\"\nchannels = 2",
        "termination = \"worker_initiated\"",
        "queue_commands = 1",
        "queues = 1",
    ] {
        for signal in ["merged", "separate"] {
            let network = machine(&format!("reverse = \"idle\"\nsignal = \"{signal}\"\n{keys}"));
            for bytes in
                [16, 32, 1024, 1504, 2048, 4096, 8192, 16 << 10, (16 << 10) + 2048, 65536, 100_000, 1 << 20]
            {
                let bytes: u64 = bytes;
                let (clocked, closed) = both(&network, bytes);
                assert_eq!(closed, clocked, "{keys}, {signal}, {bytes} B");
            }
        }
    }
}

#[test]
fn both_conditions_that_end_a_channel_take_the_same_time() {
    let time = |word: &str| {
        let network = machine(&format!("termination = \"{word}\""));
        let (class, mover) = parts(&network);
        clocked(class, mover, 100_000, &[Side::Near, Side::Far])
    };
    assert_eq!(time("message_count"), time("worker_initiated"));
}

#[test]
fn a_stream_takes_the_time_of_its_slowest_part() {
    for (keys, bytes, part) in [
        ("", 64 << 10, "wire"),
        ("payload = \"16KiB\"\nchannels = 4", 64 << 10, "wire"),
        ("channels = 1", 64 << 10, "credits"),
        ("channels = 2\npayload = \"2KiB\"", 8 << 10, "credits"),
        ("receiver = \"pull\"\nchannels = 2", 64 << 10, "credits"),
        ("payload = \"16B\"\nchannels = 30", 16, "core"),
    ] {
        for reverse in ["idle", "busy"] {
            let network = machine(&format!("reverse = \"{reverse}\"\n{keys}"));
            let (class, mover) = parts(&network);
            let ways = if reverse == "idle" { &[Side::Near][..] } else { &[Side::Near, Side::Far] };
            let (start_ps, taken) = clocked(class, mover, 1000 * bytes, ways);
            let cost = MoverCost::of(class, mover, bytes, bytes);
            let stream_ps = 1000 * (cost.hold_ps + cost.rest_ps);
            let clocked_ps = taken.last().expect("a payload").at_ps - start_ps;
            let ratio = stream_ps as f64 / clocked_ps as f64;
            let most = if reverse == "idle" { 0.01 } else { 0.05 };
            assert!((ratio - 1.0).abs() < most, "{keys}, {reverse}, bound by the {part}: {ratio}");
        }
    }
}

/// A message of 1 MiB while the link is down for some time: by the clockwork, by the engine, and by the engine in vain.
fn flapped(at_ns: u64, for_ns: u64) -> [u64; 3] {
    let bytes: u64 = 1 << 20;
    let fault = format!(
        "[[fault]]\nlink = \"*\"\nkind = \"down\"\nat = \"{at_ns}ns\"\nfor = \"0s\"\nretrain = \"{for_ns}ns\"\n"
    );
    let priced = |keys: &str| {
        let network = machine(keys);
        let mut plans = vec![Plan::new(1); 2];
        plans[0].copy_send(Chunk::part(0), 1);
        plans[1].recv_copy(0, Chunk::part(0));
        let view = RankView::flat(Collective::Broadcast, 0, 2, 0);
        let call = PricedCall { plans: &plans, places: &[0, 1], view, count: bytes, size: 1, slice_bytes: 0 };
        engine::price(&network, &call, &[0; 2]).expect("a price").exit_ps[1]
    };
    let keys = "reverse = \"idle\"";
    let network = machine(keys);
    let (class, mover) = parts(&network);
    let parameters = Parameters::of_mover(class, mover);
    let messages = bytes / mover.payload / u64::from(mover.channels);
    let payload = mover.payload;
    let setup =
        Setup { sender: Side::Near, messages, bytes: payload, last_bytes: payload, buffers: mover.buffers };
    let mut works = Clockwork::new(&parameters);
    let link = works
        .link(&vec![setup; mover.channels as usize], mover.signal, mover.termination, [0; 2])
        .expect("it fits");
    works.run().expect("no fault");
    let start_ps = works.now_ps();
    for channel in 0..mover.channels {
        (0..messages).for_each(|_| works.offer(At { link, channel }, 0));
    }
    works.outage(link, start_ps + at_ns * 1000, for_ns * 1000);
    works.run().expect("no fault");
    assert!(works.is_finished());
    let seen_ps = works.taken().last().expect("a payload").at_ps - start_ps + mover.over_chip_ps(payload);
    [seen_ps, priced(&format!("{keys}\n{fault}")), priced(keys)]
}

#[test]
fn a_link_that_retrains_sends_again_what_was_on_the_wire_and_no_more() {
    let packet_ps = 80 * (1500 + 50);
    for at_ns in [100, 600, 1_000, 10_000, 33_333, 50_000, 80_000] {
        for for_ns in [1_000, 100_000, 3_000_000] {
            let [clocked, priced, whole] = flapped(at_ns, for_ns);
            let apart = clocked.abs_diff(priced);
            // Words of the other direction are lost too, and payloads end in shorter packets.
            assert!(
                apart <= 2 * packet_ps,
                "down at {at_ns} ns for {for_ns} ns: {priced}, {clocked} by packets"
            );
            let late = priced - whole;
            assert!((for_ns * 1000..for_ns * 1000 + 600_000 + packet_ps).contains(&late), "late by {late}");
        }
    }
    // After the last byte has come, it costs nothing.
    let [_, priced, whole] = flapped(100_000, 1_000);
    assert_eq!(priced, whole);
}

proptest! {
    #[test]
    fn the_closed_form_is_the_clockworks_time_but_for_a_receiver_that_is_behind(
        words in 1u64..600,
        workers in 1u64..30,
        buffers in 1u64..4,
        shared: bool,
        separate: bool,
        pull: bool,
        queues in 1u32..3,
        queue_commands in 1u32..4,
        sent in 1u64..20_000,
    ) {
        let payload = words * 16;
        // As many as there is room for.
        let workers = workers.min((75 << 10) / (payload + 16) / buffers);
        let sharing = if shared { "round_robin_and_shared" } else { "round_robin" };
        let network = machine(&format!(
            "reverse = \"idle\"\npayload = \"{payload}B\"\nchannels = {workers}\nbuffers = {buffers}\nsharing = \"{sharing}\"\n\
             signal = \"{}\"\nreceiver = \"{}\"\nqueues = {queues}\nqueue_commands = {queue_commands}",
            if separate { "separate" } else { "merged" },
            if pull { "pull" } else { "push" },
        ));
        let (class, mover) = parts(&network);
        let bytes = (sent * 16).min(payload * 200);
        let (clocked, closed) = both(&network, bytes);
        let last = bytes - (bytes - 1) / payload * payload;
        let busy_ps = receiver_ps(mover);
        let paced = bytes <= payload || class.packet_ps(payload.min(last)) >= busy_ps;
        // A worker that reads lets its buffer go while another payload may come, once for each turn of the slots and once at the end.
        let turns = if pull { bytes.div_ceil(payload * mover.slots()) + 1 } else { 1 };
        if paced && !pull {
            prop_assert_eq!(closed, clocked);
        } else if class.packet_ps(payload) >= busy_ps {
            prop_assert!(closed <= clocked && clocked - closed <= turns * busy_ps, "{} {}", closed, clocked);
        }
    }
}
