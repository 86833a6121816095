//! Which operations end the waits for words of symmetric memory.
//!
//! ```text
//!     rank 0   put, word 64 := 1 ----.                        word 64 := 2 ----.
//!     rank 1                  word 64 is 1: wait for >= 1 takes one            wait for == 2 takes one more
//! ```
//!
//! A workload counts signals, a program compares values. All operations of all ranks on a word are put in the order of their ends by the clock,
//! the word begins with 0, and a wait takes as many of them as make its comparison true after those that earlier waits have taken. Stores of a
//! program to its own words are not recorded; a word that a wait found other than the operations left it has been set by such a store.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::log::{ProcessRecord, What, WordWait};
use super::trace::GroupKey;

/// A word: of a group, a rank's, its number.
type Word<'a> = (&'a GroupKey, u32, u64);

/// What is done to a word: when it was done, the operation and its value.
type Change<'a> = (u64, &'a str, u64);

/// The waits for words.
#[derive(Default)]
pub struct WordWaits {
    /// By the rank, its line and the part of it: how many operations the wait takes.
    counts: HashMap<(u32, usize, usize), u64>,
    /// By the group's name, the rank and the word.
    waited: HashSet<(String, u32, u64)>,
}

impl WordWaits {
    /// Returns how many operations a wait takes.
    pub fn count(&self, rank: u32, line: usize, part: usize) -> u64 {
        self.counts.get(&(rank, line, part)).copied().unwrap_or(0)
    }

    /// Tells whether a rank waits for one of its words.
    pub fn is_waited_for(&self, group: &str, rank: u32, word: u64) -> bool {
        self.waited.contains(&(group.to_owned(), rank, word))
    }
}

/// Returns the name of the counter of the operations on a word.
pub fn counter(word: u64) -> String {
    format!("word {word}")
}

/// Finds them. `keys`: the communicators of each rank; `names`: of their groups. `Err`: recorded operations do not end a wait.
pub fn waits(
    ranks: &[&ProcessRecord],
    keys: &[HashMap<u64, GroupKey>],
    names: &BTreeMap<GroupKey, String>,
) -> Result<WordWaits, String> {
    let mut changes: HashMap<Word<'_>, Vec<Change<'_>>> = HashMap::new();
    for (record, keys) in ranks.iter().zip(keys) {
        for (call, what) in
            record.calls.iter().flat_map(|call| call.what.iter().map(move |what| (call, what)))
        {
            let What::Put(put) = what else { continue };
            let Some(key) = keys.get(&put.comm) else { continue };
            for (to, word, op, value) in &put.words {
                let Some(&to) = key.0.get(*to as usize) else { continue };
                changes.entry((key, to, *word)).or_default().push((call.end_ns, op, *value));
            }
        }
    }
    changes.values_mut().for_each(|changes| changes.sort_by_key(|(at_ns, ..)| *at_ns));
    let mut found = WordWaits::default();
    for (rank, (record, keys)) in (0..).zip(ranks.iter().zip(keys)) {
        let mut states: HashMap<Word<'_>, WordState> = HashMap::new();
        for (line, call) in record.calls.iter().enumerate() {
            for (part, what) in call.what.iter().enumerate() {
                let What::Word(wait) = what else { continue };
                let Some(key) = keys.get(&wait.comm) else { continue };
                let word = (key, rank, wait.word);
                let of_word = changes.get(&word).map_or(&[][..], Vec::as_slice);
                let taken = states.entry(word).or_default().take(wait, of_word);
                let taken = taken.map_err(|why| {
                    format!("rank {rank} waited for its word {} of symmetric memory, {why}", wait.word)
                })?;
                found.counts.insert((rank, line, part), taken);
                found.waited.insert((names[key].clone(), rank, wait.word));
            }
        }
    }
    Ok(found)
}

/// A word after the operations that its rank's waits have taken.
#[derive(Default)]
struct WordState {
    taken: usize,
    value: u64,
}

impl WordState {
    /// Takes what ends a wait; how many that are.
    fn take(&mut self, wait: &WordWait, changes: &[Change<'_>]) -> Result<u64, String> {
        let begin = self.taken;
        if !holds(wait, wait.before) && holds(wait, self.value) {
            // The program has set it meanwhile.
            self.value = wait.before;
        }
        while !holds(wait, self.value) {
            let Some(&(_, op, value)) = changes.get(self.taken) else {
                if holds(wait, wait.before) {
                    // Its own stores have brought it about.
                    (self.taken, self.value) = (begin, wait.before);
                    return Ok(0);
                }
                return Err(format!(
                    "which no recorded operation makes so (operation {} of those on it); a wait is recorded where puts, signals and atomic \
                     sets and additions of other ranks end it",
                    self.taken
                ));
            };
            self.taken += 1;
            self.value = match op {
                "set" => value,
                "add" => self.value.wrapping_add(value),
                _ => {
                    return Err(
                        "whose value comes of an atomic operation that is neither a set nor an addition"
                            .to_owned(),
                    );
                }
            };
        }
        Ok((self.taken - begin) as u64)
    }
}

/// Tells whether a value ends a wait.
fn holds(wait: &WordWait, value: u64) -> bool {
    let order = match (wait.size, wait.is_signed) {
        (4, true) => (value as i32).cmp(&(wait.value as i32)),
        (4, false) => (value as u32).cmp(&(wait.value as u32)),
        (_, true) => (value as i64).cmp(&(wait.value as i64)),
        (_, false) => value.cmp(&wait.value),
    };
    penny::Comparison::from_c(wait.cmp).is_some_and(|cmp| cmp.holds(order))
}
