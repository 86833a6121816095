//! Streams: Penny's streams behind handles, each on a device.
//!
//! ```text
//!     NULL, 1    the legacy stream of the thread's device: follows all blocking streams of the device, and they follow it
//!     2          the thread's own default stream on its device: a blocking stream
//!     others     streams that the program made: blocking, or not
//! ```
//!
//! A stream of Penny has a thread, so default streams are made at their first use. A default stream of a thread that has ended
//! serves the next thread. A thread that calls from destructors, when its own variables are gone, finds its streams among these.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::capture::{Capture, Step};
use crate::guard::{Fault, Result, cuda_api, fault, invalid, place};
use crate::handles::{self, Handle, lock};
use crate::operation::{Call, HostFunction, Operation, StreamCallback, refuse_in_host_function};
use crate::penny::PennyStream;
use crate::{capture, codes, device, fork, order, stream_table};

/// The flag of a stream that does not wait for the legacy stream.
const NON_BLOCKING: c_uint = 1;
/// Least and greatest priority. Penny's streams have none: the numbers are kept and have no effect.
const PRIORITIES: (c_int, c_int) = (0, -5);
/// The handle of the legacy stream, beside NULL.
const LEGACY: usize = 1;
/// The handle of the thread's own default stream.
const PER_THREAD: usize = 2;

/// A stream.
pub struct Stream {
    pub penny: PennyStream,
    pub device: c_int,
    /// Its handle, or that of the default stream that it is.
    pub number: usize,
    flags: c_uint,
    priority: c_int,
    id: usize,
    /// The process that made it.
    pub generation: u32,
    /// Held while something is queued, or made by the caller because the stream is idle.
    pub order: Mutex<()>,
    /// The capture that it takes part in.
    pub capture: Mutex<Option<Arc<Capture>>>,
    /// Destroyed by the program while work was queued.
    pub is_retired: AtomicBool,
    /// Given back to Penny: another thread may still ask for its state.
    is_gone: AtomicBool,
    /// What failed in Penny and no synchronization has told yet.
    failure: Mutex<Option<Fault>>,
}

struct Mine(Vec<Arc<Stream>>);

impl Drop for Mine {
    fn drop(&mut self) {
        let thread = this_thread();
        lock(&SPARE).extend(self.0.drain(..).map(|stream| (thread, stream)));
    }
}

thread_local! {
    /// The thread's own default streams, one for each device that it has used.
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}
/// Those of threads that have ended, or run their last destructors, with the thread.
static SPARE: Mutex<Vec<(libc::pid_t, Arc<Stream>)>> = Mutex::new(Vec::new());

fn this_thread() -> libc::pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

impl Stream {
    /// Makes a stream and lists it on its device.
    pub fn create(device: c_int, number: usize, flags: c_uint, priority: c_int) -> Result<Arc<Stream>> {
        let generation = fork::generation();
        order::sweep(device);
        let stream = Arc::new(Stream {
            penny: PennyStream::create()?,
            device,
            number,
            flags,
            priority,
            id: handles::fresh(),
            generation,
            order: Mutex::default(),
            capture: Mutex::default(),
            is_retired: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            failure: Mutex::default(),
        });
        order::list(&stream);
        Ok(stream)
    }

    /// Is it the legacy stream of its device?
    pub fn is_legacy(&self) -> bool {
        self.number == LEGACY
    }

    /// Do it and the legacy stream follow each other?
    pub fn is_blocking(&self) -> bool {
        !self.is_legacy() && self.flags & NON_BLOCKING == 0
    }

    /// Is everything over that was queued on it? Goes on with it where that needs no wait.
    pub fn is_idle(&self) -> bool {
        let outcome = self.penny.query();
        let is_pending = crate::penny::is_pending(&outcome);
        if !is_pending {
            self.note(outcome);
        }
        !is_pending
    }

    /// Waits until everything is over that was queued on it. Failures are told by the next synchronization.
    pub fn settle(&self) {
        self.note(self.penny.synchronize());
    }

    /// Gives it back to Penny.
    pub fn give_back(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.penny.destroy();
    }

