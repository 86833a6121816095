//! Semaphores and the mesh, by communicator: what all ranks make together, and the handles of it.
//!
//! ```text
//!     rank 0   zeroed lines of its heap -> tell all "DMA, 3 of them, `recv`, at offset 4096"  -> the same? -> region, handle
//!     rank 1   zeroed lines of its heap -> tell all "DMA, 3 of them, `recv`, at offset 512"   -> the same? -> region, handle
//! ```

use super::deferred_free::DeferredFree;
use super::range::no_memory;
use super::symmetric;
use crate::comm::agree::{Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::comm::registry::{self, CommHandle};
use crate::comm::shared::SemaphoreHome;
use crate::error::{Error, Result};
use crate::handle::{self, Objects, Remembered, SemaphoreKind};
use crate::kernels;
use crate::memory::control::{FAILED, LEFT};
use crate::memory::heap;
use crate::onesided::semaphore::{self, BARRIERS, Making, SemaphoreMemory, SemaphoreUnit, Semaphores};
use crate::onesided::{Mesh, Races, Region, SymmetricMemory};
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::sys::fork;
use crate::types::Rank;
use std::sync::{Arc, OnceLock};

/// Bytes of a name: it must fit what the ranks tell each other.
const NAME: usize = 8 * NAME_WORDS;

thread_local! {
    static LAST: Remembered<SemaphoreKind, Held> = const { handle::nothing_remembered() };
}
static TABLE: Objects<SemaphoreKind, Held> = Objects::new(&LAST);

/// Names semaphores of this process.
pub type SemaphoreHandle = handle::Handle<SemaphoreKind>;

/// The semaphores behind a handle.
struct Held {
    comm: CommHandle,
    semaphores: Semaphores,
    /// The process that made them.
    generation: u32,
    /// `None`: their memory is the communicator's.
    deferred: Mutex<Option<DeferredFree>>,
}

/// A rank's proposal: a call with two numbers and a name, and the rank's memory for it: `bytes` bytes from `begin` on.
struct SemaphoreCall<'a> {
    ask: Ask,
    numbers: [u64; 2],
    name: &'a str,
    begin: u64,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Ask {
    Home = 1,
    Create,
    Destroy,
    Mesh,
}

/// Words of a name.
const NAME_WORDS: usize = 4;

impl SemaphoreCall<'_> {
    fn new(ask: Ask, numbers: [u64; 2], name: &str) -> SemaphoreCall<'_> {
        SemaphoreCall { ask, numbers, name, begin: 0, bytes: 0 }
    }
}

impl Proposal for SemaphoreCall<'_> {
    const SUBJECT: Subject = Subject::Semaphores;
    const EQUAL: usize = 3 + NAME_WORDS;
    type Words = [u64; 4 + NAME_WORDS];

    fn words(&self) -> Self::Words {
        let mut words = [0; 4 + NAME_WORDS];
        words[..3].copy_from_slice(&[self.ask as u64, self.numbers[0], self.numbers[1]]);
        for (word, bytes) in words[3..Self::EQUAL].iter_mut().zip(self.name.as_bytes().chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        words[Self::EQUAL] = self.begin;
        words
    }

    fn reads(words: &[u64]) -> String {
        let name = || {
            let bytes: Vec<u8> = words[3..Self::EQUAL].iter().flat_map(|word| word.to_le_bytes()).collect();
            String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
        };
        match words[..2] {
            [1, 0] => "pennyShmemInit without PENNY_CHECK".into(),
            [1, 1] => "pennyShmemInit with PENNY_CHECK=race".into(),
            [1, _] => "pennyShmemInit with a PENNY_CHECK that there is not".into(),
            [2, unit] => {
                let kind = if unit == SemaphoreUnit::Dma as u64 { "DMA" } else { "regular" };
                format!("pennySemaphoreCreate of {} {kind} semaphores `{}`", words[2], name())
            }
            [3, _] => format!("pennySemaphoreDestroy of `{}`", name()),
            [4, u64::MAX] => "pennyMesh with sides that are none".into(),
            [4, sides] => format!("pennyMesh with {}", Mesh::of_word(sides)),
            _ => "something that is no call on semaphores".into(),
        }
    }

    fn inability(&self, rank: Rank) -> String {
        no_memory(rank, self.bytes)
    }
}

