//! Which algorithm serves a call: `PENNY_ALGO`, `PENNY_OPTIONS`, `PENNY_REPRODUCIBLE`, the host profile, and the table of what is
//! fastest natively (`fastest`).
//!
//! ```text
//!     PENNY_ALGO = entry (';' entry)*            entry = [collective ':'] choice (',' choice)*
//!     choice     = [low '-' high ':'] name | '^' name           sizes take K, M, G; high may be `inf`
//!
//!     ring                                            this algorithm wherever it can serve, nothing else where it cannot
//!     allreduce:two_shot;broadcast:^tree              per collective; ^ forbids one
//!     allreduce:0-4k:one_shot,4k-inf:ring             by size of the whole vector in bytes
//! ```
//!
//! `PENNY_OPTIONS` says the same in another library's words (`options.rs`). Both may be set; where they
//! contradict each other, neither wins: that is an error.
//!
//! What they leave open is `auto`: the host profile's choice (`profile`), else the table's.

use super::fastest::fastest;
use super::options::{self, Options};
use super::profile::HostProfile;
use crate::algorithms::{self, Algorithm};
use crate::env::parse_bytes;
use crate::error::{Error, Result};
use crate::plan::RankView;
use crate::spelling;
use crate::types::Collective;
use std::sync::Arc;

/// A choice of `PENNY_ALGO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The collective to which it applies; `None`: all.
    pub collective: Option<Collective>,
    /// The sizes of vectors in bytes to which it applies.
    pub sizes: std::ops::Range<u64>,
    /// The algorithm's index in the table.
    pub algorithm: usize,
    /// `^`: not this one.
    pub forbidden: bool,
    /// The variable that says so.
    by: &'static str,
}

/// The choice of algorithms in one communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: Vec<Rule>,
    reproducible: bool,
    /// See [`Options::most_broadcast`].
    most_broadcast: Option<u64>,
    /// The host's, the same on all ranks.
    profile: Option<Arc<HostProfile>>,
    /// Whether each rank has a core of its own, as far as is known.
    own_cores: bool,
}

/// The reason for which an algorithm was chosen, for logs and `penny plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The table of what is fastest.
    Auto,
    /// The host profile says that it is faster than the table's.
    Profile,
    /// `PENNY_ALGO` or `PENNY_OPTIONS` says so.
    Asked,
}

