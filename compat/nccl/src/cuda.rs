//! A CUDA runtime in the process, found by its names: Penny's, whose streams are Penny's, or NVIDIA's, whose memory Penny cannot reach.
//!
//! ```text
//!     pennyCudaStream is there        a stream is translated, NULL too; memory of the runtime is memory of this process
//!     cudaPointerGetAttributes only   NVIDIA's: a buffer that lies on a device is refused
//!     neither                         NULL is a blocking call; other streams are Penny's own, or are refused
//! ```

use crate::boundary::{Outcome, argument};
use crate::records;
use crate::types::{cudaStream_t, ncclComm_t};
use penny_sys::pennyStream_t;
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::mem::transmute;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::OnceLock;

/// Writes Penny's stream of a stream of the CUDA runtime; 0 on success.
type StreamOf = unsafe extern "C" fn(stream: *mut c_void, penny: *mut *mut c_void) -> c_int;
/// Returns the number of the capture that a stream takes part in, or 0.
type CaptureId = unsafe extern "C" fn(stream: *mut c_void) -> c_ulonglong;
/// Makes a captured call on a stream of Penny: NULL, or why it was refused.
pub type Replay = unsafe extern "C" fn(argument: *mut c_void, stream: *mut c_void) -> *const c_char;
/// Takes a call of a captured stream: 1 if it was recorded.
type Capture = unsafe extern "C" fn(
    stream: *mut c_void,
    replay: Replay,
    argument: *mut c_void,
    forget: unsafe extern "C" fn(*mut c_void),
) -> c_int;
type GetDevice = unsafe extern "C" fn(device: *mut c_int) -> c_int;
type SetDevice = unsafe extern "C" fn(device: c_int) -> c_int;
type GetAttributes = unsafe extern "C" fn(attributes: *mut Attributes, pointer: *const c_void) -> c_int;

/// `cudaPointerAttributes`, with room for what later versions add.
#[repr(C)]
struct Attributes {
    kind: c_int,
    device: c_int,
    rest: [u64; 16],
}

/// `cudaMemoryTypeDevice`.
const ON_DEVICE: c_int = 2;

