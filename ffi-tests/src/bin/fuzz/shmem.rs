//! The symmetric heap: puts, gets, atomic operations and signals between all ranks, and collectives on its memory.

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call};
use crate::api::{DataType, In, Out};
use crate::buffer::difference;
use crate::element::{SUM, TYPES};
use crate::program::Step;
use crate::random::Random;
use crate::team;

const INT64: DataType = DataType(4);

/// What rank `from` puts to rank `to` in a round.
fn content(step: &Step, round: usize, from: usize, to: usize, bytes: usize) -> Vec<u8> {
    let mut random = Random::of(&[step.salt, round as u64, from as u64, to as u64]);
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// Symmetric memory of this rank.
#[derive(Clone, Copy)]
struct Symmetric {
    at: *mut u8,
    len: usize,
}

impl Symmetric {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: pennyShmemMalloc returned that many bytes, and barriers keep other ranks from writing while this rank reads.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    fn part(&self, at: usize) -> Out {
        self.at.wrapping_add(at).cast()
    }
}

pub fn heap(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let comm = place.comm;
    let mut random = place.common(step);
    call!(actor, pennyShmemInit(comm))?;
    let mut blocks = Vec::new();
    for round in 0..1 + random.below(4) {
        // A few sizes, some beyond the first segment.
        let block = random.one(&[1, 7, 64, 1000, 20_000]);
        let memory = allocate(actor, place, &mut random, block * place.n())?;
        puts(actor, place, step, round, memory, block)?;
        gets(actor, place, step, round, memory, block)?;
        blocks.push(memory);
        match random.below(6) {
            4 => team::teams(actor, place, &mut random)?,
            5 => {
                let mut words = allocate(actor, place, &mut random, 8 * place.n())?;
                words.bytes().fill(0);
                call!(actor, pennyShmemBarrierAll(comm))?;
                team::waits(actor, place, words.part(0), &mut place.own(step))?;
            }
            0 => counters(actor, place, step, &mut random)?,
            1 => signals(actor, place, step, &mut random)?,
            2 => sums(actor, place, &mut random)?,
            _ => {}
        }
        if random.chance(40) {
            let at = random.below(blocks.len());
            let memory: Out = blocks.swap_remove(at).at.cast();
            call!(actor, pennyShmemFree(memory, comm))?;
        }
    }
    call!(actor, pennyShmemFinalize(comm))
}

fn allocate(actor: &mut Actor<'_>, place: &Place, random: &mut Random, len: usize) -> Outcome<Symmetric> {
    let comm = place.comm;
    let mut at = NULL;
    let to: *mut Out = &mut at;
    match random.below(3) {
        0 => call!(actor, pennyShmemMalloc(to, len, comm))?,
        1 => {
            let alignment = 1usize << random.below(13);
            call!(actor, pennyShmemAlign(to, alignment, len, comm))?;
            if !(at as usize).is_multiple_of(alignment) {
                return Err(Failure::wrong(format!("{at:?} is not aligned to {alignment}")));
            }
        }
        _ => {
            call!(actor, pennyShmemCalloc(to, len, 1, comm))?;
            let mut memory = Symmetric { at: at.cast(), len };
            if memory.bytes().iter().any(|&byte| byte != 0) {
                return Err(Failure::wrong("memory of pennyShmemCalloc is not zero".to_owned()));
            }
        }
    }
    call!(actor, pennyShmemBarrierAll(comm))?;
    Ok(Symmetric { at: at.cast(), len })
}

/// Everybody writes its block at everybody, in ways of its own.
fn puts(
    actor: &mut Actor<'_>,
    place: &Place,
    step: &Step,
    round: usize,
    mut memory: Symmetric,
    block: usize,
) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let mut random = place.own(step);
    let sources: Vec<Vec<u8>> = (0..n).map(|to| content(step, round, me, to, block)).collect();
    let dest = memory.part(me * block);
    for to in random.order(n) {
        let (source, pe): (In, _) = (sources[to].as_ptr().cast(), to as i32);
        match random.below(4) {
            0 => call!(actor, pennyShmemPutMemNbi(dest, source, block, pe, comm))?,
            1 => {
                // Every other element, then those between.
                let byte = TYPES[1].number;
                for half in 0..2.min(block) {
                    let (dest, source) = (memory.part(me * block + half), source.wrapping_byte_add(half));
                    let elements = (block - half).div_ceil(2);
                    call!(actor, pennyShmemIput(dest, source, 2, 2, elements, byte, pe, comm))?;
                }
            }
            2 if block < 100 => {
                for i in 0..block {
                    let (dest, source) = (memory.part(me * block + i), source.wrapping_byte_add(i));
                    call!(actor, pennyShmemP(dest, source, TYPES[1].number, pe, comm))?;
                }
            }
            _ => call!(actor, pennyShmemPutMem(dest, source, block, pe, comm))?,
        }
        if random.chance(20) {
            call!(actor, pennyShmemFence(comm))?;
        }
    }
    call!(actor, pennyShmemQuiet(comm))?;
    call!(actor, pennyShmemBarrierAll(comm))?;
    let expected: Vec<u8> = (0..n).flat_map(|from| content(step, round, from, me, block)).collect();
    difference("symmetric memory after puts", 1, memory.bytes(), &expected)
}

