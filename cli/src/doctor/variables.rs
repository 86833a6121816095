//! Every PENNY_ variable: what it is set to, what it would do, and the ones that do not exist.

use penny::internals::env::{self, VARIABLES};

use super::Fact;

/// The variables of this environment. `all`: a fact for each that is not set, else one for all of these.
pub fn facts(all: bool) -> Vec<Fact> {
    let set: Vec<(String, String)> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect();
    let mut known = Vec::new();
    let mut not_set = 0;
    for variable in VARIABLES {
        match set.iter().find(|(name, value)| name == variable.name && !value.is_empty()) {
            Some((name, value)) => {
                known.push(Fact::ok(name, format!("{value} ({}: {})", variable.kind, variable.about)));
            }
            None if all => {
                known.push(Fact::ok(
                    variable.name,
                    format!("not set ({}: {})", variable.kind, variable.about),
                ));
            }
            None => not_set += 1,
        }
    }
    if not_set > 0 {
        let text =
            format!("{not_set} variables not set; docs/variables.md describes them, --json lists them");
        known.push(Fact::ok("PENNY_*", text));
    }
    let mut unknown: Vec<Fact> =
        set.iter().filter(|(name, _)| !env::is_known(name)).map(|(n, v)| stray(n, v)).collect();
    unknown.sort_by(|a, b| a.subject.cmp(&b.subject));
    known.extend(unknown);
    known
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
