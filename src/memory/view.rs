//! Raw payload views: memory that other ranks may read and write while we do.
//!
//! No Rust reference to payload ever exists, because another process may change the bytes at any time. A view is an
//! address and a length; the kernels copy and combine through it. To vouch for memory that a number names is the unsafe
//! act ([`Address::from_raw`]); from then on every view and sub-view is range-checked.

use super::alias;
use super::segment::ShmSafe;
use crate::sys::endpoint::LentRange;
use crate::sys::process_memory;
use std::marker::PhantomData;
use std::ops::Range;

/// Tells whether some memory of this process is mapped at two addresses; only then do views without a common address share memory.
#[inline]
pub fn some_are_mapped_twice() -> bool {
    alias::are_some()
}

/// A caller's buffer before a call has said how much of it there must be. NULL is allowed.
///
/// An address lends memory only as far as it was vouched for: by the type of a slice ([`of_mut`](Address::of_mut)), or by
/// the caller of an unsafe function ([`from_raw`](Address::from_raw), [`of`](Address::of)). A mere number
/// ([`number`](Address::number)) lends nothing. So safe code cannot make a [`Payload`] of memory that nobody promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    addr: usize,
    /// Bytes that may be viewed; `usize::MAX`: as many as the call needs.
    lent: usize,
    life: PhantomData<&'a ()>,
}

impl<'a> Address<'a> {
    /// No buffer.
    pub const NULL: Address<'static> = Address::number(0);

    /// The start of a C caller's buffer, whose length only the call implies.
    ///
    /// # Safety
    /// Unless null, the memory must be valid for the extent that the call it is passed to implies (as its docs say),
    /// until that call, or the group it belongs to, has returned.
    pub unsafe fn from_raw(addr: *const u8) -> Address<'a> {
        Address { addr: addr as usize, lent: usize::MAX, life: PhantomData }
    }
    /// Bytes that nothing else uses during `'a`, and that may hold any bits afterwards.
    pub fn of_mut(bytes: &'a mut [u8]) -> Address<'a> {
        Address { addr: bytes.as_mut_ptr().expose_provenance(), lent: bytes.len(), life: PhantomData }
    }
    /// Bytes that are not written during `'a`.
    ///
    /// # Safety
    /// The call must not write to them: they are its input only.
    pub unsafe fn of(bytes: &'a [u8]) -> Address<'a> {
        Address { addr: bytes.as_ptr().expose_provenance(), lent: bytes.len(), life: PhantomData }
    }
    /// A number that names memory, such as symmetric memory, and lends none.
    pub const fn number(addr: usize) -> Address<'a> {
        Address { addr, lent: 0, life: PhantomData }
    }
    /// The same memory, for a call that is made later.
    ///
    /// # Safety
    /// The memory must be lent until that call has returned.
    pub unsafe fn outliving(self) -> Address<'static> {
        Address { addr: self.addr, lent: self.lent, life: PhantomData }
    }
    /// Is it NULL?
    #[inline]
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }
    /// The number.
    #[inline]
    pub const fn get(self) -> usize {
        self.addr
    }
    /// Bytes that may be viewed; `usize::MAX`: as many as the call needs.
    #[inline]
    pub const fn lent(self) -> usize {
        self.lent
    }
    /// The address `bytes` further on. Behind what is lent it lends nothing.
    #[inline]
    pub const fn at(self, bytes: usize) -> Address<'a> {
        let lent = if self.lent == usize::MAX { self.lent } else { self.lent.saturating_sub(bytes) };
        Address { addr: self.addr.wrapping_add(bytes), lent, life: PhantomData }
    }
    /// The buffer, now that the call's extent is known. NULL gives an empty view. Panics if the call needs more than was
    /// lent.
    #[inline]
    #[track_caller]
    pub fn view(self, bytes: usize) -> Payload<'a> {
        if self.addr == 0 {
            return Payload::EMPTY;
        }
        assert!(bytes <= self.lent, "a call needs more memory than its caller has lent");
        // SAFETY: `bytes` bytes were lent, by a slice or by the promise made to `from_raw` or `of`.
        unsafe { Payload::from_raw(std::ptr::with_exposed_provenance_mut(self.addr), bytes) }
    }
}

