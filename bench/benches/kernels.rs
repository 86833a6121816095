//! Folds of two sources, by element type, operation and size: in the second-level cache and beyond the last; short sums,
//! where the call itself counts; and sums of several sources or to several destinations, where memory does.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use penny::internals::kernels::{self, Dest, Fold, FoldSource};
use penny::internals::memory::view::Payload;
use penny::internals::types::{DataType, RedOp};

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
    fn view(&mut self, bytes: usize) -> Payload<'_> {
        assert!(bytes <= self.0.len() * 64);
        // SAFETY: the memory is borrowed as long as the view lives, and holds that many bytes.
        unsafe { Payload::from_raw(self.0.as_mut_ptr().cast(), bytes) }
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
                let sources = [FoldSource { view: a, raw: true }, FoldSource { view: b, raw: true }];
                let count = bytes / dtype.size();
                group.bench_function(format!("{dtype}/{op}"), |bencher| {
                    bencher.iter(|| fold.fold(black_box(&sources), &[Dest::cached(c)], count, true));
                });
            }
        }
        group.finish();
    }
}

fn short_sums(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("short");
    let (mut a, mut b, mut c) = (Memory::new(256), Memory::new(256), Memory::new(256));
    let (a, b, c) = (a.view(256), b.view(256), c.view(256));
    let [a, b] = [a, b].map(|view| FoldSource { view, raw: true });
    for dtype in [DataType::Float32, DataType::Float16, DataType::Bfloat16] {
        let fold = Fold::new(dtype, RedOp::Sum, 4).expect("floats have sums");
        for bytes in [8, 64, 256] {
            let count = bytes / dtype.size();
            for sources in [&[a, b][..], &[a, b, a, b]] {
                group.bench_function(format!("{dtype}/{bytes}B/{}", sources.len()), |bencher| {
                    bencher
                        .iter(|| black_box(&fold).fold(black_box(sources), &[Dest::cached(c)], count, true));
                });
            }
        }
    }
    group.finish();
}

fn wide_sums(criterion: &mut Criterion) {
    const BYTES: usize = 32 << 20;
    let mut group = criterion.benchmark_group("wide/32M");
    let mut memory: [Memory; 6] = std::array::from_fn(|_| Memory::new(BYTES));
    let [a, b, c, d, x, y] = memory.each_mut().map(|m| m.view(BYTES));
    let [a, b, c, d] = [a, b, c, d].map(|view| FoldSource { view, raw: true });
    let fold = Fold::new(DataType::Float32, RedOp::Sum, 4).expect("floats have sums");
    for (name, sources, dests) in
        [("2to1", &[a, b][..], &[x][..]), ("4to1", &[a, b, c, d], &[x]), ("2to2", &[a, b], &[x, y])]
    {
        group.throughput(Throughput::Bytes((BYTES * (sources.len() + dests.len())) as u64));
        for (way, around) in [("cached", false), ("around", true)] {
            let dests: Vec<Dest<'_>> =
                dests.iter().map(|&view| Dest { view, non_temporal: around }).collect();
            group.bench_function(format!("{name}/{way}"), |bencher| {
                bencher.iter(|| fold.fold(black_box(sources), &dests, BYTES / 4, true));
            });
        }
    }
    group.finish();
}

fn copies(criterion: &mut Criterion) {
    for bytes in SIZES {
        let mut group = criterion.benchmark_group(format!("copy/{}K", bytes >> 10));
        group.throughput(Throughput::Bytes(bytes as u64));
        let (mut from, mut to) = (Memory::new(bytes), Memory::new(bytes));
        let (from, to) = (from.view(bytes), to.view(bytes));
        for (name, around) in [("cached", false), ("around", true)] {
            group.bench_function(name, |bencher| bencher.iter(|| kernels::copy(to, black_box(from), around)));
        }
        group.finish();
    }
}

criterion_group!(benches, folds, short_sums, wide_sums, copies);
criterion_main!(benches);
