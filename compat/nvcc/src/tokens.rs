//! Divides preprocessed C++ into tokens, so that strings, comments and directives are never taken for code.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword.
    Word,
    Number,
    /// A string or a character with its prefix.
    Literal,
    /// A sign: one character, or `::`, `->`, `...`.
    Sign,
}

/// A token: where it stands in the text.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub range: Range<usize>,
}

/// A text with its tokens.
pub struct Source {
    pub text: String,
    pub tokens: Vec<Token>,
}

impl Source {
    /// Divides a text. Comments and lines that begin with `#` have no tokens.
    pub fn new(text: String) -> Source {
        let tokens = divide(text.as_bytes());
        Source { text, tokens }
    }

    /// Returns a token's text, or nothing beyond the end.
    pub fn at(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |token| &self.text[token.range.clone()])
    }

    /// Is it a name or a keyword?
    pub fn is_word(&self, i: usize) -> bool {
        self.tokens.get(i).is_some_and(|token| token.kind == Kind::Word)
    }

    /// Returns the text from one token up to another, which is not part of it.
    pub fn between(&self, from: usize, to: usize) -> &str {
        if from >= to { "" } else { &self.text[self.tokens[from].range.start..self.tokens[to - 1].range.end] }
    }

    /// Do two neighbours stand side by side?
    pub fn is_joined(&self, i: usize) -> bool {
        i + 1 < self.tokens.len() && self.tokens[i].range.end == self.tokens[i + 1].range.start
    }

    /// Returns the token that closes the bracket at `open`.
    pub fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        for i in open..self.tokens.len() {
            match self.at(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the token that opens the bracket which `close` closes.
    pub fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        for i in (0..=close).rev() {
            match self.at(i) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the `>` of the template arguments that begin with the `<` at `open`.
    pub fn closing_angle(&self, open: usize) -> Option<usize> {
        let (mut depth, mut i) = (0, open);
        while i < self.tokens.len() {
            match self.at(i) {
                "<" => depth += 1,
                ">" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                "(" | "[" | "{" => i = self.closing(i)?,
                ")" | "]" | "}" | ";" => return None,
                _ => {}
            }
            i += 1;
        }
        None
    }

    /// Returns the `<` of the template arguments that end with the `>` at `close`.
    pub fn opening_angle(&self, close: usize) -> Option<usize> {
        let (mut depth, mut i) = (0, close);
        loop {
            match self.at(i) {
                ">" => depth += 1,
                "<" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                ")" | "]" | "}" => i = self.opening(i)?,
                "(" | "[" | "{" | ";" => return None,
                _ => {}
            }
            i = i.checked_sub(1)?;
        }
    }

    /// Divides the tokens of a list at its commas; the parts that are there.
    pub fn parts(&self, from: usize, to: usize) -> Vec<Range<usize>> {
        let (mut parts, mut start, mut i) = (Vec::new(), from, from);
        while i < to {
            match self.at(i) {
                "(" | "[" | "{" => i = self.closing(i).unwrap_or(to),
                "<" => i = self.closing_angle(i).filter(|&end| end < to).unwrap_or(i),
                "," => {
                    parts.push(start..i);
                    start = i + 1;
                }
                _ => {}
            }
            i += 1;
        }
        if start < to {
            parts.push(start..to);
        }
        parts
    }

    /// Returns the file and line of a token, as the preprocessor's lines tell them.
    pub fn place(&self, i: usize) -> String {
        let end = self.tokens.get(i).map_or(self.text.len(), |token| token.range.start);
        let (mut file, mut line) = (String::from("?"), 0_usize);
        for text in self.text[..end].split('\n') {
            let marker = text.strip_prefix("# ").and_then(|rest| rest.split_once(" \""));
            match marker
                .and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest.split('"').next()?)))
            {
                Some((number, name)) => (file, line) = (name.to_owned(), number.wrapping_sub(1)),
                None => line = line.wrapping_add(1),
            }
        }
        format!("{file}:{line}")
    }
}

