//! What a rank hears of other hosts, and what becomes of it on its own.

use super::clock_segment::{ABANDONED, ClockSegment, FREE, POSTED, SERVED, TICKETS, Ticket};
use super::host_inbox::Inbox;
use super::host_messages::{Account, ExitOf, HostMessage, POST, store_words};
use super::hosts::ClockHosts;
use super::participant::Participant;
use crate::error::Result;
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// What a rank hears of other hosts.
pub enum HostNews<'a> {
    /// A rank's message for the processes of other hosts.
    Message {
        /// The rank.
        from: Rank,
        /// The message.
        bytes: &'a [u8],
    },
    /// A rank's process has died.
    Death(Rank),
    /// A rank has left.
    Left(Rank),
    /// Nothing more will be heard.
    Silence,
    /// Nothing was heard for a while.
    Nothing,
}

impl Participant {
    /// Takes in what is heard of other hosts.
    pub fn hear(&self, news: &HostNews<'_>) {
        let Some(hosts) = &self.hosts else { return };
        // Until this process is done with it: `Participant::depart` waits for that.
        let mut inbox = hosts.inbox.lock();
        if inbox.is_closed {
            return;
        }
        if let HostNews::Message { from, bytes } = *news
            && let Some(&host) = hosts.host_of(from)
        {
            inbox.keep(host, bytes);
        }
        self.take_in_kept(hosts, &mut inbox);
        match *news {
            HostNews::Message { .. } => {}
            HostNews::Death(rank) => self.halt(&self.death(rank)),
            HostNews::Left(rank) => self.left(hosts, rank, &mut inbox),
            HostNews::Silence => {
                self.settle(hosts, &mut inbox);
                hosts.leave_alone();
            }
            HostNews::Nothing if self.is_first_here(hosts) && hosts.has_engine() => self.look_across(hosts),
            HostNews::Nothing => {}
        }
    }

    /// Is this rank the first of those of its host that have not left?
    fn is_first_here(&self, hosts: &ClockHosts) -> bool {
        let is_there = |&rank: &Rank| self.clock_segment().place(rank).left.load(Ordering::Acquire) == 0;
        hosts.ranks(hosts.here).find(is_there) == Some(self.place())
    }

    /// A rank has left.
    fn left(&self, hosts: &ClockHosts, rank: Rank, inbox: &mut Inbox) {
        let board = self.clock_segment();
        let Some(&host) = hosts.host_of(rank).filter(|&&host| host != hosts.here) else {
            return;
        };
        let is_first = board.place(rank).left.swap(1, Ordering::AcqRel) == 0;
        if !self.have_left(hosts, host) {
            return;
        }
        if host == 0 {
            self.settle(hosts, inbox);
            hosts.leave_alone();
        }
        if is_first && hosts.has_engine() {
            self.gives_back(host);
        }
    }

    /// Have all ranks of a host left?
    pub(super) fn have_left(&self, hosts: &ClockHosts, host: Rank) -> bool {
        let has_left = |rank: Rank| self.clock_segment().place(rank).left.load(Ordering::Acquire) != 0;
        hosts.ranks(host).all(has_left)
    }

    /// The token of a host that has left counts no more.
    pub(super) fn gives_back(&self, host: Rank) {
        // ORDER: one of those who see that all have left finds the token; partner: the count in `expect`.
        let batches = &self.clock_segment().place(host).host_batches;
        if batches.fetch_or(1, Ordering::AcqRel).is_multiple_of(2) {
            self.rest();
        }
    }

