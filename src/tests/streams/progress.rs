//! Threads that wait go on with what is queued, and calls are left and taken up again.

use super::{address, sum, transfer};
use crate::comm::{self, Permute, stream_create, stream_destroy, stream_query, stream_synchronize};
use crate::error::Code;
use crate::tests::collectives::on_ranks;
use crate::types::{DataType, Rank};
use std::sync::Barrier;

#[test]
fn ranks_may_wait_for_their_streams_in_any_order() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let streams = [0; 2].map(|_| stream_create().unwrap());
        for round in 0..300u32 {
            let mut data = [vec![rank + round; 3], vec![rank; 40_000]];
            for (i, comm) in [comm, other].into_iter().enumerate() {
                comm::collective(comm, &sum(&mut data[i]), Some(streams[i])).unwrap();
            }
            let order = if rank == 0 { [0, 1] } else { [1, 0] };
            for i in order {
                stream_synchronize(Some(streams[i])).unwrap();
                let expected = [2 * round + 1, 1][i];
                assert!(data[i].iter().all(|&x| x == expected), "round {round}, stream {i}");
            }
        }
        streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
        comm::destroy(other).unwrap();
    });
}

#[test]
fn threads_wait_for_streams_that_wait_for_each_other() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let [first, second] = [0; 2].map(|_| stream_create().unwrap());
        let event = comm::event_create().unwrap();
        for round in 0..200u32 {
            let mut data = [vec![rank + round; 20_000], vec![rank; 20_000]];
            let [early, late] = data.each_mut().map(|data| sum(data));
            comm::collective(comm, &early, Some(first)).unwrap();
            comm::event_record(event, Some(first)).unwrap();
            comm::stream_wait_event(Some(second), event).unwrap();
            comm::collective(other, &late, Some(second)).unwrap();
            // Each thread goes on with its own stream only, as long as the other waits.
            std::thread::scope(|scope| {
                let wait = |stream| scope.spawn(move || stream_synchronize(Some(stream)).unwrap());
                let order = if rank == 0 { [first, second] } else { [second, first] };
                order.map(wait).into_iter().for_each(|thread| thread.join().unwrap());
            });
            for (data, expected) in data.iter().zip([2 * round + 1, 1]) {
                assert!(data.iter().all(|&x| x == expected), "round {round}");
            }
        }
        comm::event_destroy(event).unwrap();
        [first, second].into_iter().for_each(|stream| stream_destroy(stream).unwrap());
        comm::destroy(other).unwrap();
    });
}

#[test]
fn a_program_that_only_asks_goes_on_with_its_calls() {
    on_ranks(3, |rank, comm| {
        let stream = stream_create().unwrap();
        for size in [1, 1000, 300_000] {
            let mut data = vec![rank; size];
            comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
            // BOUND: the call's own deadline.
            while stream_query(Some(stream)).is_err_and(|e| e.code == Code::InProgress) {
                std::thread::yield_now();
            }
            assert!(data.iter().all(|&x| x == 3));
        }
        stream_destroy(stream).unwrap();
    });
}

#[test]
fn one_thread_drives_the_streams_of_all_its_ranks() {
    let comms = comm::init_all(4).unwrap();
    let streams: Vec<_> = comms.iter().map(|_| stream_create().unwrap()).collect();
    for size in [0, 1, 700, 100_000] {
        let mut data: Vec<_> = (0..4).map(|rank| vec![rank; size]).collect();
        for ((comm, stream), data) in comms.iter().zip(&streams).zip(&mut data) {
            comm::collective(*comm, &sum(data), Some(*stream)).unwrap();
        }
        stream_synchronize(Some(streams[2])).unwrap();
        streams.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
        assert!(data.iter().flatten().all(|&x| x == 6), "{size}");
    }
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn an_abort_ends_a_call_that_was_left_under_way() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        if rank == 0 {
            let stream = stream_create().unwrap();
            let mut data = [1; 9];
            comm::collective(other, &sum(&mut data), Some(stream)).unwrap();
            for _ in 0..100 {
                assert_eq!(stream_query(Some(stream)).unwrap_err().code, Code::InProgress);
            }
            comm::abort(other).unwrap();
            let e = stream_synchronize(Some(stream)).unwrap_err();
            assert!(e.code == Code::RemoteError && e.message.contains("abort"), "{e}");
            stream_destroy(stream).unwrap();
        }
        comm::collective(comm, &sum(&mut [0; 1]), None).unwrap();
        if rank == 1 {
            let e = comm::collective(other, &sum(&mut [0; 1]), None).unwrap_err();
            assert!(e.message.contains("rank 0 aborted the communicator"), "{e}");
            comm::abort(other).unwrap();
        }
    });
}

