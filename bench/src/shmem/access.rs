//! Puts and gets over sizes, rates of small operations, atomic operations: rank 0 accesses the memory of rank 1.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::Ordering;

use super::Options;
use super::heap::Heap;
use crate::beside::rounds::{Turn, take_turns};
use crate::beside::{Row, bare};

/// The operations in a turn, if they are short.
const MANY: u32 = 2000;
/// The operations in a turn of both ranks at once. There are many, because the ranks do not begin at the same moment.
const TOGETHER: u32 = 20_000;
/// The bytes of a turn, if its operations are long.
const TURN: usize = 4 << 20;

/// The heap, and the memory that the operations use.
struct Ground<'a> {
    heap: &'a Heap<'a>,
    rounds: u32,
    /// The destination, in the symmetric heap.
    dest: *mut u8,
    /// The peer's copy of `dest`, for loads and stores.
    bare: *mut u8,
    /// The source. It is in the symmetric heap as well, so that its pages are of the same kind for all operations.
    source: *mut u8,
    /// A word at rank 1 that counts the lines of the table that rank 0 has measured.
    done: *mut u8,
    lines: Cell<u64>,
}

/// Measures, and returns how much was wrong on this rank.
pub fn measure(heap: &Heap<'_>, options: &Options, keep: &mut impl FnMut(Row)) -> Result<u64, String> {
    let sizes = options.sizes.list()?;
    let most = sizes.iter().copied().max().unwrap_or(0).max(4096);
    let dest = heap.align(4096, most)?;
    let source = heap.align(4096, most)?;
    let line = heap.align(128, 128)?;
    let done = if heap.comm().rank() == 0 { heap.bare(line)? } else { line };
    // SAFETY: 128 bytes, mapped until they are freed, and no other than this word is used of them.
    unsafe { bare::word(line) }.store(0, Ordering::Relaxed);
    heap.comm().barrier()?;
    let (bare, rounds, lines) = (heap.bare(dest)?, options.rounds, Cell::new(0));
    let ground = Ground { heap, rounds, dest, bare, source, done, lines };
    let mut wrong = 0;
    small(&ground, keep)?;
    for &bytes in &sizes {
        block(&ground, bytes, keep)?;
        wrong += check(&ground, bytes)?;
    }
    wrong += atomics(&ground, keep)?;
    heap.comm().barrier()?;
    heap.free(line)?;
    heap.free(source)?;
    heap.free(dest)?;
    Ok(wrong)
}

