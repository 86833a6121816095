//! The version that this library says it has: that of its header, or the newer one of `PENNY_NCCL_VERSION`.

use std::sync::OnceLock;

/// The version of the header, as NCCL encodes it.
pub const DEFAULT: i32 = 22707;

/// The minor versions of which the library has every function.
const MINORS: std::ops::RangeInclusive<i32> = 27..=30;

/// Returns the version's code. `Err`: `PENNY_NCCL_VERSION` is no such version, and this is the sentence.
pub fn code() -> Result<i32, &'static str> {
    static CODE: OnceLock<Result<i32, String>> = OnceLock::new();
    let read = || match std::env::var_os("PENNY_NCCL_VERSION") {
        None => Ok(DEFAULT),
        Some(text) => parse(&text.to_string_lossy()),
    };
    match CODE.get_or_init(read) {
        Ok(code) => Ok(*code),
        Err(sentence) => Err(sentence),
    }
}

/// Reads a version such as 2.30.7.
pub fn parse(text: &str) -> Result<i32, String> {
    let numbers: Option<Vec<i32>> = text.split('.').map(number).collect();
    match numbers.as_deref() {
        Some(&[2, minor, patch]) if MINORS.contains(&minor) => Ok(20000 + minor * 100 + patch),
        _ => Err(format!(
            "PENNY_NCCL_VERSION is `{text}`; it takes a version from 2.{}.0 to 2.{}.99, such as 2.30.7",
            MINORS.start(),
            MINORS.end()
        )),
    }
}

/// Reads one or two digits.
fn number(text: &str) -> Option<i32> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Returns a code as people write it.
pub fn text(code: i32) -> String {
    format!("{}.{}.{}", code / 10000, code / 100 % 100, code % 100)
}
