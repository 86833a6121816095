//! Functions that sleep, or wait until a time.
//!
//! They take this machine's time, as they would without this library. A sleep, and a wait that ended because its time was over, move the
//! program's clock by the time that the program asked for. A time until which the program waits is one of its own clock, and becomes
//! one of this machine's.

use std::ffi::{c_int, c_uint, c_void};

use crate::callers::follows;
use crate::entry::entrance;
use crate::next::{Next, next};
use crate::source::{advance_to, ahead_ns, base_ns, now_ps};

static NANOSLEEP: Next = Next::of(c"nanosleep");
static CLOCK_NANOSLEEP: Next = Next::of(c"clock_nanosleep");
static USLEEP: Next = Next::of(c"usleep");
static SLEEP: Next = Next::of(c"sleep");
static POLL: Next = Next::of(c"poll");
static SELECT: Next = Next::of(c"select");
static EPOLL_WAIT: Next = Next::of(c"epoll_wait");
static SEM_TIMEDWAIT: Next = Next::of(c"sem_timedwait");
static SEM_CLOCKWAIT: Next = Next::of(c"sem_clockwait");
static COND_TIMEDWAIT: Next = Next::versioned(c"pthread_cond_timedwait", c"GLIBC_2.3.2");
static COND_CLOCKWAIT: Next = Next::of(c"pthread_cond_clockwait");
static MUTEX_TIMEDLOCK: Next = Next::of(c"pthread_mutex_timedlock");
static MUTEX_CLOCKLOCK: Next = Next::of(c"pthread_mutex_clocklock");

type Time = *const libc::timespec;

entrance! {
    /// Sleeps for a time.
    fn nanosleep = "nanosleep" (Time, *mut libc::timespec) -> c_int, "rdx", "x2", sleep_nanoseconds;
    /// Sleeps for a time, or until a time.
    fn clock_nanosleep = "clock_nanosleep" (libc::clockid_t, c_int, Time, *mut libc::timespec) -> c_int, "r8", "x4", sleep_clock;
    /// Sleeps for microseconds.
    fn usleep = "usleep" (libc::useconds_t) -> c_int, "rsi", "x1", sleep_microseconds;
    /// Sleeps for seconds.
    fn sleep = "sleep" (c_uint) -> c_uint, "rsi", "x1", sleep_seconds;
    /// Waits for descriptors, with a time-out in milliseconds.
    fn poll = "poll" (*mut c_void, libc::nfds_t, c_int) -> c_int, "rcx", "x3", poll_descriptors;
    /// Waits for descriptors, for a time.
    fn select = "select" (c_int, *mut c_void, *mut c_void, *mut c_void, *mut libc::timeval) -> c_int, "r9", "x5", select_descriptors;
    /// Waits for events, with a time-out in milliseconds.
    fn epoll_wait = "epoll_wait" (c_int, *mut c_void, c_int, c_int) -> c_int, "r8", "x4", epoll_descriptors;
    /// Waits for a semaphore until a time.
    fn sem_timedwait = "sem_timedwait" (*mut c_void, Time) -> c_int, "rdx", "x2", wait_semaphore;
    /// Waits for a semaphore until a time of a clock.
    fn sem_clockwait = "sem_clockwait" (*mut c_void, libc::clockid_t, Time) -> c_int, "rcx", "x3", wait_semaphore_clock;
    /// Waits for a condition until a time.
    fn pthread_cond_timedwait = "pthread_cond_timedwait" (*mut c_void, *mut c_void, Time) -> c_int, "rcx", "x3", wait_condition;
    /// Waits for a condition until a time of a clock.
    fn pthread_cond_clockwait = "pthread_cond_clockwait" (*mut c_void, *mut c_void, libc::clockid_t, Time) -> c_int, "r8", "x4", wait_condition_clock;
    /// Waits for a lock until a time.
    fn pthread_mutex_timedlock = "pthread_mutex_timedlock" (*mut c_void, Time) -> c_int, "rdx", "x2", wait_lock;
    /// Waits for a lock until a time of a clock.
    fn pthread_mutex_clocklock = "pthread_mutex_clocklock" (*mut c_void, libc::clockid_t, Time) -> c_int, "rcx", "x3", wait_lock_clock;
}