impl Why {
    /// What made the choice, in words.
    pub fn name(self) -> &'static str {
        match self {
            Why::Auto => "the built-in table",
            Why::Profile => "the host profile",
            Why::Asked => "PENNY_ALGO or PENNY_OPTIONS",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Selection {
    /// Parses the values of `PENNY_ALGO` and `PENNY_REPRODUCIBLE`.
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
        Ok(Selection { rules, reproducible, most_broadcast: None, profile: None, own_cores: false })
    }

    /// Returns the same with what `PENNY_OPTIONS` says. An error if the two contradict each other.
    pub fn with_options(mut self, text: Option<&str>) -> Result<Selection> {
        let Some(text) = text else { return Ok(self) };
        let options =
            Options::parse(text).map_err(|what| Error::argument(format!("PENNY_OPTIONS: {what}")))?;
        self.most_broadcast = options.most_broadcast;
        let Some(algorithm) = options.method else { return Ok(self) };
        for collective in options::GOVERNED {
            let concerns = |r: &&Rule| r.collective.is_none_or(|c| c == collective);
            // One that names the collective is stronger than one that does not, as in `choose`.
            let named = self.rules.iter().any(|r| !r.forbidden && r.collective == Some(collective));
            let contradicts = |r: &&Rule| match r.forbidden {
                true => r.algorithm == algorithm,
                false => r.algorithm != algorithm && !(named && r.collective.is_none()),
            };
            let other = self.rules.iter().filter(concerns).find(contradicts);
            if let Some(rule) = other {
                return Err(Error::argument(format!(
                    "PENNY_OPTIONS asks for {} ({}) for {collective}, and PENNY_ALGO {} {}; set one of the two",
                    options::word(algorithm),
                    algorithms::ALL[algorithm].name,
                    if rule.forbidden { "forbids" } else { "asks for" },
                    algorithms::ALL[rule.algorithm].name
                )));
            }
        }
        let rule = |collective| Rule {
            collective: Some(collective),
            sizes: 0..u64::MAX,
            algorithm,
            forbidden: false,
            by: "PENNY_OPTIONS",
        };
        self.rules.extend(options::GOVERNED.map(rule));
        Ok(self)
    }

    /// Returns the same with the choices of a host profile, which are for calls that no variable decides.
    pub fn with_profile(self, profile: Option<Arc<HostProfile>>) -> Selection {
        Selection { profile, ..self }
    }

    /// Returns the same for ranks of which each has a core of its own, or not.
    pub fn with_own_cores(self, own_cores: bool) -> Selection {
        Selection { own_cores, ..self }
    }

    /// Returns the host profile.
    pub fn profile(&self) -> Option<&Arc<HostProfile>> {
        self.profile.as_ref()
    }

    /// Returns the algorithm for a vector of `bytes` bytes: its index in the table, and why.
    pub fn choose(&self, view: &RankView, bytes: u64) -> Result<(usize, Why)> {
        if view.collective == Collective::Barrier {
            return Ok((algorithms::index("one_shot"), Why::Auto));
        }
        // The most specific entry wins: one that names the collective before one that does not.
        let asked =
            self.rules_for(view, bytes).filter(|r| !r.forbidden).max_by_key(|r| r.collective.is_some());
        if let Some(rule) = asked {
            self.can_serve(rule.algorithm, view).map_err(|why| self.refuse(rule, why, view))?;
            return Ok((rule.algorithm, Why::Asked));
        }
        let broadcast = algorithms::index("one_shot");
        let forbidden = |algorithm: usize| self.forbids(algorithm, view, bytes);
        if self.within_broadcast(view, bytes) == Some(true)
            && !forbidden(broadcast)
            && self.can_serve(broadcast, view).is_ok()
        {
            return Ok((broadcast, Why::Asked));
        }
        // What is fastest on one host says nothing of several.
        let profile = self.profile.as_ref().filter(|_| view.hosts.is_none());
        let profile = profile.and_then(|p| p.algorithm(view.nranks, view.collective, bytes));
        if let Some(algorithm) = profile.filter(|&m| !forbidden(m) && self.can_serve(m, view).is_ok()) {
            return Ok((algorithm, Why::Profile));
        }
        let preferred = fastest(view, bytes, self.own_cores).iter().map(|name| algorithms::index(name));
        preferred
            .chain(0..algorithms::ALL.len())
            .find(|&m| !forbidden(m) && self.can_serve(m, view).is_ok())
            .map(|m| (m, Why::Auto))
            .ok_or_else(|| {
                Error::argument(format!("PENNY_ALGO forbids every algorithm that serves {}", view.collective))
            })
    }

    /// Returns the algorithms that may serve where no rule asks for one, in the table's order.
    pub fn allowed<'a>(&'a self, view: &'a RankView, bytes: u64) -> impl Iterator<Item = usize> + 'a {
        (0..algorithms::ALL.len())
            .filter(move |&m| !self.forbids(m, view, bytes) && self.can_serve(m, view).is_ok())
    }

    fn forbids(&self, algorithm: usize, view: &RankView, bytes: u64) -> bool {
        let by_size =
            algorithm == algorithms::index("one_shot") && self.within_broadcast(view, bytes) == Some(false);
        by_size || self.rules_for(view, bytes).any(|r| r.forbidden && r.algorithm == algorithm)
    }

    /// Is the vector small enough for GCL's broadcast, where its limit is set and counts?
    fn within_broadcast(&self, view: &RankView, bytes: u64) -> Option<bool> {
        let counts = view.collective == Collective::AllReduce;
        let most = self.most_broadcast.filter(|_| counts)?;
        Some(bytes.saturating_mul(view.nranks as u64) <= most)
    }

    fn rules_for(&self, view: &RankView, bytes: u64) -> impl Iterator<Item = &Rule> {
        let collective = view.collective;
        self.rules
            .iter()
            .filter(move |r| r.collective.is_none_or(|c| c == collective) && r.sizes.contains(&bytes))
    }

    fn can_serve(&self, index: usize, view: &RankView) -> std::result::Result<(), &'static str> {
        let algorithm = algorithms::ALL[index];
        if let Some(why) = algorithm.refuses(view) {
            return Err(why);
        }
        if self.reproducible && view.collective.reduces() && !algorithm.rank_order {
            return Err("PENNY_REPRODUCIBLE=1 needs an algorithm that folds in rank order");
        }
        Ok(())
    }

    fn refuse(&self, rule: &Rule, why: &str, view: &RankView) -> Error {
        let able: Vec<&str> = (0..algorithms::ALL.len())
            .filter(|&m| self.can_serve(m, view).is_ok())
            .map(|m| algorithms::ALL[m].name)
            .collect();
        Error::argument(format!(
            "{} asks for {} for {}, but {why}; those that can serve it here: {}",
            rule.by,
            algorithms::ALL[rule.algorithm].name,
            view.collective,
            able.join(", ")
        ))
    }
}

