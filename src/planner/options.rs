//! `PENNY_OPTIONS`: the options of Graphcore's GCL, by their names and in their notation (`GCL_OPTIONS`).
//!
//! ```text
//!     PENNY_OPTIONS={"method":"quad_directional_ring","syncful.maxBroadcastSize":2048}
//! ```
//!
//! | option | values | what it does here |
//! |---|---|---|
//! | `method` | GCL's words, see [`METHODS`] | the algorithm of all_reduce, reduce_scatter and all_gather |
//! | `syncful.maxBroadcastSize` | bytes | while `auto` chooses: all_reduce by `one_shot` up to ranks * bytes, never beyond |
//!
//! Source: GCL User Guide, 3.4 and 4.1.1. The notation is JSON. A reader of JSON would bring four crates into every
//! program that links the library, for an object of two entries whose values are words and numbers; so it is read here,
//! strictly: what is not such an object is refused.

use crate::algorithms;
use crate::types::Collective;

/// The values of the options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The algorithm, by its index in the table.
    pub method: Option<usize>,
    /// All-reduces use `one_shot` if bytes times ranks is at most this; `None` if the options do not say.
    pub most_broadcast: Option<u64>,
}

/// The collectives that GCL's methods are for.
pub const GOVERNED: [Collective; 3] =
    [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

/// GCL's words, and the algorithms that they mean.
pub const METHODS: [(&str, Option<&str>); 7] = [
    ("auto", None),
    ("anticlockwise_ring", Some("ring_reverse")),
    ("bidirectional_ring_pair", Some("ring_pair")),
    ("broadcast", Some("one_shot")),
    ("clockwise_ring", Some("ring")),
    ("meet_in_middle_ring", Some("meet_in_middle")),
    ("quad_directional_ring", Some("quad_ring")),
];

const METHOD: &str = "method";
const BROADCAST: &str = "syncful.maxBroadcastSize";

/// GCL's word for an algorithm of the table.
pub fn word(method: usize) -> &'static str {
    let name = algorithms::ALL[method].name;
    METHODS.iter().find(|(_, ours)| *ours == Some(name)).map_or(name, |(word, _)| word)
}

impl Options {
    /// From the variable's value. `Err` says what is wrong with it.
    pub fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for (name, value) in entries(text)? {
            match name {
                METHOD => options.method = method(value)?,
                BROADCAST => options.most_broadcast = Some(bytes(value)?),
                _ => return Err(format!("`{name}` is no option; known: {METHOD}, {BROADCAST}")),
            }
        }
        Ok(options)
    }
}

fn method(value: &str) -> Result<Option<usize>, String> {
    match METHODS.iter().find(|(word, _)| *word == value) {
        Some((_, name)) => Ok(name.map(algorithms::index)),
        None => {
            let known: Vec<&str> = METHODS.iter().map(|(word, _)| *word).collect();
            Err(format!("`{value}` is no {METHOD}; known: {}", known.join(", ")))
        }
    }
}

fn bytes(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{BROADCAST} is `{value}`; it takes a number of bytes such as 2048"))
}

/// Reads the entries of an object of words and numbers.
fn entries(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut rest = Rest(text);
    let mut entries: Vec<(&str, &str)> = Vec::new();
    rest.expect("{")?;
    if !rest.take("}") {
        loop {
            let name = rest.word()?;
            if entries.iter().any(|(earlier, _)| *earlier == name) {
                return Err(format!("`{name}` is there twice"));
            }
            rest.expect(":")?;
            entries.push((name, rest.value()?));
            if !rest.take(",") {
                break;
            }
        }
        rest.expect("}")?;
    }
    rest.skip_space();
    if rest.0.is_empty() { Ok(entries) } else { Err(format!("after the last brace comes `{}`", rest.0)) }
}

