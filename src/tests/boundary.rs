//! The C boundary under arguments that no sane program passes: wrong numbers, stale handles, NULL, huge counts, buffers
//! that begin anywhere. Whatever comes, a call returns one of its codes, and nobody's memory but the caller's is touched.
//!
//! Buffers are exactly as large as the arguments claim, so AddressSanitizer sees every byte too far (CONTRIBUTING.md).
#![allow(unsafe_code)]

use crate::ffi::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::{Barrier, Mutex};

/// A small generator: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }
    fn one_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len())]
    }
}

/// A buffer of exactly `bytes` bytes that begins `shift` bytes after an aligned address.
struct Buffer {
    memory: Vec<u8>,
    shift: usize,
}

impl Buffer {
    fn new(bytes: usize, shift: usize) -> Buffer {
        Buffer { memory: vec![1; bytes + shift], shift }
    }
    fn start(&mut self) -> *mut c_void {
        self.memory[self.shift..].as_mut_ptr().cast()
    }
}

/// What all ranks pass alike.
struct Shared {
    comm: pennyComm_t,
    count: usize,
    dtype: pennyDataType_t,
    op: pennyRedOp_t,
    peer: c_int,
    stream: pennyStream_t,
    huge: bool,
    null: bool,
    in_place: bool,
}

const HUGE: [usize; 4] = [usize::MAX, usize::MAX / 2 + 1, (1 << 63) + 5, usize::MAX - 63];
const NUMBERS: [c_int; 8] = [-1, c_int::MIN, c_int::MAX, 11, 63, 67, 71, 1000];
const TYPES: [c_int; 15] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 64, 65, 66];
const OPS: [c_int; 12] = [0, 1, 2, 3, 4, 64, 65, 66, 67, 68, 69, 70];

impl Shared {
    fn throw(dice: &mut Dice, live: pennyComm_t, stale: pennyComm_t, ranks: usize) -> Shared {
        let invented: pennyComm_t = without_provenance_mut(dice.roll(usize::MAX));
        let comm = if dice.one_in(12) { dice.pick(&[null_mut(), stale, invented]) } else { live };
        let huge = dice.one_in(12);
        let count = if huge { dice.pick(&HUGE) } else { dice.pick(&[0, 1, 3, 17, 300, 5000]) };
        let number = |dice: &mut Dice, good: &[c_int]| {
            c_int::clone(&if dice.one_in(12) { dice.pick(&NUMBERS) } else { dice.pick(good) })
        };
        let dtype = pennyDataType_t(number(dice, &TYPES));
        let op = pennyRedOp_t(number(dice, &OPS));
        let peer = if dice.one_in(12) {
            dice.pick(&[-1, ranks as c_int, c_int::MIN])
        } else {
            dice.roll(ranks) as c_int
        };
        let stream = if dice.one_in(20) { without_provenance_mut(64) } else { null_mut() };
        let (null, in_place) = (dice.one_in(12), dice.one_in(3));
        Shared { comm, count, dtype, op, peer, stream, huge, null, in_place }
    }
}

/// One rank: its own dice move its buffers, the common ones decide what it does.
struct Player<'a> {
    rank: usize,
    ranks: usize,
    live: pennyComm_t,
    stale: pennyComm_t,
    own: Dice,
    common: Dice,
    id: &'a Mutex<pennyUniqueId>,
    together: &'a Barrier,
}

