//! Private buffers that peers read through the kernel, as they do on cores of their own: here wherever the kernel permits.

use super::{Buffer, Case, every_case, input, on_ranks_of, run};
use crate::algorithms::{ALL, Algorithm};
use crate::comm::{self, Call, Config};
use crate::plan::RankView;
use crate::sys::process_memory;
use crate::types::{Collective, DataType, RedOp};

fn read_by_peers() -> Config {
    Config { timeout_ms: Some(60_000), threads: Some(1), single_copy: Some(true), ..Config::default() }
}

/// Tells whether this process may read another's memory, and says where it may not.
fn is_permitted() -> bool {
    let permitted = process_memory::may_read(std::process::id());
    if !permitted {
        println!("SKIPPED: process_vm_readv is forbidden here");
    }
    permitted
}

#[test]
fn every_collective_is_right_where_private_buffers_are_read() {
    if !is_permitted() {
        return;
    }
    // Vectors of 280,004 to 2,800,012 bytes: with slices, several pieces, and blocks that begin anywhere in a page.
    for (n, count) in [(4, 140_001), (5, 60_003), (8, 40_001), (9, 8_009)] {
        on_ranks_of(
            n,
            |_| read_by_peers(),
            |me, comm| {
                every_case(n, &[count], |case| run(case, n, me, comm));
                let whole = Case {
                    collective: Collective::AllReduce,
                    root: 0,
                    count: count * n as usize + 1,
                    heap: false,
                    in_place: me.is_multiple_of(2),
                };
                // Some ranks in place and some not, with the same slots on all.
                run(&whole, n, me, comm);
                run(&Case { heap: me == 1, ..whole }, n, me, comm);
            },
        );
    }
}

#[test]
fn every_algorithm_combines_what_it_reads() {
    if !is_permitted() {
        return;
    }
    const RANKS: u32 = 4;
    for collective in [Collective::AllReduce, Collective::ReduceScatter] {
        let serves = |a: &&&Algorithm| {
            a.serves.contains(&collective) && a.refuses(&RankView::flat(collective, 0, RANKS, 0)).is_none()
        };
        for algorithm in ALL.iter().filter(serves) {
            let algo = Some(format!("{collective}:{}", algorithm.name));
            on_ranks_of(
                RANKS,
                |_| Config { algo: algo.clone(), ..read_by_peers() },
                |me, comm| {
                    for (in_place, count) in [(false, 600_003), (true, 600_003), (me == 0, 2_100_001)] {
                        run(&Case { collective, root: 0, count, heap: false, in_place }, RANKS, me, comm);
                    }
                },
            );
        }
    }
}

#[test]
fn averages_and_narrow_floats_have_the_same_bits_however_operands_come() {
    if !is_permitted() {
        return;
    }
    const RANKS: u32 = 5;
    let of = |config: fn() -> Config| {
        let outputs = std::sync::Mutex::new(vec![Vec::new(); RANKS as usize]);
        on_ranks_of(
            RANKS,
            |_| config(),
            |me, comm| {
                for (dtype, op) in [
                    (DataType::Float32, RedOp::Avg),
                    (DataType::Bfloat16, RedOp::Sum),
                    (DataType::Float16, RedOp::Avg),
                    (DataType::Int8, RedOp::Max),
                ] {
                    let words = 300_007;
                    let mut buffers = [Buffer::new(false, words), Buffer::new(false, words)];
                    let values = buffers[0].slice();
                    (0..words)
                        .for_each(|i| values[i] = input(me, 0, i).rotate_left(i as u32 % 29) & 0x3fff_3fff);
                    let call = Call {
                        collective: Collective::AllReduce,
                        send: buffers[0].at(0),
                        recv: buffers[1].at(0),
                        count: words * 4 / dtype.size(),
                        dtype,
                        op,
                        root: 0,
                        padded: false,
                    };
                    comm::collective(comm, &call, None).unwrap();
                    outputs.lock().unwrap()[me as usize].push(buffers[1].slice().to_vec());
                }
            },
        );
        outputs.into_inner().unwrap()
    };
    let staged = of(|| Config { single_copy: Some(false), ..read_by_peers() });
    assert!(staged == of(read_by_peers));
}
