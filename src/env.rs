//! Every `PENNY_` variable: its name, its type, what it does.
//!
//! They are read when a communicator is made, with these exceptions: `PENNY_DEBUG` and `PENNY_RECORD` are read once in a process,
//! `PENNY_LIBFABRIC` by the process's first communicator of several hosts,
//! `PENNY_HEAP_SIZE` when a process first uses its shareable heap, `PENNY_SHM` whenever a segment is made, and
//! `PENNY_SHMEM_SIZE` and `PENNY_CHECK` when a symmetric heap is made.

use crate::spelling;
use std::path::PathBuf;

/// A variable that a user may set.
#[cfg_attr(
    not(any(test, feature = "internals")),
    expect(dead_code, reason = "tools and tests print the table")
)]
pub struct Variable {
    /// The name in the environment.
    pub name: &'static str,
    /// The kind of its value: a number, a word, a grammar.
    pub kind: &'static str,
    /// The meaning, and the value when it is unset.
    pub about: &'static str,
}

/// The table that `penny doctor` and the README print.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "PENNY_ALGO",
        kind: "grammar",
        about: "algorithm per collective, e.g. `ring` or `allreduce:two_shot;broadcast:^tree`; unset: auto",
    },
    Variable {
        name: "PENNY_HOST_PROFILE",
        kind: "file or `none`",
        about: "host profile of `penny calibrate host`, by which rank 0 decides what auto is; unset: this host's in ~/.cache/penny",
    },
    Variable {
        name: "PENNY_FABRIC",
        kind: "machine",
        about: "simulated cluster (declared machine) on which the ranks run: a preset such as `dgx-h100:nodes=2` or a TOML file; unset: none",
    },
    Variable {
        name: "PENNY_FABRIC_CLOCK",
        kind: "clock",
        about: "`virtual`: the cluster's time is reported; `paced:1000`: calls take that time, 1000 times slower; unset: virtual",
    },
    Variable {
        name: "PENNY_FABRIC_GRACE",
        kind: "seconds",
        about: "longest time that a thread outside of any call may hold the cluster's clock while others wait, 0 = no limit; unset: 2",
    },
    Variable {
        name: "PENNY_OPTIONS",
        kind: "JSON",
        about: "GCL's options, e.g. {\"method\":\"clockwise_ring\",\"syncful.maxBroadcastSize\":2048}; unset: auto",
    },
    Variable {
        name: "PENNY_TIMEOUT",
        kind: "seconds",
        about: "deadline of every blocking call, 0 = none; unset: 600",
    },
    Variable {
        name: "PENNY_REPRODUCIBLE",
        kind: "0 or 1",
        about: "same bits for any algorithm, placement and slicing; unset: 0",
    },
    Variable {
        name: "PENNY_HEAP_SIZE",
        kind: "bytes",
        about: "most memory that pennyMemAlloc can allocate in one process; unset: the machine's memory",
    },
    Variable {
        name: "PENNY_SHM",
        kind: "word",
        about: "where shared memory lies: `posix` (/dev/shm) or `memfd` (sealed files); unset: posix, memfd where that lacks room",
    },
    Variable {
        name: "PENNY_SHMEM_SIZE",
        kind: "bytes",
        about: "first segment of a symmetric heap, which grows by more segments; unset: 64M",
    },
    Variable {
        name: "PENNY_CHECK",
        kind: "word",
        about: "`race`: report unordered accesses of two ranks to the same bytes, one of them a put or copy, much slower; unset: none",
    },
    Variable {
        name: "PENNY_STAGING",
        kind: "bytes",
        about: "staging memory per rank and communicator, 4K to 4G; unset: by the number of ranks, and more between hosts",
    },
    Variable {
        name: "PENNY_THREADS",
        kind: "count",
        about: "threads of a rank that share each large copy, 1 = none but the caller; unset: by the cores that are the rank's alone",
    },
    Variable {
        name: "PENNY_RECORD",
        kind: "folder",
        about: "each process writes its calls and the times between them into this folder, as `penny record` does; unset: none",
    },
    Variable {
        name: "PENNY_POST_MORTEM",
        kind: "folder or `none`",
        about: "a rank whose communicator breaks writes there what it knows of all ranks, for `penny doctor --post-mortem`; unset: none, under `penny run` a temporary folder",
    },
    Variable {
        name: "PENNY_DEBUG",
        kind: "word",
        about: "messages of the library on stderr, `warn` or `info`; unset: none",
    },
    Variable {
        name: "PENNY_SPIN",
        kind: "count",
        about: "polls before a waiter yields; unset: by ranks and cores",
    },
    Variable {
        name: "PENNY_SINGLE_COPY",
        kind: "0 or 1",
        about: "1: peers read large private buffers through the kernel where it permits; 0: never; unset: where that is quick",
    },
    Variable {
        name: "PENNY_ZERO_COPY_FROM",
        kind: "bytes",
        about: "the size of calls and messages from which on peers read and write memory of `pennyMemAlloc` and registered buffers where they lie; unset: where that is quick",
    },
    Variable {
        name: "PENNY_NET",
        kind: "word",
        about: "what carries the bytes between hosts: `tcp`, or a provider of libfabric, such as `verbs` or `libfabric:tcp`; `off`: ranks run on one host; unset: tcp",
    },
    Variable {
        name: "PENNY_LIBFABRIC",
        kind: "file",
        about: "libfabric to load where `PENNY_NET` names one of its providers, such as that of an MPI library; unset: libfabric.so.1",
    },
    Variable {
        name: "PENNY_NET_IFACES",
        kind: "list",
        about: "network interfaces by which ranks of several hosts meet, several that are named side by side: names, `eth*`, addresses, 10.0.0.0/8; after `^` those not to use; unset: all but those of containers",
    },
    Variable {
        name: "PENNY_PORTS",
        kind: "ports",
        about: "ports at which ranks of several hosts may meet, e.g. `40000-40015`; unset: the 16 after MASTER_PORT, any for a unique id",
    },
    Variable {
        name: "PENNY_LINK_PORTS",
        kind: "ports",
        about: "TCP ports at which ranks of other hosts may reach a rank, e.g. `41000-41999`; unset: any",
    },
    Variable {
        name: "PENNY_HOST_TIMEOUT",
        kind: "seconds",
        about: "how long a host that does not answer is waited for until it is taken for dead, 1 to 3600; unset: 3",
    },
    Variable {
        name: "PENNY_SECRET",
        kind: "text",
        about: "what only the ranks of a job on several hosts know, 16 or more characters; unset: `penny run --hosts`, or rank 0 under mpirun, makes one",
    },
    Variable {
        name: "PENNY_HOST_ID",
        kind: "word",
        about: "name of this host, in place of what the system says: several hosts on one machine, for tests; unset: the system's",
    },
];

