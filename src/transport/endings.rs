//! What has ended calls, a death or an abort, is told to far ranks before all that follows from it.
//!
//! On one host all ranks read the same words: who sees that a rank has given up because of an abort sees the abort, too. Frames of two
//! ranks have no such order, nor have frames and what the server of the meeting tells: a far rank could hear first that this one has
//! given up, has left, or has gone on to another call. So each rank passes on what it knows before it posts anything else.

use super::Transport;
use super::far::{Far, FarRanks};
use super::link::{Body, Ending, News};
use crate::memory::control::{ABSENT, ALIVE, Control, LEFT};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::cpu;
use crate::types::Rank;

/// Polls for the last words of a peer whose death is told.
const LAST_POLLS: usize = 16;

/// What this rank has passed on.
#[derive(Default)]
pub(super) struct PassedOn {
    /// The death that was noted in the file of the family.
    family: AtomicU64,
    /// The words of the header.
    header: AtomicU64,
}

/// The words that tell why calls have ended, as they are now: of the family, and of the header.
#[inline]
fn words(control: &Control) -> [u64; 2] {
    let header = control.header();
    let dead = u64::from(header.first_dead.load(Ordering::Acquire));
    [control.dead_in_family(), dead << 32 | u64::from(header.ended_by.load(Ordering::Acquire))]
}

impl Transport {
    /// Returns the far peers, if there are some, to post something to them.
    #[inline]
    pub(super) fn far_to_post(&self) -> Option<&Far> {
        let far = self.far.as_ref()?;
        let [family, header] = words(&self.control);
        let told = &far.passed_on;
        // ORDER: what a thread posts comes behind what it knows itself; each looks for itself.
        if told.family.load(Ordering::Relaxed) != family || told.header.load(Ordering::Relaxed) != header {
            self.pass_on(far);
        }
        Some(far)
    }

    /// Tells far ranks which rank's death this one knows, and who has ended the calls.
    #[cold]
    fn pass_on(&self, far: &Far) {
        // It may note what the family knows.
        let dead = self.first_dead();
        let [family, header] = words(&self.control);
        let ending = Ending::of(header as u32);
        if dead.is_some() || ending.is_some() {
            far.post_to_all(Body::News(News { dead, ending, ..News::default() }));
        }
        far.passed_on.family.store(family, Ordering::Relaxed);
        far.passed_on.header.store(header, Ordering::Relaxed);
    }

    /// Tells far ranks what has ended the calls, if anything has, though this rank has nothing else to tell them.
    #[cold]
    pub fn tell_endings(&self) {
        let _ = self.far_to_post();
    }

    /// Tells all ranks that this rank is gone for good.
    pub fn leave(&self) {
        self.tell_served();
        if self.control.life(self.rank).state.swap(LEFT, Ordering::AcqRel) == LEFT {
            return;
        }
        die_point!(61 "leave_told");
        self.send_life();
        self.ring_all();
        die_point!(62 "leave_rung");
    }

    /// This rank makes no more calls, and its process may end before it destroys the communicator: far ranks must have what was sent to them.
    pub fn finish_far(&self) {
        if let Some(far) = &self.far {
            self.leave();
            far.link.finish();
        }
    }

    /// A far rank's process has ended, as something else than the link tells.
    pub fn note_far_death(&self, rank: Rank) {
        let Some(far) = self.far.as_ref().filter(|far| far.has(rank)) else { return };
        // Its last words come first: they may tell of a death before its own, or that it has given up or left.
        far.poll_to_the_end();
        far.note_post();
        far.mirror.life(rank).node.mark_dead();
        // The first of which this rank hears, if none is known.
        self.first_dead();
        self.ring_all();
        self.wake_own();
    }

    /// A far rank has left, as something else than the link tells, a while ago. If its link has not told that, its last words are lost, and nobody else
    /// tells those that wait for it.
    pub fn miss_far_farewell(&self, rank: Rank) {
        let Some(far) = self.far.as_ref().filter(|far| far.has(rank)) else { return };
        far.poll_to_the_end();
        far.note_post();
        if matches!(self.life_state(rank), ABSENT | ALIVE) && !self.is_aborted() {
            self.note_far_death(rank);
        }
    }

    /// Names a rank's process in the file of the family, in which ranks have other numbers: its PID, and its host, for processes of two
    /// hosts may have the same PID.
    pub(super) fn family_name(&self, rank: Rank) -> u64 {
        family_name(self.host_numbers(), rank, self.pid(rank))
    }
}

fn family_name(hosts: &[u32], rank: Rank, pid: u32) -> u64 {
    let host = hosts.get(rank as usize).map_or(0, |&host| u64::from(host) + 1);
    host << 32 | u64::from(pid)
}

impl FarRanks {
    /// Takes in what has come, behind another thread that is at it.
    fn poll_to_the_end(&self) {
        // BOUND: the polls; a peer that sends on and on is left to later ones.
        let mut in_vain = 0;
        for _ in 0..LAST_POLLS {
            // A thread that posts may have the link for itself.
            in_vain = if self.take_in_next() { 0 } else { in_vain + 1 };
            if in_vain > 1 {
                break;
            }
            cpu::yield_now();
        }
        self.send_replies();
    }