/// Runs a wait of the program that lasts at most `ns` nanoseconds; `is_over`: it lasted so long.
fn lasting<T: Copy>(ns: i64, wait: impl FnOnce() -> T, is_over: impl FnOnce(T) -> bool) -> T {
    let began_ps = now_ps();
    let result = wait();
    if ns > 0 && is_over(result) {
        advance_to(began_ps.saturating_add((ns as u64).saturating_mul(1000)));
    }
    result
}

fn ns_of(time: Time) -> i64 {
    // SAFETY: the program promises libc that it points to a time.
    let time = unsafe { &*time };
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Is this a time that libc takes?
fn is_valid(time: Time) -> bool {
    // SAFETY: where it is not NULL, the program promises libc that it points to a time.
    !time.is_null() && unsafe { (*time).tv_sec >= 0 && (0..1_000_000_000).contains(&(*time).tv_nsec) }
}

/// Runs a wait of the program until a time of its clock, with that time on this machine's. `clock`: which clock it is, of those that have
/// the same begin. A wait that ended by its time moves the program's clock there.
fn until(
    time: Time,
    caller: usize,
    timed_out: impl FnOnce(c_int) -> bool,
    wait: impl FnOnce(Time) -> c_int,
) -> c_int {
    if !is_valid(time) || !follows(caller) {
        return wait(time);
    }
    let asked_ns = ns_of(time);
    let ahead_ns = ahead_ns();
    let ns = asked_ns.saturating_add(ahead_ns).max(0);
    let here = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    let began_ps = now_ps();
    let result = wait(&here);
    if timed_out(result) {
        // By each clock the program has as far to go.
        let clock = if asked_ns > base_ns(libc::CLOCK_REALTIME) / 2 {
            libc::CLOCK_REALTIME
        } else {
            libc::CLOCK_MONOTONIC
        };
        let left_ns = asked_ns - base_ns(clock) - (began_ps / 1000) as i64;
        advance_to(began_ps.saturating_add((left_ns.max(0) as u64).saturating_mul(1000)));
    }
    result
}

/// Tells whether a wait that returns an error's number has ended by its time.
fn ends_by_time(result: c_int) -> bool {
    result == libc::ETIMEDOUT
}

/// Tells the same of a wait that returns -1 and sets errno.
fn fails_by_time(result: c_int) -> bool {
    result != 0 && errno() == libc::ETIMEDOUT
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

unsafe extern "C" fn sleep_nanoseconds(time: Time, left: *mut libc::timespec, caller: usize) -> c_int {
    let sleep = || next!(NANOSLEEP, fn(Time, *mut libc::timespec) -> c_int, time, left);
    if !is_valid(time) || !follows(caller) {
        return sleep();
    }
    lasting(ns_of(time), sleep, |result| result == 0)
}

unsafe extern "C" fn sleep_clock(
    clock: libc::clockid_t,
    flags: c_int,
    time: Time,
    left: *mut libc::timespec,
    caller: usize,
) -> c_int {
    let sleep = |time: Time| {
        next!(
            CLOCK_NANOSLEEP,
            fn(libc::clockid_t, c_int, Time, *mut libc::timespec) -> c_int,
            clock,
            flags,
            time,
            left
        )
    };
    if flags & libc::TIMER_ABSTIME != 0 {
        return until(time, caller, |result| result == 0, sleep);
    }
    if !is_valid(time) || !follows(caller) {
        return sleep(time);
    }
    lasting(ns_of(time), || sleep(time), |result| result == 0)
}

extern "C" fn sleep_microseconds(us: libc::useconds_t, caller: usize) -> c_int {
    let sleep = || next!(USLEEP, fn(libc::useconds_t) -> c_int, us);
    if follows(caller) { lasting(i64::from(us) * 1000, sleep, |result| result == 0) } else { sleep() }
}

extern "C" fn sleep_seconds(seconds: c_uint, caller: usize) -> c_uint {
    let sleep = || next!(SLEEP, fn(c_uint) -> c_uint, seconds);
    if follows(caller) {
        lasting(i64::from(seconds) * 1_000_000_000, sleep, |left| left == 0)
    } else {
        sleep()
    }
}

extern "C" fn poll_descriptors(all: *mut c_void, number: libc::nfds_t, ms: c_int, caller: usize) -> c_int {
    let poll = || next!(POLL, fn(*mut c_void, libc::nfds_t, c_int) -> c_int, all, number, ms);
    if follows(caller) { lasting(i64::from(ms) * 1_000_000, poll, |result| result == 0) } else { poll() }
}

unsafe extern "C" fn select_descriptors(
    number: c_int,
    read: *mut c_void,
    write: *mut c_void,
    except: *mut c_void,
    time: *mut libc::timeval,
    caller: usize,
) -> c_int {
    // SAFETY: where it is not NULL, the program promises libc that it points to a time. Read before libc writes what is left.
    let ns = (!time.is_null()).then(|| unsafe { (*time).tv_sec * 1_000_000_000 + (*time).tv_usec * 1000 });
    let select = || {
        next!(
            SELECT,
            fn(c_int, *mut c_void, *mut c_void, *mut c_void, *mut libc::timeval) -> c_int,
            number,
            read,
            write,
            except,
            time
        )
    };
    match ns.filter(|_| follows(caller)) {
        Some(ns) => lasting(ns, select, |result| result == 0),
        None => select(),
    }
}

extern "C" fn epoll_descriptors(
    epoll: c_int,
    events: *mut c_void,
    most: c_int,
    ms: c_int,
    caller: usize,
) -> c_int {
    let wait = || next!(EPOLL_WAIT, fn(c_int, *mut c_void, c_int, c_int) -> c_int, epoll, events, most, ms);
    if follows(caller) { lasting(i64::from(ms) * 1_000_000, wait, |result| result == 0) } else { wait() }
}

extern "C" fn wait_semaphore(semaphore: *mut c_void, time: Time, caller: usize) -> c_int {
    until(time, caller, fails_by_time, |time| {
        next!(SEM_TIMEDWAIT, fn(*mut c_void, Time) -> c_int, semaphore, time)
    })
}

extern "C" fn wait_semaphore_clock(
    semaphore: *mut c_void,
    clock: libc::clockid_t,
    time: Time,
    caller: usize,
) -> c_int {
    until(time, caller, fails_by_time, |time| {
        next!(SEM_CLOCKWAIT, fn(*mut c_void, libc::clockid_t, Time) -> c_int, semaphore, clock, time)
    })
}

extern "C" fn wait_condition(condition: *mut c_void, lock: *mut c_void, time: Time, caller: usize) -> c_int {
    until(time, caller, ends_by_time, |time| {
        next!(COND_TIMEDWAIT, fn(*mut c_void, *mut c_void, Time) -> c_int, condition, lock, time)
    })
}

extern "C" fn wait_condition_clock(
    condition: *mut c_void,
    lock: *mut c_void,
    clock: libc::clockid_t,
    time: Time,
    caller: usize,
) -> c_int {
    until(time, caller, ends_by_time, |time| {
        next!(
            COND_CLOCKWAIT,
            fn(*mut c_void, *mut c_void, libc::clockid_t, Time) -> c_int,
            condition,
            lock,
            clock,
            time
        )
    })
}

extern "C" fn wait_lock(lock: *mut c_void, time: Time, caller: usize) -> c_int {
    until(time, caller, ends_by_time, |time| {
        next!(MUTEX_TIMEDLOCK, fn(*mut c_void, Time) -> c_int, lock, time)
    })
}

extern "C" fn wait_lock_clock(lock: *mut c_void, clock: libc::clockid_t, time: Time, caller: usize) -> c_int {
    until(time, caller, ends_by_time, |time| {
        next!(MUTEX_CLOCKLOCK, fn(*mut c_void, libc::clockid_t, Time) -> c_int, lock, clock, time)
    })
}
