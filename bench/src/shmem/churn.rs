//! The heap under random operations: every rank makes the same ones and holds the heap against a model of its own.
//!
//! ```text
//!     alloc    within no living block? aligned? zero where it was asked for?    fill it with a word that is its own
//!     free     is the whole block still full of its word?
//!     at times do the books count as many blocks?     at the end   nothing used, everything free, the same on all ranks
//! ```
//!
//! The number of live blocks rises and falls slowly, so that the heap fills, empties and becomes fragmented.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use super::heap::Heap;

/// The operations between two checks of the heap's statistics.
const AUDIT: u64 = 1024;
/// Operations from one high tide to the next.
const TIDE: u64 = 50_000;
/// The default size of a segment. It is small, so that the heap has to grow.
pub const SEGMENT: (&str, &str) = ("PENNY_SHMEM_SIZE", "1M");
/// Blocks at low and at high tide.
const LIVING: (u64, u64) = (50, 4000);

/// The result of a run.
pub struct Verdict {
    operations: u64,
    ranks: u32,
    seconds: f64,
    /// Blocks that overlapped, had lost their contents or were misaligned, and books that did not add up; on all ranks.
    pub wrong: u64,
    /// Blocks and bytes at the end.
    leaked: (u64, u64),
    most: (u64, u64),
    segments: u64,
    heap: u64,
    /// Mean and worst of the audits with at least half of the heap's blocks living.
    fragmentation: (f64, f64),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.wrong == 0 { "OK" } else { "FAILED" };
        write!(
            f,
            "{verdict}: {} heap operations on each of {} ranks in {:.1} s, {} wrong, {} blocks of {} bytes leaked; at most {} \
             blocks of {} bytes in a heap of {} bytes, {} segments; fragmentation {:.3} on average, {:.3} at worst",
            self.operations,
            self.ranks,
            self.seconds,
            self.wrong,
            self.leaked.0,
            self.leaked.1,
            self.most.0,
            self.most.1,
            self.heap,
            self.segments,
            self.fragmentation.0,
            self.fragmentation.1
        )
    }
}

/// The same numbers on all ranks: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// Each power of two is as likely as the next.
    fn size(&mut self) -> usize {
        let most = match self.below(1000) {
            0 => 22,
            1..50 => 16,
            _ => 10,
        };
        let top = 1 << self.below(most + 1);
        (top + self.below(top)) as usize
    }
}

struct Block {
    at: *mut u8,
    bytes: usize,
    word: u64,
}

impl Block {
    fn words(&self) -> (*mut u64, usize) {
        (self.at.cast(), self.bytes / 8)
    }

    fn fill(&self) {
        let (words, n) = self.words();
        // SAFETY: the block is this rank's until it is freed; the rest of less than 8 bytes lies within it too.
        unsafe {
            (0..n).for_each(|i| words.add(i).write_unaligned(self.word));
            let rest = self.bytes % 8;
            words.add(n).cast::<u8>().copy_from_nonoverlapping(self.word.to_ne_bytes().as_ptr(), rest);
        }
    }

    fn holds(&self, word: u64) -> bool {
        let (words, n) = self.words();
        let own = word.to_ne_bytes();
        // SAFETY: as in `fill`.
        unsafe {
            let differing = (0..n).fold(0, |all, i| all | (words.add(i).read_unaligned() ^ word));
            let rest = std::slice::from_raw_parts(words.add(n).cast::<u8>(), self.bytes % 8);
            differing == 0 && *rest == own[..rest.len()]
        }
    }
}

/// One rank's model of the heap.
struct Model<'a> {
    heap: &'a Heap<'a>,
    random: Random,
    living: Vec<Block>,
    /// Start and end of each living block.
    taken: BTreeMap<usize, usize>,
    bytes: u64,
    made: u64,
    wrong: u64,
    /// A hash of all offsets so far. It must be the same on all ranks.
    trace: u64,
    /// The first block of all: offsets are from here.
    base: Option<usize>,
}

