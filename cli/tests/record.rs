//! `penny record`: what a program's ranks have done becomes a workload that `penny sim` prices.

use std::path::Path;
use std::process::{Command, Output};

use penny_ffi_tests::{compiler, root};
use serde_json::Value;

fn penny(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_penny")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names of a rank's nodes, and those that each comes after.
fn nodes(path: &Path) -> Vec<(String, Vec<usize>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let nodes = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    nodes
        .enumerate()
        .map(|(index, node)| {
            assert_eq!(node["id"], index.to_string());
            let after = node["dataDeps"].as_array().unwrap().iter();
            let after = after.map(|id| id.as_str().unwrap().parse().unwrap()).collect();
            (node["name"].as_str().unwrap().to_owned(), after)
        })
        .collect()
}

#[test]
fn the_calls_of_four_ranks_become_a_workload_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compiler::program(&root().join("cli/tests/fixtures/recorded_program.c"), &program);
    let recorded = penny(&["record", "-o", "step", "--json", "-n", "4", "./program"], folder.path());
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    assert!(text(&recorded.stderr).contains("4 ranks with"), "{}", text(&recorded.stderr));
    let nodes = nodes(&folder.path().join("step.2.json"));
    let at = |name: &str| nodes.iter().position(|(known, _)| known == name).unwrap();
    let after = |name: &str| &nodes[at(name)].1;
    let [reduce, send, recv, gather, broadcast] =
        ["all_reduce", "send", "recv", "all_gather", "broadcast"].map(at);
    assert_eq!(after("all_reduce"), &[] as &[usize], "nothing is known of before the first call");
    let first = after("send")[0];
    assert_eq!((nodes[first].0.as_str(), &nodes[first].1), ("compute", &vec![reduce]));
    assert_eq!(after("recv"), after("send"), "both halves of an exchange begin together");
    let before_gather = &nodes[after("all_gather")[0]];
    assert!(before_gather.1 == [send, recv] || after("all_gather") == &[send, recv], "{nodes:?}");
    // The broadcast waits for the stream, and for what was computed beside it.
    let mut awaited = after("broadcast").clone();
    if nodes[awaited[0]].0 == "compute" && awaited.len() == 1 {
        awaited = nodes[awaited[0]].1.clone();
    }
    assert!(awaited.contains(&gather) && awaited.len() == 2, "{nodes:?}");
    assert!(broadcast > gather);

    let priced =
        penny(&["sim", "--workload", "step", "--fabric", "dgx-h100", "--json", "--calls"], folder.path());
    assert!(priced.status.success(), "{}", text(&priced.stderr));
    let rows: Vec<Value> =
        text(&priced.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows[0]["compute_us"]["min"].as_f64() > Some(1.0), "{}", rows[0]);
    let calls: Vec<_> = rows[1..]
        .iter()
        .map(|row| {
            (
                row["call"].as_str().unwrap(),
                row["ranks"].as_u64(),
                row["block_bytes"].as_u64(),
                row["calls"].as_u64(),
            )
        })
        .collect();
    assert!(calls.contains(&("all_reduce", Some(4), Some(4096), Some(1))), "{calls:?}");
    assert!(calls.contains(&("broadcast", Some(4), Some(32), Some(1))), "{calls:?}");
    let pairs = calls.iter().filter(|call| (call.0, call.1, call.2) == ("all_gather", Some(2), Some(4096)));
    assert_eq!(pairs.map(|call| call.3.unwrap()).sum::<u64>(), 2, "{calls:?}");

    let binary = penny(&["record", "-o", "step", "-n", "4", "./program"], folder.path());
    assert!(binary.status.success() && folder.path().join("step.3.et").is_file(), "{}", text(&binary.stderr));
    let priced = penny(&["sim", "--workload", "step.0.et", "--fabric", "dgx-h100,t3000"], folder.path());
    assert!(priced.status.success(), "{}", text(&priced.stderr));
    assert_eq!(text(&priced.stdout).lines().filter(|line| !line.starts_with('#')).count(), 2);
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(
        left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')),
        "the record itself is removed"
    );
}

