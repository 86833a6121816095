//! Workloads in the short form, priced on machines whose times can be computed by hand.

use super::account::Account;
use super::*;
use penny::sim::topology::{self, Network};

/// Two nodes of two: 1 GB/s within a node and 0.5 GB/s between them, no latency, packets of a byte, whole chunks.
fn machine(more: &str) -> Network {
    let text = format!(
        "name = \"m\"\nslice = \"0\"\n{more}\n[class.w]\nbw = \"1GB/s\"\nlat = \"0s\"\nmtu = \"1B\"\n\
         [class.n]\nbw = \"0.5GB/s\"\nlat = \"0s\"\nmtu = \"1B\"\n\
         [nodes]\nplaces = 2\nnodes = 2\ninside = \"w\"\nnic = \"n\"\n"
    );
    topology::parse("m.toml", &text, &[]).unwrap()
}

fn played(text: &str, network: &Network, rule: &ComputeRule) -> Result<Vec<Vec<Account>>, String> {
    let workload = short_form::read("w.toml", text)?;
    let matches = check::matches(&workload)?;
    let places = machine::places(network, workload.ranks.len() as u32)?;
    let (device, _) = rule.check(&workload, network)?;
    let stage = replay::Stage { network, places: &places, rule, device };
    let algorithms = ["auto".to_owned()];
    let mut carrier = pricing::Carrier::new(network, &algorithms)?;
    let played = replay::play(&workload, &matches, &stage, &mut carrier)?;
    Ok(account::steps(&workload, &played))
}

/// The accounts of the only step, in microseconds: total, compute, communication, exposed, idle.
fn accounts(text: &str) -> Vec<[u64; 5]> {
    let steps = played(text, &machine(""), &ComputeRule::Keep).unwrap();
    let us = |ps: u64| ps / 1_000_000;
    let row = |a: &Account| [a.total, a.compute, a.communication, a.exposed, a.idle].map(us);
    steps[0].iter().map(row).collect()
}

#[test]
fn what_is_on_one_stream_is_done_one_after_the_other() {
    // 2 MB from rank 0 to rank 1 at 1 GB/s are 2 ms.
    let text = "ranks = 2\n[[node]]\ncompute = \"5ms\"\n[[node]]\nbroadcast = \"2MB\"\n[[node]]\ncompute = \"1ms\"\n";
    assert_eq!(accounts(text), [[8000, 6000, 2000, 2000, 0]; 2]);
}

#[test]
fn another_stream_runs_beside_computing_until_somebody_waits_for_it() {
    let side = "ranks = 2\n[[node]]\ncompute = \"5ms\"\n[[node]]\nname = \"b\"\nbroadcast = \"2MB\"\nstream = \"side\"\n\
                [[node]]\ncompute = \"1ms\"\n";
    assert_eq!(accounts(side), [[7000, 6000, 2000, 1000, 0]; 2]);
    let waits = format!("{side}[[node]]\ncompute = \"1ms\"\nafter = \"b\"\n");
    assert_eq!(accounts(&waits), [[8000, 7000, 2000, 1000, 0]; 2]);
}

#[test]
fn a_device_computes_one_interval_at_a_time() {
    let text = "ranks = 1\n[[node]]\ncompute = \"5ms\"\n[[node]]\ncompute = \"3ms\"\nstream = \"side\"\nafter = []\n";
    assert_eq!(accounts(text), [[8000, 8000, 0, 0, 0]]);
    // The second could begin while the first is under way.
    let later = "ranks = 1\n[[node]]\ncompute = \"5ms\"\n[[node]]\nhost = \"1ms\"\nstream = \"side\"\nafter = []\n\
                 [[node]]\ncompute = \"3ms\"\nstream = \"side\"\nafter = []\n";
    assert_eq!(accounts(later), [[8000, 8000, 0, 0, 0]]);
}

