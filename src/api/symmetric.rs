//! The symmetric heap: memory that every rank has, and that every rank reaches by one-sided access.

use super::communicator::Communicator;
use super::element::{Plain, Word, input, output};
use super::names::{self, in_rust};
use crate::comm;
use crate::error::{Error, Result};
use crate::memory::view::Address;
use crate::onesided::{Atomic, AtomicOp, Change, Comparison, Several, SignalOp, SymmetricMemory};
use crate::sync::prim::Ordering;
use crate::types::Rank;
use std::marker::PhantomData;

/// Memory that all ranks of a communicator allocate together, at the same place in each rank's heap.
///
/// ```
/// use penny::Comparison;
///
/// penny::on_threads(2, |comm| {
///     let heap = comm.symmetric_heap()?;
///     let (data, flag) = (heap.vec::<f64>(8)?, heap.vec::<u64>(1)?);
///     let other = 1 - comm.rank();
///     data.put_signal(0, &[comm.rank() as f64; 8], &flag, 0, 1, other)?;
///     flag.wait_until(0, Comparison::Ge, 1)?;
///     let mut mine = [9.0; 8];
///     data.get(0, &mut mine, comm.rank())?;
///     assert_eq!(mine, [other as f64; 8]);
///     heap.finalize()
/// })?;
/// # Ok::<(), penny::Error>(())
/// ```
#[derive(Debug)]
pub struct SymmetricHeap<'c> {
    comm: &'c Communicator,
}

/// A vector that every rank has in its symmetric heap.
///
/// Any rank may write to any rank's elements at any time, so there are no references to them: [`put`](Self::put) and
/// [`get`](Self::get) copy, also to and from this rank itself. Without a signal, a barrier or another order between two
/// ranks' accesses to the same elements, a copy may hold some old and some new bytes.
///
/// Dropping it does nothing: [`free`](Self::free) gives the memory back on all ranks, and so does
/// [`SymmetricHeap::finalize`], or the end of the communicator.
#[derive(Debug)]
pub struct SymmetricVec<'c, T: Plain> {
    comm: &'c Communicator,
    /// The heap, by the number of those before it.
    heap: u64,
    start: usize,
    len: usize,
    elements: PhantomData<T>,
}

/// The operation that combines a value with an element of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The value takes the element's place.
    Set,
    /// The value is added, and wraps around.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl Communicator {
    /// Makes the communicator's symmetric heap. All ranks call; a communicator has one at most.
    pub fn symmetric_heap(&self) -> Result<SymmetricHeap<'_>> {
        in_rust(comm::shmem_init(self.handle())).map(|()| SymmetricHeap { comm: self })
    }
}

