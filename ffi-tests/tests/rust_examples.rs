//! The Rust examples and the program in the README: each prints what it promises.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use penny_ffi_tests::{library, profile_dir, ranks, root};

/// Builds an example of the library's package.
fn example(name: &str) -> PathBuf {
    let built = profile_dir();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "penny", "--example", name, "--profile", &library::profile()])
        .arg("--target-dir")
        .arg(built.parent().expect("target/<profile>"))
        .current_dir(root())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the example {name} does not build");
    built.join("examples").join(name)
}

/// What the head of an example promises for some number of ranks.
fn promise(name: &str) -> String {
    let text = fs::read_to_string(root().join("examples").join(name).with_extension("rs")).unwrap();
    let promise = text.lines().find_map(|line| line.strip_prefix("//! prints `")).expect("a promise");
    promise.split('`').next().expect("its end").to_owned()
}

#[test]
fn all_reduce_prints_what_its_head_promises() {
    let said = ranks::run(&example("all_reduce"), root(), 2, &[]);
    assert_eq!(said, [promise("all_reduce") + "\n", String::new()]);
}

#[test]
fn the_ring_by_hand_sums_as_the_library_does() {
    let program = example("ring");
    let said = ranks::run(&program, root(), 3, &[]);
    assert_eq!(said, [promise("ring") + "\n", String::new(), String::new()]);
    ranks::run(&program, root(), 1, &[]);
}

#[test]
fn the_readmes_rust_program_is_the_example() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let shown =
        readme.split("```rust\n").nth(1).and_then(|text| text.split("```").next()).expect("a program");
    let example = fs::read_to_string(root().join("examples/all_reduce.rs")).unwrap();
    assert!(example.contains(shown.trim_start()), "the README's program is not examples/all_reduce.rs");
}
