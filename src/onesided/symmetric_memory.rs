//! One rank's symmetric heap: its memory, and the access to the copies of all ranks.

use super::race::Races;
use super::region::Region;
use crate::error::{Error, Result};
use crate::sync::prim::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::timing::{Carried, Timing, WORD};
use crate::transport::Transport;
use crate::transport::watch::seconds;
use crate::types::Rank;
use std::sync::{Arc, OnceLock};

/// Segments that a heap may have. Each is at least as large as all before it together, so they are never too few.
const SEGMENTS: usize = 48;

/// The number of eager polls before a wait takes the slow path: about the time of a put and its answer.
const ANSWER: u32 = 4;

/// The symmetric heap of one rank.
pub struct SymmetricMemory {
    pub(super) transport: Arc<Transport>,
    segments: [OnceLock<Region>; SEGMENTS],
    /// The time of stores and waits. A program must not bypass a declared machine.
    pub(super) timing: Timing,
    /// Writers without order are looked for.
    pub(super) races: OnceLock<Races>,
    closed: AtomicBool,
}

/// The position of a range of this rank's symmetric memory.
#[derive(Clone, Copy)]
pub(super) struct HeapPlace<'a> {
    pub region: &'a Region,
    pub offset: usize,
}

impl SymmetricMemory {
    /// Empty.
    pub fn new(timing: Timing) -> SymmetricMemory {
        timing.serve_exactly();
        let transport = timing.transport().clone();
        let segments = [const { OnceLock::new() }; SEGMENTS];
        SymmetricMemory {
            transport,
            segments,
            timing,
            races: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns the ranks' connection.
    pub fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    /// Adds a segment; all ranks add the same segments in the same order.
    pub fn add(&self, segment: Region) -> Result<()> {
        let mut segment = Some(segment);
        for slot in &self.segments {
            if slot.get().is_none()
                && let Some(new) = segment.take()
            {
                segment = slot.set(new).err();
            }
            if segment.is_none() {
                return Ok(());
            }
        }
        Err(Error::system(format!("a symmetric heap has {SEGMENTS} segments already; finalize it")))
    }

    /// Returns the segments, in their order.
    pub fn segments(&self) -> impl Iterator<Item = &Region> {
        self.segments.iter().map_while(OnceLock::get)
    }

    /// Enables the detection of unordered writers.
    pub fn check_races(&self, races: Races) {
        let _ = self.races.set(races);
    }

    /// Closes the heap: every later use is refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
    /// Tells whether it is closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// This rank.
    pub fn my_pe(&self) -> Rank {
        self.transport.rank()
    }

    /// Returns the position of a range of symmetric memory; `what` names the argument.
    #[inline(always)] // An error is returned through memory, and that costs more than the search.
    pub(super) fn place(&self, what: &str, addr: usize, bytes: usize) -> Result<HeapPlace<'_>> {
        for region in self.segments() {
            if let Some(offset) = region.offset_of(addr, bytes) {
                return Ok(HeapPlace { region, offset });
            }
        }
        Err(self.misplaced(what, addr, bytes))
    }

    #[cold]
    fn misplaced(&self, what: &str, addr: usize, bytes: usize) -> Error {
        let rank = self.my_pe();
        let holds = self.segments().find(|region| region.offset_of(addr, 1).is_some());
        let Some(region) = holds else {
            return Error::argument(format!(
                "{what} {addr:#x} of rank {rank} is not in the symmetric heap; pass this rank's own address of memory that \
                 pennyShmemMalloc gave, and name the other rank by pe"
            ));
        };
        let left = region.base() + region.bytes() - addr;
        Error::argument(format!(
            "{what} {addr:#x} of rank {rank} begins {left} bytes before the end of the symmetric heap's segment, and {bytes} \
             bytes are meant; pass fewer, or allocate them"
        ))
    }

    /// Returns a rank that is meant by a number.
    #[inline]
    pub(super) fn peer(&self, pe: i32) -> Result<Rank> {
        if pe >= 0 && (pe as u32) < self.transport.nranks() {
            return Ok(pe as u32);
        }
        Err(self.no_such_peer(pe))
    }

    #[cold]
    fn no_such_peer(&self, pe: i32) -> Error {
        Error::no_rank("pe", pe, self.transport.nranks())
    }

    /// Returns the word at a symmetric address, in a rank's copy.
    #[inline(always)] // As `place`.
    pub(super) fn word64(&self, what: &str, addr: usize, rank: Rank) -> Result<&AtomicU64> {
        let place = self.place(what, addr, 8)?;
        place.region.word64(&self.transport, rank, place.offset).ok_or_else(|| misaligned(what, addr, 8))
    }

    /// Returns the half word at a symmetric address, in a rank's copy.
    #[inline]
    pub(super) fn word32(&self, what: &str, addr: usize, rank: Rank) -> Result<&AtomicU32> {
        let place = self.place(what, addr, 4)?;
        place.region.word32(&self.transport, rank, place.offset).ok_or_else(|| misaligned(what, addr, 4))
    }

    /// Returns a rank's copy of what lies at one's own symmetric address, as an address that loads and stores of this process
    /// reach. `None`: it is not symmetric memory, the rank is on another host, or the ranks stand on a declared machine, which such
    /// access would bypass.
    pub fn ptr(&self, addr: usize, pe: i32) -> Result<Option<usize>> {
        let rank = self.peer(pe)?;
        if self.timing.is_declared() || self.transport.is_far(rank) {
            return Ok(None);
        }
        let Ok(place) = self.place("dest", addr, 1) else { return Ok(None) };
        // What lies behind it in its segment must be reached from there too.
        let whole = place.region.view(&self.transport, rank, 0, place.region.bytes())?;
        Ok(Some(whole.part(place.offset, 1).addr() as usize))
    }

    /// Checks that calls can still succeed; for calls that do not wait.
    #[inline]
    pub(super) fn usable(&self) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        Ok(())
    }

