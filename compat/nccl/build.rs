//! Gives the library NCCL's SONAME and lets it find libpenny.so.0 beside itself; and puts the file of that name beside it, so that a
//! program that was linked in `target/<profile>` also runs there.

use std::path::Path;

const SONAME: &str = "libnccl.so.2";

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets the build script's directory");
    beside_the_library(Path::new(&out));
}

/// Links the name to libnccl.so in `target/<profile>`, where cargo puts the library later. That is three levels above
/// `target/<profile>/build/<package>/out`; where cargo has another layout, there is no link and nothing else is lost.
fn beside_the_library(out: &Path) {
    let mut above = out.ancestors().skip(2);
    let (Some(build), Some(profile)) = (above.next(), above.next()) else { return };
    if build.file_name().is_some_and(|name| name == "build") {
        // It may be there already.
        let _ = std::os::unix::fs::symlink("libnccl.so", profile.join(SONAME));
    }
}
