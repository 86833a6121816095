//! Ranks that are threads of this process.

use super::communicator::Communicator;
use crate::error::{Code, Error, Result};

/// Runs `body` on `ranks` threads, each with its own rank of one communicator, and returns what they return, by rank.
///
/// If a rank fails, the first error by rank is returned, before those by which others are told of it. If a rank panics, its communicator is aborted, so that the
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
        let ended = ended.into_iter().map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let ended: Vec<Result<T>> = ended.collect();
        // What a rank fails of is the others' remote error.
        let is_cause = |error: &&Error| error.code != Code::RemoteError;
        let cause = ended.iter().filter_map(|one| one.as_ref().err()).find(is_cause).cloned();
        cause.map_or_else(|| ended.into_iter().collect(), Err)
    })
}