    /// The token of a host counts no more, which has taken in this many batches. False: it does not count, or was told of more.
    fn rests(&self, host: Rank, batches: u64) -> bool {
        let (now, then) = (batches.wrapping_mul(2), batches.wrapping_mul(2) + 1);
        let word = &self.clock_segment().place(host).host_batches;
        word.compare_exchange(now, then, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes in a message of another host, without its number.
    pub(super) fn take_in(&self, hosts: &ClockHosts, bytes: &[u8]) {
        let Some(message) = HostMessage::of(bytes) else { return };
        match message {
            HostMessage::Posts { place, ticket, turn, at, total, posts } if hosts.has_engine() => {
                if !hosts.has(hosts.here, place)
                    && let Err(e) = self.take_posts([place, ticket, turn, at, total], &posts)
                {
                    self.halt(&e);
                }
            }
            HostMessage::Rest { host, batches }
                if hosts.has_engine() && hosts.others().any(|other| other == host) =>
            {
                if self.rests(host, batches) {
                    self.rest();
                } else {
                    self.drive();
                }
            }
            HostMessage::Withdrawn { place, ticket, turn }
                if hosts.has_engine() && !hosts.has(hosts.here, place) =>
            {
                let Some(line) = ticket_of(self.clock_segment(), place, ticket) else { return };
                // Its posts may come later than this: another process of its host may just have been telling them.
                line.told_turn.store(turn.into(), Ordering::Relaxed);
                if line.turn.load(Ordering::Relaxed) == turn {
                    let _ = line.state.compare_exchange(POSTED, FREE, Ordering::AcqRel, Ordering::Acquire);
                }
            }
            HostMessage::Hurry => self.count_out_stragglers(0),
            HostMessage::Served { host, is_last, account, exits } if host == hosts.here => {
                self.taken_in(hosts, is_last, || self.take_exits(hosts, &account, &exits));
            }
            HostMessage::Stored { place, at_ps } if hosts.has_engine() => {
                match hosts.has(hosts.here, place) {
                    true => self.wake(place, at_ps),
                    false => self.pass_stored(hosts, place, at_ps),
                }
            }
            HostMessage::Woken { place, at_ps } if hosts.has(hosts.here, place) => {
                self.taken_in(hosts, true, || self.wake(place, at_ps));
            }
            HostMessage::Known { host, ps, asks } if hosts.others().any(|other| other == host) => {
                self.hear_known(hosts, host, ps, asks);
            }
            HostMessage::Exact if hosts.has_engine() => {
                self.clock_segment().header().exact.store(1, Ordering::Release);
            }
            _ => {}
        }
    }

    /// Writes calls of another host where the engine finds them.
    fn take_posts(&self, [place, ticket, turn, at, total]: [u32; 5], posts: &[[u64; POST]]) -> Result<()> {
        let board = self.clock_segment();
        let Some(line) = ticket_of(board, place, ticket) else { return Ok(()) };
        let end = at as usize + posts.len();
        if end > total as usize || total as usize > ClockSegment::room(ticket as usize) {
            return Ok(());
        }
        if line.told_turn.load(Ordering::Relaxed) == turn.into() {
            return Ok(());
        }
        if at == 0 {
            line.state.store(FREE, Ordering::Release);
            board.reserve_posts(place, ticket as usize, total as usize)?;
        }
        for (words, post) in posts.iter().zip(&board.posts(place, ticket as usize, end)[at as usize..]) {
            store_words(words, post);
        }
        if end == total as usize {
            line.turn.store(turn, Ordering::Relaxed);
            line.posts.store(total, Ordering::Relaxed);
            line.done.store(0, Ordering::Relaxed);
            line.exit_ps.store(0, Ordering::Relaxed);
            line.thread.store(0, Ordering::Relaxed);
            board.place(place).tickets_used.fetch_max(ticket + 1, Ordering::AcqRel);
            // ORDER: publishes the posts; partner: the collection in `Runner`.
            line.state.store(POSTED, Ordering::Release);
        }
        Ok(())
    }

    /// Takes in a batch, or a part of one, which lets threads of this host go on.
    fn taken_in(&self, hosts: &ClockHosts, is_last: bool, take: impl FnOnce()) {
        // Nothing is told before all of it is taken in.
        self.clock_segment().header().running.fetch_add(1, Ordering::AcqRel);
        take();
        if is_last {
            // ORDER: what goes on is counted before; partner: the load in `tell_rest`.
            self.clock_segment().place(hosts.here).host_batches.fetch_add(1, Ordering::AcqRel);
        }
        self.rest();
    }

    /// Has ranks of this host go on whose calls the engine has served.
    fn take_exits(&self, hosts: &ClockHosts, account: &Account, exits: &[ExitOf]) {
        let (board, header) = (self.clock_segment(), self.clock_segment().header());
        account.store(header);
        for &ExitOf { place, ticket, turn, exit_ps } in exits {
            let Some(line) = ticket_of(board, place, ticket).filter(|_| hosts.has(hosts.here, place)) else {
                continue;
            };
            if line.turn.load(Ordering::Relaxed) != turn {
                continue;
            }
            line.exit_ps.store(exit_ps, Ordering::Relaxed);
            board.place(place).clock_ps.fetch_max(exit_ps, Ordering::AcqRel);
            header.running.fetch_add(1, Ordering::AcqRel);
            // ORDER: publishes the exit; partner: the load in `Participant::leave`.
            if let Err(now) =
                line.state.compare_exchange(POSTED, SERVED, Ordering::Release, Ordering::Relaxed)
            {
                if now == ABANDONED {
                    line.state.store(FREE, Ordering::Release);
                }
                header.running.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.ring_served();
    }
}

fn ticket_of(board: &ClockSegment, place: Rank, ticket: u32) -> Option<&Ticket> {
    (place < board.places() && (ticket as usize) < TICKETS).then(|| &board.tickets(place)[ticket as usize])
}
