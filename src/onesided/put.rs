//! Puts and gets: blocks, elements, strides, and a block with its signal.

use super::race::Operation;
use super::recorded::{WordChange, word_of};
use super::signal::SignalOp;
use super::symmetric_memory::{HeapPlace, SymmetricMemory};
use crate::error::{Error, Result};
use crate::kernels;
use crate::memory::view::{Address, Payload};
use crate::memory::word::AtomicOp;
use crate::recorder;
use crate::sync::prim::{Ordering, fence};
use crate::timing::WORD;
use crate::types::{DataType, Rank};

/// The size from which on a copy uses non-temporal stores, because it would only flush the caches.
const AROUND_FROM: usize = 8 << 20;

/// Elements that lie apart.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// Their type.
    pub dtype: DataType,
    /// The number of elements.
    pub count: usize,
    /// The stride at the destination, in elements.
    pub dest_stride: isize,
    /// The stride at the source, in elements.
    pub source_stride: isize,
}

/// Copies to a peer's memory, or from it.
#[inline]
pub fn copy_across(dest: Payload<'_>, source: Payload<'_>) -> Result<()> {
    if dest.overlaps(source) && dest.addr() != source.addr() {
        return Err(Error::argument("source and dest overlap on the rank that is meant; pass ranges apart"));
    }
    match dest.bytes() >= AROUND_FROM {
        true => moved_around(dest, source),
        false => kernels::copy(dest, source, false),
    }
    Ok(())
}

/// Apart, so that its loop is not compiled into each caller, with addresses that cost an instruction more a line.
#[inline(never)]
fn moved_around(dest: Payload<'_>, source: Payload<'_>) {
    kernels::copy(dest, source, true);
}

#[inline]
fn given<'a>(what: &str, buffer: Address<'a>, bytes: usize) -> Result<Payload<'a>> {
    if buffer.is_null() && bytes > 0 {
        return Err(missing(what, bytes));
    }
    Ok(buffer.view(bytes))
}

#[cold]
fn missing(what: &str, bytes: usize) -> Error {
    Error::argument(format!("{what} is NULL; pass {bytes} bytes"))
}

