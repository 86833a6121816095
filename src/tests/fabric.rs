//! Ranks that stand on a declared machine: they move real bytes, and their clocks say what the engine says.

mod clocks;
mod deadlocks;
mod faults;
mod halves;
mod mailboxes;
mod one_sided;
mod one_thread;
mod order;
mod refusals;
mod signals;
mod survivors;
mod three_ways;

use crate::algorithms;
use crate::comm::{self, Call, CommHandle, Config, Transfer};
use crate::error::Result;
use crate::fabric::engine::price;
use crate::fabric::slicing::Divisible;
use crate::fabric::tuning;
use crate::fabric::{self, CallTimes};
use crate::memory::view::Address;
use crate::plan::RankView;
use crate::topology::Network;
use crate::types::{Collective, DataType, Rank, RedOp};

/// Ranks as threads on a machine.
pub fn on_machine(n: u32, fabric: &str, clock: &str, algo: &str, work: impl Fn(Rank, CommHandle) + Sync) {
    let id = comm::unique_id().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..n {
            let work = &work;
            scope.spawn(move || {
                let config = Config {
                    timeout_ms: Some(20_000),
                    algo: Some(algo.to_owned()).filter(|algo| !algo.is_empty()),
                    fabric: Some(fabric.to_owned()),
                    fabric_clock: Some(clock.to_owned()),
                    // How fast this host is must not matter.
                    fabric_grace: Some("0".into()),
                    ..Config::default()
                };
                let handle = comm::init_rank(n as i32, &id, rank as i32, &config).unwrap();
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(rank, handle)));
                if let Err(panic) = ended {
                    let _ = comm::abort(handle);
                    std::panic::resume_unwind(panic);
                }
                comm::destroy(handle).unwrap();
            });
        }
    });
}

#[allow(unsafe_code)]
fn address(buffer: &mut [u32]) -> Address<'static> {
    // SAFETY: every test keeps its buffers until its call returns.
    unsafe { Address::from_raw(buffer.as_mut_ptr().cast::<u8>().cast_const()) }
}

/// A collective in place over a buffer.
fn call(collective: Collective, buffer: &mut [u32]) -> Call<'static> {
    let (at, count) = (address(buffer), buffer.len());
    Call {
        collective,
        send: at,
        recv: at,
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    }
}

/// A collective of `count` words a block, whose result is verified; its time on the rank's clock.
fn timed(rank: Rank, n: u32, comm: CommHandle, collective: Collective, count: usize) -> u64 {
    let blocks = |blocks: u32| vec![0u32; blocks as usize * count];
    let (mut send, mut recv) =
        (blocks(collective.blocks_in(rank, n, 0)), blocks(collective.blocks_out(rank, n, 0)));
    for (i, word) in send.iter_mut().enumerate() {
        *word = rank * 1_000_003 + i as u32;
    }
    let call = Call {
        collective,
        send: address(&mut send),
        recv: address(&mut recv),
        count,
        dtype: DataType::Uint32,
        op: RedOp::Sum,
        root: 0,
        padded: false,
    };
    let before = comm::fabric_now(comm).unwrap();
    comm::collective(comm, &call, None).unwrap();
    let after = comm::fabric_now(comm).unwrap();
    let of = |rank: u32, i: usize| rank * 1_000_003 + i as u32;
    let of_all = |i: usize| (n * (n - 1) / 2).wrapping_mul(1_000_003).wrapping_add(n.wrapping_mul(i as u32));
    for (i, &word) in recv.iter().enumerate() {
        let (block, at) = (i as u32 / count.max(1) as u32, i % count.max(1));
        let expected = match collective {
            Collective::AllReduce | Collective::Reduce => of_all(i),
            Collective::ReduceScatter => of_all(rank as usize * count + i),
            Collective::Broadcast => of(0, i),
            Collective::AllGather | Collective::Gather => of(block, at),
            Collective::Scatter => of(0, rank as usize * count + i),
            Collective::AlltoAll => of(block, rank as usize * count + at),
            Collective::Barrier => unreachable!("it has no output"),
        };
        assert_eq!(word, expected, "{collective}, rank {rank}, word {i}");
    }
    after - before
}

fn simulated(network: &Network, n: u32, algorithm: usize, collective: Collective, count: usize) -> Vec<u64> {
    outcome(network, &(0..n).collect::<Vec<_>>(), algorithm, collective, count).exit_ps
}

/// What the engine says without ranks, for a call on the idle machine.
fn outcome(
    network: &Network,
    places: &[Rank],
    algorithm: usize,
    collective: Collective,
    count: usize,
) -> CallTimes {
    let n = places.len() as u32;
    let view = RankView::flat(collective, 0, n, 0).arranged(network.arrangement(places));
    let plans = algorithms::plan_all(algorithms::ALL[algorithm], &view);
    let (divisible, views) = (Divisible::of(&plans, &view, count as u64, 4), network.views());
    let priced = tuning::quickest_of_any(network, algorithms::ALL[algorithm].name, divisible, |tuning| {
        let (plans, view, count, slice_bytes) = (&plans, view.clone(), count as u64, tuning.slice_bytes);
        let call = fabric::PricedCall { plans, places, view, count, size: 4, slice_bytes };
        let network = &views[tuning.protocol as usize];
        price(network, &call, &vec![network.launch_ps; n as usize])
    });
    priced.unwrap().priced
}

/// One half of a transfer of words.
fn half(send: bool, buffer: &mut [u32], peer: u32) -> Transfer<'static> {
    let (count, dtype) = (buffer.len(), DataType::Uint32);
    Transfer { send, buffer: address(buffer), count, dtype, peer: peer as i32, of_collective: false }
}

/// Send to the rank `by` after this one, and receive from the rank `by` before it.
fn shift(rank: Rank, n: u32, comm: CommHandle, by: u32, count: usize) {
    let (mut out, mut into) = (vec![rank; count], vec![0; count]);
    let (to, from) = ((rank + by) % n, (rank + n - by) % n);
    comm::group_start().unwrap();
    comm::transfer(comm, &half(true, &mut out, to), None).unwrap();
    comm::transfer(comm, &half(false, &mut into, from), None).unwrap();
    comm::group_end().unwrap();
    assert!(into.iter().all(|&word| word == from));
}

fn barrier(comm: CommHandle) -> Result<()> {
    let nothing = || address(&mut []);
    comm::collective(
        comm,
        &Call {
            collective: Collective::Barrier,
            send: nothing(),
            recv: nothing(),
            count: 0,
            dtype: DataType::Uint32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        },
        None,
    )
}
