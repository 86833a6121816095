//! python/*.py: packages of Python that call NCCL, with the library of this build.
//!
//! They need the environment that `.ci/python` makes and the packages that `.ci/packages` puts beside it. Without them they are
//! skipped with a line that says so. CuPy, which is large, is tested where `PENNY_CUPY` is 1.

use super::{dir, package};
use penny_ffi_tests::{ranks, root};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// What a script of `.ci` has found. `None`: it found nothing.
fn found(script: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(root().join(".ci").join(script)).args(arguments).output().expect("bash runs");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("a path").trim_end().to_owned())
}

/// Runs python/SCRIPT.py as two processes with the packages of a file; each must print the same three lines.
fn holds(script: &str, pins: &str) {
    let pins = format!("compat/nccl/python/{pins}");
    let environment = found("python", &["--find"]);
    let Some((python, packages)) = environment.zip(found("packages", &[&pins, "--find"])) else {
        // Not by eprintln!, whose output a test that passes keeps to itself.
        let told = writeln!(
            std::io::stderr(),
            "\nSKIPPED: {script}.py has no packages: `.ci/python && .ci/packages {pins}` makes them"
        );
        return told.expect("stderr can be written to");
    };
    let to = tempfile::tempdir().unwrap();
    let program = to.path().join(script);
    let source = package().join("python").join(script).with_extension("py");
    let runs = format!("#!/bin/sh\nexec {python}/bin/python {}\n", source.display());
    fs::write(&program, runs).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // The environment may have NVIDIA's library too, which the packages would find first.
    let library = dir().join("libnccl.so.2");
    let runtime = dir().join("libcudart.so.12");
    let said = ranks::run(
        &program,
        to.path(),
        2,
        &[
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("LD_LIBRARY_PATH", dir().to_str().unwrap()),
            ("PYTHONPATH", &packages),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("TEST_CUDART", runtime.to_str().unwrap()),
        ],
    );
    assert!(said[0].lines().count() == 3 && said[1] == said[0], "{said:?}");
}

#[test]
fn nvidias_bindings_for_python_run_unchanged() {
    holds("with_nccl4py", "requirements-nccl4py.txt");
}

#[test]
fn cupys_module_runs_unchanged() {
    if std::env::var("PENNY_CUPY").is_ok_and(|cupy| cupy == "1") {
        return holds("with_cupy", "requirements-cupy.txt");
    }
    let told = writeln!(std::io::stderr(), "\nSKIPPED: CuPy's module of NCCL: PENNY_CUPY=1 tests it");
    told.expect("stderr can be written to");
}
