//! What a machine's file says where: sections and fields that know their line, and arguments that replace fields.

use super::units::{self, Ratio};
use super::{Class, Shape};
use crate::error::{Error, Result};
use crate::spelling;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file's name and text.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

/// A table of the file.
pub(super) struct Section<'a> {
    pub source: SourceText<'a>,
    /// The name as it stands in the file: `[class.nic]`.
    pub name: String,
    /// Where it begins, in bytes.
    pub at: usize,
    pub table: &'a DeTable<'a>,
    /// Arguments, which take precedence over the table.
    pub arguments: &'a [(String, String)],
}

/// A key's value, and where it was given.
pub(super) struct Field<'a> {
    /// `file:line: key`, or the argument.
    place: String,
    /// `None`: a list or a table.
    text: Option<&'a str>,
}

impl SourceText<'_> {
    /// An error at a byte of the file: what is wrong; what to do.
    pub fn error(&self, at: usize, what: impl std::fmt::Display) -> Error {
        Error::argument(format!("{}:{}: {what}", self.file, self.line(at)))
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&b| b == b'\n').count()
    }
}

impl<'a> Section<'a> {
    /// An error about the section as a whole.
    pub fn error(&self, what: impl std::fmt::Display) -> Error {
        self.source.error(self.at, format_args!("{} {what}", self.name))
    }

    /// A section within this one.
    pub fn inner(&self, name: String, value: &'a Spanned<DeValue<'a>>) -> Result<Section<'a>> {
        let at = value.span().start;
        let Some(table) = value.get_ref().as_table() else {
            return Err(self
                .source
                .error(at, format_args!("{name} is not a table; write its keys below {name}")));
        };
        Ok(Section { source: self.source, name, at, table, arguments: &[] })
    }

    /// The sections of a list, `[[override]]`; `name` is that of each one.
    pub fn listed(&self, key: &str, name: &str) -> Result<Vec<Section<'a>>> {
        let Some(list) = self.table.get(key) else { return Ok(Vec::new()) };
        let Some(values) = list.get_ref().as_array() else {
            let what = format_args!("{key} is no list; begin each one with {name}");
            return Err(self.source.error(list.span().start, what));
        };
        values.iter().map(|value| self.inner(name.to_owned(), value)).collect()
    }

    /// Refuses whatever is not in the list.
    #[cfg_attr(test, track_caller)]
    pub fn knows(&self, keys: &[&str]) -> Result<()> {
        #[cfg(test)]
        checked::note(&self.name, keys);
        let known = keys.join(", ");
        if let Some((key, _)) = self.arguments.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            return Err(Error::argument(format!(
                "{}: {} takes no argument `{key}`{}; it takes {known}",
                self.source.file,
                self.name,
                spelling::hint(key, keys.iter().copied())
            )));
        }
        match self.table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            Some(key) => Err(self.source.error(
                key.span().start,
                format_args!(
                    "{} has no key `{}`{}; it has {known}",
                    self.name,
                    key.get_ref(),
                    spelling::hint(key.get_ref(), keys.iter().copied())
                ),
            )),
            None => Ok(()),
        }
    }

    /// A field that may be left out.
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        if let Some((_, value)) = self.arguments.iter().rev().find(|(k, _)| k == key) {
            return Some(Field {
                place: format!("{}: the argument {key}", self.source.file),
                text: Some(value.as_str()),
            });
        }
        let value = self.table.get(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            DeValue::Boolean(true) => Some("true"),
            DeValue::Boolean(false) => Some("false"),
            _ => None,
        };
        let place = format!("{}:{}: {key}", self.source.file, self.source.line(value.span().start));
        Some(Field { place, text })
    }

    /// A field that may be left out, and a list as it is written.
    pub fn listing(&self, key: &str) -> Option<Field<'a>> {
        let field = self.get(key)?;
        if field.text.is_some() {
            return Some(field);
        }
        let value = self.table.get(key).filter(|value| value.get_ref().is_array())?;
        Some(Field { text: self.source.text.get(value.span()), ..field })
    }

    /// A field that must be there; `like` is an example of it.
    pub fn need(&self, key: &str, like: &str) -> Result<Field<'a>> {
        self.get(key)
            .ok_or_else(|| self.error(format_args!("has no `{key}`; add one such as {key} = {like}")))
    }
}

