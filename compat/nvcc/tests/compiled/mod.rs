//! What the tests of this package share: the compiler beside libraries of this build, and folders for what it makes.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use penny_ffi_tests::library;

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The compiler, in a folder with the libraries, as a build of the repository has it.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = library::dir_with_compat().join("penny-nvcc");
        // Another test program may do the same.
        let mine = program.with_extension(std::process::id().to_string());
        let _ = fs::remove_file(&mine);
        fs::hard_link(env!("CARGO_BIN_EXE_penny-nvcc"), &mine)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_penny-nvcc"), &mine).map(drop))
            .expect("target is writable");
        fs::rename(&mine, &program).expect("target is writable");
        let _ = fs::remove_file(&mine);
        program
    })
}

/// A command of the compiler that does not see this process's settings.
pub fn driver() -> Command {
    command(program())
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["LD_LIBRARY_PATH", "PENNY_CUDA_HOME", "NVCC_CCBIN"] {
        command.env_remove(name);
    }
    command
}

/// A folder for what a test makes.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a program with four devices. Returns what it has printed.
    #[track_caller]
    pub fn run(&self, program: &Path) -> String {
        let mut command = command(program);
        command.current_dir(self.0.path()).env("PENNY_DEVICES", "4").env("PENNY_TIMEOUT", "60");
        penny_ffi_tests::compiler::run(&mut command)
    }
}
