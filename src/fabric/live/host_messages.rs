//! What the hosts of a declared machine tell each other: words of 64 bits, at most as many as one message of the meeting holds.

use super::clock_segment::{BoardHeader, PostLine};
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// Words of a post.
pub const POST: usize = 9;
/// Posts in one message.
pub const POSTS_AT_ONCE: usize = 24;
/// Served calls in one message.
pub const SERVED_AT_ONCE: usize = 80;

/// A served call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitOf {
    pub place: Rank,
    pub ticket: u32,
    pub turn: u32,
    pub exit_ps: u64,
}

/// What the engine's host counts: all calls, the hash over them, late entries, the time that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account([u64; 4]);

impl Account {
    pub fn of(header: &BoardHeader) -> Account {
        let all = [&header.calls, &header.trace, &header.late, &header.reached_ps];
        Account(all.map(|word| word.load(Ordering::Acquire)))
    }

    /// Stores it on another host.
    pub fn store(&self, header: &BoardHeader) {
        let all = [&header.calls, &header.trace, &header.late];
        all.iter().zip(self.0).for_each(|(word, value)| word.store(value, Ordering::Release));
        header.reached_ps.fetch_max(self.0[3], Ordering::AcqRel);
    }
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub enum HostMessage {
    /// Some of the posts of a ticket, from `at` on, of `total`.
    Posts { place: Rank, ticket: u32, turn: u32, at: u32, total: u32, posts: Vec<[u64; POST]> },
    /// A host on which no thread runs, after it has taken in this many batches.
    Rest { host: Rank, batches: u64 },
    /// Ranks have waited for longer than the grace period.
    Hurry,
    /// A call stands no more.
    Withdrawn { place: Rank, ticket: u32, turn: u32 },
    /// Calls of the host are served. `is_last`: no more of them in this batch.
    Served { host: Rank, is_last: bool, account: Account, exits: Vec<ExitOf> },
    /// A rank has stored to the memory of another: for the engine's host, which tells it to the other one's.
    Stored { place: Rank, at_ps: u64 },
    /// The same, from the engine's host: a batch of its own.
    Woken { place: Rank, at_ps: u64 },
    /// Ranks store to each other's memory from now on.
    Exact,
    /// A thread of a host knows that this time has come. `asks`: the others tell when theirs do.
    Known { host: Rank, ps: u64, asks: bool },
}

const POSTS: u64 = 1;
const REST: u64 = 2;
const WITHDRAWN: u64 = 3;
const SERVED: u64 = 4;
const HURRY: u64 = 5;
const STORED: u64 = 6;
const WOKEN: u64 = 7;
const EXACT: u64 = 8;
const KNOWN: u64 = 9;

fn both(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl HostMessage {
    /// Returns its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let words: Vec<u64> = match self {
            HostMessage::Posts { place, ticket, turn, at, total, posts } => {
                let head = [POSTS, both(*place, *ticket), u64::from(*turn), both(*at, *total)];
                head.into_iter().chain(posts.iter().flatten().copied()).collect()
            }
            HostMessage::Hurry => vec![HURRY],
            HostMessage::Exact => vec![EXACT],
            HostMessage::Known { host, ps, asks } => vec![KNOWN, u64::from(*host), *ps, u64::from(*asks)],
            HostMessage::Stored { place, at_ps } => vec![STORED, u64::from(*place), *at_ps],
            HostMessage::Woken { place, at_ps } => vec![WOKEN, u64::from(*place), *at_ps],
            HostMessage::Rest { host, batches } => vec![REST, u64::from(*host), *batches],
            HostMessage::Withdrawn { place, ticket, turn } => {
                vec![WITHDRAWN, both(*place, *ticket), u64::from(*turn)]
            }
            HostMessage::Served { host, is_last, account, exits } => {
                let head = [SERVED, u64::from(*host), u64::from(*is_last)].into_iter().chain(account.0);
                let exit = |exit: &ExitOf| [both(exit.place, exit.ticket), exit.turn.into(), exit.exit_ps];
                head.chain(exits.iter().flat_map(exit)).collect()
            }
        };
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads it. `None`: it is none.
    pub fn of(bytes: &[u8]) -> Option<HostMessage> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let rank = |word: u64| Rank::try_from(word).ok();
        match words[..] {
            [POSTS, whose, turn, range, ref rest @ ..] => {
                let ((place, ticket), (at, total)) = (halves(whose), halves(range));
                let (posts, []) = rest.as_chunks::<POST>() else { return None };
                let turn = u32::try_from(turn).ok()?;
                Some(HostMessage::Posts { place, ticket, turn, at, total, posts: posts.to_vec() })
            }
            [HURRY] => Some(HostMessage::Hurry),
            [EXACT] => Some(HostMessage::Exact),
            [KNOWN, host, ps, asks @ 0..=1] => {
                Some(HostMessage::Known { host: rank(host)?, ps, asks: asks == 1 })
            }
            [STORED, place, at_ps] => Some(HostMessage::Stored { place: rank(place)?, at_ps }),
            [WOKEN, place, at_ps] => Some(HostMessage::Woken { place: rank(place)?, at_ps }),
            [REST, host, batches] => Some(HostMessage::Rest { host: rank(host)?, batches }),
            [WITHDRAWN, whose, turn] => {
                let ((place, ticket), turn) = (halves(whose), u32::try_from(turn).ok()?);
                Some(HostMessage::Withdrawn { place, ticket, turn })
            }
            [SERVED, host, is_last @ 0..=1, calls, trace, late, reached, ref rest @ ..] => {
                let (exits, []) = rest.as_chunks::<3>() else { return None };
                let exit = |&[whose, turn, exit_ps]: &[u64; 3]| {
                    let ((place, ticket), turn) = (halves(whose), u32::try_from(turn).ok()?);
                    Some(ExitOf { place, ticket, turn, exit_ps })
                };
                let account = Account([calls, trace, late, reached]);
                let exits = exits.iter().map(exit).collect::<Option<_>>()?;
                Some(HostMessage::Served { host: rank(host)?, is_last: is_last == 1, account, exits })
            }
            _ => None,
        }
    }
}

