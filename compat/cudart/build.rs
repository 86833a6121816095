//! Gives the library the SONAME that programs built for CUDA 12 ask for, and lets it find libpenny.so.0 beside itself.

#[path = "build/soname.rs"]
mod soname;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo::rerun-if-changed=build/soname.rs");
    soname::give("libcudart.so", "libcudart.so.12");
}
