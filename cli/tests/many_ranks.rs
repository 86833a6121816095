//! `penny sim` among many ranks: what `auto` leaves out changes no answer, and what cannot be followed is refused before it begins.

use std::process::{Command, Output};

fn penny(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penny")).args(arguments.split_whitespace()).output().unwrap()
}

/// Algorithm, protocol and picoseconds of each row.
fn rows(arguments: &str) -> Vec<(String, String, u64)> {
    let output = penny(&format!("{arguments} --json"));
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (word("algorithm"), word("protocol"), row["time_ps"].as_u64().unwrap())
    };
    text.lines().map(row).collect()
}

#[test]
fn auto_is_the_first_of_the_quickest_of_all() {
    for (machine, sizes) in [
        ("dgx-h100:nodes=4", "-b 8 -e 64M -f 64"),
        ("dgx-h100:nodes=3,as=nccl", "-b 1K -e 1M -f 32"),
        ("t3000", "-b 8 -e 16M -f 128"),
        // With this number of ranks, programs are written rank by rank, and a price ends at the time of the best one so far.
        ("dgx-h100:nodes=33", "-b 1K"),
        ("dgx-h100:nodes=33", "-b 1M"),
    ] {
        let of = |algorithm: &str| {
            rows(&format!("sim all_reduce --fabric {machine} {sizes} --algorithm {algorithm}"))
        };
        let (auto, all) = (of("auto"), of("all"));
        let names: Vec<&String> = all.iter().map(|row| &row.0).collect();
        let of_one_size = (1..names.len()).find(|&row| names[row] == names[0]).unwrap_or(names.len());
        for (size, chosen) in auto.iter().enumerate() {
            let candidates = all.iter().skip(size * of_one_size).take(of_one_size);
            assert_eq!(Some(chosen), candidates.min_by_key(|row| row.2), "{machine} {sizes}, size {size}");
        }
    }
}

#[test]
fn too_many_messages_are_refused_before_they_are_followed() {
    for (arguments, said) in [
        (
            "--fabric dgx-h100:nodes=12500 -b 1M --algo hierarchical",
            "--algorithm hierarchical among 100000 ranks has 19999800000 messages, about 29999 s and 2.73 TiB, and at most 2097152 are followed one by \
             one; take fewer",
        ),
        (
            "--fabric tpu-v4:shape=16x16x16 -b 1M --algo torus",
            "torus among 4096 ranks has 201277440 messages, about 301 s and 28.12 GiB, and at most 2097152",
        ),
        (
            "--fabric dgx-h100:nodes=128 -b 1M --algo torus",
            "torus among 1024 ranks has 8380416 messages, about 12 s",
        ),
        (
            "--fabric dgx-h100:nodes=65537 -b 1M --algo tree",
            "tree among 524296 ranks has 2097180 messages, about 3 s",
        ),
        (
            "--fabric dgx-h100:nodes=1001 -b 1M --algo alternating_rings",
            "has 1025920896 messages of ranks that are not alike",
        ),
        (
            "--fabric dgx-h100 -b 1M --slice 1",
            "slices of 1 bytes: simple_ring among 8 ranks has chunks of 1048576 bytes, 14680064 messages in all, and at most 8388608",
        ),
    ] {
        let output = penny(&format!("sim all_reduce {arguments}"));
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && why.contains(said), "{arguments}: {why}");
    }
}

#[test]
fn what_auto_leaves_out_is_told() {
    for (call, said) in [
        (
            "all_gather --fabric dgx-h100:nodes=250 -b 1M",
            "two_shot among 2000 ranks has 3998000 messages, about 5 s and 571.92 MiB, and at most 2097152 are",
        ),
        // Others are quicker than this one can be; it is told all the same.
        (
            "all_reduce --fabric dgx-h100:nodes=128 -b 1M",
            "torus among 1024 ranks has 8380416 messages, about 12 s and 1.17 GiB, and at most 2097152 are",
        ),
    ] {
        let output = penny(&format!("sim {call}"));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("# not priced: {said}")), "{call}: {text}");
    }
}

/// Microseconds of an all-reduce over nodes of eight H100 by each of these algorithms.
fn all_reduces<const N: usize>(nodes: u32, bytes: &str, algorithms: [&str; N]) -> [f64; N] {
    let named = algorithms.join(",");
    let rows =
        rows(&format!("sim all_reduce --fabric dgx-h100:nodes={nodes} -b {bytes} --algorithm {named}"));
    algorithms.map(|name| rows.iter().find(|row| row.0 == name).unwrap().2 as f64 / 1e6)
}

#[test]
fn simple_rings_are_ahead_of_rings_for_small_calls_and_trees_over_all_rails_of_both() {
    for (bytes, is_small) in [("256", true), ("64K", true), ("1M", false), ("256M", false)] {
        let [simple, ring, trees] = all_reduces(2, bytes, ["simple_ring", "ring", "rail_trees"]);
        assert_eq!(simple < ring, is_small, "{bytes}: {simple} and {ring} us");
        assert!(trees < simple.min(ring), "{bytes}: {trees} us");
    }
}

#[test]
fn trees_of_two_nodes_are_bound_by_nvlink_and_those_of_more_fall_behind_rings_over_all_nics() {
    let gib = f64::from(1 << 30);
    let [rings, trees] = all_reduces(2, "1G", ["alternating_rings", "rail_trees"]);
    let bus = |us: f64| gib / us / 1e3 * 2.0 * 15.0 / 16.0;
    // A NIC carries half as much as with rings; a chain passes 7/8 of the buffer up and down its links of 370.8 GB/s.
    assert!((bus(trees) / (370.8 * 15.0 / 14.0) - 1.0).abs() < 0.01, "{}", bus(trees));
    assert!((bus(rings) / (8.0 * 48.5) - 1.0).abs() < 0.01, "{}", bus(rings));
    for (bytes, is_ahead) in [("2M", true), ("32M", false)] {
        let [rings, trees] = all_reduces(4, bytes, ["alternating_rings", "rail_trees"]);
        assert_eq!(trees < rings, is_ahead, "{bytes}: {trees} and {rings} us");
    }
}
