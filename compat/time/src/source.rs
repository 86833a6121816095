//! The machine's time as Penny tells it, and what the program has slept.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::callers;
use crate::clocks::real_ns;
use crate::entry::entrance;

/// Takes the least time that the program knows, tells the program's time, both in picoseconds, and whether work is unfinished that will
/// move it.
type Tell = unsafe extern "C" fn(at_least_ps: u64, is_busy: *mut c_int) -> u64;

static TELL: OnceLock<Tell> = OnceLock::new();
/// The program's time in picoseconds where no rank has told one, by its sleeps and its looks at the clock.
static SLEPT_PS: AtomicU64 = AtomicU64::new(0);

/// Looks at the clock in a row that cost no time.
const FREE_LOOKS: u32 = 16;
/// The cost of the next look, in picoseconds; each costs twice as much as the one before, up to [`DEAR_LOOK_PS`].
const LOOK_PS: u64 = 50_000;
const DEAR_LOOK_PS: u64 = 1_000_000;

thread_local! {
    /// The time that the thread was told last, and how often in a row.
    static LAST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

entrance! {
    /// Called by Penny when a rank of this process joins on a declared machine: the program's clock follows what it tells. Returns 1
    /// without effect if the caller is a part of the program, whose looks at the clock could not be told from Penny's.
    fn penny_time_follow = "penny_time_follow" (Tell) -> c_int, "rsi", "x1", follow;
}

extern "C" fn follow(tell: Tell, caller: usize) -> c_int {
    if callers::is_program(caller) {
        return 1;
    }
    TELL.get_or_init(|| tell);
    0
}

fn tell(at_least_ps: u64) -> (u64, bool) {
    let Some(tell) = TELL.get() else { return (at_least_ps, false) };
    let mut is_busy = 0;
    // SAFETY: the function that Penny gave takes these from any thread.
    let ps = unsafe { tell(at_least_ps, &mut is_busy) };
    (ps, is_busy != 0)
}

/// Returns the program's time in picoseconds since it began, for a program that looks at it.
///
/// A loop that waits for a time must end. So a thread that looks again and again, while nothing of Penny's is under way, sees the clock
/// move: after 16 looks each costs 50 ns, then twice as much, up to 1 us.
pub fn look_ps() -> u64 {
    let (ps, is_busy) = tell(SLEPT_PS.load(Ordering::Acquire));
    let (last, looks) = LAST.get();
    let looks = if ps > last || is_busy { 0 } else { looks.saturating_add(1) };
    let mut now = ps;
    if let Some(more) = looks.checked_sub(FREE_LOOKS) {
        now = ps.saturating_add((LOOK_PS << more.min(8)).min(DEAR_LOOK_PS));
        now = advance_to(now);
    }
    LAST.set((now, looks));
    now
}

/// Returns the program's time in picoseconds since it began.
pub fn now_ps() -> u64 {
    tell(SLEPT_PS.load(Ordering::Acquire)).0
}

/// Moves the program's time on to a time, if that is later; returns it.
pub fn advance_to(ps: u64) -> u64 {
    let slept_ps = SLEPT_PS.fetch_max(ps, Ordering::AcqRel).max(ps);
    tell(slept_ps).0
}

/// Returns by how many nanoseconds this machine's clocks are ahead of the program's.
pub fn ahead_ns() -> i64 {
    let since_ns = real_ns(libc::CLOCK_MONOTONIC) - base_ns(libc::CLOCK_MONOTONIC);
    since_ns - (now_ps() / 1000) as i64
}

/// Returns what a clock of this machine told when the program began.
pub fn base_ns(clock: libc::clockid_t) -> i64 {
    static BASES: OnceLock<[i64; 4]> = OnceLock::new();
    const CLOCKS: [libc::clockid_t; 4] =
        [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_BOOTTIME];
    let bases = BASES.get_or_init(|| CLOCKS.map(real_ns));
    let at = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => 0,
        libc::CLOCK_MONOTONIC_RAW => 2,
        libc::CLOCK_BOOTTIME => 3,
        _ => 1,
    };
    bases[at]
}
