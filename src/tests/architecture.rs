//! The imports that each module may make, compared with the code. Each complaint reads `file:line: algorithms -> ffi`.
//!
//! Only what is compiled into the library counts; tests may look everywhere. To allow an import, change the table,
//! and give the reason in `docs/decisions/0007-imports.md`.

mod fronts;
mod names;
mod picture;
mod source;

use source::{Source, crate_sources};
use std::path::{Path, PathBuf};

/// What any module may import: a module, or only a part of one.
const EVERYONE: &[&str] = &["error", "types", "env", "log", "hash", "json", "spelling", "sync::lock"];

/// Module, and what else it imports: a module, or only a part of one.
const TABLE: &[(&str, &[&str])] = &[
    ("api", &["comm", "onesided", "mailbox", "memory::view", "bootstrap::UniqueId", "sync::prim"]),
    ("ffi", &["comm", "onesided", "mailbox", "memory::view", "bootstrap::UniqueId", "handle"]),
    ("sim", &["plan", "algorithms", "topology", "fabric"]),
    (
        "comm",
        &[
            "planner",
            "exec",
            "fabric",
            "onesided",
            "mailbox",
            "recorder",
            "timing",
            "transport",
            "bootstrap",
            "kernels",
            "memory",
            "sync",
            "sys",
            "handle",
        ],
    ),
    ("planner", &["plan", "algorithms", "fabric::tuning", "memory::control::largest_payload"]),
    ("algorithms", &["plan", "topology"]),
    (
        "topology",
        &[
            "plan::Shape",
            "plan::Lane",
            "plan::LinkCycle",
            "plan::RingOrders",
            "plan::Arrangement",
            "plan::InSwitch",
            "plan::RankView",
        ],
    ),
    ("fabric", &["plan", "topology", "memory::segment", "sync", "sys"]),
    ("onesided", &["recorder", "transport", "timing", "kernels", "memory", "sync"]),
    (
        "mailbox",
        &[
            "recorder",
            "transport",
            "timing",
            "topology::MailboxSpec",
            "kernels",
            "memory",
            "sync",
            "sys",
            "handle",
        ],
    ),
    ("recorder", &["transport", "sync", "sys"]),
    ("timing", &["transport", "fabric::live", "topology::Network", "sync::wait"]),
    ("exec", &["plan", "transport", "kernels", "memory"]),
    ("plan", &[]),
    ("transport", &["memory", "sync", "sys", "kernels"]),
    ("bootstrap", &["sys"]),
    ("handle", &["sync::prim"]),
    ("memory", &["sync", "sys"]),
    ("kernels", &["memory::view", "sync::parallel_for", "sync::prim"]),
    ("sync", &["sys"]),
    ("sys", &["sync::prim"]),
    ("die_points", &["sys::process"]),
];

/// Words, and paths of the standard library, that may stand in some places only, given as the beginnings of file names.
const WORDS: &[(&str, &[&str])] = &[
    ("no_mangle", &["src/ffi/"]),
    ("export_name", &["src/ffi/"]),
    ("atomic", &["src/sync/prim.rs"]),
    ("std::sync::Mutex", &["src/sync/"]),
    ("std::sync::RwLock", &["src/sync/"]),
    ("std::sync::Condvar", &["src/sync/"]),
    ("PoisonError", &["src/sync/"]),
    ("libc", &["src/sys/"]),
    ("nix", &["src/sys/"]),
    ("memmap2", &["src/memory/"]),
    ("unsafe", &["src/sys/", "src/sync/", "src/memory/", "src/kernels/", "src/ffi/", "src/api/"]),
];

/// A concept without a name.
const NAMELESS: &[&str] = &["util", "utils", "common", "misc", "helper", "helpers"];

/// The most lines of a file. In a longer one some concept deserves a file of its own.
const LONG: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn starts_with(path: &[String], prefix: &str) -> bool {
    let prefix: Vec<&str> = prefix.split("::").collect();
    path.len() >= prefix.len() && prefix.iter().zip(path).all(|(a, b)| a == b)
}

fn row(module: &str) -> Option<&'static [&'static str]> {
    TABLE.iter().find(|(name, _)| *name == module).map(|(_, imports)| *imports)
}

/// Every import that the table does not have.
fn foreign_imports(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let Some(module) = source.module.first() else { continue };
        for mention in source.mentions() {
            let target = mention.path.first().map_or("the crate's root", String::as_str);
            let may = target == module
                || EVERYONE
                    .iter()
                    .chain(row(module).unwrap_or_default())
                    .any(|a| starts_with(&mention.path, a));
            if !may {
                complaints.push(format!("{}:{}: {module} -> {target}", source.file, mention.line));
            }
        }
    }
    complaints
}

