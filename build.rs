//! Gives libpenny.so its SONAME, so that a program binds to the ABI's number and not to a file's name.

#[path = "build/soname.rs"]
mod soname;

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the package's version");
    println!("cargo::rerun-if-changed=build/soname.rs");
    soname::give("libpenny.so", &format!("libpenny.so.{major}"));
}
