//! Faults that a file declares: the data is right, the time shows them, the counters tell them.

use super::{barrier, on_machine, outcome, timed};
use crate::algorithms;
use crate::comm;
use crate::error::Code;
use crate::topology;
use crate::types::Collective;
use std::sync::Mutex;

/// A machine of four places of class w, in a file that goes with the value.
pub(super) struct Declared(std::path::PathBuf);

impl Declared {
    /// Its shape, and what is wrong with it.
    pub(super) fn new(name: &str, shape: &str) -> Declared {
        let text = format!(
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"100ns\"\nmtu = \"1000B\"\n\
             {shape}"
        );
        Declared::whole(name, &text)
    }
    /// A whole file.
    fn whole(name: &str, text: &str) -> Declared {
        let path = std::env::temp_dir().join(format!("penny-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Declared(path)
    }
    pub(super) fn spec(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const COUNT: usize = 10_000;
/// Four places on a switch.
const SWITCH: &str = "[switch]\nplaces = 4\nport = \"w\"\n";

fn suffer(name: &str, fault: &str) -> [u64; 4] {
    suffer_on(4, &Declared::new(name, &format!("{SWITCH}{fault}")), COUNT)
}

/// A ring over the first ranks, twice: its times are the engine's, and so are the counters of the first. Tells errors and
/// resends of all ports, the last exit and the trace.
fn suffer_on(n: u32, file: &Declared, count: usize) -> [u64; 4] {
    let network = topology::open(file.spec()).unwrap();
    let algorithm = algorithms::index("ring");
    let places: Vec<u32> = (0..n).collect();
    let expected = outcome(&network, &places, algorithm, Collective::AllReduce, count);
    let seen = Mutex::new(None);
    on_machine(n, file.spec(), "virtual", "allreduce:ring", |rank, comm| {
        let took = timed(rank, n, comm, Collective::AllReduce, count);
        assert_eq!(took, expected.exit_ps[rank as usize]);
        if rank == 0 {
            // The others wait in the barrier below, so nothing else is on the machine.
            let (_, counters) = comm::fabric_counters(comm).unwrap();
            assert_eq!(counters, expected.counters);
            let (_, clock_stats) = comm::fabric_account(comm).unwrap();
            let sum = |of: fn(&crate::fabric::PortCounters) -> u64| counters.iter().map(of).sum::<u64>();
            let last = expected.exit_ps.iter().max().copied().unwrap();
            *seen.lock().unwrap() = Some([sum(|c| c.errors), sum(|c| c.resends), last, clock_stats.trace]);
        }
        barrier(comm).unwrap();
        timed(rank, n, comm, Collective::AllReduce, count);
    });
    seen.into_inner().unwrap().unwrap()
}

#[test]
fn a_link_that_goes_down_shows_in_the_time_and_not_in_the_data() {
    let [_, _, sound_ps, _] = suffer("sound", "");
    let fault =
        "[[fault]]\nlink = \"g1.tx\"\nkind = \"down\"\nat = \"5us\"\nfor = \"1ms\"\nretrain = \"100us\"\n";
    let [errors, resends, down_ps, _] = suffer("down", fault);
    assert_eq!((errors, resends), (0, 1));
    let longer = down_ps - sound_ps;
    assert!((1_080_000_000..=1_110_000_000).contains(&longer), "{longer} ps longer");
}

#[test]
fn an_ethernet_link_that_retrains_under_a_collective_makes_it_late_and_not_wrong() {
    let preset = topology::presets().iter().find(|(name, _)| *name == "t3000").unwrap().1;
    for termination in ["message_count", "worker_initiated"] {
        retrains(
            &preset
                .replace("optional = true", &format!("payload = \"4KiB\"\ntermination = \"{termination}\"")),
        );
    }
}

/// A link of a machine of eight chips goes down under an all-reduce, and retrains.
fn retrains(text: &str) {
    let on =
        |name: &str, fault: &str| suffer_on(8, &Declared::whole(name, &format!("{text}{fault}")), 100_000);
    let [_, _, sound_ps, _] = on("trained", "");
    // Both directions of an edge that the ring passes, while a slice is on the way.
    let down = |link: &str| {
        format!(
            "[[fault]]\nlink = \"{link}\"\nkind = \"down\"\nat = \"20us\"\nfor = \"10us\"\nretrain = \"1ms\"\n"
        )
    };
    let [errors, resends, late_ps, _] = on("retrained", &(down("g0.*") + &down("g2.x*")));
    assert_eq!(errors, 0);
    assert!(resends > 0 && resends <= 12, "{resends} resends");
    // The millisecond, less what other links did meanwhile, and what was on the wire.
    let longer = late_ps - sound_ps;
    assert!((900_000_000..=1_012_000_000).contains(&longer), "{longer} ps longer than {sound_ps}");
}

#[test]
fn damaged_messages_are_counted_as_often_as_they_are_sent_again_and_alike_every_time() {
    let fault = |seed: u32| {
        format!("[[fault]]\nlink = \"g*.tx\"\nkind = \"crc\"\nrate = 0.3\nretries = 30\nseed = {seed}\n")
    };
    let seen = [1, 1, 2].map(|seed| suffer(&format!("crc{seed}"), &fault(seed)));
    assert!(seen.iter().all(|[errors, resends, ..]| errors == resends && *errors > 0), "{seen:?}");
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
}

#[test]
fn a_link_past_its_retries_fails_every_rank_by_its_name() {
    let fault = "[[fault]]\nlink = \"g2.tx\"\nkind = \"crc\"\nrate = 1.0\nretries = 2\nseed = 1\n";
    let file = Declared::new("broken", &format!("{SWITCH}{fault}"));
    let errors = Mutex::new(Vec::new());
    on_machine(4, file.spec(), "virtual", "allreduce:ring", |_, comm| {
        // A barrier is a reduction on the machine, and passes that link too.
        let error = barrier(comm).unwrap_err();
        assert!(barrier(comm).is_err(), "nothing can end on this machine any more");
        errors.lock().unwrap().push(error);
    });
    let errors = errors.into_inner().unwrap();
    assert_eq!(errors.len(), 4);
    let named =
        |e: &crate::error::Error| e.code == Code::RemoteError && e.message.contains("link g2.tx damaged");
    assert!(errors.iter().all(named), "{errors:?}");
}