impl SymmetricMemory {
    /// Writes `bytes` bytes from `source`, any memory of this rank, to `dest`, symmetric memory, at a rank.
    #[inline]
    pub fn put(&self, dest: Address, source: Address, bytes: usize, pe: i32) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_put(d, pe, bytes, None));
        self.usable()?;
        let rank = self.peer(pe)?;
        let (from, source) = (source.get(), given("source", source, bytes)?);
        if bytes == 0 {
            return Ok(());
        }
        let place = self.place("dest", dest.get(), bytes)?;
        self.about_to_read(Operation::PutSource, self.my_pe(), from, bytes)?;
        self.about_to_write(Operation::Put, rank, place, bytes)?;
        let _carried = self.carry(self.my_pe(), rank, bytes)?;
        self.store(place, source, rank)?;
        die_point!(140 "put_stored");
        self.stored(rank);
        Ok(())
    }

    /// Puts at a place that holds it, without ringing anybody.
    #[inline]
    fn store(&self, place: HeapPlace<'_>, source: Payload<'_>, rank: Rank) -> Result<()> {
        let bytes = source.bytes();
        if self.transport.is_far(rank) {
            place.put_far(&self.transport, rank, source, false)?;
            return self.timing.complete_far();
        }
        // What is put most often, a word, costs no call of memcpy.
        if bytes == 8
            && let Some(word) = place.region.word64(&self.transport, rank, place.offset)
        {
            // ORDER: what publishes it is the signal, fence or quiet that comes after it.
            word.store(kernels::bits(source), Ordering::Relaxed);
            return Ok(());
        }
        copy_across(place.region.view(&self.transport, rank, place.offset, bytes)?, source)
    }

    /// Reads `bytes` bytes of `source`, symmetric memory, at a rank into `dest`, any memory of this rank.
    #[inline]
    pub fn get(&self, dest: Address, source: Address, bytes: usize, pe: i32) -> Result<()> {
        let _recorded = recorder::record(|d| self.describe_get(d, pe, bytes));
        self.usable()?;
        let rank = self.peer(pe)?;
        let dest = given("dest", dest, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let place = self.place("source", source.get(), bytes)?;
        self.about_to_read(Operation::Get, rank, source.get(), bytes)?;
        self.fetch(rank, bytes)?;
        if self.transport.is_far(rank) {
            return place.get_far(&self.transport, rank, dest);
        }
        copy_across(dest, place.region.view(&self.transport, rank, place.offset, bytes)?)
    }

    /// Puts as [`put`](Self::put) does, then sets or adds to a word at the same rank. A thread that sees the new word
    /// also sees the bytes of this put.
    #[inline]
    #[allow(clippy::too_many_arguments)] // OpenSHMEM's own list.
    pub fn put_signal(
        &self,
        dest: Address,
        source: Address,
        bytes: usize,
        signal: Address,
        value: u64,
        op: SignalOp,
        pe: i32,
    ) -> Result<()> {
        let word = || Some(WordChange { addr: signal.get(), op: op.as_atomic(), value });
        let _recorded = recorder::record(|d| self.describe_put(d, pe, bytes.saturating_add(WORD), word()));
        self.usable()?;
        let rank = self.peer(pe)?;
        let (from, source) = (source.get(), given("source", source, bytes)?);
        if self.transport.is_far(rank) {
            return self.put_signal_far([dest, signal], source, value, op, rank);
        }
        // Nothing is written before all of it is known to be right.
        let word = self.word64("sig_addr", signal.get(), rank)?;
        let place = if bytes > 0 { Some(self.place("dest", dest.get(), bytes)?) } else { None };
        if let Some(place) = place {
            self.about_to_read(Operation::PutSource, self.my_pe(), from, bytes)?;
            self.about_to_write(Operation::PutSignal, rank, place, bytes)?;
        }
        self.about_to_signal(signal.get(), rank)?;
        // They travel as one.
        let _carried = self.carry(self.my_pe(), rank, bytes.saturating_add(WORD))?;
        if let Some(place) = place {
            self.store(place, source, rank)?;
        }
        die_point!(141 "put_data");
        op.apply(word, value);
        die_point!(142 "put_signalled");
        self.stored(rank);
        Ok(())
    }

    /// Puts one element, of 4 or 8 bytes in one piece.
    #[inline]
    pub fn put_element(&self, dest: Address, value: Address, dtype: DataType, pe: i32) -> Result<()> {
        let size = dtype.size();
        let word = || Some(WordChange { addr: dest.get(), op: AtomicOp::Set, value: word_of(value, size)? });
        let _recorded = recorder::record(|d| self.describe_put(d, pe, size, word()));
        if size < 4 {
            return self.put(dest, value, size, pe);
        }
        self.usable()?;
        let rank = self.peer(pe)?;
        let value = given("value", value, size)?;
        if self.transport.is_far(rank) {
            return self.put_element_far(dest, value, rank);
        }
        let bits = kernels::bits(value);
        let place = self.place("dest", dest.get(), size)?;
        // ORDER: as a put; a rank that waits for the element loads it with Acquire.
        if size == 8 {
            let word = place.region.word64(&self.transport, rank, place.offset);
            // Where there is none, the same question by its address says why.
            let word = word.map_or_else(|| self.word64("dest", dest.get(), rank), Ok)?;
            self.about_to_write(Operation::Put, rank, place, size)?;
            let _carried = self.carry(self.my_pe(), rank, size)?;
            word.store(bits, Ordering::Release);
            self.stored(rank);
        } else {
            let word = place.region.word32(&self.transport, rank, place.offset);
            let word = word.map_or_else(|| self.word32("dest", dest.get(), rank), Ok)?;
            self.about_to_write(Operation::Put, rank, place, size)?;
            let _carried = self.carry(self.my_pe(), rank, size)?;
            word.store(bits as u32, Ordering::Release);
            self.stored(rank);
        }
        Ok(())
    }

    /// Puts elements that lie apart to places that lie apart.
    pub fn put_strided(&self, dest: Address, source: Address, s: &Strided, pe: i32) -> Result<()> {
        let rank = self.peer(pe)?;
        given("source", source, s.count)?;
        let each = self.each(dest, source, s, dest, s.dest_stride, "dest")?;
        let _recorded = recorder::record(|d| self.describe_put(d, pe, s.count * s.dtype.size(), None));
        let _carried = self.carry(self.my_pe(), rank, s.count * s.dtype.size())?;
        let is_far = self.transport.is_far(rank);
        for (k, (to, from)) in (1..).zip(each) {
            let place = self.place("dest", to.get(), s.dtype.size())?;
            if is_far {
                place.put_far(&self.transport, rank, from.view(s.dtype.size()), k < s.count)?;
                continue;
            }
            self.about_to_write(Operation::Put, rank, place, s.dtype.size())?;
            let to = place.region.view(&self.transport, rank, place.offset, s.dtype.size())?;
            copy_across(to, from.view(s.dtype.size()))?;
        }
        self.timing.complete_far()?;
        self.stored(rank);
        Ok(())
    }

    /// Gets elements that lie apart to places that lie apart.
    pub fn get_strided(&self, dest: Address, source: Address, s: &Strided, pe: i32) -> Result<()> {
        let rank = self.peer(pe)?;
        given("dest", dest, s.count)?;
        let each = self.each(dest, source, s, source, s.source_stride, "source")?;
        let _recorded = recorder::record(|d| self.describe_get(d, pe, s.count * s.dtype.size()));
        self.fetch(rank, s.count * s.dtype.size())?;
        if self.transport.is_far(rank) {
            let mut pieces = Vec::with_capacity(s.count);
            for (to, from) in each {
                let place = self.place("source", from.get(), s.dtype.size())?;
                pieces.push((place.at(rank), to.view(s.dtype.size())));
            }
            return self.transport.get_far_pieces(rank, pieces.into_iter());
        }
        for (to, from) in each {
            let place = self.place("source", from.get(), s.dtype.size())?;
            let from = place.region.view(&self.transport, rank, place.offset, s.dtype.size())?;
            copy_across(to.view(s.dtype.size()), from)?;
        }
        Ok(())
    }

    /// The ends of each element's way. Nothing is moved before the first and the last of those at `symmetric` are known to
    /// be in the heap.
    fn each<'a>(
        &self,
        dest: Address<'a>,
        source: Address<'a>,
        s: &Strided,
        symmetric: Address<'_>,
        stride: isize,
        what: &str,
    ) -> Result<impl Iterator<Item = (Address<'a>, Address<'a>)>> {
        self.usable()?;
        if s.dest_stride < 1 || s.source_stride < 1 {
            return Err(Error::argument(format!(
                "the strides are {} and {} elements; each must be at least 1",
                s.dest_stride, s.source_stride
            )));
        }
        let size = s.dtype.size() as isize;
        let reach = |stride: isize| stride.checked_mul(size)?.checked_mul(isize::try_from(s.count).ok()?);
        if reach(s.dest_stride.max(s.source_stride)).is_none() {
            return Err(Error::argument(format!(
                "{} elements so far apart are more than memory holds",
                s.count
            )));
        }
        if let Some(last) = s.count.checked_sub(1) {
            for k in [0, last as isize] {
                self.place(what, symmetric.at((k * stride * size) as usize).get(), size as usize)?;
            }
        }
        let (to, from) = ((s.dest_stride * size) as usize, (s.source_stride * size) as usize);
        Ok((0..s.count).map(move |k| (dest.at(k * to), source.at(k * from))))
    }

    /// Orders this thread's earlier puts before its later ones.
    pub fn fence(&self) -> Result<()> {
        self.usable()?;
        // ORDER: stores before it are seen before stores after it; partner: a rank that sees one of the latter with Acquire.
        fence(Ordering::Release);
        Ok(())
    }

    /// Completes all puts and gets of this thread and makes them visible to every rank. Fails if a rank is gone.
    pub fn quiet(&self) -> Result<()> {
        self.usable()?;
        // ORDER: the store buffer is empty when it ends.
        fence(Ordering::SeqCst);
        self.transport.complete_far()?;
        self.transport.check_hope()
    }
}
