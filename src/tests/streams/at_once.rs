//! Small collectives on idle streams, which are made by the thread that queues them.

use crate::comm::{self, Call, CommHandle, StreamHandle};
use crate::error::Code;
use crate::memory::view::Address;
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
