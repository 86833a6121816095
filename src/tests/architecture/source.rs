//! Reads Rust far enough to see who imports whom: tokens, modules, paths. Comments and test code are left out.

use std::path::{Path, PathBuf};

/// A word, a mark (`::` is one) or a literal, and where it stands.
#[derive(Clone, Debug)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

/// One file of the crate without its tests.
pub struct Source {
    /// Below the repository, e.g. `src/plan/link.rs`.
    pub file: String,
    /// e.g. `["plan", "link"]`; empty for the crate's root.
    pub module: Vec<String>,
    pub tokens: Vec<Token>,
}

/// A path that a file mentions, from the crate's root.
pub struct Mention {
    pub line: usize,
    pub path: Vec<String>,
}

impl Source {
    pub fn new(file: &str, module: &[&str], text: &str) -> Source {
        let module = module.iter().map(|m| m.to_string()).collect();
        Source { file: file.into(), module, tokens: without_tests(&tokens(text)) }
    }

    /// The modules declared here that lie in files of their own.
    pub fn children(&self) -> Vec<&str> {
        let text = |i: usize| self.tokens[i].text.as_str();
        (2..self.tokens.len())
            .filter(|&i| text(i) == ";" && text(i - 2) == "mod")
            .map(|i| text(i - 1))
            .collect()
    }

    /// Every `crate::` and `super::` path, `use` trees taken apart.
    pub fn mentions(&self) -> Vec<Mention> {
        let mut found = Vec::new();
        // Where the modules written within the file begin: their depth in braces.
        let (mut depth, mut inline) = (0, Vec::new());
        let mut i = 0;
        while i < self.tokens.len() {
            match self.text(i) {
                "{" => {
                    depth += 1;
                    if i >= 2 && self.text(i - 2) == "mod" {
                        inline.push(depth);
                    }
                }
                "}" => {
                    if inline.last() == Some(&depth) {
                        inline.pop();
                    }
                    depth -= 1;
                }
                "crate" if self.text(i + 1) == "::" => {
                    self.tree(&mut (i + 2), Vec::new(), &mut found);
                }
                "super" if i == 0 || self.text(i - 1) != "::" => {
                    let (mut at, mut up) = (i, 0);
                    while self.text(at) == "super" && self.text(at + 1) == "::" {
                        at += 2;
                        up += 1;
                    }
                    // Within an inline module the first steps up only reach the file's own.
                    let up = usize::saturating_sub(up, inline.len());
                    let from = self.module[..self.module.len().saturating_sub(up)].to_vec();
                    if up > 0 {
                        self.tree(&mut at, from, &mut found);
                    }
                }
                _ => {}
            }
            i += 1;
        }
        found
    }

    /// Every path of the standard library, `use` trees taken apart.
    pub fn standard_paths(&self) -> Vec<Mention> {
        let mut found = Vec::new();
        for i in (0..self.tokens.len()).filter(|&i| self.text(i) == "std" && self.text(i + 1) == "::") {
            self.tree(&mut (i + 2), vec!["std".into()], &mut found);
        }
        found
    }

    fn text(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |t| &t.text)
    }

    /// The paths of the `use` tree (or the plain path) that begins at `at`.
    fn tree(&self, at: &mut usize, mut path: Vec<String>, found: &mut Vec<Mention>) {
        let line = self.tokens.get(*at).map_or(0, |t| t.line);
        loop {
            match self.text(*at) {
                "{" => {
                    *at += 1;
                    while !matches!(self.text(*at), "}" | "") {
                        self.tree(at, path.clone(), found);
                        while !matches!(self.text(*at), "," | "}" | "") {
                            *at += 1; // `as name`
                        }
                        *at += (self.text(*at) == ",") as usize;
                    }
                    *at += 1;
                    return;
                }
                word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    if word != "self" {
                        path.push(word.into());
                    }
                    *at += 1;
                }
                _ => *at += 1, // `*`, `<`
            }
            if self.text(*at) != "::" {
                found.push(Mention { line, path });
                return;
            }
            *at += 1;
        }
    }
}

