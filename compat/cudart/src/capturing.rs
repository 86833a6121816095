//! The functions that capture streams; what a capture is says `capture.rs`.

use std::ffi::{c_int, c_ulonglong};

use crate::capture::{self, MODE, RELAXED};
use crate::guard::{Result, cuda_api, invalid, place, set_if_wanted};
use crate::handles::{self, Handle};
use crate::stream;

fn info(
    stream: Handle,
    status: *mut c_int,
    id: *mut c_ulonglong,
    graph: *mut Handle,
    dependencies: *mut *const Handle,
    count: *mut usize,
) -> Result<()> {
    let at = place(status, "captureStatus_out")?;
    let (status, capture) = capture::status(&*stream::find(stream)?)?;
    at.set(status);
    if let Some(capture) = capture {
        set_if_wanted(id, capture.id as c_ulonglong);
        set_if_wanted(graph, handles::to_c(capture.graph.number));
    }
    set_if_wanted(dependencies, std::ptr::null());
    set_if_wanted(count, 0);
    Ok(())
}

cuda_api! {
    /// Begins to record the stream's operations.
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) {
        capture::begin(&stream::find(stream)?, mode)
    }

    /// Ends the recording; the graph of what was recorded.
    fn cudaStreamEndCapture(stream: Handle, pGraph: *mut Handle) {
        let at = place(pGraph, "pGraph")?;
        match capture::end(&stream::find(stream)?) {
            Ok(graph) => at.set(handles::to_c(graph.number)),
            Err(fault) => {
                at.set(std::ptr::null_mut());
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Tells whether the stream's operations are recorded.
    fn cudaStreamIsCapturing(stream: Handle, pCaptureStatus: *mut c_int) {
        let at = place(pCaptureStatus, "pCaptureStatus")?;
        at.set(capture::status(&*stream::find(stream)?)?.0);
        Ok(())
    }

    /// Tells about the recording of a stream.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: *mut c_int, id: *mut c_ulonglong) {
        let none = std::ptr::null_mut();
        info(stream, status, id, none, std::ptr::null_mut(), std::ptr::null_mut())
    }

    /// Tells about the recording of a stream. There are no dependencies to be told: steps run in their order.
    fn cudaStreamGetCaptureInfo_v2(
        stream: Handle, status: *mut c_int, id: *mut c_ulonglong, graph: *mut Handle,
        dependencies: *mut *const Handle, numDependencies: *mut usize,
    ) {
        info(stream, status, id, graph, dependencies, numDependencies)
    }

    /// Exchanges the thread's mode, which has no effect here: no call is refused because another thread captures.
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        let at = place(mode, "mode")?;
        let wanted = at.get();
        if !(0..=RELAXED).contains(&wanted) {
            return invalid(format!("*mode is {wanted}; pass a cudaStreamCaptureMode"));
        }
        at.set(MODE.replace(wanted));
        Ok(())
    }
}
