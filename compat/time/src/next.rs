//! The functions of libc and of MPI that this library stands before.

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of libc or MPI, looked up when it is called first.
pub struct Next {
    name: &'static CStr,
    /// The version of its symbol on x86-64, where it has an older one too.
    version: Option<&'static CStr>,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// Names a function.
    pub const fn of(name: &'static CStr) -> Next {
        Next { name, version: None, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Names a function that has an older version, too.
    pub const fn versioned(name: &'static CStr, version: &'static CStr) -> Next {
        Next { name, version: Some(version), found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns its address; null: there is no such function.
    pub fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let mut found = std::ptr::null_mut();
        if let Some(version) = self.version {
            // SAFETY: both are C strings.
            found = unsafe { libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: the name is a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        }
        if found.is_null() && self.name.to_bytes().starts_with(b"MPI_") {
            found = in_mpi(self.name);
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Looks for a function in a library of MPI that was loaded for one object alone, as modules of Python are.
fn in_mpi(name: &CStr) -> *mut c_void {
    let mut libraries: Vec<CString> = Vec::new();
    // SAFETY: the callback has this type, and gets a pointer to `libraries`.
    unsafe { libc::dl_iterate_phdr(Some(note_if_mpi), (&raw mut libraries).cast()) };
    let function = |path: &CString| {
        // SAFETY: the path is a C string of a library that is loaded; the handle is not closed, so the library stays.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: a handle of the loader, and a C string.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    libraries.iter().find_map(function).unwrap_or(std::ptr::null_mut())
}

/// Notes an object's path if its file's name is that of a library of MPI.
unsafe extern "C" fn note_if_mpi(info: *mut libc::dl_phdr_info, _: usize, libraries: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description, and `libraries` as it was given.
    let (info, libraries) = unsafe { (&*info, &mut *libraries.cast::<Vec<CString>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: a C string of the loader.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) };
        let file = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if file.starts_with(b"libmpi") {
            libraries.push(path.to_owned());
        }
    }
    0
}

/// Calls a function of libc or MPI that has the type of the C function.
macro_rules! next {
    ($next:expr, fn($($type:ty),*) -> $result:ty, $($argument:expr),*) => {{
        let address = $next.address();
        assert!(!address.is_null(), "a function that was called is in no library");
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        // SAFETY: the symbol has this type in libc.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
        // SAFETY: as the caller's caller promises to libc.
        unsafe { function($($argument),*) }
    }};
}

pub(crate) use next;