    /// Carries bytes from one rank to another: on a declared machine it returns when they would be there.
    #[inline]
    pub(super) fn carry(&self, from: Rank, to: Rank, bytes: usize) -> Result<Carried<'_>> {
        self.timing.put(from, to, bytes, None)
    }

    /// Carries bytes from a rank, which is asked for them first.
    #[inline]
    pub(super) fn fetch(&self, from: Rank, bytes: usize) -> Result<()> {
        if self.timing.is_declared() {
            drop(self.carry(self.my_pe(), from, WORD)?);
            drop(self.carry(from, self.my_pe(), bytes)?);
        }
        Ok(())
    }

    /// A rank of another host was asked to store something: its waits there look again.
    pub(super) fn stored_far(&self, rank: Rank) -> Result<()> {
        self.timing.complete_far()?;
        self.stored(rank);
        Ok(())
    }

    /// Something has been stored at a rank: its waits there look again.
    #[inline]
    pub(super) fn stored(&self, rank: Rank) {
        self.transport.after_post_to(rank);
        self.timing.stored(rank);
    }

    /// Wait for what some rank will store; `what` says what that is.
    #[inline]
    pub(super) fn wait(&self, mut ready: impl FnMut() -> bool, what: impl Fn() -> String) -> Result<()> {
        let t = &*self.transport;
        // An answer from another core takes longer than a collective's next step, and what follows looks less often.
        if (0..ANSWER).any(|_| self.timing.eagerly(&mut ready)) {
            return Ok(());
        }
        let expired = || {
            let others: Vec<Rank> = (0..t.nranks()).filter(|&r| r != t.rank()).collect();
            let (rank, waited, what) = (t.rank(), seconds(t.timeout_ns()), what());
            Error::timeout(match others.is_empty() {
                true => format!(
                    "rank {rank} waited {waited} for {what}, which only another thread of this rank could store: it is the only rank"
                ),
                false => format!(
                    "rank {rank} waited {waited} for {what}; the others: {}; if they are only slow, raise PENNY_TIMEOUT or timeoutMs",
                    t.who(&others)
                ),
            })
        };
        // Its own rank may end the heap while a thread waits in it.
        let watch = || self.usable().and_then(|()| t.watch_hope());
        self.timing.wait_until(ready, watch, expired, &what)
    }
}

#[cold]
pub(super) fn misaligned(what: &str, addr: usize, bytes: usize) -> Error {
    Error::argument(format!("{what} {addr:#x} is not aligned to the {bytes} bytes of its type"))
}

#[cold]
fn closed() -> Error {
    Error::usage(
        "the symmetric heap was finalized, or its communicator destroyed; call pennyShmemInit again on all ranks",
    )
}
