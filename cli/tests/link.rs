//! `penny perf link` prints the published figures of Wormhole links.

use std::process::{Command, Output};

use serde_json::Value;

fn penny(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split_whitespace()).output().unwrap()
}

fn answer(line: &str) -> String {
    let output = penny(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows(line: &str) -> Vec<Value> {
    answer(line).lines().map(|row| serde_json::from_str(row).unwrap()).collect()
}

/// A number of the only row that has these values.
fn number(rows: &[Value], has: &[(&str, Value)], key: &str) -> f64 {
    let fit: Vec<&Value> =
        rows.iter().filter(|row| has.iter().all(|(key, value)| row[key] == *value)).collect();
    assert_eq!(fit.len(), 1, "{has:?}: {fit:?}");
    fit[0][key].as_f64().unwrap()
}

#[track_caller]
fn assert_near(value: f64, published: f64) {
    assert!((value / published - 1.0).abs() <= 0.03, "{value} is not within 3 % of {published}");
}

#[test]
fn a_link_of_a_t3000_has_the_published_latency_and_utilisation() {
    for fabric in ["t3000", "galaxy"] {
        let rows = rows(&format!("perf link --fabric {fabric} --sizes 576,1088,16K --json"));
        let latency = |measure: &str, signal: &str| {
            let has = [("measure", measure.into()), ("signal", signal.into()), ("bytes", 16.into())];
            number(&rows, &has, "ns")
        };
        assert_near(latency("ring_hop", "separate"), 690.0);
        assert_near(latency("ring_hop", "merged"), 650.0);
        assert_near(latency("ring", "merged"), 5200.0);
        for signal in ["merged", "separate"] {
            assert!((530.0..=620.0).contains(&latency("one_way", signal)));
        }
        let share = |bytes: u64, channels: u64, key: &str| {
            number(&rows, &[("bytes", bytes.into()), ("channels", channels.into())], key)
        };
        assert_near(share(576, 30, "streamed"), 0.91);
        assert!(share(1088, 30, "streamed") > 0.95);
        assert!(share(16384, 4, "merged") > 0.95);
        let line = number(&rows, &[("measure", "all_gather".into()), ("shape", "line".into())], "share");
        assert_near(line, 0.5);
    }
}

#[test]
fn the_ring_has_as_many_chips_as_there_are_or_as_asked_for() {
    let chips = |line: &str| {
        let has = [("measure", "ring".into()), ("signal", "merged".into()), ("bytes", 16.into())];
        number(&rows(line), &has, "chips")
    };
    assert_eq!(chips("perf link --fabric n300 --sizes 4K --json"), 2.0);
    assert_eq!(chips("perf link --fabric t3000 --chips 12 --sizes 4K --json"), 12.0);
    assert!(answer("perf link --fabric n300 --sizes 4K").contains("530 to 620"));
}

#[test]
fn channels_run_between_places_and_relay() {
    let fabric = "--fabric t3000:mover=ethernet";
    let ring = [0, 2, 4, 6, 7, 5, 3, 1, 0];
    let hop = |at: usize| {
        let relays = if at > 0 { format!(",relays={}", at - 1) } else { String::new() };
        format!("--channel {}-{}:every=10us,messages=2{relays}", ring[at], ring[at + 1])
    };
    let line: Vec<String> = (0..8).map(hop).collect();
    let last = |more: &str| {
        let rows = rows(&format!("perf link {fabric} {} {more} --json", line.join(" ")));
        number(&rows, &[("measure", "channel".into()), ("channel", 7.into())], "last_ns")
    };
    // The second message sets out at 10 us, when all have shaken hands.
    assert_near(last("") - 10_000.0, 5200.0);
    assert_near(last("--signal separate") - 10_000.0, 5510.0);
    assert_eq!(last("--termination worker-initiated"), last("--termination message-count"));
    let large = format!("perf link {fabric} --channel 0-1:messages=200,bytes=8K,buffers=4");
    let text = answer(&large);
    assert!(
        text.starts_with("# channels  fabric: t3000:mover=ethernet  all programs have ended after "),
        "{text}"
    );
    let gbps = number(&rows(&format!("{large} --json")), &[("channel", 0.into())], "bw_gb_s");
    assert!((11.0..12.1).contains(&gbps), "{gbps}");
}

#[test]
fn a_link_that_cannot_be_is_refused_with_the_remedy() {
    for (line, remedy) in [
        (
            "perf link --fabric dgx-h100",
            "of class nv18, which no data mover serves; take n300, t3000, galaxy",
        ),
        ("perf link --fabric t3000 --channel 0-1", "take t3000:mover=ethernet"),
        ("perf link --fabric t3000:mover=ethernet --channel 0-3", "places 0 and 3 are no neighbours"),
        ("perf link --fabric t3000:mover=ethernet --channel 0-1:bytes=20", "make it 32 B"),
        ("perf link --fabric t3000 --sizes 100", "make it 112 B"),
        ("perf link --fabric t3000 --sizes 1M", "make it at most 76784 B"),
    ] {
        let output = penny(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(remedy), "{line}: {text}");
    }
}
