//! Which method serves a call: `PENNY_ALGO`, `PENNY_REPRODUCIBLE`, and a table of what is fastest natively.
//!
//! ```text
//!     PENNY_ALGO = entry (';' entry)*            entry = [collective ':'] choice (',' choice)*
//!     choice     = [low '-' high ':'] name | '^' name           sizes take K, M, G; high may be `inf`
//!
//!     ring                                            this method wherever it can serve, nothing else where it cannot
//!     allreduce:two_shot;broadcast:^tree              per collective; ^ forbids one
//!     allreduce:0-4k:one_shot,4k-inf:ring             by size of the whole vector in bytes
//! ```

use crate::algorithms::{self, Algorithm};
use crate::env::parse_bytes;
use crate::error::{Error, Result};
use crate::plan::View;
use crate::types::Collective;

/// One choice of `PENNY_ALGO`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// For this collective only.
    collective: Option<Collective>,
    /// For vectors of this many bytes.
    sizes: std::ops::Range<u64>,
    /// The method's index in the registry.
    method: usize,
    /// `^`: not this one.
    forbidden: bool,
}

/// How methods are chosen in one communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: Vec<Rule>,
    reproducible: bool,
}

/// Why a method was chosen, for logs and `penny plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The table of what is fastest.
    Auto,
    /// `PENNY_ALGO` says so.
    Asked,
}

impl Selection {
    /// From the values of `PENNY_ALGO` and `PENNY_REPRODUCIBLE`.
    pub fn parse(algo: Option<&str>, reproducible: Option<&str>) -> Result<Selection> {
        let reproducible = match reproducible {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(Error::argument(format!("PENNY_REPRODUCIBLE is `{other}`; it takes 0 or 1")));
            }
        };
        let mut rules = Vec::new();
        for entry in algo.unwrap_or("").split(';').map(str::trim).filter(|e| !e.is_empty() && *e != "auto") {
            parse_entry(entry, &mut rules)
                .map_err(|what| Error::argument(format!("PENNY_ALGO `{entry}`: {what}")))?;
        }
        Ok(Selection { rules, reproducible })
    }

    /// The method for a vector of `bytes` bytes: its index in the registry, and why.
    pub fn choose(&self, view: &View, bytes: u64) -> Result<(usize, Why)> {
        let applies =
            |r: &&Rule| r.collective.is_none_or(|c| c == view.collective) && r.sizes.contains(&bytes);
        if view.collective == Collective::Barrier {
            return Ok((algorithms::index("one_shot"), Why::Auto));
        }
        // The most specific entry wins: one that names the collective before one that does not.
        let asked =
            self.rules.iter().filter(applies).filter(|r| !r.forbidden).max_by_key(|r| r.collective.is_some());
        if let Some(rule) = asked {
            self.can_serve(rule.method, view).map_err(|why| self.refuse(rule.method, why, view))?;
            return Ok((rule.method, Why::Asked));
        }
        let forbidden =
            |method: usize| self.rules.iter().filter(applies).any(|r| r.forbidden && r.method == method);
        let preferred = fastest(view, bytes).iter().map(|name| algorithms::index(name));
        preferred
            .chain(0..algorithms::ALL.len())
            .find(|&m| !forbidden(m) && self.can_serve(m, view).is_ok())
            .map(|m| (m, Why::Auto))
            .ok_or_else(|| {
                Error::argument(format!("PENNY_ALGO forbids every method that serves {}", view.collective))
            })
    }

    /// The methods that may serve where no rule asks for one, in the registry's order.
    pub fn allowed<'a>(&'a self, view: &'a View, bytes: u64) -> impl Iterator<Item = usize> + 'a {
        let forbidden = move |method: usize| {
            self.rules.iter().any(|r| {
                r.forbidden
                    && r.method == method
                    && r.sizes.contains(&bytes)
                    && r.collective.is_none_or(|c| c == view.collective)
            })
        };
        (0..algorithms::ALL.len()).filter(move |&m| !forbidden(m) && self.can_serve(m, view).is_ok())
    }

    fn can_serve(&self, method: usize, view: &View) -> std::result::Result<(), &'static str> {
        let algorithm = algorithms::ALL[method];
        if let Some(why) = algorithm.refuses(view) {
            return Err(why);
        }
        if self.reproducible && view.collective.reduces() && !algorithm.rank_order {
            return Err("PENNY_REPRODUCIBLE=1 needs a method that folds in rank order");
        }
        Ok(())
    }

    fn refuse(&self, method: usize, why: &str, view: &View) -> Error {
        let able: Vec<&str> = (0..algorithms::ALL.len())
            .filter(|&m| self.can_serve(m, view).is_ok())
            .map(|m| algorithms::ALL[m].name)
            .collect();
        Error::argument(format!(
            "PENNY_ALGO asks for {} for {}, but {why}; those that can serve it here: {}",
            algorithms::ALL[method].name,
            view.collective,
            able.join(", ")
        ))
    }
}

