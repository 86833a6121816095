//! Capture: a stream's operations are recorded instead of done.
//!
//! ```text
//!     begin(A)              A is the origin
//!     operation on A        recorded
//!     record(e, A)          e stands for this point of the capture
//!     wait(B, e)            B takes part: its operations are recorded, too
//!     record(f, B)
//!     wait(A, f)            B is joined: nothing of it is left behind that A does not follow
//!     end(A)                the graph has the steps in the order in which they were recorded
//! ```
//!
//! That order is one which all dependencies allow, so a graph is launched as a plain sequence.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use crate::codes;
use crate::event::Event;
use crate::graph::Graph;
use crate::guard::{Result, fault};
use crate::handles::lock;
use crate::operation::Operation;
use crate::order;
use crate::penny::PennyStream;
use crate::stream::Stream;

/// The mode of a capture that any thread may end.
pub const RELAXED: c_int = 2;

/// One recorded step of a graph.
#[derive(Clone)]
pub enum Step {
    Operation(Operation),
    /// A call of a library beside this one.
    Foreign(Arc<Foreign>),
    /// The steps of a graph.
    Graph(Arc<Graph>),
    /// Records an event.
    Record(Arc<Event>),
    /// Waits for an event.
    Wait(Arc<Event>),
    /// Nothing.
    Empty,
}

/// Makes a call of another library on a stream of Penny. Returns NULL, or a sentence that says why it was refused.
pub type Replay = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const c_char;

/// A call of another library, and how it is given back.
pub struct Foreign {
    pub replay: Replay,
    pub drop: Option<unsafe extern "C" fn(*mut c_void)>,
    pub argument: usize,
}

impl Foreign {
    /// Makes the call on a stream of Penny.
    pub fn replay(&self, stream: PennyStream) -> Result<()> {
        let argument = std::ptr::with_exposed_provenance_mut(self.argument);
        // SAFETY: the library that gave the function promised that it may be called with its argument until `drop`.
        let refused = unsafe { (self.replay)(argument, stream.handle().cast()) };
        if refused.is_null() {
            return Ok(());
        }
        // SAFETY: it also promised a text that is valid until this thread calls it again.
        let why = unsafe { CStr::from_ptr(refused) }.to_string_lossy();
        fault(
            codes::cudaErrorUnknown,
            format!("a call that was captured was refused, and the graph ends there: {why}"),
        )
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: as above; this is the one call of it.
            unsafe { drop(std::ptr::with_exposed_provenance_mut(self.argument)) };
        }
    }
}

/// A capture under way.
pub struct Capture {
    pub id: usize,
    /// The stream that it was begun on.
    origin: Arc<Stream>,
    thread: ThreadId,
    mode: c_int,
    /// The graph that it makes.
    pub graph: Arc<Graph>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_invalid: bool,
    /// The streams that take part beside the origin.
    members: Vec<Member>,
}

struct Member {
    stream: Arc<Stream>,
    /// Counts what was recorded on it.
    version: u64,
    /// What of it is joined to other streams of the capture.
    joined: u64,
}

/// A point of a capture for which an event stands.
#[derive(Clone)]
pub struct Moment {
    /// The streams hold it as long as it is under way.
    capture: Weak<Capture>,
    stream: Arc<Stream>,
    version: u64,
}

/// Captures under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What cudaThreadExchangeStreamCaptureMode exchanges.
    pub static MODE: Cell<c_int> = const { Cell::new(0) };
}

impl Capture {
    /// Spoils the capture: its end reports it.
    fn spoil(&self) {
        lock(&self.state).is_invalid = true;
    }

    /// Is it still good?
    pub fn is_valid(&self) -> bool {
        !lock(&self.state).is_invalid
    }

    fn check(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        fault(
            codes::cudaErrorStreamCaptureInvalidated,
            "the capture of stream was spoiled by an earlier error; end it with cudaStreamEndCapture",
        )
    }

    /// Counts that something was recorded on a stream; the number of it there.
    fn advance(&self, stream: &Arc<Stream>) -> u64 {
        let mut state = lock(&self.state);
        let Some(member) = state.member(stream) else { return 0 };
        member.version += 1;
        member.version
    }
}

