//! One thread that calls for several ranks of a declared machine.

use super::address;
use crate::comm::{self, Call, CommHandle, Config, RecordingHandle, StreamHandle};
use crate::types::{Collective, DataType, RedOp};

/// Joins `n` ranks of a machine by this thread.
fn join(n: i32) -> Vec<CommHandle> {
    let id = comm::unique_id().unwrap();
    let config = Config {
        timeout_ms: Some(20_000),
        fabric: Some("dgx-h100".into()),
        fabric_clock: Some("virtual".into()),
        fabric_grace: Some("0".into()),
        ..Config::default()
    };
    comm::group_start().unwrap();
    let ranks = (0..n).map(|rank| comm::init_rank(n, &id, rank, &config).unwrap()).collect();
    comm::group_end().unwrap();
    ranks
}

/// The sum of one word a rank.
fn sum(comm: CommHandle, word: &mut [u32], into: &mut [u32], stream: Option<StreamHandle>) {
    let call = Call {
        collective: Collective::AllReduce,
        send: address(word),
        recv: address(into),
        count: 1,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    comm::collective(comm, &call, stream).unwrap();
}

/// A group of calls of both ranks comes first, made by `warm_up`; then this thread launches a recording of each rank, repeatedly.
fn launches(warm_up: impl Fn(&mut (dyn FnMut() + Send)), warm_up_on_streams: bool) {
    let ranks = join(2);
    let streams: Vec<StreamHandle> = ranks.iter().map(|_| comm::stream_create().unwrap()).collect();
    let (mut words, mut sums) = ([[1], [2]], [[0], [0]]);
    warm_up(&mut || {
        comm::group_start().unwrap();
        for rank in 0..2 {
            let stream = warm_up_on_streams.then_some(streams[rank]);
            sum(ranks[rank], &mut words[rank], &mut sums[rank], stream);
        }
        comm::group_end().unwrap();
        streams.iter().for_each(|&stream| comm::stream_synchronize(Some(stream)).unwrap());
    });
    let recordings: Vec<RecordingHandle> = (0..2)
        .map(|rank| {
            comm::record_start().unwrap();
            sum(ranks[rank], &mut words[rank], &mut sums[rank], None);
            comm::record_end().unwrap()
        })
        .collect();
    for round in 0..20 {
        sums = [[0], [0]];
        for rank in 0..2 {
            // Both ranks are behind each other once.
            let rank = (rank + round) % 2;
            comm::recording_launch(recordings[rank], Some(streams[rank])).unwrap();
        }
        streams.iter().for_each(|&stream| comm::stream_synchronize(Some(stream)).unwrap());
        assert_eq!(sums, [[3], [3]], "round {round}");
    }
    let clocks: Vec<u64> = ranks.iter().map(|&comm| comm::fabric_now(comm).unwrap()).collect();
    assert_eq!(clocks[0], clocks[1]);
    recordings.into_iter().for_each(|recording| comm::recording_destroy(recording).unwrap());
    streams.into_iter().for_each(|stream| comm::stream_destroy(stream).unwrap());
    comm::group_start().unwrap();
    ranks.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
    comm::group_end().unwrap();
}

#[test]
fn one_threads_launches_for_several_ranks_are_all_queued_before_any_is_waited_for() {
    launches(|group| group(), true);
    launches(|group| group(), false);
    // Another thread has called for both, and this one calls for the first time.
    launches(|group| std::thread::scope(|scope| scope.spawn(group).join().unwrap()), true);
}
