//! Tells which callers read the machine's time.
//!
//! The program and Python do, and the libraries that `PENNY_VIRTUAL_TIME_IN` names, such as `libbench.so:libmine`: an object
//! is one of these if its file's name begins with one of the names.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{OnceLock, PoisonError, RwLock};

/// A part of an object in memory, and whether its calls are answered with the machine's time.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    to: usize,
    follows: bool,
}

/// The parts of objects from which calls have come.
static KNOWN: RwLock<Vec<Part>> = RwLock::new(Vec::new());

/// Begins of the names of files whose calls count as the program's.
fn names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let named = std::env::var("PENNY_VIRTUAL_TIME_IN").unwrap_or_default();
        let named = named.split(':').filter(|name| !name.is_empty()).map(str::to_owned);
        named.chain(["libpython".to_owned()]).collect()
    })
}

thread_local! {
    /// The thread looks at the objects of the process, which may ask for the time itself.
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Tells whether a call that returns to this address is answered with the machine's time.
pub fn follows(address: usize) -> bool {
    let part_of = |parts: &[Part]| {
        parts.iter().find(|part| (part.from..part.to).contains(&address)).map(|part| part.follows)
    };
    if IS_LOOKING.get() {
        return false;
    }
    let known = part_of(&KNOWN.read().unwrap_or_else(PoisonError::into_inner));
    known.unwrap_or_else(|| {
        IS_LOOKING.set(true);
        let parts = object_of(address).parts;
        IS_LOOKING.set(false);
        let follows = part_of(&parts).unwrap_or(false);
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if part_of(&known).is_none() {
            known.extend(parts);
        }
        follows
    })
}

/// Tells whether the address is in the program itself.
pub fn is_program(address: usize) -> bool {
    object_of(address).in_program
}

/// The state of a walk over the objects of the process.
struct Looked {
    address: usize,
    is_first: bool,
    parts: Vec<Part>,
    in_program: bool,
}

/// Looks for the object that the address is in.
fn object_of(address: usize) -> Looked {
    let mut looked = Looked { address, is_first: true, parts: Vec::new(), in_program: false };
    // SAFETY: the callback has this type, and gets a pointer to `looked`.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut looked).cast()) };
    looked
}

/// Notes the parts of the object that the address is in.
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, looked: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description, and `looked` as it was given.
    let (info, looked) = unsafe { (&*info, &mut *looked.cast::<Looked>()) };
    // The first object is the program.
    let is_program = std::mem::replace(&mut looked.is_first, false);
    // SAFETY: the loader's description of the object's headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let from = info.dlpi_addr as usize + header.p_vaddr as usize;
        (from, from + header.p_memsz as usize)
    });
    let loaded: Vec<(usize, usize)> = loaded.collect();
    if !loaded.iter().any(|&(from, to)| (from..to).contains(&looked.address)) {
        return 0;
    }
    let name = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: a C string of the loader.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let path = name.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or("");
    let follows = is_program || names().iter().any(|begin| file.starts_with(begin.as_str()));
    looked.in_program = is_program;
    looked.parts = loaded.into_iter().map(|(from, to)| Part { from, to, follows }).collect();
    1
}
