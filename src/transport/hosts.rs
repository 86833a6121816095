//! What a rank knows of the hosts of others: their names for sentences, and what it keeps until it leaves.

use super::Transport;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sys::network::Interface;
use crate::sys::{clock, cpu};
use crate::types::Rank;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// The time that a frame may be under way when a communicator ends.
const MOMENT_NS: u64 = 100_000_000;

/// The hosts of a communicator's ranks, if they are several.
#[derive(Default)]
pub(super) struct Hosts {
    /// The interfaces of this host by which others reach this rank.
    rails: OnceLock<Vec<Interface>>,
    /// By rank.
    names: OnceLock<Box<[String]>>,
    /// By rank, a number that ranks of one host have in common.
    numbers: OnceLock<Box<[u32]>>,
    /// Dropped when the rank has said goodbye to far ranks, or its communicator has ended.
    kept: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Transport {
    /// Tells this rank the names of all ranks' hosts. Only the first counts.
    pub fn name_hosts(&self, names: Vec<String>) {
        let _ = self.hosts.names.set(names.into());
    }

    /// Tells this rank which ranks share a host: those have the same number. Only the first counts.
    pub fn number_hosts(&self, numbers: Vec<u32>) {
        if let Some(far) = &self.far {
            let _ = far.hosts.set(numbers.clone().into());
        }
        let _ = self.hosts.numbers.set(numbers.into());
    }

    /// Returns, by rank, a number that ranks of one host have in common; empty if there is one host.
    pub fn host_numbers(&self) -> &[u32] {
        self.hosts.numbers.get().map_or(&[], |numbers| numbers)
    }

    /// Tells this rank the interfaces by which others reach it. Only the first counts.
    pub fn set_rails(&self, rails: Vec<Interface>) {
        let _ = self.hosts.rails.set(rails);
    }

    /// Returns the interfaces by which others reach this rank.
    pub fn rails(&self) -> Vec<Interface> {
        self.hosts.rails.get().cloned().unwrap_or_else(|| vec![Interface::loopback()])
    }

    /// Returns a bit for each of them that is cut, and used no more.
    pub fn cut_rails(&self) -> u32 {
        self.far.as_ref().map_or(0, |far| far.link.cut_rails())
    }

    /// Keeps something until this rank has left the communicator and its link is closed. Only the first counts.
    pub fn keep_until_end(&self, kept: Arc<dyn Any + Send + Sync>) {
        self.hosts.kept.lock().get_or_insert(kept);
    }

    /// Returns what it keeps.
    pub fn kept(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.hosts.kept.lock().clone()
    }

    /// Keeps it no longer. The communicator has ended, and its process may, although something has a use for its lines yet.
    pub fn end_kept(&self) {
        let kept = self.hosts.kept.lock().take();
        drop(kept);
    }

    /// Takes over from `parent` what a communicator that is made from it needs to know of hosts. `members`: its ranks there.
    pub fn know_hosts(&self, parent: &Transport, members: &[Rank]) {
        if let Some(rails) = parent.hosts.rails.get() {
            self.set_rails(rails.clone());
        }
        if let Some(numbers) = parent.hosts.numbers.get() {
            self.number_hosts(members.iter().map(|&rank| numbers[rank as usize]).collect());
        }
        if let Some(names) = parent.hosts.names.get() {
            self.name_hosts(members.iter().map(|&rank| names[rank as usize].clone()).collect());
        }
    }

    /// Refuses what ranks of several hosts cannot do. `what` begins a sentence.
    pub fn refuse_several_hosts(&self, what: &str) -> Result<()> {
        let Some(far) = (0..self.nranks).find(|&rank| self.is_far(rank)) else { return Ok(()) };
        Err(Error::usage(format!(
            "{what} between ranks of several hosts is not there yet: rank {far} runs{}; do without it, or use a communicator of the ranks of \
             one host (pennyCommSplit)",
            self.on_host(far)
        )))
    }

    /// Returns " on HOST" for a far rank, to follow its PID in a sentence; empty for a near one.
    pub(super) fn on_host(&self, rank: Rank) -> String {
        let name = self.hosts.names.get().and_then(|names| names.get(rank as usize));
        match name.filter(|_| self.is_far(rank)) {
            Some(name) => format!(" on {name}"),
            None if self.is_far(rank) => " on another host".into(),
            None => String::new(),
        }
    }

    /// Returns how many ranks share memory with this one, itself among them.
    pub fn near_ranks(&self) -> u32 {
        (0..self.nranks).filter(|&r| !self.is_far(r)).count() as u32
    }

    /// Is this the first of the ranks that share its memory?
    pub fn is_first_of_its_host(&self) -> bool {
        (0..self.rank).all(|r| self.is_far(r))
    }

    /// Takes in what far ranks have sent, for a moment, until all have arrived at call `seq`.
    pub fn hear_far_arrivals(&self, seq: u64) {
        if !self.has_far() {
            return;
        }
        let until = clock::now_ns() + MOMENT_NS;
        let is_late = |rank: Rank| self.is_far(rank) && !self.has_arrived(rank, seq) && !self.has_left(rank);
        // BOUND: the moment.
        while (0..self.nranks).any(is_late) && clock::now_ns() < until {
            self.poll_far();
            cpu::yield_now();
        }
    }

    /// Wakes this rank's own threads, which may sleep in a call.
    pub fn wake_own(&self) {
        #[cfg(not(loom))]
        self.control.doorbell(self.rank).ring();
    }
}
