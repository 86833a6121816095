//! Kernels that the program has: those that penny-nvcc has compiled, which can run, and the names of those that a compiler for GPUs
//! has.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock};

use crate::grid::Block;
use crate::guard::{Result, fault, invalid};
use crate::handles::{Handle, lock};
use crate::{codes, launch};

/// A kernel that penny-nvcc has compiled. `include/penny_kernel.h` says what its fields mean.
#[repr(C)]
pub struct Description {
    size: usize,
    name: *const c_char,
    function: *const c_void,
    run: unsafe extern "C" fn(*const c_void, *mut Block),
    copy: unsafe extern "C" fn(*mut *mut c_void) -> *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
    places: unsafe extern "C" fn(*mut c_void, *mut *mut c_void),
    parameters: c_int,
}

/// A kernel that can run.
#[derive(Clone, Copy)]
pub struct Kernel(&'static Description);

// SAFETY: a description is constant data of the program with functions that any thread may call.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// What is known by the address that a program calls.
#[derive(Clone)]
enum Known {
    Runs(Kernel),
    Named(String),
}

static KERNELS: Mutex<BTreeMap<usize, Known>> = Mutex::new(BTreeMap::new());

/// A kernel with arguments, which it owns.
pub struct Call {
    kernel: Kernel,
    arguments: usize,
    /// The addresses of the arguments, for a program that has asked.
    places: OnceLock<Box<[usize]>>,
}

impl Kernel {
    /// Returns its name with its template arguments.
    pub fn name(self) -> String {
        // SAFETY: the description's promise.
        let text = unsafe { CStr::from_ptr(self.0.name) }.to_string_lossy();
        named(&text).to_owned()
    }
}

/// Returns the value of the template argument `function` in what a compiler writes for a function's name.
fn named(text: &str) -> &str {
    // As g++ and as clang write it.
    let found = ["function)(P ...) = ", "function = "].iter().find_map(|mark| text.split_once(mark));
    let Some((_, rest)) = found else { return text };
    let rest = rest.trim_start_matches('&');
    let mut depth = 0_i32;
    for (i, letter) in rest.char_indices() {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            ';' | ',' | ']' if depth == 0 => return &rest[..i],
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    rest
}

impl Call {
    /// Takes arguments that the kernel's own code has copied.
    fn owning(kernel: Kernel, arguments: *mut c_void) -> Call {
        Call { kernel, arguments: arguments.expose_provenance(), places: OnceLock::new() }
    }

    /// Copies arguments that stand at these places.
    pub fn copying(kernel: Kernel, places: *mut *mut c_void) -> Result<Call> {
        if places.is_null() && kernel.0.parameters > 0 {
            return invalid(format!(
                "args is NULL; pass the addresses of the {} arguments of {}",
                kernel.0.parameters,
                kernel.name()
            ));
        }
        // SAFETY: the program promises as many places of arguments as the kernel has parameters.
        Ok(Call::owning(kernel, unsafe { (kernel.0.copy)(places) }))
    }

    /// Runs the threads of a block that have not begun.
    pub fn run(&self, block: *mut Block) {
        // SAFETY: the arguments are those that the kernel's own code has copied; the block is that of the running grid.
        unsafe { (self.kernel.0.run)(std::ptr::with_exposed_provenance(self.arguments), block) };
    }

    /// Returns the name of the kernel.
    pub fn name(&self) -> String {
        self.kernel.name()
    }

    /// Returns what a program knows the kernel by.
    pub fn function(&self) -> *const c_void {
        self.kernel.0.function
    }

    /// Returns the addresses of the arguments, which stay as long as this.
    pub fn places(&self) -> *mut *mut c_void {
        let places = self.places.get_or_init(|| {
            let mut places = vec![std::ptr::null_mut(); self.kernel.0.parameters as usize];
            // SAFETY: the arguments are those that the kernel's own code has copied; it writes as many places as there are parameters.
            unsafe {
                (self.kernel.0.places)(
                    std::ptr::with_exposed_provenance_mut(self.arguments),
                    places.as_mut_ptr(),
                )
            };
            places.into_iter().map(<*mut c_void>::expose_provenance).collect()
        });
        places.as_ptr().cast_mut().cast()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: the kernel's own code has made them, and this is the one time.
        unsafe { (self.kernel.0.drop)(std::ptr::with_exposed_provenance_mut(self.arguments)) };
    }
}

/// Returns the kernel behind an address, if it can run.
pub fn find(function: *const c_void) -> Option<Kernel> {
    match lock(&KERNELS).get(&function.addr()) {
        Some(Known::Runs(kernel)) => Some(*kernel),
        _ => None,
    }
}

/// Returns what a kernel is called.
pub fn name(function: *const c_void) -> String {
    match lock(&KERNELS).get(&function.addr()).cloned() {
        Some(Known::Runs(kernel)) => kernel.name(),
        Some(Known::Named(name)) => name,
        None => format!("at {function:p}"),
    }
}

/// Notes a kernel that penny-nvcc has compiled. Returns 0; 1 for one of another version.
///
/// # Safety
/// `kernel` must be a description that stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pennyCudaRegisterKernel(kernel: *const Description) -> c_int {
    let outcome = catch_unwind(|| {
        // SAFETY: the caller's promise.
        let kernel = unsafe { &*kernel };
        if kernel.size != size_of::<Description>() {
            eprintln!(
                "penny-cudart: a kernel was compiled by penny-nvcc of another version and cannot run; compile it again"
            );
            return 1;
        }
        lock(&KERNELS).insert(kernel.function.addr(), Known::Runs(Kernel(kernel)));
        0
    });
    outcome.unwrap_or(1)
}

/// Launches a kernel of penny-nvcc with the configuration that was pushed last. Takes the arguments.
///
/// # Safety
/// `kernel` must be a description that stays, and `arguments` what its `copy` would return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pennyCudaLaunch(kernel: *const Description, arguments: *mut c_void) {
    crate::guard::call("launch", || {
        // SAFETY: the caller's promise.
        let kernel = Kernel(unsafe { &*kernel });
        let call = Call::owning(kernel, arguments);
        let Some(configuration) = launch::pop() else {
            return fault(
                codes::cudaErrorMissingConfiguration,
                format!(
                    "the kernel {} is called without a configuration; launch it with <<< >>>",
                    call.name()
                ),
            );
        };
        launch::queue(call, configuration)
    });
}

/// Notes the name of a kernel that a compiler for GPUs has compiled.
///
/// # Safety
/// `name` must be a text or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    _image: *mut Handle,
    host: *const c_char,
    _function: *mut c_char,
    name: *const c_char,
    _threadLimit: c_int,
    _tid: *mut c_void,
    _bid: *mut c_void,
    _blockDim: *mut c_void,
    _gridDim: *mut c_void,
    _warpSize: *mut c_int,
) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let _ = catch_unwind(|| {
        lock(&KERNELS).insert(host.addr(), Known::Named(name.to_string_lossy().into_owned()))
    });
}
