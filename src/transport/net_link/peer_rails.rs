//! What is under way to a peer by each rail, and by which it is heard.
//!
//! ```text
//!     half a second ago something was sent by a rail        a question goes by every rail
//!     half a second ago the first answer has come           rails by which nothing has come since have missed the round
//!     a rail has missed four rounds                         it is cut
//!     a connection is lost, and a question is answered      its rail is cut
//! ```
//!
//! A peer that is stopped answers by no rail, so no rail of its is taken for cut: what tells of a silent host is the connection to where the ranks have met.

/// How long nothing is asked, and how long after the first answer the others may come.
const ROUND_NS: u64 = 500_000_000;
/// How long an answer may take before the peer is asked again.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Rounds that a rail has missed when it is taken for cut.
const MISSES: u32 = 4;

/// One rail to a peer.
#[derive(Clone, Default)]
struct PeerRail {
    /// Bytes of writes that the peer has not said to have taken in.
    under_way: usize,
    /// The peer was greeted by it, and has greeted.
    greeted: bool,
    greets: bool,
    /// When something was first sent by it after the last question that was answered by it.
    unheard_since: Option<u64>,
    /// Something was sent by it after the last question.
    is_sent_again: bool,
    /// Questions that the peer has answered by others, one after another.
    missed: u32,
    /// The peer's question, which is to be answered by it.
    asked: Option<u64>,
    /// What the provider says of the connection.
    failure: Option<String>,
    /// The connection was lost after both had greeted.
    is_lost: bool,
    /// This rank uses it no more.
    closed: bool,
}

/// All rails to a peer.
pub struct PeerRails {
    all: Vec<PeerRail>,
    /// The questions that were asked.
    round: u64,
    /// The last one is not over.
    is_asking: bool,
    /// When it was asked, and when the first answer to it came.
    asked_at: u64,
    answered_at: Option<u64>,
    /// A bit for each rail by which the peer was heard since.
    heard: u32,
    /// A bit for each rail that the peer uses no more.
    closed_there: u32,
    /// Since when both have greeted by one rail, and not by all.
    one_open: Option<u64>,
    /// Since when these are not all that this rank has closed.
    unsettled: Option<u64>,
    /// A bit for each rail by which the peer is to be told which rails this rank has closed.
    pub owes_closed: u32,
}

/// What is to be done about a peer's rails.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    Nothing,
    /// This question is to be asked by every rail.
    Ask(u64),
    /// This rail is cut.
    Cut(usize),
}

impl PeerRails {
    pub fn new(rails: usize) -> PeerRails {
        let all = vec![PeerRail::default(); rails];
        PeerRails {
            all,
            round: 0,
            is_asking: false,
            asked_at: 0,
            answered_at: None,
            heard: 0,
            closed_there: 0,
            one_open: None,
            unsettled: None,
            owes_closed: 0,
        }
    }

    /// Has the peer been greeted by each rail, and has greeted by each? A single rail is not greeted by.
    pub fn are_open(&self) -> bool {
        self.first_closed().is_none()
    }

    /// Returns the first rail by which nobody has greeted yet, and what the provider says of it.
    pub fn first_closed(&self) -> Option<(usize, Option<&str>)> {
        if self.all.len() <= 1 {
            return None;
        }
        let is_missing = |rail: &PeerRail| !rail.closed && (!rail.greeted || !rail.greets);
        let missing = self.all.iter().position(is_missing);
        missing.map(|at| (at, self.all[at].failure.as_deref()))
    }

    /// Returns for how long both have greeted by a rail that is not closed, as far as this was asked; 0: they have not.
    pub fn one_open_for_ns(&mut self, now: u64) -> u64 {
        let is_one = self.all.iter().any(|rail| !rail.closed && rail.greeted && rail.greets);
        self.one_open = if is_one { self.one_open.or(Some(now)) } else { None };
        self.one_open.map_or(0, |since| now.saturating_sub(since))
    }

    /// Returns the rails by which the peer has not been greeted.
    pub fn ungreeted(&self) -> impl Iterator<Item = usize> {
        (0..self.all.len()).filter(|&rail| !self.all[rail].greeted && !self.all[rail].closed)
    }

    /// The peer was greeted by a rail.
    pub fn greeted(&mut self, rail: usize) {
        self.all[rail].greeted = true;
    }

    /// The peer has greeted by a rail.
    pub fn greets(&mut self, rail: usize) {
        self.all[rail].greets = true;
    }

    /// The provider says why a connection has failed.
    pub fn failed(&mut self, rail: usize, why: String) {
        let rail = &mut self.all[rail];
        rail.failure = Some(why);
        // It is tried again: a second greeting does no harm, and without one the peer may wait for it.
        rail.greeted = false;
    }

    /// A connection was lost after both have greeted. True: no rail is left.
    pub fn lost(&mut self, rail: usize) -> bool {
        self.all[rail].is_lost = true;
        self.all.iter().all(|rail| rail.closed || rail.is_lost)
    }

    /// A rail is not used any more.
    pub fn close(&mut self, rail: usize) {
        self.all[rail].closed = true;
    }

