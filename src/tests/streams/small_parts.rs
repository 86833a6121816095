//! Groups of small transfers on idle streams, which the thread that ends them makes.

use crate::comm::{self, CommHandle, StreamHandle, Transfer};
use crate::error::Code;
use crate::memory::view::Address;
use crate::tests::collectives::on_ranks;
use crate::types::DataType;

/// Queues one half of a transfer.
pub(super) fn half(comm: CommHandle, send: bool, peer: i32, data: &mut [u64], stream: StreamHandle) {
    // SAFETY: the data outlive the call: every test waits for what it has queued.
    let buffer = unsafe { Address::from_raw(data.as_mut_ptr().cast()) };
    let transfer =
        Transfer { send, buffer, count: data.len(), dtype: DataType::Uint64, peer, of_collective: false };
    comm::transfer(comm, &transfer, Some(stream)).unwrap();
}

/// What a rank sends in a round.
pub(super) fn numbers(rank: usize, round: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| 1000 * round + 100 * rank as u64 + i % 7).collect()
}

#[test]
fn one_threads_ranks_exchange_small_and_large_blocks_in_groups() {
    let ranks = comm::init_all(3).unwrap();
    let streams: Vec<_> = ranks.iter().map(|_| comm::stream_create().unwrap()).collect();
    for round in 0..60u64 {
        let count = [0, 1, 500, 2048, 2049, 90_000][round as usize % 6];
        let mut sent: Vec<_> = (0..3).map(|rank| numbers(rank, round, count)).collect();
        let mut received = vec![vec![0; count]; 3];
        comm::group_start().unwrap();
        for rank in 0..3 {
            half(ranks[rank], false, (rank as i32 + 2) % 3, &mut received[rank], streams[rank]);
            half(ranks[rank], true, (rank as i32 + 1) % 3, &mut sent[rank], streams[rank]);
        }
        comm::group_end().unwrap();
        streams.iter().for_each(|stream| comm::stream_synchronize(Some(*stream)).unwrap());
        for (rank, received) in received.iter().enumerate() {
            assert_eq!(*received, numbers((rank + 2) % 3, round, count), "round {round}, rank {rank}");
        }
    }
    streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}

#[test]
fn what_its_peer_has_not_sent_goes_on_on_its_stream_in_order() {
    on_ranks(2, |rank, comm| {
        let stream = comm::stream_create().unwrap();
        for round in 0..300u64 {
            let peer = 1 - rank as i32;
            let mut sent: Vec<_> = (0..6).map(|i| numbers(rank as usize, 6 * round + i, 9)).collect();
            let mut received = vec![vec![0; 9]; 6];
            // One comes later than the other, by more each time.
            (0..if rank == round as u32 % 2 { 20 * round } else { 0 }).for_each(|_| std::hint::spin_loop());
            for (sent, received) in sent.iter_mut().zip(&mut received) {
                comm::group_start().unwrap();
                half(comm, true, peer, sent, stream);
                half(comm, false, peer, received, stream);
                comm::group_end().unwrap();
            }
            comm::stream_synchronize(Some(stream)).unwrap();
            for (i, received) in received.iter().enumerate() {
                assert_eq!(*received, numbers(peer as usize, 6 * round + i as u64, 9), "round {round}");
            }
        }
        comm::stream_destroy(stream).unwrap();
    });
}

#[test]
fn half_a_group_waits_and_an_abort_ends_it() {
    let ranks = comm::init_all(2).unwrap();
    let stream = comm::stream_create().unwrap();
    let (mut first, mut second) = ([0u64; 4], [0u64; 4]);
    comm::group_start().unwrap();
    half(ranks[0], false, 1, &mut first, stream);
    half(ranks[0], false, 1, &mut second, stream);
    comm::group_end().unwrap();
    assert_eq!(comm::stream_query(Some(stream)).unwrap_err().code, Code::InProgress);
    comm::abort(ranks[0]).unwrap();
    let told = comm::stream_synchronize(Some(stream)).unwrap_err();
    assert!(told.message.contains("group of calls on a stream: "), "{told}");
    assert!(told.message.contains("aborted"), "{told}");
    comm::stream_destroy(stream).unwrap();
    comm::abort(ranks[1]).unwrap();
}

#[test]
fn a_group_that_cannot_begin_on_one_stream_is_queued_on_all() {
    let ranks = comm::init_all(2).unwrap();
    let streams = [comm::stream_create().unwrap(), comm::stream_create().unwrap()];
    for round in 0..20u64 {
        // Until the function returns nothing behind it is made.
        let (open, opened) = std::sync::mpsc::channel::<()>();
        comm::stream_host_function(Some(streams[1]), move || opened.recv().unwrap()).unwrap();
        let (mut sent, mut received) =
            ([numbers(0, round, 3), numbers(1, round, 3)], [vec![0; 3], vec![0; 3]]);
        comm::group_start().unwrap();
        for rank in 0..2 {
            half(ranks[rank], true, 1 - rank as i32, &mut sent[rank], streams[rank]);
            half(ranks[rank], false, 1 - rank as i32, &mut received[rank], streams[rank]);
        }
        comm::group_end().unwrap();
        assert_eq!(comm::stream_query(Some(streams[1])).unwrap_err().code, Code::InProgress);
        open.send(()).unwrap();
        streams.iter().for_each(|stream| comm::stream_synchronize(Some(*stream)).unwrap());
        assert_eq!(received, [numbers(1, round, 3), numbers(0, round, 3)]);
    }
    streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}

#[test]
fn a_group_behind_another_call_of_one_of_its_communicators_gives_its_turns_back() {
    let ranks = comm::init_all(2).unwrap();
    let streams: Vec<_> = (0..3).map(|_| comm::stream_create().unwrap()).collect();
    for round in 0..20u64 {
        let data = |number| numbers(0, 3 * round + number, 3);
        let (mut first, mut last, mut back) = (data(0), data(1), data(2));
        let mut received = [vec![0; 3], vec![0; 3], vec![0; 3]];
        let [early, late, mine] = &mut received;
        // It waits for rank 0, on a stream of its own.
        half(ranks[1], false, 0, early, streams[2]);
        comm::group_start().unwrap();
        half(ranks[0], true, 1, &mut first, streams[0]);
        half(ranks[0], false, 1, mine, streams[0]);
        half(ranks[1], false, 0, late, streams[1]);
        half(ranks[1], true, 0, &mut back, streams[1]);
        comm::group_end().unwrap();
        half(ranks[0], true, 1, &mut last, streams[0]);
        streams.iter().for_each(|stream| comm::stream_synchronize(Some(*stream)).unwrap());
        assert_eq!(received, [data(0), data(1), data(2)], "round {round}");
    }
    streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}
