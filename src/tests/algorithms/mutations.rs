//! The checker against chance: whatever is done to a right set of plans, either the checker objects or the results are
//! still right.

use proptest::prelude::*;
use proptest::sample::Index;

use super::interpreter::{Call, SUM, expected, run, whole_numbers};
use crate::algorithms::{self, ALL};
use crate::plan::check::prove;
use crate::plan::{InSwitch, Operand, Plan, RankView};

/// One change of a rank's program. An index picks a step, a peer or a position in a list.
#[derive(Clone, Debug)]
enum Change {
    Drop(Index),
    Duplicate(Index),
    Swap(Index, Index),
    Block(Index, u32),
    Part(Index, u32),
    Lane(Index),
    SendTo(Index, Index, u32),
    TakeFrom(Index, Index, u32),
    Keep(Index),
    SwapOperands(Index, Index, Index),
    ForgetOperand(Index, Index),
    RepeatOperand(Index, Index),
    ForgetReader(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        index().prop_map(Change::Drop),
        index().prop_map(Change::Duplicate),
        (index(), index()).prop_map(|(a, b)| Change::Swap(a, b)),
        (index(), 0..9u32).prop_map(|(a, b)| Change::Block(a, b)),
        (index(), 0..6u32).prop_map(|(a, b)| Change::Part(a, b)),
        index().prop_map(Change::Lane),
        (index(), index(), 0..7u32).prop_map(|(a, b, r)| Change::SendTo(a, b, r)),
        (index(), index(), 0..7u32).prop_map(|(a, b, r)| Change::TakeFrom(a, b, r)),
        index().prop_map(Change::Keep),
        (index(), index(), index()).prop_map(|(a, b, c)| Change::SwapOperands(a, b, c)),
        (index(), index()).prop_map(|(a, b)| Change::ForgetOperand(a, b)),
        (index(), index()).prop_map(|(a, b)| Change::RepeatOperand(a, b)),
        (index(), index()).prop_map(|(a, b)| Change::ForgetReader(a, b)),
    ]
}

fn apply(change: &Change, plan: &mut Plan) {
    let steps = &mut plan.steps;
    if steps.is_empty() || steps.iter().any(|s| s.operands.is_empty()) {
        return; // Nothing to change, or wrong beyond doubt already.
    }
    let n = steps.len();
    match change {
        Change::Drop(at) => _ = steps.remove(at.index(n)),
        Change::Duplicate(at) => steps.insert(at.index(n), steps[at.index(n)].clone()),
        Change::Swap(a, b) => steps.swap(a.index(n), b.index(n)),
        Change::Block(at, block) => steps[at.index(n)].chunk.block = *block,
        Change::Part(at, part) => steps[at.index(n)].chunk.part = *part,
        Change::Lane(at) => steps[at.index(n)].lane ^= 1,
        Change::SendTo(at, which, rank) => match &mut steps[at.index(n)].to {
            to if to.is_empty() => to.push(*rank),
            to => *which.get_mut(to) = *rank,
        },
        Change::TakeFrom(at, which, rank) => {
            *which.get_mut(&mut steps[at.index(n)].operands) = Operand::From(*rank);
        }
        Change::Keep(at) => steps[at.index(n)].keep ^= true,
        Change::SwapOperands(at, a, b) => {
            let operands = &mut steps[at.index(n)].operands;
            let length = operands.len();
            operands.swap(a.index(length), b.index(length));
        }
        Change::ForgetOperand(at, which) => {
            let operands = &mut steps[at.index(n)].operands;
            operands.remove(which.index(operands.len()));
        }
        Change::RepeatOperand(at, which) => {
            let operands = &mut steps[at.index(n)].operands;
            operands.push(*which.get(operands));
        }
        Change::ForgetReader(at, which) => {
            let to = &mut steps[at.index(n)].to;
            if !to.is_empty() {
                to.remove(which.index(to.len()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        // Some algorithms need to know of links or nodes.
        max_global_rejects: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_changed_plan_is_objected_to_or_still_right(
        algorithm in any::<Index>(),
        collective in any::<Index>(),
        nranks in 2..=6u32,
        root in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), change()), 1..=2),
    ) {
        let algorithm = *algorithm.get(ALL);
        let collective = *collective.get(algorithm.serves);
        let root = if collective.rooted() { root.index(nranks as usize) as u32 } else { 0 };
        let view = RankView { in_switch: InSwitch::All, ..RankView::flat(collective, 0, nranks, root) };
        prop_assume!(algorithm.refuses(&view).is_none());
        let mut plans = algorithms::plan_all(algorithm, &view);
        for (rank, change) in &changes {
            apply(change, rank.get_mut(&mut plans));
        }
        if prove(&plans, collective, root).is_ok() {
            for in_place in [false, true] {
                let call = Call { collective, root, count: 2 * nranks as usize + 1, operator: SUM, in_place };
                let inputs = whole_numbers(nranks, call.count);
                prop_assert_eq!(run(&plans, &call, &inputs), Some(expected(&call, &inputs)));
            }
        }
    }
}
