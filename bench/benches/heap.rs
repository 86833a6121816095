//! A free and an allocation of mixed sizes in a heap that holds many: the arena against first fit, which walks the gaps
//! from the lowest until one is large enough. And an allocation and its free in the shareable heap.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use penny::internals::memory::arena::Arena;
use penny::internals::memory::heap;

/// The calls that are compared.
trait Allocator {
    fn alloc(&mut self, bytes: u64) -> Option<u64>;
    fn free(&mut self, offset: u64);
}

/// Maps from offset to length, for the live blocks and for the gaps. Adjacent gaps are joined.
struct FirstFit {
    live: BTreeMap<u64, u64>,
    gaps: BTreeMap<u64, u64>,
}

impl Allocator for FirstFit {
    fn alloc(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.next_multiple_of(64);
        let (&offset, &gap) = self.gaps.iter().find(|&(_, &gap)| gap >= bytes)?;
        self.gaps.remove(&offset);
        if gap > bytes {
            self.gaps.insert(offset + bytes, gap - bytes);
        }
        self.live.insert(offset, bytes);
        Some(offset)
    }

    fn free(&mut self, mut offset: u64) {
        let mut bytes = self.live.remove(&offset).expect("a live block");
        if let Some((&before, &gap)) = self.gaps.range(..offset).next_back()
            && before + gap == offset
        {
            self.gaps.remove(&before);
            (offset, bytes) = (before, bytes + gap);
        }
        bytes += self.gaps.remove(&(offset + bytes)).unwrap_or(0);
        self.gaps.insert(offset, bytes);
    }
}

impl Allocator for Arena {
    fn alloc(&mut self, bytes: u64) -> Option<u64> {
        Arena::alloc(self, bytes, 64).ok().map(|block| block.offset)
    }

    fn free(&mut self, offset: u64) {
        Arena::free(self, offset).expect("a live block");
    }
}

/// A generator of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0 ^ (self.0 >> 32)) * u128::from(bound)) >> 64) as u64
    }

    /// 64 bytes to a mebibyte, every power of two as likely.
    fn size(&mut self) -> u64 {
        let power = 64 << self.below(14);
        power + self.below(power)
    }
}

/// A heap after many allocations and frees.
struct Worn<A> {
    allocator: A,
    live: Vec<u64>,
    numbers: Numbers,
    /// The highest offset it has handed out.
    reached: u64,
}

impl<A: Allocator> Worn<A> {
    fn new(allocator: A, live: usize) -> Worn<A> {
        let mut worn = Worn { allocator, live: Vec::new(), numbers: Numbers(7), reached: 0 };
        (0..live).for_each(|_| worn.add());
        (0..live * 50).for_each(|_| worn.replace());
        worn
    }

    fn add(&mut self) {
        let offset = self.allocator.alloc(self.numbers.size()).expect("room");
        self.reached = self.reached.max(offset);
        self.live.push(offset);
    }

    fn replace(&mut self) {
        let which = self.numbers.below(self.live.len() as u64) as usize;
        self.allocator.free(self.live.swap_remove(which));
        self.add();
    }
}

const BYTES: u64 = 1 << 40;

fn replacements(criterion: &mut Criterion) {
    for live in [16, 1000, 20_000] {
        let mut group = criterion.benchmark_group(format!("heap/{live} live"));
        let mut arena = Arena::new();
        arena.add_segment(0, BYTES);
        let mut arena = Worn::new(arena, live);
        let mut maps =
            Worn::new(FirstFit { live: BTreeMap::new(), gaps: BTreeMap::from([(0, BYTES)]) }, live);
        let [used, a, m] =
            [arena.allocator.stats().used, arena.reached, maps.reached].map(|bytes| bytes >> 10);
        println!(
            "{live} live blocks of {used} KiB have lain within {a} KiB of an arena, {m} KiB by first fit"
        );
        group.bench_function("arena", |bencher| bencher.iter(|| black_box(&mut arena).replace()));
        group.bench_function("first fit", |bencher| bencher.iter(|| black_box(&mut maps).replace()));
        group.finish();
    }
}

/// The whole cost for a program: the arena, and the system's check of the pages, which exist already.
fn shared(criterion: &mut Criterion) {
    let heap = heap::mine().expect("a heap");
    let kept = heap.alloc(64).expect("room");
    for bytes in [64, 64 << 10] {
        criterion.bench_function(&format!("heap/shared/{bytes} B"), |bencher| {
            bencher.iter(|| heap.free(heap.alloc(black_box(bytes)).expect("room")).expect("a live block"));
        });
    }
    heap.free(kept).expect("a live block");
}

criterion_group!(benches, replacements, shared);
criterion_main!(benches);
