//! Whatever the bytes are: no panic, and what is imported opens as a machine. A line of `----` parts the matrix from
//! the output of ibstatus.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penny_cli::foreign::{File, Format, import};

fuzz_target!(|text: &str| {
    let (matrix, ports) = text.split_once("\n----\n").unwrap_or((text, ""));
    let files = [File { name: "matrix", text: matrix }, File { name: "ports", text: ports }];
    let count = if ports.is_empty() { 1 } else { 2 };
    let _ = import(&files[..count], Some(Format::TopoM));
});
