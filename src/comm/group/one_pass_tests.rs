use crate::comm::calls::collective::Call;
use crate::comm::{
    self, CommHandle, StreamHandle, registry, stream_create, stream_destroy, stream_host_function,
    stream_synchronize,
};
use crate::error::Result;
use crate::kernels;
use crate::memory::view::Address;
use crate::types::{Collective, DataType, RedOp};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[allow(unsafe_code)]
fn address(buffer: &mut [u8]) -> Address<'static> {
    // SAFETY: every test ends its calls before it lets go of the buffer.
    unsafe { Address::from_raw(buffer.as_mut_ptr()) }
}

fn all_reduce(
    [send, recv]: [Address<'static>; 2],
    count: usize,
    dtype: DataType,
    op: RedOp,
) -> Call<'static> {
    Call { collective: Collective::AllReduce, send, recv, count, dtype, op, root: 0, padded: false }
}

/// Input and output of each rank. In place the input is the output.
struct Buffers {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Buffers {
    /// Bytes that differ by rank, and are floats of ordinary size in every type.
    fn new(ranks: usize, bytes: usize) -> Buffers {
        let byte = |rank: usize, at: usize| (rank * 41 + at * 7 + at / 251) as u8 & 0x3f;
        let inputs = (0..ranks).map(|rank| (0..bytes).map(|at| byte(rank, at)).collect()).collect();
        Buffers { inputs, outputs: vec![vec![0; bytes]; ranks] }
    }

