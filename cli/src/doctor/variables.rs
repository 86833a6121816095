//! Every PENNY_ variable: what it is set to, what it would do, and the ones that do not exist.

use penny::internals::env::{self, VARIABLES};

use super::Fact;

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
        set.iter().filter(|(name, _)| !env::is_known(name)).map(|(n, v)| stray(n, v)).collect();
    unknown.sort_by(|a, b| a.subject.cmp(&b.subject));
    known.chain(unknown).collect()
}

fn stray(name: &str, value: &str) -> Fact {
    let meant = env::meant(name).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Fact::warn(name, value, format!("Penny has no such variable{meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        assert!(stray("PENNY_AGLO", "ring").remedy.unwrap().contains("PENNY_ALGO?"));
        assert!(stray("PENNY_TIMEOUTMS", "1").remedy.unwrap().contains("PENNY_TIMEOUT?"));
    }
}
