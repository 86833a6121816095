//! Text in JSON, for the files that the library writes.

use std::fmt::Write;

/// Returns a text as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("a String takes everything"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_control_characters_are_escaped() {
        assert_eq!(quoted("a \"b\" \\ \n \u{e9}"), "\"a \\\"b\\\" \\\\ \\u000a \u{e9}\"");
    }
}
