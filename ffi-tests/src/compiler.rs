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
    let library = crate::library::dir();
    // Before LD_LIBRARY_PATH, in which cargo names a directory that may hold an older library.
    let mut rpath = OsString::from("-Wl,--disable-new-dtags,-rpath,");
    rpath.push(library);
    let include = crate::root().join("include");
    run(cc()
        .args(STRICT)
        .args(["-std=c11", "-O2", "-ffp-contract=off", "-g", "-pthread", "-I"])
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(to)
        .arg("-L")
        .arg(library)
        .arg(rpath)
        .arg("-lpenny"));
}
