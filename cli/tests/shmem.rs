//! The benchmark of one-sided access: what its table holds, and the heap under random operations. No time is judged.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use penny_bench::shmem::Report;

fn shmem(options: &str) -> Output {
    let line = format!("perf shmem --timeout 3600 {options}");
    Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn everything_is_measured_beside_its_counterpart_and_nothing_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shmem.json");
    let output = shmem(&format!("-b 8 -e 4096 -f 8 --rounds 2 --json {}", file.display()));
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let report: Report = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report.wrong, 0);
    let found: BTreeSet<(&str, usize)> =
        report.rows.iter().map(|row| (row.measure.as_str(), row.bytes)).collect();
    let words =
        ["put_signal_round_trip", "put_quiet", "signal", "fetch_add", "fetch_add_contended", "compare_swap"];
    let blocks = [8, 64, 512, 4096].into_iter().flat_map(|bytes| [("put", bytes), ("get", bytes)]);
    for expected in words.map(|name| (name, 8)).into_iter().chain(blocks) {
        assert!(found.contains(&expected), "{expected:?} is not in the table");
    }
    for row in &report.rows {
        assert!(row.time.quartile_ns > 0.0 && row.time.quartile_ns <= row.time.median_ns, "{row}");
        assert!(!row.beside.is_empty() && row.beside.iter().all(|beside| beside.ratio > 0.0), "{row}");
    }
    // The table that people read has a line for each, and its foot.
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().filter(|line| !line.starts_with('#')).count(), report.rows.len(), "{shown}");
    assert!(shown.contains("0 OK"), "{shown}");
}

#[test]
fn the_heap_keeps_its_blocks_apart_and_whole_under_random_operations() {
    let operations =
        if std::env::var_os("PENNY_LONG").is_some_and(|v| v == "1") { 10_000_000 } else { 10_000 };
    let output = shmem(&format!("--heap-operations {operations} -n 4"));
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.starts_with(&format!("OK: {operations} heap operations on each of 4 ranks")), "{said}");
    assert!(said.contains("0 wrong, 0 blocks of 0 bytes leaked"), "{said}");
    assert!(said.contains("fragmentation"), "{said}");
}

#[test]
fn three_ranks_are_refused_before_any_starts() {
    let output = shmem("-n 3");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("between 2 ranks"), "{}", text(&output.stderr));
}
