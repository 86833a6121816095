//! The library under test, in a directory that a C program can link and run against.
//!
//! It is the one with which the test itself is linked: what cargo built for both. install.sh and the wheel have the same, with the
//! feature `internals` for the command's sake (docs/decisions/0056-one-build-one-wheel.md).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where libpenny.so, libpenny.so.0 and libpenny.a lie.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| linked("ffi-tests", &PENNY))
}

/// Where the libraries of `compat` lie too. They are built once a test program, by the command of install.sh.
pub fn dir_with_compat() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let packages = ["penny-nccl", "penny-cudart", "penny-nvcc", "penny-time"];
        build_by_cargo(&[&["--lib"], packages.map(|name| ["--package", name]).as_flattened()].concat());
        linked("compat-tests", &[&PENNY[..], &COMPAT].concat())
    })
}

/// Builds the library and the command as users build them. Returns the directory where they lie.
pub fn build() -> PathBuf {
    build_by_cargo(&["--package", "penny", "--package", "penny-cli"]);
    crate::profile_dir()
}

/// The command cargo, in the repository.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::root());
    cargo
}

fn build_by_cargo(what: &[&str]) {
    let status = cargo()
        .args(["build", "--quiet", "--profile", &profile(), "--target-dir"])
        .arg(target_dir())
        .args(what)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build {} fails", what.join(" "));
}

/// A file in the directory of the profile, and a name by which loaders and linkers look for it.
type Link = (&'static str, &'static str);

/// The SONAME is what the loader looks for, the bare name what the linker does.
const PENNY: [Link; 3] =
    [("deps/libpenny.so", "libpenny.so"), ("deps/libpenny.so", SONAME), ("deps/libpenny.a", "libpenny.a")];

const COMPAT: [Link; 5] = [
    ("libnccl.so", "libnccl.so"),
    ("libnccl.so", "libnccl.so.2"),
    ("libcudart.so", "libcudart.so"),
    ("libcudart.so", "libcudart.so.12"),
    ("libpenny_time.so", "libpenny_time.so"),
];

/// Makes a folder with such links in the directory of the profile.
fn linked(folder: &str, links: &[Link]) -> PathBuf {
    let built = crate::profile_dir();
    let dir = built.join(folder);
    fs::create_dir_all(&dir).expect("target is writable");
    for (file, name) in links {
        let (link, file) = (dir.join(name), built.join(file));
        // A target directory that was copied has links into the original.
        if fs::read_link(&link).is_ok_and(|to| to != file) {
            let _ = fs::remove_file(&link);
        }
        match symlink(file, &link) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            result => result.expect("target is writable"),
        }
    }
    dir
}

/// The name by which programs are bound to the library.
pub const SONAME: &str = concat!("libpenny.so.", env!("CARGO_PKG_VERSION_MAJOR"));

/// The cargo profile of this test.
pub fn profile() -> String {
    let dir = crate::profile_dir();
    match dir.file_name().and_then(|name| name.to_str()).expect("target/<profile>") {
        "debug" => "dev".into(),
        name => name.into(),
    }
}

/// The directory of cargo for this test and all that it builds.
pub fn target_dir() -> PathBuf {
    crate::profile_dir().parent().expect("target/<profile>").to_path_buf()
}
