//! The name of a shared library for the loader, for the build scripts of this repository.

use std::path::Path;

/// Gives the library that is built its SONAME, and puts the file of that name beside it, so that a program that was linked there also
/// runs there. `library` is its file name.
pub fn give(library: &str, soname: &str) {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets the build script's directory");
    beside_the_library(Path::new(&out), library, soname);
}

/// Links the name to the library in `target/<profile>`, where cargo puts it later. That is three levels above
/// `target/<profile>/build/<package>/out`; where cargo has another layout, there is no link and nothing else is lost.
fn beside_the_library(out: &Path, library: &str, soname: &str) {
    let mut above = out.ancestors().skip(2);
    let (Some(build), Some(profile)) = (above.next(), above.next()) else { return };
    if build.file_name().is_some_and(|name| name == "build") {
        // It may be there already.
        let _ = std::os::unix::fs::symlink(library, profile.join(soname));
    }
}
