//! Messages one after another, whose sender runs ahead.

use crate::{Communicator, Group, Result};

const MESSAGES: u32 = 1500;

/// Words of message `index`: pieces of every size, several pieces, and such as lie in the slots' own memory.
fn words(index: u32) -> usize {
    const SIZES: [usize; 9] = [1100, 2048, 1, 4096, 8192, 1025, 20_000, 700, 3000];
    SIZES[(index.wrapping_mul(0x9e37_79b9) >> 16) as usize % SIZES.len()]
}

fn content(index: u32) -> Vec<u32> {
    (0..words(index) as u32).map(|i| (index << 16) + i + 1).collect()
}

fn send_all(comm: &Communicator, to: u32) -> Result<()> {
    (0..MESSAGES).try_for_each(|index| comm.send(&content(index), to))
}

fn receive_all(comm: &Communicator, from: u32) -> Result<()> {
    for index in 0..MESSAGES {
        if index % 64 == 0 {
            // The sender fills all slots meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut received = vec![0; words(index)];
        comm.recv(&mut received, from)?;
        assert!(received == content(index), "message {index}");
    }
    Ok(())
}

/// The sender overwrites no piece that is still to be read, nor does it when it probes how fast lines come back.
#[test]
fn messages_of_changing_sizes_arrive_whole() {
    crate::on_threads(2, |comm| {
        for sender in [0, 1] {
            match comm.rank() == sender {
                true => send_all(&comm, 1 - sender)?,
                false => receive_all(&comm, sender)?,
            }
        }
        Ok(())
    })
    .unwrap();
}

/// Bytes of the messages of a round, the same on both ranks: to rank 1 and to rank 0.
fn drawn(round: u64) -> [Vec<usize>; 2] {
    let mut random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let most = [1, 1, 2, 7][draw(4) as usize];
    let sizes = [300, 1024, 3000, 4096, 5000, 16_384, 40_000, 65_536, 300_000];
    [(); 2].map(|()| (0..draw(most + 1)).map(|_| sizes[draw(9) as usize]).collect())
}

/// Answers lie where the messages lay that they answer, whatever was sent and in which order.
#[test]
fn messages_and_answers_of_changing_sizes_and_numbers_arrive_whole() {
    crate::on_threads(2, |comm| {
        let (me, other) = (comm.rank(), 1 - comm.rank());
        let content = |round: u64, from: u32, message: usize, bytes: usize| -> Vec<u8> {
            let first = (round as usize * 31 + from as usize * 17 + message * 7) % 251;
            (0..bytes).map(|at| ((first + at / 64 + at) % 251) as u8).collect()
        };
        for round in 0..1500 {
            let sizes = drawn(round);
            let begins = (round % 3 == 0) == (me == 0);
            let mut received: Vec<Vec<u8>> = sizes[me as usize].iter().map(|&bytes| vec![0; bytes]).collect();
            let sent: Vec<Vec<u8>> = sizes[other as usize]
                .iter()
                .enumerate()
                .map(|(message, &bytes)| content(round, me, message, bytes))
                .collect();
            if round % 5 == 0 {
                let mut group = Group::new();
                sent.iter().try_for_each(|bytes| group.send(&comm, bytes, other))?;
                received.iter_mut().try_for_each(|bytes| group.recv(&comm, bytes, other))?;
                group.end()?;
            } else {
                for sends in [begins, !begins] {
                    match sends {
                        true => sent.iter().try_for_each(|bytes| comm.send(bytes, other))?,
                        false => received.iter_mut().try_for_each(|bytes| comm.recv(bytes, other))?,
                    }
                }
            }
            for (message, bytes) in received.iter().enumerate() {
                assert!(
                    *bytes == content(round, other, message, bytes.len()),
                    "message {message} of round {round}"
                );
            }
        }
        Ok(())
    })
    .unwrap();
}
