//! Memory of each kind with guard bytes all round.

use crate::actor::{Actor, Failure, NULL, Outcome, call};
use crate::api::{Comm, In, Out};
use crate::random::Random;

/// Where a buffer lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Private,
    /// pennyMemAlloc.
    Heap,
    /// pennyCommRegister.
    Registered,
}

/// Bytes before and behind a buffer, at least.
const GUARD: usize = 96;
const PAGE: usize = 4096;

/// Memory of many buffers at once, side by side and at any address: registered as a whole, or of one pennyMemAlloc.
pub struct Arena {
    memory: Memory,
    /// Where the next buffer goes.
    next: usize,
    /// Buffers that live.
    live: usize,
}

const ARENA: usize = 1 << 20;

impl Arena {
    pub fn new(actor: &mut Actor<'_>, comm: Comm, random: &mut Random) -> Outcome<Arena> {
        let kind = random.one(&[Kind::Heap, Kind::Registered]);
        let mut memory = Memory::new(actor, kind, ARENA)?;
        if kind == Kind::Registered {
            let from = random.below(5000);
            memory.register(actor, comm, from, ARENA - from - random.below(5000))?;
        }
        Ok(Arena { memory, next: 0, live: 0 })
    }

    /// Room for a buffer, if there is any.
    fn take(&mut self, kind: Kind, size: usize) -> Option<*mut u8> {
        if kind != self.memory.kind || self.next + size > ARENA {
            return None;
        }
        let at = self.memory.base.wrapping_add(self.next);
        self.next += size;
        self.live += 1;
        Some(at)
    }

    fn give_back(&mut self) {
        self.live -= 1;
        if self.live == 0 {
            self.next = 0;
        }
    }

    pub fn end(self, actor: &mut Actor<'_>) -> Outcome {
        self.memory.end(actor)
    }
}

/// Whole pages of one kind.
struct Memory {
    kind: Kind,
    base: *mut u8,
    size: usize,
    /// The registration with its communicator.
    registered: Option<(Comm, Out)>,
}

impl Memory {
    fn new(actor: &mut Actor<'_>, kind: Kind, size: usize) -> Outcome<Memory> {
        let mut base: Out = NULL;
        if kind == Kind::Heap {
            let place: *mut Out = &mut base;
            call!(actor, pennyMemAlloc(place, size))?;
        } else {
            let (protection, flags) = (
                nix::libc::PROT_READ | nix::libc::PROT_WRITE,
                nix::libc::MAP_PRIVATE | nix::libc::MAP_ANONYMOUS,
            );
            // SAFETY: new anonymous pages.
            base = unsafe { nix::libc::mmap(NULL, size, protection, flags, -1, 0) };
            assert!(base != nix::libc::MAP_FAILED, "no memory for a buffer");
        }
        Ok(Memory { kind, base: base.cast(), size, registered: None })
    }

    fn register(&mut self, actor: &mut Actor<'_>, comm: Comm, from: usize, bytes: usize) -> Outcome {
        let mut handle = NULL;
        let (from, place): (Out, *mut Out) = (self.base.wrapping_add(from).cast(), &mut handle);
        call!(actor, pennyCommRegister(comm, from, bytes, place))?;
        self.registered = Some((comm, handle));
        Ok(())
    }

    fn end(self, actor: &mut Actor<'_>) -> Outcome {
        if let Some((comm, handle)) = self.registered {
            call!(actor, pennyCommDeregister(comm, handle))?;
        }
        let base: Out = self.base.cast();
        if self.kind == Kind::Heap {
            return call!(actor, pennyMemFree(base));
        }
        // SAFETY: the pages of `new`, which no call is using.
        unsafe { nix::libc::munmap(base, self.size) };
        Ok(())
    }
}

/// A range of bytes in a larger piece of memory whose other bytes must not change.
pub struct Buffer {
    kind: Kind,
    base: *mut u8,
    size: usize,
    start: usize,
    len: usize,
    canary: u8,
    /// `None`: a part of the actor's arena.
    own: Option<Memory>,
}