/// Variables that are not for users of the library: launchers, other programs of Penny and its tests set or read them.
const OTHERS: &[&str] = &[
    "PENNY_JOB_ID",
    "PENNY_RANK",
    "PENNY_WORLD_SIZE",
    "PENNY_LOCAL_RANK",
    "PENNY_LOCAL_SIZE",
    "PENNY_BLESS",
    "PENNY_COMMAND",
    "PENNY_CUDA_HOME",
    "PENNY_CUPY",
    "PENNY_DEVICES",
    "PENNY_DIE_AT",
    "PENNY_LIBRARY",
    "PENNY_LONG",
    "PENNY_NCCL_VERSION",
    "PENNY_PORT",
    "PENNY_VIRTUAL_TIME_IN",
];

/// What names begin with that tests, benchmarks and the front of PyTorch have for themselves.
const FAMILIES: &[&str] = &["PENNY_BENCH_", "PENNY_TEST_", "PENNY_TORCH_"];

/// Tells whether a name is one of Penny's variables, or of no concern to it.
pub fn is_known(name: &str) -> bool {
    let Some(own) = name.strip_prefix("PENNY_") else { return true };
    own.is_empty()
        || VARIABLES.iter().any(|variable| variable.name == name)
        || OTHERS.contains(&name)
        || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Returns the variable that is probably meant by a name that is none.
pub fn meant(name: &str) -> Option<&'static str> {
    let own = |name: &str| name.strip_prefix("PENNY_").unwrap_or(name).to_owned();
    let word = own(name);
    let names = VARIABLES.iter().map(|variable| &variable.name["PENNY_".len()..]);
    let longer = |known: &&str| {
        known.len() > 3 && word.len() > 3 && (word.starts_with(known) || known.starts_with(word.as_str()))
    };
    let nearest = spelling::nearest(&word, names.clone()).or_else(|| names.clone().find(longer))?;
    VARIABLES.iter().map(|variable| variable.name).find(|name| own(name) == nearest)
}

/// Returns the variables of this process that are misspelt ones of Penny's beyond much doubt, with the ones that are meant: one letter differs,
/// or two of eight.
pub fn misspelt() -> Vec<(String, &'static str)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut found: Vec<_> = names
        .filter(|name| !is_known(name))
        .filter_map(|name| meant(&name).filter(|meant| is_slip(&name, meant)).map(|meant| (name, meant)))
        .collect();
    found.sort();
    found
}

