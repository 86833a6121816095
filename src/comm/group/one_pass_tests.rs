use crate::comm::calls::collective::Call;
use crate::comm::{
    self, CommHandle, registry, stream_create, stream_destroy, stream_host_function, stream_synchronize,
};
use crate::error::Result;
use crate::kernels;
use crate::memory::view::Address;
use crate::types::{Collective, DataType, RedOp};
use std::sync::mpsc;

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

    fn begin(&mut self, in_place: bool) {
        if in_place {
            self.outputs.clone_from(&self.inputs);
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

/// Returns the number of the last call of a rank that its peers know of.
fn number(comm: CommHandle) -> u64 {
    registry::enter(comm, |c| Ok(c.seq)).unwrap()
}

fn counted(comm: CommHandle) -> u64 {
    let transport = registry::shared(comm).unwrap().transport.clone();
    let counted = transport.control().counted(transport.rank()).unwrap();
    counted.collectives[Collective::AllReduce as usize].number
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
    for n in [2, 3, 8] {
        let comms = comm::init_all(n as i32).unwrap();
        for (dtype, op) in types {
            for (count, in_place) in [(1, false), (2, true), (999, true), (20_001, false), (70_003, true)] {
                let bytes = count * dtype.size();
                let (mut expected, mut found) = (Buffers::new(n, bytes), Buffers::new(n, bytes));
                let calls = |buffers: &mut Buffers| -> Vec<_> {
                    buffers.begin(in_place);
                    (0..n).map(|rank| all_reduce(buffers.of(rank, in_place), count, dtype, op)).collect()
                };
                by_threads(&comms, &calls(&mut expected));
                let before = (number(comms[0]), counted(comms[n - 1]));
                in_a_group(&comms, &calls(&mut found)).unwrap();
                assert!(found.outputs == expected.outputs, "{n} ranks, {count} of {dtype}, {op}");
                let is_one_pass = number(comms[0]) == before.0;
                assert!(is_one_pass || bytes > 64 << 10, "{n} ranks, {bytes} bytes: calls of their own");
                assert_eq!(counted(comms[n - 1]), before.1 + 1);
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
    let group = || {
        comm::group_start().unwrap();
        for i in 0..2 {
            comm::collective(comms[i], &calls[i], Some(streams[i])).unwrap();
        }
        comm::group_end().unwrap();
    };
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
    comm::group_start().unwrap();
    for i in 0..2 {
        comm::collective(comms[i], &calls[i], Some(streams[i])).unwrap();
    }
    comm::group_end().unwrap();
    comm::abort(comms[1]).unwrap();
    let_go.send(()).unwrap();
    for stream in streams {
        let told = stream_synchronize(Some(stream)).unwrap_err();
        assert!(told.message.contains("abort"), "{told}");
        let _ = stream_destroy(stream);
    }
    comm::abort(comms[0]).unwrap();
}
