//! A program's `ncclConfig_t`, read by its size and version, as a `pennyConfig_t`.
//!
//! | field | here |
//! |---|---|
//! | blocking, commName | as Penny's |
//! | cgaClusterSize, minCTAs, maxCTAs, CTAPolicy, nvlsCTAs, collnetEnable, graphUsageMode, graphStreamOrdering | no GPU does the work |
//! | netName, trafficClass, nChannelsPerNetPeer, nvlinkCentricSched, maxP2pPeers, numRmaCtx | there is no network |
//! | splitShare, shrinkShare | communicators made from one another always share their memory |

use crate::boundary::{Outcome, argument, usage};
use crate::debug::{self, About, Level};
use crate::types::*;
use crate::{algo, version};
use penny_sys::pennyConfig_t;
use std::ffi::{CString, c_char, c_int};
use std::mem::offset_of;
use std::sync::OnceLock;

/// The versions that brought the fields: before, the bytes may be padding.
const SINCE_BLOCKING: u32 = 21400;
const SINCE_NAME: u32 = 22700;

/// Converts the settings of a communicator that is made from another; `None`: they are that one's.
///
/// # Safety
/// As for [`read`].
pub unsafe fn read_changes(config: *const ncclConfig_t) -> Outcome<Option<pennyConfig_t>> {
    if config.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { read(config) }.map(Some)
}

/// Converts a program's settings; NULL is all defaults.
///
/// # Safety
/// `config` must be NULL or point to as many bytes as its size says.
pub unsafe fn read(config: *const ncclConfig_t) -> Outcome<pennyConfig_t> {
    let mut read = pennyConfig_t::new();
    if let Some(algo) = algorithms() {
        read.algo = algo.as_ptr();
    }
    if let Some(blocking) = blocking_variable() {
        read.blocking = blocking;
    }
    if config.is_null() {
        return Ok(read);
    }
    // SAFETY: the caller's promise; a struct of any version begins with these.
    let head = unsafe { config.cast::<Head>().read_unaligned() };
    if head.magic != NCCL_API_MAGIC || head.size < size_of::<Head>() {
        return Err(argument(format!(
            "config has the magic {:#x} and the size {}; begin it with NCCL_CONFIG_INITIALIZER",
            head.magic, head.size
        )));
    }
    let has = |since: u32, offset: usize, size: usize| head.version >= since && head.size >= offset + size;
    if has(SINCE_BLOCKING, offset_of!(ncclConfig_t, blocking), size_of::<c_int>()) {
        // SAFETY: the field lies within the program's struct.
        let blocking = unsafe { (&raw const (*config).blocking).read_unaligned() };
        match blocking {
            NCCL_CONFIG_UNDEF_INT => {}
            0 | 1 if blocking_variable().is_some() => {}
            0 | 1 => read.blocking = blocking,
            other => {
                return Err(argument(format!(
                    "config.blocking is {other}; it takes 0, 1 or NCCL_CONFIG_UNDEF_INT"
                )));
            }
        }
    }
    if has(SINCE_NAME, offset_of!(ncclConfig_t, commName), size_of::<*const c_char>()) {
        // SAFETY: the field lies within the program's struct.
        read.commName = unsafe { (&raw const (*config).commName).read_unaligned() };
    }
    Ok(read)
}

/// Returns `NCCL_ALGO` in Penny's notation, unless `PENNY_ALGO` is set.
fn algorithms() -> Option<&'static CString> {
    static ALGO: OnceLock<Option<CString>> = OnceLock::new();
    let read = || {
        let text = std::env::var_os("NCCL_ALGO")?.to_string_lossy().into_owned();
        let read = algo::read(&text);
        debug::info(About::Env, &format!("NCCL_ALGO set by environment to {text}"));
        read.ignored.iter().for_each(|why| debug::line(Level::Warn, why));
        match std::env::var_os("PENNY_ALGO") {
            Some(_) => {
                debug::line(Level::Warn, "NCCL_ALGO is ignored, because PENNY_ALGO is set");
                None
            }
            None => CString::new(read.algo).ok().filter(|algo| !algo.is_empty()),
        }
    };
    ALGO.get_or_init(read).as_ref()
}

/// Returns `NCCL_COMM_BLOCKING`, which is stronger than a program's settings.
pub fn blocking_variable() -> Option<c_int> {
    match std::env::var_os("NCCL_COMM_BLOCKING")?.to_str()? {
        "0" => Some(0),
        "1" => Some(1),
        _ => None,
    }
}

/// Checks what every communicator depends on.
pub fn variables() -> Outcome {
    version::code().map(|_| ()).map_err(usage)
}
