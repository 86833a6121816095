//! Communicators made of one share the machine's ports where their routes meet.

use super::faults::Declared;
use super::{address, on_machine, outcome, timed};
use crate::algorithms;
use crate::comm::{self, Call};
use crate::topology;
use crate::types::{Collective, DataType, Rank, RedOp};
use std::sync::Mutex;

/// Words of a block: enough that the wire counts.
const COUNT: usize = 50_000;

/// Two pairs of four ranks reduce at once; by rank, how much longer than a pair alone on the idle machine.
fn delays(fabric: &str, pairs: [[Rank; 2]; 2]) -> Vec<u64> {
    let network = topology::open(fabric).unwrap();
    let algorithm = algorithms::index("ring");
    let delays = Mutex::new(vec![0; 4]);
    on_machine(4, fabric, "virtual", "allreduce:ring", |rank, comm| {
        let colour = pairs[1].contains(&rank) as usize;
        let pair = comm::split(comm, Some(colour as i32), 0, None).unwrap().unwrap();
        let me = comm::user_rank(pair).unwrap();
        comm::fabric_advance_to(comm, 1_000_000_000_000).unwrap();
        let took = timed(me as u32, 2, pair, Collective::AllReduce, COUNT);
        let places = network.places(4).unwrap();
        let own = pairs[colour].map(|rank| places[rank as usize]);
        let alone = outcome(&network, &own, algorithm, Collective::AllReduce, COUNT).exit_ps[me as usize];
        assert!(took >= alone, "rank {rank}: {took} in company, {alone} alone");
        delays.lock().unwrap()[rank as usize] = took - alone;
        comm::destroy(pair).unwrap();
    });
    delays.into_inner().unwrap()
}

#[test]
fn pairs_on_rails_of_their_own_do_not_notice_each_other() {
    assert_eq!(delays("dgx-h100:nodes=2,placement=[0,8,1,9]", [[0, 1], [2, 3]]), [0; 4]);
    assert_eq!(delays("t3000", [[0, 1], [2, 3]]), [0; 4]);
}

#[test]
fn pairs_whose_routes_meet_take_longer_together() {
    // On the line 0 -> 3 passes 1 -> 2.
    let line = Declared::new("line", "[line]\nshape = \"4\"\nlink = \"w\"\n");
    let late = delays(line.spec(), [[0, 3], [1, 2]]);
    assert!(late.iter().any(|&ps| ps > 1_000_000), "{late:?}");
}

#[test]
fn a_group_over_a_parent_and_its_children_runs_all_of_them() {
    let n = 4;
    on_machine(n, "t3000", "virtual", "", |rank, comm| {
        let pair = comm::group(comm, comm::Grouping::Consecutive, 2).unwrap();
        let other = comm::group(comm, comm::Grouping::Orthogonal, 2).unwrap();
        for round in 1..20u32 {
            let comms = [comm, pair, other];
            let mut data = [[round * (rank + 1); 8]; 3];
            let mut sums = [[0u32; 8]; 3];
            comm::group_start().unwrap();
            for ((comm, send), recv) in comms.into_iter().zip(&mut data).zip(&mut sums) {
                let call = Call {
                    collective: Collective::AllReduce,
                    send: address(send),
                    recv: address(recv),
                    count: 8,
                    dtype: DataType::Uint32,
                    op: RedOp::Sum,
                    root: 0,
                    padded: false,
                };
                comm::collective(comm, &call, None).unwrap();
            }
            comm::group_end().unwrap();
            let first = rank / 2 * 2;
            let expected = [10, 2 * first + 3, 2 * (rank % 2) + 4].map(|sum| [round * sum; 8]);
            assert_eq!(sums, expected, "rank {rank}");
        }
        let (_, clock_stats) = comm::fabric_account(comm).unwrap();
        assert_eq!(clock_stats.late, 0);
        comm::destroy(other).unwrap();
        comm::destroy(pair).unwrap();
    });
}
