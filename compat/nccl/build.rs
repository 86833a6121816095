//! Gives the library NCCL's SONAME, and lets it find libpenny.so.0 beside itself.

#[path = "build/soname.rs"]
mod soname;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo::rerun-if-changed=build/soname.rs");
    soname::give("libnccl.so", "libnccl.so.2");
}
