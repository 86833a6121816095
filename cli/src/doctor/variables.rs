//! Every PENNY_ variable: what it is set to, what it would do, and the ones that do not exist.

use penny::internals::env::VARIABLES;

use super::Fact;

/// Set by `penny run` for each rank; no user sets them.
const LAUNCHER: [&str; 5] =
    ["PENNY_JOB_ID", "PENNY_RANK", "PENNY_WORLD_SIZE", "PENNY_LOCAL_RANK", "PENNY_LOCAL_SIZE"];

/// The variables of this environment.
pub fn facts() -> Vec<Fact> {
    let set: Vec<(String, String)> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect();
    let known = VARIABLES.iter().map(|variable| {
        match set.iter().find(|(name, value)| name == variable.name && !value.is_empty()) {
            Some((name, value)) => Fact::ok(name, format!("{value} ({}: {})", variable.kind, variable.about)),
            None => Fact::ok(variable.name, format!("not set ({}: {})", variable.kind, variable.about)),
        }
    });
    let mut unknown: Vec<Fact> =
        set.iter().filter(|(name, _)| is_unknown(name)).map(|(n, v)| stray(n, v)).collect();
    unknown.sort_by(|a, b| a.subject.cmp(&b.subject));
    known.chain(unknown).collect()
}

fn is_unknown(name: &str) -> bool {
    let known = VARIABLES.iter().map(|variable| variable.name).chain(LAUNCHER);
    name.starts_with("PENNY_") && !known.into_iter().any(|k| k == name)
}

fn stray(name: &str, value: &str) -> Fact {
    let distance = |other: &&str| strsim::damerau_levenshtein(name, other);
    let names = VARIABLES.iter().map(|variable| variable.name);
    let nearest = names.min_by_key(distance).unwrap_or_default();
    Fact::warn(name, value, format!("Penny has no such variable; did you mean {nearest}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        assert!(is_unknown("PENNY_AGLO"));
        assert!(stray("PENNY_AGLO", "ring").remedy.unwrap().contains("PENNY_ALGO?"));
        assert!(stray("PENNY_TIMEOUTMS", "1").remedy.unwrap().contains("PENNY_TIMEOUT?"));
    }

    #[test]
    fn known_and_foreign_variables_are_no_strays() {
        assert!(!is_unknown("PENNY_ALGO"));
        assert!(!is_unknown("PENNY_RANK"));
        assert!(!is_unknown("HOME"));
    }
}
