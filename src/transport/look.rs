//! What a process outside of a job reads of the job's ranks, for `penny top`. It writes nothing.

use super::arrival::Fingerprint;
use super::watch::call_text;
use crate::memory::control::call_counters::Amount;
use crate::memory::control::lines::Lines;
use crate::memory::control::{ABSENT, ALIVE, FAILED, LEFT, observed};
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::types::{Collective, Rank};
use std::fs::File;

/// The communicators in a file of a job.
pub struct Communicators(Vec<(u64, Lines)>);

/// A communicator at one look.
#[derive(Clone, Debug)]
pub struct CommunicatorLook {
    /// Where it lies in its file. The first one lies at 0.
    pub at: u64,
    /// Ranks in all.
    pub nranks: u32,
    /// The ranks of this host that have joined.
    pub ranks: Vec<RankLook>,
}

/// A rank at one look.
#[derive(Clone, Debug)]
pub struct RankLook {
    /// Its number.
    pub rank: Rank,
    /// Its process, by the number that it has where it lives.
    pub pid: u32,
    /// Whether it is a member, has left or has failed.
    pub state: &'static str,
    /// Calls of each collective that it has made.
    pub collectives: Vec<(Collective, Amount)>,
    /// Messages that it has sent.
    pub sent: Amount,
    /// Messages that it has received.
    pub received: Amount,
    /// The time for which it has waited, the present wait included.
    pub waited_ns: u64,
    /// The time for which the present wait has lasted.
    pub waiting_ns: Option<u64>,
    /// Its latest collective.
    pub last_call: Option<String>,
}

impl Communicators {
    /// Finds the communicators in a file. Those that are made later need another look.
    pub fn of(file: &File) -> Communicators {
        Communicators(observed(file).into_iter().map(|found| (found.at, found.lines)).collect())
    }

    /// Looks at them.
    pub fn look(&self) -> Vec<CommunicatorLook> {
        let one = |(at, lines): &(u64, Lines)| {
            let nranks = lines.layout().nranks();
            let ranks = (0..nranks).filter_map(|rank| RankLook::of(lines, rank)).collect();
            CommunicatorLook { at: *at, nranks, ranks }
        };
        self.0.iter().map(one).collect()
    }
}

impl RankLook {
    fn of(lines: &Lines, rank: Rank) -> Option<RankLook> {
        let life = lines.life(rank);
        let state = match life.state.load(Ordering::Acquire) {
            ABSENT => return None,
            ALIVE => "member",
            LEFT => "left",
            FAILED => "failed",
            _ => "unknown",
        };
        let waits = &lines.counters(rank).waits;
        let over_ns = waits.total_ns.load(Ordering::Relaxed);
        let since_ns = Some(waits.since_ns.load(Ordering::Relaxed)).filter(|&since_ns| since_ns != 0);
        let waiting_ns = since_ns.map(|since_ns| clock::now_ns().saturating_sub(since_ns));
        let counted = lines.counted(rank).unwrap_or_default();
        let call = |(number, said): (u64, [u64; 2])| {
            let call =
                Fingerprint::unpack(said[0], said[1]).map_or_else(|| "unknown".into(), |f| call_text(&f));
            format!("#{number} {call}")
        };
        Some(RankLook {
            rank,
            pid: life.pid.load(Ordering::Relaxed),
            state,
            collectives: Collective::ALL.iter().map(|&c| (c, counted.collectives[c as usize])).collect(),
            sent: counted.sent,
            received: counted.received,
            waited_ns: over_ns.saturating_add(waiting_ns.unwrap_or(0)),
            waiting_ns,
            last_call: counted.latest.map(call),
        })
    }
}
