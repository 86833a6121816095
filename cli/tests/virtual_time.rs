//! `penny run --virtual-time`: programs that know nothing of declared machines read the machine's time from their clocks.

use penny_ffi_tests::{compiler, library, root};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A folder as Penny is installed: bin/penny, and the libraries in lib. On the command's file system; the command is linked, since another
/// test may start a process while a copy is still open to be written.
fn installed() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        let (bin, lib) = (dir.join("bin"), dir.join("lib"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&lib).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_penny"), bin.join("penny")).unwrap();
        let time = library::dir_with_compat();
        std::fs::copy(time.join("libpenny_time.so"), lib.join("libpenny_time.so")).unwrap();
        dir
    })
}

/// Compiles a program of the fixtures against the library of this build.
fn program(source: &str, to: &Path) -> PathBuf {
    let program = to.join(source.trim_end_matches(".c"));
    compiler::program_by(
        compiler::cc().args(["-std=gnu11", "-pthread"]),
        &root().join("cli/tests/fixtures").join(source),
        &program,
    );
    program
}

fn penny(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(installed().join("bin/penny"));
    command.args(arguments).envs(environment.iter().copied()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the benchmark; the longest time in nanoseconds of its drivers, for each size.
#[track_caller]
fn measured(
    program: &Path,
    fabric: &str,
    algorithm: &str,
    by: &str,
    ranks: u32,
    iters: u32,
    bytes: &[&str],
) -> BTreeMap<u64, u64> {
    let (ranks, iters) = (ranks.to_string(), iters.to_string());
    let run = ["run", "-n", "1", "--timeout", "300", "--fabric", fabric, "--virtual-time"];
    let arguments = [&run[..], &[program.to_str().unwrap(), by, &ranks, &iters], bytes].concat();
    let output = penny(&arguments, &[("PENNY_ALGO", algorithm)]);
    assert!(output.status.success(), "{fabric}, {algorithm}, {by}: {}", text(&output));
    let mut longest = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (bytes, ns) = line.split_once(' ').expect("two numbers");
        let entry = longest.entry(bytes.parse().unwrap()).or_insert(0);
        *entry = ns.parse::<u64>().unwrap().max(*entry);
    }
    longest
}

/// Returns the simulator's time of one call in picoseconds: the mean of `iters` calls.
fn simulated(fabric: &str, algorithm: &str, ranks: u32, iters: u32, bytes: &str) -> Option<u64> {
    let (ranks, iters) = (ranks.to_string(), iters.to_string());
    let sim = ["sim", "all_reduce", "--json", "--fabric", fabric, "--algorithm", algorithm, "-b", bytes];
    let output = penny(&[&sim[..], &["-n", &ranks, "--iters", &iters]].concat(), &[]);
    output.status.success().then(|| {
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, rest) = text.split_once("\"time_ps\":").expect("a time");
        rest[..rest.find(',').expect("more follows")].parse().expect("a number")
    })
}

/// A clock tells whole nanoseconds.
#[track_caller]
fn assert_told(
    fabric: &str,
    algorithm: &str,
    by: &str,
    ranks: u32,
    iters: u32,
    sizes: &[&str],
    program: &Path,
) -> bool {
    let simulated = |bytes: &&str| simulated(fabric, algorithm, ranks, iters, bytes);
    let Some(expected) = sizes.iter().map(simulated).collect::<Option<Vec<_>>>() else { return false };
    let measured = measured(program, fabric, algorithm, by, ranks, iters, sizes);
    for (bytes, expected) in sizes.iter().zip(expected) {
        let all_ns = measured[&bytes.parse().unwrap()];
        let told = all_ns * 1000 / u64::from(iters);
        assert!(
            told.abs_diff(expected) <= 1000,
            "{fabric}, {algorithm}, {by}, {iters} calls of {bytes} B: {told} ps by the program's clock, {expected} ps simulated"
        );
    }
    true
}

const ALGORITHMS: &str = "ring ring_reverse ring_pair simple_ring tree one_shot two_shot meet_in_middle line \
                          alternating_rings hierarchical torus mailbox rail_trees";

#[test]
fn a_benchmark_tells_what_the_simulator_tells_with_every_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let program = program("benchmark.c", dir.path());
    let mut served = 0;
    for algorithm in ALGORITHMS.split_whitespace() {
        served += usize::from(assert_told("dgx-h100", algorithm, "one", 4, 3, &["65536"], &program));
    }
    assert!(served >= 8, "{served} algorithms serve the call");
    assert!(assert_told("dgx-h100", "auto", "one", 4, 1, &["8", "65536"], &program));
    assert!(assert_told("dgx-h100:as=nccl", "auto", "one", 4, 2, &["8", "65536"], &program));
}

