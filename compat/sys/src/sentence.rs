//! Sentences of Penny in the words of NCCL and of CUDA: the program knows functions, results and constants by their names there.

/// Every function that libnccl.so.2 exports, with the version of NCCL that brought it.
const FUNCTIONS: &str = include_str!("../symbols.txt");

/// Other names that NCCL has with its own prefix in the place of Penny's.
const ALIKE: [&str; 30] = [
    "Success",
    "SystemError",
    "InternalError",
    "InvalidArgument",
    "InvalidUsage",
    "RemoteError",
    "InProgress",
    "Sum",
    "Config_t",
    "UniqueId",
    "Comm_t",
    "Window_t",
    "Result_t",
    "DataType_t",
    "RedOp_t",
    "SimInfo_t",
    "WaitSignalDesc_t",
    "ScalarResidence_t",
    "ScalarDevice",
    "ScalarHostImmediate",
    "CommMemStat_t",
    "CONFIG_INITIALIZER",
    "CONFIG_UNDEF_INT",
    "SIM_INFO_INITIALIZER",
    "SPLIT_NOCOLOR",
    "SHRINK_DEFAULT",
    "SHRINK_ABORT",
    "REVOKE_DEFAULT",
    "SUSPEND_MEM",
    "WIN_DEFAULT",
];

/// Names that do not follow the rule.
const OTHERS: [(&str, &str); 8] = [
    ("pennyCommDevice", "ncclCommCuDevice"),
    ("pennyUnhandledDeviceError", "ncclUnhandledCudaError"),
    ("pennyStatMemSuspend", "ncclStatGpuMemSuspend"),
    ("pennyStatMemSuspended", "ncclStatGpuMemSuspended"),
    ("pennyStatMemPersist", "ncclStatGpuMemPersist"),
    ("pennyStatMemTotal", "ncclStatGpuMemTotal"),
    ("PENNY_WIN_COLL_SYMMETRIC", "NCCL_WIN_COLL_SYMMETRIC"),
    ("PENNY_WIN_STRICT_ORDERING", "NCCL_WIN_STRICT_ORDERING"),
];

/// What only programs of Penny can do, and what remains of it.
const ABSENT: [(&str, &str); 3] = [
    (" or timeoutMs", ""),
    (", or pennyShmemMalloc", ""),
    ("or never created by pennyStreamCreate", "or is none of this process"),
];

/// Functions of CUDA's runtime that stand before those of Penny.
const OF_CUDA: [(&str, &str); 3] = [
    ("pennyMemAlloc", "cudaMalloc"),
    ("pennyMemFree", "cudaFree"),
    ("pennyStreamLaunchHostFunc", "cudaLaunchHostFunc"),
];

/// Removes the function that Penny names first, and gives others the names that they have in NCCL.
pub fn in_nccls_words(text: &str) -> String {
    translated(text, renamed)
}

/// Does the same for a function of CUDA's runtime: streams, events and memory have CUDA's names.
pub fn in_cudas_words(text: &str) -> String {
    translated(text, |word| {
        if let Some((_, name)) = OF_CUDA.iter().find(|(ours, _)| *ours == word) {
            return Some((*name).into());
        }
        let name =
            word.strip_prefix("penny").filter(|name| name.starts_with("Stream") || name.starts_with("Event"));
        name.map(|name| format!("cuda{name}")).or_else(|| renamed(word))
    })
}

fn translated(text: &str, renamed: impl Fn(&str) -> Option<String>) -> String {
    let named = |head: &str| head.starts_with("penny") && head.bytes().all(|c| c.is_ascii_alphanumeric());
    let text = match text.split_once(": ") {
        Some((head, rest)) if named(head) => rest,
        _ => text,
    };
    let text = ABSENT.iter().fold(text.to_owned(), |text, (absent, remains)| text.replace(absent, remains));
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match renamed(word) {
            Some(name) => words += &name,
            None => words += word,
        }
        let next = after.find(is_of_word).unwrap_or(after.len());
        words += &after[..next];
        rest = &after[next..];
    }
    words
}

/// Returns NCCL's name for a name of Penny; `None`: NCCL has none.
fn renamed(word: &str) -> Option<String> {
    if let Some((_, name)) = OTHERS.iter().find(|(ours, _)| *ours == word) {
        return Some((*name).into());
    }
    if let Some(rest) = word.strip_prefix("PENNY_") {
        return ALIKE.contains(&rest).then(|| format!("NCCL_{rest}"));
    }
    let rest = word.strip_prefix("penny")?;
    let name = format!("nccl{rest}");
    let mut functions = FUNCTIONS.lines().filter_map(|line| line.split(' ').next());
    (ALIKE.contains(&rest) || functions.any(|function| function == name)).then_some(name)
}