    fn of(&mut self, rank: usize, in_place: bool) -> [Address<'static>; 2] {
        match in_place {
            true => [address(&mut self.outputs[rank]); 2],
            false => [address(&mut self.inputs[rank]), address(&mut self.outputs[rank])],
        }
    }
}

/// Makes the call of each rank by a thread of its own.
fn by_threads(comms: &[CommHandle], calls: &[Call<'static>]) {
    std::thread::scope(|scope| {
        for (comm, call) in comms.iter().zip(calls) {
            scope.spawn(|| comm::collective(*comm, call, None).unwrap());
        }
    });
}

fn in_a_group(comms: &[CommHandle], calls: &[Call<'static>]) -> Result<()> {
    comm::group_start()?;
    for (comm, call) in comms.iter().zip(calls) {
        comm::collective(*comm, call, None)?;
    }
    comm::group_end()
}

/// Queues the call of each rank on its stream, all in a group.
fn queue_group(comms: &[CommHandle], calls: &[Call<'static>], streams: &[StreamHandle]) {
    comm::group_start().unwrap();
    for ((comm, call), stream) in comms.iter().zip(calls).zip(streams) {
        comm::collective(*comm, call, Some(*stream)).unwrap();
    }
    comm::group_end().unwrap();
}

/// Returns the number of the last call of a rank that its peers know of.
fn number(comm: CommHandle) -> u64 {
    registry::enter(comm, |c| Ok(c.seq)).unwrap()
}

fn counted(comm: CommHandle, collective: Collective) -> u64 {
    let transport = registry::shared(comm).unwrap().transport.clone();
    let counted = transport.control().counted(transport.rank()).unwrap();
    counted.collectives[collective as usize].number
}

/// Elements of a rank's input and output, and where the input lies in the output of a call in place.
fn extents(collective: Collective, n: usize, rank: usize, count: usize) -> (usize, usize, isize) {
    match collective {
        Collective::AllGather => (count, n * count, (rank * count) as isize),
        Collective::ReduceScatter => (n * count, count, -((rank * count) as isize)),
        _ => (count, count, 0),
    }
}

/// The calls of all ranks.
fn calls_of(
    buffers: &mut [Vec<u8>],
    collective: Collective,
    count: usize,
    (dtype, op): (DataType, RedOp),
    root: i32,
    in_place: bool,
) -> Vec<Call<'static>> {
    let (n, size) = (buffers.len(), dtype.size());
    let of_rank = |(rank, buffer): (usize, &mut Vec<u8>)| {
        let (input, output, at) = extents(collective, n, rank, count);
        let longest = input.max(output) * size;
        // Out of place the output comes behind the input.
        let (send, recv) = match (in_place, at) {
            (false, _) => (0, longest),
            (true, 0..) => (at as usize * size, 0),
            (true, _) => (0, at.unsigned_abs() * size),
        };
        let [send, recv] = [send, recv].map(|from| address(&mut buffer[from..]));
        Call { collective, send, recv, count, dtype, op, root, padded: false }
    };
    buffers.iter_mut().enumerate().map(of_rank).collect()
}

#[test]
fn one_pass_has_the_bits_of_ranks_that_have_threads_of_their_own() {
    let types = [
        (DataType::Float32, RedOp::Sum),
        (DataType::Float32, RedOp::Avg),
        (DataType::Bfloat16, RedOp::Sum),
        (DataType::Int8, RedOp::Avg),
        (DataType::Float64, RedOp::Max),
    ];
    let collectives = [
        Collective::AllReduce,
        Collective::Reduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Broadcast,
    ];
    for n in [2, 3, 8] {
        let comms = comm::init_all(n as i32).unwrap();
        for (collective, kind) in collectives.into_iter().flat_map(|c| types.map(|kind| (c, kind))) {
            let root = n as i32 - 1;
            for (count, in_place) in [(1, false), (2, true), (999, true), (20_001, false), (70_003, true)] {
                let (input, output, _) = extents(collective, n, 0, count);
                let bytes = input.max(output) * kind.0.size();
                // Bytes that differ by rank, and are floats of ordinary size in every type.
                let byte = |rank: usize, at: usize| (rank * 41 + at * 7 + at / 251) as u8 & 0x3f;
                let fresh = || -> Vec<Vec<u8>> {
                    (0..n).map(|rank| (0..2 * bytes).map(|at| byte(rank, at)).collect()).collect()
                };
                let (mut expected, mut found) = (fresh(), fresh());
                let calls =
                    |buffers: &mut [Vec<u8>]| calls_of(buffers, collective, count, kind, root, in_place);
                by_threads(&comms, &calls(&mut expected));
                let before = (number(comms[0]), counted(comms[n - 1], collective));
                in_a_group(&comms, &calls(&mut found)).unwrap();
                let case = format!("{} of {n} ranks, {count} of {}, {}", collective.name(), kind.0, kind.1);
                assert!(found == expected, "{case}");
                let is_one_pass = number(comms[0]) == before.0;
                let may_fold_otherwise = collective.reduces() && bytes > 4 << 10;
                let is_large = bytes.saturating_mul(n) > 1 << 20;
                assert!(is_one_pass || may_fold_otherwise || is_large, "{case}: calls of their own");
                assert_eq!(counted(comms[n - 1], collective), before.1 + 1, "{case}");
            }
        }
        comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
    }
}

#[test]
fn ranks_that_disagree_or_share_memory_or_are_not_all_there_take_the_usual_way() {
    let comms = comm::init_all(3).unwrap();
    let mut buffers = Buffers::new(3, 400);
    let calls: Vec<_> =
        (0..3).map(|rank| all_reduce(buffers.of(rank, false), 100, DataType::Uint32, RedOp::Sum)).collect();
    by_threads(&comms, &calls);
    in_a_group(&comms, &calls).unwrap();
    assert_eq!(number(comms[0]), 1);

    // One buffer is all ranks' input: it is only read.
    let one_input: Vec<_> = calls.iter().map(|call| Call { send: calls[0].send, ..*call }).collect();
    in_a_group(&comms, &one_input).unwrap();
    assert_eq!(number(comms[0]), 1);
    // A rank's output is another's input.
    let shared: Vec<_> = calls.iter().map(|call| Call { send: calls[0].recv, ..*call }).collect();
    in_a_group(&comms, &shared).unwrap();
    assert_eq!(number(comms[0]), 2);

    std::thread::scope(|scope| {
        scope.spawn(|| comm::collective(comms[2], &calls[2], None).unwrap());
        in_a_group(&comms[..2], &calls[..2]).unwrap();
    });
    assert_eq!(number(comms[0]), 3);

    let mut odd = calls.clone();
    odd[1].count = 99;
    // At the second time each rank's call is like its last one.
    for _ in 0..2 {
        let told = in_a_group(&comms, &odd).unwrap_err();
        assert!(told.message.contains("count"), "{told}");
    }
    comms.into_iter().for_each(|comm| comm::abort(comm).unwrap());
}

#[test]
fn a_group_on_streams_waits_for_what_is_queued_before_it_on_any_of_them() {
    const COUNT: usize = 100_000;
    let comms = comm::init_all(2).unwrap();
    let streams = [0; 2].map(|_| stream_create().unwrap());
    let mut buffers = Buffers::new(2, COUNT * 4);
    let calls: Vec<_> =
        (0..2).map(|rank| all_reduce(buffers.of(rank, false), COUNT, DataType::Uint32, RedOp::Max)).collect();
    let group = || queue_group(&comms, &calls, &streams);
    let settle = || streams.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
    // The first calls are those that later ones are like.
    group();
    settle();
    let before = number(comms[0]);
    let (let_go, held) = mpsc::channel::<()>();
    let late = calls[1].send;
    stream_host_function(Some(streams[1]), move || {
        held.recv().unwrap();
        kernels::put_bits(late.view(4), u64::MAX);
    })
    .unwrap();
    group();
    // The other stream waits for the call's result, which is not there.
    assert!(comm::stream_query(Some(streams[0])).is_err());
    let_go.send(()).unwrap();
    settle();
    assert_eq!(number(comms[0]), before);
    assert!(buffers.outputs.iter().all(|output| output[..4] == [0xff; 4]));
    assert_eq!(buffers.outputs[0], buffers.outputs[1]);
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn the_root_of_a_broadcast_on_streams_waits_for_no_other_rank() {
    let comms = comm::init_all(2).unwrap();
    let streams = [0; 2].map(|_| stream_create().unwrap());
    let mut buffers = vec![vec![7; 64], vec![0; 64]];
    let kind = (DataType::Uint8, RedOp::Sum);
    let calls = calls_of(&mut buffers, Collective::Broadcast, 32, kind, 0, false);
    by_threads(&comms, &calls);
    let (let_go, held) = mpsc::channel::<()>();
    stream_host_function(Some(streams[1]), move || held.recv().unwrap()).unwrap();
    queue_group(&comms, &calls, &streams);
    let until = Instant::now() + Duration::from_secs(60);
    while comm::stream_query(Some(streams[0])).is_err() && Instant::now() < until {
        std::thread::yield_now();
    }
    let is_over = comm::stream_query(Some(streams[0])).is_ok();
    let_go.send(()).unwrap();
    streams.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
    assert!(is_over, "the root waits for the other rank's stream");
    assert_eq!(buffers[1][32..], [7; 32]);
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

#[test]
fn an_abort_before_the_turn_of_a_group_on_streams_ends_it() {
    let comms = comm::init_all(2).unwrap();
    let streams = [0; 2].map(|_| stream_create().unwrap());
    let mut buffers = Buffers::new(2, 256 << 10);
    let calls: Vec<_> = (0..2)
        .map(|rank| all_reduce(buffers.of(rank, true), 64 << 10, DataType::Uint32, RedOp::Sum))
        .collect();
    by_threads(&comms, &calls);
    let (let_go, held) = mpsc::channel::<()>();
    stream_host_function(Some(streams[0]), move || held.recv().unwrap()).unwrap();
    queue_group(&comms, &calls, &streams);
    comm::abort(comms[1]).unwrap();
    let_go.send(()).unwrap();
    for stream in streams {
        let told = stream_synchronize(Some(stream)).unwrap_err();
        assert!(told.message.contains("abort"), "{told}");
        let _ = stream_destroy(stream);
    }
    comm::abort(comms[0]).unwrap();
}
