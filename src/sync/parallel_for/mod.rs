//! Loops over a rank's threads: large copies and folds in pieces.
//!
//! The pieces of a loop are run by the first of these that there is:
//!
//! | | who runs the pieces | |
//! |---|---|---|
//! | 1 | a function of the program | `by_function`: `parallelFor` of `pennyConfig_t` |
//! | 2 | an OpenMP runtime that the program has loaded | `sys::openmp` |
//! | 3 | helper threads of Penny | `pool` |
//!
//! The calling thread takes part in all of them. In 2 and 3 threads take the next piece when they have done one, so the loop does not
//! wait for a thread that comes late: the others have done its pieces.

mod by_function;
pub mod pool;

use super::lent::{Lent, LentBody};
use super::prim::{AtomicBool, AtomicU32, Ordering};
use crate::error::Result;
use crate::log;
use crate::sys::openmp::{self, OpenMp};
use crate::sys::parallel_function::ParallelFunction;
use crate::types::Rank;
use pool::Pool;

/// The least bytes of a piece: its time is several times that of handing it to another core.
const LEAST_PIECE: usize = 32 << 10;
/// The size from which on there are two pieces.
pub const DIVIDED_FROM: usize = 2 * LEAST_PIECE;
/// How the names of the helper threads begin.
const COPIES: &str = "penny-copy";
/// Pieces for each thread, where threads take the next one when they have done one.
const PIECES_A_THREAD: u32 = 4;

/// The threads that run the loops of one rank.
pub struct ParallelFor {
    rank: Rank,
    threads: u32,
    runner: Runner,
    has_failed: AtomicBool,
}

enum Runner {
    Function(ParallelFunction),
    OpenMp(OpenMp),
    Pool(Pool),
}

impl ParallelFor {
    /// Chooses who runs the pieces, with `threads` threads in all.
    pub fn new(rank: Rank, threads: u32, function: Option<ParallelFunction>) -> ParallelFor {
        let runner = match function {
            Some(function) => Runner::Function(function),
            None => {
                openmp::find().map_or_else(|| Runner::Pool(Pool::new(COPIES, threads - 1)), Runner::OpenMp)
            }
        };
        let made = ParallelFor { rank, threads, runner, has_failed: AtomicBool::new(false) };
        log::info(rank, format_args!("large copies are divided over {threads} threads by {}", made.runner()));
        made
    }

    /// The same with helper threads, whatever the process has loaded.
    #[cfg(any(test, feature = "internals"))]
    pub fn with_helpers(threads: u32) -> ParallelFor {
        let runner = Runner::Pool(Pool::new(COPIES, threads - 1));
        ParallelFor { rank: 0, threads, runner, has_failed: AtomicBool::new(false) }
    }

    /// Returns the name of who runs the pieces.
    pub fn runner(&self) -> &'static str {
        match self.runner {
            Runner::Function(_) => "parallelFor of pennyConfig_t",
            Runner::OpenMp(_) => "the OpenMP runtime of the program",
            Runner::Pool(_) => "helper threads",
        }
    }

    /// Returns the number of pieces into which `bytes` bytes are divided.
    pub fn pieces(&self, bytes: usize) -> u32 {
        let most = match self.runner {
            Runner::Function(_) => self.threads,
            Runner::OpenMp(_) | Runner::Pool(_) => self.threads.saturating_mul(PIECES_A_THREAD),
        };
        (bytes / LEAST_PIECE).clamp(1, most as usize) as u32
    }

    /// Runs `piece` once for each of `0..pieces`, in any order and any thread. Fails if the program's function does not do so; then
    /// some pieces may be missing.
    pub fn run(&self, pieces: u32, piece: LentBody<'_>) -> Result<()> {
        let next = AtomicU32::new(0);
        let take = |_| {
            // BOUND: the number of pieces.
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < pieces) {
                piece(index);
            }
        };
        match &self.runner {
            _ if pieces == 1 => piece(0),
            Runner::Function(function) => {
                let ended = by_function::run(function, self.rank, pieces, piece);
                return ended.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed));
            }
            Runner::OpenMp(runtime) => {
                Lent::during(&take, |lent| runtime.region(self.threads.min(pieces), &|| lent.call(0)));
            }
            Runner::Pool(pool) => pool.during(&take, || take(0)),
        }
        Ok(())
    }

    /// Tells whether the program's function has not done what it has to: then data are missing that other ranks wait for.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Ends the helper threads. A loop that is run later is run by its caller alone.
    pub fn end(&self) {
        if let Runner::Pool(pool) = &self.runner {
            pool.end();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
