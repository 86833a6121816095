//! Runs several operations in turns and keeps the statistics of their times.

use std::hint::black_box;
use std::time::Instant;

use super::Time;

/// An operation that is timed: its name, and a function that runs it as often as its argument says.
pub type Turn<'a> = (&'a str, &'a mut dyn FnMut(u32) -> Result<(), String>);

/// Gives each operation its turn in every round. Returns the times in the order of `turns`.
///
/// Before each turn the operation runs once, untimed, so that the caches hold its own data and not the data of the operation
/// before it. Then `meet` is called.
pub fn take_turns<'a>(
    rounds: u32,
    operations: u32,
    meet: &dyn Fn() -> Result<(), String>,
    turns: &mut [Turn<'a>],
) -> Result<Vec<(&'a str, Time)>, String> {
    let mut samples = vec![Vec::new(); turns.len()];
    for round in 0..rounds as usize {
        // The order rotates, so that no operation is always the first of a round.
        for k in 0..turns.len() {
            let at = (round + k) % turns.len();
            let (_, turn) = &mut turns[at];
            turn(1)?;
            meet()?;
            let begin = Instant::now();
            turn(black_box(operations))?;
            let ns = begin.elapsed().as_nanos() as f64 / f64::from(operations);
            samples[at].push(ns);
        }
    }
    Ok(turns.iter().zip(samples).map(|((name, _), samples)| (*name, Time::of(samples))).collect())
}

impl Time {
    fn of(mut samples: Vec<f64>) -> Time {
        samples.sort_by(f64::total_cmp);
        Time { median_ns: samples[samples.len() / 2], quartile_ns: samples[samples.len() / 4] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_of_the_sorted_rounds() {
        let time = Time::of(vec![9.0, 1.0, 5.0, 3.0, 7.0]);
        assert_eq!(time, Time { median_ns: 5.0, quartile_ns: 3.0 });
        assert_eq!(Time::of(vec![2.0]), Time { median_ns: 2.0, quartile_ns: 2.0 });
    }

    #[test]
    fn everything_has_its_turn_in_every_round() {
        let (mut a, mut b) = (0, 0);
        let meet = || Ok(());
        let mut first = |n: u32| {
            a += n;
            Ok(())
        };
        let mut second = |n: u32| {
            b += n;
            Ok(())
        };
        let times = take_turns(3, 10, &meet, &mut [("a", &mut first), ("b", &mut second)]).unwrap();
        assert_eq!(times.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((a, b), (33, 33));
    }
}
