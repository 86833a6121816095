//! Operations: what a stream does in its turn, and what a graph repeats.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::grid::{self, Shape};
use crate::guard::{Result, fault, invalid};
use crate::handles::Handle;
use crate::{allocations, codes, kernels, memory};

/// A function of the program that a stream calls.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

/// A function of the program that a stream calls with its handle and a result.
pub type StreamCallback = Option<unsafe extern "C" fn(Handle, c_int, *mut c_void)>;

/// Copies at most this large are made by the caller if the stream is idle; the stream's thread makes the others. The wake of
/// another thread takes about as long as a copy of this size, and a larger copy can go on beside the program.
pub const IN_PLACE_BYTES: usize = 256 << 10;

/// A block of memory: rows of `width` bytes, `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub at: usize,
    pub pitch: usize,
}

/// An operation of a stream.
#[derive(Clone)]
pub enum Operation {
    /// Copies rows. They may overlap if there is one.
    Copy { to: Block, from: Block, width: usize, height: usize },
    /// Sets rows to a value of 1, 2 or 4 bytes. The width is in bytes.
    Set { at: Block, value: u32, element: usize, width: usize, height: usize },
    /// Calls a function of the program.
    Call(Call),
    /// Runs a kernel.
    Kernel(Arc<kernels::Call>, Shape),
    /// Frees memory that was taken out of the table.
    Free(memory::Freed),
}

/// A call of a function of the program.
#[derive(Clone, Copy)]
pub enum Call {
    Host(unsafe extern "C" fn(*mut c_void), usize),
    Callback(unsafe extern "C" fn(Handle, c_int, *mut c_void), usize, usize),
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a wait in a function that a stream calls: the stream could wait for itself.
pub fn refuse_in_host_function() -> Result<()> {
    if IN_HOST_FUNCTION.get() {
        return fault(
            codes::cudaErrorNotPermitted,
            "a function that a stream calls must not wait for streams or free memory; do that in another thread",
        );
    }
    Ok(())
}

impl Operation {
    /// Returns a copy of `width * height` bytes, checked.
    pub fn copy(to: Block, from: Block, width: usize, height: usize) -> Result<Operation> {
        if width == 0 || height == 0 {
            return Ok(Operation::Copy { to, from, width: 0, height: 0 });
        }
        check_block("dst", to, width, height)?;
        check_block("src", from, width, height)?;
        Ok(Operation::Copy { to, from, width, height })
    }

    /// Returns an operation that sets `width * height` bytes to elements of a value, checked.
    pub fn set(at: Block, value: u32, element: usize, width: usize, height: usize) -> Result<Operation> {
        if width == 0 || height == 0 {
            return Ok(Operation::Set { at, value, element, width: 0, height: 0 });
        }
        check_block("devPtr", at, width, height)?;
        Ok(Operation::Set { at, value, element, width, height })
    }

    /// May the caller make it, if the stream is idle?
    pub fn is_in_place(&self) -> bool {
        match self {
            Operation::Copy { width, height, .. } | Operation::Set { width, height, .. } => {
                width * height <= IN_PLACE_BYTES
            }
            Operation::Free(_) => true,
            // They may wait for what their caller does next.
            Operation::Call(_) | Operation::Kernel(..) => false,
        }
    }

    /// Does it. Only a kernel can fail.
    pub fn perform(&self) -> Result<()> {
        match self {
            Operation::Copy { to, from, width, height } => {
                for row in 0..*height {
                    let (to, from) = (to.at + row * to.pitch, from.at + row * from.pitch);
                    // SAFETY: the program promised both blocks to the function that made this operation, until it is over.
                    unsafe { std::ptr::copy(at(from), at(to), *width) };
                }
            }
            Operation::Set { at: block, value, element, width, height } => {
                let value = &value.to_le_bytes()[..*element];
                for row in 0..*height {
                    let row = at(block.at + row * block.pitch);
                    if value.iter().all(|byte| *byte == value[0]) {
                        // SAFETY: as above.
                        unsafe { std::ptr::write_bytes(row, value[0], *width) };
                        continue;
                    }
                    for i in 0..*width / *element {
                        // SAFETY: as above.
                        unsafe {
                            std::ptr::copy_nonoverlapping(value.as_ptr(), row.add(i * *element), *element)
                        };
                    }
                }
            }
            Operation::Call(call) => {
                IN_HOST_FUNCTION.set(true);
                call.make();
                IN_HOST_FUNCTION.set(false);
            }
            Operation::Kernel(call, shape) => {
                IN_HOST_FUNCTION.set(true);
                let outcome = grid::run(call, shape);
                IN_HOST_FUNCTION.set(false);
                return outcome;
            }
            Operation::Free(freed) => freed.free(),
        }
        Ok(())
    }
}

fn at(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

impl Call {
    fn make(self) {
        match self {
            // SAFETY: the program promised that the function may be called with this argument.
            Call::Host(function, data) => unsafe { function(at(data).cast()) },
            Call::Callback(function, stream, data) => {
                // SAFETY: as above.
                unsafe { function(crate::handles::to_c(stream), codes::cudaSuccess, at(data).cast()) }
            }
        }
    }
}

fn check_block(name: &str, block: Block, width: usize, height: usize) -> Result<()> {
    if block.at == 0 {
        return invalid(format!("{name} is NULL; pass memory of {} bytes", width.saturating_mul(height)));
    }
    if height > 1 && block.pitch < width {
        return fault(
            codes::cudaErrorInvalidPitchValue,
            format!("the pitch of {name} is {}, less than a row of {width} bytes", block.pitch),
        );
    }
    let bytes = (height - 1).checked_mul(block.pitch).and_then(|before| before.checked_add(width));
    match bytes.filter(|&bytes| block.at.checked_add(bytes).is_some()) {
        Some(bytes) if width.checked_mul(height).is_some_and(|all| all <= isize::MAX as usize) => {
            allocations::check_range(name, block.at, bytes)
        }
        _ => invalid(format!("{name} and the count go beyond the address space; pass the count in bytes")),
    }
}