impl<'c> SymmetricHeap<'c> {
    /// Allocates a vector of `len` zeros on every rank. All ranks call with the same type and length.
    pub fn vec<T: Plain>(&self, len: usize) -> Result<SymmetricVec<'c, T>> {
        let bytes = len.checked_mul(size_of::<T>());
        let bytes =
            bytes.ok_or_else(|| Error::argument(format!("len {len} is more than memory can hold")))?;
        let start = in_rust(comm::shmem_alloc(self.comm.handle(), bytes, 64, true))?;
        let heap = self.comm.heaps_before().load(Ordering::Relaxed);
        Ok(SymmetricVec { comm: self.comm, heap, start, len, elements: PhantomData })
    }

    /// Waits until all ranks have called it; their earlier puts are then visible to all ranks.
    pub fn barrier(&self) -> Result<()> {
        in_rust(comm::shmem_barrier(self.comm.handle(), true))
    }

    /// Orders this thread's earlier puts to each rank before its later puts there.
    pub fn fence(&self) -> Result<()> {
        in_rust(comm::shmem(self.comm.handle(), SymmetricMemory::fence))
    }

    /// Waits until everything is visible to all ranks that this thread has put.
    pub fn quiet(&self) -> Result<()> {
        in_rust(comm::shmem(self.comm.handle(), SymmetricMemory::quiet))
    }

    /// Gives the whole heap up. All ranks call. Its vectors are refused from then on.
    pub fn finalize(self) -> Result<()> {
        in_rust(comm::shmem_finalize(self.comm.handle()))?;
        self.comm.heaps_before().fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl<T: Plain> SymmetricVec<'_, T> {
    /// Returns the number of elements on each rank.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Refuses a vector whose heap was finalized: the next heap may lie at the same place.
    fn is_of_this_heap(&self) -> Result<()> {
        match self.heap == self.comm.heaps_before().load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Error::usage(
                "the vector is of a symmetric heap that was finalized; allocate it anew in the present heap",
            )),
        }
    }

    /// Returns the name of `count` elements from `at` on, if they lie within.
    fn elements(&self, at: usize, count: usize) -> Result<Address<'static>> {
        self.is_of_this_heap()?;
        if at > self.len || count > self.len - at {
            return Err(Error::argument(format!(
                "elements {at}..{} are meant, and the vector has {} on each rank",
                at.saturating_add(count),
                self.len
            )));
        }
        Ok(Address::number(self.start + at * size_of::<T>()))
    }

    /// Returns a rank as the number that `comm` takes.
    fn pe(&self, rank: Rank) -> Result<i32> {
        names::rank("rank", rank, self.comm.size())
    }

    fn inside<R>(&self, does: impl FnOnce(&SymmetricMemory) -> Result<R>) -> Result<R> {
        in_rust(comm::shmem(self.comm.handle(), does))
    }

    /// Writes `data` to the elements of `rank` from `at` on.
    pub fn put(&self, at: usize, data: &[T], rank: Rank) -> Result<()> {
        let there = self.elements(at, data.len())?;
        self.inside(|heap| heap.put(there, input(data), size_of_val(data), self.pe(rank)?))
    }

    /// Reads the elements of `rank` from `at` on into `data`.
    pub fn get(&self, at: usize, data: &mut [T], rank: Rank) -> Result<()> {
        let (there, bytes) = (self.elements(at, data.len())?, size_of_val(data));
        let here = output(data);
        self.inside(|heap| heap.get(here.address(), there, bytes, self.pe(rank)?))
    }

    /// Writes as [`put`](Self::put) does, then adds `value` to element `index` of `signals` on the same rank: a rank that
    /// sees the signal sees the data.
    pub fn put_signal(
        &self,
        at: usize,
        data: &[T],
        signals: &SymmetricVec<'_, u64>,
        index: usize,
        value: u64,
        rank: Rank,
    ) -> Result<()> {
        if !std::ptr::eq(self.comm, signals.comm) {
            return Err(Error::argument("signals is of another communicator than the vector"));
        }
        let (there, signal) = (self.elements(at, data.len())?, signals.elements(index, 1)?);
        let (bytes, add) = (size_of_val(data), SignalOp::Add);
        self.inside(|heap| heap.put_signal(there, input(data), bytes, signal, value, add, self.pe(rank)?))
    }

    /// Gives the vector back. All ranks call.
    pub fn free(self) -> Result<()> {
        self.is_of_this_heap()?;
        in_rust(comm::shmem_free(self.comm.handle(), self.start))
    }
}

impl<T: Word> SymmetricVec<'_, T> {
    fn modify(&self, at: usize, op: AtomicOp, [value, expected]: [T; 2], rank: Rank) -> Result<T> {
        let there = self.elements(at, 1)?;
        let (value, expected) = (value.to_bits(), expected.to_bits());
        let change = Atomic { change: Change { op, value, expected }, dtype: T::DATATYPE, fetches: true };
        self.inside(|heap| heap.modify(there, &change, self.pe(rank)?)).map(T::from_bits)
    }

    /// Reads an element of `rank` in one piece.
    pub fn load(&self, at: usize, rank: Rank) -> Result<T> {
        self.modify(at, AtomicOp::Fetch, [T::default(); 2], rank)
    }

    /// Folds a value into an element of `rank` in one piece; what the element was before.
    pub fn fetch(&self, at: usize, how: Reduction, value: T, rank: Rank) -> Result<T> {
        let op = match how {
            Reduction::Set => AtomicOp::Set,
            Reduction::Add => AtomicOp::Add,
            Reduction::And => AtomicOp::And,
            Reduction::Or => AtomicOp::Or,
            Reduction::Xor => AtomicOp::Xor,
        };
        self.modify(at, op, [value, T::default()], rank)
    }

    /// Replaces an element of `rank` by `new` if it is `expected`, and returns its value before.
    pub fn compare_swap(&self, at: usize, expected: T, new: T, rank: Rank) -> Result<T> {
        self.modify(at, AtomicOp::CompareSwap, [new, expected], rank)
    }

    /// Waits until the comparison of this rank's element with `value` holds. Returns the element's value then or soon after.
    pub fn wait_until(&self, at: usize, comparison: Comparison, value: T) -> Result<T> {
        let here = self.elements(at, 1)?;
        let value = [value];
        self.inside(|heap| {
            let words = heap.words(here, 1, None, comparison, input(&value), T::DATATYPE)?;
            words.wait(Several::All).map(drop)
        })?;
        self.load(at, self.comm.rank())
    }
}
