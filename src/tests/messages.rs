//! Messages one after another, whose sender runs ahead.

use crate::{Communicator, Result};

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
