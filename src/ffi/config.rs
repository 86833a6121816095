//! The settings of a communicator, as programs of any age pass them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::guard::{OrNull, Parameter};
use super::types::{PENNY_CONFIG_UNDEF_INT, PENNY_VERSION_CODE};
use crate::comm::{self, Config, ParallelFunction};
use crate::error::{Error, Result};

/// The body of a loop, as a pennyParallelFor_t gets it.
pub type pennyLoopBody_t = Option<unsafe extern "C" fn(bodyArg: *mut c_void, i: c_int)>;

/// A function of the program that runs a loop in its threads: it calls body(bodyArg, i) once for each i in 0..n, in any order and
/// on any threads, and returns when all these calls have returned. arg is parallelForArg of the pennyConfig_t. It must not call
/// Penny, and no exception may leave it.
pub type pennyParallelFor_t = Option<
    unsafe extern "C-unwind" fn(arg: *mut c_void, n: c_int, body: pennyLoopBody_t, bodyArg: *mut c_void),
>;

/// Settings of a communicator. Begin with `pennyConfig_t config = PENNY_CONFIG_INITIALIZER;` and change single fields.
/// Fields left unchanged take their values from the environment (the PENNY_ variables), then from Penny's defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyConfig_t {
    /// Set by the initializer: sizeof(pennyConfig_t) where the program was compiled.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer: PENNY_VERSION_CODE where the program was compiled.
    pub version: c_uint,
    /// 1, the default: the functions that make a communicator return when all its ranks have joined. 0: they return
    /// pennyInProgress at once, and the communicator takes calls when pennyCommGetAsyncError tells pennySuccess. Communicators
    /// made from this one are made in the same way. Collective calls wait in either case; pass a stream to those that shall not.
    pub blocking: c_int,
    /// Milliseconds after which a waiting call gives up with pennyTimeout; 0: never. Default: PENNY_TIMEOUT, else 10 minutes.
    pub timeoutMs: c_int,
    /// A name for error sentences, copied by the call; NULL: none.
    pub commName: *const c_char,
    /// Algorithms, as in PENNY_ALGO, copied by the call; NULL: PENNY_ALGO. The same on all ranks.
    pub algo: *const c_char,
    /// The simulated cluster (declared machine), as in PENNY_FABRIC, copied by the call; NULL: PENNY_FABRIC. The same on
    /// all ranks.
    pub fabric: *const c_char,
    /// Its clock, as in PENNY_FABRIC_CLOCK, copied by the call; NULL: PENNY_FABRIC_CLOCK.
    pub fabricClock: *const c_char,
    /// Threads of this rank that share each large copy or fold, the calling thread among them; 1: it is alone. Default:
    /// PENNY_THREADS, else the cores that this rank may use, divided by the ranks that may use one of them too. It may differ
    /// from rank to rank.
    pub threads: c_int,
    /// The program's function that runs loops of at most that many indices on its threads. NULL: an OpenMP runtime that the
    /// program has loaded does, else helper threads of Penny. It may be called on any thread that runs calls of the
    /// communicator or of one made from it.
    pub parallelFor: pennyParallelFor_t,
    /// Passed to parallelFor unchanged.
    pub parallelForArg: *mut c_void,
}

/// The magic of a pennyConfig_t: "PENY".
pub const PENNY_CONFIG_MAGIC: c_uint = 0x5045_4e59;

/// The first version that had a pennyConfig_t.
const FIRST_VERSION: c_uint = 100;

impl pennyConfig_t {
    /// The value of C's `PENNY_CONFIG_INITIALIZER`.
    pub const INITIALIZER: pennyConfig_t = pennyConfig_t {
        size: size_of::<pennyConfig_t>(),
        magic: PENNY_CONFIG_MAGIC,
        version: PENNY_VERSION_CODE,
        blocking: PENNY_CONFIG_UNDEF_INT,
        timeoutMs: PENNY_CONFIG_UNDEF_INT,
        commName: std::ptr::null(),
        algo: std::ptr::null(),
        fabric: std::ptr::null(),
        fabricClock: std::ptr::null(),
        threads: PENNY_CONFIG_UNDEF_INT,
        parallelFor: None,
        parallelForArg: std::ptr::null_mut(),
    };

