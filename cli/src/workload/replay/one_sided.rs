//! Puts, and the signals that come with them: counters of ranks to which others add, and from which each rank takes what it waited for.
//!
//! ```text
//!     rank 0   put 1 MB, signal `halo` ---- the machine's time ---> there: counter +1      the put is over as well
//!     rank 1   wait `halo` ........................................ takes 1, and goes on
//! ```
//!
//! This is what ranks do that run on a declared machine (`src/fabric/live/one_sided.rs`): a put begins at once, without a launch, and
//! lasts until its bytes are there. A wait takes the signals of anybody; waits of one counter take in the order in which they begin.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use penny::sim::topology::Network;

use super::super::program::{Put, Signal, Work, Workload};
use super::{Admitted, Player};

/// A counter of a rank.
#[derive(Default)]
struct Counter {
    /// Signals that have come and are not taken.
    there: u64,
    /// Nodes that wait, by rank and number, and for how many.
    waiting: VecDeque<((u32, u32), u64)>,
}

/// The counters of all ranks, by rank and number.
#[derive(Default)]
pub(super) struct Counters(HashMap<(u32, u32), Counter>);

/// A put whose bytes are not all there.
#[derive(Default)]
pub(super) struct PutUnderWay {
    /// Ways on which they are missing.
    missing: usize,
    /// When the last that came were there.
    latest_ps: u64,
}

impl Counters {
    /// Returns the counters before anything has happened: slots of mailboxes are free.
    pub(super) fn of(workload: &Workload) -> Counters {
        let mut counters = Counters::default();
        workload.slots.iter().for_each(|&slots| drop(counters.give(slots)));
        counters
    }

    /// Adds signals. Returns the nodes whose wait is over, each with its rank.
    fn give(&mut self, signal: Signal) -> Vec<(u32, u32)> {
        let counter = self.0.entry((signal.rank, signal.counter)).or_default();
        counter.there = counter.there.saturating_add(signal.count);
        counter.take()
    }

    /// A node begins to wait. Returns the nodes whose wait is over, each with its rank.
    fn wait(&mut self, by: (u32, u32), signal: Signal) -> Vec<(u32, u32)> {
        let counter = self.0.entry((signal.rank, signal.counter)).or_default();
        counter.waiting.push_back((by, signal.count));
        counter.take()
    }

    /// Returns the first rank that waits, its node, and the counter of which rank.
    fn waiting(&self) -> Option<((u32, u32), u32, u32)> {
        let waiting = self.0.iter().filter_map(|(&(rank, counter), waits)| {
            waits.waiting.front().map(|&(by, _)| (by, counter, rank))
        });
        waiting.min()
    }
}

impl Counter {
    fn take(&mut self) -> Vec<(u32, u32)> {
        let mut over = Vec::new();
        while let Some(&(by, count)) = self.waiting.front()
            && count <= self.there
        {
            self.there -= count;
            self.waiting.pop_front();
            over.push(by);
        }
        over
    }
}

/// Checks that the machine's mailboxes have the threads that a put names.
pub(super) fn check_threads(put: &Put, network: &Network) -> Result<(), String> {
    let Some(mailbox) = network.mailbox else { return Ok(()) };
    match put.to.iter().find(|(_, threads)| threads.checked_shr(mailbox.threads).unwrap_or(0) > 0) {
        None => Ok(()),
        Some((to, threads)) => Err(format!(
            "names thread {} of rank {to}'s mailbox, and a mailbox of {} has {}; name threads below that",
            threads.ilog2(),
            network.name,
            mailbox.threads
        )),
    }
}

