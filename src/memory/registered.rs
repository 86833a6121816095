//! Registered buffers: a program's own memory, moved under its feet into the shareable heap.
//!
//! The whole pages of a buffer become pages of the heap's file, at the addresses where they were. Peers have the heap
//! mapped already, so they reach them by an offset, as if pennyMemAlloc had given the memory. The first and the last
//! page may hold other objects as well, such as malloc's own notes; they are not moved, but have a twin in the heap, to
//! and from which the few bytes of a call are copied.
//!
//! ```text
//!     buffer   ... others | head |  whole pages  | tail | others ...     the program's addresses
//!                             :        ||          :                     || the same memory    : copied for a call
//!     heap      ...       | head |  whole pages  | tail |       ...      the twin: what peers see, and this rank in a call
//! ```
//!
//! Why not move the outer pages too: another thread may write to its object on them at any moment, and that write
//! would be lost between the copy and the exchange unless userfaultfd holds it back, which few systems allow; and after
//! a fork, parent and child would write their malloc's notes into one page.

use super::alias;
use super::heap::{self, Heap};
use super::view::{Address, Payload};
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sys::maps::{self, Mapping};
use crate::sys::{fork, remap};
use std::ops::Range;
use std::sync::Arc;

/// The addresses of a registered buffer and of its twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Buffer {
    start: usize,
    end: usize,
    /// The whole pages: first and end.
    pages: (usize, usize),
    /// The heap offset of the byte that stands for `start`.
    twin: usize,
}

/// A share in a registered buffer; the last one that is [released](Registered::release) puts private memory back.
#[must_use]
pub struct Registered(Buffer);

/// The heap's memory behind a registered buffer; given back to the heap with the last holder.
pub struct Twin {
    block: usize,
}

impl Drop for Twin {
    fn drop(&mut self) {
        // In a forked child it is the parent's, and refused.
        let _ = heap::mine().and_then(|heap| heap.free(self.block));
    }
}

/// The rest of a share that was released.
#[must_use]
pub struct Released {
    /// To be held for as long as a peer may be at work on the buffer.
    pub twin: Arc<Twin>,
    /// A warning for the program.
    pub warning: Option<String>,
}

/// The outcome of an attempt to register a buffer.
pub enum RegisterOutcome {
    /// Peers can access the buffer from now on.
    Registered(Registered),
    /// The buffer is memory of the heap, which peers can access already.
    Reachable,
    /// The buffer stays as it was, for this reason.
    Declined(String),
}

/// A registered buffer of this process.
struct Entry {
    buffer: Buffer,
    twin: Arc<Twin>,
    shares: usize,
    /// The process that moved it; a forked child has its parent's list, and no buffer of its own in it.
    generation: u32,
}

impl Entry {
    fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }
}

/// All of this process, whatever communicator they belong to. No two share a byte.
static BUFFERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Moves a buffer into the heap, or takes a share in the registered buffer that it is part of.
///
/// The buffer is lent until the last share is released. By the promise made to [`Address::from_raw`] nobody else uses the
/// bytes during the call, and nobody frees them before.
pub fn register(buffer: Address<'static>, bytes: usize) -> Result<RegisterOutcome> {
    let (heap, start) = (heap::mine()?, buffer.get());
    let lent = |end: &usize| end - start <= buffer.lent();
    let end = start.checked_add(bytes).filter(lent).ok_or_else(|| {
        Error::argument(format!("buff {start:#x} and its {bytes} bytes reach past the end of its memory"))
    })?;
    if heap.offset_of(start, bytes).is_some() {
        return Ok(RegisterOutcome::Reachable);
    }
    let mut all = BUFFERS.lock();
    let mappings = mappings_of(&(start..end))?;
    if let Some(entry) = all.iter_mut().find(|e| e.is_ours() && start < e.buffer.end && e.buffer.start < end)
    {
        if start < entry.buffer.start || entry.buffer.end < end {
            return Ok(RegisterOutcome::Declined("it overlaps a registered buffer in part".into()));
        }
        if !entry.buffer.is_in_place(heap, start) {
            return Ok(RegisterOutcome::Declined(
                "a registered buffer was freed here without pennyCommDeregister".into(),
            ));
        }
        entry.shares += 1;
        return Ok(RegisterOutcome::Registered(Registered(entry.buffer)));
    }
    if let Some(other) = mappings.iter().find(|m| !m.is_ordinary()) {
        return Ok(RegisterOutcome::Declined(format!("it is not ordinary memory but {}", other.text())));
    }
    // SAFETY: ordinary private memory, which is not written, by the promise made to Address.
    match unsafe { moved(heap, start, end) } {
        Ok(entry) => {
            let buffer = entry.buffer;
            alias::add(buffer.pages.0..buffer.pages.1, heap.base() + buffer.offset(buffer.pages.0));
            all.push(entry);
            Ok(RegisterOutcome::Registered(Registered(buffer)))
        }
        Err(e) => Ok(RegisterOutcome::Declined(e.message.clone())),
    }
}

/// The mappings of a range, which must not have holes.
fn mappings_of(range: &Range<usize>) -> Result<Vec<Mapping>> {
    let mappings = maps::over(range)?;
    let reached =
        mappings.iter().fold(range.start, |at, m| if m.range.start <= at { m.range.end } else { at });
    if reached < range.end {
        return Err(Error::argument(format!(
            "buff {:#x} has no memory at {reached:#x}, within its {} bytes; pass memory that is allocated",
            range.start,
            range.len()
        )));
    }
    Ok(mappings)
}

