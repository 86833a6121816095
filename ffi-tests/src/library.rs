//! The library under test, built as users build it with the profile of this test, in a directory that a C program can link and run
//! against.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where libpenny.so, libpenny.so.0 and libpenny.a lie. Built once a test program.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        // The SONAME is what the loader looks for, the bare name what the linker does.
        let names = [("libpenny.so", "libpenny.so"), ("libpenny.so", SONAME), ("libpenny.a", "libpenny.a")];
        linked(&build(), "ffi-tests", &names)
    })
}

/// Makes a folder of the directory `built` with links to files there, by the names that loaders and linkers look for.
pub fn linked(built: &Path, folder: &str, names: &[(&str, &str)]) -> PathBuf {
    let dir = built.join(folder);
    fs::create_dir_all(&dir).expect("target is writable");
    for (file, name) in names {
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

/// The directory to give cargo for what is built without the feature `internals`. It is not that of this test: the library with
/// the feature and the one without have the same file name, and whichever was built last would be taken for the other.
pub fn target_dir() -> PathBuf {
    crate::profile_dir().parent().expect("target/<profile>").join("without-internals")
}

/// Builds the library. Returns the directory where it lies.
pub fn build() -> PathBuf {
    build_package("penny")
}

/// Builds the library of a package that has no `internals` either. Returns the directory where it lies.
pub fn build_package(package: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--lib", "--profile", &profile(), "--target-dir"])
        .arg(target_dir())
        .current_dir(crate::root())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library of {package} does not build");
    target_dir().join(crate::profile_dir().file_name().expect("target/<profile>"))
}
