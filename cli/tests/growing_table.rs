//! `penny sim` prints its table as it grows, and ends where nobody reads it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A sweep whose last size takes minutes: 50 calls in succession of 2 million messages each.
const LONG: &str =
    "sim all_reduce --fabric t3000 -b 1K -e 32M -f 32768 --slice 64 --algorithm tree --iters 50";

fn penny(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    command.args(line.split_whitespace()).stderr(Stdio::piped());
    command
}

#[test]
fn the_row_of_a_size_is_there_before_the_next_size_is_priced() {
    let mut child = penny(LONG).stdout(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = rows.find(|row| !row.starts_with('#'));
    let is_over = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(first.unwrap().split_whitespace().next(), Some("1024"));
    assert!(!is_over);
}

#[test]
fn a_sweep_that_nobody_reads_ends_at_its_first_line() {
    for line in [LONG, "sim all_reduce --fabric t3000 -b 1K -e 1M --json"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = penny(line).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    }
}

#[test]
fn a_drawing_is_written_also_where_nobody_reads_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let line =
        format!("sim all_reduce --fabric t3000 -b 1K -e 4K --algorithm ring --plot {}", file.display());
    let output = penny(&line).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    // A marker for each of three sizes in each of two charts, and one at the name.
    assert_eq!(std::fs::read_to_string(&file).unwrap().matches("<polygon").count(), 7);
}