impl Buffer {
    /// `len` bytes for a call of `comm`, at an address that may be misaligned for elements of `size` bytes.
    pub fn new(
        actor: &mut Actor<'_>,
        comm: Comm,
        kind: Kind,
        len: usize,
        size: usize,
        random: &mut Random,
    ) -> Outcome<Buffer> {
        let shift = match random.below(4) {
            0 => random.below(64),
            1 => random.below(8) * size,
            _ => 0,
        };
        let canary = random.next() as u8 | 1;
        let small = random.chance(70) && len < ARENA / 4;
        let tight = 16 + shift + len + 16;
        if let Some(base) = actor.arena.as_mut().filter(|_| small).and_then(|arena| arena.take(kind, tight)) {
            let mut buffer = Buffer { kind, base, size: tight, start: 16 + shift, len, canary, own: None };
            buffer.all().fill(canary);
            return Ok(buffer);
        }
        let lead =
            if kind == Kind::Registered && random.chance(30) { PAGE } else { GUARD.next_multiple_of(64) };
        let start = lead + shift;
        let total = (start + len + GUARD).next_multiple_of(PAGE);
        let mut memory = Memory::new(actor, kind, total)?;
        // SAFETY: `Memory::new` returned that many bytes, and no other code has the address.
        unsafe { std::slice::from_raw_parts_mut(memory.base, total) }.fill(canary);
        if kind == Kind::Registered {
            // The whole, the buffer alone, or only a part of it.
            let (from, bytes) = match random.below(4) {
                0 => (0, total),
                1 => (start + len / 3, len / 2),
                _ => (start, len),
            };
            memory.register(actor, comm, from, bytes)?;
        }
        Ok(Buffer { kind, base: memory.base, size: total, start, len, canary, own: Some(memory) })
    }

    /// All memory, guards included.
    fn all(&mut self) -> &mut [u8] {
        // SAFETY: `size` bytes that belong to this buffer; no call is using them.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.size) }
    }

    /// The buffer's bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = (self.start, self.len);
        &mut self.all()[start..][..len]
    }

    /// Byte `at` of the buffer, as a call takes it.
    pub fn at(&self, at: usize) -> Out {
        self.base.wrapping_add(self.start + at).cast()
    }

    /// The same to read.
    pub fn input(&self, at: usize) -> In {
        self.at(at).cast_const()
    }

    /// The byte before the buffer.
    pub fn before(&mut self) -> &mut u8 {
        let at = self.start - 1;
        &mut self.all()[at]
    }

    /// Has anything beside the buffer been written?
    pub fn guards(&mut self) -> Outcome {
        let (start, end, canary) = (self.start, self.start + self.len, self.canary);
        let all = self.all();
        let beside = |range: &[u8]| range.iter().position(|&byte| byte != canary);
        if let Some(at) = beside(&all[..start]) {
            return Err(Failure::wrong(format!("byte {} before the buffer was written", start - at)));
        }
        match beside(&all[end..]) {
            Some(at) => Err(Failure::wrong(format!("byte {at} behind the buffer's end was written"))),
            None => Ok(()),
        }
    }

    /// Gives the memory back.
    pub fn free(self, actor: &mut Actor<'_>) -> Outcome {
        match self.own {
            Some(memory) => memory.end(actor),
            None => {
                actor.arena.as_mut().expect("it outlives its buffers").give_back();
                Ok(())
            }
        }
    }

    /// What kind of memory, for reports.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The first difference between what is and what should be.
pub fn difference(what: &str, size: usize, is: &[u8], should: &[u8]) -> Outcome {
    if is == should {
        return Ok(());
    }
    let at = (0..is.len()).find(|&i| is[i] != should[i]).unwrap_or(0) / size;
    let last = (0..is.len()).rfind(|&i| is[i] != should[i]).unwrap_or(0) / size;
    let wrong = is.chunks(size).zip(should.chunks(size)).filter(|(a, b)| a != b).count();
    let (is, should) = (&is[at * size..][..size], &should[at * size..][..size]);
    Err(Failure::wrong(format!(
        "{what}: element {at} is {is:02x?} instead of {should:02x?}; {wrong} elements are wrong, the last is {last}"
    )))
}