impl State {
    fn member(&mut self, stream: &Arc<Stream>) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| Arc::ptr_eq(&member.stream, stream))
    }
}

/// Is any stream captured?
pub fn is_any_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Returns the capture that a stream takes part in.
pub fn of(stream: &Stream) -> Option<Arc<Capture>> {
    if !is_any_under_way() {
        return None;
    }
    lock(&stream.capture).clone()
}

/// Returns the captures on which an operation of the legacy stream would depend.
fn implied(stream: &Stream) -> Vec<Arc<Capture>> {
    if !is_any_under_way() {
        return Vec::new();
    }
    order::followed(stream).iter().filter_map(|before| of(before)).collect()
}

/// Refuses the legacy stream while a blocking stream of its device is captured, and spoils that capture.
pub fn refuse_implied(stream: &Stream) -> Result<()> {
    let captures = implied(stream);
    captures.iter().for_each(|capture| capture.spoil());
    if captures.is_empty() {
        return Ok(());
    }
    fault(
        codes::cudaErrorStreamCaptureImplicit,
        "the default stream would wait for a stream that is captured; capture streams made with cudaStreamNonBlocking",
    )
}

/// Refuses a stream that is captured, and spoils its capture.
pub fn refuse(stream: &Stream) -> Result<()> {
    refuse_implied(stream)?;
    let Some(capture) = of(stream) else { return Ok(()) };
    capture.spoil();
    fault(
        codes::cudaErrorStreamCaptureUnsupported,
        "stream is captured, and this call cannot be recorded; end the capture before",
    )
}

/// Refuses what would wait for a device of which a stream is captured.
pub fn refuse_on_device(device: c_int) -> Result<()> {
    if is_any_under_way() {
        order::all(device).iter().try_for_each(|stream| refuse(stream))?;
    }
    Ok(())
}

/// Records an operation if the stream is captured, and returns it if not.
pub fn take(stream: &Arc<Stream>, operation: Operation) -> Result<Option<Operation>> {
    let is_recorded = record(stream, || Step::Operation(operation.clone()))?;
    Ok((!is_recorded).then_some(operation))
}

/// Records a step if the stream is captured. Returns whether it is.
pub fn record(stream: &Arc<Stream>, step: impl FnOnce() -> Step) -> Result<bool> {
    refuse_implied(stream)?;
    let Some(capture) = of(stream) else { return Ok(false) };
    capture.check()?;
    capture.graph.add(step());
    capture.advance(stream);
    Ok(true)
}

/// Returns the point of a capture for which an event recorded on the stream stands; `None`: it is not captured.
pub fn moment(stream: &Arc<Stream>) -> Result<Option<Moment>> {
    refuse_implied(stream)?;
    let Some(capture) = of(stream) else { return Ok(None) };
    capture.check()?;
    let version = capture.advance(stream);
    Ok(Some(Moment { capture: Arc::downgrade(&capture), stream: stream.clone(), version }))
}

/// Makes a stream wait for an event; `moment`: what the event stands for, if it was recorded on a captured stream. Returns whether
/// the wait is part of a capture.
pub fn wait(stream: &Arc<Stream>, moment: Option<Moment>) -> Result<bool> {
    let mine = of(stream);
    let Some(moment) = moment else {
        let Some(capture) = mine else { return Ok(false) };
        capture.spoil();
        return fault(
            codes::cudaErrorStreamCaptureIsolation,
            "stream is captured, and event was recorded outside of the capture; record it on a stream of the capture",
        );
    };
    let Some(theirs) = moment.capture.upgrade() else {
        return fault(
            codes::cudaErrorCapturedEvent,
            "event belongs to a capture that has ended; record it again",
        );
    };
    theirs.check()?;
    if stream.is_legacy() {
        theirs.spoil();
        return fault(
            codes::cudaErrorStreamCaptureImplicit,
            "stream is the default stream, which cannot be captured; pass a stream of cudaStreamCreate",
        );
    }
    match mine {
        Some(capture) if !Arc::ptr_eq(&capture, &theirs) => {
            capture.spoil();
            theirs.spoil();
            return fault(
                codes::cudaErrorStreamCaptureMerge,
                "stream and event belong to different captures; capture them from one stream",
            );
        }
        Some(_) => {
            theirs.advance(stream);
        }
        None => {
            let member = Member { stream: stream.clone(), version: 1, joined: 0 };
            lock(&theirs.state).members.push(member);
            *lock(&stream.capture) = Some(theirs.clone());
        }
    }
    if !Arc::ptr_eq(&moment.stream, stream)
        && let Some(member) = lock(&theirs.state).member(&moment.stream)
    {
        member.joined = member.joined.max(moment.version);
    }
    Ok(true)
}

