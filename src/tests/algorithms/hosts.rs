//! The algorithms over ranks of several hosts: what leaves a host, in what order ranks are visited, what `auto` takes.

use super::roots;
use crate::algorithms::{self, ALL, Algorithm};
use crate::plan::{Arrangement, HostGroups, Plan, RankView};
use crate::planner::select::Selection;
use crate::types::{Collective, Rank};

/// The host of each rank: in order, round robin, uneven, both, and one rank a host.
const LAYOUTS: [&[u32]; 7] = [
    &[0, 0, 1, 1],
    &[0, 1, 0, 1],
    &[0, 1, 2, 0, 1, 2],
    &[0, 0, 1, 0],
    &[1, 0, 2, 1, 1, 0],
    &[0, 1, 2],
    &[0, 0, 0, 1, 1, 1, 2, 2, 2],
];

fn view(collective: Collective, host_of: &[u32], root: Rank) -> RankView {
    let hosts = HostGroups::new(host_of).expect("several hosts");
    RankView::flat(collective, 0, host_of.len() as u32, root).arranged(Arrangement::of_hosts(hosts))
}

#[test]
fn every_plan_over_hosts_is_proved_with_its_declared_cost() {
    for host_of in LAYOUTS {
        for &algorithm in ALL {
            for &collective in algorithm.serves {
                for root in roots(collective, host_of.len() as u32) {
                    let v = view(collective, host_of, root);
                    if algorithm.refuses(&v).is_some() {
                        continue;
                    }
                    if let Err(fault) = algorithms::prove(algorithm, &v) {
                        panic!("{} {collective} over {host_of:?}, root {root}: {fault}", algorithm.name);
                    }
                }
            }
        }
    }
}

fn plans(name: &str, collective: Collective, host_of: &[u32]) -> Vec<Plan> {
    algorithms::plan_all(algorithms::find(name).expect("an algorithm"), &view(collective, host_of, 0))
}

/// The pairs of ranks of two hosts between which something passes.
fn crossings(plans: &[Plan], host_of: &[u32]) -> Vec<(Rank, Rank)> {
    let mut pairs = Vec::new();
    for (from, plan) in (0..).zip(plans) {
        let all = plan.steps.iter().flat_map(|step| &step.to).map(|&to| (from, to));
        pairs.extend(all.filter(|&(from, to): &(Rank, Rank)| host_of[from as usize] != host_of[to as usize]));
    }
    pairs.sort();
    pairs.dedup();
    pairs
}

#[test]
fn a_ring_leaves_each_host_once_and_enters_it_once() {
    for host_of in LAYOUTS {
        for name in ["ring", "ring_reverse"] {
            let pairs = crossings(&plans(name, Collective::AllReduce, host_of), host_of);
            let hosts = host_of.iter().max().expect("ranks") + 1;
            let times = |of: fn(&(Rank, Rank)) -> Rank, host| {
                pairs.iter().filter(|pair| host_of[of(pair) as usize] == host).count()
            };
            for host in 0..hosts {
                assert_eq!(
                    [times(|p| p.0, host), times(|p| p.1, host)],
                    [1, 1],
                    "{name} {host_of:?}: {pairs:?}"
                );
            }
        }
    }
}

/// The parts of the vector that leave a host in a call, at most, and the parts of the vector.
fn leave(name: &str, collective: Collective, host_of: &[u32]) -> (u32, u32) {
    let plans = plans(name, collective, host_of);
    let mut sent = [0; 3];
    for (from, plan) in plans.iter().enumerate() {
        for to in plan.steps.iter().flat_map(|step| &step.to) {
            sent[host_of[from] as usize] += u32::from(host_of[from] != host_of[*to as usize]);
        }
    }
    let blocks = view(collective, host_of, 0).blocks();
    (sent.into_iter().max().expect("hosts"), plans[0].parts * blocks)
}

#[test]
fn what_one_host_has_combined_crosses_once_whatever_rank_stands_where() {
    for host_of in [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] {
        assert_eq!(leave("hierarchical", Collective::AllReduce, &host_of), (4, 4), "{host_of:?}");
        assert_eq!(leave("hierarchical", Collective::AllGather, &host_of), (2, 4), "{host_of:?}");
        assert_eq!(leave("hierarchical", Collective::ReduceScatter, &host_of), (2, 4), "{host_of:?}");
        assert_eq!(leave("ring", Collective::Broadcast, &host_of), (4, 4), "{host_of:?}");
    }
}

/// What `auto` takes.
fn automatic(collective: Collective, host_of: &[u32], bytes: u64) -> &'static str {
    let chosen = Selection::default().choose(&view(collective, host_of, 0), bytes);
    ALL[chosen.expect("an algorithm").0].name
}

#[test]
fn auto_combines_large_vectors_within_hosts_first() {
    use Collective::*;
    let (even, uneven, single) = (&[0, 1, 0, 1][..], &[0, 0, 1, 0][..], &[0, 1, 2][..]);
    for collective in [AllReduce, AllGather, ReduceScatter] {
        assert_eq!(automatic(collective, even, 1 << 20), "hierarchical");
        assert_eq!(automatic(collective, uneven, 1 << 20), "ring");
        assert_ne!(automatic(collective, single, 1 << 20), "ring");
        assert_eq!(automatic(collective, even, 64), "one_shot");
    }
    for collective in [Broadcast, Reduce] {
        assert_eq!(automatic(collective, even, 64 << 20), "ring");
        assert_eq!(automatic(collective, uneven, 256 << 10), "tree");
    }
    assert_eq!(automatic(AlltoAll, even, 1 << 20), "pairwise");
}

#[test]
fn reproducible_sums_over_hosts_are_folded_in_the_order_of_the_ranks() {
    let selection = Selection::parse(None, Some("1")).unwrap();
    for host_of in LAYOUTS {
        for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce] {
            for bytes in [64, 64 << 20] {
                let chosen = selection.choose(&view(collective, host_of, 0), bytes).unwrap();
                let algorithm: &Algorithm = ALL[chosen.0];
                assert!(algorithm.rank_order, "{host_of:?} {collective}: {}", algorithm.name);
                if collective == Collective::AllReduce && bytes > 64 {
                    assert_eq!(algorithm.name, "two_shot", "{host_of:?}");
                }
            }
        }
    }
}
