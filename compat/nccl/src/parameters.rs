//! NCCL's interface to its parameters, for those variables of NCCL that have an effect here.
//!
//! | key | kind | unset |
//! |---|---|---|
//! | `NCCL_ALGO`, `NCCL_DEBUG`, `NCCL_DEBUG_FILE`, `NCCL_DEBUG_SUBSYS` | text | "" |
//! | `NCCL_COMM_BLOCKING` | 64 bits | `NCCL_CONFIG_UNDEF_INT` |
//!
//! A value is what the environment has when it is asked for; texts are the calling thread's until it asks again in the same way.

use crate::boundary::{Failure, Outcome, argument, place};
use crate::config;
use crate::types::*;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::thread::LocalKey;

/// How a parameter's value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `ncclParamGetStr`.
    Text,
    /// `ncclParamGetI64`.
    I64,
}

/// A variable of NCCL that has an effect here. A handle points to one.
struct Parameter {
    key: &'static CStr,
    kind: Kind,
    effect: &'static str,
}

static PARAMETERS: [Parameter; 5] = [
    Parameter { key: c"NCCL_ALGO", kind: Kind::Text, effect: "the algorithms of collectives" },
    Parameter { key: c"NCCL_COMM_BLOCKING", kind: Kind::I64, effect: "`blocking` of every communicator" },
    Parameter { key: c"NCCL_DEBUG", kind: Kind::Text, effect: "how much is printed" },
    Parameter { key: c"NCCL_DEBUG_FILE", kind: Kind::Text, effect: "where it is printed" },
    Parameter { key: c"NCCL_DEBUG_SUBSYS", kind: Kind::Text, effect: "what INFO is about" },
];

impl Parameter {
    fn name(&self) -> &'static str {
        self.key.to_str().unwrap_or_default()
    }

    fn number(&self) -> i64 {
        config::blocking_variable().unwrap_or(NCCL_CONFIG_UNDEF_INT).into()
    }

    /// Returns the value in words; empty if it is not set.
    fn text(&self) -> CString {
        let set = std::env::var_os(self.name());
        let text = match self.kind {
            Kind::Text => set.map_or(String::new(), |text| text.to_string_lossy().into_owned()),
            Kind::I64 => self.number().to_string(),
        };
        CString::new(text).unwrap_or_default()
    }

    /// Returns the value's bytes in memory: a number, or a text with its 0.
    fn bytes(&self) -> Vec<u8> {
        match self.kind {
            Kind::Text => self.text().into_bytes_with_nul(),
            Kind::I64 => self.number().to_ne_bytes().into(),
        }
    }

    fn check_kind(&self, asked: Kind) -> Outcome {
        if self.kind == asked { Ok(()) } else { Err(self.is_other_kind()) }
    }

    #[cold]
    fn is_other_kind(&self) -> Failure {
        let (what, remedy) = match self.kind {
            Kind::Text => ("text", "ncclParamGetStr"),
            Kind::I64 => ("a number of 64 bits", "ncclParamGetI64"),
        };
        argument(format!("the value of {} is {what}; use {remedy}", self.name()))
    }
}

/// Finds the parameter of a key.
///
/// # Safety
/// `key` must be NULL or a text.
unsafe fn find(key: *const c_char) -> Outcome<&'static Parameter> {
    if key.is_null() {
        return Err(argument("key is NULL; pass the name of a variable such as NCCL_DEBUG"));
    }
    // SAFETY: the caller's promise.
    let key = unsafe { CStr::from_ptr(key) };
    PARAMETERS.iter().find(|parameter| parameter.key == key).ok_or_else(|| unknown(key))
}

#[cold]
fn unknown(key: &CStr) -> Failure {
    let names: Vec<_> = PARAMETERS.iter().map(Parameter::name).collect();
    argument(format!(
        "key is `{}`, which has no effect in this library; the variables of NCCL that have one are {}",
        key.to_string_lossy(),
        names.join(", ")
    ))
}

/// Finds the parameter that a handle stands for. Nothing of another pointer is read.
fn bound(handle: ncclParamHandle_t) -> Outcome<&'static Parameter> {
    PARAMETERS
        .iter()
        .find(|parameter| std::ptr::from_ref(*parameter).cast() == handle.cast_const())
        .ok_or_else(|| argument("h is no handle of ncclParamBind"))
}