struct Runtime {
    stream: Option<StreamOf>,
    capture_id: Option<CaptureId>,
    capture: Option<Capture>,
    device: Option<GetDevice>,
    set_device: Option<SetDevice>,
    device_count: Option<GetDevice>,
    attributes: Option<GetAttributes>,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Runtimes that a program may have loaded for itself alone, as Python's packages do.
const LIBRARIES: [&CStr; 4] = [c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0", c"libcudart.so"];

/// Looks for a runtime, unless one was found: when a communicator is made, because a program may load it late.
pub fn look() {
    if RUNTIME.get().is_some() {
        return;
    }
    let stream = find(c"pennyCudaStream");
    let attributes = find(c"cudaPointerGetAttributes");
    if stream.is_none() && attributes.is_none() {
        return;
    }
    let device = find(c"cudaGetDevice");
    let set_device = find(c"cudaSetDevice");
    let device_count = find(c"cudaGetDeviceCount");
    let capture_id = find(c"pennyCudaCaptureId");
    let capture = find(c"pennyCudaCapture");
    // SAFETY: the functions of these names have these parameters in every version of the runtime.
    let runtime = unsafe {
        Runtime {
            stream: stream.map(|address| transmute::<*mut c_void, StreamOf>(address)),
            capture_id: capture_id.map(|address| transmute::<*mut c_void, CaptureId>(address)),
            capture: capture.map(|address| transmute::<*mut c_void, Capture>(address)),
            device: device.map(|address| transmute::<*mut c_void, GetDevice>(address)),
            set_device: set_device.map(|address| transmute::<*mut c_void, SetDevice>(address)),
            device_count: device_count.map(|address| transmute::<*mut c_void, GetDevice>(address)),
            attributes: attributes.map(|address| transmute::<*mut c_void, GetAttributes>(address)),
        }
    };
    let _ = RUNTIME.set(runtime);
}

fn find(name: &CStr) -> Option<*mut c_void> {
    let found = |library| {
        // SAFETY: the name ends with 0, and the library is one that is loaded or the default.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    let loaded = || {
        LIBRARIES.iter().find_map(|library| {
            // SAFETY: the name ends with 0, and nothing is loaded that was not before. The handle keeps the library.
            let library = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if library.is_null() { None } else { found(library) }
        })
    };
    found(libc::RTLD_DEFAULT).or_else(loaded)
}

/// A stream of the program, and the communicator on whose device it is the default stream if it is NULL, 1 or 2.
#[derive(Clone, Copy)]
pub struct DeviceStream {
    stream: cudaStream_t,
    comm: ncclComm_t,
}

/// The streams that CUDA has by number: the default stream, as it was and a thread's own.
const NUMBERED: std::ops::RangeInclusive<usize> = 1..=2;

impl DeviceStream {
    /// Returns what a stream of a call is on a communicator.
    #[inline]
    pub fn new(stream: cudaStream_t, comm: ncclComm_t) -> DeviceStream {
        DeviceStream { stream, comm }
    }

    /// Returns the device to be used for it; `None`: any, or the one that the thread uses.
    fn device(&self) -> Option<i32> {
        if self.is_numbered() { records::device(self.comm) } else { None }
    }

    fn is_numbered(&self) -> bool {
        self.stream.is_null() || NUMBERED.contains(&self.stream.addr())
    }

    /// Asks the runtime about the stream while the thread uses the stream's device.
    fn ask<T>(&self, runtime: &Runtime, ask: impl FnOnce(*mut c_void) -> T) -> Outcome<T> {
        let elsewhere = self.device().zip(runtime.device.zip(runtime.set_device));
        let Some((device, (get, set))) = elsewhere else { return Ok(ask(self.stream)) };
        let mut current = device;
        // SAFETY: the runtime writes the place on success.
        let known = unsafe { get(&mut current) } == 0;
        if !known || current == device {
            return Ok(ask(self.stream));
        }
        // SAFETY: the runtime checks the number.
        match unsafe { set(device) } {
            0 => {
                let answer = ask(self.stream);
                // SAFETY: as above; the number was the thread's.
                unsafe { set(current) };
                Ok(answer)
            }
            error => Err(argument(format!(
                "stream is a default stream, and device {device} of the communicator is none of the CUDA runtime (its error \
                 {error}); pass a stream of cudaStreamCreate"
            ))),
        }
    }
}

/// Returns Penny's stream for one of the program.
#[inline]
pub fn stream(stream: DeviceStream) -> Outcome<pennyStream_t> {
    let Some((runtime, of)) = RUNTIME.get().and_then(|runtime| Some((runtime, runtime.stream?))) else {
        // Penny's handles say what they are; Penny refuses another address.
        let own = stream.is_numbered();
        return Ok(if own { null_mut() } else { without_provenance_mut(stream.stream.addr()) });
    };
    let mut penny = null_mut();
    // SAFETY: Penny's runtime checks the stream and writes the place on success.
    match stream.ask(runtime, |stream| unsafe { of(stream, &mut penny) })? {
        0 => Ok(penny.cast()),
        error => Err(argument(format!(
            "stream is no stream of the CUDA runtime (its error {error}); pass one of cudaStreamCreate that was not destroyed"
        ))),
    }
}

/// Names a capture of Penny's runtime. The streams that take part in it have the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CaptureNumber(u64);

/// Returns the capture of Penny's runtime that a stream takes part in.
#[inline]
pub fn captured_in(stream: DeviceStream) -> Option<CaptureNumber> {
    let runtime = RUNTIME.get()?;
    let (_, number) = runtime.stream.zip(runtime.capture_id)?;
    // SAFETY: the runtime checks the stream.
    let number = stream.ask(runtime, |stream| unsafe { number(stream) }).ok()?;
    (number != 0).then_some(CaptureNumber(number))
}

/// Hands a call on a captured stream over to the runtime: `replay(argument, stream of Penny)` makes it, and `forget(argument)` is the last
/// call. Returns false if it was not taken.
pub fn capture(
    stream: DeviceStream,
    replay: Replay,
    argument: *mut c_void,
    forget: unsafe extern "C" fn(*mut c_void),
) -> bool {
    let Some((runtime, capture)) = RUNTIME.get().and_then(|runtime| Some((runtime, runtime.capture?))) else {
        return false;
    };
    // SAFETY: Penny's runtime checks the stream, and calls both functions with the argument only.
    stream.ask(runtime, |stream| unsafe { capture(stream, replay, argument, forget) == 1 }).unwrap_or(false)
}

/// Are streams translated?
pub fn has_streams() -> bool {
    RUNTIME.get().is_some_and(|runtime| runtime.stream.is_some())
}

/// Returns the calling thread's device, if there is a runtime that knows it.
pub fn current_device() -> Option<i32> {
    let get = RUNTIME.get()?.device?;
    let mut device = 0;
    // SAFETY: the runtime writes the place on success.
    (unsafe { get(&mut device) } == 0).then_some(device)
}

/// Returns how many devices Penny's runtime has; `None`: there is none.
pub fn devices() -> Outcome<Option<i32>> {
    let Some(runtime) = RUNTIME.get().filter(|runtime| runtime.stream.is_some()) else { return Ok(None) };
    let Some(count) = runtime.device_count else { return Ok(None) };
    let mut devices = 0;
    // SAFETY: the runtime writes the place on success.
    match unsafe { count(&mut devices) } {
        0 => Ok(Some(devices)),
        error => Err(argument(format!(
            "the CUDA runtime has no device (its error {error}); set PENNY_DEVICES to the number of devices"
        ))),
    }
}

/// Refuses a buffer that lies on a device of NVIDIA's runtime.
#[inline]
pub fn on_host(buffer: *const c_void, name: &str) -> Outcome {
    match RUNTIME.get() {
        Some(Runtime { stream: None, attributes: Some(get), .. }) if !buffer.is_null() => {
            let mut attributes = Attributes { kind: 0, device: 0, rest: [0; 16] };
            // SAFETY: the place has room for the attributes of every version.
            let known = unsafe { get(&mut attributes, buffer) } == 0;
            match known && attributes.kind == ON_DEVICE {
                true => Err(argument(format!(
                    "{name} is memory of GPU {}, which Penny cannot reach; pass memory of the host, such as that of malloc, \
                     cudaMallocHost or ncclMemAlloc",
                    attributes.device
                ))),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
