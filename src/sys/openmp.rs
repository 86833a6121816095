//! The threads of an OpenMP runtime that the program has loaded.
//!
//! GNU's, LLVM's and Intel's runtimes have the function that GCC compiles a parallel region to. It is looked up and called; no
//! runtime is ever loaded. A runtime whose names are not visible to the whole process, such as one that an extension of an
//! interpreter brings along, is not found.

use super::process;
use std::ffi::{c_uint, c_void};

/// The function of a parallel region: body, its argument, most threads, flags.
type Region = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// A runtime that was found.
#[derive(Clone, Copy, Debug)]
pub struct OpenMp(Region);

/// Finds the runtime. `None` also in a forked copy of a process: the runtime's threads, which it would wait for, may have been the
/// parent's.
pub fn find() -> Option<OpenMp> {
    if process::is_forked_copy() {
        return None;
    }
    // SAFETY: a C string; the search has no other effect.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"GOMP_parallel".as_ptr()) };
    if found.is_null() || !stays_loaded(found) {
        return None;
    }
    // SAFETY: the one function of this name has this type in every runtime: GCC compiles calls of it.
    Some(OpenMp(unsafe { std::mem::transmute::<*mut c_void, Region>(found) }))
}

/// Sees to it that the library of an address is not unloaded any more. It is not loaded by this.
fn stays_loaded(address: *mut c_void) -> bool {
    // SAFETY: an all-zero Dl_info is valid and filled by the call, which only looks the address up.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return false;
    }
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the name is the loader's own. One that is linked into the program itself has no such name, and stays anyway.
    unsafe { libc::dlopen(info.dli_fname, flags) };
    true
}

impl OpenMp {
    /// Calls `body` once on each of at most `threads` threads, of which the calling thread is one, and returns when all have
    /// returned. A panic in it ends the process.
    pub fn region(&self, threads: u32, body: &(dyn Fn() + Sync)) {
        unsafe extern "C" fn each(body: *mut c_void) {
            // SAFETY: the address below, which is valid until the region is over.
            unsafe { (*body.cast::<&(dyn Fn() + Sync)>())() }
        }
        let mut body = body;
        // SAFETY: the function calls `each` with the address of `body` on its threads, and returns after the last of them; they
        // share `body`, which is Sync.
        unsafe { (self.0)(each, (&raw mut body).cast(), threads, 0) }
    }
}
