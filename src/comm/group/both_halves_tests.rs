use crate::comm::calls::point_to_point::Transfer;
use crate::comm::{
    self, CommHandle, StreamHandle, registry, stream_create, stream_destroy, stream_host_function,
    stream_synchronize,
};
use crate::error::Result;
use crate::memory::view::Address;
use crate::types::DataType;
use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc;

/// One half of a transfer of bytes: the rank that makes it, and the other.
#[derive(Clone, Copy)]
struct Half {
    rank: usize,
    send: bool,
    peer: usize,
    data: Address<'static>,
    count: usize,
}

#[allow(unsafe_code)]
fn address(buffer: &mut [u8]) -> Address<'static> {
    // SAFETY: every test ends its calls before it lets go of the buffer.
    unsafe { Address::from_raw(buffer.as_mut_ptr()) }
}

fn send(rank: usize, peer: usize, data: &mut [u8]) -> Half {
    Half { rank, send: true, peer, data: address(data), count: data.len() }
}

fn receive(rank: usize, peer: usize, data: &mut [u8]) -> Half {
    Half { send: false, ..send(rank, peer, data) }
}

/// Makes the halves in a group, each on its rank's stream, if there are streams.
fn in_a_group(comms: &[CommHandle], streams: &[StreamHandle], halves: &[Half]) -> Result<()> {
    comm::group_start()?;
    for half in halves {
        let transfer = Transfer {
            send: half.send,
            buffer: half.data,
            count: half.count,
            dtype: DataType::Uint8,
            peer: half.peer as i32,
            of_collective: false,
        };
        comm::transfer(comms[half.rank], &transfer, streams.get(half.rank).copied())?;
    }
    comm::group_end()
}

/// Returns how many messages a rank has begun towards others through its peers' memory; copies are none.
fn begun(comm: CommHandle, nranks: u32) -> u32 {
    let transport = registry::shared(comm).unwrap().transport.clone();
    let pair = |peer| transport.control().pair(peer, transport.rank());
    let begun = |peer| pair(peer).begun[0].load(crate::sync::prim::Ordering::Relaxed);
    (0..nranks).map(|peer| begun(peer) as u32).sum()
}

fn sent(comm: CommHandle) -> u64 {
    let transport = registry::shared(comm).unwrap().transport.clone();
    transport.control().counted(transport.rank()).unwrap().sent.number
}

fn destroy(comms: Vec<CommHandle>, streams: Vec<StreamHandle>) {
    streams.into_iter().for_each(|stream| stream_destroy(stream).unwrap());
    comms.into_iter().for_each(|comm| comm::destroy(comm).unwrap());
}

/// Bytes that tell their rank and their place.
fn filled(rank: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (rank * 59 + at * 7 + at / 251) as u8).collect()
}

/// In a process of its own: where another test has registered memory, which lies at two addresses then, the buffers of eight ranks are too many
/// to compare.
#[test]
fn an_all_to_all_of_one_threads_ranks_is_copied() {
    let played = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "comm::group::both_halves::tests::all_to_alls_of_one_threads_ranks"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "played by the process that another test starts"]
fn all_to_alls_of_one_threads_ranks() {
    for n in [1, 2, 3, 5, 8] {
        let comms = comm::init_all(n as i32).unwrap();
        let streams: Vec<_> = (0..n).map(|_| stream_create().unwrap()).collect();
        for (round, block) in [0, 1, 13, 4096, 10_001].into_iter().enumerate() {
            for streams in [&streams[..], &[]] {
                let mut inputs: Vec<_> = (0..n).map(|rank| filled(rank + round, n * block)).collect();
                let mut outputs = vec![vec![0xee; n * block]; n];
                let mut halves = Vec::new();
                for rank in 0..n {
                    for peer in 0..n {
                        let part = peer * block..(peer + 1) * block;
                        halves.push(send(rank, peer, &mut inputs[rank][part.clone()]));
                        halves.push(receive(rank, peer, &mut outputs[rank][part]));
                    }
                }
                let before = sent(comms[0]);
                in_a_group(&comms, streams, &halves).unwrap();
                streams.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
                assert_eq!(sent(comms[0]), before + n as u64 - 1, "counted as before");
                for (rank, output) in outputs.iter().enumerate() {
                    let expected: Vec<u8> =
                        inputs.iter().flat_map(|input| &input[rank * block..][..block]).copied().collect();
                    assert_eq!(*output, expected, "rank {rank} of {n}, blocks of {block}");
                }
            }
        }
        let through_memory: u32 = comms.iter().map(|comm| begun(*comm, n as u32)).sum();
        assert_eq!(through_memory, 0, "{n} ranks");
        destroy(comms, streams);
    }
}

