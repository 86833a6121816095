//! Least squares: finds the parameters with the smallest residuals of a model, by Levenberg and Marquardt's method.
//!
//! ```text
//!     r, J = residuals and their slopes at p        J by differences: the model is an engine, not a formula
//!     (J'J + l diag J'J) d = -J'r                   l small: a step of Newton's kind; l large: a short one downhill
//!     better at p + d: take it, l / 10;             not better: l * 10
//! ```
//!
//! The method is short, and the maintained crates for it have twenty dependencies, so it is written here. There are at most
//! eight parameters, and the equations are solved directly. Before the first step, a few distant values of each parameter are
//! tried in turn, because a parameter that has no effect yet has no slope to follow.
//!
//! Each parameter has bounds. A step that would leave them ends there, and a parameter that lies at one and is drawn across it stays
//! where it is while the others move on.
//!
//! An engine's times are not smooth. The search therefore starts at several points, and a simplex explores the surroundings of
//! the best result: see `simplex`.
//!
//! Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters", SIAM J. Appl. Math. 11 (1963).

use std::cell::Cell;

use super::simplex;

/// A function that returns the residuals at a point.
pub type Model<'a> = &'a mut dyn FnMut(&[f64]) -> Result<Vec<f64>, String>;

/// The point with the smallest residuals.
#[derive(Debug)]
pub struct Fit {
    pub point: Vec<f64>,
    /// The effect of each parameter on the residuals: the lengths of the Jacobian's columns.
    pub weight: Vec<f64>,
    /// Pairs of parameters with parallel slopes: the table determines only their sum or their difference.
    pub alike: Vec<(usize, usize)>,
}

/// The differences for the slopes; they are large compared with the rounding to whole picoseconds. A slope across a bend of the
/// engine's times misleads, so each difference is used in turn until it leads no further.
const DIFFERENCES: [f64; 5] = [1e-3, -1e-3, 1e-4, -1e-4, 1e-2];
/// The number of starting points.
const BEGINNINGS: usize = 10;
/// Residuals below this count as zero.
const ENOUGH: f64 = 2e-4;
/// The side of the simplex around the best point, and its evaluations per parameter.
const SIMPLEX: f64 = 0.05;
const EVALUATIONS: usize = 30;
/// The parts of the evaluations for the search from several points, and for the simplex.
const AFAR: f64 = 0.5;
const AROUND: f64 = 0.25;
/// The most steps that are tried with each difference.
const MOST_STEPS: usize = 40;
/// The largest change of a parameter in one step.
const FAR: f64 = 1.0;
/// The distances from the start at which each parameter is tried before the first step.
const TRIED: [f64; 6] = [-3.0, -1.5, -0.5, 0.5, 1.5, 3.0];
/// Two slopes whose cosine is above this count as parallel.
const PARALLEL: f64 = 0.9999;

/// The least and the most that each parameter may be.
pub type Bounds = [(f64, f64)];

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From many beginnings.
    Far,
    /// From the start alone.
    Near,
}

