//! One meeting: the ranks that have come, the data that they sent, and the reason if it cannot succeed.
//!
//! Pure bookkeeping. Whatever can be wrong between ranks is found here and becomes one [`Error`] that every rank is
//! told, so all of them print the same sentence.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::frame::{ABI, HelloFrame, TimeLimit, VERSION, version_text};
use super::who::Who;
use crate::error::{Code, Error, Result};
use crate::types::MAX_RANKS;

/// A rank that has joined the rendezvous.
pub struct Member {
    /// Its process.
    pub who: Who,
    /// The information for the other ranks.
    pub info: Vec<u8>,
    /// The descriptors for the other ranks.
    pub fds: Vec<OwnedFd>,
}

/// The shortest wait among the ranks that have come.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    rank: u32,
    time_limit: TimeLimit,
}

/// A meeting. Its first member says how many ranks it is for.
#[derive(Default)]
pub struct Rendezvous {
    members: Vec<Option<Member>>,
    came: u32,
    /// The first rank to join, which determined the number of ranks.
    first: u32,
    earliest: Option<Deadline>,
    /// The longest wait among those that end.
    latest: Option<Instant>,
    /// True if a rank waits without limit.
    endless: bool,
}

/// Checks that a hello comes from a build that can share memory with this one. The sentence names both sides.
pub fn same_build(packet: &[u8], who: Who, me: Who) -> Result<()> {
    let Some((version, abi)) = HelloFrame::build(packet) else {
        return Err(Error::internal(format!("{who} sent half a hello")));
    };
    if version != VERSION {
        return Err(Error::usage(format!(
            "{who} uses Penny {}, but {me}, where the ranks meet, uses Penny {}; run all ranks with one libpenny",
            version_text(&version),
            version_text(&VERSION)
        )));
    }
    if abi != ABI {
        return Err(Error::usage(format!(
            "{who} and {me}, where the ranks meet, use different builds of Penny {} (layouts {abi:016x} and \
             {ABI:016x}); run all ranks with one libpenny",
            version_text(&VERSION)
        )));
    }
    Ok(())
}

/// Returns the verdict when a rank that has not joined tells that it cannot.
pub fn refused_by(hello: &HelloFrame<'_>, who: Who) -> Error {
    let why = String::from_utf8_lossy(hello.info);
    Error::remote(format!("rank {} ({who}) cannot join: {why}", hello.rank))
}

impl Rendezvous {
    /// Returns the number of ranks of the rendezvous.
    pub fn nranks(&self) -> u32 {
        self.members.len() as u32
    }

    /// Adds a rank. An error is the verdict for all ranks.
    pub fn join(&mut self, hello: &HelloFrame<'_>, who: Who, fds: Vec<OwnedFd>, now: Instant) -> Result<()> {
        if self.came == 0 {
            if hello.nranks == 0 || hello.nranks > MAX_RANKS {
                return Err(Error::argument(format!(
                    "rank {} ({who}) says nranks {}, but a communicator has 1 to {MAX_RANKS} ranks",
                    hello.rank, hello.nranks
                )));
            }
            self.members.resize_with(hello.nranks as usize, || None);
            self.first = hello.rank;
        }
        let (rank, nranks) = (hello.rank, self.nranks());
        if hello.nranks != nranks {
            return Err(Error::usage(format!(
                "the ranks disagree about their number: rank {rank} ({who}) says nranks {}, rank {} ({}) \
                 says {nranks}; pass the same nranks on every rank",
                hello.nranks,
                self.first,
                self.who(self.first)
            )));
        }
        if rank >= nranks {
            return Err(Error::argument(format!(
                "rank {rank} ({who}) is out of range: nranks is {nranks}, so ranks are 0 to {}",
                nranks - 1
            )));
        }
        if let Some(other) = &self.members[rank as usize] {
            return Err(Error::usage(format!(
                "two callers say that they are rank {rank} of {nranks}: {} and {who}; give every rank its \
                 own number",
                other.who
            )));
        }
        self.members[rank as usize] = Some(Member { who, info: hello.info.to_vec(), fds });
        self.came += 1;
        let end = hello.time_limit.and_then(|p| now.checked_add(p.left));
        if let (Some(at), Some(time_limit)) = (end, hello.time_limit)
            && self.earliest.is_none_or(|d| at < d.at)
        {
            self.earliest = Some(Deadline { at, rank, time_limit });
        }
        self.latest = self.latest.max(end);
        self.endless |= end.is_none();
        Ok(())
    }

