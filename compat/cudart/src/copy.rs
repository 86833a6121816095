//! Copies and sets. All memory is the host's, so every direction is a copy of the host.
//!
//! A copy without a stream waits for the legacy stream and is made by the caller. One on a stream is made by the caller, too, if
//! it is small and the stream is idle (`IN_PLACE_BYTES`); else in the stream's turn.

use std::ffi::{c_int, c_void};

use crate::guard::{Result, cuda_api, fault};
use crate::handles::{Handle, lock};
use crate::operation::{Block, Operation, refuse_in_host_function};
use crate::{capture, codes, device, order, stream};

/// The greatest cudaMemcpyKind.
const DEFAULT: c_int = 4;
const LEGACY: Handle = std::ptr::null_mut();

fn block(at: *const c_void, pitch: usize) -> Block {
    Block { at: at.expose_provenance(), pitch }
}

fn check_kind(kind: c_int) -> Result<()> {
    if (0..=DEFAULT).contains(&kind) {
        return Ok(());
    }
    fault(codes::cudaErrorInvalidMemcpyDirection, format!("kind is {kind}; pass a cudaMemcpyKind"))
}

/// Returns a copy of one row.
pub fn row(dst: *mut c_void, src: *const c_void, count: usize, kind: c_int) -> Result<Operation> {
    check_kind(kind)?;
    Operation::copy(block(dst, count), block(src, count), count, 1)
}

/// Returns an operation that sets rows to a byte.
fn set(at: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) -> Result<Operation> {
    Operation::set(block(at, pitch), u32::from(value as u8), 1, width, height)
}

/// Does an operation when everything before it on the legacy stream is over.
pub fn now(operation: &Operation) -> Result<()> {
    refuse_in_host_function()?;
    let stream = stream::find(LEGACY)?;
    capture::refuse_implied(&stream)?;
    // Without the lock: what others queue meanwhile has no order with this call, and this may wait for it.
    order::settle(&stream);
    let _order = lock(&stream.order);
    operation.perform()
}

cuda_api! {
    /// Copies when everything is over that was queued on the legacy stream.
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, count: usize, kind: c_int) {
        now(&row(dst, src, count, kind)?)
    }

    /// Copies in the stream's turn.
    fn cudaMemcpyAsync(dst: *mut c_void, src: *const c_void, count: usize, kind: c_int, stream: Handle) {
        stream::find(stream)?.run(row(dst, src, count, kind)?)
    }

    /// Copies between two devices.
    fn cudaMemcpyPeer(
        dst: *mut c_void, dstDevice: c_int, src: *const c_void, srcDevice: c_int, count: usize,
    ) {
        device::check(dstDevice)?;
        device::check(srcDevice)?;
        now(&row(dst, src, count, DEFAULT)?)
    }

    /// Copies between two devices in the stream's turn.
    fn cudaMemcpyPeerAsync(
        dst: *mut c_void, dstDevice: c_int, src: *const c_void, srcDevice: c_int, count: usize, stream: Handle,
    ) {
        device::check(dstDevice)?;
        device::check(srcDevice)?;
        stream::find(stream)?.run(row(dst, src, count, DEFAULT)?)
    }

    /// Copies rows.
    fn cudaMemcpy2D(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: c_int,
    ) {
        check_kind(kind)?;
        now(&Operation::copy(block(dst, dpitch), block(src, spitch), width, height)?)
    }

    /// Copies rows in the stream's turn.
    fn cudaMemcpy2DAsync(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: c_int, stream: Handle,
    ) {
        check_kind(kind)?;
        let copy = Operation::copy(block(dst, dpitch), block(src, spitch), width, height)?;
        stream::find(stream)?.run(copy)
    }

    /// Sets bytes, on the legacy stream.
    fn cudaMemset(devPtr: *mut c_void, value: c_int, count: usize) {
        stream::find(LEGACY)?.run(set(devPtr, count, value, count, 1)?)
    }

    /// Sets bytes in the stream's turn.
    fn cudaMemsetAsync(devPtr: *mut c_void, value: c_int, count: usize, stream: Handle) {
        stream::find(stream)?.run(set(devPtr, count, value, count, 1)?)
    }

    /// Sets rows of bytes, on the legacy stream.
    fn cudaMemset2D(devPtr: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        stream::find(LEGACY)?.run(set(devPtr, pitch, value, width, height)?)
    }

    /// Sets rows of bytes in the stream's turn.
    fn cudaMemset2DAsync(
        devPtr: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle,
    ) {
        stream::find(stream)?.run(set(devPtr, pitch, value, width, height)?)
    }
}