/// Fits the parameters within their bounds, beginning at `start`, with about this number of evaluations of the model at most. `Err` if the model has
/// no residuals at `start`.
pub fn least_squares(
    start: &[f64],
    bounds: &Bounds,
    reach: Reach,
    evaluations: usize,
    model: Model<'_>,
) -> Result<Fit, String> {
    let made = Cell::new(0);
    let model: Model<'_> = &mut |point: &[f64]| {
        made.set(made.get() + 1);
        model(point)
    };
    let is_spent = |part: f64| made.get() as f64 >= evaluations as f64 * part;
    let (tried, beginnings) = match reach {
        Reach::Far => (&TRIED[..], BEGINNINGS),
        Reach::Near => (&[][..], 1),
    };
    let mut point = within(bounds, start.to_vec());
    let start = &point.clone();
    let mut residuals = model(&point)?;
    for i in 0..point.len() {
        for shift in tried {
            let mut other = point.clone();
            other[i] = start[i] + shift;
            let other = within(bounds, other);
            if let Some(found) = better(&residuals, model(&other)) {
                (point, residuals) = (other, found);
            }
        }
    }
    // Bends cause local minima, so there are several starting points, unless the first result is exact already.
    let (middle, mut best) = (point.clone(), None::<(f64, Vec<f64>, Vec<f64>)>);
    for begin in (0..beginnings).take_while(|begin| *begin == 0 || !is_spent(AFAR)) {
        let other = (0..middle.len()).map(|i| middle[i] + spread(begin, i)).collect();
        let mut other = within(bounds, other);
        let Ok(mut found) = model(&other) else { continue };
        descend(&mut other, &mut found, DIFFERENCES[0], bounds, &|| is_spent(AFAR), model)?;
        let cost = square(&found);
        let enough = cost < ENOUGH * ENOUGH * found.len() as f64;
        if best.as_ref().is_none_or(|best| cost < best.0) {
            best = Some((cost, other, found));
        }
        if enough {
            break;
        }
    }
    if let Some((_, other, _)) = best {
        point = other;
    }
    let mut cost =
        |p: &[f64]| model(&within(bounds, p.to_vec())).map_or(f64::INFINITY, |residuals| square(&residuals));
    let around = (EVALUATIONS * start.len()).min((evaluations as f64 * AROUND) as usize);
    simplex::descend(&mut point, SIMPLEX, around, &mut cost);
    point = within(bounds, point);
    residuals = model(&point)?;
    for difference in DIFFERENCES.into_iter().take_while(|_| !is_spent(1.0)) {
        descend(&mut point, &mut residuals, difference, bounds, &|| is_spent(1.0), model)?;
    }
    let slopes = jacobian(&point, &residuals, DIFFERENCES[0], bounds, model)?;
    let weight: Vec<f64> = slopes.iter().map(|slope| square(slope).sqrt()).collect();
    let mut alike = Vec::new();
    for i in 0..point.len() {
        for j in 0..i {
            let lengths = weight[i] * weight[j];
            if lengths > 0.0 && (dot(&slopes[i], &slopes[j]) / lengths).abs() > PARALLEL {
                alike.push((j, i));
            }
        }
    }
    Ok(Fit { point, weight, alike })
}

/// Returns the coordinate of starting point number `begin` on an axis, from -1 to 1; the first one is the middle. These are
/// Halton's points, whose coordinates on different axes are independent.
fn spread(begin: usize, axis: usize) -> f64 {
    let base = [2, 3, 5, 7, 11, 13, 17, 19][axis % 8];
    let (mut place, mut share, mut rest) = (0.0, 1.0, begin);
    while rest > 0 {
        share /= base as f64;
        place += share * (rest % base) as f64;
        rest /= base;
    }
    if begin == 0 { 0.0 } else { 2.0 * place - 1.0 }
}

/// Takes steps until none makes the residuals smaller, or the evaluations are spent.
fn descend(
    point: &mut Vec<f64>,
    residuals: &mut Vec<f64>,
    difference: f64,
    bounds: &Bounds,
    is_spent: &dyn Fn() -> bool,
    model: Model<'_>,
) -> Result<(), String> {
    let mut slopes = free(jacobian(point, residuals, difference, bounds, model)?, point, residuals, bounds);
    let mut damping = 1e-2;
    for _ in (0..MOST_STEPS).take_while(|_| !is_spent()) {
        let Some(step) = damped_step(&slopes, residuals, damping) else { return Ok(()) };
        let other = point.iter().zip(&step).map(|(p, d)| p + d.clamp(-FAR, FAR)).collect();
        let other = within(bounds, other);
        match better(residuals, model(&other)) {
            Some(found) => {
                let gain = 1.0 - square(&found) / square(residuals).max(f64::MIN_POSITIVE);
                (*point, *residuals) = (other, found);
                if gain < 1e-9 {
                    return Ok(());
                }
                slopes =
                    free(jacobian(point, residuals, difference, bounds, model)?, point, residuals, bounds);
                damping = (damping / 10.0).max(1e-9);
            }
            None if damping > 1e6 => return Ok(()),
            None => damping *= 10.0,
        }
    }
    Ok(())
}

