//! Launches of kernels: those that penny-nvcc has compiled run in the stream's turn, others are refused with the kernel's name.
//!
//! A program that a compiler for GPUs has built registers its kernels before `main`. That works, so that its host code runs up to the
//! first launch.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Once};

use crate::grid::{self, Shape};
use crate::guard::{Result, cuda_api, fault, place, unsupported};
use crate::handles::Handle;
use crate::kernels::{self, Call, Kernel};
use crate::operation::Operation;
use crate::{codes, stream};

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
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: Handle,
}

/// What cudaFuncGetAttributes tells.
#[repr(C)]
pub struct FuncAttributes {
    /// Bytes of shared, constant and local memory.
    sizes: [usize; 3],
    maxThreadsPerBlock: c_int,
    numRegs: c_int,
    ptxVersion: c_int,
    binaryVersion: c_int,
    cacheModeCA: c_int,
    maxDynamicSharedSizeBytes: c_int,
    rest: [c_int; 23],
}

/// The attribute of a kernel that says how much shared memory a launch may give.
const MAX_DYNAMIC_SHARED: c_int = 8;

thread_local! {
    /// The configurations between `<<<` and the call. Never dropped: destructors of the program's objects, which may run after those of
    /// this thread's own, launch, too. Without a configuration it has no memory.
    static CONFIGURED: ManuallyDrop<RefCell<Vec<Configuration>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// The most threads of a block, in all and in each dimension; the most blocks in each dimension; the most bytes of shared memory.
const THREADS: c_uint = 1024;
const BLOCK: [c_uint; 3] = [1024, 1024, 64];
const GRID: [c_uint; 3] = [i32::MAX as c_uint, 65535, 65535];
const SHARED: usize = 227 << 10;

impl dim3 {
    /// Makes it of its three numbers.
    pub fn of([x, y, z]: [c_uint; 3]) -> dim3 {
        dim3 { x, y, z }
    }

    fn all(self) -> [c_uint; 3] {
        [self.x, self.y, self.z]
    }
}

/// A configuration: blocks, threads of a block, bytes of shared memory, stream.
type Configuration = (dim3, dim3, usize, usize);

/// Takes the configuration that was pushed last.
pub fn pop() -> Option<Configuration> {
    CONFIGURED.with(|configured| {
        let mut configured = configured.borrow_mut();
        let last = configured.pop();
        if configured.is_empty() {
            *configured = Vec::new();
        }
        last
    })
}

/// Checks how large a launch is.
fn shape(name: &str, grid: dim3, block: dim3, shared: usize) -> Result<Shape> {
    let (grid, block) = (grid.all(), block.all());
    let refuse = |what: String| {
        fault(codes::cudaErrorInvalidConfiguration, format!("the kernel {name} is launched with {what}"))
    };
    for (axis, i) in [("x", 0), ("y", 1), ("z", 2)] {
        if grid[i] == 0 || grid[i] > GRID[i] {
            return refuse(format!("gridDim.{axis} = {}; pass 1 to {} blocks", grid[i], GRID[i]));
        }
        if block[i] == 0 || block[i] > BLOCK[i] {
            return refuse(format!("blockDim.{axis} = {}; pass 1 to {} threads", block[i], BLOCK[i]));
        }
    }
    let threads = block.iter().product::<c_uint>();
    if threads > THREADS {
        return refuse(format!("{threads} threads a block; pass at most {THREADS}"));
    }
    if shared > SHARED {
        return refuse(format!("{shared} bytes of shared memory; pass at most {SHARED}"));
    }
    Ok(Shape { grid, block, shared })
}

/// Queues the run of a kernel, or records it where the stream is captured.
pub fn queue(call: Call, (grid, block, shared, on): Configuration) -> Result<()> {
    if grid::is_in_kernel() {
        return unsupported(format!(
            "the kernel {} is launched by a kernel; launch it from the host",
            call.name()
        ));
    }
    let shape = shape(&call.name(), grid, block, shared)?;
    stream::find(crate::handles::to_c(on))?.run(Operation::Kernel(Arc::new(call), shape))
}

/// Returns the run of a kernel, for a graph.
pub fn prepare(
    function: *const c_void,
    grid: dim3,
    block: dim3,
    places: *mut *mut c_void,
    shared: usize,
) -> Result<Operation> {
    let Some(kernel) = kernels::find(function) else { return unsupported(refusal(function)) };
    let shape = shape(&kernel.name(), grid, block, shared)?;
    Ok(Operation::Kernel(Arc::new(Call::copying(kernel, places)?), shape))
}

fn launch(function: *const c_void, places: *mut *mut c_void, configuration: Configuration) -> Result<()> {
    match kernels::find(function) {
        Some(kernel) => queue(Call::copying(kernel, places)?, configuration),
        None => refuse(function, crate::handles::to_c(configuration.3)),
    }
}

fn refuse(function: *const c_void, on: Handle) -> Result<()> {
    static ONCE: Once = Once::new();
    stream::find(on)?;
    let sentence = refusal(function);
    ONCE.call_once(|| eprintln!("penny-cudart: {sentence}"));
    unsupported(sentence)
}

fn refusal(function: *const c_void) -> String {
    format!(
        "the kernel {} cannot run: this CUDA runtime has no GPU; compile it with penny-nvcc, or run the program where there is a GPU",
        kernels::name(function)
    )
}

/// Returns the kernel behind an address.
fn known(function: *const c_void) -> Result<Kernel> {
    match kernels::find(function) {
        Some(kernel) => Ok(kernel),
        None => fault(
            codes::cudaErrorInvalidDeviceFunction,
            format!(
                "the kernel {} was not compiled by penny-nvcc, so it cannot run",
                kernels::name(function)
            ),
        ),
    }
}

cuda_api! {
    /// Launches a kernel whose arguments stand at the places `args`.
    fn cudaLaunchKernel(
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize,
        stream: Handle,
    ) {
        launch(func, args, (gridDim, blockDim, sharedMem, stream.addr()))
    }

    /// Launches a kernel of one block; the blocks of a larger one do not run at once.
    fn cudaLaunchCooperativeKernel(
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize,
        stream: Handle,
    ) {
        if kernels::find(func).is_some() && gridDim.all().iter().any(|&blocks| blocks > 1) {
            return unsupported(format!(
                "the kernel {} is launched with several blocks that wait for each other; here blocks run one after another",
                kernels::name(func)
            ));
        }
        launch(func, args, (gridDim, blockDim, sharedMem, stream.addr()))
    }

    /// Launches a kernel. Attributes of the launch are not looked at.
    fn cudaLaunchKernelExC(config: *const LaunchConfig, func: *const c_void, args: *mut *mut c_void) {
        let config = crate::guard::read(config, "config")?;
        launch(func, args, (config.grid, config.block, config.shared, config.stream.addr()))
    }

    /// Tells what a kernel needs: nothing but threads.
    fn cudaFuncGetAttributes(attr: *mut FuncAttributes, func: *const c_void) {
        let at = place(attr, "attr")?;
        known(func)?;
        at.set(FuncAttributes {
            sizes: [0; 3],
            maxThreadsPerBlock: THREADS as c_int,
            numRegs: 32,
            ptxVersion: 90,
            binaryVersion: 90,
            cacheModeCA: 0,
            maxDynamicSharedSizeBytes: SHARED as c_int,
            rest: [0; 23],
        });
        Ok(())
    }

    /// Does nothing: a kernel may use all shared memory.
    fn cudaFuncSetAttribute(_func: *const c_void, attr: c_int, value: c_int) {
        if attr == MAX_DYNAMIC_SHARED && !(0..=SHARED as c_int).contains(&value) {
            return crate::guard::invalid(format!("value is {value}; a block has at most {SHARED} bytes of shared memory"));
        }
        Ok(())
    }

    /// Does nothing: kernels have no cache of their own.
    fn cudaFuncSetCacheConfig(_func: *const c_void, _cacheConfig: c_int) {
        Ok(())
    }

    /// Returns how many blocks of a size a device of the properties would run at once.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        numBlocks: *mut c_int, func: *const c_void, blockSize: c_int, dynamicSMemSize: usize,
    ) {
        let at = place(numBlocks, "numBlocks")?;
        known(func)?;
        if !(1..=THREADS as c_int).contains(&blockSize) || dynamicSMemSize > SHARED {
            return crate::guard::invalid(format!(
                "blockSize is {blockSize} and dynamicSMemSize {dynamicSMemSize}; pass at most {THREADS} threads and {SHARED} bytes"
            ));
        }
        let by_memory = SHARED.checked_div(dynamicSMemSize).map_or(32, |blocks| blocks as c_int);
        at.set((2048 / blockSize).min(by_memory).min(32));
        Ok(())
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

/// Keeps the configuration of a launch until the call. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(
    gridDim: dim3,
    blockDim: dim3,
    sharedMem: usize,
    stream: Handle,
) -> c_uint {
    CONFIGURED.with(|configured| configured.borrow_mut().push((gridDim, blockDim, sharedMem, stream.addr())));
    0
}

cuda_api! {
    /// Returns the configuration of the launch whose call is made.
    fn __cudaPopCallConfiguration(
        gridDim: *mut dim3, blockDim: *mut dim3, sharedMem: *mut usize, stream: *mut Handle,
    ) {
        let Some((grid, block, shared, on)) = pop() else {
            return fault(codes::cudaErrorMissingConfiguration, "there is no configuration; launch with <<< >>>");
        };
        place(gridDim, "gridDim")?.set(grid);
        place(blockDim, "blockDim")?.set(block);
        place(sharedMem, "sharedMem")?.set(shared);
        place(stream, "stream")?.set(crate::handles::to_c(on));
        Ok(())
    }
}