#[test]
fn host_work_is_beside_the_device() {
    let text =
        "ranks = 1\n[[node]]\ncompute = \"5ms\"\n[[node]]\nhost = \"8ms\"\nstream = \"host\"\nafter = []\n";
    let steps = played(text, &machine(""), &ComputeRule::Keep).unwrap();
    let expected =
        Account { total: 8_000_000_000, compute: 5_000_000_000, host: 3_000_000_000, ..Account::default() };
    assert_eq!(steps[0], [expected]);
}

#[test]
fn waiting_for_the_last_rank_of_a_call_is_idle_time_and_not_communication() {
    let text = "ranks = 2\n[[node]]\ncompute = \"5ms\"\nranks = [1]\n[[node]]\nbroadcast = \"2MB\"\n";
    assert_eq!(accounts(text), [[7000, 0, 2000, 2000, 5000], [7000, 5000, 2000, 2000, 0]]);
}

#[test]
fn groups_whose_calls_share_a_port_take_longer_than_alone() {
    // Ranks 0 and 1 of the first node send 1 MB each to the second, by their own NICs of 0.5 GB/s: 2 ms. A rank that sends both
    // by one NIC takes 4 ms.
    let apart = "ranks = 4\n[group.g]\nsize = 2\nstride = 2\n[[node]]\nbroadcast = \"1MB\"\ngroup = \"g\"\n";
    assert_eq!(accounts(apart), [[2000, 0, 2000, 2000, 0]; 4]);
    let shared = "ranks = 4\n[group.a]\nranks = [[0, 2]]\n[group.b]\nranks = [[0, 3]]\n\
                  [[node]]\nbroadcast = \"1MB\"\ngroup = \"a\"\nstream = \"a\"\n[[node]]\nbroadcast = \"1MB\"\ngroup = \"b\"\nstream = \"b\"\n";
    let found = accounts(shared);
    assert_eq!(found[0], [4000, 0, 4000, 4000, 0]);
    assert_eq!([found[2], found[3]].map(|row| row[0]).iter().max(), Some(&4000));
    assert_eq!(found[1], [0; 5]);
}

#[test]
fn a_send_is_buffered_and_a_receive_waits() {
    let text = "ranks = 2\n[[node]]\nsend = \"1MB\"\nto = \"+1\"\n[[node]]\ncompute = \"9ms\"\nranks = [1]\n\
                [[node]]\nrecv = \"1MB\"\nfrom = \"-1\"\n";
    assert_eq!(accounts(text), [[1000, 0, 1000, 1000, 0], [9000, 9000, 0, 0, 0]]);
    let late = "ranks = 2\n[[node]]\ncompute = \"9ms\"\nranks = [0]\n[[node]]\nsend = \"1MB\"\nto = \"+1\"\n\
                [[node]]\nrecv = \"1MB\"\nfrom = \"-1\"\n";
    assert_eq!(accounts(late), [[10000, 9000, 1000, 1000, 0], [10000, 0, 1000, 1000, 9000]]);
}

#[test]
fn a_ring_of_sends_and_then_receives_does_not_hang() {
    let text = "ranks = 3\n[[node]]\nranks = [0, 1]\nsend = \"1MB\"\nto = \"+1\"\n[[node]]\nranks = [2]\nsend = \"1MB\"\nto = 0\n\
                [[node]]\nranks = [1, 2]\nrecv = \"1MB\"\nfrom = \"-1\"\n[[node]]\nranks = [0]\nrecv = \"1MB\"\nfrom = 2\n";
    assert!(accounts(text).iter().all(|row| row[0] > 0));
}

#[test]
fn steps_and_repeats_are_the_same_as_longer_lists() {
    let network = machine("");
    let steps = "ranks = 4\nsteps = 3\n[[node]]\nrepeat = 2\nnodes = [{ compute = \"1ms\" }, { all_reduce = \"1MB\" }]\n";
    let steps = played(steps, &network, &ComputeRule::Keep).unwrap();
    assert_eq!(steps.len(), 3);
    assert_eq!((&steps[0], &steps[1]), (&steps[1], &steps[2]));
    let long = "[[node]]\ncompute = \"1ms\"\n[[node]]\nall_reduce = \"1MB\"\n".repeat(6);
    let long = played(&format!("ranks = 4\n{long}"), &network, &ComputeRule::Keep).unwrap();
    assert_eq!(long[0], account::sum(&steps));
}

