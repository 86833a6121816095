//! Stands before libc in a program (LD_PRELOAD), and tells it the time of the declared machine that its ranks stand on.
//!
//! ```text
//!     program ------------- clock_gettime --> [this library] --> base + machine's time       stands while the program computes
//!     libpenny, MPI, ... -- clock_gettime --> [this library] --> libc: this machine's time   so that time-outs hold
//!
//!     time of the program = time at which it was started + what its ranks have waited for on the machine + what it has slept
//! ```
//!
//! A call is answered by who makes it: the program itself and Python's library read the machine's time, every other library this
//! machine's (`callers.rs`). `penny run --virtual-time` sets the variables; Penny tells the machine's time when a rank joins
//! (`penny_time_follow`).
//!
//! | module | contents |
//! |---|---|
//! | `callers` | which callers read the machine's time |
//! | `source` | the machine's time, and what the program has slept |
//! | `clocks` | functions that tell the time |
//! | `sleeps` | functions that sleep, or wait until a time |
//! | `waits` | collectives of MPI, which wait for other processes |
//! | `next` | the functions of libc behind these |

mod callers;
mod clocks;
mod entry;
mod next;
mod sleeps;
mod source;
mod waits;
