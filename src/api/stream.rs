//! Streams: calls that are made by threads of their own while the program goes on.
//!
//! A stream's buffers must stay as they are until its thread has come to the call. A guard could be forgotten, so the borrows
//! last for a scope, as those of `std::thread::scope` do: [`streams`] returns when all streams of the scope are idle.

use super::communicator::Communicator;
use super::element::{Element, Output};
use super::group::for_each_call;
use super::names::in_rust;
use super::request::{self, Request};
use crate::comm::{self, EventHandle, Queued, StreamHandle};
use crate::error::{Code, Result};
use crate::sync::lock::Mutex;
use crate::types::{Rank, RedOp as Op};
use std::marker::PhantomData;

/// The streams of one scope; see [`streams`].
pub struct Streams<'scope, 'env: 'scope> {
    made: Mutex<Made>,
    /// Makes both lifetimes invariant, as in `std::thread::Scope`: neither can be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Default)]
struct Made {
    streams: Vec<StreamHandle>,
    outputs: Vec<Output<'static>>,
}

/// Ends the streams, however the scope is left.
struct Ending<'a>(&'a Mutex<Made>);

impl Ending<'_> {
    /// Waits until all work has completed; returns the first failure that was not reported yet.
    fn end(&self) -> Result<()> {
        // Not held while waiting: a function that a stream calls might want another stream.
        let mut first = Ok(());
        // BOUND: only the scope's own functions make streams, and they are over when the last stream is.
        loop {
            let streams = std::mem::take(&mut self.0.lock().streams);
            if streams.is_empty() {
                break;
            }
            for stream in streams {
                first = first.and(in_rust(comm::stream_destroy(stream)));
            }
        }
        // No call is under way any more: the outputs become values of their types.
        drop(std::mem::take(&mut self.0.lock().outputs));
        first
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Runs `body` with a scope in which it can make streams, and returns when everything is over that was queued on them.
///
/// Calls on a stream are checked, queued, and return at once; the stream's own thread makes them in order. They borrow
/// their buffers and communicators until the scope ends, so the results can be read after it. The calls of one
/// communicator run in the order in which they were queued, over all its streams.
///
/// If a queued call fails and neither [`Stream::synchronize`] nor an [`Event`] has told so, the scope returns the error.
///
/// ```
/// use penny::Op;
///
/// penny::on_threads(2, |comm| {
///     let mine = vec![comm.rank() + 1; 1000];
///     let (mut sum, mut most) = (vec![0; 1000], vec![0; 1000]);
///     let computed = penny::streams(|scope| {
///         let stream = scope.stream()?;
///         stream.all_reduce(&comm, &mine, &mut sum, Op::Sum)?;
///         stream.all_reduce(&comm, &mine, &mut most, Op::Max)?;
///         Ok((1..=10).sum::<u32>()) // meanwhile
///     })?;
///     assert_eq!((computed, sum[999], most[0]), (55, 3, 2));
///     Ok(())
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
///
/// A buffer must outlive the scope, and cannot be used in it again:
///
/// ```compile_fail,E0597
/// # let comm = penny::Communicator::init_all(1)?.remove(0);
/// penny::streams(|scope| {
///     let mut data = [1, 2, 3];
///     scope.stream()?.broadcast(&comm, &mut data, 0)
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
///
/// ```compile_fail,E0502
/// # let comm = penny::Communicator::init_all(1)?.remove(0);
/// let mut data = [1, 2, 3];
/// penny::streams(|scope| {
///     scope.stream()?.broadcast(&comm, &mut data, 0)?;
///     println!("{data:?}");
///     Ok(())
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
pub fn streams<'env, R>(
    body: impl for<'scope> FnOnce(&'scope Streams<'scope, 'env>) -> Result<R>,
) -> Result<R> {
    // A stream's own thread could not wait for streams in the end.
    in_rust(comm::refuse_stream_worker())?;
    let scope = Streams { made: Mutex::default(), scope: PhantomData, env: PhantomData };
    let ending = Ending(&scope.made);
    let result = body(&scope);
    let ended = ending.end();
    drop(ending);
    let result = result?;
    ended.map(|()| result)
}

impl<'scope, 'env> Streams<'scope, 'env> {
    /// Makes a stream, whose thread runs until the scope ends.
    pub fn stream(&'scope self) -> Result<Stream<'scope, 'env>> {
        let handle = in_rust(comm::stream_create())?;
        self.made.lock().streams.push(handle);
        Ok(Stream { handle, scope: self })
    }
}

