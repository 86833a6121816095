//! A schedule is read back, run, and counted.

use super::*;
use penny::Collective;
use penny::sim::algorithms;
use penny::sim::fabric::engine;
use penny::sim::plan::RankView;
use penny::sim::topology;

/// An operation of a schedule.
#[derive(Clone, Debug)]
struct Op {
    rank: u32,
    send: bool,
    bytes: u64,
    peer: u32,
    tag: u32,
    requires: Vec<String>,
}

/// By rank and label.
type Ops = HashMap<(u32, String), Op>;

/// What `txt2bin` accepts of the form, as far as it is used; panics at anything else.
fn read(text: &str) -> (u32, Ops) {
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let ranks = lines.next().unwrap().strip_prefix("num_ranks ").unwrap().parse().unwrap();
    let (mut ops, mut rank) = (Ops::new(), None);
    for line in lines {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["rank", number, "{"] => assert_eq!(rank.replace(number.parse().unwrap()), None),
            ["}"] => assert!(rank.take().is_some()),
            [label, kind, bytes, way, peer, "tag", tag] => {
                let send = (kind, way) == ("send", "to");
                assert!(send || (kind, way) == ("recv", "from"), "{line}");
                let op = Op {
                    rank: rank.unwrap(),
                    send,
                    bytes: bytes.strip_suffix('b').unwrap().parse().unwrap(),
                    peer: peer.parse().unwrap(),
                    tag: tag.parse().unwrap(),
                    requires: Vec::new(),
                };
                let label = label.strip_suffix(':').unwrap().to_owned();
                assert!(ops.insert((rank.unwrap(), label), op).is_none(), "a second {line}");
            }
            [label, "requires" | "irequires", other] => {
                let (label, other) = ((rank.unwrap(), label.to_owned()), other.to_owned());
                assert!(ops.contains_key(&(rank.unwrap(), other.clone())), "{line}: no such label");
                ops.get_mut(&label).unwrap().requires.push(other);
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(rank, None);
    (ranks, ops)
}

/// Every receive has one send of the same pair, tag and size; what is left over is a mistake.
fn matched(ops: &Ops) {
    let ends = |send: bool| {
        let mut ends: Vec<_> = ops
            .values()
            .filter(|op| op.send == send)
            .map(|op| {
                if send { (op.rank, op.peer, op.tag, op.bytes) } else { (op.peer, op.rank, op.tag, op.bytes) }
            })
            .collect();
        ends.sort_unstable();
        ends
    };
    assert_eq!(ends(true), ends(false));
    let sends = ends(true);
    let unique =
        sends.windows(2).all(|pair| (pair[0].0, pair[0].1, pair[0].2) < (pair[1].0, pair[1].1, pair[1].2));
    assert!(unique, "two messages of a pair have one tag");
}

/// Runs the schedule until nothing moves; panics if something is left.
fn ends(ops: &Ops) {
    let mut done: HashMap<(u32, String), ()> = HashMap::new();
    let mut sent: HashMap<(u32, u32, u32), ()> = HashMap::new();
    loop {
        let before = done.len();
        for (label, op) in ops {
            let free = op.requires.iter().all(|other| done.contains_key(&(op.rank, other.clone())));
            let there = op.send || sent.contains_key(&(op.peer, op.rank, op.tag));
            if free && there && done.insert(label.clone(), ()).is_none() && op.send {
                sent.insert((op.rank, op.peer, op.tag), ());
            }
        }
        match done.len() {
            all if all == ops.len() => return,
            same if same == before => {
                panic!("{} of {} operations wait for ever", ops.len() - same, ops.len())
            }
            _ => {}
        }
    }
}

#[test]
fn a_schedule_has_the_bytes_that_pass_the_first_ports() {
    let network = topology::open("dgx-h100:nodes=2").unwrap();
    for (collective, root) in
        [(Collective::AllReduce, 0), (Collective::Broadcast, 3), (Collective::AlltoAll, 0)]
    {
        let view = RankView { shape: network.shape, ..RankView::flat(collective, 0, 16, root) };
        for algorithm in algorithms::candidates(collective).filter(|a| a.refuses(&view).is_none()) {
            let plans = algorithms::plan_all(algorithm, &view);
            // A count that no number of parts divides, and slices that divide no chunk.
            for slice_bytes in [0, 1000] {
                let places: Vec<u32> = (0..16).collect();
                let call = PricedCall {
                    plans: &plans,
                    places: &places,
                    view: view.clone(),
                    count: 4099,
                    size: 4,
                    slice_bytes,
                };
                let (ranks, ops) = read(&schedule(&call).unwrap());
                assert_eq!(ranks, 16);
                matched(&ops);
                ends(&ops);
                let outcome = engine::price(&network, &call, &[0; 16]).unwrap();
                let left = |suffix: &str| -> (u64, u64) {
                    let ports = network.ports.iter().zip(&outcome.counters);
                    let of = ports.filter(|(port, _)| port.name.ends_with(suffix));
                    of.fold((0, 0), |(b, m), (_, passed)| (b + passed.bytes, m + passed.messages))
                };
                let (inside, across) = (left(".nv.tx"), left(".nic.tx"));
                let sends = || ops.values().filter(|op| op.send);
                let name = algorithm.name;
                assert_eq!(sends().map(|op| op.bytes).sum::<u64>(), inside.0 + across.0, "{name}");
                assert_eq!(sends().count() as u64, inside.1 + across.1, "{name}");
            }
        }
    }
}

#[test]
fn slices_add_up() {
    assert_eq!(slices(10, 0), [10]);
    assert_eq!(slices(10, 4), [4, 4, 2]);
    assert_eq!(slices(8, 4), [4, 4]);
    assert_eq!(slices(0, 4), [0]);
}
