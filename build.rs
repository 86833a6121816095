//! Gives libpenny.so its SONAME, so that a program binds to the ABI's number and not to a file's name; and puts the file of
//! that name beside it, so that a program that was linked there also runs there.

use std::path::Path;

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the package's version");
    let soname = format!("libpenny.so.{major}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets the build script's directory");
    beside_the_library(Path::new(&out), &soname);
}

/// Links the name to libpenny.so in `target/<profile>`, where cargo puts the library later. That is three levels above
/// `target/<profile>/build/<package>/out`; where cargo has another layout, there is no link and nothing else is lost.
fn beside_the_library(out: &Path, soname: &str) {
    let mut above = out.ancestors().skip(2);
    let (Some(build), Some(profile)) = (above.next(), above.next()) else { return };
    if build.file_name().is_some_and(|name| name == "build") {
        // It may be there already.
        let _ = std::os::unix::fs::symlink("libpenny.so", profile.join(soname));
    }
}