#[test]
fn one_thread_makes_a_group_of_all_its_ranks() {
    let comms = comm::init_all(3).unwrap();
    for (round, size) in [0usize, 1, 33, 4096, 200_000].into_iter().enumerate() {
        let mut sums: Vec<_> = (0..3).map(|rank| vec![rank; size]).collect();
        let mut sent: Vec<_> = (0..3).map(|rank| vec![10 + rank; size]).collect();
        let mut come = vec![vec![0; size]; 3];
        let mut permuted = vec![vec![0; size]; 3];
        comm::group_start().unwrap();
        for (rank, &comm) in comms.iter().enumerate() {
            comm::collective(comm, &sum(&mut sums[rank]), None).unwrap();
            let (to, from) = ((rank + 1) % 3, (rank + 2) % 3);
            comm::transfer(comm, &transfer(true, &mut sent[rank], to as Rank), None).unwrap();
            comm::transfer(comm, &transfer(false, &mut come[rank], from as Rank), None).unwrap();
            let (send, recv) = (address(&mut sent[rank]), address(&mut permuted[rank]));
            let perm = vec![2, 0, 1];
            let permute = Permute { send, recv, count: size, dtype: DataType::Uint32, perm };
            comm::permute(comm, permute, None).unwrap();
        }
        comm::group_end().unwrap();
        for rank in 0..3 {
            let from = (rank as u32 + 2) % 3;
            assert!(sums[rank].iter().all(|&x| x == 3), "round {round}");
            assert!(come[rank].iter().all(|&x| x == 10 + from), "round {round}");
            assert!(permuted[rank].iter().all(|&x| x == 10 + (rank as u32 + 1) % 3), "round {round}");
        }
    }
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn a_group_goes_on_with_one_communicator_while_another_has_calls_queued_before_it() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let stream = stream_create().unwrap();
        for size in [1, 5000, 200_000] {
            let mut data = [(); 3].map(|()| vec![rank; size]);
            let [first, queued, second] = data.each_mut().map(|data| sum(data));
            if rank == 0 {
                comm::collective(other, &queued, Some(stream)).unwrap();
                comm::group_start().unwrap();
                comm::collective(other, &second, None).unwrap();
                comm::collective(comm, &first, None).unwrap();
                comm::group_end().unwrap();
                stream_synchronize(Some(stream)).unwrap();
            } else {
                comm::collective(comm, &first, None).unwrap();
                comm::collective(other, &queued, None).unwrap();
                comm::collective(other, &second, None).unwrap();
            }
            assert!(data.iter().flatten().all(|&x| x == 1), "{size}");
        }
        stream_destroy(stream).unwrap();
        comm::destroy(other).unwrap();
    });
}

#[test]
fn an_abort_of_one_communicator_of_a_queued_group_leaves_the_others_to_it() {
    let asked = Barrier::new(2);
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let mut data = [(); 2].map(|()| vec![rank; 100]);
        let [lost, made] = data.each_mut().map(|data| sum(data));
        if rank == 0 {
            let stream = stream_create().unwrap();
            comm::group_start().unwrap();
            comm::collective(other, &lost, Some(stream)).unwrap();
            comm::collective(comm, &made, Some(stream)).unwrap();
            comm::group_end().unwrap();
            for _ in 0..100 {
                assert_eq!(stream_query(Some(stream)).unwrap_err().code, Code::InProgress);
            }
            asked.wait();
            comm::abort(other).unwrap();
            let e = stream_synchronize(Some(stream)).unwrap_err();
            assert!(e.code == Code::RemoteError && e.message.contains("abort"), "{e}");
            stream_destroy(stream).unwrap();
        } else {
            comm::collective(comm, &made, None).unwrap();
            asked.wait();
            comm::abort(other).unwrap();
        }
        assert!(data[1].iter().all(|&x| x == 1));
        comm::collective(comm, &sum(&mut [0; 1]), None).unwrap();
    });
}

#[test]
fn a_thread_that_waits_in_place_makes_no_call_that_is_queued_later() {
    on_ranks(2, |rank, comm| {
        let other = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let stream = stream_create().unwrap();
        let mut data = [(); 2].map(|()| vec![rank; 9]);
        let [first, later] = data.each_mut().map(|data| sum(data));
        if rank == 0 {
            comm::collective(comm, &first, Some(stream)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    // The other thread waits by then, inside the first call.
                    std::thread::sleep(std::time::Duration::from_millis(30));
                    comm::collective(other, &later, Some(stream)).unwrap();
                });
                stream_synchronize(Some(stream)).unwrap();
            });
            // Only now does the other rank make the later call.
            comm::collective(comm, &sum(&mut [0; 1]), None).unwrap();
            stream_synchronize(Some(stream)).unwrap();
        } else {
            std::thread::sleep(std::time::Duration::from_millis(100));
            comm::collective(comm, &first, None).unwrap();
            comm::collective(comm, &sum(&mut [0; 1]), None).unwrap();
            comm::collective(other, &later, None).unwrap();
        }
        assert!(data.iter().flatten().all(|&x| x == 1));
        stream_destroy(stream).unwrap();
        comm::destroy(other).unwrap();
    });
}

#[test]
fn a_transfer_that_was_left_under_way_ends_when_its_peer_is_gone() {
    let comms = comm::init_all(2).unwrap();
    let stream = stream_create().unwrap();
    let mut data = [0u32];
    comm::transfer(comms[0], &transfer(false, &mut data, 1), Some(stream)).unwrap();
    assert_eq!(stream_query(Some(stream)).unwrap_err().code, Code::InProgress);
    comm::destroy(comms[1]).unwrap();
    // BOUND: without the news the call's own deadline, ten minutes.
    let e = loop {
        match stream_query(Some(stream)).unwrap_err() {
            e if e.code == Code::InProgress => std::thread::yield_now(),
            e => break e,
        }
    };
    assert!(e.code == Code::RemoteError && e.message.contains("rank 1 "), "{e}");
    stream_destroy(stream).unwrap();
    let _ = comm::destroy(comms[0]);
}