/// Every word in a place that is not its own.
fn misplaced_words(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let words = source.tokens.iter().map(|token| (token.line, token.text.clone()));
        let paths =
            source.standard_paths().into_iter().map(|mention| (mention.line, mention.path.join("::")));
        for (line, found) in words.chain(paths) {
            for (word, homes) in WORDS {
                let stands = found == *word || found.starts_with(&format!("{word}::"));
                if stands && !homes.iter().any(|home| source.file.starts_with(home)) {
                    complaints.push((line, format!("{}:{line}: {word} belongs in {homes:?}", source.file)));
                }
            }
        }
    }
    complaints.sort_by_key(|(line, _)| *line);
    complaints.into_iter().map(|(_, complaint)| complaint).collect()
}

/// Top-level modules without a row.
fn unlisted_modules(root: &Source) -> Vec<&str> {
    root.children().into_iter().filter(|&name| row(name).is_none() && !EVERYONE.contains(&name)).collect()
}

/// Every Rust file of the repository, tests included.
fn rust_files() -> Vec<PathBuf> {
    fn visit(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() && !path.ends_with("target") {
                visit(&path, all);
            } else if path.extension().is_some_and(|e| e == "rs") {
                all.push(path);
            }
        }
    }
    let mut all = Vec::new();
    for folder in ["src", "bench", "cli", "compat", "examples", "ffi-tests", "tests"] {
        visit(&root().join(folder), &mut all);
    }
    all
}

