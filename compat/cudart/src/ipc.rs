//! Handles for other processes, which are refused: Penny's communicators share memory between processes themselves.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::guard::{cuda_api, unsupported};
use crate::handles::Handle;

/// A handle for another process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle {
    reserved: [c_char; 64],
}

const REMEDY: &str =
    "memory is shared with other processes by communicators only; use collectives, or windows of penny.h";

cuda_api! {
    /// Refuses to give memory to other processes.
    fn cudaIpcGetMemHandle(_handle: *mut IpcHandle, _devPtr: *mut c_void) {
        unsupported(REMEDY)
    }

    /// Refuses to take memory of another process.
    fn cudaIpcOpenMemHandle(_devPtr: *mut *mut c_void, _handle: IpcHandle, _flags: c_uint) {
        unsupported(REMEDY)
    }

    /// Refuses to give memory of another process back.
    fn cudaIpcCloseMemHandle(_devPtr: *mut c_void) {
        unsupported(REMEDY)
    }

    /// Refuses to give an event to other processes.
    fn cudaIpcGetEventHandle(_handle: *mut IpcHandle, _event: Handle) {
        unsupported("events belong to their process; use a barrier of a communicator")
    }

    /// Refuses to take an event of another process.
    fn cudaIpcOpenEventHandle(_event: *mut Handle, _handle: IpcHandle) {
        unsupported("events belong to their process; use a barrier of a communicator")
    }

    /// Refuses to give a pool to other processes.
    fn cudaMemPoolExportToShareableHandle(
        _handle: *mut c_void, _pool: Handle, _handleType: c_int, _flags: c_uint,
    ) {
        unsupported(REMEDY)
    }

    /// Refuses to take a pool of another process.
    fn cudaMemPoolImportFromShareableHandle(
        _pool: *mut Handle, _handle: *mut c_void, _handleType: c_int, _flags: c_uint,
    ) {
        unsupported(REMEDY)
    }
}
