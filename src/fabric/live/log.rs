//! The state of the world between two runs of the engine, as words in the clock segment.
//!
//! ```text
//!     ports (free from when, counters)  +  the calls admitted since, with their entries  =  the world
//! ```
//!
//! The engine is deterministic, so nobody writes down what is in the middle of a wire: a process that has to run it next
//! begins at the ports and admits the logged calls again, up to [`Journal::handled_ps`]; the one that ran it last
//! just goes on. When nothing is under way the ports are written anew, and the log is empty again.

use super::clock_segment::{ClockSegment, LOG, PORT, POSTS, SPEC, TICKETS};
use crate::error::{Error, Result};
use crate::fabric::{PortCounters, PortState};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::types::Rank;

/// The clock segment as the engine's runner uses it.
pub struct Journal<'a> {
    pub clock_segment: &'a ClockSegment,
}

/// A call in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub spec: [u64; SPEC],
    pub members: Vec<LoggedMember>,
}

/// A member of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedMember {
    pub rank: Rank,
    pub ticket: u32,
    /// The number of the ticket's use: a withdrawn use gets no answer.
    pub turn: u32,
    /// Index of its post in the ticket.
    pub post: u32,
    pub entry_ps: u64,
}

/// Uses of a ticket that the log tells apart.
pub const TURNS: u32 = 0xff_ffff;
const _: () = assert!(TICKETS <= 256 && POSTS <= 4096);

/// Words of a call, and of each member.
const CALL: usize = SPEC + 1;
const MEMBER: usize = 2;

#[cold]
fn overwritten() -> Error {
    Error::remote(
        "the log of the declared machine was overwritten; abort its communicators and make new ones",
    )
}

impl<'a> Journal<'a> {
    pub fn new(clock_segment: &'a ClockSegment) -> Journal<'a> {
        Journal { clock_segment }
    }

    fn word(&self, at: usize) -> u64 {
        self.clock_segment.log()[at].load(Ordering::Relaxed)
    }

    pub fn epoch(&self) -> u64 {
        self.clock_segment.header().epoch.load(Ordering::Acquire)
    }

    /// Words in use.
    pub fn len(&self) -> usize {
        (self.clock_segment.header().logged.load(Ordering::Acquire) as usize).min(LOG)
    }

    /// Tells whether ranks see each other's stores, so that no rank may run ahead of the first one that is done.
    pub fn is_exact(&self) -> bool {
        self.clock_segment.header().exact.load(Ordering::Relaxed) != 0
    }

    pub fn handled_ps(&self) -> u64 {
        self.clock_segment.header().handled_ps.load(Ordering::Acquire)
    }

    pub fn set_handled(&self, at_ps: u64) {
        self.clock_segment.header().handled_ps.store(at_ps, Ordering::Release);
    }

    /// Tells whether there is room for calls with these numbers of members.
    pub fn has_room(&self, members: impl Iterator<Item = usize>) -> bool {
        self.len() + members.map(|members| CALL + MEMBER * members).sum::<usize>() <= LOG
    }

    pub fn append(&self, call: &Logged) -> Result<()> {
        if !self.has_room([call.members.len()].into_iter()) {
            return Err(Error::internal("the log of the calls under way is full"));
        }
        let at = self.len();
        let head = call.spec.iter().copied().chain([call.members.len() as u64]);
        let members = call.members.iter().flat_map(|member| {
            let who = (member.rank as u64) << 44 | (member.turn as u64) << 20;
            [who | (member.ticket as u64) << 12 | member.post as u64, member.entry_ps]
        });
        let mut end = at;
        for (word, value) in self.clock_segment.log()[at..].iter().zip(head.chain(members)) {
            word.store(value, Ordering::Relaxed);
            end += 1;
        }
        self.clock_segment.header().logged.store(end as u64, Ordering::Release);
        Ok(())
    }

    /// The call at a position, and where the next one begins. An error if no rank can have written it.
    pub fn read(&self, at: usize) -> Result<(Logged, usize)> {
        let places = self.clock_segment.places();
        let room = LOG.saturating_sub(at + CALL) / MEMBER;
        // A plan for more members than there are ranks may take for ever to make.
        let count = if at + CALL <= LOG { self.word(at + SPEC) as usize } else { 0 };
        if count == 0 || count > room.min(places as usize) {
            return Err(overwritten());
        }
        let spec = std::array::from_fn(|i| self.word(at + i));
        let members = (0..count).map(|i| {
            let who = self.word(at + CALL + MEMBER * i);
            LoggedMember {
                rank: (who >> 44) as Rank,
                turn: (who >> 20) as u32 & TURNS,
                ticket: (who >> 12 & 0xff) as u32,
                post: (who & 0xfff) as u32,
                entry_ps: self.word(at + CALL + MEMBER * i + 1),
            }
        });
        let members: Vec<LoggedMember> = members.collect();
        let sound = |member: &LoggedMember| {
            let ticket = member.ticket as usize;
            member.rank < places && ticket < TICKETS && (member.post as usize) < ClockSegment::room(ticket)
        };
        if !members.iter().all(sound) {
            return Err(overwritten());
        }
        Ok((Logged { spec, members }, at + CALL + MEMBER * count))
    }

    /// Returns the ports as of the beginning of the log.
    pub fn ports(&self) -> Vec<PortState> {
        let port = |words: &[AtomicU64]| {
            let [free_ps, bytes, messages, busy_ps, queue_high, errors, resends, down_ps] =
                std::array::from_fn::<u64, PORT, _>(|i| words[i].load(Ordering::Relaxed));
            let queue_high = queue_high as u32;
            let counters = PortCounters { bytes, messages, busy_ps, queue_high, errors, resends, down_ps };
            PortState { free_ps, counters }
        };
        self.clock_segment.ports().chunks_exact(PORT).map(port).collect()
    }

    /// Restarts the log with these ports when no call is in progress.
    pub fn begin(&self, ports: &[PortState]) {
        for (words, port) in self.clock_segment.ports().chunks_exact(PORT).zip(ports) {
            let PortCounters { bytes, messages, busy_ps, queue_high, errors, resends, down_ps } =
                port.counters;
            let queue_high = queue_high as u64;
            for (word, value) in words.iter().zip([
                port.free_ps,
                bytes,
                messages,
                busy_ps,
                queue_high,
                errors,
                resends,
                down_ps,
            ]) {
                word.store(value, Ordering::Relaxed);
            }
        }
        let header = self.clock_segment.header();
        header.logged.store(0, Ordering::Relaxed);
        header.handled_ps.store(0, Ordering::Relaxed);
        header.epoch.fetch_add(1, Ordering::Release);
    }
}
