//! Gives libpenny.so its SONAME, so that a program binds to the ABI's number and not to a file's name.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the package's version");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpenny.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
