//! Sentences of Penny in NCCL's words: the program knows functions and results by NCCL's names.

/// Every function that this library exports, with the version of NCCL that brought it.
const FUNCTIONS: &str = include_str!("../symbols.txt");

/// Names that do not follow the rule.
const OTHERS: [(&str, &str); 10] = [
    ("pennyCommDevice", "ncclCommCuDevice"),
    ("pennyUnhandledDeviceError", "ncclUnhandledCudaError"),
    ("pennySuccess", "ncclSuccess"),
    ("pennySystemError", "ncclSystemError"),
    ("pennyInternalError", "ncclInternalError"),
    ("pennyInvalidArgument", "ncclInvalidArgument"),
    ("pennyInvalidUsage", "ncclInvalidUsage"),
    ("pennyRemoteError", "ncclRemoteError"),
    ("pennyInProgress", "ncclInProgress"),
    ("pennySum", "ncclSum"),
];

/// Removes the function that Penny names first, and gives others the names that they have here.
pub fn in_nccls_words(text: &str) -> String {
    let named = |head: &str| head.starts_with("penny") && head.bytes().all(|c| c.is_ascii_alphanumeric());
    let text = match text.split_once(": ") {
        Some((head, rest)) if named(head) => rest,
        _ => text,
    };
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("penny") {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        words += before;
        match renamed(word).filter(|_| !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')) {
            Some(name) => words += &name,
            None => words += word,
        }
        rest = after;
    }
    words + rest
}

/// Returns NCCL's name for a name of Penny; `None`: NCCL has none.
fn renamed(word: &str) -> Option<String> {
    if let Some((_, name)) = OTHERS.iter().find(|(ours, _)| *ours == word) {
        return Some((*name).into());
    }
    let name = format!("nccl{}", word.strip_prefix("penny")?);
    let mut functions = FUNCTIONS.lines().filter_map(|line| line.split(' ').next());
    functions.any(|function| function == name).then_some(name)
}
