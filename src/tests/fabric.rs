//! Ranks that stand on a declared machine: they move real bytes, and their clocks say what the engine says.

use crate::algorithms;
use crate::comm::{self, Call, Config, Handle, Transfer};
use crate::error::{Code, Result};
use crate::fabric::engine::price;
use crate::fabric::{self, Counters};
use crate::memory::view::Address;
use crate::plan::View;
use crate::topology::{self, Network};
use crate::types::{Collective, DataType, Rank, RedOp};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ranks as threads on a machine.
fn on_machine(n: u32, fabric: &str, clock: &str, algo: &str, work: impl Fn(Rank, Handle) + Sync) {
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
fn address(buffer: &mut [u32]) -> Address {
    // SAFETY: every test keeps its buffers until its call returns.
    unsafe { Address::from_raw(buffer.as_mut_ptr().cast::<u8>().cast_const()) }
}

/// A collective of `count` words a block, whose result is verified; its time on the rank's clock.
fn timed(rank: Rank, n: u32, comm: Handle, collective: Collective, count: usize) -> u64 {
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
    comm::collective(comm, &call).unwrap();
    let after = comm::fabric_now(comm).unwrap();
    let of = |rank: u32, i: usize| rank * 1_000_003 + i as u32;
    for (i, &word) in recv.iter().enumerate() {
        let (block, at) = (i as u32 / count.max(1) as u32, i % count.max(1));
        let expected = match collective {
            Collective::AllReduce | Collective::Reduce => (0..n).map(|r| of(r, i)).fold(0, u32::wrapping_add),
            Collective::ReduceScatter => {
                (0..n).map(|r| of(r, rank as usize * count + i)).fold(0, u32::wrapping_add)
            }
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
    let places: Vec<Rank> = (0..n).collect();
    let view = View { shape: network.shape_of(&places), ..View::flat(collective, 0, n, 0) };
    let plans = algorithms::plan_all(algorithms::ALL[algorithm], &view);
    let call =
        fabric::Call { plans: &plans, places: &places, view, count: count as u64, size: 4, slice_bytes: 0 };
    price(network, &call, &vec![0; n as usize]).unwrap().exit_ps
}

/// Bytes of the whole vector for which one method of those to be tried is asked.
const STEP: usize = 32 << 10;

/// Every method that serves a collective here, each for a size of its own: what to set, and the methods.
fn every_method(network: &Network, n: u32, collectives: &[Collective]) -> (String, Vec<Vec<usize>>) {
    let places: Vec<Rank> = (0..n).collect();
    let shape = network.shape_of(&places);
    let mut algo = Vec::new();
    let methods = collectives.iter().map(|&collective| {
        let view = View { shape, ..View::flat(collective, 0, n, 0) };
        let able: Vec<usize> =
            (0..algorithms::ALL.len()).filter(|&m| algorithms::ALL[m].refuses(&view).is_none()).collect();
        let ranges = able
            .iter()
            .enumerate()
            .map(|(i, &m)| format!("{}-{}:{}", i * STEP, (i + 1) * STEP, algorithms::ALL[m].name));
        algo.push(format!("{}:{}", collective.name(), ranges.collect::<Vec<_>>().join(",")));
        able
    });
    let methods = methods.collect();
    (algo.join(";"), methods)
}

const DATA: [Collective; 8] = [
    Collective::AllReduce,
    Collective::Reduce,
    Collective::Broadcast,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Gather,
    Collective::Scatter,
    Collective::AlltoAll,
];

/// Virtual = paced = simulated, to the picosecond, for every method, with the bytes verified.
fn three_ways(fabric: &str, n: u32) {
    let network = topology::open(fabric).unwrap();
    let n = n.min(network.shape.nranks());
    let (algo, methods) = every_method(&network, n, &DATA);
    let whole = |collective: Collective| match collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => 1,
        _ => n as usize,
    };
    for clock in ["virtual", "paced:0.001"] {
        on_machine(n, fabric, clock, &algo, |rank, comm| {
            let mut moment = 0;
            let tried = if clock == "virtual" { DATA.len() } else { 1 };
            for (&collective, able) in DATA.iter().zip(&methods).take(tried) {
                for (i, &method) in able.iter().enumerate() {
                    // Everybody enters at once, and no port is taken any more.
                    moment += 1_000_000_000_000;
                    comm::fabric_advance_to(comm, moment).unwrap();
                    let count = (i * STEP + STEP / 2) / 4 / whole(collective) + i;
                    let took = timed(rank, n, comm, collective, count);
                    let expected = simulated(&network, n, method, collective, count)[rank as usize];
                    assert_eq!(
                        took,
                        expected,
                        "{fabric}, {clock}: {collective} by {} on rank {rank}",
                        algorithms::ALL[method].name
                    );
                }
            }
        });
    }
}

macro_rules! three_way_tests {
    ($($name:ident: $fabric:literal, $n:literal;)*) => {$(
        #[test]
        fn $name() {
            three_ways($fabric, $n);
        }
    )*};
}

three_way_tests! {
    virtual_paced_and_simulated_times_are_equal_on_dgx_h100: "dgx-h100:nodes=2", 16;
    virtual_paced_and_simulated_times_are_equal_on_dgx_h100_with_an_odd_number_of_nodes: "dgx-h100:nodes=3", 24;
    virtual_paced_and_simulated_times_are_equal_on_dgx_a100: "dgx-a100:nodes=2", 12;
    virtual_paced_and_simulated_times_are_equal_on_dgx_1v: "dgx-1v", 8;
    virtual_paced_and_simulated_times_are_equal_on_n300: "n300", 2;
    virtual_paced_and_simulated_times_are_equal_on_t3000: "t3000", 8;
    virtual_paced_and_simulated_times_are_equal_on_galaxy: "galaxy", 32;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v4: "tpu-v4", 16;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v5e: "tpu-v5e:shape=4x4", 16;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v5p: "tpu-v5p", 16;
    virtual_paced_and_simulated_times_are_equal_on_ipu_pod16: "ipu-pod16", 16;
    virtual_paced_and_simulated_times_are_equal_on_poets: "poets", 16;
    virtual_paced_and_simulated_times_are_equal_on_host: "host", 5;
}

#[test]
fn sixty_four_ranks_on_eight_nodes_take_the_simulated_time() {
    let fabric = "dgx-h100:nodes=8";
    let network = topology::open(fabric).unwrap();
    let alternating = algorithms::index("alternating_rings");
    on_machine(64, fabric, "virtual", "allreduce:alternating_rings", |rank, comm| {
        let took = timed(rank, 64, comm, Collective::AllReduce, 40_000);
        assert_eq!(took, simulated(&network, 64, alternating, Collective::AllReduce, 40_000)[rank as usize]);
    });
}

#[test]
fn auto_takes_what_the_engine_says_is_quickest() {
    let fabric = "dgx-h100:nodes=2";
    let network = topology::open(fabric).unwrap();
    on_machine(16, fabric, "virtual", "", |rank, comm| {
        let mut moment = 0;
        for count in [2, 1000, 300_000] {
            moment += 1_000_000_000_000;
            comm::fabric_advance_to(comm, moment).unwrap();
            let took = timed(rank, 16, comm, Collective::AllReduce, count);
            let view = View { shape: network.shape, ..View::flat(Collective::AllReduce, 0, 16, 0) };
            let quickest = (0..algorithms::ALL.len())
                .filter(|&m| algorithms::ALL[m].refuses(&view).is_none())
                .map(|m| simulated(&network, 16, m, Collective::AllReduce, count))
                .min_by_key(|exits| exits.iter().max().copied());
            assert_eq!(took, quickest.unwrap()[rank as usize], "{count} words");
        }
    });
}

/// Pairs exchange, rings pass, everybody reduces; each rank dawdles in its own way between calls.
fn busy(rank: Rank, n: u32, comm: Handle, seed: u64) {
    let dawdle = |k: u64| {
        let nap =
            (seed ^ (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(k as u32 * 7) % 400;
        std::thread::sleep(Duration::from_micros(nap));
    };
    for k in 0..4 {
        dawdle(k);
        comm::fabric_advance(comm, 1000 * (rank as u64 * 13 % 7)).unwrap();
        timed(rank, n, comm, Collective::AllReduce, 64 << k);
        dawdle(k + 9);
        shift(rank, n, comm, 1 + k as u32 % (n - 1), 100 * k as usize);
    }
}

/// Send to the rank `by` after this one, and receive from the rank `by` before it.
fn shift(rank: Rank, n: u32, comm: Handle, by: u32, count: usize) {
    let (mut out, mut into) = (vec![rank; count], vec![0; count]);
    let (to, from) = ((rank + by) % n, (rank + n - by) % n);
    let half = |send, buffer: &mut [u32], peer: u32| Transfer {
        send,
        buffer: address(buffer),
        count,
        dtype: DataType::Uint32,
        peer: peer as i32,
        of_permute: false,
    };
    comm::group_start().unwrap();
    comm::transfer(comm, &half(true, &mut out, to)).unwrap();
    comm::transfer(comm, &half(false, &mut into, from)).unwrap();
    comm::group_end().unwrap();
    assert!(into.iter().all(|&word| word == from));
}

#[test]
fn what_happens_does_not_depend_on_when_the_machine_lets_ranks_run() {
    let n = 5;
    let seen = Mutex::new(Vec::new());
    for run in 0..100u64 {
        let clocks: Vec<AtomicU64> = (0..n).map(|_| AtomicU64::new(0)).collect();
        on_machine(n, "dgx-h100:nodes=2", "virtual", "", |rank, comm| {
            busy(rank, n, comm, run.wrapping_mul(0xd134_2543_de82_ef95));
            clocks[rank as usize].store(comm::fabric_now(comm).unwrap(), Ordering::Relaxed);
            if rank == 0 {
                // One more meeting, so that all that the others did is in the account.
                timed(rank, n, comm, Collective::AllReduce, 1);
                let (_, account) = comm::fabric_account(comm).unwrap();
                seen.lock().unwrap().push((account.trace, account.calls, account.late));
            } else {
                timed(rank, n, comm, Collective::AllReduce, 1);
            }
        });
        let clocks: Vec<u64> = clocks.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        seen.lock().unwrap().last_mut().unwrap().0 ^= clocks.iter().fold(0, |h: u64, c| h.rotate_left(9) ^ c);
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|one| one == &seen[0]), "{seen:?}");
}

#[test]
fn a_missing_receive_is_a_deadlock_that_names_both_ranks() {
    let sentences = Mutex::new(Vec::new());
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        let mut word = [rank];
        let ended: Result<()> = if rank == 0 {
            let buffer = address(&mut word);
            comm::transfer(
                comm,
                &Transfer {
                    send: true,
                    buffer,
                    count: 1,
                    dtype: DataType::Uint32,
                    peer: 1,
                    of_permute: false,
                },
            )
        } else {
            barrier(comm)
        };
        let error = ended.unwrap_err();
        assert_eq!(error.code, Code::InvalidUsage, "{error}");
        sentences.lock().unwrap().push(error.message);
        assert!(barrier(comm).is_err(), "nothing can end on this machine any more");
    });
    for sentence in sentences.into_inner().unwrap() {
        assert!(sentence.contains("deadlock"), "{sentence}");
        assert!(sentence.contains("rank 0 in a send to rank 1 waits for rank 1"), "{sentence}");
        assert!(sentence.contains("rank 1 in barrier (call #1) waits for rank 0"), "{sentence}");
    }
}

fn barrier(comm: Handle) -> Result<()> {
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
    )
}

