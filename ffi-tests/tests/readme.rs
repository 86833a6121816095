//! The program in the README: builds without a warning and prints what is promised below it.

use std::fs;

use penny_ffi_tests::{compiler, ranks, root};

#[test]
fn the_readmes_program_prints_what_it_promises() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```c\n").expect("a program in C");
    let (program, rest) = rest.split_once("```").expect("its end");
    let promised = rest.split("prints `").nth(1).and_then(|text| text.split('`').next()).expect("a promise");
    let dir = tempfile::tempdir().unwrap();
    let (source, example) = (dir.path().join("example.c"), dir.path().join("example"));
    fs::write(&source, program).unwrap();
    compiler::program(&source, &example);
    assert_eq!(ranks::run(&example, dir.path(), 2, &[]), [format!("{promised}\n"), String::new()]);
}
