//! The library under test, built the way this test was, in a directory that a C program can link and run against.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where libpenny.so, libpenny.so.0 and libpenny.a lie. Built once a test program.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let built = build();
        let dir = built.join("ffi-tests");
        fs::create_dir_all(&dir).expect("target is writable");
        // The SONAME is what the loader looks for, the bare name what the linker does.
        for (file, name) in
            [("libpenny.so", "libpenny.so"), ("libpenny.so", SONAME), ("libpenny.a", "libpenny.a")]
        {
            let link = dir.join(name);
            match symlink(built.join(file), &link) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                result => result.expect("target is writable"),
            }
        }
        dir
    })
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

fn build() -> PathBuf {
    let built = crate::profile_dir();
    let target = built.parent().expect("target/<profile>");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "penny", "--lib", "--profile", &profile(), "--target-dir"])
        .arg(target)
        .current_dir(crate::root())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library does not build");
    built
}
