//! Folds of two sources, by element type, operation and size: in the second-level cache and beyond the last.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use penny::kernels::{self, Fold, Source};
use penny::memory::view::View;
use penny::types::{DataType, RedOp};

const SIZES: [usize; 2] = [64 << 10, 64 << 20];

/// Whole cache lines, as slots and well-made buffers are.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Memory with a view on it.
struct Memory(Vec<Line>);

impl Memory {
    fn new(bytes: usize) -> Memory {
        Memory(vec![Line([1; 64]); bytes.div_ceil(64)])
    }
    fn view(&mut self, bytes: usize) -> View<'_> {
        assert!(bytes <= self.0.len() * 64);
        // SAFETY: the memory is borrowed as long as the view lives, and holds that many bytes.
        unsafe { View::from_raw(self.0.as_mut_ptr().cast(), bytes) }
    }
}

fn folds(criterion: &mut Criterion) {
    for bytes in SIZES {
        let mut group = criterion.benchmark_group(format!("fold/{}K", bytes >> 10));
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut a, mut b, mut c) = (Memory::new(bytes), Memory::new(bytes), Memory::new(bytes));
        let (a, b, c) = (a.view(bytes), b.view(bytes), c.view(bytes));
        for &dtype in DataType::ALL {
            for &op in RedOp::ALL.iter().filter(|op| op.serves(dtype)) {
                let fold = Fold::new(dtype, op, 2).expect("the operation serves the type");
                let sources = [Source { view: a, raw: true }, Source { view: b, raw: true }];
                let count = bytes / dtype.size();
                group.bench_function(format!("{dtype}/{op}"), |bencher| {
                    bencher.iter(|| fold.fold(black_box(&sources), &[c], count, true, false));
                });
            }
        }
        group.finish();
    }
}

fn copies(criterion: &mut Criterion) {
    for bytes in SIZES {
        let mut group = criterion.benchmark_group(format!("copy/{}K", bytes >> 10));
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut from, mut to) = (Memory::new(bytes), Memory::new(bytes));
        let (from, to) = (from.view(bytes), to.view(bytes));
        for (name, stream) in [("cached", false), ("streamed", true)] {
            group.bench_function(name, |bencher| bencher.iter(|| kernels::copy(to, black_box(from), stream)));
        }
        group.finish();
    }
}

criterion_group!(benches, folds, copies);
criterion_main!(benches);