    /// Tells whether all ranks have come. A rendezvous that no rank has come to does not know how many they are.
    pub fn complete(&self) -> bool {
        self.came > 0 && self.came == self.nranks()
    }

    /// Returns the member with this rank, if it has come.
    pub fn member(&self, rank: u32) -> Option<&Member> {
        self.members.get(rank as usize)?.as_ref()
    }

    /// Returns the process of a rank; PID 0 if it has not come.
    pub fn who(&self, rank: u32) -> Who {
        self.member(rank).map_or(Who::here(0), |m| m.who)
    }

    /// Returns the time at which the server must check this rendezvous again even if nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        match self.complete() {
            false => self.earliest.map(|d| d.at),
            true => self.latest.filter(|_| !self.endless),
        }
    }

    /// The verdict once the shortest wait is over.
    pub fn overdue(&self, now: Instant) -> Option<Error> {
        let deadline = self.earliest.filter(|d| now >= d.at && !self.complete())?;
        let missing: Vec<u32> = (0..self.nranks()).filter(|r| self.member(*r).is_none()).collect();
        Some(Error::timeout(format!(
            "{} of {} {} not come after {} s (the timeout of rank {}, {}); check that they were started and reach \
             this call, or raise the timeout",
            runs_of(&missing),
            self.nranks(),
            if missing.len() == 1 { "has" } else { "have" },
            deadline.time_limit.total.as_secs_f64(),
            deadline.rank,
            self.who(deadline.rank)
        )))
    }

    /// Returns the verdict when a rank leaves before all ranks have joined. `why`: the reason that it gave, if any.
    pub fn deserted_by(&self, rank: u32, why: Option<Error>) -> Error {
        let (who, nranks, came) = (self.who(rank), self.nranks(), self.came);
        // What ranks disagree about is a wrong use on every rank.
        let usage = why.as_ref().is_some_and(|why| why.code == Code::InvalidUsage);
        let code = if usage { Code::InvalidUsage } else { Code::RemoteError };
        Error::new(
            code,
            match why {
                Some(why) => format!("rank {rank} ({who}) gave up while joining: {}", why.message),
                None if self.complete() => format!("rank {rank} ({who}) died or gave up while joining"),
                None => format!(
                    "rank {rank} ({who}) died or gave up before all {nranks} ranks had come ({came} had)"
                ),
            },
        )
    }
}

