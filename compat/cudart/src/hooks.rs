//! What a library beside this one asks, which it finds with `dlsym`: Penny's stream behind a handle, and whether its calls on a
//! stream are recorded.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::capture::{self, Foreign, Replay, Step};
use crate::guard::{call, place};
use crate::handles::{Handle, lock};
use crate::{order, stream};

/// Returns the stream of Penny on which a library is about to queue a call for `cudaStream`; work that the call must wait for is
/// waited for there. Ask before each call, or before each group of calls. Returns 0, or a CUDA result for a handle that is not that of
/// a stream.
///
/// Ask [`pennyCudaCapture`] as well: a call that is queued on the stream of Penny runs, also while the stream is captured.
///
/// NULL, 1: the legacy stream of the thread's device; 2: the thread's own default stream.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaStream(cudaStream: Handle, pennyStream: *mut *mut c_void) -> c_int {
    call("pennyCudaStream", || {
        let at = place(pennyStream, "pennyStream")?;
        let stream = stream::find(cudaStream)?;
        capture::refuse_implied(&stream)?;
        if order::may_follow(&stream) {
            let _order = lock(&stream.order);
            order::follow(&stream)?;
        }
        at.set(stream.penny.handle().cast());
        Ok(())
    })
}

/// Returns a number that the streams of one capture have in common and no other; 0: the stream is not captured, or there is no such
/// stream.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaCaptureId(cudaStream: Handle) -> c_ulonglong {
    let id = || {
        let stream = stream::find(cudaStream).ok()?;
        capture::of(&stream).map(|capture| capture.id as c_ulonglong)
    };
    if !capture::is_any_under_way() {
        return 0;
    }
    catch_unwind(id).ok().flatten().unwrap_or(0)
}

/// Records a call of another library, if the stream is captured: returns 1. Then `replay(arg, pennyStream)` queues the call at each
/// launch of the graph, and `drop(arg)`, which may be NULL, is called once when nothing can launch it any more. Returns 0 if
/// the stream is not captured, or there is no such stream; the caller keeps `arg`.
///
/// `replay` returns NULL, or a sentence that says why the call was refused: it ends the launch, which fails with the sentence. The
/// text is valid until the library is called again by the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn pennyCudaCapture(
    cudaStream: Handle,
    replay: Option<Replay>,
    arg: *mut c_void,
    drop: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (Ok(stream), Some(replay)) = (stream::find(cudaStream), replay) else { return false };
        if capture::of(&stream).is_none() {
            return false;
        }
        let foreign = || Foreign { replay, drop, argument: arg.expose_provenance() };
        // A spoiled capture records nothing more; its end reports that.
        match capture::record(&stream, || Step::Foreign(Arc::new(foreign()))) {
            Ok(is_recorded) => is_recorded,
            Err(_) => {
                std::mem::drop(foreign());
                true
            }
        }
    }));
    outcome.unwrap_or(false).into()
}