    /// The peer uses a rail no more.
    pub fn close_there(&mut self, rail: usize) {
        self.closed_there |= 1 << rail;
    }

    /// Returns a bit for each rail that the peer uses no more.
    pub fn closed_there(&self) -> u32 {
        self.closed_there
    }

    /// Has the peer not said that it has closed all that this rank has?
    pub fn is_unsettled(&self) -> bool {
        (0..).zip(&self.all).any(|(at, rail)| rail.closed && self.closed_there >> at & 1 == 0)
    }

    /// Returns since when the peer has not said that it has closed what this rank has.
    pub fn unsettled_since(&mut self, now: u64) -> Option<u64> {
        self.unsettled = if self.is_unsettled() { self.unsettled.or(Some(now)) } else { None };
        self.unsettled
    }

    /// Returns the rail with the fewest bytes under way; of several the first, so that what is small and alone stays on one.
    pub fn lightest(&self) -> usize {
        let open = (0..self.all.len()).filter(|&rail| !self.all[rail].closed);
        open.min_by_key(|&rail| self.all[rail].under_way).unwrap_or(0)
    }

    /// Returns the rail of messages.
    pub fn first(&self) -> usize {
        self.all.iter().position(|rail| !rail.closed).unwrap_or(0)
    }

    /// A write goes by another rail than before.
    pub fn moved(&mut self, from: usize, to: usize, bytes: usize) {
        self.all[from].under_way -= bytes;
        self.all[to].under_way += bytes;
    }

    /// A write was posted.
    pub fn wrote(&mut self, rail: usize, bytes: usize) {
        self.all[rail].under_way += bytes;
    }

    /// The peer has taken in a write.
    pub fn taken(&mut self, rail: usize, bytes: usize) {
        self.all[rail].under_way -= bytes;
        self.heard(rail);
    }

    /// Something was sent.
    pub fn sent(&mut self, rail: usize, now: impl FnOnce() -> u64) {
        if self.all.len() > 1 {
            let rail = &mut self.all[rail];
            rail.is_sent_again = true;
            rail.unheard_since = rail.unheard_since.or_else(|| Some(now()));
        }
    }

    /// The peer was heard by a rail.
    pub fn heard(&mut self, rail: usize) {
        self.all[rail].missed = 0;
        self.heard |= 1 << rail;
    }

    /// The peer has answered a question by a rail.
    pub fn answered(&mut self, rail: usize, round: u64, now: u64) {
        self.heard(rail);
        if self.is_asking && round == self.round {
            self.answered_at.get_or_insert(now);
            let rail = &mut self.all[rail];
            rail.unheard_since = rail.is_sent_again.then_some(now);
        }
    }

    /// The peer asks by a rail.
    pub fn asks(&mut self, rail: usize, round: u64) {
        self.all[rail].asked = Some(round);
    }

    /// Takes a rail by which an answer is owed, and the question.
    pub fn take_owed(&mut self) -> Option<(usize, u64)> {
        self.all.iter_mut().enumerate().find_map(|(at, rail)| Some((at, rail.asked.take()?)))
    }

    /// Is the peer to be heard by a rail yet?
    pub fn is_unheard(&self) -> bool {
        self.owes_closed != 0
            || self.is_unsettled()
            || self.all.iter().any(|rail| !rail.closed && (rail.is_lost || rail.unheard_since.is_some()))
    }

    /// Looks after the rails.
    pub fn look(&mut self, now: u64) -> Finding {
        if self.all.iter().filter(|rail| !rail.closed).count() <= 1 {
            return Finding::Nothing;
        }
        if self.is_asking {
            match self.answered_at {
                // The provider may have had no room for a question or an answer.
                None if now.saturating_sub(self.asked_at) >= PATIENCE_NS => return self.ask(now),
                None => return Finding::Nothing,
                Some(at) if now.saturating_sub(at) < ROUND_NS => return Finding::Nothing,
                Some(_) => self.is_asking = false,
            }
            for (at, rail) in self.all.iter_mut().enumerate().filter(|(_, rail)| !rail.closed) {
                rail.missed += u32::from(self.heard >> at & 1 == 0);
                if rail.missed >= MISSES || rail.is_lost {
                    return Finding::Cut(at);
                }
            }
        }
        let is_late = |rail: &PeerRail| {
            let is_unheard = rail.unheard_since.is_some_and(|since| now.saturating_sub(since) >= ROUND_NS);
            !rail.closed && (rail.is_lost || is_unheard)
        };
        if !self.all.iter().any(is_late) {
            return Finding::Nothing;
        }
        self.ask(now)
    }