    /// A far rank has told what has ended the calls. The first of each kind of which this host hears counts.
    pub(super) fn hear_of_endings(&self, dead: Option<Rank>, ending: Option<(Ending, Rank)>) {
        let header = self.near.header();
        let is_rank = |rank: Rank| (rank as usize) < self.nranks();
        if let Some(dead) = dead.filter(|&dead| is_rank(dead)) {
            let lines = if self.has(dead) { &self.mirror } else { &**self.near };
            if self.has(dead) {
                lines.life(dead).node.mark_dead();
            }
            let noted = header.first_dead.compare_exchange(0, dead + 1, Ordering::AcqRel, Ordering::Acquire);
            let pid = lines.life(dead).pid.load(Ordering::Relaxed);
            if noted.is_ok() && pid != 0 {
                let hosts = self.hosts.get();
                self.near.note_dead_in_family(family_name(hosts.map_or(&[], |hosts| hosts), dead, pid));
            }
        }
        if let Some((ending, by)) = ending.filter(|&(_, by)| is_rank(by)) {
            let word = ending.word(by);
            let _ = header.ended_by.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::error::Error;
    use crate::sync::prim::Ordering;
    use crate::transport::arrival::Offer;
    use crate::transport::in_process::{Delivery, transports};
    use crate::transport::link::Ending;
    use crate::transport::{Scope, Transport};

    fn call(argument: u64) -> Scope {
        Scope::new(1, [argument, 0], 0, None)
    }

    fn death_of_rank_1(told: &Error) {
        assert!(told.message.contains("rank 1 (pid") && told.message.contains("died"), "{told}");
    }

    #[test]
    fn a_death_is_told_to_far_ranks_before_the_call_to_which_a_survivor_goes_on() {
        // Ranks 0 and 1 are of one host. Nobody else tells rank 2 of the death.
        let (ranks, _network) = transports(&[0, 0, 1], Delivery::InOrder, 60_000);
        ranks[2].arrive(&call(4), &Offer::default(), 0, |_| true);
        ranks[0].control.life(1).node.mark_dead();
        death_of_rank_1(&ranks[0].check_hope().unwrap_err());
        ranks[0].arrive(&call(5), &Offer::default(), 0, |_| true);
        death_of_rank_1(&ranks[2].meet(0, &mut call(4)).unwrap_err());
    }

    #[test]
    fn of_two_deaths_that_nobody_has_noted_the_one_on_this_host_is_told() {
        let (ranks, _network) = transports(&[0, 1, 1], Delivery::InOrder, 60_000);
        for dead in [0, 2] {
            ranks[1].lines(dead).life(dead).node.mark_dead();
        }
        assert_eq!(ranks[1].first_dead(), Some(2));
    }

    #[test]
    fn who_waits_for_a_dead_far_rank_alone_hears_of_it_by_the_last_words_of_another() {
        let (ranks, network) = transports(&[0, 0, 1], Delivery::InOrder, 60_000);
        ranks[0].control.life(1).node.mark_dead();
        ranks[0].check_hope().unwrap_err();
        ranks[0].fail(1);
        // The server was a thread of rank 0's process.
        ranks[2].note_far_death(0);
        network.kill(0);
        death_of_rank_1(&ranks[2].watch_ranks(1..2).unwrap_err());
    }

    /// Rank 1 ends all calls, of which rank 0 hears, which then does something; returns what rank 2 is told that waits for rank 0.
    fn told_when(seed: u64, does: fn(&Transport)) -> Error {
        let (ranks, _network) = transports(&[0, 1, 2], Delivery::Reordered(seed), 60_000);
        ranks[1].end_calls(Ending::Aborted);
        ranks[0].meet(1, &mut call(4)).unwrap_err();
        does(&ranks[0]);
        ranks[2].meet(0, &mut call(4)).unwrap_err()
    }

    #[test]
    fn a_rank_that_gives_up_or_leaves_because_of_an_abort_is_not_named_in_its_place() {
        let ways: [fn(&Transport); 3] = [|t| t.fail(1), Transport::leave, |t| t.end_calls(Ending::Revoked)];
        for (seed, does) in (0..40).flat_map(|seed| ways.map(|does| (seed, does))) {
            let told = told_when(seed, does);
            assert!(told.message.contains("rank 1 aborted the communicator"), "{told}");
        }
    }

    #[test]
    fn a_rank_that_others_take_for_dead_is_not_told_that_it_died() {
        let (ranks, _network) = transports(&[0, 1], Delivery::InOrder, 60_000);
        ranks[0].far.as_ref().unwrap().shared().hear_of_endings(Some(0), None);
        let told = ranks[0].died().unwrap();
        assert!(told.message.starts_with("this rank's connection to the meeting"), "{told}");
    }

    #[test]
    fn of_processes_with_one_pid_on_two_hosts_the_family_knows_which_is_dead() {
        let (first, _network) = transports(&[0, 1, 1], Delivery::InOrder, 60_000);
        let pid = first[0].pid(0);
        for rank in 0..3 {
            first[0].lines(rank).life(rank).pid.store(pid, Ordering::Relaxed);
        }
        let names: Vec<u64> = (0..3).map(|rank| first[0].family_name(rank)).collect();
        assert!(names[0] != names[1] && names[1] == names[2], "{names:?}");
    }
}
