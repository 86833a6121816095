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
        ("dgx-h100:nodes=3,as=nccl", "-b 1K -e 16M -f 128"),
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
            "--algorithm hierarchical among 100000 ranks has 19999800000 messages, about 29999 s and 4.18 TiB, and at most 2097152 are followed one by \
             one; take fewer",
        ),
        (
            "--fabric tpu-v4:shape=16x16x16 -b 1M --algo torus",
            "torus among 4096 ranks has 201277440 messages, about 301 s and 43.11 GiB, and at most 2097152",
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
            "two_shot among 2000 ranks has 3998000 messages, about 5 s and 876.94 MiB, and at most 2097152 are",
        ),
        // Others are quicker than this one can be; it is told all the same.
        (
            "all_reduce --fabric dgx-h100:nodes=128 -b 1M",
            "torus among 1024 ranks has 8380416 messages, about 12 s and 1.80 GiB, and at most 2097152 are",
        ),
    ] {
        let output = penny(&format!("sim {call}"));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("# not priced: {said}")), "{call}: {text}");
    }
}
