//! The clock of a machine whose ranks run on several hosts.
//!
//! ```text
//!     host of rank 0      its segment has every rank's calls; a token of each other host counts as running; runs the engine
//!     host b              its segment has the calls of its own ranks
//!
//!     b   nobody runs:  calls, rest ------------->  the token of b counts no more;  nobody runs:  engine
//!     b   its ranks run <------------- exits, batch  the token of b counts again
//! ```
//!
//! Each host has a clock segment. What a rank does on its own host is as it is on a machine of one host; only where a process would run
//! the engine, one of another host than rank 0's tells the calls of its host that the engine does not know, and that its host rests. When the
//! engine has served calls of that host, it counts as running until it has taken the exits in and rests again. So the engine runs when nobody runs anywhere, as on
//! one host, and its times are the same. A store to the memory of a rank of another host is told by way of the engine's host, too, which counts that rank's host as
//! running before it hears that the one who stores rests. Messages go by way of the meeting's server, and every process hears them (`host_inbox.rs`).

use super::clock_segment::{ABANDONED, FREE, INSIDE, POSTED, SERVED};
use super::host_inbox::Inbox;
use super::host_messages::{Account, ExitOf, HostMessage, POSTS_AT_ONCE, SERVED_AT_ONCE, words_of};
use super::participant::Participant;
use crate::error::{Error, Result};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::clock;
use crate::types::Rank;
use std::io;
use std::sync::OnceLock;

/// Tells all processes of other hosts something.
pub type Tell = Box<dyn Fn(&[u8]) -> io::Result<()> + Send + Sync>;

/// The hosts of a machine's ranks, if they are several.
pub(super) struct ClockHosts {
    /// By rank, the first rank of its host, by which hosts are named.
    first_of: Box<[Rank]>,
    pub here: Rank,
    tell: OnceLock<Tell>,
    pub inbox: Mutex<Inbox>,
    /// No engine will answer any more.
    is_alone: AtomicBool,
    /// The engine's runs at the last look at ranks that wait, and the time of the first look with as many.
    looked: Mutex<(u64, u64)>,
}

impl ClockHosts {
    /// The hosts of ranks that `first_of` tells by rank, as the first rank of each; `None` if there is one.
    pub fn new(first_of: &[Rank], place: Rank) -> Option<ClockHosts> {
        let here = first_of[place as usize];
        first_of.iter().any(|&first| first != here).then(|| ClockHosts {
            first_of: first_of.into(),
            here,
            tell: OnceLock::new(),
            inbox: Mutex::default(),
            is_alone: AtomicBool::new(false),
            looked: Mutex::default(),
        })
    }

    /// Does this host run the engine?
    pub fn has_engine(&self) -> bool {
        self.here == 0
    }

    /// The ranks of a host.
    pub fn ranks(&self, host: Rank) -> impl Iterator<Item = Rank> {
        (0..).zip(&self.first_of).filter(move |&(_, &first)| first == host).map(|(rank, _)| rank)
    }

    /// The other hosts.
    pub fn others(&self) -> impl Iterator<Item = Rank> {
        (0..)
            .zip(&self.first_of)
            .filter(|&(rank, &first)| first == rank && first != self.here)
            .map(|(rank, _)| rank)
    }

    pub fn has(&self, host: Rank, rank: Rank) -> bool {
        self.first_of.get(rank as usize) == Some(&host)
    }

    pub fn host_of(&self, rank: Rank) -> Option<&Rank> {
        self.first_of.get(rank as usize)
    }

    /// No engine will answer any more.
    pub fn leave_alone(&self) {
        self.is_alone.store(true, Ordering::Release);
    }
}

impl Participant {
    /// Returns the ranks of this host that count as running at the beginning, and what else does.
    pub(super) fn present_at_first(first_of: &[Rank], place: Rank) -> (Vec<Rank>, u32) {
        let here = first_of[place as usize];
        let own = (0..).zip(first_of).filter(|&(_, &first)| first == here).map(|(rank, _)| rank).collect();
        let hosts = (0..).zip(first_of).filter(|&(rank, &first)| first == rank).count() as u32;
        (own, if here == 0 { hosts - 1 } else { 0 })
    }