#[test]
fn a_loop_that_waits_for_a_time_ends() {
    on_machine(2, "dgx-h100", "virtual", "", |rank, comm| {
        if rank == 0 {
            let until = comm::fabric_now(comm).unwrap() + 100_000_000;
            let mut looks = 0;
            while comm::fabric_now(comm).unwrap() < until {
                looks += 1;
            }
            assert!((100..300).contains(&looks), "{looks} looks for 100 us");
        }
        barrier(comm).unwrap();
    });
}

#[test]
fn clocks_that_are_only_asked_stand_still() {
    on_machine(1, "dgx-h100", "virtual", "", |_, comm| {
        for _ in 0..10 {
            assert_eq!(comm::fabric_now(comm).unwrap(), 0);
        }
        assert_eq!(comm::fabric_advance(comm, 5).unwrap(), 5);
        assert_eq!(comm::fabric_advance_to(comm, 3).unwrap(), 5);
        assert_eq!(comm::fabric_now(comm).unwrap(), 5);
    });
}

#[test]
fn counters_tell_what_passed_each_port() {
    on_machine(16, "dgx-h100:nodes=2", "virtual", "alternating_rings", |rank, comm| {
        timed(rank, 16, comm, Collective::AllReduce, 100_000);
        barrier(comm).unwrap();
        let (seat, counters) = comm::fabric_counters(comm).unwrap();
        let busy = |end: &str| {
            let named = seat.network().ports.iter().zip(&counters);
            named.filter(|(port, c)| port.name.ends_with(end) && c.bytes > 0).count()
        };
        assert_eq!((busy("nic.tx"), busy("nic.rx")), (16, 16));
        assert!(counters.iter().all(|c: &Counters| c.messages > 0 || c.busy_ps == 0));
    });
}

