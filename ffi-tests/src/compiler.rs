//! The C and C++ compilers: `CC` and `CXX`, else `cc` and `c++`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Warnings are errors in everything that these tests compile.
pub const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The C compiler.
pub fn cc() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// The C++ compiler.
pub fn cxx() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
}

/// Is there a program of this name that runs?
pub fn exists(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs the command; its standard output. What it said is shown if it fails.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Compiles one C file against the library of this build.
#[track_caller]
pub fn program(source: &Path, to: &Path) {
    program_by(cc().arg("-std=c11"), source, to);
}

/// Does the C compiler have OpenMP, and its header?
pub fn has_openmp() -> bool {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("probe.c");
    std::fs::write(&source, "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
        .expect("a source");
    let output = cc().arg("-fopenmp").arg(&source).arg("-o").arg(dir.path().join("probe")).output();
    output.is_ok_and(|output| output.status.success())
}

/// The same by a compiler with its options.
#[track_caller]
pub fn program_by(compiler: &mut Command, source: &Path, to: &Path) {
    program_with(
        compiler,
        source,
        to,
        crate::library::dir(),
        &[&crate::root().join("include")],
        &["penny", "m"],
    );
}

/// The same against libraries of one directory, with folders of headers.
#[track_caller]
pub fn program_with(
    compiler: &mut Command,
    source: &Path,
    to: &Path,
    library: &Path,
    include: &[&Path],
    names: &[&str],
) {
    // The old form of the tag, which comes before LD_LIBRARY_PATH: cargo sets that to a folder that may hold an older library.
    let mut rpath = OsString::from("-Wl,--disable-new-dtags,-rpath,");
    rpath.push(library);
    run(compiler
        .args(STRICT)
        .args(["-O2", "-ffp-contract=off", "-pthread"])
        .args(include.iter().flat_map(|folder| ["-I".as_ref(), folder.as_os_str()]))
        .arg(source)
        .arg("-o")
        .arg(to)
        .arg("-L")
        .arg(library)
        .arg(rpath)
        .args(names.iter().map(|name| format!("-l{name}"))));
}
