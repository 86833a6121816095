//! Settings of a communicator, and the ways to make one.

use super::communicator::Communicator;
use super::names::{self, in_rust};
use crate::bootstrap::UniqueId;
use crate::comm::{self, Config};
use crate::error::Result;
use crate::types::Rank;
use std::time::Duration;

/// Settings of a communicator that is about to be made.
///
/// A setting that is left out comes from the environment (the `PENNY_` variables), or else from Penny's default.
///
/// ```
/// use std::time::Duration;
///
/// let id = penny::UniqueId::new()?;
/// let comm = penny::Communicator::builder()
///     .timeout(Duration::from_secs(30))
///     .algorithms("allreduce:ring")
///     .threads(2)
///     .join(&id, 0, 1)?;
/// assert_eq!((comm.rank(), comm.size()), (0, 1));
/// # Ok::<(), penny::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CommunicatorBuilder {
    config: Config,
}

impl CommunicatorBuilder {
    /// Sets the time after which a waiting call gives up with [`Code::Timeout`](crate::Code::Timeout), to the
    /// millisecond. Zero: never.
    pub fn timeout(mut self, timeout: Duration) -> CommunicatorBuilder {
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.config.timeout_ms = Some(if timeout.is_zero() { 0 } else { ms.max(1) });
        self
    }

    /// Sets a name for error sentences.
    pub fn name(mut self, name: impl Into<String>) -> CommunicatorBuilder {
        self.config.name = name.into();
        self
    }

    /// Chooses the algorithms, as `PENNY_ALGO` does. The same on all ranks.
    pub fn algorithms(mut self, algorithms: impl Into<String>) -> CommunicatorBuilder {
        self.config.algo = Some(algorithms.into());
        self
    }

    /// Declares the machine whose time calls take, as `PENNY_FABRIC` does. The same on all ranks.
    pub fn fabric(mut self, machine: impl Into<String>) -> CommunicatorBuilder {
        self.config.fabric = Some(machine.into());
        self
    }

    /// Chooses how the machine's time is taken, as `PENNY_FABRIC_CLOCK` does.
    pub fn fabric_clock(mut self, clock: impl Into<String>) -> CommunicatorBuilder {
        self.config.fabric_clock = Some(clock.into());
        self
    }

    /// Sets the number of threads of this rank that share each large copy or fold, as `PENNY_THREADS` does: at least 1, which is
    /// the calling thread alone. It may differ from rank to rank.
    pub fn threads(mut self, threads: u32) -> CommunicatorBuilder {
        self.config.threads = Some(threads);
        self
    }

    /// Joins the communicator of all processes of this launch; see [`Communicator::from_env`].
    pub fn from_env(self) -> Result<Communicator> {
        in_rust(comm::init_from_env(&self.config)).and_then(Communicator::own)
    }

    /// Joins the communicator that `id` names as one of `size` ranks. Blocks until all of them have come.
    pub fn join(self, id: &UniqueId, rank: Rank, size: u32) -> Result<Communicator> {
        let ranks = names::ranks("size", size)?;
        let rank = names::rank("rank", rank, size)?;
        in_rust(comm::init_rank_now(ranks, id, rank, &self.config)).and_then(Communicator::own)
    }
}