    /// Makes its next operation wait for what is queued on another stream.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        match self.penny.follow(other.penny) {
            // It was idle.
            Err(_) if other.is_gone.load(Ordering::Acquire) => Ok(()),
            queued => queued,
        }
    }

    fn note(&self, outcome: Result<()>) {
        if let Err(failure) = outcome
            && !self.is_gone.load(Ordering::Acquire)
        {
            lock(&self.failure).get_or_insert(failure);
        }
    }

    /// Returns what has failed since this was told last.
    pub fn outcome(&self) -> Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Does an operation in its turn: records it where the stream is captured, makes it here if nothing is before it, else
    /// queues it.
    pub fn run(self: &Arc<Self>, operation: Operation) -> Result<()> {
        let Some(operation) = capture::take(self, operation)? else { return Ok(()) };
        let _order = lock(&self.order);
        self.run_in_order(operation)
    }

    fn run_in_order(self: &Arc<Self>, operation: Operation) -> Result<()> {
        if order::follow(self)? && self.is_idle() && operation.is_in_place() {
            return operation.perform();
        }
        let stream = self.clone();
        self.penny.call(Box::new(move || stream.note(operation.perform())))
    }

    /// Does the steps of a graph, one after another, up to one that is refused.
    pub fn replay(self: &Arc<Self>, steps: &[Step]) -> Result<()> {
        let _order = lock(&self.order);
        for step in steps {
            match step {
                Step::Operation(operation) => self.run_in_order(operation.clone())?,
                Step::Foreign(foreign) => {
                    order::follow(self)?;
                    foreign.replay(self.penny)?;
                }
                Step::Record(event) => event.record_on(self)?,
                Step::Wait(event) => event.await_on(self)?,
                // A sequence has the steps of graphs in their places.
                Step::Graph(_) | Step::Empty => {}
            }
        }
        Ok(())
    }
}

/// Returns the stream of a handle.
pub fn find(stream: Handle) -> Result<Arc<Stream>> {
    match stream.addr() {
        0 | LEGACY => order::legacy(device::current()?),
        PER_THREAD => mine(device::current()?),
        _ => match stream_table::get(stream) {
            Some(found) if found.generation == fork::generation() => Ok(found),
            Some(_) => fault(
                codes::cudaErrorInvalidResourceHandle,
                "stream belongs to the process that this one was forked from; make one here",
            ),
            None => fault(
                codes::cudaErrorInvalidResourceHandle,
                "stream is not a live stream: it was destroyed already, or is the handle of something else",
            ),
        },
    }
}

/// Makes the legacy stream of a device.
pub fn make_legacy(device: c_int) -> Result<Arc<Stream>> {
    Stream::create(device, LEGACY, 0, 0)
}

/// Returns the thread's own default stream.
fn mine(device: c_int) -> Result<Arc<Stream>> {
    let fits = |stream: &Arc<Stream>| stream.device == device && stream.generation == fork::generation();
    let found = MINE.try_with(|mine| {
        let mut mine = mine.borrow_mut();
        if let Some(found) = mine.0.iter().find(|stream| fits(stream)) {
            return Ok(found.clone());
        }
        let spare = {
            let mut spare = lock(&SPARE);
            spare.iter().position(|(_, stream)| fits(stream)).map(|at| spare.swap_remove(at).1)
        };
        let stream = spare.map_or_else(|| Stream::create(device, PER_THREAD, 0, 0), Ok)?;
        mine.0.push(stream.clone());
        Ok(stream)
    });
    found.unwrap_or_else(|_| {
        let thread = this_thread();
        let own = lock(&SPARE).iter().find(|(of, stream)| *of == thread && fits(stream)).cloned();
        if let Some((_, stream)) = own {
            return Ok(stream);
        }
        let stream = Stream::create(device, PER_THREAD, 0, 0)?;
        lock(&SPARE).push((thread, stream.clone()));
        Ok(stream)
    })
}

fn create(at: *mut Handle, flags: c_uint, priority: c_int) -> Result<()> {
    let at = place(at, "pStream")?;
    if flags & !NON_BLOCKING != 0 {
        return invalid(format!("flags is {flags}; pass cudaStreamDefault or cudaStreamNonBlocking"));
    }
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let number = handles::fresh();
    let stream = Stream::create(device::current()?, number, flags, priority)?;
    stream_table::insert(number, stream);
    at.set(handles::to_c(number));
    Ok(())
}

/// Destroys the streams that the program made on a device.
pub fn destroy_all(device: c_int) {
    for (number, stream) in stream_table::all() {
        if stream.device == device {
            stream_table::remove(handles::to_c(number));
            order::retire(&stream);
        }
    }
}