/// Lets rank 0 take its turns while rank 1 waits without sleeping. Every put would wake a sleeping rank 1, since it might be the
/// put that it waits for, and a wake is a system call.
fn alone(
    ground: &Ground<'_>,
    operations: u32,
    turns: &mut [Turn<'_>],
    name: &str,
    bytes: usize,
    keep: &mut impl FnMut(Row),
) -> Result<(), String> {
    let line = ground.lines.get() + 1;
    ground.lines.set(line);
    // SAFETY: as in `measure`.
    let done = unsafe { bare::word(ground.done) };
    if ground.heap.comm().rank() != 0 {
        return bare::wait(done, line);
    }
    keep(Row::new(name, bytes, &take_turns(ground.rounds, operations, &|| Ok(()), turns)?));
    done.store(line, Ordering::Release);
    Ok(())
}

/// Measures latencies and rates of 8 bytes.
fn small(ground: &Ground<'_>, keep: &mut impl FnMut(Row)) -> Result<(), String> {
    let Ground { heap, dest, bare, source, .. } = *ground;
    // SAFETY: at least 4096 bytes, aligned, mapped until they are freed; only rank 0 uses them meanwhile.
    let theirs = unsafe { bare::word(bare) };
    let fence = || std::sync::atomic::fence(Ordering::SeqCst);
    let each =
        |n: u32, operation: &dyn Fn(u64) -> Result<(), String>| (1..=u64::from(n)).try_for_each(operation);
    let store = |i: u64| {
        theirs.store(i, Ordering::Release);
        Ok(())
    };
    let stores_done = |i: u64| {
        theirs.store(i, Ordering::Release);
        fence();
        Ok(())
    };
    let load = |_: u64| {
        black_box(theirs.load(Ordering::Acquire));
        Ok(())
    };
    // SAFETY: 8 bytes at either end.
    let put = |_: u64| unsafe { heap.put(dest, source, 8) };
    let put_done = |i: u64| put(i).and_then(|()| heap.quiet());
    // SAFETY: as above.
    let get = |_: u64| unsafe { heap.get(source, dest, 8) };
    let signal = |i: u64| heap.signal(dest, i);
    type Operation<'a> = &'a dyn Fn(u64) -> Result<(), String>;
    let rows: [(&str, Operation<'_>, &str, Operation<'_>); 4] = [
        ("put_quiet", &put_done, "store", &stores_done),
        ("get", &get, "load", &load),
        ("put", &put, "store", &store),
        ("signal", &signal, "store", &store),
    ];
    for (name, penny, other, bare) in rows {
        let mut penny = |n| each(n, penny);
        let mut bare = |n| each(n, bare);
        alone(ground, MANY, &mut [("", &mut penny), (other, &mut bare)], name, 8, keep)?;
    }
    Ok(())
}

/// Measures blocks of one size.
fn block(ground: &Ground<'_>, bytes: usize, keep: &mut impl FnMut(Row)) -> Result<(), String> {
    let Ground { heap, dest, bare, source, .. } = *ground;
    let operations = (TURN / bytes.max(1)).clamp(1, MANY as usize) as u32;
    // SAFETY: every range here holds `bytes` bytes, and only rank 0 uses any meanwhile; so in all that follow.
    let mut put = |n| (0..n).try_for_each(|_| unsafe { heap.put(dest, source, bytes) });
    // SAFETY: as above.
    let mut get = |n| (0..n).try_for_each(|_| unsafe { heap.get(source, dest, bytes) });
    let mut copy = |n| {
        // SAFETY: as above.
        (0..n).for_each(|_| unsafe { bare.copy_from_nonoverlapping(black_box(source), bytes) });
        Ok(())
    };
    let mut copy_back = |n| {
        // SAFETY: as above.
        (0..n).for_each(|_| unsafe { source.copy_from_nonoverlapping(black_box(bare), bytes) });
        Ok(())
    };
    let mut stream = |n| {
        // SAFETY: as above; both begin at a page.
        (0..n).for_each(|_| unsafe { bare::stream(bare, source, bytes) });
        Ok(())
    };
    let turns: &mut [Turn<'_>] = &mut [("", &mut put), ("memcpy", &mut copy), ("streamed", &mut stream)];
    alone(ground, operations, turns, "put", bytes, keep)?;
    let mut stream_back = |n| {
        // SAFETY: as above.
        (0..n).for_each(|_| unsafe { bare::stream(source, bare, bytes) });
        Ok(())
    };
    let turns: &mut [Turn<'_>] =
        &mut [("", &mut get), ("memcpy", &mut copy_back), ("streamed", &mut stream_back)];
    alone(ground, operations, turns, "get", bytes, keep)
}

/// Puts a block, gets it back, and returns how many bytes are wrong.
fn check(ground: &Ground<'_>, bytes: usize) -> Result<u64, String> {
    let Ground { heap, dest, source, .. } = *ground;
    // SAFETY: `bytes` bytes; between the barriers one rank uses them at a time.
    let (dest_bytes, source_bytes) = unsafe {
        (|| std::slice::from_raw_parts_mut(dest, bytes), || std::slice::from_raw_parts_mut(source, bytes))
    };
    let expected = |i: usize| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ (bytes % 251) as u8;
    let wrong = |found: &[u8]| (0..).zip(found).filter(|&(i, &byte)| byte != expected(i)).count() as u64;
    if heap.comm().rank() == 0 {
        (0..).zip(source_bytes()).for_each(|(i, byte)| *byte = expected(i));
        // SAFETY: `bytes` bytes.
        unsafe { heap.put(dest, source, bytes)? };
        source_bytes().fill(0);
    }
    heap.comm().barrier()?;
    let mut count = 0;
    match heap.comm().rank() {
        1 => count += wrong(dest_bytes()),
        _ => {
            // SAFETY: `bytes` bytes.
            unsafe { heap.get(source, dest, bytes)? };
            count += wrong(source_bytes());
        }
    }
    heap.comm().barrier()?;
    Ok(count)
}

/// Measures atomic operations on a word of rank 0: by rank 1 alone, then by both ranks at once.
fn atomics(ground: &Ground<'_>, keep: &mut impl FnMut(Row)) -> Result<u64, String> {
    let Ground { heap, rounds, .. } = *ground;
    let rank = heap.comm().rank();
    let target = 1;
    let at = match rank {
        0 => ground.bare,
        _ => ground.dest,
    };
    // SAFETY: 4096 bytes, aligned and mapped; from here on they are only touched atomically.
    let (own, theirs) = unsafe { (bare::word(ground.dest), bare::word(at.add(128))) };
    own.store(0, Ordering::Relaxed);
    if rank == 1 {
        theirs.store(0, Ordering::Relaxed);
    }
    heap.comm().barrier()?;
    let mut add = |n| (0..n).try_for_each(|_| heap.fetch_add(ground.dest, target).map(drop));
    let mut bare_add = |n| {
        (0..n).for_each(|_| _ = theirs.fetch_add(1, Ordering::AcqRel));
        Ok(())
    };
    let mut swap = |n| {
        let mut expected = 0;
        (0..n).try_for_each(|_| {
            expected = heap.compare_swap(ground.dest, expected, expected, target)?;
            Ok(())
        })
    };
    let mut bare_swap = |n| {
        let mut expected = 0;
        (0..n).for_each(|_| {
            let swapped = theirs.compare_exchange(expected, expected, Ordering::AcqRel, Ordering::Acquire);
            expected = swapped.unwrap_or_else(|found| found);
        });
        Ok(())
    };
    let meet = || heap.comm().barrier();
    {
        let mut both = |name: &str, turns: &mut [Turn<'_>]| {
            alone(ground, MANY, turns, name, 8, keep)?;
            keep(Row::new(&format!("{name}_contended"), 8, &take_turns(rounds, TOGETHER, &meet, turns)?));
            heap.comm().barrier()
        };
        both("fetch_add", &mut [("", &mut add), ("bare", &mut bare_add)])?;
        both("compare_swap", &mut [("", &mut swap), ("bare", &mut bare_swap)])?;
    }
    // Rank 0's turns alone, and both ranks' together; each with the operation before it.
    let added = (u64::from(MANY + 1) + 2 * u64::from(TOGETHER + 1)) * u64::from(rounds);
    heap.comm().barrier()?;
    Ok(match rank {
        0 => 0,
        _ => [own, theirs].into_iter().map(|word| u64::from(word.load(Ordering::Relaxed) != added)).sum(),
    })
}