impl CommCore {
    /// Allocates `bytes` zeroed bytes on every rank, after all ranks have agreed on the call.
    fn lines(
        &mut self,
        ask: Ask,
        bytes: usize,
        numbers: [u64; 2],
        name: &str,
    ) -> Result<(Region, DeferredFree)> {
        let own = heap::mine()?;
        let base = own.alloc(bytes);
        let offset = base.as_ref().ok().and_then(|&base| own.offset_of(base, bytes));
        if let Some(view) = offset.and_then(|offset| own.view(offset, bytes)) {
            kernels::zero(view);
        }
        // No rank uses it before all ranks have come here and so have zeroed it.
        let word = SemaphoreCall::EQUAL;
        self.range_of_all(base, bytes, word, |begin| SemaphoreCall { ask, numbers, name, begin, bytes })?
    }

    /// Makes the barrier semaphores of a new symmetric heap.
    pub(in crate::comm) fn semaphores_init(&mut self, symmetric: Arc<SymmetricMemory>) -> Result<()> {
        let check = Races::are_asked_for();
        let (n, checked) = (self.nranks(), check.as_ref().map_or(2, |&check| u64::from(check)));
        let own = SemaphoreMemory::bytes(n);
        let bytes = if checked == 1 { own + Races::bytes(n) } else { own };
        let (region, deferred) = self.lines(Ask::Home, bytes, [checked, 0], "")?;
        let check = match check {
            Ok(check) => check,
            Err(e) => {
                // The same on all ranks, or they would disagree.
                deferred.free()?;
                return Err(e);
            }
        };
        if check && self.transport.has_far() {
            deferred.free()?;
            return self.transport.refuse_several_hosts("PENNY_CHECK=race");
        }
        if check {
            symmetric.check_races(Races::new(self.transport.clone(), region.clone(), own));
        }
        let barriers = [const { OnceLock::new() }; BARRIERS];
        let semaphore_home =
            SemaphoreHome { home: SemaphoreMemory::new(symmetric, region), deferred, barriers };
        *self.shared.semaphores.lock() = Some(semaphore_home);
        Ok(())
    }

    fn home(&self) -> Result<Arc<SemaphoreMemory>> {
        let semaphore_home = self.shared.semaphores.lock();
        semaphore_home
            .as_ref()
            .map(|semaphore_home| semaphore_home.home.clone())
            .ok_or_else(symmetric::absent)
    }

    fn semaphore_create(&mut self, kind: SemaphoreUnit, name: &str, count: i32) -> Result<SemaphoreHandle> {
        self.usable()?;
        self.broken()?;
        let home = self.home()?;
        if name.is_empty() || name.len() >= NAME {
            return Err(Error::argument(format!(
                "name is `{name}`, of {} bytes; it takes 1 to {} bytes",
                name.len(),
                NAME - 1
            )));
        }
        let count = usize::try_from(count).ok().filter(|count| (1..=semaphore::MOST).contains(count));
        let count = count.ok_or_else(|| {
            Error::argument(format!("count must be from 1 to {}, semaphores a call", semaphore::MOST))
        })?;
        let bytes = semaphore::bytes(count, self.nranks());
        let (region, deferred) = self.lines(Ask::Create, bytes, [kind as u64, count as u64], name)?;
        let semaphores = Semaphores::new(home, region, Making { name: name.into(), kind, count });
        insert(self.handle(), semaphores, Some(deferred))
    }

    fn semaphore_destroy(&mut self, handle: SemaphoreHandle) -> Result<()> {
        self.usable()?;
        self.broken()?;
        let held = TABLE.get(handle).ok_or_else(|| stale("sem", handle))?;
        let id = u64::from(held.semaphores.id());
        if id == 0 {
            return Err(Error::usage(
                "sem is a barrier semaphore, which is there for as long as the symmetric heap; leave it alone",
            ));
        }
        self.agree(&SemaphoreCall::new(Ask::Destroy, [id, 0], held.semaphores.name()), Ok(()))?;
        // All ranks have come, so none signals any more.
        TABLE.remove(handle);
        let left = held.semaphores.retire();
        let deferred = held.deferred.lock().take();
        deferred.map_or(Ok(()), DeferredFree::free)?;
        left
    }

    fn mesh(&mut self, dims: &[i32]) -> Result<()> {
        self.usable()?;
        self.broken()?;
        let home = self.home()?;
        let mesh = Mesh::new(dims, self.nranks());
        // A rank whose sides are wrong says so: the others count on it.
        let word = mesh.as_ref().map_or(u64::MAX, |mesh| mesh.word());
        let told = self.agree(&SemaphoreCall::new(Ask::Mesh, [word, 0], ""), Ok(()));
        let mesh = mesh?;
        told?;
        home.declare(mesh);
        Ok(())
    }

