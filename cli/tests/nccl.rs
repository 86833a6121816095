//! `penny run --nccl`: a program of NCCL and CUDA's runtime, linked with them or loading them.

use penny_ffi_tests::{compiler, library, root};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Puts the command into a folder. It is linked: another test may start a process while a copy is still open to be written, and then
/// the copy cannot be run.
fn put_command(folder: &Path) {
    std::fs::hard_link(env!("CARGO_BIN_EXE_penny"), folder.join("penny")).unwrap();
}

/// A folder on the command's file system.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A folder as Penny is installed: bin/penny, and the libraries in lib.
fn installed() -> tempfile::TempDir {
    let dir = folder();
    let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&lib).unwrap();
    put_command(&bin);
    let link = |built: &Path, file: &str, names: &[&str]| {
        for name in names {
            std::fs::copy(built.join(file), lib.join(name)).unwrap();
        }
    };
    let built = library::dir_with_compat();
    link(built, "libpenny.so", &[library::SONAME]);
    link(built, "libnccl.so", &["libnccl.so", "libnccl.so.2"]);
    link(built, "libcudart.so", &["libcudart.so", "libcudart.so.12"]);
    dir
}

#[test]
fn a_program_of_nccl_runs_linked_or_loading() {
    let dir = installed();
    let lib = dir.path().join("lib");
    for (name, options) in [("linked", &["-lnccl", "-lcudart"][..]), ("loading", &["-DLOADED", "-ldl"])] {
        let program = dir.path().join(name);
        compile("nccl_program.c", &lib, options, &program);
        let run = |options: &[&str]| {
            let mut command = Command::new(dir.path().join("bin/penny"));
            command.args(["run", "-n", "2", "--timeout", "60"]).args(options).arg(&program);
            command.env_remove("LD_LIBRARY_PATH").output().unwrap()
        };
        let output = run(&["--nccl"]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out == "summed\nsummed\n", "{name}: {out}{err}");
        let output = run(&[]);
        assert!(
            !output.status.success(),
            "{name} finds the libraries without --nccl, so the test shows nothing"
        );
    }
}

#[test]
fn a_declared_machine_has_a_device_for_each_place() {
    let dir = installed();
    let program = dir.path().join("devices");
    compile("nccl_devices.c", &dir.path().join("lib"), &["-lcudart"], &program);
    for (machine, set, devices) in [
        ("dgx-h100:nodes=2", None, 16),
        ("dgx-h100", None, 8),
        ("dgx-h100:nodes=2,places=2", None, 8),
        ("dgx-h100:nodes=2", Some("3"), 3),
    ] {
        let mut command = Command::new(dir.path().join("bin/penny"));
        command.args(["run", "-n", "1", "--fabric", machine, "--nccl"]).arg(&program);
        command.env_remove("PENNY_DEVICES").envs(set.map(|set| ("PENNY_DEVICES", set)));
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(out, format!("{devices} devices\n"), "{machine}: {output:?}");
    }
}

/// Compiles a program of the fixtures against the libraries of a folder.
fn compile(source: &str, lib: &Path, options: &[&str], program: &Path) {
    let mut compile = compiler::cc();
    compile.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]);
    for include in ["compat/nccl/include", "compat/cudart/include"] {
        compile.arg("-I").arg(root().join(include));
    }
    compile.arg(root().join("cli/tests/fixtures").join(source)).arg("-o").arg(program);
    compile.arg("-L").arg(lib).arg(format!("-Wl,-rpath-link,{}", lib.display())).args(options);
    compiler::run(&mut compile);
}

/// The sizes in bytes that the benchmark is asked for, the first once more at the end.
const SIZES: [&str; 4] = ["8", "65536", "1048576", "8"];

