//! `[mover]`: what a file and arguments say of the software at the ends of links.

use super::*;
use crate::topology::{Handover, MoverSpec, SignalMode, Termination};

/// A line of two places whose mover has these keys, from line 9 on.
fn moved(keys: &str) -> String {
    wired(&format!("[line]\nshape = \"2\"\nlink = \"wire\"\n[mover]\nkind = \"ethernet\"\n{keys}"))
}

fn mover(network: &Network) -> Option<&MoverSpec> {
    network.classes[0].mover.as_deref()
}

#[test]
fn a_mover_says_all_that_it_was_told_and_the_rest_is_a_wormholes() {
    let network = read(&moved("link = \"wire\""));
    let default = mover(&network).unwrap();
    assert_eq!((default.payload, default.slots(), default.signal), (8192, 8, SignalMode::Merged));
    assert_eq!((default.core.issue_ps, default.core.look_ps, default.core.channels), (40_000, 8_000, 30));
    assert_eq!(network.classes[0].post_ps, 48_000);
    let told = read(&moved(
        "link = \"wire\"\npayload = \"1KiB\"\nchannels = 3\nsharing = \"round_robin_and_shared\"\nbuffers = 4\n\
         signal = \"separate\"\ntermination = \"worker_initiated\"\nreceiver = \"pull\"\nreverse = \"idle\"\n\
         programs = \"call\"\nissue = \"20ns\"\nqueues = 1\nbuffer_memory = \"100KiB\"\n",
    ));
    let spec = mover(&told).unwrap();
    assert_eq!((spec.payload, spec.channels, spec.buffers, spec.slots()), (1024, 1, 12, 12));
    assert_eq!((spec.signal, spec.termination), (SignalMode::Separate, Termination::WorkerInitiated));
    assert_eq!((spec.receiver, spec.reverse_busy, spec.per_call), (Handover::Pull, false, true));
    assert_eq!((spec.core.issue_ps, spec.core.queues, spec.core.buffer_bytes), (20_000, 1, 100 << 10));
    // Three words: 28 ns of the core's time, 16 bytes, and a microsecond; and an acknowledgement.
    assert_eq!(told.launch_ps, 3 * (28_000 + 16_000 + 1_000_000) + 20_000);
    assert_ne!(network.hash(), told.hash());
}

#[test]
fn an_optional_mover_is_taken_by_an_argument_and_its_keys_are_arguments() {
    for preset in ["n300", "t3000", "galaxy"] {
        let (bare, taken) = (network(preset), network(&format!("{preset}:mover=ethernet")));
        assert!(mover(&bare).is_none() && mover(&taken).is_some());
        assert_eq!(mover(&network(&format!("{preset}:mover=none"))), None);
        assert_eq!((bare.classes[0].post_ps, taken.classes[0].post_ps), (143_000, 48_000));
        assert_ne!(bare.hash(), taken.hash());
    }
    let with = network("t3000:links=1,mover=ethernet,mover.channels=2:mover.payload=16KiB");
    assert_eq!((mover(&with).unwrap().channels, mover(&with).unwrap().payload), (2, 16 << 10));
    assert!(
        with.name.ends_with(":links=1,mover=ethernet,mover.channels=2,mover.payload=16KiB"),
        "{}",
        with.name
    );
    // Machines whose calls take other times have other hashes.
    let mut hashes: Vec<u64> =
        ["channels=2", "channels=3", "payload=4KiB", "receiver=pull", "reverse=idle", "signal=separate"]
            .map(|key| network(&format!("t3000:mover=ethernet,mover.{key}")).hash())
            .into();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
    let left = parse("m.toml", &moved("link = \"wire\""), &[("mover".into(), "none".into())]).unwrap();
    assert!(mover(&left).is_none());
}

#[test]
fn a_mover_that_cannot_be_is_refused_with_its_line_and_the_remedy() {
    for (keys, said) in [
        ("", "m.toml:8: [mover] has no `link`; add one such as link = \"eth\""),
        ("link = \"w\"", "m.toml:10: link: there is no class `w`; declare [class.w] or use one of wire"),
        ("link = \"wire\"\nslots = 3", "m.toml:11: [mover] has no key `slots`; it has kind, link,"),
        (
            "link = \"wire\"\npayload = \"100B\"",
            "m.toml:11: payload: a payload of 100 B is not whole words of 16 B",
        ),
        ("link = \"wire\"\nchannels = 31", "m.toml:11: channels: `31` is not a whole number from 1 to 30"),
        (
            "link = \"wire\"\nchannels = 10",
            "m.toml:11: channels: 10 buffers of 8192 B take 82080 B with their signals",
        ),
        (
            "link = \"wire\"\nbuffers = 2",
            "m.toml:11: buffers: several buffers of a channel take turns; add sharing",
        ),
        (
            "link = \"wire\"\nsignal = \"late\"",
            "m.toml:11: signal: `late` is not known here; write merged or separate",
        ),
        ("link = \"wire\"\nalign = \"0B\"", "m.toml:8: [mover] has align or on_chip_bw of 0; write more"),
    ] {
        let why = wrong(&moved(keys));
        assert!(why.starts_with(said), "{keys}\nsays: {why}");
    }
    let fair = wrong(&format!("arb = \"fair\"\n{}", moved("link = \"wire\"")));
    assert!(
        fair.contains("has arb = \"fair\" and a mover on [class.wire], whose channels take turns already"),
        "{fair}"
    );
    for (spec, said) in [
        ("t3000:mover=edm", "t3000: the argument mover: there is no mover `edm`; write ethernet or none"),
        (
            "dgx-h100:mover=ethernet",
            "dgx-h100: the argument mover: the machine has no [mover]; take n300, t3000",
        ),
        ("t3000:mover.channels=2", "t3000:13: [mover] is not taken, but has arguments; add mover=ethernet"),
        (
            "t3000:mover=ethernet,mover.slots=2",
            "t3000: [mover] takes no argument `slots`; it takes kind, link,",
        ),
        (
            "t3000:mover=ethernet,mover.channels=0",
            "t3000: the argument channels: `0` is not a whole number from 1",
        ),
    ] {
        let why = open(spec).err().unwrap_or_else(|| panic!("{spec} was accepted")).message.clone();
        assert!(why.starts_with(said), "{spec}\nsays: {why}");
    }
}
