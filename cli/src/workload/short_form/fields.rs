//! Fields of the short form, with the line of each for sentences.

use std::ops::RangeInclusive;

use penny::Rank;
use toml_edit::{Item, TableLike, Value};

/// A file and its text.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// Returns the line of an offset, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
    }

    /// Makes a sentence about a place.
    pub fn error(&self, at: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.file, self.line(at))
    }
}

/// A table of the file.
#[derive(Clone)]
pub struct Section<'a> {
    pub source: Source<'a>,
    /// Where it begins.
    pub at: usize,
    /// Its name in sentences.
    pub name: String,
    pub table: &'a dyn TableLike,
}

/// The value of a key.
pub struct Field<'a> {
    pub source: Source<'a>,
    pub at: usize,
    key: String,
    pub item: &'a Item,
}

impl<'a> Section<'a> {
    /// Refuses keys that are not among these.
    pub fn knows(&self, keys: &[&str]) -> Result<(), String> {
        for (key, item) in self.table.iter() {
            if !keys.contains(&key) {
                let at = item.span().map_or(self.at, |span| span.start);
                let what = format!("{} has no key `{key}`; it has {}", self.name, keys.join(", "));
                return Err(self.source.error(at, &what));
            }
        }
        Ok(())
    }

    /// Returns a key's value, if it is there.
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        let item = self.table.get(key).filter(|item| !item.is_none())?;
        let at = item.span().map_or(self.at, |span| span.start);
        Some(Field { source: self.source, at, key: key.to_owned(), item })
    }

    /// Returns a key's value, which must be there.
    pub fn need(&self, key: &str, like: &str) -> Result<Field<'a>, String> {
        self.get(key).ok_or_else(|| self.error(&format!("needs `{key}`; write it like {key} = {like}")))
    }

    /// Returns an inner table.
    pub fn inner(&self, name: String, item: &'a Item) -> Result<Section<'a>, String> {
        let at = item.span().map_or(self.at, |span| span.start);
        let table = item.as_table_like();
        let table = table.ok_or_else(|| self.source.error(at, &format!("{name} is no table")))?;
        Ok(Section { source: self.source, at, name, table })
    }

    /// Makes a sentence about the section.
    pub fn error(&self, what: &str) -> String {
        self.source.error(self.at, &format!("{}: {what}", self.name))
    }
}

impl<'a> Field<'a> {
    /// Makes a sentence about the field.
    pub fn error(&self, what: &str) -> String {
        self.source.error(self.at, &format!("{} {what}", self.key))
    }

    /// Returns a text.
    pub fn text(&self) -> Result<&'a str, String> {
        self.item.as_str().ok_or_else(|| self.error("is no text; write it in quotes"))
    }

    /// Returns what a reader makes of a text.
    pub fn read<T>(&self, reader: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let text = self
            .item
            .as_str()
            .ok_or_else(|| self.error("is no text; write a number with its unit in quotes"))?;
        reader(text).map_err(|why| self.error(&format!("is wrong: {why}")))
    }

    /// Returns a whole number.
    pub fn number(&self, range: RangeInclusive<u64>) -> Result<u64, String> {
        let number = self.item.as_integer().and_then(|number| u64::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            self.error(&format!("is no whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// Returns the values of a list.
    pub fn array(&self, like: &str) -> Result<impl Iterator<Item = &'a Value>, String> {
        let array = self.item.as_array().filter(|array| !array.is_empty());
        Ok(array.ok_or_else(|| self.error(&format!("is no list; write it like {like}")))?.iter())
    }

    /// Returns a rank that one of its values is.
    pub fn rank(&self, value: &Value, ranks: u32) -> Result<Rank, String> {
        let rank = value.as_integer().and_then(|rank| u32::try_from(rank).ok());
        rank.filter(|&rank| rank < ranks).ok_or_else(|| {
            self.error(&format!(
                "has {value}, which is no rank of {ranks}: write numbers from 0 to {}",
                ranks - 1
            ))
        })
    }

    /// Returns a list of ranks.
    pub fn ranks(&self, ranks: u32) -> Result<Vec<Rank>, String> {
        self.array("[0, 1]")?.map(|value| self.rank(value, ranks)).collect()
    }

    /// Returns a name or a list of names.
    pub fn names(&self) -> Result<Vec<String>, String> {
        if let Some(name) = self.item.as_str() {
            return Ok(vec![name.to_owned()]);
        }
        let form = || self.error("is no list of names; write it like [\"forward\"], or [] for none");
        let list = self.item.as_array().ok_or_else(form)?;
        list.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(form)).collect()
    }
}