/// A range of payload bytes, valid for reads and writes during `'a`.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    addr: *mut u8,
    bytes: usize,
    life: PhantomData<&'a ()>,
}

// SAFETY: a view is an address; it is only read and written through the kernels, which tolerate concurrent change.
unsafe impl Send for Payload<'_> {}
// SAFETY: as above; a copy of it is as much as a reference to it.
unsafe impl Sync for Payload<'_> {}

impl<'a> From<&'a mut [u64]> for Payload<'a> {
    /// Makes a view of words. The borrow ensures that nothing else uses them during `'a`.
    fn from(words: &'a mut [u64]) -> Payload<'a> {
        Payload { addr: words.as_mut_ptr().cast(), bytes: size_of_val(words), life: PhantomData }
    }
}

impl<'a, T: ShmSafe> From<&'a [T]> for Payload<'a> {
    /// Makes a view of structures in shared memory, which may change at any time, even while they are referred to.
    #[inline(always)]
    fn from(structs: &'a [T]) -> Payload<'a> {
        Payload { addr: structs.as_ptr().cast_mut().cast(), bytes: size_of_val(structs), life: PhantomData }
    }
}

impl<'a> Payload<'a> {
    /// A view that holds nothing.
    pub const EMPTY: Payload<'static> =
        Payload { addr: std::ptr::dangling_mut::<u8>(), bytes: 0, life: PhantomData };

    /// A view of `bytes` bytes at `addr`.
    ///
    /// # Safety
    /// The range must stay mapped during `'a` and be readable; writable too if the view is used as a destination.
    #[inline]
    pub const unsafe fn from_raw(addr: *mut u8, bytes: usize) -> Payload<'a> {
        Payload { addr, bytes, life: PhantomData }
    }

    /// The first byte's address.
    #[inline]
    pub const fn addr(self) -> *mut u8 {
        self.addr
    }
    /// The length in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }
    /// Fills it with what lies at an address of another process's memory.
    pub fn read_from(self, pid: u32, address: u64) -> std::io::Result<()> {
        // SAFETY: a view that is used as a destination is valid for writes.
        unsafe { process_memory::read(pid, address, self.addr, self.bytes) }
    }
    /// Nothing in it.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.bytes == 0
    }
    /// Bytes `offset .. offset + bytes`. Panics if they do not lie within.
    #[inline]
    #[track_caller]
    pub fn part(self, offset: usize, bytes: usize) -> Payload<'a> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a view's part lies outside of it");
        // SAFETY: offset <= self.bytes, so the sum stays within (or one past) the range promised to from_raw.
        Payload { addr: unsafe { self.addr.add(offset) }, bytes, life: PhantomData }
    }
    #[inline]
    fn range(self) -> Range<usize> {
        self.addr as usize..self.addr as usize + self.bytes
    }
    /// Tells whether the two share a byte of memory. A byte of a registered buffer has two addresses but is one byte.
    #[inline]
    pub fn overlaps(self, other: Payload<'_>) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let (a, b) = (self.range(), other.range());
        self.overlaps_as_mapped(other) || alias::may_meet(&a, &b) && alias::share(&a, &b)
    }
    /// Tells whether the two have an address in common.
    #[inline]
    fn overlaps_as_mapped(self, other: Payload<'_>) -> bool {
        let (a, b) = (self.range(), other.range());
        !self.is_empty() && !other.is_empty() && a.start < b.end && b.start < a.end
    }
    /// Two views that share memory, at addresses that show where: if they see it at different ones, the view of the
    /// program's own addresses is moved to the heap's. One that does not lie in the heap as a whole stays where it is.
    pub fn in_one_mapping<'b>(self, other: Payload<'b>) -> (Payload<'a>, Payload<'b>) {
        if self.overlaps_as_mapped(other) {
            return (self, other);
        }
        (self.in_heap(), other.in_heap())
    }
    fn in_heap(self) -> Payload<'a> {
        match alias::twin_of(&self.range()) {
            // SAFETY: the same memory, mapped as long as the heap is; nobody ends a registration during a call on it.
            Some(twin) => unsafe {
                Payload::from_raw(std::ptr::with_exposed_provenance_mut(twin), self.bytes)
            },
            None => self,
        }
    }
    /// The smallest range of addresses that holds two views; `None` if they have no address in common.
    pub fn hull(self, other: Payload<'_>) -> Option<Payload<'a>> {
        if !self.overlaps_as_mapped(other) {
            return None;
        }
        let (a, b) = (self.range(), other.range());
        let first = if a.start <= b.start { self.addr } else { other.addr };
        // SAFETY: every byte of it is in one of the two, which were promised to `from_raw`.
        Some(unsafe { Payload::from_raw(first, a.end.max(b.end) - a.start.min(b.start)) })
    }
}

