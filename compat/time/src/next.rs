//! The functions of libc that this library stands before.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of libc, looked up when it is called first.
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

    /// Returns its address; null: libc has no such function.
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
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls a function of libc that has the type of the C function.
macro_rules! next {
    ($next:expr, fn($($type:ty),*) -> $result:ty, $($argument:expr),*) => {{
        let address = $next.address();
        assert!(!address.is_null(), "libc lacks a function that every libc has");
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        // SAFETY: the symbol has this type in libc.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
        // SAFETY: as the caller's caller promises to libc.
        unsafe { function($($argument),*) }
    }};
}

pub(crate) use next;