#[test]
fn several_messages_between_two_ranks_keep_their_order() {
    let comms = comm::init_all(2).unwrap();
    let (mut one, mut two, mut a, mut b) = (vec![1u8; 100], vec![2u8; 100], vec![0u8; 100], vec![0u8; 100]);
    // The receives are named first, and one of another rank between the sends.
    let halves = [receive(1, 0, &mut a), send(0, 1, &mut one), receive(1, 0, &mut b), send(0, 1, &mut two)];
    in_a_group(&comms, &[], &halves).unwrap();
    assert_eq!([a[0], b[99]], [1, 2]);
    assert_eq!(begun(comms[0], 2), 0);
    destroy(comms, Vec::new());
}

#[test]
fn a_message_that_was_sent_before_is_received_first() {
    let comms = comm::init_all(2).unwrap();
    let (mut early, mut late, mut a, mut b) = ([1u8; 8], [2u8; 8], [0u8; 8], [0u8; 8]);
    // A small message is sent when it lies in the receiver's memory.
    in_a_group(&comms, &[], &[send(0, 1, &mut early)]).unwrap();
    in_a_group(&comms, &[], &[send(0, 1, &mut late), receive(1, 0, &mut a)]).unwrap();
    assert_eq!(a, early);
    in_a_group(&comms, &[], &[receive(1, 0, &mut b)]).unwrap();
    assert_eq!(b, late);
    // Now nothing is under way.
    in_a_group(&comms, &[], &[send(0, 1, &mut early), receive(1, 0, &mut b)]).unwrap();
    assert_eq!((b, begun(comms[0], 2)), (early, 2));
    destroy(comms, Vec::new());
}

#[test]
fn halves_that_differ_are_told_and_buffers_that_overlap_are_sent() {
    let comms = comm::init_all(2).unwrap();
    let (mut long, mut short) = ([1u8; 8], [0u8; 4]);
    let told = in_a_group(&comms, &[], &[send(0, 1, &mut long), receive(1, 0, &mut short)]).unwrap_err();
    assert!(told.message.contains("rank 0 sends (count 8") && told.message.contains("(count 4"), "{told}");

    let late = in_a_group(&comms, &[], &[send(0, 1, &mut [0]), receive(1, 0, &mut [0])]).unwrap_err();
    assert!(late.message.contains("an earlier message from rank 0 to rank 1 was refused"), "{late}");

    // The ring of a shift: what rank 0 receives is what it sends.
    let (mut shared, mut other) = ([3u8; 64], [4u8; 64]);
    let ring = |shared: &mut [u8; 64], other: &mut [u8; 64]| {
        [send(0, 1, shared), receive(0, 1, &mut shared[..]), send(1, 0, other), receive(1, 0, &mut other[..])]
    };
    in_a_group(&comms, &[], &ring(&mut shared, &mut other)).unwrap();
    assert_eq!([shared[0], other[0]], [4, 3], "small messages are taken from their buffers first");
    assert!(begun(comms[0], 2) > 0);
    destroy(comms, Vec::new());
}

#[test]
fn a_block_that_a_rank_has_in_its_place_is_no_overlap() {
    let comms = comm::init_all(2).unwrap();
    let mut blocks = [filled(0, 64), vec![0; 64]].concat();
    let mut received = [0u8; 64];
    let (own, other) = blocks.split_at_mut(64);
    other.copy_from_slice(&[9; 64]);
    let halves = [send(0, 0, own), receive(0, 0, own), send(0, 1, other), receive(1, 0, &mut received)];
    in_a_group(&comms, &[], &halves).unwrap();
    assert_eq!((received, &blocks[..64], begun(comms[0], 2)), ([9; 64], &filled(0, 64)[..], 0));
    destroy(comms, Vec::new());
}