#[test]
fn modules_import_only_what_the_table_says() {
    let complaints = foreign_imports(&crate_sources(root()));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn words_of_the_machine_stay_in_their_modules() {
    let complaints = misplaced_words(&crate_sources(root()));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_module_has_its_row_and_every_row_its_module() {
    let sources = crate_sources(root());
    let lib = sources.iter().find(|s| s.module.is_empty()).expect("src/lib.rs");
    assert_eq!(unlisted_modules(lib), [""; 0]);
    for name in TABLE.iter().map(|(name, _)| name).chain(EVERYONE) {
        let name = name.split("::").next().expect("a name");
        assert!(lib.children().contains(&name), "there is no module `{name}`; take it out of the table");
    }
}

#[test]
fn every_permission_in_the_table_is_used() {
    let sources = crate_sources(root());
    for (module, imports) in TABLE {
        for import in *imports {
            let used = sources
                .iter()
                .filter(|s| s.module.first().is_some_and(|m| m == module))
                .any(|s| s.mentions().iter().any(|m| starts_with(&m.path, import)));
            assert!(used, "{module} does not import {import} any more; take it out of the table");
        }
    }
}

/// The most files of `comm` that may import each other in a circle.
const CIRCLE: usize = 3;

/// The largest set of a module's files each of which imports every other, directly or through others.
fn largest_circle(sources: &[Source], module: &str) -> Vec<String> {
    let files: Vec<&Source> =
        sources.iter().filter(|s| s.module.first().is_some_and(|m| m == module)).collect();
    let is_file = |path: &[String]| files.iter().position(|s| s.module == path);
    let imports = |source: &&Source| -> Vec<usize> {
        // A parent's bare path is the `pub(super)` of something.
        let mentions = source.mentions().into_iter().filter(|m| !source.module.starts_with(&m.path));
        let file = |path: &[String]| (1..=path.len()).rev().find_map(|parts| is_file(&path[..parts]));
        let mentioned = mentions.filter_map(|m| file(&m.path));
        let child = |name: &str| is_file(&[&source.module[..], &[name.to_owned()]].concat());
        mentioned.chain(source.children().into_iter().filter_map(child)).collect()
    };
    let direct: Vec<Vec<usize>> = files.iter().map(imports).collect();
    let reached = |from: usize| {
        let (mut seen, mut left) = (vec![false; files.len()], direct[from].clone());
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                left.extend(&direct[at]);
            }
        }
        seen
    };
    let reached: Vec<Vec<bool>> = (0..files.len()).map(reached).collect();
    let circle = |a: usize| -> Vec<String> {
        let both = (0..files.len()).filter(|&b| reached[a][b] && reached[b][a]);
        both.map(|b| files[b].file.clone()).collect()
    };
    (0..files.len()).map(circle).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn files_of_the_communicator_do_not_import_each_other_in_large_circles() {
    let circle = largest_circle(&crate_sources(root()), "comm");
    assert!(circle.len() <= CIRCLE, "these import each other: {circle:?}");
}

#[test]
fn a_planted_circle_is_found() {
    let file = |name: &str, text: &str| Source::new(&format!("src/comm/{name}.rs"), &["comm", name], text);
    let planted = [
        file("a", "use super::b::B;\nuse crate::comm::d::D;"),
        file("b", "use crate::comm::c::C;"),
        file("c", "use super::a;"),
        file("d", "use crate::types::Rank;"),
    ];
    assert_eq!(largest_circle(&planted, "comm"), ["src/comm/a.rs", "src/comm/b.rs", "src/comm/c.rs"]);
}

#[test]
fn few_modules_are_public() {
    let lib = std::fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let public: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
    assert!(public.len() <= 8, "{public:?}");
    assert!(!lib.contains("pub mod memory") && !lib.contains("pub mod comm"));
}

#[test]
fn concepts_have_names() {
    for file in rust_files() {
        let of_no_concept = |part: &std::ffi::OsStr| {
            NAMELESS.iter().any(|n| part == *n || part == format!("{n}.rs").as_str())
        };
        assert!(!file.iter().any(of_no_concept), "{} says nothing by its name", file.display());
    }
}

#[test]
fn no_file_is_long() {
    for path in rust_files() {
        let lines = std::fs::read_to_string(&path).expect("a readable file").lines().count();
        let file = path.strip_prefix(root()).expect("below the root").display();
        assert!(lines <= LONG, "{file} has {lines} lines; which concept wants its own file?");
    }
}

#[test]
fn a_planted_import_is_reported_with_its_line() {
    let text = "//! use crate::ffi;\nuse crate::types::Rank;\nuse crate::{plan::{self, View}, ffi::guard as g};\n\
        fn f() -> super::super::comm::Call { r#\"crate::sys\"#; crate::exec::run::<'{'>() }\n\
        mod inner { use super::super::super::sync; use super::Rank; }\n\
        #[cfg(test)]\nmod tests {\n    use crate::sys;\n}\n#[cfg(all(test, not(loom)))]\nuse crate::env;\nuse crate::memory::view;\n";
    let planted = Source::new("src/algorithms/planted.rs", &["algorithms", "planted"], text);
    assert_eq!(
        foreign_imports(&[planted]),
        [
            "src/algorithms/planted.rs:3: algorithms -> ffi",
            "src/algorithms/planted.rs:4: algorithms -> comm",
            "src/algorithms/planted.rs:4: algorithms -> exec",
            "src/algorithms/planted.rs:5: algorithms -> sync",
            "src/algorithms/planted.rs:12: algorithms -> memory",
        ]
    );
}

#[test]
fn a_field_for_tests_hides_nothing_behind_it() {
    let text = "struct A {\n#[cfg(any(test, feature = \"x\"))]\npub a: Vec<u8>,\nb: u8,\n}\nfn f() -> A {\n\
        A { #[cfg(test)] a: g(&[1, 2], |x| { x }), b: 1 }\n}\nuse crate::ffi;\nstruct C { #[cfg(test)] c: u8 }\nuse crate::sys;";
    let planted = Source::new("src/algorithms/planted.rs", &["algorithms", "planted"], text);
    assert_eq!(
        foreign_imports(&[planted]),
        ["src/algorithms/planted.rs:9: algorithms -> ffi", "src/algorithms/planted.rs:11: algorithms -> sys"]
    );
}

#[test]
fn a_part_of_a_module_may_be_allowed_without_the_rest() {
    let planted = Source::new(
        "src/kernels/planted.rs",
        &["kernels", "planted"],
        "use crate::memory::view::View;\nuse crate::memory::{heap, view};",
    );
    assert_eq!(foreign_imports(&[planted]), ["src/kernels/planted.rs:2: kernels -> memory"]);
}

#[test]
fn planted_words_and_modules_are_reported() {
    let text = "use std::sync::{Arc, Mutex, atomic::AtomicU8};\n// libc::fork\nfn f(x: &'static str) { unsafe { libc::abort() } }\n\
        #[unsafe(no_mangle)] fn g() {}";
    let planted = Source::new("src/comm/planted.rs", &["comm", "planted"], text);
    let lines: Vec<String> = misplaced_words(&[planted])
        .iter()
        .map(|c| c.split(" belongs").next().unwrap_or_default().into())
        .collect();
    assert_eq!(
        lines,
        [
            "src/comm/planted.rs:1: atomic",
            "src/comm/planted.rs:1: std::sync::Mutex",
            "src/comm/planted.rs:3: unsafe",
            "src/comm/planted.rs:3: libc",
            "src/comm/planted.rs:4: unsafe",
            "src/comm/planted.rs:4: no_mangle",
        ]
    );
    let lib = Source::new(
        "src/lib.rs",
        &[],
        "pub mod plan;\npub mod shortcuts;\nmod inline { }\n#[cfg(test)]\nmod tests;",
    );
    assert_eq!(unlisted_modules(&lib), ["shortcuts"]);
}
