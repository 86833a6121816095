//! The Rust front speaks of its own names: what it returns of `comm` passes through `in_rust`, whose table has every name of
//! the C interface that a sentence uses.

use super::root;
use super::source::{Source, crate_sources};
use crate::api::names::NAMES;
use std::collections::BTreeSet;

/// Functions of `comm` that return no error.
const NO_ERROR: &[&str] = &["failures", "remember_failure"];

/// Calls of `comm` whose error would reach a program with the names of C.
fn untranslated(source: &Source) -> Vec<String> {
    let text = |i: usize| source.tokens.get(i).map_or("", |t| t.text.as_str());
    let mut found = Vec::new();
    for i in 2..source.tokens.len() {
        let is_call = text(i) == "comm" && text(i + 1) == "::" && text(i + 3) == "(";
        let is_left = ["in_rust", "drop"].contains(&text(i - 2)) && text(i - 1) == "(";
        if is_call
            && !is_left
            && !NO_ERROR.contains(&text(i + 2))
            && text(i + 2).starts_with(char::is_lowercase)
        {
            found.push(format!("{}:{}: comm::{}", source.file, source.tokens[i].line, text(i + 2)));
        }
    }
    found
}

/// Names that only the C interface has. A sentence says which interface it speaks of.
const OF_C_ALONE: &[&str] = &[
    "collectiveId",
    "nDesc",
    "nRanks",
    "opCnt",
    "parallelFor",
    "peerWin",
    "peerWinOffset",
    "pennyCommDeregister",
    "pennyCommGetUniqueId",
    "pennyCommGrow",
    "pennyCommRegister",
    "pennyCommResume",
    "pennyCommSuspend",
    "pennyCommWindowRegister",
    "pennyConfig_t",
    "pennyInProgress",
    "pennyLinkChannelsRun",
    "pennyMailboxSendSlot",
    "pennyMesh",
    "pennyRecordEnd",
    "pennyRecordStart",
    "pennyRecordingDestroy",
    "pennyRecordingLaunch",
    "pennyRedOpCreatePreMulSum",
    "pennySemaphoreCreate",
    "pennySemaphoreDestroy",
    "pennySemaphoreDma",
    "pennySemaphoreRegular",
    "pennySetInterruptCheck",
    "pennySetProgress",
    "pennyShmemBufferRegister",
    "recvIndex",
    "recvSem",
    "sendIndex",
    "sendSem",
    "sigIdx",
    "signalDescs",
    "uniqueId",
    "winFlags",
];

/// The identifiers in a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Names of functions and types of the C interface, and those of arguments that are no plain words.
fn names_of_c(header: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        let is_function = word.starts_with("penny") && word[5..].starts_with(char::is_uppercase);
        let is_argument = word.starts_with(char::is_lowercase) && word.contains(char::is_uppercase);
        is_function || is_argument || ["ndev", "nranks", "sendbuff", "recvbuff"].contains(word)
    };
    header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(identifiers)
        .filter(is_name)
        .collect()
}

#[test]
fn what_the_rust_front_returns_of_comm_is_told_in_its_own_names() {
    let sources = crate_sources(root());
    let complaints: Vec<_> =
        sources.iter().filter(|source| source.file.starts_with("src/api/")).flat_map(untranslated).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let planted = "fn f() -> Result<()> { in_rust(comm::abort(1))?; drop(comm::destroy(1)); comm::failures();\ncomm::revoke(2) }";
    assert_eq!(
        untranslated(&Source::new("src/api/x.rs", &["api"], planted)),
        ["src/api/x.rs:2: comm::revoke"]
    );
}

#[test]
fn every_name_of_c_in_a_sentence_has_a_rust_name_or_is_known_to_have_none() {
    let header = std::fs::read_to_string(root().join("include/penny.h")).expect("the header");
    let of_c = names_of_c(&header);
    let sources = crate_sources(root());
    let of_library = sources
        .iter()
        .filter(|source| !["src/api/", "src/ffi/"].iter().any(|at| source.file.starts_with(at)));
    let mut missing = BTreeSet::new();
    for token in of_library.flat_map(|source| &source.tokens).filter(|token| token.text.starts_with('"')) {
        missing.extend(identifiers(&token.text).filter(|word| of_c.contains(word)));
    }
    let used = missing.clone();
    missing.retain(|word| !NAMES.iter().any(|(c, _)| c == word) && !OF_C_ALONE.contains(word));
    assert!(missing.is_empty(), "give these a row in src/api/names.rs: {missing:?}");
    let idle: Vec<_> =
        OF_C_ALONE.iter().chain(NAMES.iter().map(|(c, _)| c)).filter(|&name| !used.contains(name)).collect();
    assert!(idle.is_empty(), "no sentence uses these: {idle:?}");
}
