//! Ranks on two hosts whose network is cut, or slow: namespaces with a cable or two between, of which one is pulled. Needs root, `ip` and `tc`.

use crate::ranks::{Failure, Rank, Said, Setting, acts, now_ns, start_one, times, turn};
use penny_ffi_tests::hosts::{self, Carrier};
use std::process::Command;

const REMOTE: i32 = 6;

/// A network namespace, connected with this one.
struct Cable {
    /// The namespace's name, and of both ends of the cable.
    name: String,
    /// Tells the addresses of the ends.
    number: u32,
}

fn ip(words: &str) -> bool {
    is_done("ip", words)
}

fn is_done(tool: &str, words: &str) -> bool {
    Command::new(tool).args(words.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Cable {
    /// `None`: this machine lets nobody make one.
    fn new(number: u32) -> Option<Cable> {
        let cable = Cable { name: format!("pcut{}-{number}", std::process::id() % 10_000), number };
        let name = &cable.name;
        let made = ip(&format!("netns add {name}")) && ip(&format!("-n {name} link set lo up"));
        (made && cable.lay(['a', 'b'], number)).then_some(cable)
    }

    /// Lays a cable to the namespace, with these letters at its ends.
    fn lay(&self, [here, there]: [char; 2], number: u32) -> bool {
        let (name, net) = (&self.name, network(number));
        [
            format!("link add {name}{here} type veth peer name {name}{there} netns {name}"),
            format!("addr add {net}.1/24 dev {name}{here}"),
            format!("link set {name}{here} up"),
            format!("-n {name} addr add {net}.2/24 dev {name}{there}"),
            format!("-n {name} link set {name}{there} up"),
        ]
        .iter()
        .all(|words| ip(words))
    }

    /// Gives both ends of the first cable an address of the other kind. Returns the first one; `None`: nothing here does that.
    fn add_ipv6(&self) -> Option<String> {
        let (name, net) = (&self.name, format!("fd13:{:x}:", self.number));
        let ends = [
            format!("addr add {net}:1/64 dev {name}a"),
            format!("-n {name} addr add {net}:2/64 dev {name}b"),
        ];
        ends.iter().all(|end| ip(&format!("{end} nodad"))).then(|| format!("{net}:1"))
    }

    /// Makes both ends of the first cable slow. False: nothing here does that.
    fn slow_down(&self) -> bool {
        let name = &self.name;
        let ends = [format!("qdisc add dev {name}a"), format!("-n {name} qdisc add dev {name}b")];
        ends.iter().all(|end| is_done("tc", &format!("{end} root tbf rate 100mbit burst 64kb latency 50ms")))
    }

    fn pull(&self, there: char) {
        assert!(ip(&format!("-n {0} link set {0}{there} down", self.name)));
    }
}

/// The first three numbers of the addresses of a cable.
fn network(number: u32) -> String {
    format!("10.213.{}", number % 256)
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&format!("link del {}a", self.name));
        ip(&format!("link del {}c", self.name));
        ip(&format!("netns del {}", self.name));
    }
}

/// What a rank says first that is not that something was done.
fn verdict(rank: &mut Rank) -> Option<Failure> {
    loop {
        match rank.try_next()? {
            Said::Ok(_) => {}
            Said::Failed(failure) => return Some(failure),
        }
    }
}

/// Starts ranks 0 and 2 on this side of a cable, where they meet, and rank 1 on the other.
fn start(cable: &Cable, carrier: &Carrier, further: &[(&str, &str)], list: &[String]) -> Vec<Rank> {
    let id = penny::internals::comm::unique_id().expect("an id");
    let apart = format!("exec ip netns exec {} \"$0\" \"$@\"", cable.name);
    let (port, job) = (hosts::port().to_string(), format!("{:032x}", now_ns()));
    let master = format!("{}.1", network(cable.number));
    (0..3)
        .map(|rank| {
            let number = rank.to_string();
            let mut env = vec![
                ("PENNY_JOB_ID", &*job),
                ("PENNY_RANK", &number),
                ("PENNY_WORLD_SIZE", "3"),
                ("PENNY_LOCAL_SIZE", if rank == 1 { "1" } else { "2" }),
                ("MASTER_ADDR", &master),
                ("MASTER_PORT", &port),
            ];
            env.extend(further);
            env.extend(carrier.iter().map(|(name, value)| (*name, &**value)));
            let shell = if rank == 1 { &apart } else { "true" };
            start_one(rank, 3, &id, &Setting { env: &env, shell }, list)
        })
        .collect()
}