/// An ordered queue of calls with a thread of its own that makes them; see [`streams`].
#[derive(Clone, Copy)]
pub struct Stream<'scope, 'env: 'scope> {
    handle: StreamHandle,
    scope: &'scope Streams<'scope, 'env>,
}

impl<'scope> Stream<'scope, '_> {
    fn queue(&self, comm: &'scope Communicator, request: Result<Request<'scope>>) -> Result<()> {
        // SAFETY: the buffers are borrowed for 'scope. `streams` returns only when this stream's thread has ended, and drops
        // the output then.
        let (calls, output) = request.and_then(|request| unsafe { request.later(comm) })?;
        // The two halves of one call run side by side.
        let grouped = calls.len() > 1;
        self.add(calls, grouped, output)
    }

    /// Queues calls, which are made together if `grouped`.
    pub(super) fn add(
        &self,
        calls: Vec<Queued>,
        grouped: bool,
        outputs: impl IntoIterator<Item = Output<'scope>>,
    ) -> Result<()> {
        // SAFETY: `streams` drops them when no call is under way any more, and returns before 'scope ends.
        let outputs = outputs.into_iter().map(|output| unsafe { output.outliving() });
        // Kept even if the calls are refused: some may have been queued.
        self.scope.made.lock().outputs.extend(outputs);
        in_rust(comm::on_stream(calls, grouped, self.handle))
    }

    /// Waits until everything is over that was queued so far; the first failure since the last time.
    pub fn synchronize(&self) -> Result<()> {
        in_rust(comm::stream_synchronize(Some(self.handle)))
    }

    /// Tells whether everything is over that was queued so far.
    pub fn is_idle(&self) -> Result<bool> {
        told(in_rust(comm::stream_query(Some(self.handle))))
    }

    /// Marks this point of the stream: the event is over when everything is that was queued before it.
    pub fn record(&self) -> Result<Event> {
        let event = Event { handle: in_rust(comm::event_create())? };
        in_rust(comm::event_record(event.handle, Some(self.handle)))?;
        Ok(event)
    }

    /// Makes all work that is queued from now on wait for an event that another stream has recorded.
    pub fn wait(&self, event: &Event) -> Result<()> {
        in_rust(comm::stream_wait_event(Some(self.handle), event.handle))
    }

    /// Queues a call of a function, which the stream's thread makes in its turn. The function must not wait for
    /// streams.
    pub fn run(&self, function: impl FnOnce() + Send + 'scope) -> Result<()> {
        let function: Box<dyn FnOnce() + Send + 'scope> = Box::new(function);
        // SAFETY: only the lifetime changes. The stream's thread calls or drops the function before `streams` returns, and
        // so before 'scope ends.
        let function: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(function) };
        in_rust(comm::stream_host_function(Some(self.handle), function))
    }
}

fn told(state: Result<()>) -> Result<bool> {
    match state {
        Ok(()) => Ok(true),
        Err(e) if e.code == Code::InProgress => Ok(false),
        Err(e) => Err(e),
    }
}

macro_rules! stream_calls {
    ($life:lifetime $($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[doc = concat!("Queues a [`Communicator::", stringify!($name), "`].")]
        pub fn $name<T: Element>(&self, comm: &$life Communicator, $($arg: $ty),*) -> Result<()> {
            self.queue(comm, request::$name(comm, $($arg),*))
        }
    )*};
}

/// # Calls
impl<'scope> Stream<'scope, '_> {
    for_each_call!(stream_calls, 'scope);

    /// Queues a [`Communicator::barrier`].
    pub fn barrier(&self, comm: &'scope Communicator) -> Result<()> {
        self.queue(comm, request::barrier(comm))
    }
}

/// A point in a stream's work. It tells how what the stream did since the event before it went.
#[derive(Debug)]
pub struct Event {
    handle: EventHandle,
}

impl Event {
    /// Waits until the stream has reached the event; returns the first failure of its work since the event before.
    pub fn synchronize(&self) -> Result<()> {
        in_rust(comm::event_synchronize(self.handle))
    }

    /// Tells whether the stream has reached the event.
    pub fn is_over(&self) -> Result<bool> {
        told(in_rust(comm::event_query(self.handle)))
    }

    /// Milliseconds of this machine's clock since an earlier event; both are over.
    pub fn ms_since(&self, earlier: &Event) -> Result<f64> {
        in_rust(comm::event_elapsed_ms(earlier.handle, self.handle))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // A stream that still has to come to it does so without harm.
        drop(comm::event_destroy(self.handle));
    }
}