/// The crate's files from `src/lib.rs` on, as its `mod` lines name them.
pub fn crate_sources(root: &Path) -> Vec<Source> {
    fn visit(root: &Path, path: PathBuf, module: Vec<String>, all: &mut Vec<Source>) {
        let file = path.strip_prefix(root).expect("below the root").display().to_string();
        let names: Vec<&str> = module.iter().map(String::as_str).collect();
        let source = Source::new(&file, &names, &std::fs::read_to_string(&path).expect("a readable source"));
        let folder = match path.file_stem().and_then(|s| s.to_str()) {
            Some("lib" | "mod") => path.parent().expect("a folder").to_path_buf(),
            _ => path.with_extension(""),
        };
        for child in source.children() {
            let flat = folder.join(child).with_extension("rs");
            let path = if flat.exists() { flat } else { folder.join(child).join("mod.rs") };
            visit(root, path, [&module[..], &[child.to_string()]].concat(), all);
        }
        all.push(source);
    }
    let mut all = Vec::new();
    visit(root, root.join("src/lib.rs"), Vec::new(), &mut all);
    all
}

/// Cuts text into tokens; comments are dropped.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut out, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let (start, first_line) = (i, line);
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
                continue;
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        (c, _) => (line, i) = (line + (c == '\n') as usize, i + 1),
                    }
                    if depth == 0 || i >= chars.len() {
                        break;
                    }
                }
                continue;
            }
            c if c.is_whitespace() => {
                line += (c == '\n') as usize;
                i += 1;
                continue;
            }
            'r' if at(i + 1) == '"' || (at(i + 1) == '#' && matches!(at(i + 2), '#' | '"')) => {
                let hashes = (i + 1..).take_while(|&k| at(k) == '#').count();
                i += hashes + 2;
                while i < chars.len() && !(at(i) == '"' && (1..=hashes).all(|k| at(i + k) == '#')) {
                    line += (at(i) == '\n') as usize;
                    i += 1;
                }
                i += hashes + 1;
            }
            '"' => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += (at(i) == '\\') as usize;
                    line += (at(i) == '\n') as usize;
                    i += 1;
                }
                i += 1;
            }
            // A character, not a lifetime.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            c if word(c) => {
                while word(at(i)) {
                    i += 1;
                }
            }
            ':' if at(i + 1) == ':' => i += 2,
            _ => i += 1,
        }
        out.push(Token { line: first_line, text: chars[start..i.min(chars.len())].iter().collect() });
    }
    out
}

/// The words with which an item begins; a field or a value does not.
const ITEMS: &[&str] = &[
    "pub",
    "use",
    "mod",
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "const",
    "static",
    "type",
    "unsafe",
    "extern",
    "macro_rules",
];

/// Drops every item, field and value under a `#[cfg(..test..)]`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text.as_str());
    // The place behind the bracket that closes the one at `i`.
    let closed = |mut i: usize| {
        let mut depth = 0;
        loop {
            depth += matches!(text(i), "(" | "[" | "{") as i32 - matches!(text(i), ")" | "]" | "}") as i32;
            i += 1;
            if depth == 0 || i >= tokens.len() {
                return i;
            }
        }
    };
    let (mut out, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if text(i) == "#" && text(i + 1) == "[" && text(i + 2) == "cfg" {
            let end = closed(i + 1);
            if (i + 3..end).any(|k| text(k) == "test" && text(k - 2) != "not") {
                i = end;
                while text(i) == "#" {
                    i = closed(i + 1);
                }
                let is_field = !ITEMS.contains(&text(i)) || (text(i) == "pub" && text(i + 2) == ":");
                let stops = |word: &str| match is_field {
                    true => matches!(word, "," | "}" | ""),
                    false => matches!(word, ";" | "{" | ""),
                };
                while !stops(text(i)) {
                    i = if matches!(text(i), "(" | "[" | "{") { closed(i) } else { i + 1 };
                }
                i = match text(i) {
                    "{" => closed(i),
                    "}" => i,
                    _ => i + 1,
                };
                continue;
            }
        }
        out.push(tokens[i].clone());
        i += 1;
    }
    out
}
