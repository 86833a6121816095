//! Measures the numbers of the host's model: hand-offs, rates, and the switch between two ranks on one core.
//!
//! Threads that are bound to processors stand for ranks. Each number is the median of several rounds.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use penny::internals::kernels::{self, Dest, Fold, FoldSource};
use penny::internals::memory::view::Payload;
use penny::internals::types::{DataType, RedOp};

use super::cores::{Cores, Distance};

/// The measured numbers of a host, in nanoseconds and bytes per nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub struct HostNumbers {
    /// For each distance, the hand-off between two processors.
    pub links: Vec<(Distance, HandOff)>,
    /// The nanoseconds to switch between two ranks on one processor.
    pub switch_ns: f64,
    /// The rates of a copy.
    pub copy: Rates,
    /// The rates of a fold of two vectors.
    pub fold: Rates,
    /// The nanoseconds of a barrier of two ranks, less the hand-off.
    pub call_ns: f64,
}

/// The exchange between two processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandOff {
    /// The nanoseconds from a store on one processor until the other sees it.
    pub line_ns: f64,
    /// The bytes per nanosecond of a copy from the other's cache.
    pub rate: f64,
}

/// Rates in bytes per nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Within a core's own cache.
    pub cache: f64,
    /// In memory, for each core while all cores work.
    pub memory: f64,
}

const ROUNDS: usize = 7;
/// Exchanges in a round.
const EXCHANGES: u64 = 500;
/// Polls before a thread yields: by then it is likely that another program runs on the other thread's processor.
const SPINS: u32 = 10_000;
/// The bytes of a vector that fits in a core's own cache.
const SMALL: usize = 64 << 10;

/// Measures all numbers except [`HostNumbers::call_ns`], which needs ranks.
pub fn measure(cores: &Cores) -> Result<HostNumbers, String> {
    let mut links = Vec::new();
    for (distance, pair) in cores.pairs() {
        let line_ns = ping_pong(cores, pair, SPINS)?;
        links.push((distance, HandOff { line_ns, rate: pull(cores, pair)? }));
    }
    // More than the cache holds, shared by all.
    let large = (cores.cache_bytes() as usize * 2 / cores.len()).clamp(4 << 20, 64 << 20);
    let all: Vec<usize> = (0..cores.len()).collect();
    let rates = |work: Work| -> Result<Rates, String> {
        Ok(Rates { cache: rate(cores, &[0], SMALL, work)?, memory: rate(cores, &all, large, work)? })
    };
    Ok(HostNumbers {
        switch_ns: ping_pong(cores, [0, 0], 0)?,
        copy: rates(Work::Copy)?,
        fold: rates(Work::Fold)?,
        links,
        call_ns: 0.0,
    })
}

/// Returns the median; 0 if there are no numbers.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// Measures the nanoseconds from a store on one processor until a thread on the other sees it. A thread that waits yields
/// after `spins` polls.
fn ping_pong(cores: &Cores, [one, other]: [usize; 2], spins: u32) -> Result<f64, String> {
    let (ball, start) = (AtomicU64::new(0), Barrier::new(2));
    // Ends after EXCHANGES * ROUNDS turns of each.
    let play = |mine: u64| {
        let mut rounds = Vec::new();
        start.wait();
        for round in 0..ROUNDS as u64 {
            let began = Instant::now();
            for turn in (0..EXCHANGES).map(|turn| 2 * (round * EXCHANGES + turn) + mine) {
                let mut polls = 0;
                while ball.load(Ordering::Acquire) != turn {
                    polls += 1;
                    if polls > spins { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
                ball.store(turn + 1, Ordering::Release);
            }
            rounds.push(began.elapsed().as_nanos() as f64 / (2 * EXCHANGES) as f64);
        }
        median(rounds)
    };
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| {
            let pinned = cores.pin(other);
            play(1);
            pinned
        });
        let own = scope.spawn(|| {
            let pinned = cores.pin(one);
            let nanoseconds = play(0);
            pinned.map(|()| nanoseconds)
        });
        let failed = |_| "a measuring thread panicked".to_owned();
        peer.join().map_err(failed)??;
        own.join().map_err(failed)?
    })
}

/// Measures the bytes per nanosecond at which `reader` copies what `writer` has just written.
fn pull(cores: &Cores, [writer, reader]: [usize; 2]) -> Result<f64, String> {
    let (mut theirs, mut mine) = (vec![1u64; SMALL / 8], vec![1u64; SMALL / 8]);
    let (theirs, mine) = (Payload::from(&mut theirs[..]), Payload::from(&mut mine[..]));
    let turn = Barrier::new(2);
    std::thread::scope(|scope| {
        let turn = &turn;
        let writes = scope.spawn(move || {
            let pinned = cores.pin(writer);
            for _ in 0..ROUNDS {
                kernels::zero(theirs);
                turn.wait();
                turn.wait();
            }
            pinned
        });
        let reads = scope.spawn(move || {
            let pinned = cores.pin(reader);
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                turn.wait();
                let began = Instant::now();
                kernels::copy(mine, theirs, false);
                rounds.push(SMALL as f64 / began.elapsed().as_nanos().max(1) as f64);
                turn.wait();
            }
            pinned.map(|()| median(rounds))
        });
        let failed = |_| "a measuring thread panicked".to_owned();
        writes.join().map_err(failed)??;
        reads.join().map_err(failed)?
    })
}

#[derive(Clone, Copy)]
enum Work {
    Copy,
    Fold,
}

/// Measures the bytes per nanosecond of each processor in `on` while all of them work on vectors of `bytes` bytes.
fn rate(cores: &Cores, on: &[usize], bytes: usize, work: Work) -> Result<f64, String> {
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 2).ok_or("a sum of float32 does not exist")?;
    let start = Barrier::new(on.len());
    let one = |processor: usize| {
        let pinned = cores.pin(processor);
        let mut vectors = [vec![1u64; bytes / 8], vec![1u64; bytes / 8], vec![1u64; bytes / 8]];
        let [a, b, out] = vectors.each_mut().map(|words| Payload::from(&mut words[..]));
        let source = |view| FoldSource { view, raw: true };
        let times = (SMALL * 16 / bytes).max(1);
        let mut rounds = Vec::new();
        start.wait();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            for _ in 0..times {
                match work {
                    Work::Copy => kernels::copy(out, a, false),
                    Work::Fold => fold.fold(&[source(a), source(b)], &[Dest::cached(out)], bytes / 4, true),
                }
            }
            rounds.push((times * bytes) as f64 / began.elapsed().as_nanos().max(1) as f64);
        }
        pinned.map(|()| median(rounds))
    };
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = on.iter().map(|&processor| scope.spawn(move || one(processor))).collect();
        let rates: Result<Vec<f64>, String> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a measuring thread panicked".to_owned())?)
            .collect();
        rates.map(median)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_numbers() {
        let cores = Cores::read().unwrap();
        let numbers = measure(&cores).unwrap();
        assert_eq!(numbers.links.len(), cores.pairs().len());
        let rates = [numbers.copy.cache, numbers.copy.memory, numbers.fold.cache, numbers.fold.memory];
        assert!(rates.iter().all(|&rate| rate > 0.0 && rate.is_finite()), "{numbers:?}");
        assert!(numbers.switch_ns > 0.0 && numbers.links.iter().all(|(_, link)| link.line_ns > 0.0));
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