/// Everybody reads from some.
fn gets(
    actor: &mut Actor<'_>,
    place: &Place,
    step: &Step,
    round: usize,
    memory: Symmetric,
    block: usize,
) -> Outcome {
    let (n, comm) = (place.n(), place.comm);
    let mut random = place.own(step);
    for _ in 0..3 {
        let (pe, of) = (random.below(n), random.below(n));
        let mut result = vec![0xeeu8; block];
        let (to, source, rank): (Out, In, _) =
            (result.as_mut_ptr().cast(), memory.part(of * block).cast_const(), pe as i32);
        match random.below(4) {
            0 => {
                call!(actor, pennyShmemGetMemNbi(to, source, block, rank, comm))?;
                call!(actor, pennyShmemQuiet(comm))?;
            }
            1 => call!(actor, pennyShmemIget(to, source, 1, 1, block, TYPES[1].number, rank, comm))?,
            2 => {
                result.truncate(1);
                call!(actor, pennyShmemG(to, source, TYPES[1].number, rank, comm))?;
            }
            _ => call!(actor, pennyShmemGetMem(to, source, block, rank, comm))?,
        }
        let expected = content(step, round, of, pe, block);
        difference("what was got", 1, &result, &expected[..result.len()])?;
    }
    call!(actor, pennyShmemBarrierAll(comm))
}

/// Counters at every rank, which all add to: the sum must come out, and no number twice.
fn counters(actor: &mut Actor<'_>, place: &Place, step: &Step, random: &mut Random) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let mut memory = allocate(actor, place, random, 16)?;
    memory.bytes().fill(0);
    call!(actor, pennyShmemBarrierAll(comm))?;
    let turns = 1 + random.below(20);
    let dest = memory.part(0);
    for turn in 0..turns {
        let one = (me + 1) as i64;
        let (mut before, value): (i64, In) = (0, (&raw const one).cast());
        let fetched: Out = (&raw mut before).cast();
        let pe = ((me + turn) % n) as i32;
        if (turn + me) % 2 == 0 {
            call!(actor, pennyShmemAtomicAdd(dest, value, INT64, pe, comm))?;
        } else {
            call!(actor, pennyShmemAtomicFetchAdd(fetched, dest, value, INT64, pe, comm))?;
        }
        let bits = Random::of(&[step.salt, me as u64, turn as u64]).next();
        let bits: In = (&raw const bits).cast();
        let other = memory.part(8);
        call!(actor, pennyShmemAtomicXor(other, bits, INT64, pe, comm))?;
    }
    call!(actor, pennyShmemBarrierAll(comm))?;
    let (mut sum, mut xor) = (0i64, 0u64);
    for from in 0..n {
        for turn in (0..turns).filter(|turn| (from + turn) % n == me) {
            sum += (from + 1) as i64;
            xor ^= Random::of(&[step.salt, from as u64, turn as u64]).next();
        }
    }
    let expected: Vec<u8> = sum.to_le_bytes().into_iter().chain(xor.to_le_bytes()).collect();
    difference("counters of atomic operations", 8, memory.bytes(), &expected)?;
    call!(actor, pennyShmemFree(dest, comm))
}

/// Puts with signals round the ring.
fn signals(actor: &mut Actor<'_>, place: &Place, step: &Step, random: &mut Random) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let block = 8 * (1 + random.below(700));
    let rounds = 1 + random.below(3);
    let mut memory = allocate(actor, place, random, 8 + rounds * block)?;
    memory.bytes()[..8].fill(0);
    call!(actor, pennyShmemBarrierAll(comm))?;
    let word: *mut u64 = memory.at.cast();
    for round in 0..rounds {
        let source = content(step, 1000 + round, me, 0, block);
        let (from, dest, next): (In, _, _) =
            (source.as_ptr().cast(), memory.part(8 + round * block), ((me + 1) % n) as i32);
        call!(actor, pennyShmemPutMemSignal(dest, from, block, word, 1, 10, next, comm))?;
        let expected_count = round as u64 + 1;
        let no_value: *mut u64 = std::ptr::null_mut();
        // PENNY_CMP_GE
        call!(actor, pennyShmemSignalWaitUntil(no_value, word, 5, expected_count, comm))?;
        let before = (me + n - 1) % n;
        let expected = content(step, 1000 + round, before, 0, block);
        difference("a put with a signal", 1, &memory.bytes()[8 + round * block..][..block], &expected)?;
    }
    call!(actor, pennyShmemBarrierAll(comm))?;
    let at: Out = memory.at.cast();
    call!(actor, pennyShmemFree(at, comm))
}

/// An all-reduce on symmetric memory.
fn sums(actor: &mut Actor<'_>, place: &Place, random: &mut Random) -> Outcome {
    let (n, comm, count) = (place.n(), place.comm, 1 + random.below(9000));
    let mut memory = allocate(actor, place, random, 2 * count * 8)?;
    for (i, word) in memory.bytes()[..count * 8].chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&((place.me * 100_000 + i) as i64).to_le_bytes());
    }
    let (send, recv): (In, _) = (memory.part(0).cast_const(), memory.part(count * 8));
    call!(actor, pennyAllReduce(send, recv, count, INT64, SUM, comm, NULL))?;
    let expected: Vec<u8> =
        (0..count).flat_map(|i| ((n * (n - 1) / 2 * 100_000 + n * i) as i64).to_le_bytes()).collect();
    difference("a sum of symmetric memory", 8, &memory.bytes()[count * 8..], &expected)
}
