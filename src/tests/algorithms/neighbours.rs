//! Which ranks the algorithms make talk to each other, and how soon.

use std::collections::BTreeSet;

use crate::algorithms::{bruck, line, meet_in_middle, plan_all, prove, quad_ring};
use crate::plan::{Plan, RankView, Shape};
use crate::types::{Collective, Rank};

/// Every pair of ranks between which a message of one of these lanes goes, either way.
fn links(plans: &[Plan], lanes: std::ops::Range<u16>) -> BTreeSet<(Rank, Rank)> {
    let mut links = BTreeSet::new();
    for (rank, plan) in (0..).zip(plans) {
        for step in plan.steps.iter().filter(|step| lanes.contains(&step.lane)) {
            links.extend(step.to.iter().map(|&to| (to.min(rank), to.max(rank))));
        }
    }
    links
}

#[test]
fn no_message_on_a_line_goes_from_one_end_to_the_other() {
    for &collective in line::LINE.serves {
        for n in 3..=17 {
            let plans = plan_all(&line::LINE, &RankView::flat(collective, 0, n, 0));
            let chain = (1..n).map(|rank| (rank - 1, rank)).collect();
            assert_eq!(links(&plans, 0..1), chain, "{collective} over {n} ranks");
        }
    }
}

#[test]
fn what_meets_in_the_middle_is_there_after_half_of_the_ring() {
    for (n, half) in [(2, 1), (3, 1), (4, 2), (5, 2), (8, 4), (9, 4)] {
        for (collective, halves) in
            [(Collective::AllGather, 1), (Collective::ReduceScatter, 1), (Collective::AllReduce, 2)]
        {
            let proof =
                prove(&meet_in_middle::MEET_IN_MIDDLE, &RankView::flat(collective, 0, n, 0)).expect("proved");
            assert_eq!(proof.costs[0].depth, halves * half, "{collective} over {n} ranks");
        }
    }
}

#[test]
fn an_even_ring_meets_with_one_message_less_downwards() {
    let plans =
        plan_all(&meet_in_middle::MEET_IN_MIDDLE, &RankView::flat(Collective::ReduceScatter, 0, 6, 0));
    for (rank, plan) in (0..6).zip(&plans) {
        let to = |peer: Rank| plan.steps.iter().filter(|step| step.to.contains(&peer)).count();
        assert_eq!((to((rank + 1) % 6), to((rank + 5) % 6)), (3, 2), "rank {rank}");
    }
}

#[test]
fn from_five_ranks_on_the_two_orders_of_a_quad_ring_share_no_link() {
    for n in 2..=17 {
        let plans = plan_all(&quad_ring::QUAD_RING, &RankView::flat(Collective::AllGather, 0, n, 0));
        let (first, second) = (links(&plans, 0..2), links(&plans, 2..4));
        assert_eq!(first.is_disjoint(&second), n >= 5, "{n} ranks");
        if n >= 3 {
            assert_eq!((first.len(), second.len()), (n as usize, n as usize), "{n} ranks");
        }
    }
}

#[test]
fn a_quad_ring_on_a_grid_leaves_its_axes_only_to_close_a_ring() {
    for extents in [[2, 2, 1], [4, 3, 1], [2, 4, 1], [5, 1, 3], [4, 4, 1], [2, 3, 4]] {
        let shape = Shape(extents);
        for &collective in quad_ring::QUAD_RING.serves {
            let view = RankView { shape, ..RankView::flat(collective, 0, shape.nranks(), 0) };
            if let Err(fault) = prove(&quad_ring::QUAD_RING, &view) {
                panic!("{collective} on {extents:?}: {fault}");
            }
            let plans = plan_all(&quad_ring::QUAD_RING, &view);
            for lanes in [0..2, 2..4] {
                let far = |&(a, b): &(Rank, Rank)| {
                    let (a, b) = (shape.coordinates(a), shape.coordinates(b));
                    (0..3).map(|axis| a[axis].abs_diff(b[axis])).sum::<u32>() > 1
                };
                let far = links(&plans, lanes).into_iter().filter(far).count();
                assert!(
                    far <= 1,
                    "{collective} on {extents:?}: {far} messages between ranks that are no neighbours"
                );
            }
        }
    }
}

#[test]
fn an_all_to_all_by_bits_has_log_n_peers_and_as_many_messages_in_a_row() {
    for (n, log) in [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4), (17, 5)] {
        let view = RankView::flat(Collective::AlltoAll, 0, n, 0);
        for plan in plan_all(&bruck::BRUCK, &view) {
            let peers: BTreeSet<Rank> = plan.steps.iter().flat_map(|step| step.to.clone()).collect();
            assert_eq!(peers.len(), log, "{n} ranks");
        }
        let depth = prove(&bruck::BRUCK, &view).expect("proved").costs[0].depth;
        assert!(depth as usize <= log, "{n} ranks: {depth}");
    }
}

#[test]
fn an_all_to_all_of_eight_by_bits_sends_four_blocks_a_round() {
    let proof = prove(&bruck::BRUCK, &RankView::flat(Collective::AlltoAll, 0, 8, 0)).expect("proved");
    assert!(proof.costs.iter().all(|cost| cost.sends == 3 * 4));
}
