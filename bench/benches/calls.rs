//! The C call itself: what a program pays before any other rank is involved.
//!
//! A communicator of one rank never waits for another rank. Its calls are argument checks, the record, the choice of a
//! plan and a copy of eight bytes. `floor` is a call of the library that does nothing but return.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use penny::internals::types::{Collective, DataType, RedOp};
use penny_bench::capi::{self, Call, Communicator};
use penny_bench::subject::Subject;

fn calls(criterion: &mut Criterion) {
    let comm = Communicator::alone().expect("a communicator of one");
    let (input, mut output) = ([1f32, 2.0], [0f32; 2]);
    let mut group = criterion.benchmark_group("call/1 rank");
    group.bench_function("floor", |bencher| bencher.iter(capi::version));
    for &collective in Collective::ALL {
        let call = Call {
            subject: Subject::Collective(collective),
            send: input.as_ptr().cast(),
            recv: output.as_mut_ptr().cast(),
            count: 2,
            dtype: DataType::Float32,
            op: RedOp::Sum,
            root: 0,
        };
        group.bench_function(collective.name(), |bencher| {
            // SAFETY: with one rank every collective reads and writes one block, here of two floats.
            bencher.iter(|| unsafe { comm.call(black_box(&call)) }.expect("the call succeeds"));
        });
    }
    group.finish();
    comm.destroy().expect("the communicator is live");
}

criterion_group!(benches, calls);
criterion_main!(benches);
