//! The algorithm by which a call is over soonest.

use penny::Rank;
use penny::sim::algorithms;
use penny::sim::plan::RankView;
use penny::sim::topology::Network;

use super::{Block, Priced, Programs, Views, Wanted};

/// Returns a test whether an algorithm counts as asked for by name: it is one of `names`, or the machine has no protocols.
pub fn named<'a>(network: &Network, view: &RankView, names: &'a [String]) -> impl Fn(&str) -> bool + use<'a> {
    let is_carried = algorithms::is_carried(network, view);
    move |name| !is_carried || names.iter().any(|known| known == name)
}

/// Returns the number of the candidate by which a call is over soonest, and its price; of several the first. `None`: no protocol of the
/// machine carries any of them. `block`: the call's block as a candidate prices it.
pub fn quickest<'a>(
    candidates: impl IntoIterator<Item = &'a Programs>,
    machine: &Views,
    places: &[Rank],
    is_named: impl Fn(&str) -> bool,
    block: impl Fn(&Programs) -> Block,
) -> Result<Option<(usize, Priced)>, String> {
    let mut best: Option<(usize, Priced)> = None;
    let mut candidates: Vec<(usize, &Programs)> = candidates.into_iter().enumerate().collect();
    // As ranks leave out what has too many messages, unless nothing would be left.
    let is_followed = |candidate: &Programs| candidate.too_many(machine, places, block(candidate)).is_none();
    if candidates.iter().any(|(_, candidate)| is_followed(candidate)) {
        candidates.retain(|(_, candidate)| is_followed(candidate));
    }
    // What a library expects to be over soonest first: the others are not priced.
    let expected_ps = |candidate: &Programs| candidate.expected_ps(machine, block(candidate));
    let mut candidates: Vec<(usize, &Programs, Option<u64>)> = candidates
        .into_iter()
        .map(|(number, candidate)| (number, candidate, expected_ps(candidate)))
        .collect();
    candidates.sort_by_key(|(_, _, expected_ps)| expected_ps.unwrap_or(u64::MAX));
    for (number, candidate, expected_ps) in candidates {
        let least_ps = best.as_ref().map(|(_, priced)| priced.expected_ps);
        if least_ps.is_some_and(|least_ps| expected_ps.is_some_and(|expected_ps| expected_ps >= least_ps)) {
            continue;
        }
        if least_ps.is_some_and(|least_ps| candidate.is_slower(machine, places, block(candidate), least_ps)) {
            continue;
        }
        let wanted = match is_named(candidate.algorithm.name) {
            true => Wanted::Named,
            false => Wanted::Quicker(least_ps),
        };
        let priced = candidate.price(machine, places, block(candidate), wanted);
        let Some(priced) = priced.map_err(|e| e.message.clone())? else { continue };
        if least_ps.is_none_or(|least_ps| priced.expected_ps < least_ps) {
            best = Some((number, priced));
        }
    }
    Ok(best)
}