/// A range that its owner leaves as it is until a link holds it no longer.
#[derive(Clone, Copy)]
pub struct LentBytes {
    addr: usize,
    bytes: usize,
}

impl Payload<'_> {
    /// Lends the range to a link. The caller waits until the link holds it no longer before the range changes or goes.
    pub fn lend(self) -> LentBytes {
        LentBytes { addr: self.addr.expose_provenance(), bytes: self.bytes }
    }
}

#[cfg(test)]
impl LentBytes {
    /// Returns the range, for an engine of the tests.
    pub fn view(&self) -> Payload<'static> {
        // SAFETY: as below.
        unsafe { Payload::from_raw(std::ptr::with_exposed_provenance_mut(self.addr), self.bytes) }
    }
}

// SAFETY: a call keeps the ranges that it has lent until the link holds none, whether it succeeds or fails.
unsafe impl LentRange for LentBytes {
    fn base(&self) -> usize {
        self.addr
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A type that holds views for a lifetime.
pub trait HoldsViews {
    /// The type itself.
    type During<'x>;
}

/// Something that holds views of two rows of words, and the words themselves, which live as long.
pub struct WithWords<H: HoldsViews> {
    holder: H::During<'static>,
    words: [Vec<u64>; 2],
}

impl<H: HoldsViews> WithWords<H> {
    /// Makes the holder of views of these words.
    pub fn new<E>(
        mut words: [Vec<u64>; 2],
        make: impl for<'x> FnOnce(Payload<'x>, Payload<'x>) -> Result<H::During<'x>, E>,
    ) -> Result<WithWords<H>, E> {
        let [first, second] =
            words.each_mut().map(|words| (words.as_mut_ptr().cast(), size_of_val(&words[..])));
        // SAFETY: the words neither move nor go as long as the holder lives, and nobody else uses them meanwhile. `make` and
        // `with` are for any lifetime, so no view of this one gets out.
        let views = unsafe { (Payload::from_raw(first.0, first.1), Payload::from_raw(second.0, second.1)) };
        Ok(WithWords { holder: make(views.0, views.1)?, words })
    }

    /// Lets a function use the holder.
    pub fn with<R>(&mut self, body: impl for<'x> FnOnce(&mut H::During<'x>) -> R) -> R {
        body(&mut self.holder)
    }

    /// Returns the words; the holder is gone.
    pub fn into_words(self) -> [Vec<u64>; 2] {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "more memory than its caller has lent"]
    fn a_number_lends_no_memory() {
        Address::NULL.at(0x1000).view(8);
    }

    #[test]
    fn a_slice_lends_its_bytes_and_none_behind_them() {
        let mut bytes = [0u8; 16];
        let address = Address::of_mut(&mut bytes);
        assert_eq!((address.view(16).bytes(), address.at(12).view(4).bytes()), (16, 4));
        let behind =
            |at: usize, bytes: usize| std::panic::catch_unwind(|| address.at(at).view(bytes).bytes());
        assert!(behind(0, 17).is_err() && behind(12, 5).is_err() && behind(17, 1).is_err());
        assert_eq!(behind(40, 0).unwrap(), 0);
        assert!(Address::NULL.view(8).is_empty());
    }
}