/// "rank 3" or "ranks 1-4, 9": runs are folded so that a thousand missing ranks still make a sentence.
fn runs_of(ranks: &[u32]) -> String {
    let runs: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .flat_map(|run| match run {
            [first, _, .., last] => vec![format!("{first}-{last}")],
            short => short.iter().map(u32::to_string).collect(),
        })
        .collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, runs.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::bootstrap::frame::Secret;
    use crate::bootstrap::rendezvous::*;
    use crate::bootstrap::verdict::Verdict;
    use std::time::Duration;

    fn hello(rank: u32, nranks: u32, wait: Option<u64>) -> HelloFrame<'static> {
        let time_limit =
            wait.map(|s| TimeLimit { total: Duration::from_secs(s), left: Duration::from_secs(s) });
        let secret = Secret([0; 16]);
        HelloFrame {
            serial: 0,
            secret,
            version: VERSION,
            abi: ABI,
            rank,
            nranks,
            nfds: 0,
            time_limit,
            info: b"",
        }
    }

    fn gathering(ranks: &[u32], nranks: u32, waits: &[Option<u64>], now: Instant) -> Rendezvous {
        let mut rendezvous = Rendezvous::default();
        for (rank, wait) in ranks.iter().zip(waits) {
            rendezvous.join(&hello(*rank, nranks, *wait), Who::here(100 + *rank), vec![], now).unwrap();
        }
        rendezvous
    }

    #[test]
    fn missing_ranks_are_named_in_runs() {
        assert_eq!(runs_of(&[5]), "rank 5");
        assert_eq!(runs_of(&[2, 5]), "ranks 2, 5");
        assert_eq!(runs_of(&[1, 2, 3, 7, 8]), "ranks 1-3, 7, 8");
    }

    #[test]
    fn the_shortest_wait_ends_the_meeting_and_names_who_is_missing() {
        let now = Instant::now();
        let rendezvous = gathering(&[0, 3], 6, &[Some(30), Some(10)], now);
        assert_eq!(rendezvous.deadline(), Some(now + Duration::from_secs(10)));
        assert_eq!(rendezvous.overdue(now + Duration::from_secs(9)), None);
        let error = rendezvous.overdue(now + Duration::from_secs(10)).unwrap();
        assert_eq!(error.code, Code::Timeout);
        let start = "ranks 1, 2, 4, 5 of 6 have not come after 10 s (the timeout of rank 3, PID 103)";
        assert!(error.message.starts_with(start), "{}", error.message);
    }

    #[test]
    fn once_all_have_come_the_longest_wait_counts() {
        let now = Instant::now();
        let rendezvous = gathering(&[1, 0], 2, &[Some(30), Some(10)], now);
        assert_eq!(rendezvous.deadline(), Some(now + Duration::from_secs(30)));
        assert_eq!(rendezvous.overdue(now + Duration::from_secs(60)), None);
        assert_eq!(gathering(&[1, 0], 2, &[None, Some(10)], now).deadline(), None);
    }

    #[test]
    fn disagreement_names_both_sides() {
        let now = Instant::now();
        let mut rendezvous = gathering(&[0], 4, &[None], now);
        let error = rendezvous.join(&hello(2, 8, None), Who::here(102), vec![], now).unwrap_err();
        assert_eq!(error.code, Code::InvalidUsage);
        assert!(error.message.contains("rank 2 (PID 102) says nranks 8, rank 0 (PID 100) says 4"), "{error}");
        let error = rendezvous.join(&hello(0, 4, None), Who::here(107), vec![], now).unwrap_err();
        assert!(error.message.contains("rank 0 of 4: PID 100 and PID 107"), "{error}");
        let error = rendezvous.join(&hello(4, 4, None), Who::here(104), vec![], now).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("rank 4 (PID 104) is out of range: nranks is 4"), "{error}");
        let error = Rendezvous::default()
            .join(&hello(0, MAX_RANKS + 1, None), Who::here(1), vec![], now)
            .unwrap_err();
        assert!(error.message.contains("says nranks 1025"), "{error}");
    }

    #[test]
    fn a_caller_with_another_ranks_number_stands_for_one_that_never_comes() {
        let now = Instant::now();
        let holds = |came: &[u32], by: (u32, u32)| {
            let rendezvous = gathering(came, 3, &[Some(60); 3], now);
            Verdict::of(&rendezvous, Error::usage("no"), Some(by), now).holds()
        };
        assert!(!holds(&[0, 1], (1, 3)), "rank 1 came twice, so rank 2 does not");
        assert!(!holds(&[0, 1], (7, 3)), "there is no rank 7, so rank 2 does not come");
        assert!(holds(&[0], (0, 3)), "one of ranks 1 and 2 comes");
        assert!(holds(&[0, 1], (1, 0)), "rank 1 deserts, and rank 2 comes");
    }

    #[test]
    fn another_version_or_build_is_refused_and_both_are_named() {
        let other =
            HelloFrame { version: *b"9.8.7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ..hello(1, 2, None) };
        let error = same_build(&other.encode(), Who::here(55), Who::here(1)).unwrap_err();
        assert!(error.message.contains("PID 55 uses Penny 9.8.7"), "{error}");
        assert!(error.message.contains(concat!("uses Penny ", env!("CARGO_PKG_VERSION"))), "{error}");
        let other = HelloFrame { abi: !ABI, ..hello(1, 2, None) };
        assert!(
            same_build(&other.encode(), Who::here(55), Who::here(1))
                .unwrap_err()
                .message
                .contains("different builds")
        );
        assert_eq!(same_build(&hello(1, 2, None).encode(), Who::here(55), Who::here(1)), Ok(()));
    }
}
