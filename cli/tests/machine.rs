//! Real processes on a declared machine take the time that the engine tells without them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Deserializer, Value};

fn penny(line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    // How fast this host is must not matter.
    let output = command.args(line.split_whitespace()).env("PENNY_FABRIC_GRACE", "0").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Bytes and time of every row that `penny sim` prints.
fn simulated(options: &str) -> Vec<(u64, u64)> {
    let text = penny(&format!("sim {options} --json"));
    let rows = Deserializer::from_str(&text).into_iter::<Value>().map(Result::unwrap);
    rows.map(|row| (row["bytes"].as_u64().unwrap(), row["time_ps"].as_u64().unwrap())).collect()
}

/// The same of the table that `penny perf` writes, whose results were all right.
fn measured(name: &str, options: &str) -> Vec<(u64, u64)> {
    let path: PathBuf = std::env::temp_dir().join(format!("penny-{name}-{}.json", std::process::id()));
    penny(&format!("perf {options} --timeout 300 --json {}", path.display()));
    let reports: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let rows = reports[0]["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let there = &row["out_of_place"];
        assert_eq!(there["wrong"], 0, "{row}");
        (row["bytes"].as_u64().unwrap(), there["machine"]["time_ps"].as_u64().unwrap())
    })
    .collect()
}

const RINGS: &str = "all_reduce -n 16 --fabric dgx-h100 --nodes 2 --algo alternating_rings";

#[test]
fn sixteen_processes_on_two_nodes_take_the_simulated_time_to_the_picosecond() {
    let options = format!("{RINGS} -b 1K -e 1M -f 8");
    let expected = simulated(&options);
    assert_eq!(expected.len(), 4);
    assert_eq!(measured("virtual", &options), expected);
}

#[test]
fn a_dilation_that_no_host_keeps_is_refused_with_what_this_host_needs() {
    let options = format!("perf {RINGS} -b 64K -e 64K --clock paced:0.001 --timeout 300");
    let output = Command::new(env!("CARGO_BIN_EXE_penny")).args(options.split_whitespace()).output().unwrap();
    let sentence = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(sentence.contains("this host needs") && sentence.contains("pass paced:"), "{sentence}");
}
