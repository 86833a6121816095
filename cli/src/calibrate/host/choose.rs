//! Chooses the algorithms that beat the built-in table on this host beyond doubt.
//!
//! ```text
//!     every number of ranks, collective, size      price all algorithms; those near the cheapest are candidates
//!     numbers of ranks that are measured           time them against the table, in turns; keep those that win by a margin
//!     other numbers of ranks, up to the cores      keep those whose price wins by twice the model's error
//!     all else                                     the table
//! ```
//!
//! A size stands for all sizes up to the next one, so a candidate must win at a size and must not lose at the next.

use std::ops::RangeInclusive;

use penny::Collective;
use penny::internals::planner::profile::{HostProfile, ProfileChoice};
use penny::sim::plan::RankView;

use super::compare::{Against, Comparison, HUGE, Place, SIZES, collectives, have_own_cores, of_table};

/// The least gain of a measured candidate: it replaces the table's algorithm only if it is faster by this part.
const MARGIN: f64 = 0.07;
/// The same for ranks that share cores: their times differ by a tenth from one launch to the next.
const SHARED_CORES_MARGIN: f64 = 0.15;
/// The least gain of a candidate that was priced and not measured.
const PRICED_MARGIN: f64 = 0.25;
/// The greatest loss of a candidate in shared buffers, where it need not win, by the upper quartile. At the next size it is
/// twice this.
const LOSS: f64 = 0.02;

impl Comparison {
    /// Returns the algorithm that replaces the table's from this size up to the next, if there is one.
    fn winner(&self, (nranks, collective, size): Place, measured: bool, error: f64) -> Option<usize> {
        let margin = if have_own_cores(nranks) { MARGIN } else { SHARED_CORES_MARGIN };
        let priced_margin = PRICED_MARGIN.max(1.0 - (-2.0 * error).exp());
        let at = |size: usize, algorithm: usize| self.known.get(&((nranks, collective, size), algorithm));
        let view = RankView::flat(collective, 0, nranks, 0);
        let is_tables =
            |size: usize, algorithm| of_table(&view, SIZES.get(size).copied().unwrap_or(HUGE)) == algorithm;
        let holds = |algorithm: usize| {
            let (here, next) = (at(size, algorithm)?, at(size + 1, algorithm));
            let next_is_tables = is_tables(size + 1, algorithm);
            let wins = match (here.private, here.shared, next) {
                (Some(private), Some(shared), next) if measured => {
                    let wins = private[0] <= 1.0 - margin && private[1] < 1.0 && shared[1] <= 1.0 + LOSS;
                    let stays = |ratios: Option<[f64; 2]>, priced: f64| match ratios {
                        Some([median, most]) => median <= 1.0 && most <= 1.0 + 2.0 * LOSS,
                        // Sizes beyond the last one are priced and not measured.
                        None => size + 1 == SIZES.len() && priced <= 1.0 - margin,
                    };
                    let lasts =
                        |next: &Against| stays(next.private, next.priced) && stays(next.shared, next.priced);
                    let lasts_near = here.near_next.is_none_or(|ratios| stays(Some(ratios), here.priced));
                    wins && lasts_near && (next_is_tables || next.is_some_and(lasts))
                }
                (None, None, Some(next)) if !measured => {
                    here.priced <= 1.0 - priced_margin
                        && (next_is_tables || next.priced <= 1.0 - priced_margin)
                }
                _ => false,
            };
            let gain = here.private.map_or(here.priced, |private| private[0]);
            wins.then_some((gain, algorithm))
        };
        let candidates = self.candidates((nranks, collective, size)).into_iter();
        let best = candidates.filter_map(holds).min_by(|one, other| one.0.total_cmp(&other.0));
        best.map(|(_, algorithm)| algorithm)
    }

    /// Returns the choices that differ from the table's. A choice for a number of ranks also holds for fewer ranks, down to the
    /// next number that was priced or measured, as far as the prices agree. `error` is the error of the prices before the
    /// choices were confirmed.
    pub fn profile(
        &self,
        error: f64,
        agrees: &mut dyn FnMut(u32, Collective, u64, usize) -> bool,
    ) -> Result<HostProfile, String> {
        let mut ranks = self.ranks.clone();
        ranks.sort_unstable();
        let mut choices: Vec<ProfileChoice> = Vec::new();
        let mut below = 1;
        for &(nranks, measured) in &ranks {
            for collective in collectives() {
                for (size, &bytes) in SIZES.iter().enumerate() {
                    let Some(algorithm) = self.winner((nranks, collective, size), measured, error) else {
                        continue;
                    };
                    let between = below + 1..nranks;
                    let all = !between.is_empty()
                        && [between.start, u32::midpoint(between.start, nranks - 1), nranks - 1]
                            .iter()
                            .all(|&fewer| agrees(fewer, collective, bytes, algorithm));
                    let end = SIZES.get(size + 1).copied().unwrap_or(u64::MAX);
                    let first = if all { between.start } else { nranks };
                    add(&mut choices, first..=nranks, collective, bytes..end, algorithm);
                }
            }
            below = nranks;
        }
        HostProfile::of(choices)
    }
}

