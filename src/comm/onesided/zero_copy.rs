//! Whether peers read and write a rank's buffers where they lie.
//!
//! Peers can reach memory of `pennyMemAlloc` and registered buffers, which spares a copy. But processors are slow to write lines that
//! another core has read last: a program that writes its inputs anew before each call may be quicker with copies
//! (docs/decisions/0095). That depends on the program and on how far the cores are from each other, so collectives and groups of messages
//! try both ways, and take the one that makes the program quicker (docs/decisions/0100). Other messages go by the processor: a sender that
//! lends its buffer waits for the receiver, and whether it does should not change from call to call.

use crate::kernels::hints;
use crate::sys::{clock, cpu};
use crate::transport::Transport;
use crate::types::Collective;
use std::cell::{OnceCell, RefCell};
use std::ops::Range;

/// Bytes of the whole vector, or of a group's largest message, between which the two ways are tried. Smaller calls copy, larger ones do not.
const TRIED: Range<usize> = 4 << 10..2 << 20;

/// Sizes that share a trial: those between two powers of two.
const CLASSES: usize = (TRIED.end.ilog2() - TRIED.start.ilog2()) as usize;

/// Trials of collectives: each in place and not.
const OF_COLLECTIVES: usize = Collective::ALL.len() * 2 * CLASSES;

/// Trials of groups: those of one message, and others.
const OF_GROUPS: usize = 2 * CLASSES;

/// A trial's blocks of calls: the two ways take turns.
const BLOCKS: u32 = 6;

/// Timed calls of a block in the first trial, in the second, and in all others.
const CALLS: [u32; 3] = [4, 8, 16];

/// Calls between the first two trials; four times as many as before between any two others, up to [`LONGEST_REST`].
const FIRST_REST: u32 = 256;
const LONGEST_REST: u32 = 16 << 10;

/// What decides about a communicator's calls.
pub(in crate::comm) struct ZeroCopy {
    /// The size from which on calls and messages are not copied, where nothing is tried.
    from: usize,
    tries: bool,
    /// Made by the first call that tries.
    trials: OnceCell<Box<[RefCell<Trial>]>>,
}

impl ZeroCopy {
    /// `asked`: from this size on, whatever is quicker.
    pub fn new(asked: Option<usize>, may_try: bool) -> ZeroCopy {
        let from = asked.unwrap_or(hints::limits().zero_copy_from);
        ZeroCopy { from, tries: may_try && asked.is_none(), trials: OnceCell::new() }
    }

    /// Tells whether a message of this size is read where it lies, unless its group [decides](ZeroCopy::serves_group).
    #[inline]
    pub fn serves_message(&self, bytes: usize) -> bool {
        bytes >= self.from
    }

    /// Tells whether peers use the buffers of a call where they lie. `bytes`: of its whole vector. Every call asks once.
    #[inline]
    pub fn serves_call(&self, collective: Collective, in_place: bool, bytes: usize) -> bool {
        let first = (collective as usize * 2 + in_place as usize) * CLASSES;
        self.differs(bytes, |class| first + class).unwrap_or(false) != (bytes >= self.from)
    }

    /// Tells whether the messages of a group are read where they lie. `bytes`: of the largest of its `sends` messages that peers can reach.
    /// `None`: each goes by its size. The transfers that run side by side ask once.
    pub fn serves_group(&self, bytes: usize, sends: usize) -> Option<bool> {
        let first = OF_COLLECTIVES + (sends > 1) as usize * CLASSES;
        let differs = self.differs(bytes, |class| first + class)?;
        Some(differs != self.serves_message(bytes))
    }

    /// Tells whether a call goes the other way than is usual. `None`: nothing is tried. `trial`: the number of the trial of a class.
    #[inline]
    fn differs(&self, bytes: usize, trial: impl FnOnce(usize) -> usize) -> Option<bool> {
        if !self.tries || !TRIED.contains(&bytes) {
            return None;
        }
        let trials =
            self.trials.get_or_init(|| (0..OF_COLLECTIVES + OF_GROUPS).map(|_| RefCell::default()).collect());
        let class = (bytes.ilog2() - TRIED.start.ilog2()) as usize;
        Some(trials[trial(class)].borrow_mut().differs_in_next(clock::now_ns))
    }
}