#[test]
fn communicators_of_the_same_ranks_are_told_apart_whichever_is_used_first() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    compiler::program(&root().join("cli/tests/fixtures/recorded_twins.c"), &program);
    let recorded = penny(&["record", "-o", "step", "-n", "2", "./program"], folder.path());
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let priced =
        penny(&["sim", "--workload", "step", "--fabric", "dgx-h100", "--json", "--calls"], folder.path());
    assert!(priced.status.success(), "{}", text(&priced.stderr));
    let mut blocks: Vec<_> = text(&priced.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["block_bytes"].as_u64())
        .collect();
    blocks.sort();
    assert_eq!(blocks, [64, 128, 4096]);
}

/// Two nodes of two mailboxes: unlike links, a launch that puts do not pay, messages that threads get in turn.
const MACHINE: &str = "name = \"m\"\nslice = \"0\"\nlaunch = \"3us\"\n[mailbox]\nthreads = 16\ncores = 2\ncycle = \"4.762ns\"\n\
                       [class.w]\nbw = \"7GB/s\"\nlat = \"411ns\"\npost = \"90ns\"\n[class.n]\nbw = \"3GB/s\"\nlat = \"1.7us\"\n\
                       mtu = \"1500B\"\nhdr = \"38B\"\n[nodes]\nplaces = 2\nnodes = 2\ninside = \"w\"\nnic = \"n\"\n";

#[test]
fn one_sided_access_and_mailboxes_cost_in_a_workload_what_they_cost_ranks_that_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::write(folder.path().join("m.toml"), MACHINE).unwrap();
    compiler::program(&root().join("cli/tests/fixtures/one_sided_program.c"), &program);
    let run = ["run", "-n", "4", "--fabric", "m.toml", "./program"];
    let live = penny(&run, folder.path());
    assert!(live.status.success(), "{}", text(&live.stderr));
    let clocks: Vec<u64> = text(&live.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(clocks.len(), 4, "{}", text(&live.stdout));
    for form in [&["--json"][..], &[]] {
        let record = [&["record", "-o", "step", "-n", "4"], form, &["./program"]].concat();
        let recorded = penny(&record, folder.path());
        assert!(recorded.status.success(), "{}", text(&recorded.stderr));
        let file = if form.is_empty() { "step.0.et" } else { "step.0.json" };
        let sim = ["sim", "--workload", file, "--fabric", "m.toml", "--compute", "scale=0", "--json"];
        let priced = penny(&sim, folder.path());
        assert!(priced.status.success(), "{}", text(&priced.stderr));
        let row: Value = serde_json::from_str(text(&priced.stdout).trim()).unwrap();
        let ps = |which: &str| (row["total_us"][which].as_f64().unwrap() * 1e6).round() as u64;
        let range = [clocks.iter().min().copied(), clocks.iter().max().copied()];
        assert_eq!([Some(ps("min")), Some(ps("max"))], range, "{form:?}: {clocks:?}");
    }
}

#[test]
fn programs_that_fail_or_record_nothing_leave_no_workload() {
    let folder = tempfile::tempdir().unwrap();
    let failed = penny(&["record", "-o", "step", "-n", "2", "sh", "-c", "exit 3"], folder.path());
    assert_eq!(failed.status.code(), Some(3));
    assert!(text(&failed.stderr).contains("no workload is written"), "{}", text(&failed.stderr));
    let silent = penny(&["record", "-o", "step", "-n", "2", "true"], folder.path());
    assert!(
        !silent.status.success() && text(&silent.stderr).contains("made no call of Penny"),
        "{}",
        text(&silent.stderr)
    );
    let nowhere = penny(&["record", "-o", "no/such/step", "-n", "2", "true"], folder.path());
    assert!(text(&nowhere.stderr).contains("--output no/such/step"), "{}", text(&nowhere.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