fn divide(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut at, mut is_line_start) = (0, true);
    while at < text.len() {
        let start = at;
        let letter = text[at];
        let kind = match letter {
            b'\n' => {
                is_line_start = true;
                at += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c' => {
                at += 1;
                continue;
            }
            b'#' if is_line_start => {
                at = line_end(text, at);
                continue;
            }
            b'/' if text.get(at + 1) == Some(&b'/') => {
                at = line_end(text, at);
                continue;
            }
            b'/' if text.get(at + 1) == Some(&b'*') => {
                let end = text[at + 2..].windows(2).position(|two| two == b"*/");
                at = end.map_or(text.len(), |end| at + 2 + end + 2);
                continue;
            }
            b'"' | b'\'' => {
                at = literal_end(text, at);
                Kind::Literal
            }
            b'0'..=b'9' => {
                at = number_end(text, at);
                Kind::Number
            }
            b'.' if text.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                at = number_end(text, at);
                Kind::Number
            }
            _ if is_letter(letter) => {
                while at < text.len() && (is_letter(text[at]) || text[at].is_ascii_digit()) {
                    at += 1;
                }
                match (&text[start..at], text.get(at)) {
                    (b"R" | b"LR" | b"uR" | b"UR" | b"u8R", Some(b'"')) => {
                        at = raw_end(text, at);
                        Kind::Literal
                    }
                    (b"L" | b"u" | b"U" | b"u8", Some(b'"' | b'\'')) => {
                        at = literal_end(text, at);
                        Kind::Literal
                    }
                    _ => Kind::Word,
                }
            }
            _ => {
                at += match &text[at..text.len().min(at + 3)] {
                    b"..." => 3,
                    [b':', b':', ..] | [b'-', b'>', ..] => 2,
                    _ => 1,
                };
                Kind::Sign
            }
        };
        is_line_start = false;
        tokens.push(Token { kind, range: start..at });
    }
    tokens
}

fn is_letter(letter: u8) -> bool {
    letter.is_ascii_alphabetic() || letter == b'_' || letter == b'$' || letter >= 0x80
}

fn line_end(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] != b'\n' {
        at += if text[at] == b'\\' && text.get(at + 1) == Some(&b'\n') { 2 } else { 1 };
    }
    at.min(text.len())
}

fn literal_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != text[start] && text[at] != b'\n' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn raw_end(text: &[u8], quote: usize) -> usize {
    let Some(open) = text[quote..].iter().position(|&letter| letter == b'(') else { return text.len() };
    let end = [b")", &text[quote + 1..quote + open], b"\""].concat();
    let found = text[quote + open..].windows(end.len()).position(|window| window == end);
    found.map_or(text.len(), |found| quote + open + found + end.len())
}

fn number_end(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        let letter = text[at];
        let is_sign = matches!(letter, b'+' | b'-') && matches!(text[at - 1], b'e' | b'E' | b'p' | b'P');
        let is_mark = letter == b'\'' && text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !(letter.is_ascii_alphanumeric() || letter == b'.' || letter == b'_' || is_sign || is_mark) {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn texts(text: &str) -> Vec<String> {
        let source = Source::new(text.into());
        (0..source.tokens.len()).map(|i| source.at(i).to_owned()).collect()
    }

    #[test]
    fn code_is_divided() {
        assert_eq!(
            texts("a->b::c<<<1.5e-3,0x1p+2>>>(x...)"),
            [
                "a", "->", "b", "::", "c", "<", "<", "<", "1.5e-3", ",", "0x1p+2", ">", ">", ">", "(", "x",
                "...", ")"
            ]
        );
        assert_eq!(texts("1'000'000+.5f"), ["1'000'000", "+", ".5f"]);
    }

    #[test]
    fn texts_comments_and_directives_are_no_code() {
        assert_eq!(
            texts("a \"<<<\\\"\" '<' // <<<\n/* <<< */ b\n# 3 \"<<<\"\n  #define x \\\n <<<\nc"),
            ["a", "\"<<<\\\"\"", "'<'", "b", "c"]
        );
        assert_eq!(
            texts("R\"x(<<<)\" )x\" u8\"é\" L'a' u8R\"(\")\""),
            ["R\"x(<<<)\" )x\"", "u8\"é\"", "L'a'", "u8R\"(\")\""]
        );
        assert_eq!(texts("a # b"), ["a", "#", "b"]);
    }

    #[test]
    fn brackets_are_matched() {
        let source = Source::new("f<a<b>, (c > d), e[1]>(x{y}, z) ;".into());
        let close = source.closing_angle(1).unwrap();
        assert_eq!((source.at(close), source.at(close + 1)), (">", "("));
        assert_eq!(source.opening_angle(close), Some(1));
        let end = source.closing(close + 1).unwrap();
        assert_eq!(source.opening(end), Some(close + 1));
        let parts = source.parts(2, close);
        assert_eq!(
            parts.iter().map(|part| source.between(part.start, part.end)).collect::<Vec<_>>(),
            ["a<b>", "(c > d)", "e[1]"]
        );
    }

    #[test]
    fn a_place_is_that_of_the_program() {
        let source = Source::new("# 1 \"a.cu\"\nx\n# 7 \"b.h\" 1\n\ny z\n".into());
        assert_eq!((source.place(0), source.place(1)), ("a.cu:1".into(), "b.h:8".into()));
    }
}