/// Calls alike take the usual way and the other one in turns for a while, then the one in which a call and what the program does until the
/// next one take less time together. That is found out again from time to time: programs go on to something else, and cores move.
#[derive(Debug, Default)]
struct Trial {
    /// Calls go the other way than is usual.
    differs: bool,
    /// Calls that follow before anything changes.
    left: u32,
    stage: Stage,
    /// The least nanoseconds of a call in a block, each way.
    least: [u64; 2],
    /// Trials that are over.
    over: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Nothing is tried.
    #[default]
    Resting,
    /// The first call of a block: it may pay for the change.
    Changing { block: u32 },
    /// The calls behind it, since then.
    Timed { block: u32, start_ns: u64 },
}

impl Trial {
    /// Tells whether the call that begins goes the other way than is usual.
    #[inline]
    fn differs_in_next(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        if self.left > 0 {
            self.left -= 1;
        } else {
            self.change(now_ns);
        }
        self.differs
    }

    #[cold]
    fn change(&mut self, now_ns: impl FnOnce() -> u64) {
        let calls = CALLS[CALLS.len().min(self.over as usize + 1) - 1];
        match self.stage {
            Stage::Resting => {
                self.least = [u64::MAX; 2];
                self.stage = Stage::Changing { block: 0 };
            }
            Stage::Changing { block } => {
                self.left = calls - 1;
                self.stage = Stage::Timed { block, start_ns: now_ns() };
            }
            Stage::Timed { block, start_ns } => {
                let least = &mut self.least[self.differs as usize];
                *least = (*least).min((now_ns() - start_ns) / calls as u64);
                if block + 1 < BLOCKS {
                    self.differs = !self.differs;
                    self.stage = Stage::Changing { block: block + 1 };
                } else {
                    self.decide();
                }
            }
        }
    }

    /// The other way has to be a tenth quicker: where the program's own work takes most of the time, chance would decide.
    fn decide(&mut self) {
        let [usual, other] = self.least;
        self.differs = other < usual - usual / 10;
        self.left = FIRST_REST.saturating_mul(4u32.saturating_pow(self.over)).min(LONGEST_REST);
        self.over += 1;
        self.stage = Stage::Resting;
    }
}