impl<'a> Field<'a> {
    /// An error about this field.
    pub fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::argument(format!("{}: {what}", self.place))
    }

    /// As written.
    pub fn text(&self) -> Result<&'a str> {
        self.text
            .ok_or_else(|| self.error("this is a list, a table or a date; write one text or decimal number"))
    }

    /// As written, in one line: what a table shows as it is.
    pub fn plain(&self) -> Result<&'a str> {
        let text = self.text()?;
        match text.chars().find(|c| c.is_control()) {
            None => Ok(text),
            Some(c) => Err(self.error(format_args!(
                "`{}` has the control character {}, which a terminal obeys; write a name without it",
                text.escape_debug(),
                c.escape_default()
            ))),
        }
    }

    /// Read by one of the readers of [`units`].
    pub fn read<T>(&self, reader: impl FnOnce(&str) -> Result<T, String>) -> Result<T> {
        reader(self.text()?).map_err(|why| self.error(why))
    }

    /// A whole number from 1 to a largest.
    pub fn count(&self, most: u32) -> Result<u32> {
        self.read(|text| match text.parse() {
            Ok(n) if (1..=most).contains(&n) => Ok(n),
            _ => Err(format!("`{text}` is not a whole number from 1 to {most}; write one")),
        })
    }

    /// True or false.
    pub fn flag(&self) -> Result<bool> {
        self.read(|text| {
            text.parse().map_err(|_| format!("`{text}` is neither true nor false; write one of them"))
        })
    }

    /// One of a few words.
    pub fn word(&self, words: &[&'static str]) -> Result<&'static str> {
        self.read(|text| {
            let found = words.iter().copied().find(|&w| w == text);
            found.ok_or_else(|| format!("`{text}` is not known here; write {}", words.join(" or ")))
        })
    }

    /// Reads a ratio above 0 and at most 1.
    pub fn part(&self) -> Result<Ratio> {
        let ratio = self.read(units::ratio)?;
        if ratio.is_a_part() {
            Ok(ratio)
        } else {
            Err(self.error("write a part of the whole, above 0 and up to 1"))
        }
    }

    /// Reads the extents of a grid like `4x4x4` with at most `axes` axes.
    pub fn extents(&self, axes: usize, most: u32) -> Result<Shape> {
        self.read(|text| {
            let mut shape = [1; 3];
            let parts: Vec<&str> = text.split('x').collect();
            if parts.len() > axes {
                let plural = if axes == 1 { "axis" } else { "axes" };
                return Err(format!("`{text}` has {} axes; write at most {axes} {plural}", parts.len()));
            }
            for (extent, part) in shape.iter_mut().zip(parts) {
                *extent = part.parse().ok().filter(|&n| n >= 1).ok_or_else(|| {
                    format!("`{text}` is not a grid; write its extents like 4x8, each at least 1")
                })?;
            }
            let places = shape.iter().try_fold(1u32, |all, &n| all.checked_mul(n).filter(|&all| all <= most));
            places
                .map(|_| Shape(shape))
                .ok_or_else(|| format!("`{text}` has more than {most} places; write fewer"))
        })
    }

    /// A class by its name.
    pub fn class(&self, classes: &[Class]) -> Result<u32> {
        self.read(|name| class_named(name, classes))
    }
}

/// The index of a class.
pub(super) fn class_named(name: &str, classes: &[Class]) -> Result<u32, String> {
    let index = classes.iter().position(|c| c.name == name);
    index.map(|i| i as u32).ok_or_else(|| {
        let known: Vec<&str> = classes.iter().map(|c| c.name.as_str()).collect();
        format!("there is no class `{name}`; declare [class.{name}] or use one of {}", known.join(", "))
    })
}

/// What [`Section::knows`] was asked, for the test that compares it with the manual.
#[cfg(test)]
pub(super) mod checked {
    use std::cell::RefCell;
    use std::panic::Location;

    /// A section, its keys, and the place of the code that checked them.
    pub struct Check {
        pub section: String,
        pub keys: Vec<String>,
        pub at: &'static Location<'static>,
    }

    thread_local! {
        static CHECKS: RefCell<Vec<Check>> = const { RefCell::new(Vec::new()) };
    }

    #[track_caller]
    pub fn note(section: &str, keys: &[&str]) {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let check = Check { section: section.to_owned(), keys, at: Location::caller() };
        CHECKS.with_borrow_mut(|checks| checks.push(check));
    }

    /// Returns what some work does, and the checks that were made meanwhile.
    pub fn during<T>(work: impl FnOnce() -> T) -> (T, Vec<Check>) {
        CHECKS.take();
        (work(), CHECKS.take())
    }
}

#[cfg(test)]
mod tests {
    use crate::topology::parse;

    #[test]
    fn names_that_a_terminal_would_obey_and_packets_of_nothing_are_refused_with_their_line() {
        let class = "[class.w]\nbw = \"1GB/s\"\nlat = \"1us\"\n";
        let protocol = "[switch]\nplaces = 2\nport = \"w\"\n[[protocol]]\nname = \"a\\rb\"\n";
        for (text, said) in [
            (
                "\nname = \"a\\u001b[2Jb\"\n".to_owned(),
                "m.toml:2: name: `a\\u{1b}[2Jb` has the control character \\u{1b}",
            ),
            (
                "name = \"a\\nb\"\n".to_owned(),
                "m.toml:1: name: `a\\nb` has the control character \\n, which a terminal obeys; write",
            ),
            (
                format!("name = \"m\"\n{class}{protocol}"),
                "m.toml:9: name: `a\\rb` has the control character \\r",
            ),
            (
                format!("name = \"m\"\n{class}mtu = \"0B\"\n"),
                "m.toml:5: mtu: a packet carries at least 1 byte; write more, or leave mtu out",
            ),
        ] {
            let why = parse("m.toml", &text, &[]).err().unwrap_or_else(|| panic!("accepted: {text}"));
            assert!(why.message.starts_with(said), "{}", why.message);
        }
    }
}