#[test]
fn what_was_queued_on_a_stream_before_comes_first() {
    let comms = comm::init_all(2).unwrap();
    let streams: Vec<_> = (0..2).map(|_| stream_create().unwrap()).collect();
    let (mut input, mut output) = ([1u8; 32], [0u8; 32]);
    let at = address(&mut input);
    let (go, may_go) = mpsc::channel::<()>();
    stream_host_function(Some(streams[0]), move || {
        may_go.recv().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: the test waits for the stream before it lets go of the buffer.
        unsafe {
            (at.get() as *mut u8).write_bytes(7, 32);
        }
    })
    .unwrap();
    in_a_group(&comms, &streams, &[send(0, 1, &mut input), receive(1, 0, &mut output)]).unwrap();
    go.send(()).unwrap();
    streams.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
    assert_eq!(output, [7; 32]);
    destroy(comms, streams);
}

/// Numbers that are drawn by a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

/// A message from one rank to another that no receive has taken.
struct Sent {
    bytes: usize,
    first: u8,
}

/// The most messages between two ranks that no receive has taken; small ones do not wait for it.
const MOST_UNDER_WAY: usize = 3;

#[test]
fn drawn_groups_of_one_threads_ranks_receive_what_was_sent_in_its_order() {
    let mut copied = 0;
    for seed in 0..24 {
        let mut draw = Draw(seed * 0x9e37_79b9 + 1);
        let n = 2 + draw.below(3);
        let comms = comm::init_all(n as i32).unwrap();
        let streams: Vec<_> = (0..n).map(|_| stream_create().unwrap()).collect();
        let mut under_way: Vec<VecDeque<Sent>> = (0..n * n).map(|_| VecDeque::new()).collect();
        let mut number = 0u8;
        for _ in 0..40 {
            let mut inputs: Vec<(usize, usize, Vec<u8>)> = Vec::new();
            let mut outputs: Vec<(usize, usize, Vec<u8>, u8)> = Vec::new();
            for (pair, queue) in under_way.iter_mut().enumerate() {
                let (from, to) = (pair / n, pair % n);
                let sends = draw.below(3);
                // Half of the groups receive all that was sent, so that the next may begin anew.
                let left = if from == to || draw.below(2) == 0 {
                    0
                } else {
                    draw.below(MOST_UNDER_WAY + 1).min(queue.len() + sends)
                };
                for at in 0..sends {
                    let is_left = at + left >= sends;
                    let bytes = [0, 1, 40, 5000, 70_000][draw.below(if is_left { 3 } else { 5 })];
                    number = number.wrapping_add(1);
                    queue.push_back(Sent { bytes, first: number });
                    inputs.push((from, to, vec![number; bytes]));
                }
                while queue.len() > left {
                    let Sent { bytes, first } = queue.pop_front().unwrap();
                    outputs.push((from, to, vec![0; bytes], first));
                }
            }
            let sends = inputs.iter_mut().map(|(from, to, data)| send(*from, *to, data));
            let mut halves: Vec<Half> = sends.collect();
            // The order of a pair's halves stays, others come between.
            for (i, (from, to, data, _)) in outputs.iter_mut().enumerate() {
                let at = if i == 0 { 0 } else { halves.len() };
                halves.insert(at, receive(*to, *from, data));
            }
            let on = if draw.below(2) == 0 { &streams[..] } else { &[] };
            let before: u32 = comms.iter().map(|comm| begun(*comm, n as u32)).sum();
            in_a_group(&comms, on, &halves).unwrap();
            on.iter().for_each(|stream| stream_synchronize(Some(*stream)).unwrap());
            let after: u32 = comms.iter().map(|comm| begun(*comm, n as u32)).sum();
            copied += usize::from(before == after && !outputs.is_empty());
            for (from, to, data, first) in &outputs {
                assert!(
                    data.iter().all(|byte| byte == first),
                    "{from} to {to}, seed {seed}, {} bytes",
                    data.len()
                );
            }
        }
        for (pair, queue) in under_way.iter_mut().enumerate() {
            for Sent { bytes, first } in queue.drain(..) {
                let mut data = vec![0; bytes];
                in_a_group(&comms, &[], &[receive(pair % n, pair / n, &mut data)]).unwrap();
                assert!(data.iter().all(|byte| *byte == first), "left over, seed {seed}");
            }
        }
        destroy(comms, streams);
    }
    assert!(copied > 20, "{copied} groups were copies");
}
