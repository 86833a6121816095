//! The linker held against the plain one: field by field, for every algorithm, and by what it asks for.

use super::graph::Graph;
use super::{Alike, Linked, Swap, link_with, of_graph, oracle, proofs};
use crate::algorithms::{self, ALL, Algorithm};
use crate::plan::{Arrangement, Chunk, HostGroups, Plan, RankView, Shape};
use crate::types::Collective;
use std::cell::Cell;

fn view(collective: Collective, shape: Shape, root: u32) -> RankView {
    RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), root) }
}

/// Every algorithm with each collective that it can plan over the shape.
fn able(shape: Shape) -> impl Iterator<Item = (&'static Algorithm, RankView)> {
    let all = ALL.iter().flat_map(|&a| a.serves.iter().map(move |&c| (a, c)));
    all.map(move |(a, c)| (a, view(c, shape, 0))).filter(|(a, v)| a.refuses(v).is_none())
}

/// The links of these ranks, made from all programs and as the algorithm declares, with proofs for calls in place and without.
fn hold(algorithm: &Algorithm, v: &RankView, ranks: impl Iterator<Item = u32> + Clone) {
    let plans = algorithms::plan_all(algorithm, v);
    let program = |v: &RankView| plans[v.rank as usize].clone();
    let case = format!("{} {} {:?} root {}", algorithm.name, v.collective, v.shape, v.root);
    for most in [0, proofs::MOST] {
        let plain = oracle::link(&plans, v, most, ranks.clone()).expect("the plain linker links it");
        let graph = Graph::new(v, &program, most).expect("its graph is found");
        for (rank, plain) in ranks.clone().zip(&plain) {
            let v = v.of(rank);
            let unswapped = |linked| Linked { swap: Swap::Nothing, ..linked };
            let of_all = unswapped(of_graph(&v, &plans[rank as usize], &graph));
            assert!(of_all == *plain, "{case}, rank {rank}, all, {most}: {}", told(&of_all, plain));
            // With proofs the declaration is not looked at where the steps are few.
            if most == 0 || rank == 0 {
                let linked = link_with(&v, algorithms::alike(algorithm, &v), &program, most);
                let linked = unswapped(linked.expect("it links"));
                assert!(linked == *plain, "{case}, rank {rank}, declared, {most}: {}", told(&linked, plain));
            }
        }
    }
}

/// Where two linked programs differ.
fn told(linked: &Linked, plain: &Linked) -> String {
    let totals = |l: &Linked| {
        let slotless = (l.slotless, l.slotless_in_place, l.slotless_by_inputs, l.inputs_stay_in_place);
        (l.parts, l.steps.len(), l.levels, (l.slots, l.result_slots), l.depth, slotless)
    };
    if totals(linked) != totals(plain) {
        return format!("{:?} instead of {:?}", totals(linked), totals(plain));
    }
    let differs = linked.steps.iter().zip(&plain.steps).find(|(a, b)| a != b);
    format!("{differs:#?}")
}

/// One that stored into its reader's output, and had less steps, would not notice that the reader has refused the count.
#[test]
fn where_senders_store_into_the_readers_output_both_refuse_the_same_counts() {
    for (algorithm, v) in able(Shape::flat(5)).filter(|(_, v)| v.collective == Collective::Gather) {
        let program = |v: &RankView| algorithms::plan_all(algorithm, v)[v.rank as usize].clone();
        let longest = |rank| link_with(&v.of(rank), Alike::No, &program, proofs::MOST).unwrap().longest;
        let of_all: Vec<u64> = (0..5).map(longest).collect();
        assert!(
            of_all.iter().all(|&longest| longest == of_all[0] && longest >= 5),
            "{}: {of_all:?}",
            algorithm.name
        );
    }
}

#[test]
fn up_to_17_ranks_every_link_is_that_of_the_plain_linker() {
    for n in 1..=17 {
        for (algorithm, v) in able(Shape::flat(n)) {
            let roots = if v.collective.rooted() { n } else { 1 };
            for root in 0..roots {
                // All of few ranks; of more the ends, and those about the root.
                let beside = [0, n / 2, root, (root + 1) % n, (root + n - 1) % n, n - 1];
                let ranks = (0..n).filter(|rank| n < 7 || beside.contains(rank));
                hold(algorithm, &RankView { root, ..v.clone() }, ranks);
            }
        }
    }
}

#[test]
fn over_the_links_of_machines_every_link_is_that_of_the_plain_linker() {
    for machine in ["t3000", "dgx-1v", "n300:shape=5", "tpu-v4:shape=3x3x2", "dgx-h100", "dgx-h100:nodes=3"] {
        let network = crate::topology::open(machine).unwrap();
        let places: Vec<u32> = (0..network.shape.nranks()).collect();
        let arrangement = network.arrangement(&places);
        for &algorithm in ALL {
            for &collective in algorithm.serves {
                let root = if collective.rooted() { 2 } else { 0 };
                let v = view(collective, network.shape, root).arranged(arrangement.clone());
                if algorithm.refuses(&v).is_none() {
                    hold(algorithm, &v, 0..v.nranks);
                }
            }
        }
    }
}