/// The rest of the text that is not read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Passes a sign, if it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.skip_space();
        let after = self.0.strip_prefix(sign);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) {
            return Ok(());
        }
        let found = if self.0.is_empty() { "the end".into() } else { format!("`{}`", self.0) };
        Err(format!(
            "expected `{sign}` at {found}; write an object such as {{\"{METHOD}\":\"clockwise_ring\",\"{BROADCAST}\":2048}}"
        ))
    }

    /// Reads a word in quotes; no option and no value has an escape in it.
    fn word(&mut self) -> Result<&'a str, String> {
        self.expect("\"")?;
        match self.0.find(['"', '\\']) {
            Some(end) if self.0[end..].starts_with('"') => {
                let (word, after) = self.0.split_at(end);
                self.0 = &after[1..];
                Ok(word)
            }
            _ => Err(format!("`\"{}` does not end, or has a backslash in it", self.0)),
        }
    }

    /// Reads a word, or a number; GCL takes numbers in quotes as well.
    fn value(&mut self) -> Result<&'a str, String> {
        self.skip_space();
        let digits = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        if digits == 0 {
            return self.word();
        }
        let (number, after) = self.0.split_at(digits);
        if after.starts_with(['.', 'e', 'E']) || number.len() > 1 && number.starts_with('0') {
            return Err(format!("`{}` is no whole number", self.0));
        }
        self.0 = after;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_understood_however_it_is_spaced() {
        let expected = Options { method: Some(algorithms::index("quad_ring")), most_broadcast: Some(2048) };
        for text in [
            r#"{"method":"quad_directional_ring","syncful.maxBroadcastSize":2048}"#,
            " { \"syncful.maxBroadcastSize\" : \"2048\" ,\n\t\"method\" : \"quad_directional_ring\" } ",
        ] {
            assert_eq!(Options::parse(text), Ok(expected));
        }
        assert_eq!(Options::parse(r#"{"method":"auto"}"#), Ok(Options::default()));
        assert_eq!(Options::parse("{}"), Ok(Options::default()));
    }

    #[test]
    fn every_word_of_gcl_means_a_method_that_serves_what_gcl_uses_it_for() {
        for (word, name) in METHODS {
            let options = Options::parse(&format!(r#"{{"method":"{word}"}}"#)).unwrap();
            assert_eq!(options.method.map(|m| algorithms::ALL[m].name), name);
            assert!(options.method.is_none_or(|m| super::word(m) == word));
            for collective in GOVERNED {
                assert!(name.is_none_or(|n| algorithms::find(n).unwrap().serves.contains(&collective)));
            }
        }
    }

    #[test]
    fn what_is_unknown_or_no_such_object_is_refused_with_what_exists() {
        for (text, told) in [
            (r#"{"methud":"auto"}"#, "`methud` is no option; known: method, syncful.maxBroadcastSize"),
            (r#"{"method":"ring"}"#, "`ring` is no method; known: auto, anticlockwise_ring,"),
            (r#"{"method":7}"#, "`7` is no method"),
            (r#"{"syncful.maxBroadcastSize":"2k"}"#, "`2k`; it takes a number of bytes"),
            (r#"{"syncful.maxBroadcastSize":-1}"#, "expected `\"` at `-1}`"),
            (r#"{"syncful.maxBroadcastSize":1.5}"#, "`1.5}` is no whole number"),
            (r#"{"syncful.maxBroadcastSize":012}"#, "`012}` is no whole number"),
            (r#"{"method":"auto","method":"auto"}"#, "`method` is there twice"),
            (r#"{"method":"auto",}"#, "expected `\"` at `}`"),
            (r#"{"method":"auto"} x"#, "after the last brace comes `x`"),
            (r#"{"method":"au"#, "`\"au` does not end"),
            (r#"{"method":"a\u0075to"}"#, "has a backslash in it"),
            ("method=auto", "expected `{` at `method=auto`"),
            ("", "expected `{` at the end"),
            ("{", "expected `\"` at the end"),
            ("{\u{e9}", "expected"),
        ] {
            let why = Options::parse(text).unwrap_err();
            assert!(why.contains(told), "{text}: {why}");
        }
    }
}