/// Reads an entry of `PENNY_ALGO`.
pub(super) fn parse_entry(entry: &str, rules: &mut Vec<Rule>) -> std::result::Result<(), String> {
    let (collective, choices) = match entry.split_once(':') {
        Some((head, rest)) if !head.contains('-') || collective_named(head).is_some() => {
            let c = collective_named(head).ok_or_else(|| {
                let known: Vec<&str> = Collective::ALL.iter().map(|c| c.name()).collect();
                let meant = spelling::hint(head, known.iter().copied());
                format!("`{head}` is no collective{meant}; known: {}", known.join(", "))
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
        let algorithm =
            algorithms::ALL.iter().position(|a: &&Algorithm| a.name == name).ok_or_else(|| {
                let known: Vec<&str> = algorithms::ALL.iter().map(|a| a.name).collect();
                let meant = spelling::hint(name, known.iter().copied());
                format!("`{name}` is no algorithm{meant}; known: auto, {}", known.join(", "))
            })?;
        rules.push(Rule { collective, sizes, algorithm, forbidden, by: "PENNY_ALGO" });
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
        let view = RankView::flat(collective, 0, 4, 0);
        Ok(algorithms::ALL[Selection::parse(Some(algo), None)?.choose(&view, bytes)?.0].name)
    }

    #[test]
    fn one_word_holds_for_every_collective_that_it_can_serve() {
        assert_eq!(choose("ring", Collective::AllReduce, 8).unwrap(), "ring");
        let e = choose("ring", Collective::AlltoAll, 8).unwrap_err().message.clone();
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
            ("rong", "`rong` is no algorithm"),
            ("foo:ring", "`foo` is no collective"),
            ("allreduce:9-4:ring", "no range"),
        ] {
            let e = Selection::parse(Some(algo), None).unwrap_err().message.clone();
            assert!(e.contains(part), "{e}");
        }
        assert!(Selection::parse(None, Some("yes")).is_err());
    }

    /// Returns the algorithm of an all-reduce over four ranks.
    fn with(algo: &str, options: &str, bytes: u64) -> Result<(&'static str, Why)> {
        let selection = Selection::parse(Some(algo), None)?.with_options(Some(options))?;
        let view = RankView::flat(Collective::AllReduce, 0, 4, 0);
        selection.choose(&view, bytes).map(|(algorithm, why)| (algorithms::ALL[algorithm].name, why))
    }

    #[test]
    fn an_option_governs_the_three_collectives_that_have_rings_and_leaves_the_others() {
        let options = Some(r#"{"method":"anticlockwise_ring"}"#);
        let selection = Selection::default().with_options(options).unwrap();
        for &collective in Collective::ALL {
            let view = RankView::flat(collective, 0, 4, 0);
            let (algorithm, why) = selection.choose(&view, 1 << 20).unwrap();
            assert_eq!(why == Why::Asked, options::GOVERNED.contains(&collective));
            assert_eq!(algorithms::ALL[algorithm].name == "ring_reverse", why == Why::Asked);
        }
    }

    #[test]
    fn the_largest_broadcast_counts_all_ranks_bytes_and_binds_auto_only() {
        let most = r#"{"syncful.maxBroadcastSize":2048}"#;
        assert_eq!(with("", most, 512).unwrap(), ("one_shot", Why::Asked));
        assert_eq!(with("", most, 513).unwrap(), ("two_shot", Why::Auto));
        assert_eq!(with("", r#"{"syncful.maxBroadcastSize":0}"#, 4).unwrap().0, "two_shot");
        assert_eq!(with("", r#"{"syncful.maxBroadcastSize":4000000}"#, 1_000_000).unwrap().0, "one_shot");
        assert_eq!(with("one_shot", most, 1 << 20).unwrap().0, "one_shot");
        assert_eq!(with("^one_shot", most, 8).unwrap().0, "two_shot");
    }

    #[test]
    fn variables_that_contradict_each_other_are_refused_and_those_that_agree_are_not() {
        let clockwise = r#"{"method":"clockwise_ring"}"#;
        for agrees in ["ring", "", "auto", "broadcast:tree", "^tree", "allreduce:ring;allgather:0-4k:ring"] {
            assert_eq!(with(agrees, clockwise, 8).unwrap().0, "ring", "{agrees}");
        }
        for contradicts in ["tree", "^ring", "allgather:one_shot", "allreduce:4k-inf:two_shot"] {
            let e = with(contradicts, clockwise, 8).unwrap_err();
            let told = ["PENNY_OPTIONS asks for clockwise_ring (ring)", "PENNY_ALGO", "set one of the two"];
            assert!(told.iter().all(|part| e.message.contains(part)), "{contradicts}: {e}");
        }
        assert_eq!(with("ring", r#"{"method":"auto"}"#, 8).unwrap().0, "ring");
        let e = with("", r#"{"method":"ring"}"#, 8).unwrap_err().message.clone();
        assert!(e.starts_with("PENNY_OPTIONS: `ring` is no method"), "{e}");
    }

    #[test]
    fn reproducible_mode_refuses_algorithms_without_rank_order() {
        let view = RankView::flat(Collective::AllReduce, 0, 4, 0);
        let e =
            Selection::parse(Some("ring"), Some("1")).unwrap().choose(&view, 8).unwrap_err().message.clone();
        assert!(e.contains("PENNY_REPRODUCIBLE") && e.contains("two_shot"), "{e}");
    }
}
