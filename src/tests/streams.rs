//! Calls on streams, ranks as threads.
#![allow(unsafe_code)]

mod at_once;
mod ended;
mod helped;
mod progress;
mod small_parts;
mod transfers;

use super::collectives::on_ranks;
use crate::comm::{
    self, Call, StreamHandle, Transfer, event_create, event_destroy, event_elapsed_ms, event_query,
    event_record, event_synchronize, stream_create, stream_destroy, stream_host_function, stream_query,
    stream_synchronize, stream_wait_event,
};
use crate::error::Code;
use crate::memory::view::Address;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::sync::{Arc, Mutex, mpsc};

fn address(buffer: &mut [u32]) -> Address<'static> {
    // SAFETY: every test waits for its calls before it lets go of what they use.
    unsafe { Address::from_raw(buffer.as_mut_ptr().cast()) }
}

fn sum(buffer: &mut [u32]) -> Call<'static> {
    let (count, buffer) = (buffer.len(), address(buffer));
    Call {
        collective: Collective::AllReduce,
        send: buffer,
        recv: buffer,
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    }
}

fn transfer(send: bool, buffer: &mut [u32], peer: Rank) -> Transfer<'static> {
    let (count, buffer) = (buffer.len(), address(buffer));
    Transfer { send, buffer, count, dtype: DataType::Uint32, peer: peer as i32, of_collective: false }
}

/// A stream that waits until the sender says so, or is dropped.
fn held(stream: StreamHandle) -> mpsc::Sender<()> {
    let (go, come) = mpsc::channel::<()>();
    stream_host_function(Some(stream), move || {
        let _ = come.recv();
    })
    .unwrap();
    go
}

#[test]
fn a_call_on_a_stream_returns_before_it_is_made() {
    on_ranks(3, |rank, comm| {
        let stream = stream_create().unwrap();
        let event = event_create().unwrap();
        event_query(event).unwrap();
        let go = held(stream);
        let mut data = [rank + 1; 1000];
        comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
        event_record(event, Some(stream)).unwrap();
        assert_eq!(stream_query(Some(stream)).unwrap_err().code, Code::InProgress);
        assert_eq!(event_query(event).unwrap_err().code, Code::InProgress);
        assert_eq!(data, [rank + 1; 1000]);
        drop(go);
        event_synchronize(event).unwrap();
        assert_eq!(data, [6; 1000]);
        stream_query(Some(stream)).unwrap();
        stream_destroy(stream).unwrap();
        event_destroy(event).unwrap();
    });
}

#[test]
fn a_communicators_calls_keep_their_order_over_streams_and_without() {
    on_ranks(2, |rank, comm| {
        let streams = [0; 3].map(|_| stream_create().unwrap());
        let go = held(streams[0]);
        let mut data = [rank + 1; 10];
        for stream in streams {
            comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
        }
        // Rank 0 lets the first stream go on only now: the others had the time to overtake it.
        if rank == 0 {
            std::thread::yield_now();
        }
        drop(go);
        comm::collective(comm, &sum(&mut data), None).unwrap();
        assert_eq!(data, [3 * 2 * 2 * 2; 10]);
        streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    });
}

#[test]
fn streams_wait_for_events_of_others() {
    on_ranks(1, |_, _| {
        let (a, b) = (stream_create().unwrap(), stream_create().unwrap());
        let event = event_create().unwrap();
        stream_wait_event(Some(b), event).unwrap();
        stream_synchronize(Some(b)).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let say = |stream, word| {
            let order = order.clone();
            stream_host_function(Some(stream), move || order.lock().unwrap().push(word)).unwrap();
        };
        let go = held(a);
        say(a, "first");
        event_record(event, Some(a)).unwrap();
        stream_wait_event(Some(b), event).unwrap();
        say(b, "second");
        drop(go);
        stream_synchronize(Some(b)).unwrap();
        assert_eq!(*order.lock().unwrap(), ["first", "second"]);
        stream_destroy(a).unwrap();
        stream_destroy(b).unwrap();
        event_destroy(event).unwrap();
    });
}

#[test]
fn a_group_on_streams_is_one_job_and_all_its_streams_wait_for_it() {
    on_ranks(2, |rank, comm| {
        let (a, b) = (stream_create().unwrap(), stream_create().unwrap());
        let peer = 1 - rank;
        let (mut out, mut into, mut data) = ([rank; 5000], [9; 5000], [rank + 1; 7]);
        let go = held(b);
        comm::group_start().unwrap();
        comm::transfer(comm, &transfer(true, &mut out, peer), Some(a)).unwrap();
        comm::transfer(comm, &transfer(false, &mut into, peer), Some(b)).unwrap();
        comm::collective(comm, &sum(&mut data), Some(a)).unwrap();
        comm::group_end().unwrap();
        assert_eq!(stream_query(Some(a)).unwrap_err().code, Code::InProgress);
        assert_eq!(into, [9; 5000]);
        drop(go);
        stream_synchronize(Some(b)).unwrap();
        assert_eq!((into, data), ([peer; 5000], [3; 7]));
        // With a call of the caller's own it is over when the group is closed.
        comm::group_start().unwrap();
        comm::collective(comm, &sum(&mut data), Some(a)).unwrap();
        comm::collective(comm, &sum(&mut data), None).unwrap();
        comm::group_end().unwrap();
        assert_eq!(data, [12; 7]);
        stream_destroy(a).unwrap();
        stream_destroy(b).unwrap();
    });
}

