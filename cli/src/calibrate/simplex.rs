//! Nelder and Mead's simplex: a descent without slopes, for functions that are not smooth.
//!
//! ```text
//!     worst corner w, the others' centre c       c + (c - w)      reflected; the best so far: twice as far
//!                                                c + (w - c)/2    neither: half way in; or all towards the best
//! ```
//!
//! Nelder, Mead, "A Simplex Method for Function Minimization", Computer Journal 7 (1965).

/// Moves `point` to a lower `cost`, with at most `evaluations` evaluations, and returns the new cost. The corners of the first
/// simplex are `size` away from the point.
pub fn descend(
    point: &mut Vec<f64>,
    size: f64,
    evaluations: usize,
    cost: &mut dyn FnMut(&[f64]) -> f64,
) -> f64 {
    let n = point.len();
    let mut corners: Vec<(f64, Vec<f64>)> = vec![(cost(point), point.clone())];
    for i in 0..n {
        let mut corner = point.clone();
        corner[i] += size;
        corners.push((cost(&corner), corner));
    }
    let mut left = evaluations.saturating_sub(n + 1);
    while left > 0 {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (best, worst) = (corners[0].0, corners[n].0);
        if worst - best <= 1e-12 * best.abs() {
            break;
        }
        let centre: Vec<f64> =
            (0..n).map(|i| corners[..n].iter().map(|c| c.1[i]).sum::<f64>() / n as f64).collect();
        let outermost = corners[n].1.clone();
        let mut at = |far: f64| {
            let corner: Vec<f64> = centre.iter().zip(&outermost).map(|(c, w)| c + far * (c - w)).collect();
            (cost(&corner), corner)
        };
        let reflected = at(1.0);
        left = left.saturating_sub(2);
        let new = if reflected.0 < best {
            let further = at(2.0);
            if further.0 < reflected.0 { further } else { reflected }
        } else if reflected.0 < corners[n - 1].0 {
            reflected
        } else {
            at(if reflected.0 < worst { 0.5 } else { -0.5 })
        };
        if new.0 < worst {
            corners[n] = new;
            continue;
        }
        let target = corners[0].1.clone();
        for (value, corner) in &mut corners[1..] {
            for (x, b) in corner.iter_mut().zip(&target) {
                *x = (*x + b) / 2.0;
            }
            *value = cost(corner);
        }
        left = left.saturating_sub(n);
    }
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, best) = corners.swap_remove(0);
    *point = best;
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corner_without_slopes_is_found() {
        let mut point = vec![4.0, -3.0, 0.5];
        let least = descend(&mut point, 0.5, 2000, &mut |p| {
            (p[0] - 1.0).abs().max((p[1] + p[0] - 2.0).abs()) + (p[2] - p[1]).abs()
        });
        assert!(least < 1e-6, "{least} at {point:?}");
        assert!(point.iter().all(|x| (x - 1.0).abs() < 1e-5), "{point:?}");
    }

    #[test]
    fn it_never_ends_worse_than_it_began() {
        let mut point = vec![1.0];
        let least = descend(&mut point, 1.0, 1, &mut |p| if p[0] == 1.0 { 2.0 } else { 3.0 });
        assert_eq!((least, point), (2.0, vec![1.0]));
    }
}
