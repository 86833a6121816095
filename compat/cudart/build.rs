//! Gives libcudart.so the SONAME that programs built for CUDA 12 ask for, and puts the file of that name beside it. The library looks
//! for libpenny.so.0 in its own directory.

use std::path::Path;

const SONAME: &str = "libcudart.so.12";

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets the build script's directory");
    beside_the_library(Path::new(&out));
}

/// Links the name to libcudart.so in `target/<profile>`, where cargo puts the library later. That is three levels above
/// `target/<profile>/build/<package>/out`; where cargo has another layout, there is no link and nothing else is lost.
fn beside_the_library(out: &Path) {
    let mut above = out.ancestors().skip(2);
    let (Some(build), Some(profile)) = (above.next(), above.next()) else { return };
    if build.file_name().is_some_and(|name| name == "build") {
        // It may be there already.
        let _ = std::os::unix::fs::symlink("libcudart.so", profile.join(SONAME));
    }
}
