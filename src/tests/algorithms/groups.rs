//! Collectives in groups of replicas, as Graphcore's collectives library has them: its tables of groups, and its
//! examples in every group of them.
//!
//! ```text
//!     16 replicas, groups of 4        CONSECUTIVE                       ORTHOGONAL
//!       0  1  2  3                    rows: {0 1 2 3} {4 5 6 7} ..      columns: {0 4 8 12} {1 5 9 13} ..
//!       4  5  6  7  ..
//! ```
//!
//! A group's plan is that of a communicator of its size; the replicas of a group are its ranks, in their order.

use super::interpreter::{Call, Operator, SUM, plain, run};
use crate::algorithms;
use crate::plan::RankView;
use crate::types::{Collective, Rank};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    All,
    Consecutive,
    Orthogonal,
}

/// Returns the groups of `replicas` replicas, by the document's formulas: {0, .. k-1}, {k, .. 2k-1} ..; {0, m, 2m ..},
/// {1, m+1, ..} .. with m = N/k.
fn groups(kind: Kind, replicas: u32, size: u32) -> Vec<Vec<Rank>> {
    let m = replicas / size;
    match kind {
        Kind::All => vec![(0..replicas).collect()],
        Kind::Consecutive => (0..m).map(|g| (g * size..(g + 1) * size).collect()).collect(),
        Kind::Orthogonal => (0..m).map(|g| (g..replicas).step_by(m as usize).collect()).collect(),
    }
}

const KINDS: [Kind; 3] = [Kind::All, Kind::Consecutive, Kind::Orthogonal];

/// Every algorithm runs the call in every group; `judge` gets its name, the replica and the replica's output.
fn in_groups(
    kind: Kind,
    [replicas, size]: [u32; 2],
    call: Call,
    inputs: &[Vec<f64>],
    judge: impl Fn(&str, &[Rank], Rank, &[f64]),
) {
    let mut algorithms = 0;
    for group in groups(kind, replicas, size) {
        let view = RankView::flat(call.collective, 0, group.len() as u32, call.root);
        let able = |algorithm: &&&algorithms::Algorithm| algorithm.refuses(&view).is_none();
        for algorithm in algorithms::ALL.iter().filter(able) {
            let own: Vec<Vec<f64>> = group.iter().map(|&replica| inputs[replica as usize].clone()).collect();
            let outputs =
                run(&algorithms::plan_all(algorithm, &view), &call, &own).expect("the programs finish");
            for (&replica, output) in group.iter().zip(&outputs) {
                judge(algorithm.name, &group, replica, output);
            }
            algorithms += 1;
        }
    }
    assert!(algorithms >= 2, "{} has {algorithms} algorithms", call.collective);
}

fn call(collective: Collective, count: usize, operator: Operator) -> Call {
    Call { collective, root: 0, count, operator, in_place: false }
}

/// x of replica r is r, y is 100 + r.
fn named(replicas: u32) -> Vec<Vec<f64>> {
    (0..replicas).map(|r| vec![f64::from(r), 100.0 + f64::from(r)]).collect()
}

#[test]
fn sixteen_replicas_in_fours_are_grouped_as_the_tables_say() {
    assert_eq!(
        groups(Kind::Orthogonal, 16, 4),
        [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]
    );
    assert_eq!(
        groups(Kind::Consecutive, 16, 4),
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    );
    assert_eq!(groups(Kind::All, 16, 16), [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]);
}

#[test]
fn groups_of_each_kind_hold_every_replica_once() {
    for kind in KINDS {
        for (replicas, size) in [(1, 1), (6, 2), (6, 3), (12, 4), (16, 1), (16, 16)] {
            let mut held = groups(kind, replicas, size).concat();
            held.sort_unstable();
            assert!(held.into_iter().eq(0..replicas), "{kind:?}, {replicas} in {size}s");
        }
    }
}

