//! Kernels: there is no device that could run them, so a launch is refused with the kernel's name.
//!
//! A program that a CUDA compiler has built registers its kernels before `main`. That works, so that its host code runs up to the
//! first launch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, Once};

use crate::guard::{Result, cuda_api, fault, place, unsupported};
use crate::handles::{Handle, lock};
use crate::{codes, stream};

/// The names of registered kernels, by the address of what the host calls.
static KERNELS: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());

/// A number of threads in three dimensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

/// What a launch is configured with. Only its beginning is looked at.
#[repr(C)]
pub struct LaunchConfig {
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: Handle,
}

thread_local! {
    /// The configurations between `<<<` and the call.
    static CONFIGURED: RefCell<Vec<(dim3, dim3, usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn name(function: *const c_void) -> String {
    lock(&KERNELS).get(&function.addr()).cloned().unwrap_or_else(|| format!("at {function:p}"))
}

fn refuse(function: *const c_void, on: Handle) -> Result<()> {
    static ONCE: Once = Once::new();
    stream::find(on)?;
    let sentence = format!(
        "the kernel {} cannot run: this CUDA runtime has no GPU; run the program where there is one, or keep to host code",
        name(function)
    );
    ONCE.call_once(|| eprintln!("penny-cudart: {sentence}"));
    unsupported(sentence)
}

cuda_api! {
    /// Refuses to run a kernel.
    fn cudaLaunchKernel(
        func: *const c_void, _gridDim: dim3, _blockDim: dim3, _args: *mut *mut c_void, _sharedMem: usize,
        stream: Handle,
    ) {
        refuse(func, stream)
    }

    /// Refuses to run a kernel.
    fn cudaLaunchCooperativeKernel(
        func: *const c_void, _gridDim: dim3, _blockDim: dim3, _args: *mut *mut c_void, _sharedMem: usize,
        stream: Handle,
    ) {
        refuse(func, stream)
    }

    /// Refuses to run a kernel.
    fn cudaLaunchKernelExC(config: *const LaunchConfig, func: *const c_void, _args: *mut *mut c_void) {
        if config.is_null() {
            return crate::guard::invalid("config is NULL; pass the configuration of the launch");
        }
        // SAFETY: the program promises a configuration at an address that is not NULL.
        refuse(func, unsafe { (&raw const (*config).stream).read_unaligned() })
    }

    /// Tells that there is no such kernel on the device.
    fn cudaFuncGetAttributes(_attr: *mut c_void, func: *const c_void) {
        fault(
            codes::cudaErrorInvalidDeviceFunction,
            format!("there is no GPU, so the kernel {} has no attributes; keep to host code", name(func)),
        )
    }

    /// Does nothing: no kernel runs.
    fn cudaFuncSetAttribute(_func: *const c_void, _attr: c_int, _value: c_int) {
        Ok(())
    }

    /// Does nothing: no kernel runs.
    fn cudaFuncSetCacheConfig(_func: *const c_void, _cacheConfig: c_int) {
        Ok(())
    }

    /// Tells that there is no such kernel on the device.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        _numBlocks: *mut c_int, func: *const c_void, _blockSize: c_int, _dynamicSMemSize: usize,
    ) {
        fault(
            codes::cudaErrorInvalidDeviceFunction,
            format!("there is no GPU, so the kernel {} occupies none; keep to host code", name(func)),
        )
    }

    /// Refuses functions of the driver.
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, funcPtr: *mut *mut c_void, _flags: u64, driverStatus: *mut c_int,
    ) {
        place(funcPtr, "funcPtr")?.set(std::ptr::null_mut());
        crate::guard::set_if_wanted(driverStatus, 1);
        let _ = symbol;
        unsupported("there is no CUDA driver; use functions of the runtime")
    }

    /// Refuses tables of functions that are not documented.
    fn cudaGetExportTable(table: *mut *const c_void, _id: *const c_void) {
        place(table, "ppExportTable")?.set(std::ptr::null());
        unsupported("there is no CUDA driver; use functions of the runtime")
    }
}

/// Notes kernels of a program that was built by a CUDA compiler. What is returned is a handle to be given back.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinary(image: *mut c_void) -> *mut Handle {
    image.cast()
}

/// Ends the registration.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_image: *mut Handle) {}

/// Takes the registration back.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(_image: *mut Handle) {}

/// Is called before registration; nothing is to be done.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(_image: *mut Handle) -> c_char {
    1
}

/// Notes the name of a kernel.
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
    _blockDim: *mut dim3,
    _gridDim: *mut dim3,
    _warpSize: *mut c_int,
) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let _ = catch_unwind(|| lock(&KERNELS).insert(host.addr(), name.to_string_lossy().into_owned()));
}

/// Keeps the configuration of a launch until the call. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    gridDim: dim3,
    blockDim: dim3,
    sharedMem: usize,
    stream: Handle,
) -> c_uint {
    let _ = CONFIGURED.try_with(|configured| {
        configured.borrow_mut().push((gridDim, blockDim, sharedMem, stream.addr()));
    });
    0
}

cuda_api! {
    /// Returns the configuration of the launch whose call is made.
    fn __cudaPopCallConfiguration(
        gridDim: *mut dim3, blockDim: *mut dim3, sharedMem: *mut usize, stream: *mut Handle,
    ) {
        let Some((grid, block, shared, on)) = CONFIGURED.with_borrow_mut(Vec::pop) else {
            return fault(codes::cudaErrorMissingConfiguration, "there is no configuration; launch with <<< >>>");
        };
        place(gridDim, "gridDim")?.set(grid);
        place(blockDim, "blockDim")?.set(block);
        place(sharedMem, "sharedMem")?.set(shared);
        place(stream, "stream")?.set(crate::handles::to_c(on));
        Ok(())
    }
}
