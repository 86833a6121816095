//! Sends and receives of a rank on an idle stream, alone and in groups, which the thread that queues them makes.

use super::small_parts::{half, numbers};
use crate::comm::{self, CommHandle, StreamHandle};
use crate::tests::collectives::on_ranks;

/// Elements of 8 bytes on both sides of each limit: a message in one slot, from the heap, made at once by a thread alone.
const COUNTS: [usize; 8] = [0, 1, 2047, 2049, 8192, 100_000, 131_072, 131_073];

/// Runs a function on each of `n` ranks, with a stream of its own.
fn on_streams(n: u32, on_rank: impl Fn(u32, CommHandle, StreamHandle) + Sync) {
    on_ranks(n, |rank, comm| {
        let stream = comm::stream_create().unwrap();
        on_rank(rank, comm, stream);
        comm::stream_destroy(stream).unwrap();
    });
}

#[test]
fn ranks_exchange_blocks_of_all_sizes_by_groups_that_nobody_waits_for() {
    on_streams(3, |rank, comm, stream| {
        let peers = [(rank as i32 + 1) % 3, (rank as i32 + 2) % 3];
        for round in 0..6u64 {
            let data = |of: usize, count: usize| numbers(of, round, count);
            let mut sent: Vec<_> = COUNTS.iter().map(|&count| data(rank as usize, count)).collect();
            let mut received: Vec<_> = COUNTS.iter().map(|&count| vec![vec![0; count]; 3]).collect();
            for (sent, received) in sent.iter_mut().zip(&mut received) {
                let [from_next, from_last, own] = &mut received[..] else { unreachable!() };
                comm::group_start().unwrap();
                half(comm, true, rank as i32, sent, stream);
                half(comm, true, peers[0], sent, stream);
                half(comm, false, peers[1], from_last, stream);
                half(comm, false, peers[0], from_next, stream);
                half(comm, true, peers[1], sent, stream);
                half(comm, false, rank as i32, own, stream);
                comm::group_end().unwrap();
            }
            comm::stream_synchronize(Some(stream)).unwrap();
            for (received, &count) in received.iter().zip(&COUNTS) {
                let expected =
                    [peers[0] as usize, peers[1] as usize, rank as usize].map(|of| data(of, count));
                assert_eq!(received[..], expected, "rank {rank}, round {round}, {count} elements");
            }
        }
    });
}

#[test]
fn calls_alone_are_made_in_their_order_whoever_comes_late() {
    on_streams(2, |rank, comm, stream| {
        for round in 0..40u64 {
            if rank == round as u32 % 2 {
                std::thread::sleep(std::time::Duration::from_micros(40 * round));
            }
            let data = |number: u64| numbers(0, 8 * round + number, COUNTS[number as usize]);
            let mut buffers: Vec<_> = match rank {
                0 => (0..8).map(data).collect(),
                _ => COUNTS.iter().map(|&count| vec![0; count]).collect(),
            };
            for buffer in &mut buffers {
                half(comm, rank == 0, 1 - rank as i32, buffer, stream);
            }
            comm::stream_synchronize(Some(stream)).unwrap();
            assert!((0..8).map(data).eq(buffers), "rank {rank}, round {round}");
        }
    });
}

#[test]
fn a_disagreement_is_told_by_the_stream_and_the_next_calls_are_right() {
    on_streams(2, |rank, comm, stream| {
        let peer = 1 - rank as i32;
        for count in [3, 5000] {
            let mut wrong = vec![rank as u64; count + rank as usize];
            half(comm, rank == 0, peer, &mut wrong, stream);
            let told = comm::stream_synchronize(Some(stream));
            // What was sent is out of its sender's hands, which hears of it by a later call.
            if rank == 1 {
                let told = told.unwrap_err().message.clone();
                assert!(told.starts_with("recv on a stream: ranks disagree in a transfer"), "{told}");
            }
            let mut right = vec![7 + rank as u64; count];
            half(comm, rank == 0, peer, &mut right, stream);
            let ended = comm::stream_synchronize(Some(stream));
            assert!(rank == 0 || ended.is_ok(), "the sender alone may hear of the message before: {ended:?}");
            assert_eq!(right, vec![7; count]);
        }
    });
}

#[test]
fn an_inner_group_that_sends_what_another_receives_comes_after_it() {
    on_streams(2, |rank, comm, stream| {
        let peer = 1 - rank as i32;
        for round in 0..50u64 {
            let mut mine = numbers(rank as usize, round, 9);
            let (mut theirs, mut back) = (vec![0; 9], vec![0; 9]);
            comm::group_start().unwrap();
            for inner in 0..2 {
                comm::group_start().unwrap();
                half(comm, true, peer, if inner == 0 { &mut mine } else { &mut theirs }, stream);
                half(comm, false, peer, if inner == 0 { &mut theirs } else { &mut back }, stream);
                comm::group_end().unwrap();
            }
            comm::group_end().unwrap();
            comm::stream_synchronize(Some(stream)).unwrap();
            assert_eq!([&theirs, &back], [&numbers(peer as usize, round, 9), &mine], "round {round}");
        }
    });
}
