//! Small collectives on idle streams, which are made by the thread that queues them.

use crate::comm::{self, Call, CommHandle, StreamHandle};
use crate::error::Code;
use crate::memory::view::Address;
use crate::tests::collectives::on_ranks;
use crate::types::{Collective, DataType, RedOp};

fn all_reduce(rank: CommHandle, stream: StreamHandle, data: &mut [u64], op: RedOp) {
    // SAFETY: the data outlive the call: every test waits for what it has queued.
    let buffer = unsafe { Address::from_raw(data.as_mut_ptr().cast()) };
    let call = Call {
        collective: Collective::AllReduce,
        send: buffer,
        recv: buffer,
        count: data.len(),
        dtype: DataType::Uint64,
        op,
        root: 0,
        padded: false,
    };
    comm::collective(rank, &call, Some(stream)).unwrap();
}

#[test]
fn small_calls_on_idle_streams_are_made_and_told_like_others() {
    let ranks = comm::init_all(2).unwrap();
    let streams = [comm::stream_create().unwrap(), comm::stream_create().unwrap()];
    let mut data = [[1u64, 2], [10, 20]];
    for round in 1..=3u64 {
        data = [[round, 2], [10, 20 * round]];
        let [mine, theirs] = &mut data;
        all_reduce(ranks[0], streams[0], mine, RedOp::Sum);
        all_reduce(ranks[1], streams[1], theirs, RedOp::Sum);
        for stream in streams {
            comm::stream_synchronize(Some(stream)).unwrap();
        }
        assert_eq!(data, [[round + 10, 2 + 20 * round]; 2], "round {round}");
    }
    // The ranks disagree: the second to come finds it while it queues its call.
    let [mine, theirs] = &mut data;
    all_reduce(ranks[1], streams[1], theirs, RedOp::Max);
    let _ = comm::stream_query(Some(streams[1]));
    all_reduce(ranks[0], streams[0], mine, RedOp::Sum);
    let told = [streams[0], streams[1]].map(|stream| comm::stream_synchronize(Some(stream)).unwrap_err());
    for error in told {
        assert!(error.message.starts_with("all_reduce on a stream: "), "{error}");
    }
    for (rank, stream) in ranks.into_iter().zip(streams) {
        assert_eq!(comm::state(rank).unwrap().unwrap_err().code, Code::InvalidUsage);
        comm::stream_destroy(stream).unwrap();
        comm::destroy(rank).unwrap();
    }
}

/// Makes a group of one call of each rank on its own stream.
fn grouped(ranks: &[CommHandle], streams: &[StreamHandle], data: &mut [Vec<u64>], op: RedOp) {
    comm::group_start().unwrap();
    for ((rank, stream), data) in ranks.iter().zip(streams).zip(data) {
        all_reduce(*rank, *stream, data, op);
    }
    comm::group_end().unwrap();
}

fn wait_for(streams: &[StreamHandle]) {
    for stream in streams {
        // BOUND: the calls' own deadlines.
        while comm::stream_query(Some(*stream)).is_err_and(|e| e.code == Code::InProgress) {}
    }
}

#[test]
fn groups_of_small_calls_of_one_threads_ranks_are_made_and_told_like_others() {
    let ranks = comm::init_all(3).unwrap();
    let streams: Vec<_> = ranks.iter().map(|_| comm::stream_create().unwrap()).collect();
    for round in 0..48u64 {
        // Data that come with the arrivals, programs, and more than is made at once.
        let count = [5, 3000, 8000, 90_000][round as usize / 4 % 4];
        let mut data: Vec<_> = (0..3).map(|rank| vec![rank + round; count]).collect();
        for _ in 0..1 + round % 3 {
            grouped(&ranks, &streams, &mut data, RedOp::Sum);
        }
        wait_for(&streams);
        let sum = (3 + 3 * round) * 3u64.pow((round % 3) as u32);
        assert!(data.iter().flatten().all(|&x| x == sum), "round {round}: {}", data[0][0]);
    }
    // One rank disagrees, within the group.
    let mut data = vec![vec![1; 5]; 3];
    comm::group_start().unwrap();
    for (i, rank) in ranks.iter().enumerate() {
        all_reduce(*rank, streams[i], &mut data[i], if i == 1 { RedOp::Max } else { RedOp::Sum });
    }
    comm::group_end().unwrap();
    wait_for(&streams[..0]);
    let told: Vec<_> = streams.iter().map(|stream| comm::stream_synchronize(Some(*stream))).collect();
    assert!(told.iter().any(|told| told.as_ref().is_err_and(|e| e.message.contains("disagree"))), "{told:?}");
    for (rank, stream) in ranks.into_iter().zip(streams) {
        comm::stream_destroy(stream).unwrap();
        comm::destroy(rank).unwrap();
    }
}

