//! Memory that this process sees at two addresses: the whole pages of registered buffers, and their twins in the heap.
//!
//! ```text
//!     program's addresses   ... | whole pages of a buffer | ...
//!                                  ||  one memory  ||
//!     heap's addresses      ... |         twin            | ...
//! ```
//!
//! Two ranges share memory if their addresses do, or if one covers a part of such pages and the other the same part of
//! their twin. [`View::overlaps`](super::view::Payload::overlaps) asks both; nothing else need look at this list.

use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU64, Ordering};
use std::ops::Range;

/// Pages that are mapped twice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pages {
    /// The program's addresses.
    own: Range<usize>,
    /// The address of the first byte in the heap.
    twin: usize,
}

static ALL: Mutex<Vec<Pages>> = Mutex::new(Vec::new());
/// The number of entries of [`ALL`].
static COUNT: AtomicU64 = AtomicU64::new(0);
/// What covers the program's addresses of all of them, and what covers all twins: first address and end.
static OWN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static TWINS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl Pages {
    fn twins(&self) -> Range<usize> {
        self.twin..self.twin + self.own.len()
    }
    /// Where the heap has that part of a range which lies on these pages.
    fn in_heap(&self, range: &Range<usize>) -> Range<usize> {
        let (start, end) = (range.start.max(self.own.start), range.end.min(self.own.end));
        let at = |address: usize| self.twin + address.saturating_sub(self.own.start);
        if start < end { at(start)..at(end) } else { 0..0 }
    }
}

fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// From now on these pages of the program are also those at `twin`.
pub(super) fn add(own: Range<usize>, twin: usize) {
    let mut all = ALL.lock();
    all.push(Pages { own, twin });
    publish(&all);
}

/// Removes pages that have only one address again.
pub(super) fn remove(own: &Range<usize>) {
    let mut all = ALL.lock();
    all.retain(|pages| pages.own != *own);
    publish(&all);
}

fn publish(all: &[Pages]) {
    let cover = |of: &[AtomicU64; 2], each: &dyn Fn(&Pages) -> Range<usize>| {
        let start = all.iter().map(|pages| each(pages).start).min().unwrap_or(0);
        let end = all.iter().map(|pages| each(pages).end).max().unwrap_or(0);
        // ORDER: a thread that passes a registered buffer has registered it, or learned of it from the thread that did.
        of[0].store(start as u64, Ordering::Relaxed);
        of[1].store(end as u64, Ordering::Relaxed);
    };
    cover(&OWN, &|pages| pages.own.clone());
    cover(&TWINS, &Pages::twins);
    COUNT.store(all.len() as u64, Ordering::Relaxed);
}

/// Tells whether there are such pages.
#[inline]
pub(super) fn are_some() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// May two ranges that have no address in common share memory? A quick answer, in which no stands for no.
#[inline]
pub(super) fn may_meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    // By value: what is passed by reference is written to memory before it is asked whether there are some.
    COUNT.load(Ordering::Relaxed) != 0 && one_in_each([a.start, a.end], [b.start, b.end])
}

#[inline(never)]
fn one_in_each(a: [usize; 2], b: [usize; 2]) -> bool {
    let [a, b] = [a, b].map(|[start, end]| start..end);
    let covered = |of: &[AtomicU64; 2]| {
        let [start, end] = of.each_ref().map(|word| word.load(Ordering::Relaxed) as usize);
        start..end
    };
    let (own, twins) = (covered(&OWN), covered(&TWINS));
    meet(&a, &own) && meet(&b, &twins) || meet(&b, &own) && meet(&a, &twins)
}

/// Tells whether two ranges share memory at different addresses.
#[cold]
pub(super) fn share(a: &Range<usize>, b: &Range<usize>) -> bool {
    ALL.lock().iter().any(|pages| meet(&pages.in_heap(a), b) || meet(&pages.in_heap(b), a))
}

/// The heap's address of a range of the program's, if all of it lies on such pages.
pub(super) fn twin_of(range: &Range<usize>) -> Option<usize> {
    let all = ALL.lock();
    let pages = all.iter().find(|pages| pages.own.start <= range.start && range.end <= pages.own.end)?;
    Some(pages.in_heap(range).start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_share_what_lies_on_the_same_pages_and_nothing_else() {
        // No addresses that anything has.
        const OWN: usize = 1 << 60;
        const TWIN: usize = 1 << 61;
        add(OWN..OWN + 8192, TWIN + 4096);
        let share = |a: Range<usize>, b: Range<usize>| {
            let answer = may_meet(&a, &b) && super::share(&a, &b);
            assert_eq!(answer, may_meet(&b, &a) && super::share(&b, &a));
            answer
        };
        assert!(share(OWN..OWN + 1, TWIN + 4096..TWIN + 4097));
        assert!(share(OWN - 100..OWN + 9000, TWIN + 12287..TWIN + 20000));
        assert!(!share(OWN..OWN + 64, TWIN + 4160..TWIN + 4200));
        assert!(!share(OWN..OWN + 8192, TWIN..TWIN + 4096));
        assert!(!share(OWN - 100..OWN, TWIN..TWIN + 9000));
        assert!(!share(OWN..OWN + 64, OWN + 64..OWN + 128));
        assert_eq!(twin_of(&(OWN + 8..OWN + 16)), Some(TWIN + 4104));
        assert_eq!(twin_of(&(OWN + 8..OWN + 8193)), None);
        remove(&(OWN..OWN + 8192));
        assert!(!share(OWN..OWN + 1, TWIN + 4096..TWIN + 4097));
    }
}
