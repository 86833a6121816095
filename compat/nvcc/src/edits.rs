//! Changes of a text, which are made all at once.

use std::ops::Range;

/// Changes that have been noted. None lies across another.
#[derive(Default)]
pub struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Notes that a part is replaced.
    pub fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.0.push((range, with.into()));
    }

    /// Notes that something is put before a place. What was noted first stands first.
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    /// Makes the changes. A change within a part that is replaced is lost.
    pub fn make(mut self, text: &str) -> String {
        // A part that is replaced comes behind what is put before it.
        self.0.sort_by_key(|(range, _)| (range.start, range.end > range.start));
        let (mut made, mut at) = (String::with_capacity(text.len() + text.len() / 8), 0);
        for (range, with) in self.0 {
            if range.start < at {
                continue;
            }
            made.push_str(&text[at..range.start]);
            made.push_str(&with);
            at = range.end;
        }
        made.push_str(&text[at..]);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::Edits;

    #[test]
    fn changes_are_made_in_the_order_of_their_places() {
        let mut edits = Edits::default();
        edits.replace(4..5, "E");
        edits.insert(4, "<");
        edits.insert(0, "(");
        edits.insert(6, ")");
        edits.replace(1..3, "");
        edits.insert(2, "lost");
        assert_eq!(edits.make("abcdef"), "(ad<Ef)");
    }
}
