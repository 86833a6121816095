//! The algorithms and the plan checker: every plan is proved, every planted fault is found, known values come out.

mod faults;
pub mod graphs;
mod groups;
mod hosts;
mod interpreter;
mod known_values;
mod mutations;
mod neighbours;
mod shapes;

use crate::algorithms::{self, ALL, Algorithm};
use crate::plan::RankView;
use crate::plan::{check, render};
use crate::types::{Collective, Rank};

/// Every root of few ranks; of many, the first two and the last.
fn roots(collective: Collective, nranks: u32) -> Vec<Rank> {
    match nranks {
        _ if !collective.rooted() => vec![0],
        0..=8 => (0..nranks).collect(),
        _ => vec![0, 1, nranks - 1],
    }
}

/// Every algorithm with everything it serves over these numbers of ranks, of which nothing is known.
fn cases(
    sizes: std::ops::RangeInclusive<u32>,
) -> impl Iterator<Item = (&'static Algorithm, Collective, u32, Rank)> {
    let pairs = ALL.iter().flat_map(|&a| a.serves.iter().map(move |&c| (a, c)));
    let cases = pairs.flat_map(move |(a, c)| {
        sizes.clone().flat_map(move |n| roots(c, n).into_iter().map(move |root| (a, c, n, root)))
    });
    cases.filter(|&(a, c, n, root)| a.refuses(&RankView::flat(c, 0, n, root)).is_none())
}

#[test]
fn every_plan_is_proved_with_its_declared_cost() {
    for (algorithm, collective, nranks, root) in cases(1..=17) {
        if let Err(fault) = algorithms::prove(algorithm, &RankView::flat(collective, 0, nranks, root)) {
            panic!("{} {collective} over {nranks} ranks, root {root}: {fault}", algorithm.name);
        }
    }
}

#[test]
fn the_table_has_each_name_once_and_finds_it() {
    for algorithm in ALL {
        assert!(std::ptr::eq(algorithms::find(algorithm.name).unwrap(), *algorithm), "{}", algorithm.name);
    }
    assert!(algorithms::find("rign").is_none());
}

#[test]
fn every_collective_but_the_barrier_has_a_reproducible_or_moving_algorithm() {
    for &collective in Collective::ALL {
        let fit = algorithms::candidates(collective).filter(|a| a.rank_order || !collective.reduces());
        assert_eq!(fit.count() > 0, collective != Collective::Barrier, "{collective}");
    }
}

#[test]
fn a_single_rank_copies() {
    for (algorithm, collective, nranks, root) in cases(1..=1) {
        let plans = algorithms::plan_all(algorithm, &RankView::flat(collective, 0, nranks, root));
        assert_eq!(plans[0].steps.len(), 1, "{} {collective}", algorithm.name);
        assert_eq!(
            algorithms::prove(algorithm, &RankView::flat(collective, 0, 1, 0)).unwrap().costs[0].sends,
            0
        );
    }
}

#[test]
fn an_all_reduce_ring_sends_two_n_minus_one_nths_of_the_buffer() {
    let proof =
        algorithms::prove(&algorithms::ring::RING, &RankView::flat(Collective::AllReduce, 0, 8, 0)).unwrap();
    for cost in proof.costs {
        assert_eq!((cost.chunks_sent, cost.parts, cost.depth), (14, 8, 14));
    }
}

#[test]
fn the_two_rings_of_a_pair_advance_together() {
    for plan in algorithms::plan_all(
        &algorithms::ring_pair::RING_PAIR,
        &RankView::flat(Collective::AllReduce, 0, 5, 0),
    ) {
        let lanes: Vec<u16> = plan.steps.iter().map(|step| step.lane).collect();
        assert_eq!(lanes, [0, 1].repeat(plan.steps.len() / 2));
    }
}

#[test]
#[should_panic(expected = "tree cannot plan alltoall over 4 ranks: it does not know this collective")]
fn a_method_refuses_what_it_does_not_serve() {
    algorithms::plan_all(&algorithms::tree::TREE, &RankView::flat(Collective::AlltoAll, 0, 4, 0));
}

#[test]
fn the_table_of_a_plan_shows_who_folds_keeps_and_sends() {
    let plans = algorithms::plan_all(
        &algorithms::simple_ring::SIMPLE_RING,
        &RankView::flat(Collective::AllReduce, 0, 3, 0),
    );
    let proof = check::prove(&plans, Collective::AllReduce, 0).unwrap();
    let text = render::text(&plans, &proof, 10);
    let (table, _legend) = text.split_once("\nlevel     how many").unwrap();
    let expected = "\
all_reduce over 3 ranks: blocks of 10 elements in 1 part
most for one rank: sends 2, chunks sent 2, combines 1; messages in a row: 4

level  rank  folds     keeps  sends to  chunk           elements  lane
    1     0  own       no     1         block 0 part 0  0..10        0
    2     1  r0 + own  no     2         block 0 part 0  0..10        0
    3     2  r1 + own  yes    0         block 0 part 0  0..10        0
    4     0  r2        yes    1         block 0 part 0  0..10        0
    5     1  r0        yes    -         block 0 part 0  0..10        0
";
    assert_eq!(table, expected);
}

#[test]
fn the_json_of_a_plan_holds_every_step() {
    let plans = algorithms::plan_all(
        &algorithms::one_shot::ONE_SHOT,
        &RankView::flat(Collective::AllReduce, 0, 2, 0),
    );
    let proof = check::prove(&plans, Collective::AllReduce, 0).unwrap();
    let expected = concat!(
        r#"{"collective":"all_reduce","ranks":2,"root":0,"count":7,"parts":1,"depth":1,"programs":["#,
        r#"{"rank":0,"sends":1,"chunks_sent":1,"combines":1,"steps":["#,
        r#"{"level":1,"block":0,"part":0,"start":0,"end":7,"lane":0,"fold":[0],"keep":false,"to":[1],"in_switch":false},"#,
        r#"{"level":2,"block":0,"part":0,"start":0,"end":7,"lane":0,"fold":[0,1],"keep":true,"to":[],"in_switch":false}]},"#,
        r#"{"rank":1,"sends":1,"chunks_sent":1,"combines":1,"steps":["#,
        r#"{"level":1,"block":0,"part":0,"start":0,"end":7,"lane":0,"fold":[1],"keep":false,"to":[0],"in_switch":false},"#,
        r#"{"level":2,"block":0,"part":0,"start":0,"end":7,"lane":0,"fold":[0,1],"keep":true,"to":[],"in_switch":false}]}]}"#,
        "\n"
    );
    assert_eq!(render::json(&plans, &proof, 7), expected);
}