/// # Safety
/// The range is ordinary private memory, and nothing writes to it during the call.
unsafe fn moved(heap: &Heap, start: usize, end: usize) -> Result<Entry> {
    let page = remap::page();
    let down = |at: usize| at / page * page;
    let pages = (start.next_multiple_of(page), down(end));
    if pages.0 >= pages.1 {
        return Err(Error::argument("it holds no whole page"));
    }
    let file = heap.file()?;
    let bytes = end.next_multiple_of(page) - down(start);
    let block = heap.alloc(bytes + page)?;
    let first = heap.offset_of(block.next_multiple_of(page), bytes);
    let first = first.ok_or_else(|| Error::internal("the heap gave memory outside of itself"))?;
    let twin = first + (start - down(start));
    let buffer = Buffer { start, end, pages, twin };
    die_point!(160 "registered_twin");
    // SAFETY: the caller's promise, and whole pages.
    if let Err(e) = unsafe { remap::share(file, buffer.offset(pages.0), pages.0, pages.1 - pages.0) } {
        heap.free(block)?;
        return Err(e);
    }
    die_point!(161 "registered_moved");
    if let Some(twin) = heap.view(first, bytes) {
        remap::make_present(twin.addr() as usize, bytes);
    }
    Ok(Entry { buffer, twin: Arc::new(Twin { block }), shares: 1, generation: fork::generation() })
}

impl Buffer {
    /// Tells whether the range lies within the buffer.
    #[inline]
    pub fn holds(&self, view: Payload<'_>) -> bool {
        let at = view.addr() as usize;
        self.start <= at && at <= self.end && view.bytes() <= self.end - at
    }

    /// The address of the first byte.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The heap offset that stands for an address.
    fn offset(&self, at: usize) -> usize {
        self.twin + (at - self.start)
    }

    /// The heap offset and the twin of a range that lies within.
    pub fn twin_of(&self, view: Payload<'_>) -> Option<(usize, Payload<'static>)> {
        let offset = self.offset(view.addr() as usize);
        Some((offset, heap::mine().ok()?.view(offset, view.bytes())?))
    }

    /// The parts of a range, and of its twin, that are not the same memory: on the first page and on the last.
    pub fn edges<'a>(&self, view: Payload<'a>, twin: Payload<'a>) -> [(Payload<'a>, Payload<'a>); 2] {
        let (from, to) = (view.addr() as usize, view.addr() as usize + view.bytes());
        let head = from..self.pages.0.clamp(from, to);
        let tail = self.pages.1.clamp(from, to)..to;
        [head, tail].map(|edge| {
            let (at, bytes) = (edge.start - from, edge.len());
            (view.part(at, bytes), twin.part(at, bytes))
        })
    }

    /// Are the pages of a range still those that were put there? Looks at the first; false if the program has freed it.
    pub fn is_still(&self, view: Payload<'_>) -> bool {
        heap::mine().is_ok_and(|heap| self.is_in_place(heap, view.addr() as usize))
    }

    fn is_in_place(&self, heap: &Heap, at: usize) -> bool {
        let at = at.next_multiple_of(remap::page()).clamp(self.pages.0, self.pages.1 - remap::page());
        let twin = heap.view(self.offset(at), 1).map(|twin| twin.addr() as usize);
        twin.is_none_or(|twin| remap::same_page(at, twin) != Some(false))
    }
}

impl Registered {
    /// The buffer, which may be larger than what was registered.
    pub fn buffer(&self) -> Buffer {
        self.0
    }

    /// Gives the share up. `None`: it is a parent's, and this process a forked child.
    pub fn release(self) -> Option<Released> {
        let mut all = BUFFERS.lock();
        let at = all.iter().position(|e| e.is_ours() && e.buffer == self.0)?;
        all[at].shares -= 1;
        if all[at].shares > 0 {
            return Some(Released { twin: all[at].twin.clone(), warning: None });
        }
        let Entry { buffer, twin, .. } = all.swap_remove(at);
        let back = put_back(&buffer);
        die_point!(163 "registered_back");
        let warning = match back {
            Ok(whole) => {
                alias::remove(&(buffer.pages.0..buffer.pages.1));
                let freed = "was freed, or its pages exchanged, without pennyCommDeregister";
                (!whole).then(|| format!("the buffer at {:#x} {freed}", buffer.start))
            }
            Err(e) => {
                // The program's memory is the twin's from now on.
                std::mem::forget(twin.clone());
                Some(format!("the buffer at {:#x} stays in the shareable heap: {e}", buffer.start))
            }
        };
        Some(Released { twin, warning })
    }
}

/// Puts private pages in the place of those pages that are still ours. True: all were.
fn put_back(buffer: &Buffer) -> Result<bool> {
    let file = heap::mine()?.file()?;
    let mut left = buffer.pages.1 - buffer.pages.0;
    for mapping in maps::over(&(buffer.pages.0..buffer.pages.1))? {
        let from = mapping.range.start.max(buffer.pages.0);
        let bytes = mapping.range.end.min(buffer.pages.1) - from;
        if mapping.shares(file, from, buffer.offset(from)) {
            // SAFETY: these pages are ours, and nothing writes to them, by the promise made to `register`.
            unsafe { remap::unshare(file, buffer.offset(from), from, bytes) }?;
            left -= bytes;
        }
    }
    Ok(left == 0)
}

#[cfg(test)]
#[path = "registered_tests.rs"]
mod tests;
