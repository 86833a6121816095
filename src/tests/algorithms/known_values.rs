//! Values that other systems' documents print, through every algorithm that serves the collective.
//!
//! The operator and collective tables are those of Graphcore's collectives library, the summed and gathered vectors
//! those of JAX's distributed Pallas tutorial.

use super::interpreter::{Call, Operator, SUM, expected, plain, run, whole_numbers};
use crate::algorithms;
use crate::plan::RankView;
use crate::types::Collective;

/// Run every algorithm that serves the call, and hand each one's outputs to `judge`.
fn each_algorithm(call: Call, inputs: &[Vec<f64>], judge: impl Fn(&str, Vec<Vec<f64>>)) {
    let mut algorithms = 0;
    let view = RankView::flat(call.collective, 0, inputs.len() as u32, call.root);
    for algorithm in algorithms::candidates(call.collective).filter(|a| a.refuses(&view).is_none()) {
        let plans = algorithms::plan_all(algorithm, &view);
        judge(algorithm.name, run(&plans, &call, inputs).expect("the programs finish"));
        algorithms += 1;
    }
    assert!(algorithms >= 2, "{} has {algorithms} algorithms", call.collective);
}

fn call(collective: Collective, count: usize, operator: Operator) -> Call {
    Call { collective, root: 0, count, operator, in_place: false }
}

fn all_reduce_gives(operator: Operator, inputs: [[f64; 4]; 2], result: [f64; 4]) {
    let inputs = inputs.map(Vec::from);
    each_algorithm(call(Collective::AllReduce, 4, operator), &inputs, |name, outputs| {
        assert_eq!(outputs, [result, result].map(Vec::from), "{name}");
    });
}

const COUNTING: [[f64; 4]; 2] = [[1., 2., 3., 4.], [5., 6., 7., 8.]];
/// true, false, true, false and false, true, true, false.
const TRUTH: [[f64; 4]; 2] = [[1., 0., 1., 0.], [0., 1., 1., 0.]];

#[test]
fn add() {
    all_reduce_gives(SUM, COUNTING, [6., 8., 10., 12.]);
}

#[test]
fn mean() {
    all_reduce_gives(Operator { after: |x, n| x / n, ..SUM }, COUNTING, [3., 4., 5., 6.]);
}

#[test]
fn mul() {
    all_reduce_gives(plain(|a, b| a * b), COUNTING, [5., 12., 21., 32.]);
}

#[test]
fn min() {
    all_reduce_gives(plain(f64::min), COUNTING, COUNTING[0]);
}

#[test]
fn max() {
    all_reduce_gives(plain(f64::max), COUNTING, COUNTING[1]);
}

#[test]
fn square_add() {
    all_reduce_gives(Operator { before: |x| x * x, ..SUM }, COUNTING, [26., 40., 58., 80.]);
}

#[test]
fn logical_and() {
    all_reduce_gives(plain(|a, b| (a != 0. && b != 0.) as u8 as f64), TRUTH, [0., 0., 1., 0.]);
}

#[test]
fn logical_or() {
    all_reduce_gives(plain(|a, b| (a != 0. || b != 0.) as u8 as f64), TRUTH, [1., 1., 1., 0.]);
}

#[test]
fn all_reduce_combines_element_by_element() {
    let inputs = [vec![1., 2., 3.], vec![10., 20., 30.]];
    each_algorithm(call(Collective::AllReduce, 3, SUM), &inputs, |name, outputs| {
        assert_eq!(outputs, [vec![11., 22., 33.], vec![11., 22., 33.]], "{name}");
    });
}

#[test]
fn all_gather_puts_the_inputs_in_rank_order() {
    // x0 = 10, y0 = 20, x1 = 11, ...
    let inputs: Vec<Vec<f64>> = (0..4).map(|r| vec![10. + r as f64, 20. + r as f64]).collect();
    each_algorithm(call(Collective::AllGather, 2, SUM), &inputs, |name, outputs| {
        for output in outputs {
            assert_eq!(output, [10., 20., 11., 21., 12., 22., 13., 23.], "{name}");
        }
    });
}

/// a0 a1 a2 a3, b0 b1 b2 b3, c.., d..: letters are hundreds.
fn letters() -> Vec<Vec<f64>> {
    (1..5).map(|letter| (0..4).map(|i| (100 * letter + i) as f64).collect()).collect()
}

#[test]
fn all_to_all_transposes() {
    each_algorithm(call(Collective::AlltoAll, 1, SUM), &letters(), |name, outputs| {
        for (i, output) in outputs.iter().enumerate() {
            let i = i as f64;
            assert_eq!(*output, [100. + i, 200. + i, 300. + i, 400. + i], "{name}");
        }
    });
}

#[test]
fn broadcast_gives_everybody_the_roots() {
    each_algorithm(call(Collective::Broadcast, 4, SUM), &letters(), |name, outputs| {
        for output in outputs {
            assert_eq!(output, [100., 101., 102., 103.], "{name}");
        }
    });
}

#[test]
fn reduce_scatter_of_three_elements_over_two_ranks_ends_in_a_zero() {
    // Blocks of ceil(3/2) elements, the tail padded.
    let inputs = [vec![1., 2., 3., 0.], vec![10., 20., 30., 0.]];
    each_algorithm(call(Collective::ReduceScatter, 2, SUM), &inputs, |name, outputs| {
        assert_eq!(outputs, [vec![11., 22.], vec![33., 0.]], "{name}");
    });
}

#[test]
fn all_gather_of_four_devices() {
    let printed = [0.9858954, 0.54248166, 0.9547038, 0.954962];
    let inputs = printed.map(|x| vec![x; 8]);
    each_algorithm(call(Collective::AllGather, 8, SUM), &inputs, |name, outputs| {
        for output in outputs {
            let first: Vec<f64> = output.into_iter().step_by(8).collect();
            assert_eq!(first, printed, "{name}");
        }
    });
}

#[test]
fn psum_of_four_devices() {
    let inputs = [0.9858954, 0.11763906, 0.9955574, 0.775211].map(|x| vec![x]);
    each_algorithm(call(Collective::AllReduce, 1, SUM), &inputs, |name, outputs| {
        for output in outputs {
            assert!((output[0] - 2.8743029).abs() < 1e-7, "{name}: {}", output[0]);
        }
    });
}

#[test]
fn psum_scatter_of_64_by_512_over_four_devices() {
    // Each device has 64 x 128 of the array and gets 16 x 128 of the sum.
    let call = call(Collective::ReduceScatter, 16 * 128, SUM);
    let inputs = whole_numbers(4, 16 * 128);
    each_algorithm(call, &inputs, |name, outputs| {
        assert!(outputs == expected(&call, &inputs), "{name}");
        let corner: f64 = inputs.iter().map(|x| x[3 * 16 * 128]).sum();
        assert_eq!(outputs[3][0], corner, "{name}");
    });
}