    fn ask(&mut self, now: u64) -> Finding {
        self.round += 1;
        (self.is_asking, self.asked_at, self.answered_at, self.heard) = (true, now, None, 0);
        self.all.iter_mut().for_each(|rail| rail.is_sent_again = false);
        Finding::Ask(self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers questions by some rails until a rail is found cut, or a time is over.
    fn found(answers: &[usize], also_heard: Option<usize>) -> Option<(usize, u64)> {
        let mut rails = PeerRails::new(3);
        (0..3).for_each(|rail| rails.sent(rail, || 0));
        for now in (0..10_000_000_000).step_by(100_000_000) {
            match rails.look(now) {
                Finding::Nothing => {}
                Finding::Ask(round) => {
                    answers.iter().for_each(|&rail| rails.answered(rail, round, now));
                    also_heard.into_iter().for_each(|rail| rails.heard(rail));
                    // An answer to another question is none.
                    rails.answered(0, round + 7, now + 1);
                }
                Finding::Cut(rail) => return Some((rail, now)),
            }
        }
        None
    }

    #[test]
    fn a_rail_is_cut_when_the_peer_answers_by_others_only() {
        let (rail, at) = found(&[0, 2], None).unwrap();
        assert!(rail == 1 && at <= 2_700_000_000, "{rail} {at}");
        assert_eq!(
            found(&[1, 2], None).map(|(rail, _)| rail),
            None,
            "an answer to another question was heard"
        );
        assert_eq!(found(&[0, 2], Some(1)), None, "heard by something else");
        assert_eq!(found(&[0, 1, 2], None), None);
    }

    #[test]
    fn a_peer_that_answers_by_none_is_stopped_and_no_rail_cut() {
        let mut rails = PeerRails::new(2);
        (0..2).for_each(|rail| rails.sent(rail, || 0));
        assert_eq!(rails.look(ROUND_NS - 1), Finding::Nothing);
        assert_eq!(rails.look(ROUND_NS), Finding::Ask(1));
        assert_eq!(rails.look(4 * ROUND_NS), Finding::Nothing);
        assert_eq!(rails.look(5 * ROUND_NS), Finding::Ask(2), "the question may have been lost");
        rails.answered(0, 1, 100 * ROUND_NS);
        assert_eq!(rails.look(6 * ROUND_NS), Finding::Nothing, "an answer to the one before");
        rails.answered(0, 2, 100 * ROUND_NS);
        assert_eq!(rails.look(101 * ROUND_NS), Finding::Ask(3), "one round was missed");
        rails.answered(1, 3, 101 * ROUND_NS);
        rails.answered(0, 3, 101 * ROUND_NS);
        assert_eq!(rails.look(102 * ROUND_NS), Finding::Nothing);
        assert!(!rails.is_unheard());
        // What is sent between a question and its answer is asked about again.
        rails.sent(1, || 103 * ROUND_NS);
        assert_eq!(rails.look(104 * ROUND_NS), Finding::Ask(4));
        rails.sent(1, || 104 * ROUND_NS);
        (0..2).for_each(|rail| rails.answered(rail, 4, 104 * ROUND_NS));
        assert_eq!(rails.look(105 * ROUND_NS), Finding::Ask(5));
    }

    #[test]
    fn a_rail_whose_connection_was_lost_is_cut_at_the_next_answer_if_another_is_left() {
        let mut rails = PeerRails::new(3);
        assert!(!rails.lost(1));
        assert!(rails.is_unheard());
        assert_eq!(rails.look(7), Finding::Ask(1));
        assert_eq!(rails.look(4 * ROUND_NS), Finding::Nothing, "a dead peer answers by none");
        // It has connected again, but what was under way is gone.
        (0..3).for_each(|rail| rails.answered(rail, 1, 100 * ROUND_NS));
        assert_eq!(rails.look(101 * ROUND_NS), Finding::Cut(1));
        rails.close(1);
        assert!(rails.is_unheard() && rails.lightest() == 0 && rails.first() == 0);
        assert_eq!((rails.unsettled_since(8), rails.unsettled_since(9)), (Some(8), Some(8)));
        rails.close_there(1);
        assert!(!rails.is_unheard() && rails.unsettled_since(9).is_none() && rails.closed_there() == 2);
        assert!(!rails.lost(0) && rails.lost(2), "a peer that is lost by all is gone");
        rails.close(0);
        assert_eq!((rails.first(), rails.lightest(), rails.look(900 * ROUND_NS)), (2, 2, Finding::Nothing));
    }

    #[test]
    fn writes_go_by_the_rail_with_the_fewest_bytes_under_way() {
        let mut rails = PeerRails::new(2);
        assert_eq!(rails.lightest(), 0);
        rails.wrote(0, 100);
        assert_eq!(rails.lightest(), 1);
        rails.wrote(1, 150);
        assert_eq!(rails.lightest(), 0);
        rails.taken(1, 150);
        assert_eq!(rails.lightest(), 1);
    }

    #[test]
    fn rails_are_open_when_both_sides_have_greeted_by_each() {
        assert!(PeerRails::new(1).are_open());
        let mut rails = PeerRails::new(2);
        for rail in [0, 1] {
            assert_eq!(rails.first_closed(), Some((rail, None)));
            rails.greeted(rail);
            rails.greets(rail);
        }
        assert!(rails.are_open() && rails.ungreeted().next().is_none());
        let mut refused = PeerRails::new(2);
        refused.greeted(0);
        refused.failed(0, "refused".into());
        assert_eq!(refused.first_closed(), Some((0, Some("refused"))));
        assert_eq!(refused.ungreeted().next(), Some(0));
    }
}
