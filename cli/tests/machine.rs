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
fn a_table_says_where_no_protocol_carries_its_collective() {
    let is_said = |line: &str| penny(line).contains("# no protocol of this machine carries ");
    assert!(is_said("sim alltoall --fabric dgx-h100:as=nccl -b 1M"));
    assert!(!is_said("sim broadcast --fabric dgx-h100:nodes=2,as=nccl -b 1M"));
    assert!(!is_said("sim alltoall --fabric dgx-h100 -b 1M"));
}

#[test]
fn a_dilation_that_no_host_keeps_is_refused_with_what_this_host_needs() {
    let options = format!("perf {RINGS} -b 64K -e 64K --clock paced:0.001 --timeout 300");
    let output = Command::new(env!("CARGO_BIN_EXE_penny")).args(options.split_whitespace()).output().unwrap();
    let sentence = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(sentence.contains("this host needs") && sentence.contains("pass paced:"), "{sentence}");
}

/// Plays hosts on this machine, in ssh's place.
fn as_host() -> tempfile::TempPath {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let mut script = tempfile::NamedTempFile::new().unwrap();
    script.write_all(b"#!/bin/sh\nhost=$1; shift; PENNY_HOST_ID=$host exec sh -c \"$*\"\n").unwrap();
    std::fs::set_permissions(script.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    script.into_temp_path()
}

#[test]
fn processes_of_two_and_three_hosts_take_the_simulated_time_to_the_picosecond() {
    let script = as_host();
    let across = |hosts: &str| format!("--hosts {hosts} --rsh {} --master 127.0.0.1", script.display());
    for (name, hosts, options) in [
        ("two", "a:8,b:8", format!("{RINGS} -b 1K -e 1M -f 32")),
        ("three", "a:3,b:1,c:2", "all_gather -n 6 --fabric dgx-h100 -b 1K -e 1M -f 32".into()),
        ("turns", "a:2,b:2", "all_to_all -n 4 --fabric t3000 -b 1K -e 64K -f 8".into()),
    ] {
        let expected = simulated(&options);
        assert!(expected.len() >= 2);
        assert_eq!(measured(name, &format!("{options} {}", across(hosts))), expected, "{hosts}");
    }
}