cuda_api! {
    /// Makes a stream that the legacy stream waits for, and that waits for it.
    fn cudaStreamCreate(pStream: *mut Handle) {
        create(pStream, 0, 0)
    }

    /// Makes a stream.
    fn cudaStreamCreateWithFlags(pStream: *mut Handle, flags: c_uint) {
        create(pStream, flags, 0)
    }

    /// Makes a stream. The priority is kept and has no effect.
    fn cudaStreamCreateWithPriority(pStream: *mut Handle, flags: c_uint, priority: c_int) {
        create(pStream, flags, priority)
    }

    /// Destroys a stream at once; what is queued on it still runs.
    fn cudaStreamDestroy(stream: Handle) {
        if stream.addr() <= PER_THREAD {
            return fault(codes::cudaErrorInvalidResourceHandle, "stream is a default stream, which stays");
        }
        let found = find(stream)?;
        capture::abandon(&found);
        stream_table::remove(stream);
        order::retire(&found);
        Ok(())
    }

    /// Waits until everything is over that was queued on the stream; the legacy stream: on all blocking streams of the device.
    fn cudaStreamSynchronize(stream: Handle) {
        refuse_in_host_function()?;
        let stream = find(stream)?;
        capture::refuse(&stream)?;
        order::settle(&stream);
        stream.outcome()
    }

    /// Tests whether everything is over that was queued on the stream.
    fn cudaStreamQuery(stream: Handle) {
        let stream = find(stream)?;
        capture::refuse(&stream)?;
        if !order::is_idle(&stream) {
            return fault(codes::cudaErrorNotReady, "work of the stream has not completed yet");
        }
        // On a declared machine the thread knows from now on when that was.
        order::settle(&stream);
        stream.outcome()
    }

    /// Queues a call of a function, which the stream's thread makes.
    fn cudaLaunchHostFunc(stream: Handle, r#fn: HostFunction, userData: *mut c_void) {
        let Some(function) = r#fn else { return invalid("fn is NULL; pass the function to be called") };
        find(stream)?.run(Operation::Call(Call::Host(function, userData.expose_provenance())))
    }

    /// Queues a call of a function with the stream and a result, which is cudaSuccess.
    fn cudaStreamAddCallback(stream: Handle, callback: StreamCallback, userData: *mut c_void, flags: c_uint) {
        let Some(callback) = callback else { return invalid("callback is NULL; pass the function to be called") };
        if flags != 0 {
            return invalid(format!("flags is {flags}; pass 0"));
        }
        let found = find(stream)?;
        capture::refuse(&found)?;
        let call = Call::Callback(callback, stream.addr(), userData.expose_provenance());
        found.run(Operation::Call(call))
    }

    /// Returns the priority that the stream was made with.
    fn cudaStreamGetPriority(stream: Handle, priority: *mut c_int) {
        let at = place(priority, "priority")?;
        at.set(find(stream)?.priority);
        Ok(())
    }

    /// Returns the flags that the stream was made with.
    fn cudaStreamGetFlags(stream: Handle, flags: *mut c_uint) {
        let at = place(flags, "flags")?;
        at.set(find(stream)?.flags);
        Ok(())
    }

    /// Returns a number that no other stream of the process has.
    fn cudaStreamGetId(stream: Handle, streamId: *mut c_ulonglong) {
        let at = place(streamId, "streamId")?;
        at.set(find(stream)?.id as c_ulonglong);
        Ok(())
    }

    /// Returns the device that the stream was made on.
    fn cudaStreamGetDevice(stream: Handle, device: *mut c_int) {
        let at = place(device, "device")?;
        at.set(find(stream)?.device);
        Ok(())
    }

    /// Returns the range of priorities.
    fn cudaDeviceGetStreamPriorityRange(leastPriority: *mut c_int, greatestPriority: *mut c_int) {
        crate::guard::set_if_wanted(leastPriority, PRIORITIES.0);
        crate::guard::set_if_wanted(greatestPriority, PRIORITIES.1);
        Ok(())
    }

    /// Does nothing: all memory can be reached by all streams.
    fn cudaStreamAttachMemAsync(stream: Handle, _devPtr: *mut c_void, _length: usize, _flags: c_uint) {
        find(stream).map(drop)
    }
}

/// Marks a stream as destroyed by the program.
pub fn mark_retired(stream: &Stream) {
    stream.is_retired.store(true, Ordering::Relaxed);
}
