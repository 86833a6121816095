//! Gathers whose senders write to the root's output themselves, where they can reach it (docs/decisions/0102).

use super::swapped::Random;
use super::{Buffer, Case, on_ranks, on_ranks_with, run};
use crate::comm::{self, Call, CommHandle};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::time::Duration;

#[test]
fn blocks_that_are_written_and_blocks_that_are_read_meet_in_one_call() {
    for (n, algo) in [(2, "auto"), (3, "gather:one_shot"), (3, "gather:pairwise"), (5, "auto")] {
        on_ranks_with(n, algo, |me, comm| {
            let (mut shared, mut own) = (Random(31_337), Random(5 + u64::from(me)));
            for _ in 0..60 {
                let (count, root) = (12_000 + shared.below(60_000) as usize, shared.below(n.into()) as Rank);
                let (heap, in_place) = (own.below(3) > 0, own.below(3) == 0);
                if own.below(4) == 0 {
                    std::thread::sleep(Duration::from_micros(own.below(300)));
                }
                run(&Case { collective: Collective::Gather, root, count, heap, in_place }, n, me, comm);
            }
        });
    }
}

const COUNT: usize = 50_000;

fn gather(comm: CommHandle, me: Rank, count: usize, buffer: &Buffer) -> Result<()> {
    let call = Call {
        collective: Collective::Gather,
        send: buffer.at(3 * COUNT),
        recv: if me == 0 { buffer.at(0) } else { Address::NULL },
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    comm::collective(comm, &call, None)
}

/// The root has returned since another rank's count differs. A rank that comes later must not write to the root's memory.
#[test]
fn nobody_writes_to_the_output_of_a_root_that_has_returned() {
    on_ranks(3, |me, comm| {
        let mut buffer = Buffer::new(true, 4 * COUNT);
        if me == 1 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let ended = gather(comm, me, if me == 2 { COUNT - 1 } else { COUNT }, &buffer);
        if me < 2 {
            assert_eq!(ended.unwrap_err().code, Code::InvalidUsage);
        }
        if me == 0 {
            buffer.slice().fill(7);
            std::thread::sleep(Duration::from_millis(200));
            assert!(buffer.slice().iter().all(|&word| word == 7));
        }
    });
}