#[test]
fn a_collective_alone_takes_what_sim_says() {
    for fabric in ["dgx-h100:nodes=2", "dgx-h100:nodes=2,as=nccl", "t3000", "tpu-v5e:shape=4x4"] {
        let network = topology::open(fabric).unwrap();
        let ranks = network.shape.nranks();
        for (collective, subject) in
            [("all_reduce", penny::Collective::AllReduce), ("all_gather", penny::Collective::AllGather)]
        {
            let text = format!("ranks = {ranks}\n[[node]]\n{collective} = \"16MiB\"\n");
            let steps = played(&text, &network, &ComputeRule::Keep).unwrap();
            let count = amounts::block(subject, 16 << 20, ranks.into()) / 4;
            let times = penny::sim::times(&network, subject, ranks, count, penny::DataType::Float32).unwrap();
            // NCCL's formula takes another one than the quickest there.
            let chosen = match (fabric, subject) {
                ("dgx-h100:nodes=2,as=nccl", penny::Collective::AllReduce) => "in_switch_trees",
                _ => times[0].algorithm,
            };
            let expected = times.iter().find(|time| time.algorithm == chosen).map(|time| time.picoseconds);
            let last = steps[0].iter().map(|account| account.total).max();
            assert_eq!(last, expected, "{fabric} {collective}");
        }
    }
}

#[test]
fn computing_is_kept_scaled_or_declared() {
    let text = "ranks = 1\n[[node]]\ncompute = \"5ms\"\nflops = \"1TFLOP\"\n[[node]]\ncompute = \"3ms\"\n";
    let device = |text: &str| format!("[device]\nflops = \"1000TFLOPS\"\nmem_bw = \"1TB/s\"\n{text}");
    let compute = |rule: &str, network: &Network| {
        played(text, network, &rule.parse().unwrap()).map(|steps| steps[0][0].compute)
    };
    let declared = machine(&device("eff = 0.5\n"));
    assert_eq!(compute("keep", &declared), Ok(8_000_000_000));
    assert_eq!(compute("scale=0.25", &declared), Ok(2_000_000_000));
    assert_eq!(compute("declared", &declared), Ok(5_000_000_000), "2 ms declared and 3 ms kept");
    let why = compute("declared", &machine("")).unwrap_err();
    assert!(why.contains("m declares no [device]"), "{why}");
    let bare = "ranks = 1\n[[node]]\nflops = \"1TFLOP\"\n";
    let why = played(bare, &declared, &ComputeRule::Keep).unwrap_err();
    assert!(
        why.contains("w.toml: rank 0, the node of line 2") && why.contains("--compute declared"),
        "{why}"
    );
}