impl Model<'_> {
    fn alloc(&mut self) -> Result<(), String> {
        let bytes = self.random.size();
        let (align, zeroed, at) = match self.random.below(8) {
            0 => (16, true, self.heap.calloc(bytes)?),
            1 | 2 => {
                let align = 1 << self.random.below(13);
                (align, false, self.heap.align(align, bytes)?)
            }
            _ => (16, false, self.heap.malloc(bytes)?),
        };
        self.made += 1;
        // No other block of this or any rank is full of the same word.
        let word = self.made << 8 | u64::from(self.heap.comm().rank());
        let block = Block { at, bytes, word };
        let begin = at as usize;
        let after = self.taken.range(..begin + bytes).next_back().is_some_and(|(_, &end)| end > begin);
        let bad = at.is_null() || !begin.is_multiple_of(align) || after || zeroed && !block.holds(0);
        self.wrong += u64::from(bad);
        if bad {
            return Err(format!(
                "operation {}: the block of {bytes} bytes at {begin:#x} is not what was asked for",
                self.made
            ));
        }
        block.fill();
        self.taken.insert(begin, begin + bytes);
        self.bytes += bytes as u64;
        let offset = begin.wrapping_sub(*self.base.get_or_insert(begin)) as u64;
        self.trace = (self.trace ^ offset).wrapping_mul(0x100_0000_01b3);
        self.living.push(block);
        Ok(())
    }

    fn free(&mut self) -> Result<(), String> {
        let index = self.random.below(self.living.len() as u64) as usize;
        let block = self.living.swap_remove(index);
        self.wrong += u64::from(!block.holds(block.word));
        self.taken.remove(&(block.at as usize));
        self.bytes -= block.bytes as u64;
        self.heap.free(block.at)
    }
}

/// Runs `operations` operations, then frees all live blocks.
pub fn run(heap: &Heap<'_>, operations: u64, seed: u64) -> Result<Verdict, String> {
    let mut model = Model {
        heap,
        random: Random(seed),
        living: Vec::new(),
        taken: BTreeMap::new(),
        bytes: 0,
        made: 0,
        wrong: 0,
        trace: 0,
        base: None,
    };
    let (mut most, mut sum, mut worst, mut audits) = ((0, 0), 0.0, 0f64, 0);
    let before = heap.books()?;
    let begin = Instant::now();
    for k in 0..operations {
        // Up for half of the tide, down for the other half.
        let tide = k % TIDE * 2;
        let high = if tide < TIDE { tide } else { 2 * TIDE - tide };
        let wanted = LIVING.0 + (LIVING.1 - LIVING.0) * high / TIDE;
        let living = model.living.len() as u64;
        // Random, but tending towards the number of blocks that the tide wants.
        let grows = living == 0 || model.random.below(2 * wanted) >= living;
        if grows {
            model.alloc()?
        } else {
            model.free()?
        }
        most = most.max((model.living.len() as u64, model.bytes));
        if k % AUDIT == AUDIT - 1 {
            let books = heap.books()?;
            let same = books.blocks - before.blocks == model.living.len() as u64 && books.used >= model.bytes;
            model.wrong += u64::from(!same || books.used + books.free != books.bytes);
            if living >= LIVING.1 / 2 {
                sum += books.fragmentation;
                audits += 1;
            }
            worst = worst.max(books.fragmentation);
        }
    }
    while !model.living.is_empty() {
        model.free()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let books = heap.books()?;
    let leaked = (books.blocks - before.blocks, books.used - before.used);
    let even =
        books.allocations - before.allocations == model.made && books.frees - before.frees == model.made;
    model.wrong +=
        u64::from(leaked != (0, 0)) + u64::from(!even) + u64::from(books.free + books.used != books.bytes);
    // 53 bits of it are as good as 64, and a double holds them.
    let traces = heap.comm().gather((model.trace >> 11) as f64)?;
    model.wrong += u64::from(traces.iter().any(|&trace| trace != traces[0]));
    let wrong = heap.comm().gather(model.wrong as f64)?.iter().sum::<f64>() as u64;
    Ok(Verdict {
        operations,
        ranks: heap.comm().nranks(),
        seconds,
        wrong,
        leaked,
        most,
        segments: books.segments,
        heap: books.bytes,
        fragmentation: (sum / f64::from(audits.max(1)), worst),
    })
}
