//! PMIx, by its library, which is opened at run time: how ranks of Open MPI and Slurm hear of each other.
//!
//! Only what a rank needs to publish one text and to read another rank's is declared, by the header of version 3 and later, whose layout
//! its versions 4 and 5 keep.

use crate::error::{Error, Result};
use crate::sync::prim::{AtomicU32, Ordering};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// What the library is called.
pub const SONAME: &str = "libpmix.so.2";

/// `pmix_proc_t`.
#[repr(C)]
pub struct Process {
    space: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: a type, and the largest of many values.
#[repr(C)]
struct Value {
    kind: u16,
    data: [*const c_char; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const SUCCESS: c_int = 0;
const BOOL: u16 = 1;
const STRING: u16 = 3;
/// The value is for all processes of the job.
const GLOBAL: u8 = 3;
/// Has the fence bring all values to every host.
const COLLECT: &CStr = c"pmix.collect";

/// What a fence that has not ended stands for: no status of PMIx.
const UNDER_WAY: c_int = 1;

/// The status of the process's fence. The library may write it after its thread has given up.
static FENCE: AtomicU32 = AtomicU32::new(UNDER_WAY as u32);

extern "C" fn fence_ended(status: c_int, _: *mut c_void) {
    // ORDER: pairs with the load in `is_fenced`.
    FENCE.store(status.min(SUCCESS) as u32, Ordering::Release);
}

type Init = unsafe extern "C" fn(*mut Process, *mut Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *const Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(
    *const Process,
    usize,
    *const Info,
    usize,
    extern "C" fn(c_int, *mut c_void),
    *mut c_void,
) -> c_int;
type Get = unsafe extern "C" fn(*const Process, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// The library. It stays until the process ends.
pub struct Pmix {
    init: Init,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    finalize: Finalize,
    error_text: ErrorText,
}

impl Pmix {
    /// Loads the first of these files that can be loaded.
    pub fn load(files: impl Iterator<Item = String>) -> Result<Pmix> {
        let mut tried = Vec::new();
        for file in files {
            match Pmix::open(&file) {
                Ok(library) => return Ok(library),
                Err(why) => tried.push(why),
            }
        }
        Err(Error::system(format!(
            "the launcher passes on by PMIx where the ranks of several hosts meet, whose library cannot be used: {}; install it (Debian and \
             Ubuntu: libpmix2), or set PENNY_SECRET and MASTER_ADDR on all ranks",
            tried.join("; ")
        )))
    }

    fn open(file: &str) -> std::result::Result<Pmix, String> {
        let name = CString::new(file).map_err(|_| format!("{file:?} is no name of a file"))?;
        // SAFETY: a C string. The library's constructors run, as in any program that is linked with it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: returns NULL or a C string that lives until the thread's next call of the linker.
            let why = unsafe { libc::dlerror() };
            // SAFETY: not NULL is a C string, as above.
            let why = (!why.is_null()).then(|| unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned());
            return Err(why.unwrap_or_else(|| format!("{file} cannot be loaded")));
        }
        let find = |symbol: &CStr| {
            // SAFETY: a C string, and a handle that is never closed.
            let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            let missing = || format!("{file} has no {}", symbol.to_string_lossy());
            if found.is_null() { Err(missing()) } else { Ok(found) }
        };
        let (init, put, commit) = (find(c"PMIx_Init")?, find(c"PMIx_Put")?, find(c"PMIx_Commit")?);
        let (fence, get) = (find(c"PMIx_Fence_nb")?, find(c"PMIx_Get")?);
        let (finalize, error_text) = (find(c"PMIx_Finalize")?, find(c"PMIx_Error_string")?);
        // SAFETY: functions of these names have these types, by the header of PMIx.
        unsafe {
            Ok(Pmix {
                init: std::mem::transmute::<*mut c_void, Init>(init),
                put: std::mem::transmute::<*mut c_void, Put>(put),
                commit: std::mem::transmute::<*mut c_void, Commit>(commit),
                fence: std::mem::transmute::<*mut c_void, Fence>(fence),
                get: std::mem::transmute::<*mut c_void, Get>(get),
                finalize: std::mem::transmute::<*mut c_void, Finalize>(finalize),
                error_text: std::mem::transmute::<*mut c_void, ErrorText>(error_text),
            })
        }
    }

    fn check(&self, what: &str, status: c_int) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: returns a C string that is never freed, for any number.
        let text = unsafe { CStr::from_ptr((self.error_text)(status)) }.to_string_lossy();
        Err(Error::system(format!(
            "{what} of the launcher's PMIx has failed: {text} ({status}); start the ranks again, or set PENNY_SECRET and MASTER_ADDR on all \
             of them"
        )))
    }

    /// Connects to the launcher, and returns who this process is to it.
    pub fn begin(&self) -> Result<Process> {
        let mut process = Process { space: [0; 256], rank: 0 };
        // SAFETY: `process` has the layout of the header, and no further arguments are given.
        let status = unsafe { (self.init)(&mut process, std::ptr::null_mut(), 0) };
        self.check("PMIx_Init", status).map(|()| process)
    }

    /// Publishes a text, which contains no zero byte.
    pub fn put(&self, key: &str, text: &str) -> Result<()> {
        let no_text = |_| Error::internal("a text for PMIx contains a zero byte");
        let (key, text) = (CString::new(key).map_err(no_text)?, CString::new(text).map_err(no_text)?);
        let value = Value { kind: STRING, data: [text.as_ptr(), std::ptr::null(), std::ptr::null()] };
        // SAFETY: a C string and a value with the layout of the header, which the library copies.
        self.check("PMIx_Put", unsafe { (self.put)(GLOBAL, key.as_ptr(), &value) })
    }

    /// Begins a fence of all processes of the job, which brings what they have put to all.
    pub fn begin_fence(&self) -> Result<()> {
        // SAFETY: it takes nothing.
        self.check("PMIx_Commit", unsafe { (self.commit)() })?;
        // The first byte of a value that is a bool.
        let yes =
            Value { kind: BOOL, data: [std::ptr::without_provenance(1), std::ptr::null(), std::ptr::null()] };
        let mut info = Info { key: [0; 512], flags: 0, value: yes };
        for (to, from) in info.key.iter_mut().zip(COLLECT.to_bytes()) {
            *to = *from as c_char;
        }
        // The library reads it until the fence has ended, which this thread may not see.
        let info = Box::leak(Box::new(info));
        // SAFETY: no processes means all of the job; one piece of information with the layout of the header, that lives for ever; the
        // function is called on a thread of the library and touches an atomic number only.
        let status = unsafe { (self.fence)(std::ptr::null(), 0, info, 1, fence_ended, std::ptr::null_mut()) };
        self.check("PMIx_Fence", status)
    }

    /// Has the fence ended?
    pub fn is_fenced(&self) -> Result<bool> {
        match FENCE.load(Ordering::Acquire) as c_int {
            UNDER_WAY => Ok(false),
            status => self.check("PMIx_Fence", status).map(|()| true),
        }
    }

    /// Returns the text that a rank of this process's job has published.
    pub fn get(&self, process: &Process, rank: u32, key: &str) -> Result<String> {
        let of = Process { space: process.space, rank };
        let key = CString::new(key).map_err(|_| Error::internal("a key of PMIx contains a zero byte"))?;
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: a process and a C string as the header declares them; the result is written to `value`.
        let status = unsafe { (self.get)(&of, key.as_ptr(), std::ptr::null(), 0, &mut value) };
        self.check("PMIx_Get", status)?;
        // SAFETY: after a success it is NULL or a value of the library's, which stays: this happens once in a process.
        let text = unsafe { value.as_ref() }.filter(|v| v.kind == STRING && !v.data[0].is_null());
        // SAFETY: a value of this type is a C string.
        let text = text.map(|v| unsafe { CStr::from_ptr(v.data[0]) }.to_string_lossy().into_owned());
        text.ok_or_else(|| {
            Error::system("the launcher's PMIx returned something else than the text that was published")
        })
    }

    /// Takes leave of the launcher.
    pub fn end(&self) {
        // SAFETY: no further arguments are given. Nothing of the library is used afterwards.
        unsafe { (self.finalize)(std::ptr::null(), 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Process>(), size_of::<Value>(), size_of::<Info>()), (260, 32, 552));
    }

    #[test]
    fn files_that_are_no_pmix_are_told() {
        let files = ["/nowhere/libpmix.so.2", "libc.so.6"].map(str::to_owned);
        let told = Pmix::load(files.into_iter()).err().unwrap();
        assert!(told.message.contains("/nowhere/libpmix.so.2: cannot open"), "{told}");
        assert!(told.message.contains("libc.so.6 has no PMIx_Init"), "{told}");
        assert!(told.message.contains("PENNY_SECRET and MASTER_ADDR"), "{told}");
    }
}