#[test]
fn what_is_wrong_with_a_workload_is_told_before_it_is_priced() {
    let cases = [
        ("[[node]]\ncompute = \"1ms\"\n", "w.toml:1: the file: needs `ranks`"),
        ("ranks = 0\n", "ranks is no whole number from 1"),
        ("ranks = 2\n", "needs `node`"),
        ("ranks = 2\nnode = 3\n", "node is no list"),
        ("ranks = 2\n[[node]]\n", "w.toml:2: the node: says nothing to do"),
        ("ranks = 2\n[[node]]\ncompute = \"1\"\n", "w.toml:3: compute is wrong: `1` has no unit"),
        ("ranks = 2\n[[node]]\nall_reduce = \"1MB\"\nsend = \"1MB\"\n", "does several things"),
        ("ranks = 2\n[[node]]\nall_reduce = \"1MB\"\nroot = 1\n", "w.toml:4: the node has no key `root`"),
        ("ranks = 2\n[[node]]\nall_reduce = \"1MB\"\ngroup = \"x\"\n", "there is no group `x`"),
        ("ranks = 2\n[[node]]\nbroadcast = \"1MB\"\nroot = 2\n", "root 2 is no place in a group of 2"),
        (
            "ranks = 6\n[group.g]\nsize = 2\nstride = 2\n[[node]]\nbarrier = true\n",
            "w.toml:2: [group.g]: 6 ranks do not divide",
        ),
        (
            "ranks = 2\n[group.g]\nranks = [[0, 2]]\n[[node]]\nbarrier = true\n",
            "has 2, which is no rank of 2",
        ),
        ("ranks = 2\n[group.g]\nranks = [[0, 0]]\n[[node]]\nbarrier = true\n", "rank 0 is there twice"),
        (
            "ranks = 2\n[[node]]\ncompute = \"1ms\"\nafter = \"x\"\n",
            "no node before it in the step has that name",
        ),
        (
            "ranks = 2\n[[node]]\nsend = \"1MB\"\nto = 1\nranks = [0]\n",
            "rank 1 never receives this message of 1000000 bytes",
        ),
        ("ranks = 2\n[[node]]\nrecv = \"1MB\"\nfrom = 1\nranks = [0]\n", "rank 1 never sends this message"),
        ("ranks = 2\n[[node]]\nrecv = \"1MB\"\nfrom = 7\nranks = [0]\n", "there is no other rank 7 among 2"),
        (
            "ranks = 2\n[[node]]\nsend = \"1MB\"\nto = 1\nranks = [0]\n[[node]]\nrecv = \"2MB\"\nfrom = 0\nranks = [1]\n",
            "sends 1000000 bytes where w.toml: rank 1, the node of line 6 receives 2000000",
        ),
        (
            "ranks = 2\n[[node]]\nall_reduce = \"1MB\"\nranks = [0]\n",
            "call 0 of group all is all_reduce of blocks of 1000000 bytes that rank 1 never makes",
        ),
        (
            "ranks = 2\n[[node]]\nall_reduce = \"1MB\"\nranks = [0]\n[[node]]\nall_reduce = \"2MB\"\nranks = [1]\n",
            "w.toml: rank 1, the node of line 5: call 0 of group all is all_reduce of blocks of 2000000 bytes, but on w.toml: rank 0",
        ),
        (
            "ranks = 2\n[group.a]\nsize = 2\n[group.b]\nsize = 2\n[[node]]\nbarrier = true\ngroup = \"a\"\nranks = [0]\n\
             [[node]]\nbarrier = true\ngroup = \"b\"\n[[node]]\nbarrier = true\ngroup = \"a\"\nranks = [1]\n",
            "the workload would never end: w.toml: rank ",
        ),
        (
            "ranks = 2\n[[node]]\nrecv = \"1MB\"\nfrom = 1\nranks = [0]\n[[node]]\nrecv = \"1MB\"\nfrom = 0\nranks = [1]\n\
             [[node]]\nsend = \"1MB\"\nto = 1\nranks = [0]\n[[node]]\nsend = \"1MB\"\nto = 0\nranks = [1]\n",
            "the workload would never end: ",
        ),
        (
            "ranks = 2\n[[node]]\nwait = \"s\"\ncount = 2\nranks = [1]\n[[node]]\nsignal = \"s\"\nto = 0\n",
            "rank 1, the node of line 2: 2 signals of `s` are waited for on rank 1, and 0 are given to it",
        ),
        (
            "ranks = 2\n[[node]]\nwait = \"s\"\n[[node]]\nsignal = \"s\"\nto = \"+1\"\n[[node]]\nsignal = \"s\"\nto = \"-1\"\n",
            "the workload would never end: w.toml: rank 0, the node of line 2 waits for signals of `s`",
        ),
        ("ranks = 2\n[[node]]\nput = \"1MB\"\nto = 7\n", "there is no rank 7 among 2"),
        ("ranks = 2\n[[node]]\nput = \"1MB\"\nto = 1\ncount = 2\n", "w.toml:5: the node has no key `count`"),
        (
            "ranks = 2\n[[node]]\nmail = \"1MB\"\nto = 1\nthreads = [64]\n",
            "threads has no threads of a mailbox",
        ),
        ("ranks = 2\n[[node]]\nput = \"1MB\"\nget = \"1MB\"\n", "does several things"),
        ("ranks = 5\n[[node]]\nbarrier = true\n", "m has 4 places for 5 ranks"),
    ];
    for (text, part) in cases {
        let why = played(text, &machine(""), &ComputeRule::Keep).expect_err(text);
        assert!(why.contains(part), "{text}\nsays: {why}");
    }
}

