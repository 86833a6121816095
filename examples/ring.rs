//! Sums a vector by hand, around a ring of ranks: each step sends one block to the right while another comes from the left.
//! A stream checks the result meanwhile with an all-reduce of the library.
//!
//! ```text
//!     reduce-scatter    n - 1 steps: add what comes, pass it on    rank r ends with the sum of block r + 1
//!     all-gather        n - 1 steps: keep what comes, pass it on   every rank ends with all sums
//! ```
//!
//!     cargo build --release --example ring
//!     cargo run --release -p penny-cli -- run -n 3 target/release/examples/ring
//!
//! prints `3 ranks around a ring: the sum of 12 elements is that of all_reduce`.

#![forbid(unsafe_code)]

use penny::{Communicator, Group, Op, Result};

/// Elements of a block.
const BLOCK: usize = 4;

fn main() -> Result<()> {
    let comm = Communicator::from_env()?;
    let ranks = comm.size() as usize;
    let mine: Vec<u64> = (0..ranks * BLOCK).map(|i| (comm.rank() as usize * 100 + i) as u64).collect();
    let mut expected = vec![0; mine.len()];
    // The stream's thread calls on a communicator of its own: two threads may not call on one at once.
    let twin = comm.split(Some(0), 0)?.expect("a color was passed");
    let by_hand = penny::streams(|scope| {
        scope.stream()?.all_reduce(&twin, &mine, &mut expected, Op::Sum)?;
        ring(&comm, mine.clone())
    })?;
    assert_eq!(by_hand, expected);
    if comm.rank() == 0 {
        println!("{ranks} ranks around a ring: the sum of {} elements is that of all_reduce", by_hand.len());
    }
    twin.destroy()?;
    comm.destroy()
}

/// The sum of all ranks' `data`.
fn ring(comm: &Communicator, mut data: Vec<u64>) -> Result<Vec<u64>> {
    let (me, ranks) = (comm.rank() as usize, comm.size() as usize);
    let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
    let block = |index: usize| index % ranks * BLOCK..(index % ranks + 1) * BLOCK;
    let mut arrived = [0; BLOCK];
    for step in 0..2 * (ranks - 1) {
        let (out, into) = (block(me + 2 * ranks - step), block(me + 2 * ranks - step - 1));
        let mut group = Group::new();
        group.send(comm, &data[out], right as u32)?;
        group.recv(comm, &mut arrived, left as u32)?;
        group.end()?;
        let reduces = step < ranks - 1;
        for (sum, came) in data[into].iter_mut().zip(arrived) {
            *sum = if reduces { *sum + came } else { came };
        }
    }
    Ok(data)
}
