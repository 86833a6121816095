//! Groups: calls that are made together.

use super::communicator::Communicator;
use super::element::{Element, Output};
use super::names::in_rust;
use super::request::{self, Request};
use super::stream::Stream;
use crate::comm::{self, Queued};
use crate::error::{Error, Result};
use crate::types::{Rank, RedOp as Op};
use std::marker::PhantomData;

/// Calls that are made together: none begins before [`end`](Group::end), and all are over when it returns.
///
/// Transfers of a group run side by side, so ranks can send to each other. Collectives run in the order in which they were
/// added. A group can span several communicators of one thread.
///
/// The group borrows its buffers until it ends. A group that is dropped or forgotten makes none of its calls.
///
/// ```
/// use penny::Group;
///
/// penny::on_threads(2, |comm| {
///     let other = 1 - comm.rank();
///     let (mine, mut theirs) = ([comm.rank(); 100], [9; 100]);
///     let mut group = Group::new();
///     group.send(&comm, &mine, other)?;
///     group.recv(&comm, &mut theirs, other)?;
///     group.end()?;
///     assert_eq!(theirs, [other; 100]);
///     Ok(())
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
///
/// A buffer cannot be used while the group has it:
///
/// ```compile_fail,E0502
/// # let comm = penny::Communicator::init_all(1)?.remove(0);
/// let mut data = [1, 2, 3];
/// let mut group = penny::Group::new();
/// group.broadcast(&comm, &mut data, 0)?;
/// println!("{data:?}");
/// group.end()?;
/// # Ok::<(), penny::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a group makes its calls when it ends"]
pub struct Group<'a> {
    calls: Vec<Queued>,
    /// Dropped after the calls are over, and before the borrows end.
    outputs: Vec<Output<'a>>,
    /// The first call that was refused.
    refused: Option<Error>,
    buffers: PhantomData<&'a mut ()>,
}

impl<'a> Group<'a> {
    /// Begins a group.
    pub fn new() -> Group<'a> {
        Group::default()
    }

    fn add(&mut self, comm: &'a Communicator, request: Result<Request<'a>>) -> Result<()> {
        // SAFETY: the buffers are borrowed for 'a, and so as long as the group exists. The calls are made in `end`, which
        // takes the group and returns when they are over, or on a stream, by whose scope 'a is outlived; else they are
        // dropped. The outputs are dropped after that: here, or with the stream's scope.
        let added = request.and_then(|request| unsafe { request.later(comm) });
        let (calls, output) = added.inspect_err(|e| {
            self.refused.get_or_insert_with(|| e.clone());
        })?;
        self.calls.extend(calls);
        self.outputs.extend(output);
        Ok(())
    }

    /// Makes the calls, and returns when all are over. If one of them was refused when it was added, none is made.
    pub fn end(mut self) -> Result<()> {
        in_rust(comm::together(self.take()?))
    }

    /// Queues the calls on a stream, to be made together when the stream comes to them.
    pub fn end_on(mut self, stream: &Stream<'a, '_>) -> Result<()> {
        let calls = self.take()?;
        stream.add(calls, true, std::mem::take(&mut self.outputs))
    }

    /// Prices the calls on the declared machine instead of making them, in picoseconds.
    pub fn simulate(mut self) -> Result<u64> {
        in_rust(comm::simulate_together(self.take()?))
    }

    fn take(&mut self) -> Result<Vec<Queued>> {
        match self.refused.take() {
            None => Ok(std::mem::take(&mut self.calls)),
            Some(e) => {
                Err(Error::new(e.code, format!("a call of the group failed, so none of it was run: {e}")))
            }
        }
    }
}

impl std::fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// Calls that are made later: a method for each of a communicator's, with the same arguments behind the communicator.
macro_rules! for_each_call {
    ($then:ident, $life:lifetime) => {
        $then! { $life
            all_reduce(send: &$life [T], recv: &$life mut [T], op: Op);
            all_reduce_in_place(data: &$life mut [T], op: Op);
            reduce(send: &$life [T], recv: &$life mut [T], op: Op, root: Rank);
            reduce_in_place(data: &$life mut [T], op: Op, root: Rank);
            broadcast(data: &$life mut [T], root: Rank);
            gather(send: &$life [T], recv: &$life mut [T], root: Rank);
            scatter(send: &$life [T], recv: &$life mut [T], root: Rank);
            all_gather(send: &$life [T], recv: &$life mut [T]);
            all_gather_in_place(data: &$life mut [T]);
            reduce_scatter(send: &$life [T], recv: &$life mut [T], op: Op);
            reduce_scatter_in_place(data: &$life mut [T], op: Op);
            reduce_scatter_padded(send: &$life [T], recv: &$life mut [T], op: Op);
            all_to_all(send: &$life [T], recv: &$life mut [T]);
            all_to_all_in_place(data: &$life mut [T]);
            permute(send: &$life [T], recv: &$life mut [T], perm: &[Option<Rank>]);
            send(data: &$life [T], to: Rank);
            recv(data: &$life mut [T], from: Rank);
            send_recv(send: &$life [T], to: Rank, recv: &$life mut [T], from: Rank);
        }
    };
}
pub(super) use for_each_call;

macro_rules! group_calls {
    ($life:lifetime $($name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[doc = concat!("Adds a [`Communicator::", stringify!($name), "`].")]
        pub fn $name<T: Element>(&mut self, comm: &$life Communicator, $($arg: $ty),*) -> Result<()> {
            self.add(comm, request::$name(comm, $($arg),*))
        }
    )*};
}

/// # Calls
impl<'a> Group<'a> {
    for_each_call!(group_calls, 'a);

    /// Adds a [`Communicator::barrier`].
    pub fn barrier(&mut self, comm: &'a Communicator) -> Result<()> {
        self.add(comm, request::barrier(comm))
    }
}