/// Moves a point to where its bounds allow.
fn within(bounds: &Bounds, mut point: Vec<f64>) -> Vec<f64> {
    point.iter_mut().zip(bounds).for_each(|(p, (least, most))| *p = p.clamp(*least, *most));
    point
}

/// Takes the slope of each parameter that its bound holds back.
fn free(mut slopes: Vec<Vec<f64>>, point: &[f64], residuals: &[f64], bounds: &Bounds) -> Vec<Vec<f64>> {
    for ((slope, p), (least, most)) in slopes.iter_mut().zip(point).zip(bounds) {
        let downhill = -dot(slope, residuals);
        if (*p >= *most && downhill > 0.0) || (*p <= *least && downhill < 0.0) {
            slope.fill(0.0);
        }
    }
    slopes
}

/// Returns the new residuals if there are any and they are smaller than the old ones.
fn better(old: &[f64], new: Result<Vec<f64>, String>) -> Option<Vec<f64>> {
    new.ok().filter(|new| square(new) < square(old))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn square(a: &[f64]) -> f64 {
    dot(a, a)
}

/// Computes the slope of each parameter. Where the model has no value on one side, or a bound is there, the difference is taken on
/// the other side.
fn jacobian(
    point: &[f64],
    residuals: &[f64],
    difference: f64,
    bounds: &Bounds,
    model: Model<'_>,
) -> Result<Vec<Vec<f64>>, String> {
    (0..point.len())
        .map(|i| {
            let mut at = |difference: f64| {
                let mut other = point.to_vec();
                other[i] += difference;
                if other[i] < bounds[i].0 || other[i] > bounds[i].1 {
                    return Err("out of bounds".to_owned());
                }
                model(&other).map(|moved| (moved, difference))
            };
            let (moved, difference) = at(difference).or_else(|_| at(-difference))?;
            Ok(moved.iter().zip(residuals).map(|(m, r)| (m - r) / difference).collect())
        })
        .collect()
}

/// Solves for a step. `None` if no parameter has any effect.
fn damped_step(slopes: &[Vec<f64>], residuals: &[f64], damping: f64) -> Option<Vec<f64>> {
    let largest = slopes.iter().map(|slope| square(slope)).fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    let rows: Vec<Vec<f64>> = (0..slopes.len())
        .map(|i| {
            let mut row: Vec<f64> = slopes.iter().map(|other| dot(&slopes[i], other)).collect();
            // A parameter without effect gets a small diagonal as well, so that it stays where it is.
            row[i] += damping * row[i].max(1e-12 * largest) + 1e-12 * largest;
            row.push(-dot(&slopes[i], residuals));
            row
        })
        .collect();
    Some(solve(rows))
}

/// Solves equations by elimination. `rows` are those of a symmetric positive definite matrix, each followed by its right side.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let n = rows.len();
    for i in 0..n {
        let pivot = rows[i].clone();
        for row in &mut rows[i + 1..] {
            let factor = row[i] / pivot[i];
            for (value, above) in row.iter_mut().zip(&pivot).skip(i) {
                *value -= factor * above;
            }
        }
    }
    let mut solution = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * solution[j]).sum();
        solution[i] = (rows[i][n] - known) / rows[i][i];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    #[test]
    fn a_parameter_stays_at_its_bound_and_the_others_find_their_best_there() {
        // The least of (a - 3)^2 + (a + b - 5)^2 with a at most 2 is at b = 3, and a starts at its bound.
        let bounds = [(f64::NEG_INFINITY, 2.0), FREE];
        for start in [[2.0, 0.0], [-5.0, 9.0], [50.0, 1.0]] {
            let fit = least_squares(&start, &bounds, Reach::Far, 5000, &mut |p| {
                assert!(p[0] <= 2.0, "{p:?}");
                Ok(vec![p[0] - 3.0, p[0] + p[1] - 5.0])
            });
            let found = fit.unwrap().point;
            assert!((found[0] - 2.0).abs() < 1e-6 && (found[1] - 3.0).abs() < 1e-6, "{start:?}: {found:?}");
        }
        // Where parameters are coupled, a step for both leads nowhere while one of them is held.
        let coupled = |p: &[f64]| Ok(vec![p[0] - 3.0, 100.0 * (p[0] + p[1] - 5.0)]);
        let (mut point, mut evaluations) = (vec![2.0, 0.0], 0);
        let mut counted = |p: &[f64]| {
            evaluations += 1;
            coupled(p)
        };
        let mut residuals = counted(&point).unwrap();
        descend(&mut point, &mut residuals, 1e-3, &bounds, &|| false, &mut counted).unwrap();
        assert!((point[1] - 3.0).abs() < 1e-6 && evaluations < 20, "{point:?} after {evaluations}");
        // A bound where the parameter starts does not hold it back from the other side.
        let fit =
            least_squares(&[2.0], &bounds[..1], Reach::Far, 5000, &mut |p| Ok(vec![p[0] + 1.0])).unwrap();
        assert!((fit.point[0] + 1.0).abs() < 1e-6, "{:?}", fit.point);
    }

    #[test]
    fn a_search_ends_when_its_evaluations_are_spent() {
        // Two valleys that cross and are rough: no point of it ends a search.
        let mut made = 0;
        let fit = least_squares(&[4.0, -4.0, 4.0], &[FREE; 3], Reach::Far, 60, &mut |p| {
            made += 1;
            Ok(vec![
                (p[0] * p[1]).sin() + 2.0,
                p[1].abs().sqrt() + 1.0,
                (p[2] - p[0]).abs() + 1.0 / (1.0 + p[2] * p[2]),
            ])
        });
        assert!(fit.is_ok() && made < 120, "{made} evaluations");
    }

    #[test]
    fn a_curve_is_found_from_far() {
        // y = a exp(b x), and b from the wrong side.
        let xs: Vec<f64> = (0..10).map(f64::from).collect();
        let fit = least_squares(&[0.0, 0.5], &[FREE; 2], Reach::Far, 5000, &mut |p| {
            Ok(xs.iter().map(|x| p[0] * (p[1] * x).exp() - 3.0 * (-0.7 * x).exp()).collect())
        });
        let found = fit.unwrap().point;
        assert!((found[0] - 3.0).abs() < 1e-6 && (found[1] + 0.7).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_bend_does_not_stop_it() {
        // The larger of a line and a constant, as an engine's times are.
        let model =
            |p: &[f64]| -> Vec<f64> { (0..20).map(|x| (p[0] + 0.1 * f64::from(x)).max(p[1])).collect() };
        let wanted = model(&[0.3, 1.1]);
        let fit = least_squares(&[1.0, 2.5], &[FREE; 2], Reach::Far, 5000, &mut |p| {
            Ok(model(p).iter().zip(&wanted).map(|(m, w)| m - w).collect())
        });
        let found = fit.unwrap().point;
        assert!((found[0] - 0.3).abs() < 1e-4 && (found[1] - 1.1).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn what_cannot_be_told_apart_is_said() {
        let fit = least_squares(&[1.0, 1.0, 1.0], &[FREE; 3], Reach::Far, 5000, &mut |p| {
            Ok(vec![p[0] + p[1] - 5.0, 2.0 * (p[0] + p[1] - 5.0)])
        });
        let fit = fit.unwrap();
        assert!((fit.point[0] + fit.point[1] - 5.0).abs() < 1e-6);
        assert_eq!(fit.alike, [(0, 1)]);
        assert_eq!((fit.weight[2], fit.point[2]), (0.0, 1.0));
    }

    #[test]
    fn a_model_that_fails_at_the_start_is_an_error_and_elsewhere_a_wall() {
        assert_eq!(
            least_squares(&[0.0], &[FREE], Reach::Far, 5000, &mut |_| Err("no".to_owned())).unwrap_err(),
            "no"
        );
        let walled = least_squares(&[0.0], &[FREE], Reach::Far, 5000, &mut |p| match p[0] > 0.6 {
            true => Err("no".to_owned()),
            false => Ok(vec![p[0] - 0.55]),
        });
        assert!((walled.unwrap().point[0] - 0.55).abs() < 1e-6);
    }
}
