//! The library as programs of NCCL use it: C programs of c/, compiled against include/nccl.h. One test program, so that they run beside
//! one another.

mod debug;
mod kill;
mod library;
mod programs;
mod python;
mod table;
mod words;

use penny_ffi_tests::library::dir_with_compat as dir;
use penny_ffi_tests::{compiler, ranks};
use std::path::{Path, PathBuf};

/// The directory of the package.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles c/NAME.c with further options.
#[track_caller]
fn program(name: &str, to: &Path, options: &[&str]) -> PathBuf {
    let source = package().join("c").join(name).with_extension("c");
    // The old form of the tag, which comes before LD_LIBRARY_PATH: cargo sets that to a folder that may hold an older library.
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", dir().display());
    let program = to.join(name);
    let mut compile = compiler::cc();
    compile.args(compiler::STRICT).args(["-std=c11", "-O1", "-pthread", "-rdynamic", "-I"]);
    let root = penny_ffi_tests::root();
    compile.arg(package().join("include"));
    compile.arg("-I").arg(root.join("include")).arg("-I").arg(root.join("ffi-tests/c"));
    compile.arg(&source).arg("-o").arg(&program).arg("-L").arg(dir()).arg(rpath).args(options);
    compiler::run(compile.args(["-lnccl", "-lpenny", "-ldl"]));
    program
}

/// Runs c/NAME.c as that many processes; what each printed.
#[track_caller]
fn run(name: &str, on: usize, options: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    let to = tempfile::tempdir().unwrap();
    let program = program(name, to.path(), options);
    let path = dir().to_str().unwrap();
    // The libraries find each other by LD_LIBRARY_PATH too: the one of cargo may hold an older Penny.
    let env: Vec<_> = env.iter().copied().chain([("LD_LIBRARY_PATH", path)]).collect();
    ranks::run(&program, to.path(), on, &env)
}

/// The same, where every process prints the cases that it ran.
#[track_caller]
fn holds(name: &str, on: &[usize], options: &[&str], env: &[(&str, &str)]) {
    for &on in on {
        let said = run(name, on, options, env);
        assert!(
            said.iter().all(|text| text.lines().count() > 0 && text == &said[0]),
            "every rank runs every case: {said:?}"
        );
    }
}
