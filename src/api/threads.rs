//! Ranks that are threads of this process.

use super::communicator::Communicator;
use crate::error::Result;

/// Runs `body` on `ranks` threads, each with its own rank of one communicator, and returns what they return, by rank.
///
/// If a rank fails, the first error by rank is returned. If a rank panics, its communicator is aborted, so that the
/// others' calls end; then this function panics too.
///
/// ```
/// use penny::Op;
///
/// let sums = penny::on_threads(3, |comm| {
///     let mut sum = [0u32];
///     comm.all_reduce(&[comm.rank() + 1], &mut sum, Op::Sum)?;
///     Ok(sum[0])
/// })?;
/// assert_eq!(sums, [6, 6, 6]);
/// # Ok::<(), penny::Error>(())
/// ```
pub fn on_threads<T: Send>(ranks: u32, body: impl Fn(Communicator) -> Result<T> + Sync) -> Result<Vec<T>> {
    let comms = Communicator::init_all(ranks)?;
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = comms.into_iter().map(|comm| scope.spawn(move || body(comm))).collect();
        // All have ended before the first panic goes on.
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.into_iter().map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
