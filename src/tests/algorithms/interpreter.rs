//! A tiny interpreter of plans over vectors of numbers, and the collectives by definition to hold it against.

use std::collections::VecDeque;

use crate::algorithms;
use crate::plan::{Chunk, Operand, Plan, RankView};
use crate::types::{Collective, Rank};

/// A reduction: what is done to each input, between two values, and to the result (with the number of ranks).
#[derive(Clone, Copy)]
pub struct Operator {
    pub before: fn(f64) -> f64,
    pub fold: fn(f64, f64) -> f64,
    pub after: fn(f64, f64) -> f64,
}

/// An operator that only folds.
pub const fn plain(fold: fn(f64, f64) -> f64) -> Operator {
    Operator { before: |x| x, fold, after: |x, _| x }
}

pub const SUM: Operator = plain(|a, b| a + b);

/// One call: which collective, how many elements a block, which operator.
#[derive(Clone, Copy)]
pub struct Call {
    pub collective: Collective,
    pub root: Rank,
    pub count: usize,
    pub operator: Operator,
    pub in_place: bool,
}

/// One rank's buffers, in one memory: apart, or one over the other as the C interface has it.
struct Buffers {
    memory: Vec<f64>,
    input: usize,
    output: usize,
}

impl Buffers {
    fn new(call: &Call, rank: Rank, nranks: u32, given: &[f64]) -> Buffers {
        let (collective, root) = (call.collective, call.root);
        let length_in = collective.blocks_in(rank, nranks, root) as usize * call.count;
        let length_out = collective.blocks_out(rank, nranks, root) as usize * call.count;
        let (own, at_root) = (rank as usize * call.count, rank == root);
        let (input, output) = match collective {
            _ if !call.in_place => (0, length_in),
            Collective::ReduceScatter => (0, own),
            Collective::AllGather => (own, 0),
            Collective::Gather if at_root => (own, 0),
            Collective::Scatter if at_root => (0, own),
            _ => (0, 0),
        };
        let mut memory = vec![f64::NAN; (input + length_in).max(output + length_out)];
        memory[input..input + length_in].copy_from_slice(&given[..length_in]);
        Buffers { memory, input, output }
    }
}

/// The ranks' outputs after the programs have run, or `None` if they get stuck or leave a message over.
pub fn run(plans: &[Plan], call: &Call, inputs: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = plans.len();
    let views: Vec<RankView> =
        (0..n as u32).map(|rank| RankView::flat(call.collective, rank, n as u32, call.root)).collect();
    let mut buffers: Vec<Buffers> =
        (0..n).map(|r| Buffers::new(call, r as Rank, n as u32, &inputs[r])).collect();
    let mut queues: Vec<VecDeque<Vec<f64>>> = vec![VecDeque::new(); n * n];
    let mut done = vec![0; n];
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for r in 0..n {
            let Some(step) = plans[r].steps.get(done[r]) else { continue };
            let from = |o: &Operand| match o {
                Operand::From(p) => Some(*p as usize * n + r),
                Operand::Own => None,
            };
            let waits = |queue: usize| {
                let needed = step.operands.iter().filter(|o| from(o) == Some(queue)).count();
                queues[queue].len() < needed
            };
            if step.operands.iter().filter_map(from).any(waits) {
                continue;
            }
            let place = |base: usize, block: u32| place(base, block, step.chunk, plans[r].parts, call.count);
            let mut result: Option<Vec<f64>> = None;
            for o in &step.operands {
                let value: Vec<f64> = match from(o) {
                    Some(queue) => queues[queue].pop_front()?,
                    None => {
                        let block = views[r].input_block(step.chunk.block)?;
                        let own = &buffers[r].memory[place(buffers[r].input, block)];
                        let before = |&x: &f64| {
                            if call.collective.reduces() { (call.operator.before)(x) } else { x }
                        };
                        own.iter().map(before).collect()
                    }
                };
                result = Some(match result {
                    None => value,
                    Some(sum) => sum.iter().zip(&value).map(|(&a, &b)| (call.operator.fold)(a, b)).collect(),
                });
            }
            let result = result?;
            if step.keep {
                let block = views[r].output_block(step.chunk.block)?;
                let output = place(buffers[r].output, block);
                buffers[r].memory[output].copy_from_slice(&result);
            }
            for &to in &step.to {
                queues[r * n + to as usize].push_back(result.clone());
            }
            done[r] += 1;
            moved = true;
        }
    }
    let finished = (0..n).all(|r| done[r] == plans[r].steps.len()) && queues.iter().all(VecDeque::is_empty);
    let output = |(r, b): (usize, &Buffers)| {
        let blocks = call.collective.blocks_out(r as Rank, n as u32, call.root) as usize;
        let after = |&x: &f64| if call.collective.reduces() { (call.operator.after)(x, n as f64) } else { x };
        b.memory[b.output..b.output + blocks * call.count].iter().map(after).collect()
    };
    finished.then(|| buffers.iter().enumerate().map(output).collect())
}