#[test]
fn an_all_gather_in_groups_has_the_group_in_order() {
    // x0 y0 x4 y4 x8 y8 x12 y12 in the first orthogonal group.
    let inputs = named(16);
    for kind in KINDS {
        in_groups(kind, [16, 4], call(Collective::AllGather, 2, SUM), &inputs, |name, group, _, output| {
            let expected: Vec<f64> =
                group.iter().flat_map(|&r| [f64::from(r), 100.0 + f64::from(r)]).collect();
            assert_eq!(output, expected, "{name}, {kind:?}");
        });
    }
}

#[test]
fn an_all_reduce_in_groups_combines_the_group_only() {
    let inputs = named(16);
    let operators: [(&str, Operator); 4] = [
        ("add", SUM),
        ("min", plain(f64::min)),
        ("max", plain(f64::max)),
        ("square_add", Operator { before: |x| x * x, ..SUM }),
    ];
    for kind in KINDS {
        for (operation, operator) in operators {
            let Operator { before, fold, .. } = operator;
            in_groups(
                kind,
                [16, 4],
                call(Collective::AllReduce, 2, operator),
                &inputs,
                |name, group, _, output| {
                    let expected = [0.0, 100.0].map(|base| {
                        let values = group.iter().map(|&r| before(base + f64::from(r)));
                        values.reduce(fold).expect("a replica at least")
                    });
                    assert_eq!(output, expected, "{name}, {operation}, {kind:?}");
                },
            );
        }
    }
}

#[test]
fn a_reduce_scatter_in_groups_of_two_pads_three_elements_to_four() {
    // x0 y0 z0 and x1 y1 z1 give op(x0, x1) op(y0, y1) and op(z0, z1) 0.
    let inputs: Vec<Vec<f64>> =
        (0..4).map(|r| [1.0, 2.0, 3.0, 0.0].map(|e| e * 10f64.powi(r)).into()).collect();
    for (kind, sums) in [(Kind::Consecutive, [11.0, 1100.0]), (Kind::Orthogonal, [101.0, 1010.0])] {
        let all = groups(kind, 4, 2);
        in_groups(
            kind,
            [4, 2],
            call(Collective::ReduceScatter, 2, SUM),
            &inputs,
            |name, group, replica, output| {
                let sum = sums[all.iter().position(|g| g == group).expect("one of them")];
                let expected = if replica == group[0] { [sum, 2.0 * sum] } else { [3.0 * sum, 0.0] };
                assert_eq!(output, expected, "{name}, {kind:?}");
            },
        );
    }
}

#[test]
fn reducing_rows_then_columns_is_reducing_all() {
    // CONSECUTIVE groups, then ORTHOGONAL ones of the other size.
    let inputs = named(12);
    let total = [66.0, 1266.0];
    let rows = std::cell::RefCell::new(vec![Vec::new(); 12]);
    in_groups(
        Kind::Consecutive,
        [12, 4],
        call(Collective::AllReduce, 2, SUM),
        &inputs,
        |_, _, replica, output| {
            rows.borrow_mut()[replica as usize] = output.to_vec();
        },
    );
    let rows = rows.into_inner();
    in_groups(Kind::Orthogonal, [12, 3], call(Collective::AllReduce, 2, SUM), &rows, |name, _, _, output| {
        assert_eq!(output, total, "{name}");
    });
}

#[test]
fn an_all_gather_of_a_reduce_scatter_is_an_all_reduce_in_each_group() {
    let inputs: Vec<Vec<f64>> = (0..8).map(|r| (0..4).map(|i| f64::from(r * r + 3 * i)).collect()).collect();
    for kind in [Kind::Consecutive, Kind::Orthogonal] {
        let parts = std::cell::RefCell::new(vec![Vec::new(); 8]);
        in_groups(kind, [8, 4], call(Collective::ReduceScatter, 1, SUM), &inputs, |_, _, replica, output| {
            parts.borrow_mut()[replica as usize] = output.to_vec();
        });
        let parts = parts.into_inner();
        in_groups(kind, [8, 4], call(Collective::AllGather, 1, SUM), &parts, |name, group, _, output| {
            let sum = |i: usize| group.iter().map(|&r| inputs[r as usize][i]).sum::<f64>();
            assert_eq!(output, [sum(0), sum(1), sum(2), sum(3)], "{name}, {kind:?}");
        });
    }
}
