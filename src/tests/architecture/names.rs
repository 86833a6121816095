//! One name, one public type; and how many files a folder may hold.

use super::root;
use super::source::{Source, crate_sources};
use std::collections::BTreeMap;

/// The most files directly in `src/comm`.
const FILES_OF_COMM: usize = 14;

/// Every type that is visible outside of its module: its name, and where it stands. A C object's opaque `pennyX` and
/// the pointer to it are two types for Rust and one for C.
fn public_types(source: &Source) -> Vec<(String, String)> {
    let text = |i: usize| source.tokens.get(i).map_or("", |t| t.text.as_str());
    let mut found = Vec::new();
    for i in (0..source.tokens.len()).filter(|&i| text(i) == "pub") {
        let mut at = i + 1;
        if text(at) == "(" {
            at += (at..).take_while(|&k| !matches!(text(k), ")" | "")).count();
            at += 1;
        }
        at += (text(at) == "unsafe") as usize;
        let is_type = matches!(text(at), "struct" | "enum" | "union" | "trait" | "type");
        let name = text(at + 1);
        let of_c = source.file.starts_with("src/ffi/") && name.starts_with("penny");
        if is_type && name.starts_with(char::is_alphabetic) && !of_c {
            let place = format!("{}:{}", source.file, source.tokens[at].line);
            found.push((name.into(), place));
        }
    }
    found
}

/// Every name that two public types have.
fn shared_names(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in sources.iter().flat_map(public_types) {
        places.entry(name).or_default().push(place);
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn no_two_public_types_have_one_name() {
    let sources = crate_sources(root());
    assert!(sources.iter().map(|s| public_types(s).len()).sum::<usize>() > 200, "the types were not found");
    let shared = shared_names(&sources);
    assert!(shared.is_empty(), "\n{}", shared.join("\n"));
}

#[test]
fn a_planted_second_type_is_reported_whatever_its_visibility() {
    let planted = |file: &str, text: &str| Source::new(file, &["planted"], text);
    let sources = [
        planted(
            "src/a.rs",
            "pub struct View;\npub(in crate::a) trait Door {}\nstruct Mine;\npub enum Once {}",
        ),
        planted(
            "src/b.rs",
            "pub(crate) enum View {}\npub(super) type Door = u8;\nstruct Mine;\n// pub struct Once;",
        ),
        planted(
            "src/c.rs",
            "#[cfg(test)]\nmod tests { pub struct Once; }\npub unsafe trait Safe {}\npub union Safe {}",
        ),
        planted("src/ffi/d.rs", "pub struct pennyA;\npub type pennyA = u8;\npub use super::View;"),
    ];
    assert_eq!(
        shared_names(&sources),
        ["Door: src/a.rs:2, src/b.rs:2", "Safe: src/c.rs:3, src/c.rs:4", "View: src/a.rs:1, src/b.rs:1"]
    );
}

#[test]
fn few_files_lie_directly_in_comm() {
    let entries = std::fs::read_dir(root().join("src/comm")).expect("src/comm");
    let files = entries.filter(|entry| entry.as_ref().is_ok_and(|e| e.path().is_file())).count();
    assert!(
        files <= FILES_OF_COMM,
        "src/comm has {files} files; which of its folders do the new ones belong in?"
    );
}