#[test]
fn the_example_of_the_short_form_is_one() {
    let source = include_str!("short_form/mod.rs");
    let lines = source.lines().skip_while(|line| *line != "//! ```toml").skip(1);
    let example: String = lines
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n")
        .collect();
    let network = topology::open("dgx-h100:nodes=2").unwrap();
    let steps = played(&example, &network, &ComputeRule::Keep).unwrap();
    assert_eq!((steps.len(), steps[0].len()), (3, 16));
    assert!(steps.iter().flatten().all(|account| account.compute >= 35_000_000_000 && account.overlap > 0));
}

#[test]
fn a_put_begins_at_once_and_a_wait_ends_when_its_signals_are_there() {
    // 1 MB within the node are 1 ms; rank 2 gets over NICs of 0.5 GB/s: 8 bytes are 16 ns, 1 MB is 2 ms.
    let put = "ranks = 2\n[[node]]\nput = \"1MB\"\nto = 1\nsignal = \"s\"\nranks = [0]\n[[node]]\nwait = \"s\"\nranks = [1]\n";
    let network = machine("launch = \"1ms\"\n");
    let steps = played(put, &network, &ComputeRule::Keep).unwrap();
    let total = |rank: usize| steps[0][rank].total;
    assert_eq!(
        [total(0), total(1)],
        [1_000_009_000; 2],
        "no launch, 8 bytes more, and a byte's time at a second port"
    );
    assert_eq!(accounts(put), [[1000, 0, 1000, 1000, 0]; 2]);
    let late = format!(
        "{put}[[node]]\ncompute = \"9ms\"\nranks = [1]\n[[node]]\nput = \"1MB\"\nto = 0\nranks = [1]\n"
    );
    assert_eq!(accounts(&late)[1], [11000, 9000, 2000, 2000, 0]);
    let get = "ranks = 4\n[[node]]\nget = \"1MB\"\nfrom = 0\nranks = [2]\n";
    // There and back over two NICs: a byte more at the second.
    let steps = played(get, &machine(""), &ComputeRule::Keep).unwrap();
    assert_eq!(steps[0][2].total, 2_000_016_000 + 2 * 2000);
}

#[test]
fn waits_take_signals_of_anybody_in_their_order() {
    let text = "ranks = 3\n[[node]]\nwait = \"s\"\ncount = 3\nranks = [0]\n[[node]]\nsignal = \"s\"\nto = 0\ncount = 2\nranks = [1]\n\
                [[node]]\ncompute = \"5ms\"\nranks = [2]\n[[node]]\nput = \"1MB\"\nto = 0\nsignal = \"s\"\nranks = [2]\n\
                [[node]]\ncompute = \"1ms\"\nranks = [0]\n";
    // Rank 0 waits for both, the last of which rank 2 gives after 5 and 2 ms.
    assert_eq!(accounts(text)[0], [8000, 1000, 2000, 2000, 5000]);
}

#[test]
fn mailboxes_hand_out_a_message_thread_by_thread() {
    let text = "ranks = 2\n[[node]]\nmail = \"1kB\"\nto = 1\nthreads = [0, 1, 17]\nranks = [0]\n[[node]]\nreceive = 17\nranks = [1]\n";
    let total = |machine: &Network| {
        let steps = played(text, machine, &ComputeRule::Keep).unwrap();
        [steps[0][0].total, steps[0][1].total]
    };
    assert_eq!(total(&machine("")), [1_001_000; 2], "a message that has arrived is there");
    let mailboxes = machine("[mailbox]\nthreads = 64\ncores = 4\ncycle = \"4ns\"\n");
    assert_eq!(total(&mailboxes), [1_001_000 + 5 * 4000; 2], "two threads of one core: 1 + 2 * 2 cycles");
    let few = machine("[mailbox]\nthreads = 16\ncores = 4\ncycle = \"4ns\"\n");
    let why = played(text, &few, &ComputeRule::Keep).unwrap_err();
    assert!(why.contains("names thread 17 of rank 1's mailbox, and a mailbox of m has 16"), "{why}");
}

