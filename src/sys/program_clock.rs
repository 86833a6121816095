//! The clock that the program reads, where a library that stands before libc (`penny run --virtual-time`) lets it follow a machine's.

use std::ffi::c_int;
use std::sync::OnceLock;

/// Takes the program's time in picoseconds, which is no less than `at_least_ps`, and tells whether work is unfinished that will move it.
pub type Source = fn(at_least_ps: u64) -> (u64, bool);

/// The function of the library that stands before libc. It returns 0 if the program's clock follows `tell` from now on.
type Follow = unsafe extern "C" fn(tell: unsafe extern "C" fn(u64, *mut c_int) -> u64) -> c_int;

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

/// Lets the program's clock follow a source from now on, if a library that can do it is there.
pub fn follow(source: Source) -> ProgramClock {
    // SAFETY: the name is a C string, and nothing else is asked of the loader.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"penny_time_follow".as_ptr()) };
    if found.is_null() {
        return ProgramClock::Real;
    }
    SOURCE.get_or_init(|| source);
    // SAFETY: only that library has the name, and it has this function under it.
    let follow = unsafe { std::mem::transmute::<*mut libc::c_void, Follow>(found) };
    // SAFETY: `tell` may be called by any thread at any time.
    match unsafe { follow(tell) } {
        0 => ProgramClock::Follows,
        _ => ProgramClock::Inseparable,
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
