//! Several rails of a link: peers are greeted by each before anything else is sent, and asked by each when one is silent.

use super::peer_rails::Finding;
use super::rails::{Rails, obstacle, text};
use super::wire::{self, AHEAD, HEADER, Item};
use super::{FarPeer, Others, State};
use crate::error::{Error, Result};
use crate::log;
use crate::sys::clock;
use crate::types::Rank;
use std::time::Duration;

/// The time between two looks at rails.
const LOOK: Duration = Duration::from_millis(50);

impl Others {
    /// Returns how long nobody has to look after rails.
    pub(super) fn until_look(&self) -> Duration {
        let is_unheard = |peer: &FarPeer| !peer.is_gone() && peer.rails.is_unheard();
        match self.interfaces.len() {
            1 => self.until_tally(),
            _ if self.peers.iter().flatten().any(is_unheard) => LOOK,
            _ => Duration::MAX,
        }
    }

    /// Returns a rail to a rank for sentences, as " by eth0 (10.0.0.1 here, 10.0.0.2 there)"; empty if there is one only.
    pub(super) fn by_rail(&self, rank: Rank, rail: usize) -> String {
        let there = self.peers[rank as usize].as_ref().and_then(|peer| peer.address.rails.get(rail));
        match (there, self.interfaces.get(rail)) {
            (Some(there), Some(here)) if self.interfaces.len() > 1 => format!(" by {}", text(here, there.at)),
            _ => String::new(),
        }
    }

    /// Returns the rails to a rank that are not closed, for sentences.
    fn rails_left(&self, rank: Rank) -> String {
        let there = self.peers[rank as usize].iter().flat_map(|peer| &peer.address.rails);
        let open = there.zip(&self.interfaces).enumerate().filter(|(rail, _)| !self.is_closed(*rail));
        Vec::from_iter(open.map(|(_, (there, here))| text(here, there.at))).join(", ")
    }

    /// Returns " on HOST" for a rank.
    pub(super) fn on_host(&self, rank: Rank) -> String {
        let peer = self.peers[rank as usize].as_ref().filter(|peer| !peer.address.host.is_empty());
        peer.map_or(String::new(), |peer| format!(" on {}", peer.address.host))
    }

    /// Greets a peer by each rail, if there are several. False: it has not greeted by each yet.
    pub(super) fn greet(&mut self, rails: &mut Rails, to: Rank) -> Result<bool> {
        let (rank, patience_ns, is_child) = (self.rank, self.patience_ns, self.is_child);
        let Some(peer) = self.peer(to).filter(|peer| !peer.rails.are_open() && !peer.is_gone()) else {
            return Ok(true);
        };
        for rail in Vec::from_iter(peer.rails.ungreeted()) {
            match say_by(rails, rail, peer, rank, &Item::Hello) {
                Ok(true) => peer.rails.greeted(rail),
                Ok(false) => {}
                // This host's interface is down, perhaps.
                Err(why) if is_child => peer.rails.failed(rail, why.message.clone()),
                Err(why) => return Err(why),
            }
        }
        let Some((rail, failure)) = peer.rails.first_closed() else { return Ok(true) };
        let failure = failure.map_or(obstacle(&rails[rail], peer.id), |why| format!(" ({why})"));
        let by = self.by_rail(to, rail);
        self.is_waiting = true;
        if let Some(peer) = self.peer(to) {
            // The parent reached the peer by each. One that is stopped greets by none.
            if is_child && peer.rails.one_open_for_ns(clock::now_ns()) > patience_ns / 2 {
                self.cut(to, rail)?;
                return Ok(false);
            }
            let is_lost = peer.gives_up(patience_ns, || format!("to it{by}{failure}"));
            self.is_lost |= is_lost;
        }
        Ok(false)
    }

    /// Answers what peers have asked, and asks those that are silent by a rail.
    pub(super) fn watch_rails(&mut self, rails: &mut Rails) -> Result<()> {
        let (rank, closed) = (self.rank, self.closed);
        if std::mem::take(&mut self.owes_answers) {
            for peer in self.peers.iter_mut().flatten() {
                while let Some((rail, round)) = peer.rails.take_owed() {
                    if closed >> rail & 1 == 1 {
                        continue;
                    }
                    // An answer that the provider has no room for is one that the peer asks for again.
                    say_by(rails, rail, peer, rank, &Item::Answer(round))?;
                }
            }
        }
        if self.closed != 0 {
            self.tell_closed(rails)?;
        }
        let now = clock::now_ns();
        if now < self.next_look_ns {
            return Ok(());
        }
        // Where the provider has a descriptor each rank has an attendant, which answers while the rank computes; else silence says nothing.
        let all_answer = rails.have_descriptor();
        self.next_look_ns = now + LOOK.as_nanos() as u64;
        for to in 0..self.peers.len() as Rank {
            let Some(peer) = self.peer(to).filter(|peer| peer.rails.are_open() && !peer.is_gone()) else {
                continue;
            };
            match peer.rails.look(now) {
                Finding::Nothing => {}
                Finding::Ask(round) => {
                    for rail in (0..rails.len()).filter(|rail| closed >> rail & 1 == 0) {
                        let Some(peer) = self.peer(to) else { continue };
                        say_by(rails, rail, peer, rank, &Item::Question(round))?;
                    }
                }
                Finding::Cut(rail) => self.cut(to, rail)?,
            }
            if all_answer {
                self.check_settled(to, now);
            }
        }
        Ok(())
    }