#[test]
fn a_failure_is_told_by_the_event_after_it_and_at_synchronisation_once() {
    on_ranks(2, |rank, comm| {
        let stream = stream_create().unwrap();
        let events = [0; 3].map(|_| event_create().unwrap());
        let mut data = [1; 4];
        for (event, count) in events.into_iter().zip([4, 3 + rank as usize, 4]) {
            comm::collective(comm, &sum(&mut data[..count]), Some(stream)).unwrap();
            event_record(event, Some(stream)).unwrap();
        }
        event_synchronize(events[0]).unwrap();
        let failure = event_synchronize(events[1]).unwrap_err();
        assert_eq!(failure.code, Code::InvalidUsage);
        assert!(failure.message.starts_with("all_reduce on a stream: ranks disagree"), "{failure}");
        event_synchronize(events[2]).unwrap();
        assert_eq!(event_query(events[1]).unwrap_err(), failure);
        assert_eq!(comm::state(comm).unwrap().unwrap_err(), failure);
        assert_eq!(comm::state(comm).unwrap().unwrap_err(), failure, "it is told again");
        assert_eq!(stream_synchronize(Some(stream)).unwrap_err(), failure);
        stream_synchronize(Some(stream)).unwrap();
        assert_eq!(data, [4; 4]);
        events.into_iter().for_each(|event| event_destroy(event).unwrap());
        stream_destroy(stream).unwrap();
    });
}

#[test]
fn wrong_arguments_are_refused_when_the_call_is_queued() {
    on_ranks(1, |_, comm| {
        let stream = stream_create().unwrap();
        let mut data = [1; 4];
        let wrong = Call { root: 7, collective: Collective::Broadcast, ..sum(&mut data) };
        assert!(comm::collective(comm, &wrong, Some(stream)).unwrap_err().message.contains("root 7"));
        stream_synchronize(Some(stream)).unwrap();
        stream_destroy(stream).unwrap();
        let gone = comm::collective(comm, &sum(&mut data), Some(stream)).unwrap_err();
        assert!(gone.message.contains("not a live stream"), "{gone}");
        assert!(stream_destroy(stream).unwrap_err().message.contains("not a live stream"));
        let event = event_create().unwrap();
        assert!(event_elapsed_ms(event, event).unwrap_err().message.contains("start was never recorded"));
        event_record(event, None).unwrap();
        assert_eq!(event_elapsed_ms(event, event), Ok(0.0));
        event_destroy(event).unwrap();
        assert!(event_record(event, None).unwrap_err().message.contains("not a live event"));
    });
}

#[test]
fn a_streams_own_thread_may_not_wait_for_itself() {
    on_ranks(1, |_, comm| {
        let stream = stream_create().unwrap();
        let mut data = vec![1; 4];
        let go = held(stream);
        let (tell, told) = mpsc::channel();
        stream_host_function(Some(stream), move || {
            let mut own = [1; 4];
            let ended = [
                stream_synchronize(Some(stream)),
                stream_destroy(stream),
                comm::collective(comm, &sum(&mut own), None),
            ];
            tell.send(ended).unwrap();
        })
        .unwrap();
        comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
        drop(go);
        for ended in told.recv().unwrap() {
            assert!(ended.unwrap_err().message.contains("may not wait for streams"));
        }
        stream_destroy(stream).unwrap();
    });
}

#[test]
fn a_function_that_panics_is_a_failure_of_its_stream() {
    let stream = stream_create().unwrap();
    stream_host_function(Some(stream), || panic!("planted")).unwrap();
    assert!(stream_synchronize(Some(stream)).unwrap_err().message.contains("panicked"));
    stream_destroy(stream).unwrap();
}

#[test]
fn many_streams_over_two_communicators_end() {
    const ROUNDS: usize = 300;
    on_ranks(2, |rank, comm| {
        let child = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let streams = [0; 4].map(|_| stream_create().unwrap());
        let mut data = vec![[1; 8]; ROUNDS];
        for (round, data) in data.iter_mut().enumerate() {
            // The same order on both ranks, on streams that are not.
            let stream = streams[(round * (3 + rank as usize * 2)) % 4];
            comm::collective([comm, child][round % 2], &sum(data), Some(stream)).unwrap();
        }
        streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
        assert!(data.iter().all(|data| *data == [2; 8]));
        comm::destroy(child).unwrap();
    });
}

