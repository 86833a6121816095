//! Another CUDA runtime in the process: two of them do not know each other's streams, so the user is told.

use std::ffi::CStr;
use std::sync::Once;

/// Prints one warning if another library of the process exports CUDA's runtime.
pub fn warn_of_another() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Some(name) = another() {
            eprintln!(
                "penny-cudart: {name} is loaded beside Penny's libcudart.so.12; streams and memory of one are unknown to the other. \
                 Remove one of them from LD_LIBRARY_PATH or LD_PRELOAD."
            );
        }
    });
}

fn another() -> Option<String> {
    // SAFETY: the name is a C string; the result is only compared and looked up.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"cudaGetDeviceCount".as_ptr()) };
    if found.is_null() || found == crate::device::cudaGetDeviceCount as *mut libc::c_void {
        return None;
    }
    // SAFETY: all-zero bytes are a value of this structure of pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is an address of a loaded library, and `info` takes the result.
    if unsafe { libc::dladdr(found, &mut info) } == 0 || info.dli_fname.is_null() {
        return Some("another CUDA runtime".into());
    }
    // SAFETY: the loader keeps the name of a loaded library.
    Some(unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned())
}