/// Adds a choice. If it continues the one before it, the two become one.
fn add(
    choices: &mut Vec<ProfileChoice>,
    ranks: RangeInclusive<u32>,
    collective: Collective,
    sizes: std::ops::Range<u64>,
    algorithm: usize,
) {
    match choices.last_mut() {
        Some(last)
            if last.collective == collective
                && last.ranks == ranks
                && last.algorithm == algorithm
                && last.sizes.end == sizes.start =>
        {
            last.sizes.end = sizes.end;
        }
        _ => choices.push(ProfileChoice { ranks, collective, sizes, algorithm }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::host::compare::{index, near, quartiles};
    use penny::sim::algorithms;

    const RANKS: u32 = 4;

    fn named(name: &str) -> usize {
        index(algorithms::find(name).unwrap())
    }

    /// A broadcast by two_shot, which is not the table's, with these ratios at each size from 64 KiB on.
    fn broadcast(ratios: &[(f64, [f64; 2], [f64; 2])], measured: bool) -> Comparison {
        let mut all = Comparison { ranks: vec![(RANKS, measured)], ..Comparison::default() };
        let first = SIZES.iter().position(|&bytes| bytes == 64 << 10).unwrap();
        for (i, &(priced, private, shared)) in ratios.iter().enumerate() {
            let against = match measured {
                true => Against { priced, private: Some(private), shared: Some(shared), near_next: None },
                false => Against { priced, ..Against::default() },
            };
            all.known.insert(((RANKS, Collective::Broadcast, first + i), named("two_shot")), against);
        }
        all
    }

    fn choices(all: &Comparison) -> Vec<(RangeInclusive<u32>, std::ops::Range<u64>)> {
        let profile = all.profile(all.error(), &mut |_, _, _, _| false).unwrap();
        profile.choices().iter().map(|c| (c.ranks.clone(), c.sizes.clone())).collect()
    }

    const WINS: (f64, [f64; 2], [f64; 2]) = (0.6, [0.8, 0.9], [0.9, 1.0]);
    const EVEN: (f64, [f64; 2], [f64; 2]) = (0.9, [0.97, 1.01], [1.0, 1.01]);
    const LOSES: (f64, [f64; 2], [f64; 2]) = (1.2, [1.1, 1.2], [1.1, 1.2]);

    #[test]
    fn a_candidate_replaces_the_table_where_it_wins_and_does_not_lose_up_to_the_next_size() {
        assert_eq!(choices(&broadcast(&[WINS, WINS, EVEN, LOSES], true)), [(4..=4, 64 << 10..256 << 10)]);
        assert_eq!(choices(&broadcast(&[WINS, LOSES], true)), []);
        assert_eq!(choices(&broadcast(&[EVEN, EVEN], true)), []);
    }

    #[test]
    fn a_small_or_uncertain_gain_or_a_loss_in_shared_buffers_leaves_the_table() {
        for not in
            [(0.6, [0.95, 0.96], [0.9, 0.9]), (0.6, [0.8, 1.01], [0.9, 0.9]), (0.6, [0.8, 0.9], [0.9, 1.05])]
        {
            assert_eq!(choices(&broadcast(&[not, WINS], true)), [], "{not:?}");
        }
    }

    #[test]
    fn beyond_the_last_size_the_price_decides() {
        let upto = |last: f64| {
            let mut all = broadcast(&[WINS; 7], true);
            let place = ((RANKS, Collective::Broadcast, SIZES.len()), named("two_shot"));
            all.known.insert(place, Against { priced: last, ..Against::default() });
            choices(&all)
        };
        assert_eq!(upto(0.5), [(4..=4, 64 << 10..u64::MAX)]);
        assert_eq!(upto(0.99), [(4..=4, 64 << 10..4 << 20)]);
    }

    #[test]
    fn a_price_alone_must_win_by_more_than_the_model_is_wrong() {
        let priced = |ratio| (ratio, [0.0; 2], [0.0; 2]);
        assert_eq!(choices(&broadcast(&[priced(0.6), priced(0.6)], false)), [(4..=4, 64 << 10..128 << 10)]);
        assert_eq!(choices(&broadcast(&[priced(0.8), priced(0.6)], false)), []);
        // Prices that were wrong by a factor of two elsewhere.
        let mut wrong = broadcast(&[priced(0.6), priced(0.6)], false);
        let place = ((2, Collective::Broadcast, 0), named("two_shot"));
        let off = Against { priced: 0.5, private: Some([1.0, 1.0]), ..Against::default() };
        wrong.known.insert(place, off);
        assert!((wrong.error() - 2f64.ln()).abs() < 1e-9);
        assert_eq!(choices(&wrong), []);
    }

    #[test]
    fn fewer_ranks_take_the_choice_where_prices_agree() {
        let all = broadcast(&[WINS, WINS], true);
        let mut all = Comparison { ranks: vec![(2, true), (4, true)], ..all };
        let ranks = |all: &Comparison, agrees: bool| {
            all.profile(all.error(), &mut |_, _, _, _| agrees).unwrap().choices()[0].ranks.clone()
        };
        assert_eq!((ranks(&all, true), ranks(&all, false)), (3..=4, 4..=4));
        all.ranks = vec![(3, true), (4, true)];
        assert_eq!(ranks(&all, true), 4..=4);
    }

    #[test]
    fn the_table_is_timed_first_and_only_where_there_is_a_candidate() {
        let all = broadcast(&[WINS, WINS], true);
        let calls = all.calls(RANKS);
        assert_eq!(calls.len(), 4, "two sizes, two kinds of buffers");
        assert!(calls.iter().all(|call| call.algorithms == [None, Some("two_shot".to_owned())]));
    }

    #[test]
    fn a_choice_that_does_not_win_again_is_dropped() {
        let confirmed = |again: f64| {
            let mut all = broadcast(&[WINS, WINS, EVEN], true);
            let other = ((RANKS, Collective::Broadcast, 0), named("tree"));
            all.known.insert(
                other,
                Against { priced: 0.5, private: Some([0.5; 2]), shared: Some([0.5; 2]), near_next: None },
            );
            let profile = all.profile(all.error(), &mut |_, _, _, _| false).unwrap();
            let calls = all.confirming(RANKS, &profile);
            assert_eq!(calls.len(), 6, "three sizes, two kinds of buffers: {calls:?}");
            let times = vec![vec![vec![100.0; 5], vec![100.0 * again; 5]]; calls.len()];
            all.confirmed(RANKS, &calls, &times);
            choices(&all)
        };
        assert_eq!(
            confirmed(0.8),
            [(4..=4, 64 << 10..256 << 10)],
            "and what was not timed again is not chosen"
        );
        assert_eq!(confirmed(0.99), []);
    }

    #[test]
    fn below_the_size_from_which_the_table_takes_it_a_choice_is_timed_near_that_size_and_must_not_lose() {
        let table = |bytes| of_table(&RankView::flat(Collective::Reduce, 0, 8, 0), bytes);
        let switch = SIZES.into_iter().position(|bytes| table(bytes) == named("tree")).unwrap();
        assert_ne!(table(near(switch - 1)), named("tree"));
        let known = |near_next: [f64; 2]| {
            let mut all = Comparison { ranks: vec![(8, true)], ..Comparison::default() };
            let (_, private, shared) = WINS;
            let against =
                Against { priced: 0.6, private: Some(private), shared: Some(shared), near_next: None };
            all.known.insert(((8, Collective::Reduce, switch - 1), named("tree")), against);
            let profile = all.profile(all.error(), &mut |_, _, _, _| false).unwrap();
            let calls = all.confirming(8, &profile);
            let bytes: Vec<u64> = calls.iter().map(|call| call.bytes).collect();
            let (at, near) = (SIZES[switch - 1], near(switch - 1));
            assert_eq!(bytes, [at, at, near, near]);
            let times = calls.iter().map(|call| {
                let [median, most] = if call.bytes == near { near_next } else { private };
                vec![vec![100.0; 4], vec![100.0 * median, 100.0 * median, 100.0 * median, 100.0 * most]]
            });
            all.confirmed(8, &calls, &times.collect::<Vec<_>>());
            choices(&all)
        };
        assert_eq!(known([0.99, 1.03]), [(8..=8, SIZES[switch - 1]..SIZES[switch])]);
        assert_eq!(known([1.02, 1.03]), []);
        assert_eq!(known([0.99, 1.1]), []);
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        assert_eq!(quartiles(&[10.0, 50.0, 90.0, 8.0], &[10.0, 100.0, 100.0, 10.0]), [0.9, 1.0]);
    }
}
