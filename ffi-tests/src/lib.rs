//! Tests of the C boundary: what the library looks like to C, and what it does to C programs.
//!
//! ```text
//!     tests/header.rs               include/penny.h is what src/ffi says, and compiles as every C and C++
//!     tests/library.rs              libpenny.so: exported names, SONAME, layout of structs, install script
//!     tests/interface/programs.rs   ffi-tests/c/*.c on several ranks: one program per file of src/ffi; ffi-tests/c/*.cpp, penny.hpp
//!     tests/interface/memory.rs     where shared memory lies: little /dev/shm, memfds, limits, heaps larger than the machine
//!     tests/interface/examples.rs   c-examples/*: each prints what its README promises
//!     tests/interface/fuzz.rs       random programs over the whole interface, checked by an oracle (src/bin/fuzz)
//!     mpi/*.c                       programs beside an MPI, which .ci/launchers runs
//!     tests/readme.rs               the program in the repository's README does so too
//!     tests/recovery                deaths, deadlines, disagreements, limits: real processes (src/bin/victim) and real signals
//! ```

pub mod compiler;
pub mod hosts;
pub mod library;
pub mod ranks;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("ffi-tests lies in the repository")
}

/// The directory of this build, `target/<profile>`, wherever it is.
pub fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test has a path");
    exe.ancestors().nth(2).expect("a test lies in target/<profile>/deps").to_path_buf()
}