    /// Semaphores that are not 0 on this rank, unless they are only what came of a failure. They are reported once.
    pub(in crate::comm) fn semaphores_left(&self) -> Result<()> {
        let t = &self.transport;
        let failed = |r| {
            let life = t.lines(r).life(r);
            let state = life.state.load(Ordering::Acquire);
            state == FAILED || (state < LEFT && life.node.died())
        };
        let harmed = t.check_abort().is_err() || self.broken().is_err() || (0..t.nranks()).any(failed);
        if harmed { Ok(()) } else { self.home().map_or(Ok(()), |home| home.retire()) }
    }

    /// Takes all handles out; what peers may still write to.
    pub(in crate::comm) fn semaphores_close(&self) -> Vec<DeferredFree> {
        let semaphore_home = self.shared.semaphores.lock().take();
        let Some(semaphore_home) = semaphore_home else { return Vec::new() };
        let mut deferred = vec![semaphore_home.deferred];
        for (handle, held) in TABLE.all() {
            if held.comm == self.handle() {
                TABLE.remove(handle);
                deferred.extend(held.deferred.lock().take());
            }
        }
        deferred
    }
}

fn insert(
    comm: CommHandle,
    semaphores: Semaphores,
    deferred: Option<DeferredFree>,
) -> Result<SemaphoreHandle> {
    let held = Held { comm, semaphores, generation: fork::generation(), deferred: Mutex::new(deferred) };
    TABLE.insert(Arc::new(held)).ok_or_else(|| {
        Error::system(
            "this process has as many semaphores as there can be; make arrays of them, or destroy some",
        )
    })
}

#[cold]
fn stale(what: &str, handle: SemaphoreHandle) -> Error {
    handle.refusal(
        what,
        format_args!(
            "{what} is no live semaphore: it was destroyed, its symmetric heap was finalized, or Penny never made it"
        ),
    )
}

/// Uses semaphores; `what` names the argument. Of one communicator if `comm` is given.
#[inline]
pub(in crate::comm) fn with<T>(
    what: &str,
    handle: SemaphoreHandle,
    comm: Option<CommHandle>,
    body: impl FnOnce(&Semaphores) -> Result<T>,
) -> Result<T> {
    let used = TABLE.with(handle, |held| {
        if comm.is_some_and(|comm| comm != held.comm) {
            return Err(Error::argument(format!("{what} is of another communicator than comm")));
        }
        if held.generation != fork::generation() {
            return Err(Error::usage(
                "this process was forked from a rank; only the parent may use its semaphores",
            ));
        }
        body(&held.semaphores)
    });
    used.unwrap_or_else(|| Err(stale(what, handle)))
}

/// Makes semaphores of one name, `count` on every rank. All ranks call with the same arguments.
pub fn semaphore_create(
    comm: CommHandle,
    kind: SemaphoreUnit,
    name: &str,
    count: i32,
) -> Result<SemaphoreHandle> {
    registry::enter(comm, |c| c.semaphore_create(kind, name, count))
}
/// Gives them up. All ranks call. An error lists those that are not 0 here.
pub fn semaphore_destroy(sem: SemaphoreHandle) -> Result<()> {
    let comm = TABLE.get(sem).ok_or_else(|| stale("sem", sem))?.comm;
    registry::enter(comm, |c| c.semaphore_destroy(sem))
}
/// Returns a barrier semaphore of the communicator.
pub fn barrier_semaphore(comm: CommHandle, number: i32) -> Result<SemaphoreHandle> {
    let shared = registry::shared(comm)?;
    shared.refuse_forked()?;
    let semaphore_home = shared.semaphores.lock();
    let semaphore_home = semaphore_home.as_ref().ok_or_else(symmetric::absent)?;
    let semaphores = semaphore_home.home.barrier(number)?;
    let known = &semaphore_home.barriers[number as usize];
    match known.get() {
        Some(&handle) => Ok(handle),
        None => insert(comm, semaphores, None).map(|handle| *known.get_or_init(|| handle)),
    }
}
/// Uses semaphores from any thread.
#[inline]
pub fn semaphore<T>(sem: SemaphoreHandle, body: impl FnOnce(&Semaphores) -> Result<T>) -> Result<T> {
    with("sem", sem, None, body)
}
/// Declare how the ranks lie, the slowest dimension first; no sides take it back. All ranks call with the same.
pub fn mesh(comm: CommHandle, dims: &[i32]) -> Result<()> {
    registry::enter(comm, |c| c.mesh(dims))
}
