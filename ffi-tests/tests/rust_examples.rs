//! The Rust examples and the program in the README: each prints what it promises.

use std::fs;
use std::path::Path;

use penny_ffi_tests::{ranks, root};

/// What the head of an example promises for some number of ranks.
fn promise(name: &str) -> String {
    let text = fs::read_to_string(root().join("examples").join(name).with_extension("rs")).unwrap();
    let promise = text.lines().find_map(|line| line.strip_prefix("//! prints `")).expect("a promise");
    promise.split('`').next().expect("its end").to_owned()
}

#[test]
fn all_reduce_prints_what_its_head_promises() {
    let said = ranks::run(Path::new(env!("CARGO_BIN_EXE_example-all-reduce")), root(), 2, &[]);
    assert_eq!(said, [promise("all_reduce") + "\n", String::new()]);
}

#[test]
fn the_ring_by_hand_sums_as_the_library_does() {
    let program = Path::new(env!("CARGO_BIN_EXE_example-ring"));
    let said = ranks::run(program, root(), 3, &[]);
    assert_eq!(said, [promise("ring") + "\n", String::new(), String::new()]);
    ranks::run(program, root(), 1, &[]);
}

#[test]
fn the_readmes_rust_program_is_the_example() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let shown =
        readme.split("```rust\n").nth(1).and_then(|text| text.split("```").next()).expect("a program");
    let example = fs::read_to_string(root().join("examples/all_reduce.rs")).unwrap();
    assert!(example.contains(shown.trim_start()), "the README's program is not examples/all_reduce.rs");
}
