//! Copies and folds that a rank's threads share, against one thread and against `memcpy`: what the threads gain, and what handing
//! the pieces out costs. `PENNY_BENCH_THREADS` lists the numbers of threads, for example `1,2,8`; unset: 1 and 2.
//!
//! The numbers count helper threads. The times are meaningful only on a machine with as many idle cores.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use penny::internals::kernels::{Dest, Fold, FoldSource, divided};
use penny::internals::memory::view::Payload;
use penny::internals::sync::parallel_for::ParallelFor;
use penny::internals::types::{DataType, RedOp};

/// The smallest size that is divided, a staging slot, a mebibyte, and a size beyond the last cache.
const SIZES: [usize; 4] = [64 << 10, 128 << 10, 1 << 20, 64 << 20];

fn numbers_of_threads() -> Vec<u32> {
    let text = std::env::var("PENNY_BENCH_THREADS").unwrap_or_else(|_| "1,2".into());
    let number = |word: &str| word.trim().parse().expect("PENNY_BENCH_THREADS is a list of numbers");
    text.split(',').map(number).collect()
}

/// Memory with a view on it, from the first line that lies wholly in it.
struct Memory(Vec<u8>);

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory(vec![1; bytes + 64])
    }
    fn view(&mut self, bytes: usize) -> Payload<'_> {
        let from = self.0.as_ptr().align_offset(64);
        let range = &mut self.0[from..from + bytes];
        // SAFETY: the memory is borrowed as long as the view lives, and holds that many bytes.
        unsafe { Payload::from_raw(range.as_mut_ptr(), bytes) }
    }
}

fn threads(criterion: &mut Criterion) {
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 2).expect("floats have sums");
    for bytes in SIZES {
        let mut group = criterion.benchmark_group(format!("threads/{}K", bytes >> 10));
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut a, mut b, mut c) = (Memory::new(bytes), Memory::new(bytes), Memory::new(bytes));
        let (a, b, c) = (a.view(bytes), b.view(bytes), c.view(bytes));
        group.bench_function("memcpy", |bencher| {
            // SAFETY: `a` and `c` have `bytes` bytes each and do not overlap.
            bencher.iter(|| unsafe { c.addr().copy_from_nonoverlapping(black_box(a.addr()), bytes) });
        });
        for number in numbers_of_threads() {
            let helpers = (number > 1).then(|| ParallelFor::with_helpers(number));
            group.bench_function(BenchmarkId::new("copy", number), |bencher| {
                bencher.iter(|| divided::copy(helpers.as_ref(), c, black_box(a), false).expect("a copy"));
            });
            let sources = [a, b].map(|view| FoldSource { view, raw: true });
            group.bench_function(BenchmarkId::new("fold", number), |bencher| {
                bencher.iter(|| {
                    let dests = [Dest::cached(c)];
                    divided::fold(helpers.as_ref(), &fold, black_box(&sources), &dests, bytes / 4, true)
                        .expect("a fold")
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, threads);
criterion_main!(benches);