#[test]
fn over_nodes_and_grids_every_link_is_that_of_the_plain_linker() {
    let nodes = [[2, 2, 1], [2, 3, 1], [3, 2, 1], [4, 2, 1], [4, 3, 1], [8, 2, 1]];
    let grids = [[4, 4, 1], [2, 2, 2], [3, 2, 2], [2, 3, 3], [1, 5, 1], [1, 1, 6]];
    for shape in nodes.into_iter().chain(grids).map(Shape) {
        for (algorithm, v) in able(shape) {
            hold(algorithm, &v, 0..v.nranks);
        }
    }
}

#[test]
fn over_hosts_in_any_order_every_link_is_that_of_the_plain_linker() {
    for host_of in [&[0, 1, 0, 1, 0, 1][..], &[0, 1, 1, 0, 0], &[2, 0, 1, 1, 2, 0]] {
        let arrangement = Arrangement::of_hosts(HostGroups::new(host_of).unwrap());
        for (algorithm, v) in able(Shape::flat(host_of.len() as u32)) {
            let v = RankView { root: if v.collective.rooted() { 3 } else { 0 }, ..v };
            hold(algorithm, &v.arranged(arrangement.clone()), 0..host_of.len() as u32);
        }
    }
}

#[test]
fn of_many_ranks_a_few_have_the_links_of_the_plain_linker() {
    for shape in [[64, 1, 1], [100, 1, 1], [8, 8, 1]].map(Shape) {
        for (algorithm, v) in able(shape) {
            hold(algorithm, &v, [0, 1, v.nranks / 2, v.nranks - 1].into_iter());
        }
    }
}

/// The linked program of rank 1, and how many programs the linker has asked for.
fn counted(algorithm: &Algorithm, v: &RankView) -> (Linked, usize) {
    let asked = Cell::new(0);
    let program = |v: &RankView| {
        asked.set(asked.get() + 1);
        algorithms::plan(algorithm, v)
    };
    let linked =
        link_with(&v.of(1), algorithms::alike(algorithm, v), &program, proofs::MOST).expect("it links");
    (linked, asked.get())
}

#[test]
fn among_512_alike_ranks_only_the_programs_of_neighbours_are_asked_for() {
    for (algorithm, v) in able(Shape::flat(512)) {
        match algorithms::alike(algorithm, &v) {
            Alike::Shifted(_) | Alike::Exclusive => {
                // Of two steps a rank there are few enough to prove what calls in place may do, which takes all of them.
                let (linked, asked) = counted(algorithm, &v);
                let proved = linked.steps.len() * 512 <= proofs::MOST
                    && 512 * linked.steps.len() * 512 <= proofs::MOST * 64;
                assert_eq!(asked, if proved { 513 } else { 1 }, "{} {}", algorithm.name, v.collective);
            }
            Alike::StepByStep => {
                let (linked, asked) = counted(algorithm, &v);
                let lanes = linked.steps.len() / linked.levels as usize;
                assert!(asked <= 1 + 2 * lanes, "{} {}: {asked}", algorithm.name, v.collective);
            }
            Alike::No => {}
        }
    }
}

#[test]
fn collectives_without_a_root_are_alike_but_over_chains_and_trees() {
    for (algorithm, v) in able(Shape::flat(512)) {
        let alike = algorithms::alike(algorithm, &v) != Alike::No;
        let expected = !v.collective.rooted()
            && !["line", "simple_ring", "tree", "rail_trees"].contains(&algorithm.name);
        assert_eq!(alike, expected, "{} {}", algorithm.name, v.collective);
    }
}

#[test]
fn programs_that_are_not_alike_as_declared_are_refused() {
    let algorithm = algorithms::find("ring").expect("an algorithm of the table");
    let v = view(Collective::AllReduce, Shape::flat(8), 0);
    let shortened = |v: &RankView| {
        let mut plan = algorithms::plan(algorithm, v);
        plan.steps.truncate(plan.steps.len() - v.rank as usize % 2);
        plan
    };
    let refused = |alike, rank| link_with(&v.of(rank), alike, &shortened, 0).expect_err("it is no plan");
    assert_eq!(refused(Alike::StepByStep, 1), "the programs of ranks 1 and 0 are declared alike and are not");
    assert_eq!(
        refused(Alike::Shifted(Shape::flat(8)), 1),
        "ranks 1 and 0: 0 messages are sent and 0 taken, 14 and 13 the other way"
    );
    assert_eq!(refused(Alike::No, 1), "a message is never received");
}

#[test]
fn programs_that_wait_for_each_other_are_refused() {
    let circle = |v: &RankView| {
        let mut plan = Plan::new(1);
        plan.relay(v.prev(1), Chunk::part(0), v.next(1));
        plan
    };
    let v = view(Collective::AllReduce, Shape::flat(4), 0);
    for (alike, told) in [
        (Alike::No, "the plans deadlock: 0 of 4 steps can run"),
        (Alike::StepByStep, "the plans deadlock: step 0 of each rank waits for one that comes later"),
    ] {
        assert_eq!(link_with(&v, alike, &circle, 0), Err(told.to_owned()));
    }
}
