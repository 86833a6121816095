//! Finding libfabric, and the functions by which everything begins.

use super::abi::{Fabric, FabricAttr, Info, version};
use crate::env;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The oldest library that is used, and the version of the interface that is asked for.
pub const OLDEST: u32 = version(1, 17);

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut Info);
type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut Fabric, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

/// The library, once it is loaded. It stays until the process ends.
pub struct Library {
    pub get_info: GetInfo,
    pub free_info: FreeInfo,
    pub dup_info: DupInfo,
    pub open_fabric: OpenFabric,
    str_error: StrError,
    /// What was loaded, for sentences.
    pub name: String,
}

/// What is loaded where `PENNY_LIBFABRIC` says nothing else.
const SONAME: &str = "libfabric.so.1";

/// Loads libfabric, or returns what was loaded before.
pub fn load() -> Result<&'static Library> {
    static LOADED: Mutex<Option<&'static Library>> = Mutex::new(None);
    let mut loaded = LOADED.lock();
    if let Some(library) = *loaded {
        return Ok(library);
    }
    let library: &'static Library = Box::leak(Box::new(open(chosen())?));
    *loaded = Some(library);
    Ok(library)
}

/// The file that the user names.
#[cfg(not(test))]
fn chosen() -> Option<String> {
    env::get("PENNY_LIBFABRIC")
}

/// The file that the user names, or one that an MPI library has brought along for the tests of the launchers (`.ci/launchers`).
#[cfg(test)]
fn chosen() -> Option<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        std::path::PathBuf::from,
    );
    let installed = || {
        let folders = std::fs::read_dir(target.join("mpi")).ok()?;
        let files = folders.flatten().flat_map(|of| {
            ["openmpi", "mpich"].map(|name| of.path().join("lib").join(name).join("libfabric.so.1"))
        });
        files.into_iter().find(|file| file.exists())?.to_str().map(str::to_owned)
    };
    env::get("PENNY_LIBFABRIC").or_else(installed)
}

fn open(path: Option<String>) -> Result<Library> {
    let name = path.as_deref().unwrap_or(SONAME);
    let file = CString::new(name)
        .map_err(|_| Error::argument("PENNY_LIBFABRIC contains a zero byte; set it to a file's path"))?;
    // SAFETY: a C string. The library's constructors run, as in any program that is linked with it.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        let why = last_failure();
        return Err(Error::system(match path {
            Some(path) => format!("PENNY_LIBFABRIC names {path}, which cannot be loaded: {why}"),
            None => format!(
                "no libfabric found, of which PENNY_NET names a provider: {why}; install it (Debian and Ubuntu: libfabric1, Fedora: \
                 libfabric), or set PENNY_LIBFABRIC to a libfabric.so.1, such as that of the PyPI package mpich; PENNY_NET=tcp needs none"
            ),
        }));
    }
    let find = |symbol: &CStr, since: &CStr| {
        // SAFETY: two C strings, and a handle that is never closed.
        let found = unsafe { libc::dlvsym(handle, symbol.as_ptr(), since.as_ptr()) };
        if found.is_null() {
            return Err(Error::system(format!(
                "{name} has no {} of version {}, so it is no libfabric 1.17 or newer; install one, or set PENNY_LIBFABRIC to its path",
                symbol.to_string_lossy(),
                since.to_string_lossy()
            )));
        }
        Ok(found)
    };
    let get_info = find(c"fi_getinfo", c"FABRIC_1.3")?;
    let free_info = find(c"fi_freeinfo", c"FABRIC_1.3")?;
    let dup_info = find(c"fi_dupinfo", c"FABRIC_1.3")?;
    let open_fabric = find(c"fi_fabric", c"FABRIC_1.1")?;
    let str_error = find(c"fi_strerror", c"FABRIC_1.0")?;
    let own_version = find(c"fi_version", c"FABRIC_1.0")?;
    // SAFETY: a function of this name and version has this type, by libfabric's header.
    let own_version: unsafe extern "C" fn() -> u32 = unsafe { std::mem::transmute(own_version) };
    // SAFETY: it takes nothing and returns a number.
    let own = unsafe { own_version() };
    if own < OLDEST {
        return Err(Error::system(format!(
            "{name} is libfabric {}.{}; 1.17 or newer is needed: install one, or set PENNY_LIBFABRIC to its path",
            own >> 16,
            own & 0xffff
        )));
    }
    // SAFETY: functions of these names and versions have these types, by libfabric's header.
    unsafe {
        Ok(Library {
            get_info: std::mem::transmute::<*mut c_void, GetInfo>(get_info),
            free_info: std::mem::transmute::<*mut c_void, FreeInfo>(free_info),
            dup_info: std::mem::transmute::<*mut c_void, DupInfo>(dup_info),
            open_fabric: std::mem::transmute::<*mut c_void, OpenFabric>(open_fabric),
            str_error: std::mem::transmute::<*mut c_void, StrError>(str_error),
            name: format!("{name} ({}.{})", own >> 16, own & 0xffff),
        })
    }
}

/// Why the dynamic linker refused.
fn last_failure() -> String {
    // SAFETY: returns NULL or a C string that lives until the thread's next call of the linker.
    unsafe {
        let said = libc::dlerror();
        if said.is_null() { "no reason given".into() } else { CStr::from_ptr(said).to_string_lossy().into() }
    }
}

impl Library {
    /// Returns libfabric's words for a result.
    pub fn describe(&self, result: isize) -> String {
        // SAFETY: returns a C string that is never freed, for any number.
        unsafe { CStr::from_ptr((self.str_error)(result.unsigned_abs() as c_int)) }.to_string_lossy().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_libfabric_is_refused_with_its_name() {
        let told = open(Some("/nowhere/libfabric.so.1".into())).err().unwrap();
        assert!(told.message.contains("PENNY_LIBFABRIC names /nowhere/libfabric.so.1"), "{told}");
        let told = open(Some("libc.so.6".into())).err().unwrap();
        assert!(told.message.contains("libc.so.6 has no fi_getinfo of version FABRIC_1.3"), "{told}");
        assert!(open(Some("a\0b".into())).err().unwrap().message.contains("zero byte"));
    }
}
