//! The file in which a communicator and all that descend from it have their segments.

use super::{Control, Header, Layout};
use crate::error::{Error, Result};
use crate::memory::segment::Segment;
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::kept_file::KeptFile;
use crate::sys::shm;
use std::fs::File;

/// Where a child lies in the file of its ancestry.
#[derive(Clone, Copy)]
pub struct ChildPlace {
    /// Where it begins; 0 is no child's.
    pub at: u64,
    /// Staging bytes of each rank.
    pub staging: u64,
}

/// Bytes of a file beyond the first segment. They are addresses only.
pub(super) const CHILDREN: usize = 1 << 62;
/// Children that a file system should have room for, each as large as the first segment.
pub(super) const LIVE_CHILDREN: usize = 32;
/// Bytes of a page, and of what stays of the first segment as long as the file is open.
const PAGE: usize = 4096;

/// The file in which a communicator and all that descend from it have their segments, and its first page.
pub(super) struct FamilyFile {
    file: KeptFile,
    first_page: Segment,
    /// Bytes of the first segment.
    first: usize,
}

impl FamilyFile {
    /// Takes a file whose first `first` bytes are the first segment.
    pub fn new(file: File, first: usize) -> Result<FamilyFile> {
        Ok(FamilyFile { first_page: Segment::of(&file, PAGE)?, file: KeptFile::new(file), first })
    }

    /// Tells whether another is the same file.
    pub fn is(&self, other: &FamilyFile) -> bool {
        self.file.number().is_some_and(|number| other.file.number() == Some(number))
    }

    /// Returns the file by which others map it.
    pub fn get(&self) -> Result<&File> {
        self.file.get()
    }

    /// Returns the file's device and number; `None`: the system does not tell.
    pub fn number(&self) -> Option<(u64, u64)> {
        self.file.number()
    }

    fn header(&self) -> &Header {
        &self.first_page.structs::<Header>(0, 1)[0]
    }

    /// Bytes behind the first segment that children have been given.
    fn given(&self) -> &AtomicU64 {
        &self.header().given
    }

    /// Returns the process whose death a communicator of the file has noticed first; 0: none.
    pub fn dead(&self) -> u64 {
        self.header().dead.load(Ordering::Acquire)
    }

    /// Notes the first death of a communicator of the file.
    pub fn note_dead(&self, process: u64) {
        self.header().dead.store(process, Ordering::Release);
    }

    /// Takes a place for a child.
    pub fn take(&self, staging: u64, layout: Layout) -> Result<ChildPlace> {
        let before = self.given().fetch_add(layout.total() as u64, Ordering::Relaxed);
        let place = ChildPlace { at: (self.first as u64).saturating_add(before), staging };
        self.check(place, layout).inspect_err(|_| self.give_back(before, layout.total()))?;
        Ok(place)
    }

    /// Checks that a child with this layout may lie there.
    pub fn check(&self, place: ChildPlace, layout: Layout) -> Result<()> {
        let bytes = self.get()?.metadata().map_or(0, |file| file.len());
        let end = place.at.saturating_add(layout.total() as u64);
        match place.at >= self.first as u64 && place.at.is_multiple_of(PAGE as u64) && end <= bytes {
            true => Ok(()),
            false => Err(Error::system(format!(
                "there is no room for another communicator behind those that were made from the first one ({bytes} bytes in all); \
                 raise `ulimit -f`, or begin with pennyCommInitRank"
            ))),
        }
    }

    /// Gives a segment's pages back, which no rank uses any more.
    pub fn release(&self, at: usize, bytes: usize) {
        let kept = if at == 0 { PAGE } else { 0 };
        let released = self.release_pages(at + kept, bytes - kept);
        if at > 0 && released {
            self.give_back((at - self.first) as u64, bytes);
        }
    }

    /// Gives the pages of a range back. Returns false if they stay.
    pub fn release_pages(&self, at: usize, bytes: usize) -> bool {
        self.get().is_ok_and(|file| shm::release(file, at, bytes))
    }

    /// Gives addresses back, if nothing lies behind them: a program that makes and frees one child after another never comes to
    /// the end.
    fn give_back(&self, before: u64, bytes: usize) {
        let (end, order) = (before.wrapping_add(bytes as u64), Ordering::Relaxed);
        let _ = self.given().compare_exchange(end, before, order, order);
    }
}

impl Control {
    /// Returns the device and number of the file, and where the segment begins in it: the same for all ranks that map it. A segment that all
    /// ranks have left may lend them to a later one. `None`: the system does not tell.
    pub fn identity(&self) -> Option<[u64; 3]> {
        self.file.number().map(|(device, number)| [device, number, self.at as u64])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::memory::control::{Control, Layout};
    use std::os::unix::fs::MetadataExt;

    /// Both ranks' mappings of a new first segment.
    fn two() -> [Control; 2] {
        let layout = Layout::new(2, 1 << 20);
        let first = Control::create(layout).unwrap();
        let other = Control::open(first.file().unwrap().try_clone().unwrap(), layout).unwrap();
        [first, other]
    }

    #[test]
    fn what_lay_last_is_given_out_again_and_what_did_not_is_not() {
        let [first, other] = two();
        let child =
            |parents: &[Control; 2], place| [0, 1].map(|i| Control::child(&parents[i], 2, 2, place).unwrap());
        let parents = [first, other];
        let place = parents[0].place_for_child(2, 4096).unwrap();
        drop(child(&parents, place));
        assert_eq!(parents[1].place_for_child(2, 4096).unwrap().at, place.at, "both have left");
        let earlier = child(&parents, place);
        let later = parents[0].place_for_child(2, 4096).unwrap();
        assert!(later.at > place.at);
        drop(earlier);
        assert!(parents[0].place_for_child(2, 4096).unwrap().at > later.at, "another lies behind it");
    }

    #[test]
    fn children_keep_one_page_of_the_first_segment() {
        let [first, other] = two();
        let file = first.file().unwrap().try_clone().unwrap();
        let place = first.place_for_child(2, 4096).unwrap();
        let child = [&first, &other].map(|parent| Control::child(parent, 2, 2, place).unwrap());
        let kept = |file: &std::fs::File| file.metadata().unwrap().blocks() * 512;
        let before = kept(&file);
        drop(first);
        assert_eq!(kept(&file), before, "another rank uses it");
        drop(other);
        assert!(kept(&file) <= 64 << 10, "{} of {before} bytes", kept(&file));
        drop(child);
        assert_eq!(kept(&file), 4096);
    }
}
