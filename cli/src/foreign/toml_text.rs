//! The lines of a machine's file, and what is said about their numbers.

use penny::sim::topology::units;

/// Columns before a comment.
const MARGIN: usize = 22;

/// A file as it grows.
pub struct Text(String);

/// Where a number comes from.
#[derive(Clone, Copy)]
pub enum From<'a> {
    /// The file that is imported; nothing or a remark.
    File(&'a str),
    /// A guess from published figures or usual values, and the reason for it.
    Guess(&'a str),
}

impl Text {
    /// Begins a file with its head: the source, the remarks with a line each, and the machine's name.
    pub fn new(what: &str, file: &str, remarks: &[String]) -> Text {
        let mut text =
            format!("# Imported from {what}, {}. What that does not hold is marked guessed.\n", plain(file));
        for remark in remarks {
            text += &format!("# {remark}\n");
        }
        text += &format!("name = \"{}\"\n", stem(file));
        Text(text)
    }

    /// `[section]`, and what it is.
    pub fn section(&mut self, name: &str, about: &str) {
        self.line(format!("[{name}]"), about);
    }

    /// `key = "text"`
    pub fn word(&mut self, key: &str, value: &str, from: From<'_>) {
        self.line(format!("{key} = \"{value}\""), &from.comment());
    }

    /// `key = value`, a number or a list.
    pub fn bare(&mut self, key: &str, value: impl std::fmt::Display, from: From<'_>) {
        self.line(format!("{key} = {value}"), &from.comment());
    }

    /// A list of edges, a few on a line.
    pub fn edges(&mut self, class: &str, edges: &[(usize, usize, u32)], about: &str) {
        self.line(format!("{class} = ["), about);
        for row in edges.chunks(8) {
            let row: Vec<String> = row
                .iter()
                .map(
                    |(a, b, links)| {
                        if *links == 1 { format!("[{a}, {b}]") } else { format!("[{a}, {b}, {links}]") }
                    },
                )
                .collect();
            self.0 += &format!("    {},\n", row.join(", "));
        }
        self.0 += "]\n";
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: String, comment: &str) {
        if comment.is_empty() {
            self.0 += &format!("{line}\n");
        } else {
            self.0 += &format!("{line:<MARGIN$} # {comment}\n");
        }
    }
}

impl From<'_> {
    fn comment(self) -> String {
        match self {
            From::File(remark) => remark.to_owned(),
            From::Guess("") => "guessed".to_owned(),
            From::Guess(reason) => format!("guessed: {reason}"),
        }
    }
}

/// Bits a second as people write them: `400Gb/s`, and bytes where that is no whole number.
pub fn bit_rate(bits: u64) -> String {
    const GIGA: u64 = 1_000_000_000;
    if bits >= GIGA && bits.is_multiple_of(GIGA) {
        format!("{}Gb/s", bits / GIGA)
    } else {
        units::print_bandwidth(bits / 8)
    }
}

/// Foreign text on its way into a comment: one line, printable, short.
pub fn plain(text: &str) -> String {
    let mut plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect();
    if plain.len() < text.len() && text.chars().count() > 60 {
        plain += "...";
    }
    plain
}

/// A machine's name from a file's: the last part without its ending.
fn stem(file: &str) -> String {
    let last = file.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = stem.chars().take(60).map(allowed).collect();
    if name.is_empty() { "imported".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_comment() {
        assert_eq!(plain("mlx5_0\n[class.x]"), "mlx5_0 [class.x]");
        assert_eq!(stem("a/b\"c\n.xml"), "b-c-");
        assert_eq!(stem(""), "imported");
    }

    #[test]
    fn rates_are_written_in_the_unit_of_their_trade() {
        assert_eq!(bit_rate(400_000_000_000), "400Gb/s");
        assert_eq!(bit_rate(12_500_000_000), "1.5625GB/s");
    }
}
