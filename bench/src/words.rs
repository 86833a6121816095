//! Values of options that are words: a parser that tells completions, help and manuals which there are.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// A parser and the words that it lists. It may take others, such as second spellings.
#[derive(Clone)]
pub struct Words<T> {
    /// The words; none: they cannot be listed.
    pub all: fn() -> Vec<&'static str>,
    /// Parses a word.
    pub parse: fn(&str) -> Result<T, String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        self.parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = (self.all)();
        (!all.is_empty()).then(|| Box::new(all.into_iter().map(PossibleValue::new)) as _)
    }
}