/// The native table: what was fastest where it was measured (bench/records), best first.
fn fastest(view: &View, bytes: u64) -> &'static [&'static str] {
    use Collective::*;
    let small = bytes <= crate::memory::control::PAYLOAD as u64;
    match view.collective {
        AllReduce | Reduce if !small => &["two_shot", "one_shot"],
        AlltoAll if !small => &["pairwise", "one_shot"],
        _ => &["one_shot"],
    }
}

fn parse_entry(entry: &str, rules: &mut Vec<Rule>) -> std::result::Result<(), String> {
    let (collective, choices) = match entry.split_once(':') {
        Some((head, rest)) if !head.contains('-') || collective_named(head).is_some() => {
            let c = collective_named(head).ok_or_else(|| {
                let known: Vec<&str> = Collective::ALL.iter().map(|c| c.name()).collect();
                format!("`{head}` is no collective; known: {}", known.join(", "))
            })?;
            (Some(c), rest)
        }
        _ => (None, entry),
    };
    for choice in choices.split(',').map(str::trim) {
        let (sizes, name) = match choice.split_once(':') {
            Some((range, name)) => (parse_range(range)?, name),
            None => (0..u64::MAX, choice),
        };
        let (forbidden, name) = match name.strip_prefix('^') {
            Some(name) => (true, name),
            None => (false, name),
        };
        let method = algorithms::ALL.iter().position(|a: &&Algorithm| a.name == name).ok_or_else(|| {
            let known: Vec<&str> = algorithms::ALL.iter().map(|a| a.name).collect();
            format!("`{name}` is no method; known: auto, {}", known.join(", "))
        })?;
        rules.push(Rule { collective, sizes, method, forbidden });
    }
    Ok(())
}

/// `all_reduce`, and without the underscore.
fn collective_named(name: &str) -> Option<Collective> {
    Collective::ALL.iter().copied().find(|c| c.name() == name || c.name().replace('_', "") == name)
}

fn parse_range(range: &str) -> std::result::Result<std::ops::Range<u64>, String> {
    let bad = || format!("`{range}` is no range of sizes; write for instance 4k-64k or 4k-inf");
    let (low, high) = range.split_once('-').ok_or_else(bad)?;
    let low = parse_bytes(low).ok_or_else(bad)? as u64;
    let high = if high == "inf" { u64::MAX } else { parse_bytes(high).ok_or_else(bad)? as u64 };
    if low < high { Ok(low..high) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(algo: &str, collective: Collective, bytes: u64) -> Result<&'static str> {
        let view = View::flat(collective, 0, 4, 0);
        Ok(algorithms::ALL[Selection::parse(Some(algo), None)?.choose(&view, bytes)?.0].name)
    }

    #[test]
    fn one_word_holds_for_every_collective_that_it_can_serve() {
        assert_eq!(choose("ring", Collective::AllReduce, 8).unwrap(), "ring");
        let e = choose("ring", Collective::AlltoAll, 8).unwrap_err().message;
        assert!(e.contains("asks for ring for alltoall") && e.contains("pairwise"), "{e}");
    }

    #[test]
    fn collectives_sizes_and_exclusions_are_understood() {
        let algo = "allreduce:0-4k:one_shot,4k-inf:ring;broadcast:^one_shot";
        assert_eq!(choose(algo, Collective::AllReduce, 4095).unwrap(), "one_shot");
        assert_eq!(choose(algo, Collective::AllReduce, 4096).unwrap(), "ring");
        assert_ne!(choose(algo, Collective::Broadcast, 8).unwrap(), "one_shot");
        assert_eq!(choose("tree;all_reduce:ring", Collective::AllReduce, 8).unwrap(), "ring");
    }

    #[test]
    fn unknown_words_are_errors_that_list_the_known_ones() {
        for (algo, part) in [
            ("rong", "`rong` is no method"),
            ("foo:ring", "`foo` is no collective"),
            ("allreduce:9-4:ring", "no range"),
        ] {
            let e = Selection::parse(Some(algo), None).unwrap_err().message;
            assert!(e.contains(part), "{e}");
        }
        assert!(Selection::parse(None, Some("yes")).is_err());
    }

    #[test]
    fn reproducible_mode_refuses_methods_without_rank_order() {
        let view = View::flat(Collective::AllReduce, 0, 4, 0);
        let e = Selection::parse(Some("ring"), Some("1")).unwrap().choose(&view, 8).unwrap_err().message;
        assert!(e.contains("PENNY_REPRODUCIBLE") && e.contains("two_shot"), "{e}");
    }
}
