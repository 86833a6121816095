//! Events: points in a stream's work.

use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex};

use crate::capture::{self, Moment, Step};
use crate::guard::{Result, cuda_api, fault, invalid, place};
use crate::handles::{self, Handle, Table, lock};
use crate::operation::refuse_in_host_function;
use crate::penny::{PennyEvent, is_pending};
use crate::stream::Stream;
use crate::{codes, device, fork, order, stream};

/// The thread that waits may sleep. It may here in any case.
const BLOCKING_SYNC: c_uint = 1;
/// The event has no time.
const DISABLE_TIMING: c_uint = 2;
/// Other processes may wait for the event.
const INTERPROCESS: c_uint = 4;
/// In a capture the event, or the wait for it, becomes a node of the graph.
const EXTERNAL: c_uint = 1;

/// An event.
pub struct Event {
    number: usize,
    penny: PennyEvent,
    device: c_int,
    flags: c_uint,
    /// The process that made it.
    generation: u32,
    recorded: Mutex<Recorded>,
}

/// Where an event was recorded last.
enum Recorded {
    Never,
    OnStream,
    InCapture(Moment),
}

static EVENTS: Table<Event> = Table::new();

impl Drop for Event {
    fn drop(&mut self) {
        self.penny.destroy();
    }
}

impl Event {
    fn moment(&self) -> Option<Moment> {
        match &*lock(&self.recorded) {
            Recorded::InCapture(moment) => Some(moment.clone()),
            _ => None,
        }
    }

    fn refuse_captured(&self) -> Result<()> {
        if self.moment().is_none() {
            return Ok(());
        }
        fault(
            codes::cudaErrorCapturedEvent,
            "event was recorded on a captured stream, where it never completes; record it on another stream",
        )
    }

    /// Returns its handle's number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Records it on a stream, whose order is locked.
    pub fn record_on(&self, stream: &Stream) -> Result<()> {
        order::follow(stream)?;
        self.penny.record(Some(stream.penny))?;
        *lock(&self.recorded) = Recorded::OnStream;
        Ok(())
    }

    /// Makes a stream, whose order is locked, wait for it.
    pub fn await_on(&self, stream: &Stream) -> Result<()> {
        if is_pending(&self.penny.query()) {
            order::follow(stream)?;
            stream.penny.wait(self.penny)?;
        }
        Ok(())
    }

    fn is_recorded(&self) -> bool {
        matches!(&*lock(&self.recorded), Recorded::OnStream)
    }
}

/// Returns the event of a handle.
pub fn find(event: Handle) -> Result<Arc<Event>> {
    match EVENTS.get(event) {
        Some(found) if found.generation == fork::generation() => Ok(found),
        Some(_) => fault(
            codes::cudaErrorInvalidResourceHandle,
            "event belongs to the process that this one was forked from; make one here",
        ),
        None => fault(
            codes::cudaErrorInvalidResourceHandle,
            "event is not a live event: it was destroyed already, or is the handle of something else",
        ),
    }
}

fn create(at: *mut Handle, flags: c_uint) -> Result<()> {
    let at = place(at, "event")?;
    if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
        return invalid(format!("flags is {flags}; pass a sum of the flags cudaEvent..."));
    }
    if flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
        return invalid("flags has cudaEventInterprocess; add cudaEventDisableTiming");
    }
    let number = handles::fresh();
    let event = Event {
        number,
        penny: PennyEvent::create()?,
        device: device::current()?,
        flags,
        generation: fork::generation(),
        recorded: Mutex::new(Recorded::Never),
    };
    EVENTS.insert(number, Arc::new(event));
    at.set(handles::to_c(number));
    Ok(())
}

fn record(event: Handle, on: Handle, flags: c_uint) -> Result<()> {
    let event = find(event)?;
    let stream = stream::find(on)?;
    if flags & !EXTERNAL != 0 {
        return invalid(format!("flags is {flags}; pass cudaEventRecordDefault"));
    }
    if event.device != stream.device {
        return fault(
            codes::cudaErrorInvalidResourceHandle,
            format!(
                "event was made on device {} and stream on device {}; make the event on the stream's device",
                event.device, stream.device
            ),
        );
    }
    if flags & EXTERNAL != 0 && capture::record(&stream, || Step::Record(event.clone()))? {
        return Ok(());
    }
    if let Some(moment) = capture::moment(&stream)? {
        *lock(&event.recorded) = Recorded::InCapture(moment);
        return Ok(());
    }
    let _order = lock(&stream.order);
    event.record_on(&stream)
}

/// Destroys the events of a device.
pub fn destroy_all(device: c_int) {
    for (number, event) in EVENTS.all() {
        if event.device == device {
            EVENTS.remove(handles::to_c(number));
        }
    }
}

cuda_api! {
    /// Makes an event, which is complete until it is recorded.
    fn cudaEventCreate(event: *mut Handle) {
        create(event, 0)
    }

    /// Makes an event.
    fn cudaEventCreateWithFlags(event: *mut Handle, flags: c_uint) {
        create(event, flags)
    }

    /// Records the event: it is complete when everything is over that was queued on the stream before.
    fn cudaEventRecord(event: Handle, stream: Handle) {
        record(event, stream, 0)
    }

    /// Records the event.
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        record(event, stream, flags)
    }

    /// Tests whether the event is complete.
    fn cudaEventQuery(event: Handle) {
        let event = find(event)?;
        event.refuse_captured()?;
        event.penny.query()?;
        // On a declared machine the thread knows from now on when that was.
        event.penny.synchronize()
    }

    /// Waits until the event is complete.
    fn cudaEventSynchronize(event: Handle) {
        refuse_in_host_function()?;
        let event = find(event)?;
        event.refuse_captured()?;
        event.penny.synchronize()
    }

    /// Returns the milliseconds between two complete events.
    fn cudaEventElapsedTime(ms: *mut f32, start: Handle, end: Handle) {
        let at = place(ms, "ms")?;
        let (start, end) = (find(start)?, find(end)?);
        for (name, event) in [("start", &start), ("end", &end)] {
            event.refuse_captured()?;
            if event.flags & DISABLE_TIMING != 0 {
                let sentence = format!("{name} was made with cudaEventDisableTiming; make it without");
                return fault(codes::cudaErrorInvalidResourceHandle, sentence);
            }
            if !event.is_recorded() {
                let sentence = format!("{name} was never recorded; record it with cudaEventRecord");
                return fault(codes::cudaErrorInvalidResourceHandle, sentence);
            }
            let outcome = event.penny.query();
            if is_pending(&outcome) {
                return outcome;
            }
        }
        at.set(start.penny.elapsed(end.penny)?);
        Ok(())
    }

    /// Destroys the event, even before a stream has reached it.
    fn cudaEventDestroy(event: Handle) {
        find(event)?;
        EVENTS.remove(event);
        Ok(())
    }

    /// Makes what is queued on the stream from now on wait for the event, as it was recorded last.
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) {
        let stream = stream::find(stream)?;
        let event = find(event)?;
        if flags & !EXTERNAL != 0 {
            return invalid(format!("flags is {flags}; pass cudaEventWaitDefault"));
        }
        if flags & EXTERNAL != 0 && capture::record(&stream, || Step::Wait(event.clone()))? {
            return Ok(());
        }
        if capture::wait(&stream, event.moment())? {
            return Ok(());
        }
        capture::refuse_implied(&stream)?;
        let _order = lock(&stream.order);
        event.await_on(&stream)
    }
}