/// Runs the benchmark of NCCL on two hosts; the longest time in nanoseconds of its processes, for each size.
fn on_two_hosts(dir: &Path, algorithm: &str, each: u32, ranks: u32, iters: u32) -> Vec<u64> {
    let (met, rsh) = (tempfile::tempdir().unwrap(), dir.join("rsh"));
    std::fs::write(&rsh, "#!/bin/sh\nhost=$1; shift; PENNY_HOST_ID=$host exec sh -c \"$*\"\n").unwrap();
    std::fs::set_permissions(&rsh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(dir.join("bin/penny"));
    command.args(["run", "--timeout", "300", "--fabric", FABRIC, "--virtual-time", "--nccl"]);
    command.args(["--hosts", &format!("a:{each},b:{each}"), "--master", "127.0.0.1", "--rsh"]).arg(&rsh);
    command.args(["--env", "PENNY_DEVICES=8"]);
    command.args(["--env", &format!("PENNY_ALGO={algorithm}")]).arg(dir.join("benchmark")).arg(met.path());
    let output = command.args([ranks.to_string(), iters.to_string()]).args(SIZES).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{algorithm}: {out}{err}");
    let times_of = |bytes: &str| {
        let line = |line: &str| Some(line.strip_prefix(bytes)?.strip_prefix(' ')?.parse::<u64>().unwrap());
        out.lines().filter_map(line).collect::<Vec<_>>()
    };
    let longest = |bytes: &&str| {
        let all = times_of(bytes);
        assert_eq!(all.len() as u32, 2 * each * if *bytes == "8" { 2 } else { 1 }, "{out}");
        all.into_iter().max().unwrap()
    };
    SIZES[..3].iter().map(longest).collect()
}

const FABRIC: &str = "dgx-h100:nodes=2";

/// An unmodified benchmark sees the declared machine from two hosts: what its processes print is what the simulator prices.
#[test]
fn a_benchmark_of_nccl_on_two_hosts_tells_what_the_simulator_tells() {
    let dir = installed();
    let lib = dir.path().join("lib");
    std::fs::copy(library::dir_with_compat().join("libpenny_time.so"), lib.join("libpenny_time.so")).unwrap();
    compile("nccl_benchmark.c", &lib, &["-lnccl", "-lcudart"], &dir.path().join("benchmark"));
    // In a tree each rank is done at a time of its own, and so is each host.
    for (algorithm, each, ranks, iters) in [("auto", 1, 8, 3u32), ("tree", 1, 8, 1), ("tree", 2, 4, 2)] {
        let told = on_two_hosts(dir.path(), algorithm, each, ranks, iters);
        for (bytes, ns) in SIZES.iter().zip(told) {
            let mut sim = Command::new(dir.path().join("bin/penny"));
            sim.args([
                "sim",
                "all_reduce",
                "--json",
                "--fabric",
                FABRIC,
                "--algorithm",
                algorithm,
                "-b",
                bytes,
            ]);
            let output = sim.args(["-n", "16", "--iters", &iters.to_string()]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let (_, rest) = text.split_once("\"time_ps\":").expect("a time");
            let all_ps =
                rest[..rest.find(',').expect("more follows")].parse::<u64>().unwrap() * u64::from(iters);
            // The simulator's time is that of one call, in whole picoseconds; a clock tells whole nanoseconds, rounded up.
            let off_ps = u64::from(iters);
            let range = all_ps.saturating_sub(off_ps).div_ceil(1000)..=(all_ps + off_ps).div_ceil(1000);
            assert!(
                range.contains(&ns),
                "{algorithm}, {each} processes a host, {bytes} B: {ns} ns, {range:?} simulated"
            );
        }
    }
}

/// Ranks on two nodes are done at different times, and the thread that asks their streams acts all the while.
#[test]
fn one_thread_asks_the_streams_of_ranks_that_are_done_one_after_the_other() {
    let dir = installed();
    let (lib, program) = (dir.path().join("lib"), dir.path().join("gather"));
    std::fs::copy(library::dir_with_compat().join("libpenny_time.so"), lib.join("libpenny_time.so")).unwrap();
    compile("nccl_gather.c", &lib, &["-lnccl", "-lcudart"], &program);
    let mut command = Command::new(dir.path().join("bin/penny"));
    command.args(["run", "-n", "1", "--timeout", "60", "--fabric", FABRIC, "--virtual-time", "--nccl"]);
    // No rank is ever taken for one that is away.
    command.env("PENNY_FABRIC_GRACE", "0").env("PENNY_DEVICES", "9").arg(program).args(["9", "1000"]);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out == "gathered\n", "{out}{err}");
}

#[test]
fn where_the_libraries_are_missing_the_refusal_says_how_to_build_them() {
    let dir = folder();
    put_command(dir.path());
    let output =
        Command::new(dir.path().join("penny")).args(["run", "-n", "1", "--nccl", "true"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("cargo build --release -p penny-nccl"), "{err}");
}
