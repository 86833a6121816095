//! The Python package: its tests, its formatting and its types, with the library and the launcher of this build.
//!
//! They need the environment that `.ci/python` makes. Without it they are skipped with a line that says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use penny_ffi_tests::{library, root};

/// Says that a test does not run. Not by println!, whose output a test that passes keeps to itself.
fn skip(why: &str) {
    writeln!(std::io::stderr(), "\nSKIPPED: {why}").expect("stderr can be written to");
}

/// The interpreter of the environment that `.ci/python` has made, if it has.
fn interpreter() -> Option<PathBuf> {
    let found = Command::new(root().join(".ci/python")).arg("--find").output().expect(".ci/python runs");
    if !found.status.success() {
        skip("the tests of the Python package have no environment: `.ci/python` makes it");
        return None;
    }
    let place = String::from_utf8(found.stdout).expect("a path");
    Some(Path::new(place.trim_end()).join("bin/python"))
}

/// The folder in which `.ci/packages` has put the packages of a list, if it has.
fn packages(list: &str) -> Option<PathBuf> {
    let found = Command::new(root().join(".ci/packages")).args([list, "--find"]).output();
    let found = found.expect(".ci/packages runs");
    let place = String::from_utf8(found.stdout).expect("a path");
    found.status.success().then(|| PathBuf::from(place.trim_end()))
}

/// The packages of the frameworks, for tests that run where PENNY_TORCH_FRAMEWORKS is 1.
fn frameworks() -> Option<PathBuf> {
    const LIST: &str = "python/requirements-frameworks.txt";
    let wanted = std::env::var("PENNY_TORCH_FRAMEWORKS").is_ok_and(|value| value == "1");
    wanted.then(|| packages(LIST).unwrap_or_else(|| panic!("first run .ci/packages {LIST}")))
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

/// What a source distribution has of the checkout in its folder `rust`.
const WORKSPACE: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "bench",
    "build",
    "build.rs",
    "cli",
    "compat",
    "examples",
    "ffi-tests",
    "include",
    "install.sh",
    "src",
];

/// Runs a line of a shell in a folder, and returns what it prints.
#[track_caller]
fn in_shell(line: &str, folder: &Path) -> String {
    let done = Command::new("sh").args(["-c", line]).current_dir(folder).output().expect("sh runs");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{line}: {told}{}", String::from_utf8_lossy(&done.stderr));
    told
}

#[test]
fn the_source_distribution_has_the_whole_workspace_and_builds_itself() {
    const LIST: &str = "python/requirements-sdist.txt";
    let Some(python) = interpreter() else { return };
    let Some(packages) = packages(LIST) else {
        return skip(&format!(
            "the source distribution is not built: `.ci/packages {LIST}` gets its builder"
        ));
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (once, twice) = (folder.path().join("once"), folder.path().join("twice"));
    let builder = |place: &Path, to: &Path| {
        let built = Command::new(&python)
            .args(["-m", "hatchling", "build", "-t", "sdist", "-d"])
            .arg(to)
            .current_dir(place)
            .envs([("PYTHONDONTWRITEBYTECODE", "1".as_ref()), ("PYTHONPATH", packages.as_os_str())])
            .output()
            .expect("python runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        in_shell("tar -xzf *.tar.gz --strip-components 1 && tar -tzf *.tar.gz | sort", to)
    };
    let names = builder(&root().join("python"), &once);
    // From what was unpacked the same is built: who packs for a distribution has no checkout.
    assert_eq!(builder(&once, &twice), names);
    in_shell("diff -r -x '*.tar.gz' once twice", folder.path());
    // Cargo reads the manifests of all members, and looks for their programs.
    let whole = once.join("rust");
    let manifests = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(&whole)
        .output()
        .expect("cargo runs");
    assert!(manifests.status.success(), "{}", String::from_utf8_lossy(&manifests.stderr));
    for part in WORKSPACE {
        let same = Command::new("diff")
            .args(["-rq", "-x", "__pycache__"])
            .arg(root().join(part))
            .arg(whole.join(part))
            .output();
        let same = same.expect("diff runs");
        let told = String::from_utf8_lossy(&same.stdout);
        assert!(same.status.success(), "{part}: {told}{}", String::from_utf8_lossy(&same.stderr));
    }
}