#[test]
fn a_group_that_is_simulated_takes_what_it_then_takes() {
    on_machine(4, "dgx-h100", "virtual", "", |rank, comm| {
        let (mut a, mut b) = (vec![1u32; 5000], vec![0u32; 5000]);
        let call = Call {
            collective: Collective::AllReduce,
            send: address(&mut a),
            recv: address(&mut b),
            count: 5000,
            dtype: DataType::Uint32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        comm::group_start().unwrap();
        comm::collective(comm, &call).unwrap();
        let estimated = comm::group_simulate_end().unwrap();
        assert!(b.iter().all(|&word| word == 0), "nothing was run");
        let before = comm::fabric_now(comm).unwrap();
        comm::collective(comm, &call).unwrap();
        let took = comm::fabric_now(comm).unwrap() - before;
        assert!(took <= estimated, "rank {rank}: {took} of {estimated}");
        assert_eq!(b[4999], 4);
    });
}

#[test]
fn more_ranks_than_places_and_unlike_machines_are_refused_on_every_rank() {
    let id = comm::unique_id().unwrap();
    let join = |rank: i32, n: i32, fabric: Option<&str>| {
        let fabric = fabric.map(str::to_owned);
        comm::init_rank(n, &id, rank, &Config { timeout_ms: Some(5_000), fabric, ..Config::default() })
    };
    let sentence = join(0, 9, Some("dgx-h100")).unwrap_err().message;
    assert!(sentence.contains("8 places for 9 ranks"), "{sentence}");
    for (mine, theirs) in [(Some("dgx-h100"), Some("dgx-a100")), (None, Some("t3000")), (Some("t3000"), None)]
    {
        let id = comm::unique_id().unwrap();
        let join = |rank: i32, fabric: Option<&str>| {
            let fabric = fabric.map(str::to_owned);
            comm::init_rank(2, &id, rank, &Config { timeout_ms: Some(5_000), fabric, ..Config::default() })
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| join(1, theirs));
            let sentences = [join(0, mine), other.join().unwrap()].map(|ended| ended.unwrap_err().message);
            for (rank, (sentence, own)) in sentences.iter().zip([mine, theirs]).enumerate() {
                let part = format!("rank {rank} declares {}", own.unwrap_or("no machine"));
                assert!(
                    sentence.contains(&part) && sentence.contains("PENNY_FABRIC must be the same"),
                    "{sentence}"
                );
            }
        });
    }
}
