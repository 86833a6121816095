//! The time to write one rank's program, to link it to its peers' programs, and to verify the programs of all ranks.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use penny::internals::algorithms;
use penny::internals::plan::{RankView, check};
use penny::internals::types::Collective;

fn build(criterion: &mut Criterion) {
    for nranks in [8, 64] {
        let mut group = criterion.benchmark_group(format!("plan/{nranks} ranks"));
        for algorithm in algorithms::ALL {
            let collective = algorithm.serves[0];
            let view = RankView::flat(collective, 1, nranks, 0);
            if algorithm.refuses(&view).is_some() {
                continue;
            }
            group.bench_function(format!("{collective}/{}", algorithm.name), |bencher| {
                bencher.iter(|| algorithms::plan(algorithm, black_box(&view)));
            });
        }
        group.finish();
    }
}

fn prove(criterion: &mut Criterion) {
    let collective = Collective::AllReduce;
    let mut group = criterion.benchmark_group("prove/8 ranks");
    let view = RankView::flat(collective, 0, 8, 0);
    for algorithm in algorithms::candidates(collective).filter(|a| a.refuses(&view).is_none()) {
        let plans = algorithms::plan_all(algorithm, &view);
        group.bench_function(algorithm.name, |bencher| {
            bencher.iter(|| check::prove(black_box(&plans), collective, 0).is_ok());
        });
    }
    group.finish();
}

fn link(criterion: &mut Criterion) {
    for nranks in [8, 64, 1024] {
        let mut group = criterion.benchmark_group(format!("link/{nranks} ranks"));
        group.sample_size(10);
        for algorithm in algorithms::ALL {
            for &collective in algorithm.serves {
                let view = RankView::flat(collective, 1, nranks, 0);
                if algorithm.refuses(&view).is_none() {
                    group.bench_function(format!("{collective}/{}", algorithm.name), |bencher| {
                        bencher.iter(|| algorithms::linked(algorithm, black_box(&view)).is_ok());
                    });
                }
            }
        }
        group.finish();
    }
}

criterion_group!(benches, build, link, prove);
criterion_main!(benches);