    /// Tells whether a rank runs on this host.
    pub(super) fn is_here(&self, rank: Rank) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.has(hosts.here, rank))
    }

    /// Notes the process of a rank of another host.
    pub fn note_process(&self, rank: Rank, pid: u32) {
        if !self.is_here(rank) {
            self.clock_segment().place(rank).pid.store(pid, Ordering::Release);
        }
    }

    /// Connects it to the processes of other hosts.
    pub fn connect(&self, tell: Tell) {
        if let Some(hosts) = &self.hosts {
            let _ = hosts.tell.set(tell);
        }
    }

    /// Tells whether the ranks run on several hosts.
    pub fn is_across_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// Tells whether this host runs the engine, and knows the machine's counters.
    pub fn has_engine(&self) -> bool {
        self.hosts.as_ref().is_none_or(ClockHosts::has_engine)
    }

    /// Fails if no engine will answer any more what this rank posts.
    pub(super) fn check_engine(&self) -> Result<()> {
        match &self.hosts {
            Some(hosts) if hosts.is_alone.load(Ordering::Acquire) => Err(Error::remote(
                "the ranks on the host of rank 0, which keeps the declared machine's clock, have left, or the connection to them is lost; have \
                 them leave last",
            )),
            _ => Ok(()),
        }
    }

    /// Nothing was heard for a while: counts threads out that are in their own programs, on all hosts, if ranks have waited for longer than the
    /// grace period.
    pub(super) fn look_across(&self, hosts: &ClockHosts) {
        let (board, now_ns) = (self.clock_segment(), clock::now_ns());
        let waits = |host: Rank| board.place(host).host_batches.load(Ordering::Acquire) % 2 == 1;
        let is_inside = |rank: Rank| board.threads(rank).iter().any(|thread| thread.now() == INSIDE);
        let runs = board.header().runs.load(Ordering::Acquire);
        let mut looked = hosts.looked.lock();
        if looked.0 != runs || !(hosts.others().any(waits) || hosts.ranks(hosts.here).any(is_inside)) {
            *looked = (runs, now_ns);
        }
        let grace_ns = self.machine().grace_ns;
        if grace_ns != 0 && now_ns.saturating_sub(looked.1) > grace_ns {
            let _ = self.say(hosts, &HostMessage::Hurry);
            self.count_out_stragglers(0);
        }
    }

    /// Tells the other hosts a message, with the next number of this host's. Ends all calls if it cannot: they would wait for that number.
    pub(super) fn say(&self, hosts: &ClockHosts, message: &HostMessage) -> Result<()> {
        // A rank that is not connected leaves before it has joined, which the meeting tells all.
        let Some(tell) = hosts.tell.get() else { return Ok(()) };
        let told = &self.clock_segment().place(hosts.here).host_messages;
        let number = told.fetch_add(1, Ordering::AcqRel) + 1;
        let bytes = [&number.to_le_bytes()[..], &message.bytes()].concat();
        tell(&bytes).map_err(|e| {
            let lost = Error::remote(format!(
                "the clock of the declared machine needs the connection to where the ranks of all hosts have met, which is lost: {e}; \
                 check the network, have the ranks on the host of rank 0 leave last, and start the job again"
            ));
            self.halt(&lost);
            lost
        })
    }

    /// Tells the engine's host that no thread of this host runs, and the calls that it does not know.
    pub(super) fn tell_rest(&self) {
        let Some(hosts) = &self.hosts else { return };
        // ORDER: before the look at `running`; partner: `taken_in`. So what these batches have made run has come to rest.
        let batches = self.clock_segment().place(hosts.here).host_batches.load(Ordering::Acquire);
        if self.clock_segment().header().running.load(Ordering::Acquire) != 0 {
            return;
        }
        let rest = HostMessage::Rest { host: hosts.here, batches };
        let _ = self.tell_posts(hosts).and_then(|()| self.say(hosts, &rest));
    }

    fn tell_posts(&self, hosts: &ClockHosts) -> Result<()> {
        let board = self.clock_segment();
        for place in hosts.ranks(hosts.here) {
            for (number, ticket) in (0..).zip(board.used_tickets(place)) {
                let turn = ticket.turn.load(Ordering::Relaxed);
                // ORDER: partner of the store in `Participant::post`.
                let is_posted = matches!(ticket.state.load(Ordering::Acquire), POSTED | ABANDONED);
                if !is_posted || ticket.told_turn.load(Ordering::Relaxed) == turn.into() {
                    continue;
                }
                let all = board.posts(place, number as usize, ticket.posts.load(Ordering::Relaxed) as usize);
                for (at, lines) in (0..).step_by(POSTS_AT_ONCE).zip(all.chunks(POSTS_AT_ONCE)) {
                    let posts = lines.iter().map(words_of).collect();
                    let total = all.len() as u32;
                    self.say(hosts, &HostMessage::Posts { place, ticket: number, turn, at, total, posts })?;
                }
                ticket.told_turn.store(turn.into(), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// A call was withdrawn that the engine may know.
    pub(super) fn tell_withdrawn(&self, ticket: usize, turn: u32) {
        if let Some(hosts) = self.hosts.as_ref().filter(|hosts| !hosts.has_engine()) {
            let ticket = ticket as u32;
            let _ = self.say(hosts, &HostMessage::Withdrawn { place: self.place(), ticket, turn });
        }
    }

    /// The engine has run: tells other hosts which of their calls are served, and counts each as running from now on.
    pub(super) fn tell_served(&self) {
        let Some(hosts) = &self.hosts else { return };
        let (board, header) = (self.clock_segment(), self.clock_segment().header());
        for host in hosts.others() {
            let mut exits = Vec::new();
            for place in hosts.ranks(host) {
                for (number, ticket) in (0..).zip(board.used_tickets(place)) {
                    if ticket.state.load(Ordering::Acquire) == SERVED {
                        let (turn, exit_ps) =
                            (ticket.turn.load(Ordering::Relaxed), ticket.exit_ps.load(Ordering::Relaxed));
                        exits.push(ExitOf { place, ticket: number, turn, exit_ps });
                        ticket.state.store(FREE, Ordering::Release);
                    }
                }
            }
            if exits.is_empty() {
                continue;
            }
            self.expect(hosts, host);
            // The engine has counted each of them: the token stands for all.
            header.running.fetch_sub(exits.len() as u32, Ordering::AcqRel);
            let parts = exits.chunks(SERVED_AT_ONCE).collect::<Vec<_>>();
            for (at, part) in parts.iter().enumerate() {
                let is_last = at + 1 == parts.len();
                let message =
                    HostMessage::Served { host, is_last, account: Account::of(header), exits: part.to_vec() };
                if self.say(hosts, &message).is_err() {
                    return;
                }
            }
        }
    }

    /// Counts a host as running until it has taken in a batch more, of which it is told next. The caller has seen to it that another thread or host counts.
    fn expect(&self, hosts: &ClockHosts, host: Rank) {
        let batches = &self.clock_segment().place(host).host_batches;
        let next = |now: u64| Some((now | 1) + 1);
        let before =
            batches.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or_else(|now| now);
        if before % 2 == 1 {
            self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
        }
        // It takes in nothing any more if its ranks have left, which may have been heard just before.
        if self.have_left(hosts, host) {
            self.gives_back(host);
        }
    }

    /// A store was made at this rank's clock to the memory of a rank of another host.
    pub(super) fn tell_stored(&self, hosts: &ClockHosts, place: Rank, at_ps: u64) {
        match hosts.has_engine() {
            true => self.pass_stored(hosts, place, at_ps),
            // This host counts as running until it tells that it rests, which is heard after this.
            false => drop(self.say(hosts, &HostMessage::Stored { place, at_ps })),
        }
    }

    /// Tells a rank's host of a store to that rank's memory.
    pub(super) fn pass_stored(&self, hosts: &ClockHosts, place: Rank, at_ps: u64) {
        if let Some(&host) = hosts.host_of(place) {
            self.expect(hosts, host);
            let _ = self.say(hosts, &HostMessage::Woken { place, at_ps });
        }
    }

    /// Tells the engine's host that ranks store to each other's memory.
    pub(super) fn tell_exact(&self) {
        if let Some(hosts) = self.hosts.as_ref().filter(|hosts| !hosts.has_engine()) {
            let _ = self.say(hosts, &HostMessage::Exact);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "hosts_tests.rs"]
pub mod tests;
