//! The end of a program whose last thread has ended.
//!
//! A process ends with its last thread. A program whose main thread leaves by `pthread_exit` counts on that; a sleeping thread of the
//! library would keep such a process alive, with nobody left to whom a signal could be delivered. So one of them looks now and then
//! whether any thread of the program is left, and ends the process as its last thread would have.

use super::process;
use crate::sync::prim::{AtomicBool, Ordering};
use std::fs;
use std::io;
use std::thread::{self, Builder};
use std::time::Duration;

/// The time between two looks, each of which reads one line.
const PERIOD: Duration = Duration::from_secs(1);

/// The names of the library's threads begin so.
const OWN: &str = "penny-";

/// Sleeps for as long as the program has a thread of its own; then ends the process.
pub fn outlive() {
    // BOUND: the process ends.
    loop {
        thread::park_timeout(PERIOD);
        if are_over() {
            end();
        }
    }
}

/// Tells whether the main thread has ended and only threads of the library are left. False where /proc does not say.
fn are_over() -> bool {
    main_has_ended() && only_own_threads_are_left().unwrap_or(false)
}

fn main_has_ended() -> bool {
    let state = fs::read_to_string(format!("/proc/self/task/{}/stat", process::pid()));
    // Behind the name, which may hold anything, in parentheses.
    state.is_ok_and(|line| line.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}

fn only_own_threads_are_left() -> io::Result<bool> {
    let main = process::pid().to_string();
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        let name = fs::read_to_string(thread.path().join("comm"));
        if thread.file_name() != main.as_str() && name.is_ok_and(|name| !name.starts_with(OWN)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Ends the process as the C library does behind the last thread.
fn end() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    if ENDS.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: no thread of the program is left that could be in the midst of anything.
    let exit = || unsafe { libc::exit(0) };
    // What the program has registered for its end finds a stack of the usual size.
    if Builder::new().name(format!("{OWN}exit")).spawn(exit).is_err() {
        exit();
    }
}
