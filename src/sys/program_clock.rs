//! The clock that the program reads, where a library that stands before libc (`penny run --virtual-time`) lets it follow a machine's.

use std::ffi::c_int;
use std::sync::OnceLock;

/// Takes the program's time in picoseconds, which is no less than `at_least_ps`, and tells whether work is unfinished that will move it, or was queued by
/// the thread since it last asked.
pub type Source = fn(at_least_ps: u64) -> (u64, bool);

/// The function of the library that stands before libc. It returns 0 if the program's clock follows `tell` from now on.
type Follow = unsafe extern "C" fn(tell: unsafe extern "C" fn(u64, *mut c_int) -> u64) -> c_int;

/// The function of that library which takes what is to be told of the program's waits for other processes.
type TellWaits = extern "C" fn(wait: extern "C" fn(c_int));

/// Is told that the calling thread begins to wait for other processes in a library that this one does not know, or has done so.
type Wait = fn(begins: bool);

/// What the program's clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramClock {
    /// It tells this machine's time.
    Real,
    /// It follows the source.
    Follows,
    /// It cannot follow, because this library is a part of the program, whose calls and its own cannot be told apart.
    Inseparable,
}

/// What is followed.
static SOURCE: OnceLock<Source> = OnceLock::new();
static WAIT: OnceLock<Wait> = OnceLock::new();

/// Lets the program's clock follow a source from now on, if a library that can do it is there; it tells `wait` of the program's waits.
pub fn follow(source: Source, wait: Wait) -> ProgramClock {
    // SAFETY: the name is a C string, and nothing else is asked of the loader.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"penny_time_follow".as_ptr()) };
    if found.is_null() {
        return ProgramClock::Real;
    }
    SOURCE.get_or_init(|| source);
    // SAFETY: only that library has the name, and it has this function under it.
    let follow = unsafe { std::mem::transmute::<*mut libc::c_void, Follow>(found) };
    // SAFETY: `tell` may be called by any thread at any time.
    if unsafe { follow(tell) } != 0 {
        return ProgramClock::Inseparable;
    }
    WAIT.get_or_init(|| wait);
    // SAFETY: as above.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"penny_time_tell_waits".as_ptr()) };
    if !found.is_null() {
        // SAFETY: as above.
        let tell_waits = unsafe { std::mem::transmute::<*mut libc::c_void, TellWaits>(found) };
        tell_waits(tell_wait);
    }
    ProgramClock::Follows
}

/// Tells of a wait for other processes.
extern "C" fn tell_wait(begins: c_int) {
    if let Some(wait) = WAIT.get() {
        wait(begins != 0);
    }
}

/// Tells the program's time to the library that stands before libc.
///
/// # Safety
/// `is_busy` points to an int that nothing else uses.
unsafe extern "C" fn tell(at_least_ps: u64, is_busy: *mut c_int) -> u64 {
    let (at_ps, busy) = SOURCE.get().map_or((at_least_ps, false), |source| source(at_least_ps));
    // SAFETY: as the caller promises.
    unsafe { *is_busy = c_int::from(busy) };
    at_ps
}