/// Begins a capture.
pub fn begin(stream: &Arc<Stream>, mode: c_int) -> Result<()> {
    if !(0..=RELAXED).contains(&mode) {
        return crate::guard::invalid(format!("mode is {mode}; pass a cudaStreamCaptureMode"));
    }
    if stream.is_legacy() {
        return fault(
            codes::cudaErrorStreamCaptureUnsupported,
            "stream is the default stream, which cannot be captured; pass a stream of cudaStreamCreate",
        );
    }
    let mut slot = lock(&stream.capture);
    if slot.is_some() {
        return fault(codes::cudaErrorIllegalState, "stream is captured already; end that capture before");
    }
    *slot = Some(Arc::new(Capture {
        id: crate::handles::fresh(),
        origin: stream.clone(),
        thread: thread::current().id(),
        mode,
        graph: Graph::create(),
        state: Mutex::default(),
    }));
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Takes all streams out of a capture.
fn dissolve(capture: &Arc<Capture>) -> Vec<Member> {
    let members = std::mem::take(&mut lock(&capture.state).members);
    let streams = members.iter().map(|member| &member.stream).chain([&capture.origin]);
    let taken =
        streams.filter(|stream| lock(&stream.capture).take_if(|of| Arc::ptr_eq(of, capture)).is_some());
    if taken.count() > 0 {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
    members
}

/// Ends a capture; its graph.
pub fn end(stream: &Arc<Stream>) -> Result<Arc<Graph>> {
    let Some(capture) = of(stream) else {
        return fault(
            codes::cudaErrorIllegalState,
            "stream is not captured; begin with cudaStreamBeginCapture",
        );
    };
    if !Arc::ptr_eq(&capture.origin, stream) {
        capture.spoil();
        return fault(
            codes::cudaErrorStreamCaptureUnmatched,
            "the capture was begun on another stream; end it on that one",
        );
    }
    if capture.mode != RELAXED && capture.thread != thread::current().id() {
        return fault(
            codes::cudaErrorStreamCaptureWrongThread,
            "the capture was begun by another thread; end it there, or begin it with cudaStreamCaptureModeRelaxed",
        );
    }
    let is_valid = capture.check();
    let members = dissolve(&capture);
    let ended = is_valid.and_then(|()| match members.iter().all(|member| member.joined == member.version) {
        true => Ok(capture.graph.clone()),
        false => fault(
            codes::cudaErrorStreamCaptureUnjoined,
            "a stream that took part was not joined; record an event at its end and let the first stream wait for it",
        ),
    });
    if ended.is_err() {
        capture.graph.destroy();
    }
    ended
}

/// Ends the capture of a stream that is destroyed, or takes the stream out of it.
pub fn abandon(stream: &Arc<Stream>) {
    let Some(capture) = of(stream) else { return };
    capture.spoil();
    if Arc::ptr_eq(&capture.origin, stream) {
        dissolve(&capture);
        capture.graph.destroy();
    }
}

/// Returns what a query says of a stream: not captured, captured, spoiled.
pub fn status(stream: &Stream) -> Result<(c_int, Option<Arc<Capture>>)> {
    if stream.is_legacy() && !implied(stream).is_empty() {
        return fault(
            codes::cudaErrorStreamCaptureImplicit,
            "stream is the default stream, and a stream that it waits for is captured",
        );
    }
    let capture = of(stream);
    Ok((capture.as_ref().map_or(0, |capture| if capture.is_valid() { 1 } else { 2 }), capture))
}
