//! Calls on streams, and the end of their communicator.

use super::*;

#[test]
fn a_call_on_a_finalized_communicator_is_refused_when_it_is_queued() {
    let ranks = comm::init_all(2).unwrap();
    let streams = [0; 2].map(|_| comm::stream_create().unwrap());
    let mut data = [[1], [2]];
    let queue = |data: &mut [[u32; 1]; 2]| {
        comm::group_start().unwrap();
        let queued = ranks.iter().zip(streams).zip(data);
        queued.for_each(|((&rank, on), data)| comm::collective(rank, &sum(data), Some(on)).unwrap());
        comm::group_end()
    };
    queue(&mut data).unwrap();
    // What was queued before is made.
    ranks.iter().for_each(|&rank| comm::finalize(rank).unwrap());
    assert_eq!(data, [[3], [3]]);
    let refused = [comm::collective(ranks[0], &sum(&mut data[0]), Some(streams[0])), queue(&mut data)];
    for told in refused.map(Result::unwrap_err) {
        assert!(told.code == Code::InvalidUsage && told.message.contains("finalized"), "{told}");
    }
    // The streams know nothing of it.
    streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
    ranks.into_iter().for_each(|rank| comm::destroy(rank).unwrap());
}

#[test]
fn who_destroys_a_communicator_waits_for_its_calls_on_streams() {
    on_ranks(2, |rank, comm| {
        let child = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let stream = stream_create().unwrap();
        let mut data = [rank + 1; 100];
        let go = held(stream);
        comm::collective(child, &sum(&mut data), Some(stream)).unwrap();
        drop(go);
        comm::destroy(child).unwrap();
        assert_eq!(data, [3; 100]);
        stream_destroy(stream).unwrap();
    });
}

#[test]
fn an_abort_ends_what_is_queued() {
    on_ranks(2, |rank, comm| {
        let child = comm::split(comm, Some(0), rank as i32, None).unwrap().unwrap();
        let stream = stream_create().unwrap();
        let mut data = [[1; 100]; 3];
        if rank == 0 {
            // Rank 1 makes none of these calls.
            data.iter_mut().for_each(|data| comm::collective(child, &sum(data), Some(stream)).unwrap());
        }
        comm::abort(child).unwrap();
        let ended = stream_destroy(stream);
        assert_eq!(ended.is_err(), rank == 0, "{ended:?}");
    });
}
