//! c/table.c: threads with several ranks each, in one process and in two, on streams of Penny's CUDA runtime.

use super::{dir, program};
use penny_ffi_tests::{ranks, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles c/NAME.c against Penny's CUDA runtime too.
pub fn with_runtime(name: &str, to: &Path) -> PathBuf {
    let include = root().join("compat/cudart/include");
    program(name, to, &["-DPENNY_NCCL_MINOR=30", "-I", include.to_str().unwrap(), "-lcudart", "-lm"])
}

/// The variables of the program: a device for each rank of a process.
fn variables(shapes: &str) -> [(&'static str, &str); 3] {
    [("TEST_SHAPES", shapes), ("PENNY_DEVICES", "16"), ("LD_LIBRARY_PATH", dir().to_str().unwrap())]
}

#[track_caller]
fn holds(processes: usize, shapes: &str) {
    let to = tempfile::tempdir().unwrap();
    let program = with_runtime("table", to.path());
    let all: Vec<&str> = shapes.split(' ').collect();
    for said in ranks::run(&program, to.path(), processes, &variables(shapes)) {
        assert_eq!(said.lines().collect::<Vec<_>>(), all);
    }
}

/// Whether all arrangements of up to 32 ranks are tried, which takes minutes.
pub fn is_long() -> bool {
    std::env::var("PENNY_LONG").is_ok_and(|long| long == "1")
}

const ALL: &str = "1x1 1x2 1x3 1x4 2x1 2x2 2x3 2x4 3x1 3x2 3x3 3x4 4x1 4x2 4x3 4x4";

#[test]
fn threads_with_several_ranks_in_one_process_get_the_results_of_the_table() {
    holds(1, if is_long() { ALL } else { "1x1 1x2 2x1 1x3 2x2 1x4 4x1" });
}

#[test]
fn threads_with_several_ranks_in_two_processes_get_the_results_of_the_table() {
    holds(2, if is_long() { ALL } else { "1x1 1x2 2x1 2x2" });
}

#[test]
fn planted_faults_are_found_by_the_table() {
    let to = tempfile::tempdir().unwrap();
    let program = with_runtime("table", to.path());
    for (fault, finds) in [
        ("input", "AllReduce of type 0, sum, 2x2, root 1: element 0 of 1 of rank"),
        ("result", "AllReduce of type 0, sum, 2x2, root 1: element 0 of 1 of rank 0"),
        ("guard", "AllReduce: rank 0 has bytes beside its result"),
        ("root", "Reduce"),
        ("scalar", "AllReduce of type 0, premulsum"),
    ] {
        let mut command = Command::new(&program);
        command.envs(variables("2x2")).env("TEST_FAULT", fault).env("TEST_DIR", to.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains(finds),
            "{fault}: {}: {said}",
            output.status
        );
        std::fs::remove_file(to.path().join("id0")).unwrap();
    }
}