#[test]
fn repeats_that_memory_does_not_hold_are_refused_before_anything_is_written() {
    let nested = (0..7).fold("{ compute = \"1ms\" }".to_owned(), |inner, _| {
        format!("{{ repeat = 16777216, nodes = [{inner}] }}")
    });
    for (steps, node) in
        [(1, nested.as_str()), (1_000_000, "{ repeat = 1000, nodes = [{ compute = \"1ms\" }] }")]
    {
        let why = short_form::read("w.toml", &format!("ranks = 2\nsteps = {steps}\nnode = [{node}]\n"));
        let why = why.err().unwrap();
        assert!(why.contains("w.toml:3") && why.contains("more than 16777216 nodes; take fewer"), "{why}");
    }
}

#[test]
fn a_workload_of_nothing_is_refused() {
    let mut empty = short_form::read("w.toml", "ranks = 2\n[[node]]\ncompute = \"1ms\"\n").unwrap();
    empty.ranks.iter_mut().for_each(|rank| rank.nodes.clear());
    let why = check::matches(&empty).err().unwrap();
    assert!(why.contains("w.toml: no rank has anything to do; give a file with nodes"), "{why}");
}

#[test]
fn a_message_waits_for_a_free_slot_of_the_mailbox() {
    // Three messages of 1 ms each. Rank 1 takes the first after 10 ms, and frees it 4 ms later.
    let text = |slots: &str, free: &str| {
        let mail = "[[node]]\nranks = [0]\nmail = \"1MB\"\nto = 1\nthreads = [0]\n".repeat(3);
        let receive = "[[node]]\nranks = [1]\nreceive = 0\n".repeat(2);
        format!(
            "ranks = 2\n{slots}{mail}[[node]]\nranks = [1]\ncompute = \"10ms\"\n[[node]]\nranks = [1]\nreceive = 0\nkeep = true\n\
             [[node]]\nranks = [1]\ncompute = \"4ms\"\n{free}{receive}"
        )
    };
    let total = |text: &str| accounts(text).iter().map(|row| row[0]).collect::<Vec<_>>();
    let free = "[[node]]\nranks = [1]\nfree = 0\n";
    assert_eq!(total(&text("", free)), [3000, 14000], "any number of slots");
    assert_eq!(total(&text("slots = 3\n", free)), [3000, 14000]);
    // The third sets out at 14 ms.
    assert_eq!(total(&text("slots = 2\n", free)), [15000, 15000]);
    // The second as well, and the third when that is there and freed.
    assert_eq!(total(&text("slots = 1\n", free)), [16000, 16000]);
    let whole = |text: &str| played(text, &machine(""), &ComputeRule::Keep).unwrap_err();
    let why = whole(&text("slots = 1\n", ""));
    assert!(why.contains("would never end") && why.contains("a free slot of rank 1's mailbox"), "{why}");
    let why = whole(&text("slots = 1\n", &free.repeat(2)));
    assert!(why.contains("thread 0 of rank 1 keeps no message to free"), "{why}");
}

#[test]
fn a_slot_is_free_when_the_last_of_its_threads_has_freed_it() {
    // Thread 0 frees at once, thread 1 after 5 ms more.
    let mail = "[[node]]\nranks = [0]\nmail = \"1MB\"\nto = 1\nthreads = [0, 1]\n".repeat(2);
    let take = |thread: u32| format!("[[node]]\nranks = [1]\nreceive = {thread}\n");
    let text = format!(
        "ranks = 2\nslots = 1\n{mail}{}[[node]]\nranks = [1]\ncompute = \"5ms\"\n{}{}{}",
        take(0),
        take(1),
        take(0),
        take(1)
    );
    assert_eq!(accounts(&text).iter().map(|row| row[0]).collect::<Vec<_>>(), [7000, 7000]);
}
