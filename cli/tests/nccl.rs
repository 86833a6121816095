//! `penny run --nccl`: a program of NCCL and CUDA's runtime, linked with them or loading them.

use penny_ffi_tests::{compiler, library, root};
use std::path::Path;
use std::process::Command;

/// A folder as Penny is installed: bin/penny, and the libraries in lib.
fn installed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&lib).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_penny"), bin.join("penny")).unwrap();
    library::build();
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
    let dir = tempfile::tempdir().unwrap();
    let penny = dir.path().join("penny");
    std::fs::copy(env!("CARGO_BIN_EXE_penny"), &penny).unwrap();
    let output = Command::new(&penny).args(["run", "-n", "1", "--nccl", "true"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("cargo build --release -p penny-nccl"), "{err}");
}
