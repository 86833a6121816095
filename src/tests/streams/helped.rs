//! Workers that help a thread which waits for the streams of several ranks.

use super::sum;
use crate::comm::{self, stream_create, stream_destroy, stream_query, stream_synchronize};
use crate::error::Code;

/// A thread of several ranks queues large calls, and destroys its streams as soon as they are over, when a helper may still be there.
#[test]
fn a_helper_ends_with_its_stream() {
    let comms = comm::init_all(3).unwrap();
    for round in 0..20u32 {
        let streams: Vec<_> = comms.iter().map(|_| stream_create().unwrap()).collect();
        for size in [20_000, 9, 60_000] {
            let mut data: Vec<_> = (0..3).map(|rank| vec![rank + round; size]).collect();
            for call in 0..6 {
                comm::group_start().unwrap();
                for ((comm, stream), data) in comms.iter().zip(&streams).zip(&mut data) {
                    comm::collective(*comm, &sum(data), Some(*stream)).unwrap();
                }
                comm::group_end().unwrap();
                if call == 3 {
                    stream_synchronize(Some(streams[1])).unwrap();
                }
            }
            for stream in &streams {
                // BOUND: the calls' own deadlines.
                while stream_query(Some(*stream)).is_err_and(|e| e.code == Code::InProgress) {}
            }
            let sum = (3 + 3 * round) * 3u32.pow(5);
            assert!(data.iter().flatten().all(|&x| x == sum), "round {round}, {size}");
        }
        streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    }
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn a_function_of_the_program_is_called_by_its_own_streams_thread_though_another_helps() {
    let comms = comm::init_all(2).unwrap();
    let streams = [0; 2].map(|_| stream_create().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut data: Vec<_> = (0..2).map(|rank| vec![rank; 50_000]).collect();
    for _ in 0..100 {
        comm::group_start().unwrap();
        for i in 0..2 {
            comm::collective(comms[i], &sum(&mut data[i]), Some(streams[i])).unwrap();
        }
        comm::group_end().unwrap();
        for (i, stream) in streams.iter().enumerate() {
            let sender = sender.clone();
            let told = move || sender.send((i, std::thread::current().id())).unwrap();
            comm::stream_host_function(Some(*stream), told).unwrap();
        }
        for stream in streams {
            // BOUND: the calls' own deadlines.
            while stream_query(Some(stream)).is_err_and(|e| e.code == Code::InProgress) {}
        }
    }
    let mut callers = [None; 2];
    for (i, thread) in receiver.try_iter() {
        assert_eq!(*callers[i].get_or_insert(thread), thread, "stream {i}");
    }
    assert!(callers[0].is_some() && callers[1].is_some() && callers[0] != callers[1]);
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}