    /// Reads the caller's struct as this version understands it: fields beyond its size or unknown to its version are left
    /// at their defaults.
    ///
    /// # Safety
    /// `theirs` must be readable for the size it states.
    unsafe fn read(theirs: *const pennyConfig_t, name: &str) -> Result<pennyConfig_t> {
        macro_rules! field {
            ($field:ident) => {
                // SAFETY: the promise to `read`; the callers below have seen that the field lies within the stated size,
                // or are after the head, which every version has.
                unsafe { (&raw const (*theirs).$field).read_unaligned() }
            };
        }
        let mut ours = pennyConfig_t::INITIALIZER;
        let (size, magic, version) = (field!(size), field!(magic), field!(version));
        if magic != PENNY_CONFIG_MAGIC || size < std::mem::offset_of!(pennyConfig_t, blocking) {
            return Err(Error::argument(format!(
                "{name} is no pennyConfig_t (size {size}, magic {magic:#x}); begin with PENNY_CONFIG_INITIALIZER"
            )));
        }
        macro_rules! take {
            ($($field:ident since $since:expr;)*) => {$(
                let end = std::mem::offset_of!(pennyConfig_t, $field) + size_of_val(&ours.$field);
                if end <= size && $since <= version {
                    ours.$field = field!($field);
                }
            )*};
        }
        take! {
            blocking since FIRST_VERSION;
            timeoutMs since FIRST_VERSION;
            commName since FIRST_VERSION;
            algo since FIRST_VERSION;
            fabric since FIRST_VERSION;
            fabricClock since FIRST_VERSION;
            threads since FIRST_VERSION;
            parallelFor since FIRST_VERSION;
            parallelForArg since FIRST_VERSION;
        }
        Ok(ours)
    }

    /// Converts the settings and checks their ranges.
    ///
    /// # Safety
    /// `commName`, `algo`, `fabric` and `fabricClock` must each be NULL or a string; `parallelFor` NULL or a function as its type
    /// describes it.
    unsafe fn settings(&self, name: &str) -> Result<Config> {
        let blocking = match self.blocking {
            1 | PENNY_CONFIG_UNDEF_INT => true,
            0 => false,
            other => return Err(Error::argument(format!("{name}->blocking is {other}; it is 0 or 1"))),
        };
        let timeout_ms = match self.timeoutMs {
            PENNY_CONFIG_UNDEF_INT => None,
            ms if ms >= 0 => Some(ms as u64),
            ms => return Err(Error::argument(format!("{name}->timeoutMs is {ms}; it is 0 (never) or more"))),
        };
        let threads = match self.threads {
            PENNY_CONFIG_UNDEF_INT => None,
            threads if (1..=comm::MOST_THREADS as c_int).contains(&threads) => Some(threads as u32),
            threads => {
                let most = comm::MOST_THREADS;
                return Err(Error::argument(format!(
                    "{name}->threads is {threads}; it must be from 1 to {most}"
                )));
            }
        };
        let text = |from: *const c_char| {
            // SAFETY: the promise to `settings`.
            (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
        };
        Ok(Config {
            blocking,
            timeout_ms,
            name: text(self.commName).unwrap_or_default(),
            algo: text(self.algo),
            fabric: text(self.fabric),
            fabric_clock: text(self.fabricClock),
            fabric_grace: None,
            threads,
            // SAFETY: the promise to `settings`.
            parallel_for: self.parallelFor.map(|f| unsafe { ParallelFunction::new(f, self.parallelForArg) }),
            single_copy: None,
            zero_copy_from: None,
            refused: None,
        })
    }
}

impl Parameter for OrNull<*const pennyConfig_t> {
    /// NULL means PENNY_CONFIG_INITIALIZER. What is wrong in it is told when the ranks join, to all of them.
    type Admitted = Config;
    unsafe fn admit(self, name: &'static str) -> Result<Config> {
        // SAFETY: the promise to `admit`.
        let settings = unsafe {
            match self.0.is_null() {
                true => pennyConfig_t::INITIALIZER.settings(name),
                false => pennyConfig_t::read(self.0, name).and_then(|config| config.settings(name)),
            }
        };
        Ok(settings.unwrap_or_else(|refused| Config { refused: Some(refused), ..Config::default() }))
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