#[test]
fn a_cut_network_is_told_to_the_ranks_on_both_sides() {
    let _turn = turn();
    let carriers = hosts::carriers();
    let mut last = Vec::new();
    for trial in 0..times(2, 20) {
        let Some(cable) = Cable::new(trial) else {
            return println!("SKIPPED: only root makes network namespaces");
        };
        let what = ["all_reduce", "broadcast", "transfer", "signals", "mailbox"][trial as usize % 5];
        let list = acts(&["join-env", "call all_reduce 100", &format!("loop {what} 5000")]);
        let mut ranks = start(&cable, &carriers[trial as usize % carriers.len()], &[], &list);
        for rank in &mut ranks {
            rank.did("join-env");
            rank.did("call all_reduce 100");
        }
        let since = now_ns();
        cable.pull('b');
        let mut took = 0;
        for number in [0, 2, 1] {
            let said =
                verdict(&mut ranks[number]).unwrap_or_else(|| panic!("rank {number} ends without a word"));
            // Those on the meeting's side are told of rank 1, to which all of that host are gone.
            let gone: &[usize] = if number == 1 { &[0, 2] } else { &[1] };
            let named = |&rank: &usize| {
                said.sentence.contains(&format!("rank {rank} (pid {} on ", ranks[rank].pid()))
            };
            assert_eq!(said.code, REMOTE, "{what}: rank {number}: {}", said.sentence);
            assert!(gone.iter().any(named), "{what}: rank {number}: {}", said.sentence);
            took = took.max(said.returned.saturating_sub(since));
        }
        last.push(took);
    }
    last.sort_unstable();
    let ms = |share: usize| last[(last.len() * share / 100).min(last.len() - 1)] as f64 / 1e6;
    println!("cut links: {} trials, last rank p50 {:.0} ms, max {:.0} ms", last.len(), ms(50), ms(100));
}

#[test]
fn ranks_with_two_networks_go_on_when_one_is_cut() {
    let _turn = turn();
    let carriers = hosts::carriers();
    for trial in 0..times(3, 20) {
        let numbers = [100 + trial, 200 + trial];
        let Some(cable) = Cable::new(numbers[0]).filter(|cable| cable.lay(['c', 'd'], numbers[1])) else {
            return println!("SKIPPED: only root makes network namespaces");
        };
        let what = ["all_reduce", "transfer", "signals", "broadcast", "mailbox"][trial as usize % 5];
        let [under_way, afterwards] =
            [format!("repeat 300 {what} 20000"), format!("repeat 100 {what} 20000")];
        // A communicator that is made now finds it out, or one that is made afterwards knows it from this one.
        let under_way = if trial / 2 % 2 == 0 { under_way } else { "call children 10".to_owned() };
        // A rank that ended without `destroy` while its peer is in the last call would have died.
        let list = acts(&[
            "join-env",
            "call all_reduce 100",
            &under_way,
            "hold",
            &afterwards,
            "call children 10",
            "destroy",
        ]);
        // The one that is pulled carries the small messages, or large ones alone.
        let [kept, pulled] = numbers.map(|number| format!("{}.0/24", network(number)));
        let rails = if trial % 2 == 0 { format!("{pulled},{kept}") } else { format!("{kept},{pulled}") };
        let rails = [("PENNY_NET_IFACES", rails.as_str())];
        let mut ranks = start(&cable, &carriers[trial as usize % carriers.len()], &rails, &list);
        let all = |ranks: &mut [Rank], act: &str| ranks.iter_mut().for_each(|rank| rank.did(act));
        all(&mut ranks, "join-env");
        all(&mut ranks, "call all_reduce 100");
        cable.pull('d');
        all(&mut ranks, &under_way);
        // What comes now is made with the rail cut, also where the calls before were over too soon.
        ranks.iter_mut().for_each(Rank::release);
        all(&mut ranks, "hold");
        all(&mut ranks, &afterwards);
        all(&mut ranks, "call children 10");
        all(&mut ranks, "destroy");
        ranks.iter_mut().for_each(|rank| _ = rank.outlast());
    }
}

#[test]
fn messages_of_a_rank_that_has_left_come_whole_over_a_slow_network() {
    let _turn = turn();
    let carriers = hosts::carriers();
    for trial in 0..times(4, 20) {
        let Some(cable) = Cable::new(300 + trial).filter(Cable::slow_down) else {
            return println!("SKIPPED: only root makes network namespaces, and `tc` slows them down");
        };
        // From buffer to buffer, past what else goes to the peer (docs/decisions/0070).
        let calls = acts(&["join-env", "call all_reduce 100", "call transfer 1000000"]);
        let ending = acts(if trial % 2 == 0 { &["destroy"] } else { &["finalize", "exit"] });
        let list = [calls, ending].concat();
        let mut ranks = start(&cable, &carriers[trial as usize / 2 % carriers.len()], &[], &list);
        for act in list.iter().filter(|act| *act != "exit") {
            ranks.iter_mut().for_each(|rank| rank.did(act));
        }
        ranks.iter_mut().for_each(|rank| _ = rank.outlast());
    }
}

#[test]
fn hosts_with_addresses_of_both_kinds_use_those_by_which_they_have_met() {
    let _turn = turn();
    for (carrier, number) in hosts::carriers().iter().zip(950..) {
        let Some(cable) = Cable::new(number) else {
            return println!("SKIPPED: only root makes network namespaces");
        };
        let Some(ipv6) = cable.add_ipv6() else { return println!("SKIPPED: this machine has no IPv6") };
        // Rank 1 reaches the meeting by the first of them; rank 0 and rank 2 by whichever of their own host's comes first.
        for master in [format!("{ipv6},{}.1", network(number)), format!("{}.1,{ipv6}", network(number))] {
            let list = acts(&["join-env", "call all_reduce 100", "destroy"]);
            let mut ranks = start(&cable, carrier, &[("MASTER_ADDR", &master)], &list);
            for rank in &mut ranks {
                list.iter().for_each(|act| rank.did(act));
            }
        }
    }
}