/// Returns the size from which on peers read shared buffers in place instead of getting a copy with the arrival. That
/// takes a second synchronisation, which is expensive where ranks share a core, and wasted on peers of other hosts, which read nothing in place.
pub fn shared_from(transport: &Transport) -> usize {
    if transport.has_far() {
        return usize::MAX;
    }
    let cores = cpu::usable_cores();
    // Launchers give each rank cores of its own.
    let fit = transport.nranks() as usize <= cores || cpu::sharing_cores(transport.processes()) <= cores;
    if fit { 4096 } else { 8 * 1024 + 1 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{BLOCKS, CALLS, FIRST_REST, LONGEST_REST, TRIED, Trial, ZeroCopy};
    use crate::types::Collective::{AllGather, AllReduce};

    /// Calls of a program that takes so long from each call to the next, the usual way and the other one. Says which went the other way.
    fn calls(trial: &mut Trial, now_ns: &mut u64, of_calls_ns: [u64; 2], number: u32) -> Vec<bool> {
        let mut call = |_| {
            let differs = trial.differs_in_next(|| *now_ns);
            *now_ns += of_calls_ns[differs as usize];
            differs
        };
        (0..number).map(&mut call).collect()
    }

    /// Calls of the n-th trial, and those that nothing is tried in before it, but the first: it shows what the trial before has found.
    fn of_trial(number: usize) -> u32 {
        let rest = if number == 0 { 0 } else { (FIRST_REST << (2 * (number - 1))).min(LONGEST_REST) };
        rest + BLOCKS * (1 + CALLS[number.min(CALLS.len() - 1)])
    }

    #[test]
    fn the_quicker_way_is_found_by_turns() {
        let (mut trial, mut now_ns) = (Trial::default(), 0);
        let first = calls(&mut trial, &mut now_ns, [2_000, 1_000], of_trial(0));
        let turns: Vec<bool> = first.chunk_by(|a, b| a == b).map(|block| block[0]).collect();
        assert_eq!(turns, [false, true, false, true, false, true]);
        assert!(first.chunk_by(|a, b| a == b).all(|block| block.len() == 1 + CALLS[0] as usize));
        assert!(calls(&mut trial, &mut now_ns, [2_000, 1_000], FIRST_REST).iter().all(|&differs| differs));
    }

    #[test]
    fn a_way_that_is_hardly_quicker_is_not_taken() {
        for (of_calls_ns, is_taken) in [([1_000, 901], false), ([1_000, 899], true), ([500, 1_000], false)] {
            let (mut trial, mut now_ns) = (Trial::default(), 7);
            calls(&mut trial, &mut now_ns, of_calls_ns, of_trial(0));
            assert_eq!(calls(&mut trial, &mut now_ns, of_calls_ns, 1), [is_taken], "{of_calls_ns:?}");
        }
    }

    #[test]
    fn what_was_found_is_looked_at_again_and_the_trials_cost_little() {
        let (mut trial, mut now_ns) = (Trial::default(), 0);
        for number in 0..8 {
            // The program goes on to something else after each trial.
            let other_is_quicker = number % 2 == 0;
            let of_calls_ns = if other_is_quicker { [9_000, 3_000] } else { [3_000, 9_000] };
            calls(&mut trial, &mut now_ns, of_calls_ns, of_trial(number));
            let found = calls(&mut trial, &mut now_ns, of_calls_ns, 1);
            assert_eq!(found, [other_is_quicker], "after trial {number}");
        }
        let settled = calls(&mut trial, &mut now_ns, [3_000, 9_000], 10 * LONGEST_REST);
        let tried = settled.iter().filter(|&&differs| differs).count();
        assert!(tried * 100 < settled.len(), "{tried} of {} calls", settled.len());
    }

    #[test]
    fn a_first_call_that_pays_for_the_change_does_not_count() {
        let (mut trial, mut now_ns, mut last) = (Trial::default(), 0, false);
        for _ in 0..of_trial(0) {
            let differs = trial.differs_in_next(|| now_ns);
            now_ns += if differs == last { [2_000, 1_000][differs as usize] } else { 50_000 };
            last = differs;
        }
        assert!(trial.differs_in_next(|| now_ns));
    }

    #[test]
    fn what_was_asked_for_and_sizes_beyond_all_doubt_are_not_tried() {
        let of = |zero_copy: &ZeroCopy, bytes| {
            let mut calls: Vec<bool> =
                (0..200).map(|_| zero_copy.serves_call(AllReduce, false, bytes)).collect();
            calls.dedup();
            calls
        };
        for asked in [0, 64 << 10, usize::MAX] {
            let zero_copy = ZeroCopy::new(Some(asked), true);
            for bytes in [8, 4 << 10, 64 << 10, 1 << 30] {
                assert_eq!(of(&zero_copy, bytes), [bytes >= asked], "{bytes} of {asked} bytes");
            }
        }
        let tries = ZeroCopy::new(None, true);
        for bytes in [TRIED.start - 1, TRIED.end] {
            assert_eq!(of(&tries, bytes).len(), 1, "{bytes} bytes");
        }
        for bytes in [TRIED.start, TRIED.end - 1] {
            assert!(of(&tries, bytes).len() > 1, "{bytes} bytes");
        }
        assert_eq!(of(&ZeroCopy::new(None, false), TRIED.start).len(), 1);
    }

    #[test]
    fn groups_of_messages_are_tried_and_messages_alone_are_not() {
        let zero_copy = ZeroCopy::new(None, true);
        for sends in [1, 2, 7] {
            let groups: Vec<_> =
                (0..200).map(|_| zero_copy.serves_group(TRIED.start << sends, sends)).collect();
            assert!(groups.contains(&Some(false)) && groups.contains(&Some(true)), "{sends} sends");
        }
        assert_eq!(zero_copy.serves_group(TRIED.end, 2), None);
        assert_eq!(
            ZeroCopy::new(Some(64 << 10), true).serves_group(128 << 10, 2),
            None,
            "each goes by its size"
        );
        for bytes in [TRIED.start, TRIED.end - 1] {
            let usual = zero_copy.serves_message(bytes);
            assert!((0..200).all(|_| zero_copy.serves_message(bytes) == usual), "{bytes} bytes");
        }
    }

    #[test]
    fn calls_that_differ_have_trials_of_their_own() {
        let zero_copy = ZeroCopy::new(None, true);
        let usual = zero_copy.serves_call(AllReduce, false, TRIED.start);
        let until_other = |collective, in_place, bytes| {
            (1..100).find(|_| zero_copy.serves_call(collective, in_place, bytes) != usual)
        };
        let first = until_other(AllReduce, false, TRIED.start);
        for (collective, in_place, bytes) in [
            (AllReduce, true, TRIED.start),
            (AllReduce, false, 2 * TRIED.start),
            (AllGather, false, TRIED.start),
        ] {
            // One call later: the first of `first` was made above.
            assert_eq!(until_other(collective, in_place, bytes), first.map(|calls| calls + 1));
        }
    }
}
