//! The Python package: its tests, its formatting and its types, with the library and the launcher of this build.
//!
//! They need the environment that `.ci/python` makes. Without it they are skipped with a line that says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use penny_ffi_tests::{library, root};

/// The interpreter of the environment that `.ci/python` has made, if it has.
fn interpreter() -> Option<PathBuf> {
    let found = Command::new(root().join(".ci/python")).arg("--find").output().expect(".ci/python runs");
    if !found.status.success() {
        // Not by println!, whose output a test that passes keeps to itself.
        let told = writeln!(
            std::io::stderr(),
            "\nSKIPPED: the tests of the Python package have no environment: `.ci/python` makes it"
        );
        told.expect("stderr can be written to");
        return None;
    }
    let place = String::from_utf8(found.stdout).expect("a path");
    Some(Path::new(place.trim_end()).join("bin/python"))
}

/// The packages of the frameworks, for tests that run where PENNY_TORCH_FRAMEWORKS is 1.
fn frameworks() -> Option<PathBuf> {
    let wanted = std::env::var("PENNY_TORCH_FRAMEWORKS").is_ok_and(|value| value == "1");
    wanted.then(|| {
        let found = Command::new(root().join(".ci/packages"))
            .args(["python/requirements-frameworks.txt", "--find"])
            .output()
            .expect(".ci/packages runs");
        assert!(found.status.success(), "first run .ci/packages python/requirements-frameworks.txt");
        PathBuf::from(String::from_utf8(found.stdout).expect("a path").trim_end())
    })
}

/// Runs a module of Python in `python/` with further variables; its output is shown if it fails.
#[track_caller]
fn run(python: &Path, arguments: &[&str], variables: &[(&str, PathBuf)]) {
    let done = Command::new(python)
        .args(arguments)
        .current_dir(root().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .output()
        .expect("python runs");
    let told = String::from_utf8_lossy(&done.stdout);
    println!("{told}");
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "python {}:\n{told}\n{complaint}", arguments.join(" "));
}

/// Runs those of its tests that `chosen` names, with the library and the launcher of this build.
#[track_caller]
fn passes(chosen: &[&str]) {
    if let Some(python) = interpreter() {
        let mut build = vec![
            ("PENNY_LIBRARY", library::dir().join("libpenny.so")),
            ("PENNY_COMMAND", PathBuf::from(env!("CARGO_BIN_EXE_penny"))),
        ];
        build.extend(frameworks().map(|place| ("PYTHONPATH", place)));
        run(&python, &[&["-m", "pytest", "-q", "--tb=short"], chosen].concat(), &build);
    }
}

// Its processes import torch for most of their time, so half of the tests run beside the other half.

#[test]
fn the_python_package_passes_its_tests() {
    passes(&["--ignore=tests/torch"]);
}

#[test]
fn the_torch_backend_passes_its_tests() {
    passes(&["tests/torch"]);
}

#[test]
fn the_python_package_is_formatted_and_typed() {
    if let Some(python) = interpreter() {
        run(&python, &["-m", "ruff", "format", "--check", "--no-cache", "."], &[]);
        run(&python, &["-m", "ruff", "check", "--no-cache", "."], &[]);
        run(&python, &["-m", "mypy", "--cache-dir=/dev/null"], &[]);
    }
}
