//! The virtual clock, the paced clock and the engine without ranks tell the same times.

use super::faults::Declared;
use super::{on_machine, simulated, timed};
use crate::algorithms;
use crate::comm;
use crate::plan::RankView;
use crate::topology::{self, Network};
use crate::types::{Collective, Rank};

/// Bytes of the whole vector for which one algorithm of those to be tried is asked. With protocols they are more, so that those
/// of large messages have some.
fn step(network: &Network) -> usize {
    if network.protocols.is_empty() { 16 << 10 } else { 32 << 10 }
}

/// The length of the i-th algorithm's vector, of which a block of each rank is a part.
fn words(step: usize, i: usize, blocks: usize) -> usize {
    (i * step + step / 2) / 4 / blocks + i
}

/// Every algorithm that serves a collective here, or one in `of` and another one on each machine, each for a size of its own: what to
/// set, and the algorithms.
fn every_algorithm(
    network: &Network,
    n: u32,
    collectives: &[Collective],
    of: usize,
) -> (String, Vec<Vec<usize>>) {
    let places: Vec<Rank> = (0..n).collect();
    let arrangement = network.arrangement(&places);
    let step = step(network);
    let mut algo = Vec::new();
    let algorithms = collectives.iter().map(|&collective| {
        let view = RankView::flat(collective, 0, n, 0).arranged(arrangement.clone());
        let mut able: Vec<usize> =
            (0..algorithms::ALL.len()).filter(|&m| algorithms::ALL[m].refuses(&view).is_none()).collect();
        let first = (network.name.len() + n as usize + collective as usize) % of.min(able.len()).max(1);
        able = able.into_iter().skip(first).step_by(of).collect();
        let ranges = able
            .iter()
            .enumerate()
            .map(|(i, &m)| format!("{}-{}:{}", i * step, (i + 1) * step, algorithms::ALL[m].name));
        algo.push(format!("{}:{}", collective.name(), ranges.collect::<Vec<_>>().join(",")));
        able
    });
    let algorithms = algorithms.collect();
    (algo.join(";"), algorithms)
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

/// Virtual = paced = simulated, to the picosecond, for every algorithm, with the bytes verified.
fn three_ways(fabric: &str, n: u32) {
    equal_times(fabric, n, &["virtual", "paced:0.001"], 1);
}

/// The same with whole chunks and with slices, of which most chunks have several and a shorter last one, for some algorithms: how a
/// chunk is cut is no matter of theirs.
fn sliced(fabric: &str, n: u32) {
    let and = if fabric.contains(':') { ',' } else { ':' };
    for slice in ["0", "300B"] {
        equal_times(&format!("{fabric}{and}slice={slice}"), n, &["virtual"], 8);
    }
}

fn equal_times(fabric: &str, n: u32, clocks: &[&str], of: usize) {
    let network = topology::open(fabric).unwrap();
    let n = n.min(network.shape.nranks());
    let step = step(&network);
    let (algo, algorithms) = every_algorithm(&network, n, &DATA, of);
    let whole = |collective: Collective| match collective {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => 1,
        _ => n as usize,
    };
    // Every rank's exit, by collective and algorithm.
    let expected: Vec<Vec<Vec<u64>>> = DATA
        .iter()
        .zip(&algorithms)
        .map(|(&collective, able)| {
            let exits = |(i, &algorithm)| {
                simulated(&network, n, algorithm, collective, words(step, i, whole(collective)))
            };
            able.iter().enumerate().map(exits).collect()
        })
        .collect();
    for &clock in clocks {
        on_machine(n, fabric, clock, &algo, |rank, comm| {
            let mut moment = 0;
            let tried = if clock == "virtual" { DATA.len() } else { 1 };
            for (c, &collective) in DATA.iter().enumerate().take(tried) {
                for (i, &algorithm) in algorithms[c].iter().enumerate() {
                    // Everybody enters at once, and no port is taken any more.
                    moment += 1_000_000_000_000;
                    comm::fabric_advance_to(comm, moment).unwrap();
                    let took = timed(rank, n, comm, collective, words(step, i, whole(collective)));
                    assert_eq!(
                        took,
                        expected[c][i][rank as usize],
                        "{fabric}, {clock}: {collective} by {} on rank {rank}",
                        algorithms::ALL[algorithm].name
                    );
                }
            }
        });
    }
}

macro_rules! three_way_tests {
    ($($name:ident: $fabric:literal, $n:literal;)*) => {
    $(
        #[test]
        fn $name() {
            three_ways($fabric, $n);
        }
    )*
        /// The machines of these tests.
        const MACHINES: &[&str] = &[$($fabric),*];

        mod slices {
            $(
                #[test]
                fn $name() {
                    super::sliced($fabric, $n);
                }
            )*
        }
    };
}

three_way_tests! {
    virtual_paced_and_simulated_times_are_equal_on_dgx_h100: "dgx-h100:nodes=2", 16;
    virtual_paced_and_simulated_times_are_equal_on_dgx_h100_with_an_odd_number_of_nodes: "dgx-h100:places=3,nodes=3", 9;
    virtual_paced_and_simulated_times_are_equal_where_a_switch_sums: "dgx-h100", 8;
    virtual_paced_and_simulated_times_are_equal_by_protocols: "dgx-h100:nodes=2,as=nccl", 16;
    virtual_paced_and_simulated_times_are_equal_on_a_superpod: "dgx-h100-superpod:places=2,nodes=3", 6;
    virtual_paced_and_simulated_times_are_equal_on_dgx_a100: "dgx-a100:nodes=2", 12;
    virtual_paced_and_simulated_times_are_equal_on_oci_a100: "oci-a100:places=3,nodes=2", 6;
    virtual_paced_and_simulated_times_are_equal_on_dgx_b200: "dgx-b200:as=nccl", 8;
    virtual_paced_and_simulated_times_are_equal_on_gb200_nvl72: "gb200-nvl72:places=6,nodes=2", 12;
    virtual_paced_and_simulated_times_are_equal_on_aws_p5: "aws-p5:places=4,nodes=2,as=nccl", 8;
    virtual_paced_and_simulated_times_are_equal_on_aws_p6: "aws-p6:places=4,nodes=2,as=nccl", 8;
    virtual_paced_and_simulated_times_are_equal_on_gh200_by_protocols: "gh200:nodes=3,as=nccl", 12;
    virtual_paced_and_simulated_times_are_equal_on_mi300x: "mi300x:nodes=2", 16;
    virtual_paced_and_simulated_times_are_equal_on_mi300x_by_protocols: "mi300x:as=rccl", 8;
    virtual_paced_and_simulated_times_are_equal_on_dgx_1v: "dgx-1v", 8;
    virtual_paced_and_simulated_times_are_equal_on_n300: "n300", 2;
    virtual_paced_and_simulated_times_are_equal_on_t3000: "t3000", 8;
    virtual_paced_and_simulated_times_are_equal_on_galaxy: "galaxy", 32;
    virtual_paced_and_simulated_times_are_equal_through_a_data_mover: "n300:mover=ethernet", 2;
    virtual_paced_and_simulated_times_are_equal_through_data_movers:
        "t3000:mover=ethernet,mover.channels=1,mover.signal=separate,mover.receiver=pull,mover.programs=call", 8;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v4: "tpu-v4", 16;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v5e: "tpu-v5e:shape=4x4", 16;
    virtual_paced_and_simulated_times_are_equal_on_tpu_v5p: "tpu-v5p", 16;
    virtual_paced_and_simulated_times_are_equal_on_ipu_pod16: "ipu-pod16", 16;
    virtual_paced_and_simulated_times_are_equal_on_a_mesh_without_a_cycle: "t3000:shape=3x3", 9;
    virtual_paced_and_simulated_times_are_equal_on_a_line: "n300:shape=5", 5;
    virtual_paced_and_simulated_times_are_equal_on_a_torus_of_unlike_axes: "tpu-v4:shape=3x4", 12;
    virtual_paced_and_simulated_times_are_equal_on_a_part_of_a_mesh: "t3000", 6;
    virtual_paced_and_simulated_times_are_equal_on_poets: "poets", 16;
    virtual_paced_and_simulated_times_are_equal_on_host: "host", 5;
}

#[test]
fn every_preset_is_among_the_machines_of_these_tests() {
    let preset = |machine: &&str| machine.split(':').next().unwrap().to_owned();
    let tested: Vec<String> = MACHINES.iter().map(preset).collect();
    for (name, _) in topology::presets() {
        assert!(tested.iter().any(|tested| tested == name), "{name}");
    }
}

/// Leaves, spines and cores; two devices a NIC, or two NICs a device; PCIe in the node.
const TIERS: &str = "[class.fast]\nbw = \"9GB/s\"\nlat = \"20ns\"\n[cluster]\nplaces = 2\nnodes = 8\ninside = \"fast\"\nnic = \"w\"\n\
    [cluster.pcie]\nlink = \"fast\"\nswitches = 2\nhosts = 2\nsmp = \"w\"\n[[cluster.tier]]\ndown = 4\nuplink = \"w\"\nuplinks = 2\n\
    [[cluster.tier]]\ndown = 2\nuplink = \"w\"\nuplinks = 1\n[[cluster.tier]]\n";

#[test]
fn virtual_paced_and_simulated_times_are_equal_on_tiers_of_switches() {
    for (name, keys) in [
        ("shared-nics", "nics = 1"),
        ("two-nics", "nics = 4\nrails = \"optimised\"\nseed = 3"),
        ("rails", "rails = \"only\"\nrouting = \"destination\""),
    ] {
        let rails = if name == "rails" { TIERS.replace("down = 4", "down = 2") } else { TIERS.to_owned() };
        let file = Declared::new(name, &rails.replace("[cluster.pcie]", &format!("{keys}\n[cluster.pcie]")));
        three_ways(file.spec(), 16);
    }
}

#[test]
fn sixty_four_ranks_on_eight_nodes_take_the_simulated_time() {
    let fabric = "dgx-h100:nodes=8";
    let network = topology::open(fabric).unwrap();
    let alternating = algorithms::index("alternating_rings");
    let expected = simulated(&network, 64, alternating, Collective::AllReduce, 40_000);
    on_machine(64, fabric, "virtual", "allreduce:alternating_rings", |rank, comm| {
        let took = timed(rank, 64, comm, Collective::AllReduce, 40_000);
        assert_eq!(took, expected[rank as usize]);
    });
}

#[test]
fn ranks_of_two_scalable_units_take_the_simulated_time() {
    // A leaf of 32 nodes, and one of two; two links between leaf and spines.
    let (fabric, n) = ("dgx-h100-superpod:places=1,nodes=34,oversubscription=16", 34);
    let network = topology::open(fabric).unwrap();
    let expected = [(Collective::AllReduce, "ring"), (Collective::AlltoAll, "pairwise")]
        .map(|(call, name)| (call, simulated(&network, n, algorithms::index(name), call, 3000)));
    on_machine(n, fabric, "virtual", "allreduce:ring;alltoall:pairwise", |rank, comm| {
        for (collective, expected) in &expected {
            let collective = *collective;
            let moment = 1_000_000_000_000 * (1 + collective as u64);
            comm::fabric_advance_to(comm, moment).unwrap();
            let took = timed(rank, n, comm, collective, 3000);
            assert_eq!(took, expected[rank as usize], "{collective}");
        }
    });
}

#[test]
fn what_no_protocol_carries_goes_over_the_bare_machine() {
    let (fabric, bare) = ("dgx-h100:nodes=2,as=nccl", topology::open("dgx-h100:nodes=2").unwrap());
    let able = (0..algorithms::ALL.len()).filter(|&m| {
        let shape = bare.shape;
        let view = RankView { shape, ..RankView::flat(Collective::AlltoAll, 0, 16, 0) };
        algorithms::ALL[m].refuses(&view).is_none()
    });
    let exits = able.map(|m| simulated(&bare, 16, m, Collective::AlltoAll, 100));
    let expected = exits.min_by_key(|exits| exits.iter().max().copied()).unwrap();
    on_machine(16, fabric, "virtual", "", |rank, comm| {
        let took = timed(rank, 16, comm, Collective::AlltoAll, 100);
        assert_eq!(took, expected[rank as usize]);
    });
}

#[test]
fn auto_takes_what_the_engine_says_is_quickest() {
    let fabric = "dgx-h100:nodes=2";
    let network = topology::open(fabric).unwrap();
    let arrangement = network.arrangement(&(0..16).collect::<Vec<_>>());
    let expected = [2, 1000, 300_000].map(|count| {
        let view = RankView::flat(Collective::AllReduce, 0, 16, 0).arranged(arrangement.clone());
        let quickest = (0..algorithms::ALL.len())
            .filter(|&m| algorithms::ALL[m].refuses(&view).is_none())
            .map(|m| simulated(&network, 16, m, Collective::AllReduce, count))
            .min_by_key(|exits| exits.iter().max().copied());
        (count, quickest.unwrap())
    });
    on_machine(16, fabric, "virtual", "", |rank, comm| {
        let mut moment = 0;
        for (count, quickest) in &expected {
            moment += 1_000_000_000_000;
            comm::fabric_advance_to(comm, moment).unwrap();
            let took = timed(rank, 16, comm, Collective::AllReduce, *count);
            assert_eq!(took, quickest[rank as usize], "{count} words");
        }
    });
}
