//! Whatever the bytes are: no panic, and what is imported opens as a machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penny_cli::foreign::{File, Format, import};

fuzz_target!(|text: &str| {
    let _ = import(&[File { name: "fuzz", text }], Some(Format::TtUmd));
});