/// Returns the words of a post.
pub fn words_of(line: &PostLine) -> [u64; POST] {
    let load = |word: &crate::sync::prim::AtomicU64| word.load(Ordering::Relaxed);
    let members = both(line.member.load(Ordering::Relaxed), line.members.load(Ordering::Relaxed));
    let [a, b, c, d, e] = line.spec.each_ref().map(load);
    [load(&line.comm), load(&line.key), a, b, c, d, e, members, load(&line.entry_ps)]
}

/// Stores a post that the engine has not taken.
pub fn store_words(words: &[u64; POST], line: &PostLine) {
    let &[comm, key, a, b, c, d, e, members, entry_ps] = words;
    line.comm.store(comm, Ordering::Relaxed);
    line.key.store(key, Ordering::Relaxed);
    line.spec.iter().zip([a, b, c, d, e]).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    let (member, members) = halves(members);
    line.member.store(member, Ordering::Relaxed);
    line.members.store(members, Ordering::Relaxed);
    line.entry_ps.store(entry_ps, Ordering::Relaxed);
    line.stage.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_told_is_read_again_and_fits_one_message_of_the_meeting() {
        let exit = ExitOf { place: 3, ticket: 127, turn: u32::MAX, exit_ps: u64::MAX };
        let messages = [
            HostMessage::Posts {
                place: 9,
                ticket: 1,
                turn: 2,
                at: 24,
                total: 48,
                posts: vec![[7; POST]; POSTS_AT_ONCE],
            },
            HostMessage::Rest { host: 4, batches: 5 },
            HostMessage::Hurry,
            HostMessage::Stored { place: 6, at_ps: u64::MAX },
            HostMessage::Woken { place: 7, at_ps: 8 },
            HostMessage::Exact,
            HostMessage::Known { host: 9, ps: 10, asks: true },
            HostMessage::Withdrawn { place: 1, ticket: 2, turn: 3 },
            HostMessage::Served {
                host: 2,
                is_last: false,
                account: Account([1, 2, 3, 4]),
                exits: vec![exit; SERVED_AT_ONCE],
            },
        ];
        for message in messages {
            let bytes = message.bytes();
            assert!(bytes.len() <= 2048, "{message:?}");
            assert_eq!(HostMessage::of(&bytes), Some(message));
        }
        assert_eq!(HostMessage::of(&[]), None);
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_message_or_one(words in prop::collection::vec(0u64..10, 0..30), cut in 0usize..8) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Some(message) = HostMessage::of(&bytes[..bytes.len().saturating_sub(cut)]) {
                prop_assert_eq!(HostMessage::of(&message.bytes()), Some(message));
            }
        }
    }
}