impl Player<'_> {
    /// A communicator of all ranks. Every one of them must be here.
    fn join(&mut self) {
        if self.rank == 0 {
            // SAFETY: a place for the result.
            let made = unsafe { pennyGetUniqueId(&mut *self.id.lock().unwrap()) };
            assert_eq!(made, pennySuccess);
        }
        self.together.wait();
        let id = *self.id.lock().unwrap();
        let config = pennyConfig_t { timeoutMs: 2_000, ..pennyConfig_t::INITIALIZER };
        // SAFETY: a place for the result, and a config.
        let joined = unsafe {
            pennyCommInitRankConfig(&mut self.live, self.ranks as c_int, id, self.rank as c_int, &config)
        };
        assert_eq!(joined, pennySuccess);
        self.together.wait();
    }

    fn play(&mut self, times: usize) {
        self.join();
        for _ in 0..times {
            let ended = match self.common.roll(40) {
                0..29 => self.call(),
                29..36 => self.ask(),
                36 => self.memory(),
                37 => self.group(),
                38 if self.common.one_in(8) => self.make_another(),
                39 if self.common.one_in(40) => self.part(),
                38 | 39 if self.common.one_in(30) => self.child(),
                _ => pennySuccess,
            };
            if !(0..9).contains(&ended.0) || ended == pennyInternalError {
                // SAFETY: the sentence is good until this thread's next failure.
                let said = unsafe { std::ffi::CStr::from_ptr(pennyGetLastError(null_mut())) };
                // The other rank waits for this one at the next barrier: end both.
                eprintln!("{ended:?}: {said:?}");
                std::process::exit(1);
            }
        }
        // SAFETY: a live communicator.
        unsafe { pennyCommDestroy(self.live) };
    }

    /// One collective or transfer.
    fn call(&mut self) -> pennyResult_t {
        let shared = Shared::throw(&mut self.common, self.live, self.stale, self.ranks);
        let which = self.common.roll(14);
        self.make(which, &shared)
    }

    fn make(&mut self, which: usize, s: &Shared) -> pennyResult_t {
        let blocks = self.ranks;
        let size = crate::types::DataType::from_c(s.dtype.0).map_or(1, |d| d.size());
        // A refused count has no extent that memory could have.
        let bytes = if s.huge { 64 } else { s.count * size * blocks };
        let (shifts, shared_shift) = ([self.own.roll(9), self.own.roll(9)], self.own.roll(9));
        let (mut a, mut b) = (Buffer::new(bytes, shifts[0]), Buffer::new(bytes, shifts[1]));
        let mut both = Buffer::new(bytes, shared_shift);
        let (mut send, mut recv) = (a.start(), b.start());
        // Wrong on one rank alone would leave the other waiting: only where a fault is everybody's.
        let alike = self.ranks == 1 || matches!(which, 0 | 4 | 5 | 6 | 7);
        if s.in_place && (self.ranks == 1 || matches!(which, 0 | 7)) {
            (send, recv) = (both.start(), both.start());
        }
        if s.null && alike {
            (send, recv) = if self.common.one_in(2) { (null_mut(), recv) } else { (send, null_mut()) };
        }
        let Shared { comm, count, dtype, op, peer, stream, .. } = *s;
        // SAFETY: the buffers have the extent that the arguments claim, or the arguments must be refused.
        unsafe {
            match which {
                0 => pennyAllReduce(send, recv, count, dtype, op, comm, stream),
                1 => pennyReduce(send, recv, count, dtype, op, peer, comm, stream),
                2 => pennyBroadcast(send, recv, count, dtype, peer, comm, stream),
                3 => pennyBcast(recv, count, dtype, peer, comm, stream),
                4 => pennyAllGather(send, recv, count, dtype, comm, stream),
                5 => pennyReduceScatter(send, recv, count, dtype, op, comm, stream),
                6 => pennyReduceScatterPadded(send, recv, count, dtype, op, comm, stream),
                7 => pennyAlltoAll(send, recv, count, dtype, comm, stream),
                8 => pennyGather(send, recv, count, dtype, peer, comm, stream),
                9 => pennyScatter(send, recv, count, dtype, peer, comm, stream),
                10 => pennyBarrier(comm, stream),
                // One table for all ranks, with what is no rank in it now and then.
                13 => {
                    let perm: Vec<c_int> =
                        (0..blocks).map(|_| self.common.roll(blocks + 2) as c_int - 1).collect();
                    pennyPermute(send, recv, count, dtype, perm.as_ptr(), comm, stream)
                }
                // Ranks that exchange blocks, or one that sends to itself without a group.
                11 if self.ranks == 2 => {
                    let ended = pennyGroupStart();
                    assert_eq!(ended, pennySuccess);
                    let other = 1 - self.rank as c_int;
                    pennySend(send, count, dtype, other, comm, stream);
                    pennyRecv(recv, count, dtype, other, comm, stream);
                    pennyGroupEnd()
                }
                _ => pennySend(send, count, dtype, self.rank as c_int, comm, stream),
            }
        }
    }

    /// Functions that only ask and never wait.
    fn ask(&mut self) -> pennyResult_t {
        let comm = Shared::throw(&mut self.own, self.live, self.stale, self.ranks).comm;
        let (mut number, mut result) = (0, pennySuccess);
        let place: *mut c_int = if self.own.one_in(6) { null_mut() } else { &mut number };
        // SAFETY: places for results, or NULL, which is refused.
        unsafe {
            match self.own.roll(7) {
                0 => pennyCommCount(comm, place),
                1 => pennyCommUserRank(comm, place),
                2 => pennyCommDevice(comm, place),
                3 => pennyCommGetAsyncError(comm, if place.is_null() { null_mut() } else { &mut result }),
                4 => pennyGetVersion(place),
                5 => {
                    let text = pennyGetErrorString(pennyResult_t(self.own.pick(&NUMBERS)));
                    assert!(!std::ffi::CStr::from_ptr(text).is_empty());
                    pennySuccess
                }
                _ => {
                    let text = pennyGetLastError(comm);
                    assert!(std::ffi::CStr::from_ptr(text).to_str().is_ok());
                    pennySuccess
                }
            }
        }
    }

    fn memory(&mut self) -> pennyResult_t {
        let mut at = null_mut();
        let size = if self.own.one_in(4) { self.own.pick(&HUGE) } else { self.own.roll(100_000) };
        // SAFETY: a place for the result; pointers that pennyMemAlloc did not give are refused, not read.
        unsafe {
            let ended = pennyMemAlloc(if self.own.one_in(9) { null_mut() } else { &mut at }, size);
            let wrong: *mut c_void = without_provenance_mut(self.own.roll(usize::MAX));
            assert_eq!(pennyMemFree(wrong), pennyInvalidArgument);
            if ended == pennySuccess && !at.is_null() {
                assert_eq!(pennyMemFree(at.byte_add(1)), pennyInvalidArgument);
                // Not twice: the heap is the process's, and another test may be given the same memory meanwhile.
                assert_eq!(pennyMemFree(at), pennySuccess);
            }
            ended
        }
    }

    /// Calls within groups, more ends than starts.
    fn group(&mut self) -> pennyResult_t {
        let depth = 1 + self.common.roll(3);
        // SAFETY: no pointers; the calls between have none, or are refused.
        unsafe {
            for _ in 0..depth {
                assert_eq!(pennyGroupStart(), pennySuccess);
            }
            if self.common.one_in(2) {
                pennyBarrier(self.live, null_mut());
            }
            if self.common.one_in(2) {
                pennyAllReduce(null(), null_mut(), 5, pennyInt8, pennySum, self.live, null_mut());
            }
            for _ in 0..depth {
                pennyGroupEnd();
            }
            assert_eq!(pennyGroupEnd(), pennyInvalidUsage);
        }
        pennySuccess
    }

    /// A communicator made from the live one, by arguments that all ranks pass.
    fn child(&mut self) -> pennyResult_t {
        let mut child = null_mut();
        let (number, size) = (self.common.roll(5) as c_int - 1, self.common.roll(4) as c_int - 1);
        // SAFETY: a place for the result.
        unsafe {
            let ended = match self.common.one_in(2) {
                true => pennyCommGroup(self.live, pennyGroupKind_t(number), size, &mut child),
                false => pennyCommSplit(self.live, number, self.own.roll(9) as c_int, &mut child, null()),
            };
            if !child.is_null() {
                assert_eq!(pennyCommDestroy(child), pennySuccess);
            }
            ended
        }
    }

    /// A communicator of this rank alone, or one that cannot be.
    fn make_another(&mut self) -> pennyResult_t {
        let mut comm = null_mut();
        let mut id = pennyUniqueId { internal: [self.own.roll(3) as _; PENNY_UNIQUE_ID_BYTES] };
        let mut config = pennyConfig_t { timeoutMs: 20, ..pennyConfig_t::INITIALIZER };
        match self.own.roll(6) {
            0 => config.size = self.own.pick(&[0, 1, 7, 4096, usize::MAX]),
            1 => config.magic = 7,
            2 => config.version = 99_999_999,
            3 => config.blocking = self.own.pick(&NUMBERS),
            4 => config.timeoutMs = self.own.pick(&[-1, c_int::MIN + 1]),
            _ => {}
        }
        let (n, rank) =
            (self.own.pick(&[-1, 0, 1, 2, 1025, c_int::MAX]), self.own.pick(&[-1, 0, 1, c_int::MIN]));
        // SAFETY: places for results, or NULL, which is refused; the config is one, with wrong numbers in it.
        unsafe {
            if self.own.one_in(2) {
                pennyGetUniqueId(&mut id);
            }
            let place = if self.own.one_in(6) { null_mut() } else { &raw mut comm };
            let ended = match self.own.roll(4) {
                0 if n < 2 => pennyCommInitAll(place, n.min(1), null()),
                1 => pennyCommInitFromEnv(place, &config),
                _ => pennyCommInitRankConfig(place, n, id, rank, &config),
            };
            if ended == pennySuccess {
                assert_eq!(pennyCommFinalize(comm), pennySuccess);
                assert_eq!(pennyCommDestroy(comm), pennySuccess);
                assert_eq!(pennyCommDestroy(comm), pennyInvalidArgument);
            }
            ended
        }
    }

    /// The end of the communicator, in one of three ways, and a new one.
    fn part(&mut self) -> pennyResult_t {
        // SAFETY: a live communicator, then a stale one.
        unsafe {
            match self.common.roll(3) {
                0 => pennyCommFinalize(self.live),
                1 => pennyCommAbort(self.live),
                _ => pennySuccess,
            };
            pennyCommDestroy(self.live);
        }
        self.stale = self.live;
        self.join();
        pennySuccess
    }
}

fn play(ranks: usize, times: usize, seed: u64) {
    let id = Mutex::new(pennyUniqueId { internal: [0; PENNY_UNIQUE_ID_BYTES] });
    let together = Barrier::new(ranks);
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (id, together) = (&id, &together);
            scope.spawn(move || {
                let (own, common) = (Dice(seed * 31 + rank as u64 + 1), Dice(seed));
                let (live, stale) = (null_mut(), null_mut());
                Player { rank, ranks, live, stale, own, common, id, together }.play(times);
            });
        }
    });
}

fn times() -> usize {
    if std::env::var_os("PENNY_LONG").is_some_and(|v| v == "1") { 5_000_000 } else { 50_000 }
}

#[test]
fn fuzz_a_lone_rank_survives_any_arguments() {
    play(1, times(), 0x9e37_79b9);
}

#[test]
fn fuzz_two_ranks_survive_any_arguments() {
    play(2, times(), 0x2545_f491);
}
