//! compat/time/c: programs of C and C++ that run with the library before libc.

use penny_ffi_tests::{compiler, library, root};
use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name)
}

/// Builds and runs a program; what it said.
#[track_caller]
fn holds(name: &str, environment: &[(&str, &Path)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    let mut compile = if name.ends_with(".cpp") { compiler::cxx() } else { compiler::cc() };
    compile.args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-D_GNU_SOURCE"]);
    compile.arg(if name.ends_with(".cpp") { "-std=c++17" } else { "-std=gnu11" });
    compile.arg("-I").arg(root().join("ffi-tests/c")).arg(source(name)).arg("-o").arg(&program);
    compiler::run(compile.args(["-lm", "-ldl"]));
    let time = library::dir_with_compat().join("libpenny_time.so");
    let mut command = Command::new(&program);
    command.env_remove("PENNY_VIRTUAL_TIME_IN").env("LD_PRELOAD", time).envs(environment.iter().copied());
    compiler::run(&mut command)
}

fn library_of_others(to: &Path) -> PathBuf {
    let library = to.join("libothers.so");
    compiler::run(compiler::cc().args(["-shared", "-fPIC"]).arg(source("library.c")).arg("-o").arg(&library));
    library
}

#[test]
fn clocks_stand_while_a_program_computes_and_move_with_its_sleeps() {
    let dir = tempfile::tempdir().unwrap();
    let others = library_of_others(dir.path());
    let said = holds("clocks.c", &[("TEST_LIBRARY", &others)]);
    assert!(said.ends_with("libraries_have_this_machines_time\n"), "{said}");
    let named = Path::new("libfirst:libothers");
    holds("clocks.c", &[("TEST_LIBRARY", &others), ("PENNY_VIRTUAL_TIME_IN", named)]);
}

#[test]
fn the_library_of_cpp_tells_its_caller_the_same() {
    holds("chrono.cpp", &[]);
}

#[test]
fn a_library_of_mpi_that_a_module_has_for_itself_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let shared = |name: &str, options: &[&str]| {
        let library = dir.path().join(name);
        let mut compile = compiler::cc();
        compile.args(["-shared", "-fPIC"]).arg(source("mpi.c")).args(options).arg("-o").arg(&library);
        compiler::run(compile.arg("-L").arg(dir.path()).arg("-Wl,-rpath,$ORIGIN"));
        library
    };
    shared("libmpi_of_nobody.so", &["-DMPI"]);
    let module = shared("module.so", &["-DMODULE", "-Wl,--no-as-needed", "-lmpi_of_nobody"]);
    assert_eq!(holds("mpi.c", &[("TEST_LIBRARY", &module)]), "scattered: 42\n");
}