/// Tells whether two names with the same beginning differ by so little that one is the other misspelt.
fn is_slip(name: &str, meant: &str) -> bool {
    let [name, meant] = [name, meant].map(|name| name.strip_prefix("PENNY_").unwrap_or(name));
    // A short word is soon another one.
    let most = match meant.len() {
        0..4 => 0,
        4..8 => 1,
        _ => 2,
    };
    spelling::distance(name, meant) <= most
}

/// The variable's value, if it is set and not empty. Bytes that are no text stand in it as U+FFFD, so that it is refused, not taken for unset.
pub fn get(name: &'static str) -> Option<String> {
    debug_assert!(name.starts_with("PENNY_"), "only Penny's own variables are read here");
    std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
}

/// Returns the folder of the user's caches: `XDG_CACHE_HOME`, else `.cache` in `HOME`. `None`: neither is an absolute path.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
}

/// Reads a number of bytes: digits and an optional unit. K, M, G, T and KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB
/// are powers of 1000. Capitals do not count.
pub fn parse_bytes(text: &str) -> Option<usize> {
    bytes_from(text).ok()
}

/// Reads a number of bytes as [`parse_bytes`] does. The error is a sentence for command lines.
pub fn bytes_from(text: &str) -> Result<usize, &'static str> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("t", 1 << 40),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
    ];
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = UNITS.iter().find(|(name, _)| unit.trim_start().eq_ignore_ascii_case(name));
    let Some((_, times)) = unit.filter(|_| !digits.is_empty()) else {
        return Err(
            "not a size: write bytes as 8, 64K, 32M or 1G (powers of 1024, as KiB), or as 1MB (a power of 1000)",
        );
    };
    let number: u64 = digits.parse().map_err(|_| "more bytes than an address can count")?;
    let bytes = number.checked_mul(*times).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or("more bytes than an address can count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_leads_to_the_one_that_is_meant() {
        for (slip, name) in [
            ("PENNY_AGLO", "PENNY_ALGO"),
            ("PENNY_ALGORITHM", "PENNY_ALGO"),
            ("PENNY_TIMEOT", "PENNY_TIMEOUT"),
            ("PENNY_TIMEOUTMS", "PENNY_TIMEOUT"),
            ("PENNY_NET_IFACE", "PENNY_NET_IFACES"),
            ("PENNY_SHMEM", "PENNY_SHMEM_SIZE"),
        ] {
            assert!(!is_known(slip));
            assert_eq!(meant(slip), Some(name), "{slip}");
        }
        assert_eq!(["PENNY_LANE", "PENNY_NODES", "PENNY_MY_OWN"].map(meant), [None; 3]);
        assert!(is_slip("PENNY_AGLO", "PENNY_ALGO") && is_slip("PENNY_TIMEOT", "PENNY_TIMEOUT"));
        // Kubernetes sets some of these for a service called penny, and programs have their own.
        for (own, name) in [
            ("PENNY_SET", "PENNY_NET"),
            ("PENNY_HOST", "PENNY_HOST_ID"),
            ("PENNY_SECRET_KEY", "PENNY_SECRET"),
        ] {
            assert!(!is_slip(own, name), "{own}");
        }
        for known in ["PENNY_ALGO", "PENNY_RANK", "PENNY_TEST_SEED", "HOME", "PENNY_"] {
            assert!(is_known(known), "{known}");
        }
    }

    #[test]
    fn bytes_take_a_suffix_and_nothing_else() {
        assert_eq!(parse_bytes("64"), Some(64));
        assert_eq!(parse_bytes("64K"), Some(65536));
        assert_eq!(parse_bytes("2g"), Some(2 << 30));
        assert_eq!(parse_bytes("4T"), Some(4 << 40));
        assert_eq!(
            ["1MiB", "1 mib", "1MB", "3kB", "2KiB", "7B"].map(parse_bytes),
            [1 << 20, 1 << 20, 1_000_000, 3000, 2048, 7].map(Some)
        );
        assert_eq!(["MiB", "1MiBs", "1.5M", "1 M B"].map(parse_bytes), [None; 4]);
        assert_eq!(parse_bytes(""), None);
        assert_eq!(parse_bytes("12x"), None);
        assert_eq!(parse_bytes("-1"), None);
        assert_eq!(parse_bytes("99999999999999999999G"), None);
    }
}
