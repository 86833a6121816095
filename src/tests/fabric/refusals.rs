//! What is told of a machine, and what is refused on it.

use super::{address, barrier, on_machine, outcome, timed};
use crate::algorithms;
use crate::comm::{self, Call, Config, Permute};
use crate::fabric::PortCounters;
use crate::topology;
use crate::types::{Collective, DataType, RedOp};

#[test]
fn counters_tell_what_passed_each_port() {
    on_machine(16, "dgx-h100:nodes=2", "virtual", "alternating_rings", |rank, comm| {
        timed(rank, 16, comm, Collective::AllReduce, 100_000);
        barrier(comm).unwrap();
        let (participant, counters) = comm::fabric_counters(comm).unwrap();
        let busy = |end: &str| {
            let named = participant.network().ports.iter().zip(&counters);
            named.filter(|(port, c)| port.name.ends_with(end) && c.bytes > 0).count()
        };
        assert_eq!((busy("nic.tx"), busy("nic.rx")), (16, 16));
        assert!(counters.iter().all(|c: &PortCounters| c.messages > 0 || c.busy_ps == 0));
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
        comm::collective(comm, &call, None).unwrap();
        let estimated = comm::group_simulate_end().unwrap();
        assert!(b.iter().all(|&word| word == 0), "nothing was run");
        let before = comm::fabric_now(comm).unwrap();
        comm::collective(comm, &call, None).unwrap();
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
    let sentence = join(0, 9, Some("dgx-h100")).unwrap_err().message.clone();
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
            let sentences =
                [join(0, mine), other.join().unwrap()].map(|ended| ended.unwrap_err().message.clone());
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

#[test]
fn ranks_stand_where_they_are_placed() {
    let fabric = "dgx-h100:nodes=2,placement=[8,0,9,1]";
    let network = topology::open(fabric).unwrap();
    let algorithm = algorithms::index("ring");
    on_machine(4, fabric, "virtual", "allreduce:ring", |rank, comm| {
        let took = timed(rank, 4, comm, Collective::AllReduce, 5000);
        let placed = outcome(&network, &[8, 0, 9, 1], algorithm, Collective::AllReduce, 5000).exit_ps;
        let packed = outcome(&network, &[0, 1, 2, 3], algorithm, Collective::AllReduce, 5000).exit_ps;
        assert_eq!(took, placed[rank as usize]);
        assert!(placed.iter().max() > packed.iter().max(), "a ring over two nodes takes longer");
    });
}

#[test]
fn a_permutation_takes_its_time_and_moves_its_blocks() {
    on_machine(4, "dgx-h100:nodes=2,placement=[0,8,1,9]", "virtual", "", |rank, comm| {
        let (mut send, mut recv) = (vec![rank + 1; 1000], vec![9; 1000]);
        let perm = vec![1, 0, 3, -1];
        let permute = Permute {
            send: address(&mut send),
            recv: address(&mut recv),
            count: 1000,
            dtype: DataType::Uint32,
            perm,
        };
        let before = comm::fabric_now(comm).unwrap();
        comm::permute(comm, permute, None).unwrap();
        let took = comm::fabric_now(comm).unwrap() - before;
        assert!(recv.iter().all(|&word| word == [2, 1, 0, 3][rank as usize]));
        assert_eq!(took > 0, rank != 3 || recv[0] == 3, "rank {rank}: {took}");
        barrier(comm).unwrap();
    });
}
