//! The same call again: with the same buffers, with others, in place, with wrong ones, and after what ends a communicator.

use super::collectives::{Buffer, on_ranks, on_ranks_with};
use crate::comm::{self, Call, CommHandle, Config};
use crate::error::{Code, Result};
use crate::memory::view::Address;
use crate::types::{Collective, DataType, RedOp};

fn call(
    collective: Collective,
    dtype: DataType,
    buffers: [Address<'static>; 2],
    count: usize,
) -> Call<'static> {
    let [send, recv] = buffers;
    Call { collective, send, recv, count, dtype, op: RedOp::Sum, root: 0, padded: false }
}

fn reduce(comm: CommHandle, send: Address<'static>, recv: Address<'static>, count: usize) -> Result<()> {
    comm::collective(comm, &call(Collective::AllReduce, DataType::Uint32, [send, recv], count), None)
}

#[test]
fn a_call_like_the_last_one_is_checked_as_the_first_was() {
    for count in [3, 900, 5000] {
        for heap in [false, true] {
            on_ranks(3, |rank, comm| {
                let (mut a, mut b) = (Buffer::new(heap, count + 1), Buffer::new(heap, count));
                for round in 0..40u32 {
                    a.slice().fill(rank + round);
                    let sum = 3 + 3 * round;
                    reduce(comm, a.at(0), b.at(0), count).unwrap();
                    assert!(b.slice().iter().all(|&x| x == sum), "apart, round {round}");
                    let e = reduce(comm, a.at(0), a.at(1), count).unwrap_err();
                    assert!(e.code == Code::InvalidArgument && e.message.contains("overlap"), "{e}");
                    let e = reduce(comm, Address::NULL, b.at(0), count).unwrap_err();
                    assert!(e.code == Code::InvalidArgument && e.message.contains("sendbuff is NULL"), "{e}");
                    reduce(comm, a.at(1), a.at(1), count).unwrap();
                    assert!(a.slice()[1..].iter().all(|&x| x == sum), "in place, round {round}");
                }
            });
        }
    }
}

#[test]
fn an_exchange_of_the_library_is_no_pattern_for_the_programs_calls() {
    on_ranks_with(2, "allgather:ring", |rank, comm| {
        let mut all = Buffer::new(false, 80);
        // A split's exchanges are all-gathers of 64-bit words, by an algorithm of their own. In place they are like a program's
        // on rank 0 alone, which then would take over their algorithm.
        for words in 1..20 {
            let child = comm::split(comm, Some(0), rank as i32, None).unwrap();
            comm::destroy(child.unwrap()).unwrap();
            let own = 2 * words * rank as usize;
            all.slice()[own..own + 2 * words].fill(rank + 1);
            let buffers = [all.at(own), all.at(0)];
            comm::collective(comm, &call(Collective::AllGather, DataType::Uint64, buffers, words), None)
                .unwrap();
            assert_eq!(all.slice()[2 * words - 1..=2 * words], [1, 2]);
        }
    });
}

#[test]
fn after_an_abort_and_after_the_end_no_call_is_like_the_last_one() {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || {
                let comm = comm::init_rank(2, &id, rank, &Config::default()).unwrap();
                let (a, b) = (Buffer::new(false, 4), Buffer::new(false, 4));
                (0..3).for_each(|_| reduce(comm, a.at(0), b.at(0), 4).unwrap());
                if rank == 1 {
                    // The first of these may be under way when the other aborts, the second is not.
                    for _ in 0..2 {
                        let e = (0..1_000_000).find_map(|_| reduce(comm, a.at(0), b.at(0), 4).err());
                        assert_eq!(e.expect("an abort ends it").code, Code::RemoteError);
                    }
                }
                comm::abort(comm).unwrap();
            });
        }
    });
    on_ranks(1, |_, comm| {
        let (a, b) = (Buffer::new(false, 4), Buffer::new(false, 4));
        (0..3).for_each(|_| reduce(comm, a.at(0), b.at(0), 4).unwrap());
        comm::finalize(comm).unwrap();
        let e = reduce(comm, a.at(0), b.at(0), 4).unwrap_err();
        assert!(e.code == Code::InvalidUsage && e.message.contains("finalized"), "{e}");
    });
}
