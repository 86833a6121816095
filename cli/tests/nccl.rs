//! `penny run --nccl`: a program of NCCL and CUDA's runtime, linked with them or loading them.

use penny_ffi_tests::{compiler, library, root};
use std::path::Path;
use std::process::Command;

/// Puts the command into a folder. It is linked: another test may start a process while a copy is still open to be written, and then
/// the copy cannot be run.
fn put_command(folder: &Path) {
    std::fs::hard_link(env!("CARGO_BIN_EXE_penny"), folder.join("penny")).unwrap();
}

/// A folder on the command's file system.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A folder as Penny is installed: bin/penny, and the libraries in lib.
fn installed() -> tempfile::TempDir {
    let dir = folder();
    let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&lib).unwrap();
    put_command(&bin);
    let link = |built: &Path, file: &str, names: &[&str]| {
        for name in names {
            std::fs::copy(built.join(file), lib.join(name)).unwrap();
        }
    };
    link(&library::build(), "libpenny.so", &[library::SONAME]);
    link(&library::build_package("penny-nccl"), "libnccl.so", &["libnccl.so", "libnccl.so.2"]);
    link(&library::build_package("penny-cudart"), "libcudart.so", &["libcudart.so", "libcudart.so.12"]);
    dir
}

#[test]
fn a_program_of_nccl_runs_linked_or_loading() {
    let dir = installed();
    let lib = dir.path().join("lib");
    for (name, options) in [("linked", &["-lnccl", "-lcudart"][..]), ("loading", &["-DLOADED", "-ldl"])] {
        let program = dir.path().join(name);
        let mut compile = compiler::cc();
        compile.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]);
        for include in ["compat/nccl/include", "compat/cudart/include"] {
            compile.arg("-I").arg(root().join(include));
        }
        compile.arg(root().join("cli/tests/fixtures/nccl_program.c")).arg("-o").arg(&program);
        compile.arg("-L").arg(&lib).arg(format!("-Wl,-rpath-link,{}", lib.display())).args(options);
        compiler::run(&mut compile);
        let run = |options: &[&str]| {
            let mut command = Command::new(dir.path().join("bin/penny"));
            command.args(["run", "-n", "2", "--timeout", "60"]).args(options).arg(&program);
            command.env_remove("LD_LIBRARY_PATH").output().unwrap()
        };
        let output = run(&["--nccl"]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out == "summed\nsummed\n", "{name}: {out}{err}");
        let output = run(&[]);
        assert!(
            !output.status.success(),
            "{name} finds the libraries without --nccl, so the test shows nothing"
        );
    }
}

#[test]
fn where_the_libraries_are_missing_the_refusal_says_how_to_build_them() {
    let dir = folder();
    put_command(dir.path());
    let output =
        Command::new(dir.path().join("penny")).args(["run", "-n", "1", "--nccl", "true"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("cargo build --release -p penny-nccl"), "{err}");
}
