//! Every `PENNY_` variable: its name, its type, what it does. Read once, at communicator creation.

/// One variable that a user may set.
pub struct Variable {
    /// The name in the environment.
    pub name: &'static str,
    /// What its value is: a number, a word, a grammar.
    pub kind: &'static str,
    /// What it does and what it is when unset.
    pub about: &'static str,
}

/// The table that `penny doctor` and the README print.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "PENNY_ALGO", kind: "grammar", about: "method per collective, e.g. `ring` or `allreduce:two_shot;broadcast:^tree`; unset: auto" },
    Variable { name: "PENNY_TIMEOUT", kind: "seconds", about: "deadline of every blocking call, 0 = none; unset: 600" },
    Variable { name: "PENNY_REPRODUCIBLE", kind: "0 or 1", about: "same bits for any method, placement and slicing; unset: 0" },
    Variable { name: "PENNY_HEAP_SIZE", kind: "bytes", about: "most that pennyMemAlloc can hand out in one process; unset: the machine's memory" },
    Variable { name: "PENNY_STAGING", kind: "bytes", about: "staging memory per rank and communicator; unset: by the number of ranks" },
    Variable { name: "PENNY_SPIN", kind: "count", about: "polls before a waiter yields; unset: by ranks and cores" },
    Variable { name: "PENNY_LOG", kind: "off, error, warn, info", about: "what is written to standard error; unset: warn" },
];

/// The variable's value, if it is set and not empty.
pub fn get(name: &'static str) -> Option<String> {
    debug_assert!(name.starts_with("PENNY_"), "only Penny's own variables are read here");
    std::env::var(name).ok().filter(|v| !v.is_empty())
}