#[test]
fn it_tells_the_same_whoever_drives_the_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let program = program("benchmark.c", dir.path());
    for by in ["threads", "processes"] {
        // In a tree and in a simple ring each rank is done at a time of its own.
        for algorithm in ["tree", "simple_ring"] {
            assert!(assert_told("dgx-h100", algorithm, by, 3, 1, &["8", "65536", "8"], &program));
            assert!(assert_told("dgx-h100", algorithm, by, 3, 5, &["65536"], &program));
        }
    }
}

#[test]
fn penny_keeps_its_deadline_by_the_real_clock() {
    let dir = tempfile::tempdir().unwrap();
    let program = program("lonely.c", dir.path());
    let run = ["run", "-n", "2", "--timeout", "100", "--fabric", "dgx-h100", "--virtual-time"];
    let arguments = [program.to_str().unwrap(), dir.path().join("over").to_str().unwrap()].map(str::to_owned);
    let arguments = arguments.each_ref().map(String::as_str);
    let output = penny(&[&run[..], &arguments].concat(), &[("PENNY_TIMEOUT", "1")]);
    let text = text(&output);
    assert!(
        output.status.success() && text.contains("0 ns by the clock: ") && text.contains("PENNY_TIMEOUT"),
        "{text}"
    );
}

/// The calls of each rank's trace, and the microseconds of its computing.
fn recorded(prefix: &Path, ranks: u32) -> Vec<(Vec<String>, f64)> {
    let of_rank = |rank: u32| {
        let text = std::fs::read_to_string(prefix.with_extension(format!("{rank}.json"))).unwrap();
        let nodes = text.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let (computing, calls): (Vec<_>, Vec<_>) = nodes.partition(|node| node["name"] == "compute");
        let micros = |node: &serde_json::Value| match &node["durationMicros"] {
            serde_json::Value::String(text) => text.parse().unwrap(),
            number => number.as_f64().unwrap(),
        };
        let names = calls.iter().map(|node| node["name"].as_str().unwrap().to_owned());
        (names.collect(), computing.iter().map(micros).sum())
    };
    (0..ranks).map(of_rank).collect()
}

#[test]
fn a_record_has_the_same_calls_and_this_machines_computing_where_clocks_tell_the_cluster_s() {
    let dir = tempfile::tempdir().unwrap();
    let program = program("recorded_program.c", dir.path());
    let record = |name: &str, more: &[&str]| {
        let prefix = dir.path().join(name);
        let line = ["record", "--json", "-n", "4", "--fabric", "t3000", "-o", prefix.to_str().unwrap()];
        let output = penny(&[&line[..], more, &[program.to_str().unwrap()]].concat(), &[]);
        assert!(output.status.success(), "{more:?}: {}", text(&output));
        recorded(&prefix, 4)
    };
    let usual = record("usual", &[]);
    for by in ["core", "clock"] {
        let virtually = record(by, &["--virtual-time", "--time", by]);
        for ((calls, _), (own, micros)) in usual.iter().zip(&virtually) {
            assert_eq!(calls, own, "--time {by}");
            // The cluster's clock does not move while a program computes.
            assert!(*micros >= 1.0, "--time {by}: computing took {micros} us");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let output = penny(&["run", "-n", "1", "--virtual-time", "true"], &[]);
    assert!(!output.status.success() && text(&output).contains("--fabric"), "{}", text(&output));

    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::hard_link(env!("CARGO_BIN_EXE_penny"), alone.path().join("penny")).unwrap();
    let run = ["run", "-n", "1", "--fabric", "dgx-h100", "--virtual-time", "true"];
    let output = Command::new(alone.path().join("penny")).args(run).output().unwrap();
    assert!(
        !output.status.success() && text(&output).contains("cargo build --release -p penny-time"),
        "{}",
        text(&output)
    );

    // Penny is a part of the program: its looks at the clock are not to be told from the program's.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("static");
    let mut compile = compiler::cc();
    compile.args(["-std=gnu11", "-pthread"]).arg("-I").arg(root().join("include"));
    compile.arg(root().join("cli/tests/fixtures/benchmark.c")).arg(library::dir().join("libpenny.a"));
    compiler::run(compile.args(["-lm", "-ldl", "-lutil", "-lrt", "-o"]).arg(&program));
    let run = ["run", "-n", "1", "--fabric", "dgx-h100", "--virtual-time"];
    let output = penny(&[&run[..], &[program.to_str().unwrap(), "one", "1", "1", "8"]].concat(), &[]);
    assert!(
        !output.status.success() && text(&output).contains("link the shared library"),
        "{}",
        text(&output)
    );
}