#[test]
fn an_event_that_is_recorded_again_is_waited_for_as_it_was() {
    let streams = [0; 3].map(|_| stream_create().unwrap());
    let event = event_create().unwrap();
    let go = held(streams[0]);
    event_record(event, Some(streams[0])).unwrap();
    stream_wait_event(Some(streams[1]), event).unwrap();
    event_record(event, Some(streams[2])).unwrap();
    event_synchronize(event).unwrap();
    assert_eq!(stream_query(Some(streams[1])).unwrap_err().code, Code::InProgress);
    drop(go);
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    event_destroy(event).unwrap();
}

#[test]
fn a_groups_failure_is_told_on_all_its_streams_and_hides_no_other() {
    on_ranks(2, |rank, comm| {
        let (a, b) = (stream_create().unwrap(), stream_create().unwrap());
        let event = event_create().unwrap();
        let mut data = [1; 4];
        let mut grouped = |count, streams: [Option<StreamHandle>; 2]| {
            comm::group_start().unwrap();
            for stream in streams {
                comm::collective(comm, &sum(&mut data[..count]), stream).unwrap();
            }
            comm::group_end()
        };
        let disagree = 3 + rank as usize;
        grouped(disagree, [Some(a), Some(b)]).unwrap();
        grouped(4, [Some(a), Some(b)]).unwrap();
        for stream in [a, b] {
            event_record(event, Some(stream)).unwrap();
            assert!(event_synchronize(event).unwrap_err().message.contains("group of calls on a stream"));
        }
        // The caller of a good group is not told of what failed before it.
        grouped(disagree, [Some(a), Some(a)]).unwrap();
        grouped(4, [Some(a), None]).unwrap();
        assert!(grouped(disagree, [Some(a), None]).unwrap_err().message.contains("ranks disagree"));
        for stream in [a, b] {
            assert!(stream_destroy(stream).unwrap_err().message.contains("ranks disagree"));
        }
        event_destroy(event).unwrap();
    });
}

#[test]
fn what_is_queued_waits_for_a_thread_that_is_inside() {
    let is_inside = std::sync::Barrier::new(2);
    on_ranks(2, |rank, comm| {
        let stream = stream_create().unwrap();
        let (mut token, mut data) = ([rank; 1], [rank + 1; 4]);
        if rank == 0 {
            std::thread::scope(|scope| {
                let transfer = transfer(false, &mut token, 1);
                // Both try until the one is inside: then another call without a stream is refused.
                let inside = scope.spawn(move || while comm::transfer(comm, &transfer, None).is_err() {});
                let call = Call { collective: Collective::AllReduce, count: 0, ..sum(&mut data) };
                while comm::collective(comm, &call, None).is_ok() {
                    std::thread::yield_now();
                }
                comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
                is_inside.wait();
                inside.join().unwrap();
            });
        } else {
            is_inside.wait();
            comm::transfer(comm, &transfer(true, &mut token, 0), None).unwrap();
            comm::collective(comm, &sum(&mut data), Some(stream)).unwrap();
        }
        stream_destroy(stream).unwrap();
        assert_eq!((token, data), ([1], [3; 4]));
    });
}

#[test]
fn nothing_is_lost_when_a_stream_is_destroyed_while_a_thread_queues_on_it() {
    on_ranks(1, |_, comm| {
        for _ in 0..50 {
            let stream = stream_create().unwrap();
            let mut data = [1; 4];
            let call = sum(&mut data);
            std::thread::scope(|scope| {
                let queuing =
                    scope.spawn(move || while comm::collective(comm, &call, Some(stream)).is_ok() {});
                std::thread::yield_now();
                stream_destroy(stream).unwrap();
                queuing.join().unwrap();
            });
            // It would wait for a turn that never comes.
            comm::collective(comm, &call, None).unwrap();
        }
    });
}

#[test]
fn who_waits_for_its_turn_is_told_of_an_abort() {
    on_ranks(1, |_, comm| {
        let child = comm::split(comm, Some(0), 0, None).unwrap().unwrap();
        let stream = stream_create().unwrap();
        let mut data = [1; 4];
        let go = held(stream);
        comm::collective(child, &sum(&mut data), Some(stream)).unwrap();
        std::thread::scope(|scope| {
            let call = sum(&mut data);
            let waiting = scope.spawn(move || comm::collective(child, &call, None));
            std::thread::yield_now();
            comm::abort(child).unwrap();
            assert!(waiting.join().unwrap().is_err());
        });
        drop(go);
        let told = stream_destroy(stream).unwrap_err().message.clone();
        assert!(told.contains("aborted while the call was queued"), "{told}");
    });
}