impl Player<'_> {
    /// A put begins, which has its slots. Those of one moment set out together.
    pub(super) fn put(&mut self, rank: u32, node: u32, put: &Put, now_ps: u64) -> Result<(), String> {
        let missing = put.to.iter().filter(|&&(to, _)| to != put.from).count();
        if missing == 0 {
            return self.hand_out(rank, node, put, now_ps);
        }
        self.puts.insert((rank, node), PutUnderWay { missing, latest_ps: now_ps });
        self.setting_out.push((rank, node));
        Ok(())
    }

    /// The puts of this moment set out to all their ranks at once, in the order in which ranks that run take their turns: from the last
    /// place to the first.
    pub(super) fn set_out(&mut self, now_ps: u64) -> Result<(), String> {
        let mut puts = std::mem::take(&mut self.setting_out);
        puts.sort_by_key(|&(rank, _)| Reverse(self.stage.places[rank as usize]));
        for (rank, node) in puts {
            let Work::Put(put) = self.work(rank, node) else { continue };
            let carried = self.sizes[&put.bytes].clone();
            for &(to, _) in put.to.iter().filter(|&&(to, _)| to != put.from) {
                let places = [put.from, to].map(|rank| self.stage.places[rank as usize]);
                self.admit(Admitted::Copy(rank, node), &carried, &places, &[now_ps; 2])?;
            }
        }
        Ok(())
    }

    /// The bytes of a put have come to one of its ranks.
    pub(super) fn arrived(&mut self, rank: u32, node: u32, at_ps: u64) -> Result<(), String> {
        let under_way = self.puts.entry((rank, node)).or_default();
        under_way.latest_ps = under_way.latest_ps.max(at_ps);
        under_way.missing -= 1;
        let &mut PutUnderWay { missing, latest_ps } = under_way;
        match self.work(rank, node) {
            Work::Put(put) if missing == 0 => self.hand_out(rank, node, put, latest_ps),
            _ => Ok(()),
        }
    }

    /// All bytes of a put are there: mailboxes hand them out, each one copy after the other.
    fn hand_out(&mut self, rank: u32, node: u32, put: &Put, now_ps: u64) -> Result<(), String> {
        let mut delivery: HashMap<u32, u64> = HashMap::new();
        if let Some(mailbox) = self.stage.network.mailbox {
            for &(to, threads) in put.to.iter().filter(|(_, threads)| *threads > 0) {
                let sum = delivery.entry(to).or_default();
                *sum = sum.saturating_add(mailbox.delivery_ps(threads));
            }
        }
        let end_ps = self.after(now_ps, delivery.into_values().max().unwrap_or(0))?;
        self.over.push(Reverse((end_ps, rank, node)));
        Ok(())
    }

    /// A node is over: if it is a put, its signals are given.
    pub(super) fn give_signals(&mut self, rank: u32, node: u32, now_ps: u64) -> Result<(), String> {
        let Work::Put(put) = self.work(rank, node) else { return Ok(()) };
        let begin_ps = self.times(rank, node).begin_ps;
        self.mail.deliver(put);
        put.signals.iter().try_for_each(|&signal| self.give(signal, begin_ps, now_ps))
    }

    /// Gives signals of something that began at `begin_ps`.
    pub(super) fn give(&mut self, signal: Signal, begin_ps: u64, now_ps: u64) -> Result<(), String> {
        for by in self.counters.give(signal) {
            // The wait is being done from when the put has begun, or from when its rank came.
            let times = self.times(by.0, by.1);
            times.begin_ps = times.ready_ps.max(begin_ps);
            self.has_waited(by, now_ps)?;
        }
        Ok(())
    }

    /// A node begins to wait.
    pub(super) fn wait(&mut self, by: (u32, u32), signal: Signal, now_ps: u64) -> Result<(), String> {
        let over = self.counters.wait(by, signal);
        over.into_iter().try_for_each(|by| self.has_waited(by, now_ps))
    }

    /// A node's wait is over: a put goes on to the next mailbox, or sets out.
    fn has_waited(&mut self, (rank, node): (u32, u32), now_ps: u64) -> Result<(), String> {
        match self.work(rank, node) {
            Work::Put(put) => self.has_claimed(rank, node, put, now_ps),
            _ => {
                self.over.push(Reverse((now_ps, rank, node)));
                Ok(())
            }
        }
    }

    /// Nothing happens any more. `Err`: a rank still waits for signals.
    pub(super) fn ended(&self) -> Result<(), String> {
        let Some(((rank, node), counter, of)) = self.counters.waiting() else { return Ok(()) };
        if matches!(self.work(rank, node), Work::Put(_)) {
            return Err(format!(
                "the workload would never end: {} waits for a free slot of rank {of}'s mailbox, and who would free one waits as well; \
                 receive and free before, or give the mailbox more slots",
                self.workload.named(rank as usize, node)
            ));
        }
        Err(format!(
            "the workload would never end: {} waits for signals of `{}`, and who would give them waits as well; give them before, or \
             take a dependency out",
            self.workload.named(rank as usize, node),
            self.workload.counters[counter as usize]
        ))
    }
}
