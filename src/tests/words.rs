//! Words that no documentation has: they stand for a subject or a number that the sentence should name.
//!
//! Pages, headers, the Python package, and in Rust the doc comments and the texts of programs are searched.

use std::path::{Path, PathBuf};

/// A phrase, the words after which it is right, and what to write.
const FORBIDDEN: &[(&[&str], &[&str], &str)] = &[
    (&["so", "many"], &[], "name the number"),
    (&["whoever"], &[], "name the rank, thread or caller"),
    (&["whomever"], &[], "name the rank, thread or caller"),
    (&["somebody"], &[], "name the rank, thread or caller"),
    (&["someone"], &[], "name the rank, thread or caller"),
    (&["the", "rest"], &["of"], "name what is meant: the other ranks, the other fields"),
];

/// Where documentation lies.
const PLACES: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "bench",
    "c-examples",
    "cli",
    "compat",
    "docs",
    "examples",
    "ffi-tests",
    "include",
    "python",
    "src",
];

/// A word in lower case, and its line. A line that is no documentation is the empty word: no phrase goes across it.
type Word = (String, usize);

fn words(text: &str, prose: impl Fn(&str) -> Option<String>) -> Vec<Word> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(line) = prose(line) else {
            words.push((String::new(), number + 1));
            continue;
        };
        let parts = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|part| !part.is_empty());
        words.extend(parts.map(|part| (part.to_lowercase(), number + 1)));
    }
    words
}

/// The documentation in a line of a file; `None` if there is none.
fn prose(path: &Path, line: &str) -> Option<String> {
    match path.extension()?.to_str()? {
        "md" | "h" | "hpp" | "c" | "cpp" | "py" => Some(line.to_owned()),
        "rs" => {
            let line = line.trim_start();
            let doc = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark));
            let texts = || line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
            doc.map(str::to_owned)
                .or_else(|| (!line.starts_with("//")).then(texts))
                .filter(|text| !text.is_empty())
        }
        _ => None,
    }
}

fn complaints(file: &str, words: &[Word]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (phrase, before, instead) in FORBIDDEN {
        for (at, found) in words.windows(phrase.len()).enumerate() {
            let is_it = found.iter().zip(*phrase).all(|((word, _), expected)| word == expected);
            let next = words.get(at + phrase.len()).map_or("", |(word, _)| word.as_str());
            if is_it && !before.contains(&next) {
                complaints.push(format!("{file}:{}: \"{}\": {instead}", found[0].1, phrase.join(" ")));
            }
        }
    }
    complaints
}

/// What a merge has left between two versions of a line.
fn conflicts<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = String> {
    let marks = [["<"; 7].concat() + " ", [">"; 7].concat() + " "];
    let is_mark = move |line: &str| marks.iter().any(|mark| line.starts_with(mark.as_str()));
    let lines = text.lines().enumerate().filter(move |(_, line)| is_mark(line));
    lines.map(move |(number, _)| format!("{file}:{}: the mark of a conflict", number + 1))
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_path_buf()] };
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let is_built = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == "target" || name.to_string_lossy().starts_with('.'))
    };
    entries.filter(|path| !is_built(path)).flat_map(|path| files(&path)).collect()
}

#[test]
fn documentation_names_what_it_means() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this = root.join(file!());
    let mut found = Vec::new();
    for path in PLACES.iter().flat_map(|place| files(&root.join(place))).filter(|path| *path != this) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        found.extend(complaints(&file, &words(&text, |line| prose(&path, line))));
        found.extend(conflicts(&file, &text));
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn every_decision_is_in_the_list_of_decisions_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/decisions");
    let list = std::fs::read_to_string(folder.join("README.md")).expect("the list");
    for page in files(&folder)
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .filter(|name| *name != "README.md")
    {
        assert_eq!(
            list.matches(&format!("({page})")).count(),
            1,
            "docs/decisions/README.md names {page} once"
        );
    }
}

#[test]
fn the_marks_of_a_conflict_are_found() {
    let text = format!("a\n{} HEAD\n{}\n> quoted\n", "<".repeat(7), "=".repeat(7));
    assert_eq!(conflicts("a.md", &text).collect::<Vec<_>>(), ["a.md:2: the mark of a conflict"]);
}

#[test]
fn a_phrase_is_found_across_lines_of_one_comment_and_in_texts_only() {
    let rust = Path::new("a.rs");
    let found = |text: &str| complaints("a.rs", &words(text, |line| prose(rust, line))).len();
    assert_eq!(found("/// Waits for so\n/// many bytes.\n"), 1);
    assert_eq!(found("/// Waits for so\nfn f() {}\n/// many bytes.\n"), 0);
    assert_eq!(found("let whoever = \"Somebody's\"; // whoever\n"), 1);
    assert_eq!(found("/// The rest of a page.\n"), 0);
    assert_eq!(found("/// The rest.\n"), 1);
}
