//! Collectives of MPI, in which a process waits for others.
//!
//! ```text
//!     program -- MPI_Allreduce --> [this library]   Penny: the thread waits   MPI_Allreduce   Penny: it acts   MPI_Barrier --> program
//! ```
//!
//! While a thread waits there its process does not hold the machine's clock: what it waits for may need the machine to go on. No process
//! returns before all act again, or the machine could go on without one that is still on its way back; for that is the barrier. A
//! collective of MPI may synchronize its processes, so a program that is right allows it.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use crate::next::{Next, next};

/// Tells Penny that the calling thread waits for other processes (1), or acts again (0).
type Wait = extern "C" fn(begins: c_int);

static WAIT: OnceLock<Wait> = OnceLock::new();
static BARRIER: Next = Next::of(c"MPI_Barrier");

thread_local! {
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// Called by Penny when a rank of this process joins on a declared machine.
#[unsafe(no_mangle)]
extern "C" fn penny_time_tell_waits(wait: Wait) {
    WAIT.get_or_init(|| wait);
}

/// Makes a call of MPI, of which `comm` is the communicator.
fn make(call: impl FnOnce() -> c_int, comm: Option<usize>) -> c_int {
    let Some(wait) = WAIT.get().filter(|_| !IS_WAITING.replace(true)) else { return call() };
    wait(1);
    let ended = call();
    wait(0);
    if let (0, Some(comm)) = (ended, comm) {
        next!(BARRIER, fn(usize) -> c_int, comm);
    }
    IS_WAITING.set(false);
    ended
}

/// Declares collectives as this library has them, each with the number of its argument that is the communicator. All arguments are words: pointers, numbers and handles, of which MPI libraries have
/// both kinds. Those beyond the function's own are whatever is in their place, and nobody reads them.
macro_rules! collectives {
    ($($name:ident = $symbol:literal, $comm:literal;)*) => {$(
        #[doc = concat!("Stands before `", $symbol, "`.")]
        ///
        /// # Safety
        /// As that of MPI.
        #[unsafe(export_name = $symbol)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
        ) -> c_int {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without a null character"),
            };
            static NEXT: Next = Next::of(NAME);
            type Word = usize;
            let call = || {
                next!(NEXT, fn(Word, Word, Word, Word, Word, Word, Word, Word) -> c_int, a, b, c, d, e, f, g, h)
            };
            make(call, Some([a, b, c, d, e, f, g, h][$comm]))
        }
    )*};
}

collectives! {
    barrier = "MPI_Barrier", 0;
    broadcast = "MPI_Bcast", 4;
    all_reduce = "MPI_Allreduce", 5;
    reduce = "MPI_Reduce", 6;
    all_gather = "MPI_Allgather", 6;
    gather = "MPI_Gather", 7;
    scatter = "MPI_Scatter", 7;
    all_to_all = "MPI_Alltoall", 6;
}

/// The end of MPI, after which there is no communicator.
///
/// # Safety
/// As that of MPI.
#[unsafe(export_name = "MPI_Finalize")]
pub unsafe extern "C" fn finalize() -> c_int {
    static NEXT: Next = Next::of(c"MPI_Finalize");
    make(|| next!(NEXT, fn() -> c_int,), None)
}