/// The elements of a chunk in a buffer that begins at `base`.
fn place(base: usize, block: u32, chunk: Chunk, parts: u32, count: usize) -> std::ops::Range<usize> {
    let size = count.div_ceil(parts as usize);
    let start = (chunk.part as usize * size).min(count);
    let end = (start + size).min(count);
    let block = base + block as usize * count;
    block + start..block + end
}

/// The outputs by definition.
pub fn expected(call: &Call, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (n, count) = (inputs.len(), call.count);
    let reduced = |range: std::ops::Range<usize>| -> Vec<f64> {
        let Operator { before, fold, after } = call.operator;
        let element = |i: usize| {
            let all = inputs.iter().map(|x| before(x[i])).reduce(fold);
            after(all.expect("a rank at least"), n as f64)
        };
        range.map(element).collect()
    };
    let block = |b: usize| b * count..(b + 1) * count;
    let root = call.root as usize;
    let at = |r: usize| match call.collective {
        Collective::AllReduce => reduced(block(0)),
        Collective::Reduce if r == root => reduced(block(0)),
        Collective::ReduceScatter => reduced(block(r)),
        Collective::Broadcast => inputs[root][block(0)].to_vec(),
        Collective::AllGather => inputs.iter().flat_map(|x| x[block(0)].to_vec()).collect(),
        Collective::Gather if r == root => inputs.iter().flat_map(|x| x[block(0)].to_vec()).collect(),
        Collective::Scatter => inputs[root][block(r)].to_vec(),
        Collective::AlltoAll => inputs.iter().flat_map(|x| x[block(r)].to_vec()).collect(),
        Collective::Reduce | Collective::Gather | Collective::Barrier => Vec::new(),
    };
    (0..n).map(at).collect()
}

/// Inputs of whole numbers, all different, of as many blocks as any rank can need.
pub fn whole_numbers(nranks: u32, count: usize) -> Vec<Vec<f64>> {
    let length = nranks as usize * count;
    let number = |rank: usize, i: usize| ((rank * length + i) * 7919 % 65_521) as f64;
    (0..nranks as usize).map(|rank| (0..length).map(|i| number(rank, i)).collect()).collect()
}

#[test]
fn every_algorithm_gives_the_definition_for_every_count_in_place_and_not() {
    for (algorithm, collective, nranks, root) in super::cases(1..=9) {
        let plans = algorithms::plan_all(algorithm, &RankView::flat(collective, 0, nranks, root));
        let n = nranks as usize;
        for count in [0, 1, n - 1, n, n + 1, 5 * n + 3] {
            for in_place in [false, true] {
                let call = Call { collective, root, count, operator: SUM, in_place };
                let inputs = whole_numbers(nranks, count);
                assert_eq!(
                    run(&plans, &call, &inputs),
                    Some(expected(&call, &inputs)),
                    "{} {collective} over {nranks} ranks, root {root}, count {count}, in place: {in_place}",
                    algorithm.name
                );
            }
        }
    }
}
