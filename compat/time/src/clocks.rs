//! Functions that tell the time.

use std::ffi::{c_int, c_void};

use crate::callers::follows;
use crate::entry::entrance;
use crate::next::{Next, next};
use crate::source::{base_ns, look_ps};

static CLOCK_GETTIME: Next = Next::of(c"clock_gettime");
static GETTIMEOFDAY: Next = Next::of(c"gettimeofday");
static TIME: Next = Next::of(c"time");
static TIMESPEC_GET: Next = Next::of(c"timespec_get");
static STEADY_NOW: Next = Next::of(c"_ZNSt6chrono3_V212steady_clock3nowEv");
static SYSTEM_NOW: Next = Next::of(c"_ZNSt6chrono3_V212system_clock3nowEv");
static MPI_WTIME: Next = Next::of(c"MPI_Wtime");

/// `timespec_get`: nanoseconds since 1970.
const TIME_UTC: c_int = 1;

entrance! {
    /// Tells the time of a clock.
    fn clock_gettime = "clock_gettime" (libc::clockid_t, *mut libc::timespec) -> c_int, "rdx", "x2", tell_clock;
    /// Tells the time of day.
    fn gettimeofday = "gettimeofday" (*mut libc::timeval, *mut c_void) -> c_int, "rdx", "x2", tell_day;
    /// Tells the time of day in seconds.
    fn time = "time" (*mut libc::time_t) -> libc::time_t, "rsi", "x1", tell_seconds;
    /// Tells the time of day, as C11 has it.
    fn timespec_get = "timespec_get" (*mut libc::timespec, c_int) -> c_int, "rdx", "x2", tell_timespec;
    /// `std::chrono::steady_clock::now()`: the library of C++ asks libc for the program.
    fn steady_clock_now = "_ZNSt6chrono3_V212steady_clock3nowEv" () -> i64, "rdi", "x0", tell_steady;
    /// `std::chrono::system_clock::now()`.
    fn system_clock_now = "_ZNSt6chrono3_V212system_clock3nowEv" () -> i64, "rdi", "x0", tell_system;
    /// MPI's clock, in seconds.
    fn mpi_wtime = "MPI_Wtime" () -> f64, "rdi", "x0", tell_mpi;
}

/// Returns what a clock of this machine tells, in nanoseconds.
pub fn real_ns(clock: libc::clockid_t) -> i64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    next!(CLOCK_GETTIME, fn(libc::clockid_t, *mut libc::timespec) -> c_int, clock, &mut at);
    at.tv_sec * 1_000_000_000 + at.tv_nsec
}

/// Returns what a clock tells the program, in nanoseconds.
fn told_ns(clock: libc::clockid_t) -> i64 {
    base_ns(clock) + (look_ps() / 1000) as i64
}

fn split(ns: i64) -> libc::timespec {
    libc::timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) }
}

/// Tells whether a clock tells time, and not what a process has computed.
fn is_of_time(clock: libc::clockid_t) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_TAI
            | libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_BOOTTIME
    )
}

unsafe extern "C" fn tell_clock(clock: libc::clockid_t, at: *mut libc::timespec, caller: usize) -> c_int {
    if at.is_null() || !is_of_time(clock) || !follows(caller) {
        return next!(CLOCK_GETTIME, fn(libc::clockid_t, *mut libc::timespec) -> c_int, clock, at);
    }
    // SAFETY: the program promises libc that it is a place for a time.
    unsafe { at.write(split(told_ns(clock))) };
    0
}

unsafe extern "C" fn tell_day(at: *mut libc::timeval, zone: *mut c_void, caller: usize) -> c_int {
    if at.is_null() || !follows(caller) {
        return next!(GETTIMEOFDAY, fn(*mut libc::timeval, *mut c_void) -> c_int, at, zone);
    }
    let time = split(told_ns(libc::CLOCK_REALTIME));
    // SAFETY: the program promises libc that it is a place for a time.
    unsafe { at.write(libc::timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1000 }) };
    0
}

unsafe extern "C" fn tell_seconds(at: *mut libc::time_t, caller: usize) -> libc::time_t {
    if !follows(caller) {
        return next!(TIME, fn(*mut libc::time_t) -> libc::time_t, at);
    }
    let seconds = split(told_ns(libc::CLOCK_REALTIME)).tv_sec;
    if !at.is_null() {
        // SAFETY: the program promises libc that it is a place for a time.
        unsafe { at.write(seconds) };
    }
    seconds
}

unsafe extern "C" fn tell_timespec(at: *mut libc::timespec, base: c_int, caller: usize) -> c_int {
    if at.is_null() || base != TIME_UTC || !follows(caller) {
        return next!(TIMESPEC_GET, fn(*mut libc::timespec, c_int) -> c_int, at, base);
    }
    // SAFETY: the program promises libc that it is a place for a time.
    unsafe { at.write(split(told_ns(libc::CLOCK_REALTIME))) };
    base
}

extern "C" fn tell_steady(caller: usize) -> i64 {
    cpp(&STEADY_NOW, libc::CLOCK_MONOTONIC, caller)
}

extern "C" fn tell_system(caller: usize) -> i64 {
    cpp(&SYSTEM_NOW, libc::CLOCK_REALTIME, caller)
}

fn cpp(now: &Next, clock: libc::clockid_t, caller: usize) -> i64 {
    if follows(caller) {
        told_ns(clock)
    } else if now.address().is_null() {
        real_ns(clock)
    } else {
        next!(now, fn() -> i64,)
    }
}

extern "C" fn tell_mpi(caller: usize) -> f64 {
    if follows(caller) {
        told_ns(libc::CLOCK_MONOTONIC) as f64 * 1e-9
    } else if MPI_WTIME.address().is_null() {
        real_ns(libc::CLOCK_MONOTONIC) as f64 * 1e-9
    } else {
        next!(MPI_WTIME, fn() -> f64,)
    }
}