#[test]
fn a_group_whose_peers_come_later_goes_on_on_its_streams() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let (ranks, streams) = ([comm, other], [0; 2].map(|_| comm::stream_create().unwrap()));
        for round in 0..200u64 {
            let count = if round < 100 { 5 } else { 6000 };
            let mut data = vec![vec![round; count], vec![2 * round; count]];
            if rank == 0 && round % 10 == 0 {
                std::thread::yield_now();
            }
            grouped(&ranks, &streams, &mut data, RedOp::Sum);
            wait_for(&streams);
            assert_eq!(data, [vec![2 * round; count], vec![4 * round; count]], "round {round}");
        }
        streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
        comm::destroy(other).unwrap();
    });
}

#[test]
fn groups_of_several_threads_that_none_of_them_waits_for_are_made_in_their_order() {
    let ranks = comm::init_all(4).unwrap();
    const GROUPS: u64 = 40;
    /// What one rank finds, and then the three others, after an addition behind this group.
    fn expected(added_behind: u64) -> u64 {
        let mut data = [1u64; 4];
        for group in 0..GROUPS {
            let is_sum = group % 3 == 0;
            data = [if is_sum { data.iter().sum() } else { data[1].max(data[0]) }; 4];
            if group == added_behind {
                data[1..].iter_mut().for_each(|x| *x += 1);
            }
        }
        data[0]
    }
    std::thread::scope(|scope| {
        for (thread, ranks) in ranks.chunks(2).enumerate() {
            scope.spawn(move || {
                let streams = [0; 2].map(|_| comm::stream_create().unwrap());
                for round in 0..200u64 {
                    // Data that come with the arrivals, programs, and more than is made at once.
                    let count = [3, 700, 3000, 20_000][round as usize % 50 / 13];
                    let mut data = vec![vec![1u64; count]; 2];
                    for group in 0..GROUPS {
                        // Each thread is late for some groups, and finds what is before them under way or over.
                        let late = if group % 2 == thread as u64 { 3 * round } else { 0 };
                        (0..late).for_each(|_| std::hint::spin_loop());
                        let op = if group % 3 == 0 { RedOp::Sum } else { RedOp::Max };
                        grouped(ranks, &streams, &mut data, op);
                        if group == round % (GROUPS - 1) {
                            wait_for(&streams);
                            // All ranks but one add 1: a later sum takes it in, a later maximum takes the largest.
                            let mine = data.iter_mut().skip(usize::from(thread == 0));
                            mine.flatten().for_each(|x| *x += 1);
                        }
                    }
                    wait_for(&streams);
                    let expected = expected(round % (GROUPS - 1));
                    assert!(data.iter().flatten().all(|&x| x == expected), "round {round}: {}", data[0][0]);
                }
                streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
            });
        }
    });
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}

#[test]
fn calls_that_their_peers_make_at_the_same_time_are_made_once() {
    on_ranks(2, |rank, comm| {
        let stream = comm::stream_create().unwrap();
        for round in 0..1000 {
            // Data that come with the arrivals, and programs: of the largest only where the stream's worker rests.
            let count = [40_000, 5000, 3, 3, 3, 3, 3, 3][round % 8];
            let mut data = vec![1u64; count];
            for call in 0..40 {
                // One comes later than the other, by more each time: in the other's first look, in one of its polls, or after them.
                (0..if rank == call % 2 { 4 * round } else { 0 }).for_each(|_| std::hint::spin_loop());
                all_reduce(comm, stream, &mut data, RedOp::Sum);
            }
            comm::stream_synchronize(Some(stream)).unwrap();
            assert!(data.iter().all(|&x| x == 1 << 40), "round {round}: {:#x}", data[0]);
        }
        comm::stream_destroy(stream).unwrap();
    });
}

#[test]
fn calls_of_two_threads_on_one_communicator_are_all_made() {
    let ranks = comm::init_all(2).unwrap();
    const CALLS: u64 = 2000;
    std::thread::scope(|scope| {
        for rank in ranks.iter().flat_map(|rank| [rank; 2]) {
            scope.spawn(move || {
                let stream = comm::stream_create().unwrap();
                let mut data = [1u64];
                for _ in 0..CALLS {
                    // Whichever call of the peer it meets.
                    all_reduce(*rank, stream, &mut data, RedOp::Max);
                }
                comm::stream_synchronize(Some(stream)).unwrap();
                assert_eq!(data, [1]);
                comm::stream_destroy(stream).unwrap();
            });
        }
    });
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}