    /// Tells peers which rails this rank has closed, by each that is left: nobody knows yet which of them the other has closed. These messages
    /// have no number, so that none is kept for one that does not come.
    fn tell_closed(&mut self, rails: &mut Rails) -> Result<()> {
        let (rank, closed) = (self.rank, self.closed);
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.rails.are_open() && !peer.is_gone()) {
            for rail in 0..rails.len() {
                let is_owed = peer.rails.owes_closed >> rail & 1 == 1;
                let is_closed = closed >> rail & 1 == 1;
                if is_owed && (is_closed || say_by(rails, rail, peer, rank, &Item::Closed(closed))?) {
                    peer.rails.owes_closed &= !(1 << rail);
                }
            }
        }
        Ok(())
    }

    /// Gives a peer up that has not closed the rails which this rank has: none that this rank uses may be left to it.
    fn check_settled(&mut self, to: Rank, now: u64) {
        let settle_ns = self.settle_ns;
        let since = self.peer(to).and_then(|peer| peer.rails.unsettled_since(now));
        if since.is_none_or(|since| now.saturating_sub(since) <= settle_ns) {
            return;
        }
        let why = format!(
            "a network to it is cut, and for {} s it has not answered by those that are left ({})",
            settle_ns as f64 / 1e9,
            self.rails_left(to)
        );
        self.peer(to).into_iter().for_each(|peer| peer.lost = Some((0, why.clone())));
        self.is_lost = true;
    }

    /// This rank does not use a rail any more.
    pub(super) fn is_closed(&self, rail: usize) -> bool {
        self.closed >> rail & 1 == 1
    }

    /// Is there another rail than this one that is used on?
    fn has_besides(&self, rail: usize) -> bool {
        self.has_besides_all(self.closed | self.to_close | 1 << rail)
    }

    /// Is there another rail than these?
    fn has_besides_all(&self, rails: u32) -> bool {
        (0..self.interfaces.len()).any(|other| rails >> other & 1 == 0)
    }

    /// A rail to a rank is cut: all ranks go on by the others, if one is left.
    fn cut(&mut self, to: Rank, rail: usize) -> Result<()> {
        if (self.closed | self.to_close) >> rail & 1 == 1 {
            return Ok(());
        }
        if !self.has_besides(rail) {
            return Err(Error::remote(format!(
                "rank {to}{} is not heard any more{}, and the other networks between the ranks are cut, too; mend them, and make a new \
                 communicator",
                self.on_host(to),
                self.by_rail(to, rail)
            )));
        }
        // One line for a rail, whatever PENNY_DEBUG is: nothing else tells that the job is slower from now on.
        log::always(
            self.rank,
            format_args!(
                "rank {to}{} is not heard any more{}, but by other interfaces: that network is cut, and the ranks go on by the others; mend it, and make a \
                 new communicator to use it again",
                self.on_host(to),
                self.by_rail(to, rail)
            ),
        );
        self.to_close |= 1 << rail;
        Ok(())
    }

    /// A peer takes in nothing more by some rails, a bit for each.
    pub(super) fn closed_there(&mut self, from: Rank, closed: u32) {
        let all = (1u32 << self.interfaces.len()) - 1;
        let is_last = closed | self.closed | self.to_close == all;
        let Some(peer) = self.peer(from) else { return };
        if closed & !all != 0 {
            self.refused += 1;
            return;
        }
        if is_last {
            peer.lost = Some((0, "it has closed the last rail that this rank uses".into()));
            self.is_lost = true;
            return;
        }
        let new = closed & !peer.rails.closed_there();
        for rail in (0..u32::BITS as usize).filter(|rail| new >> rail & 1 == 1) {
            peer.rails.close_there(rail);
            peer.rails.close(rail);
            peer.send_again(rail);
        }
        self.is_waiting |= new != 0;
        self.to_close |= new & !self.closed;
    }

    /// Closes rails, and tells all peers what has come by them before.
    pub(super) fn close_rails(&mut self, rails: &mut Rails) {
        let new = std::mem::take(&mut self.to_close) & !self.closed;
        for rail in (0..rails.len()).filter(|rail| new >> rail & 1 == 1) {
            rails[rail].shut();
            self.closed |= 1 << rail;
            self.peers.iter_mut().flatten().filter(|peer| !peer.is_gone()).for_each(|peer| peer.close(rail));
            self.is_waiting = true;
        }
    }
}

impl State {
    /// Leaves out the rails that were cut before: those of `told`, which this rank has told, those that peers have told, and `cut_since`, which peers do not know of.
    pub(super) fn leave_out(&mut self, told: u32, cut_since: u32) -> Result<()> {
        let State { rails, others, .. } = self;
        let cut = others.peers.iter().flatten().fold(told | cut_since, |cut, peer| cut | peer.address.cut);
        if cut == 0 {
            return Ok(());
        }
        if !others.has_besides_all(cut) {
            return Err(Error::remote(
                "the ranks have no network in common any more: each is cut at some rank; mend them, and have the ranks meet anew",
            ));
        }
        for rail in (0..rails.len()).filter(|rail| cut >> rail & 1 == 1) {
            rails[rail].shut();
            for peer in others.peers.iter_mut().flatten() {
                peer.close(rail);
                // It knows that, too.
                if (told | peer.address.cut) >> rail & 1 == 1 {
                    peer.rails.close_there(rail);
                }
            }
        }
        others.closed = cut;
        Ok(())
    }
}

/// Sends something to a peer by a rail. False: not now.
fn say_by(rails: &mut Rails, rail: usize, peer: &FarPeer, from: Rank, item: &Item<'_>) -> Result<bool> {
    let mut words = Vec::with_capacity(HEADER + AHEAD + 2);
    words.extend(peer.header(from).words());
    words.extend(peer.ahead());
    wire::put(&mut words, item, false);
    rails[rail].send(peer.id, &words)
}