thread_local! {
    /// The value that `ncclParamGetStr` has handed to this thread.
    static OF_HANDLE: RefCell<CString> = RefCell::default();
    /// The value that `ncclParamGetParameter` has handed to this thread.
    static OF_KEY: RefCell<CString> = RefCell::default();
    /// The table that `ncclParamGetAllParameterKeys` has handed to this thread.
    static KEYS: RefCell<Vec<*const c_char>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a text for the calling thread. Returns where it lies, and its length.
fn hand(to: &'static LocalKey<RefCell<CString>>, text: CString) -> (*const c_char, c_int) {
    let length = text.as_bytes().len() as c_int;
    to.try_with(|kept| {
        *kept.borrow_mut() = text;
        (kept.borrow().as_ptr(), length)
    })
    .unwrap_or((c"".as_ptr(), 0))
}

nccl_api! {
    /// Finds a parameter by its key. The handle is valid as long as the library is loaded; nobody frees it.
    fn ncclParamBind, pncclParamBind(out: *mut ncclParamHandle_t, key: *const c_char) {
        place(out, "out")?;
        // SAFETY: the caller's promise.
        let parameter = unsafe { find(key) }?;
        // SAFETY: the caller's promise.
        unsafe { out.write_unaligned(std::ptr::from_ref(parameter).cast_mut().cast()) };
        Ok(())
    }

    /// Reads a parameter whose value is a number of 64 bits.
    fn ncclParamGetI64, pncclParamGetI64(h: ncclParamHandle_t, out: *mut i64) {
        place(out, "out")?;
        let parameter = bound(h)?;
        parameter.check_kind(Kind::I64)?;
        // SAFETY: the caller's promise.
        unsafe { out.write_unaligned(parameter.number()) };
        Ok(())
    }

    /// Reads a parameter whose value is text. It is valid until the same thread calls this function again.
    fn ncclParamGetStr, pncclParamGetStr(h: ncclParamHandle_t, out: *mut *const c_char) {
        place(out, "out")?;
        let parameter = bound(h)?;
        parameter.check_kind(Kind::Text)?;
        // SAFETY: the caller's promise.
        unsafe { out.write_unaligned(hand(&OF_HANDLE, parameter.text()).0) };
        Ok(())
    }

    /// Copies a value's bytes: a number, or a text with its 0. `len` is set to their number, also where there is no room.
    fn ncclParamGet, pncclParamGet(h: ncclParamHandle_t, out: *mut c_void, maxLen: c_int, len: *mut c_int) {
        place(out, "out")?;
        place(len, "len")?;
        let bytes = bound(h)?.bytes();
        // SAFETY: the caller's promise.
        unsafe { len.write_unaligned(bytes.len() as c_int) };
        if usize::try_from(maxLen).is_ok_and(|room| room >= bytes.len()) {
            // SAFETY: the caller's promise: there is room for maxLen bytes.
            unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            return Ok(());
        }
        Err(argument(format!("maxLen is {maxLen}; the value has {} bytes", bytes.len())))
    }

    /// Reads a parameter by its key, as text. It is valid until the same thread calls this function again.
    fn ncclParamGetParameter, pncclParamGetParameter(
        key: *const c_char, value: *mut *const c_char, valueLen: *mut c_int,
    ) {
        place(value, "value")?;
        place(valueLen, "valueLen")?;
        // SAFETY: the caller's promise.
        let found = unsafe { find(key) };
        let (text, length) = match &found {
            Ok(parameter) => hand(&OF_KEY, parameter.text()),
            Err(_) => (std::ptr::null(), 0),
        };
        // SAFETY: the caller's promise.
        unsafe { (value.write_unaligned(text), valueLen.write_unaligned(length)) };
        found.map(drop)
    }

    /// Returns the keys of all parameters, in a table that is valid until the same thread calls this function again.
    fn ncclParamGetAllParameterKeys, pncclParamGetAllParameterKeys(
        table: *mut *mut *const c_char, tableLen: *mut c_int,
    ) {
        place(table, "table")?;
        place(tableLen, "tableLen")?;
        let keys: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.key.as_ptr()).collect();
        let length = keys.len() as c_int;
        // A program may write into its table: the next call makes it anew.
        let first = KEYS.try_with(|kept| {
            *kept.borrow_mut() = keys.clone();
            kept.borrow_mut().as_mut_ptr()
        });
        // The thread's destructors are running: nothing frees the table any more.
        let first = first.unwrap_or_else(|_| keys.leak().as_mut_ptr());
        // SAFETY: the caller's promise.
        unsafe { (table.write_unaligned(first), tableLen.write_unaligned(length)) };
        Ok(())
    }

    /// Prints all parameters with their values to standard output.
    or (),
    fn ncclParamDumpAll, pncclParamDumpAll() -> () {
        let line = |parameter: &Parameter| match std::env::var_os(parameter.name()) {
            None => format!("{}: not set ({})\n", parameter.name(), parameter.effect),
            Some(_) => format!("{}: {} ({})\n", parameter.name(), parameter.text().to_string_lossy(), parameter.effect),
        };
        let lines: String = PARAMETERS.iter().map(line).collect();
        // A closed standard output is no reason to end a program.
        let _ = std::io::stdout().write_all(lines.as_bytes());
    }
}

/// Defines the readers of numbers that no parameter has: each checks its arguments and says which reader serves.
macro_rules! other_numbers {
    ($($name:ident, $twin:ident: $ty:ty;)*) => {
        nccl_api! {$(
            /// Refuses the parameter: no parameter of this library has such a number.
            fn $name, $twin(h: ncclParamHandle_t, out: *mut $ty) {
                place(out, "out")?;
                Err(bound(h)?.is_other_kind())
            }
        )*}
    };
}

other_numbers! {
    ncclParamGetI8, pncclParamGetI8: i8;
    ncclParamGetI16, pncclParamGetI16: i16;
    ncclParamGetI32, pncclParamGetI32: i32;
    ncclParamGetU8, pncclParamGetU8: u8;
    ncclParamGetU16, pncclParamGetU16: u16;
    ncclParamGetU32, pncclParamGetU32: u32;
    ncclParamGetU64, pncclParamGetU64: u64;
}
