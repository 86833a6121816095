//! The report of an ordinary job: a line a rank of each communicator, busiest first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use penny::internals::transport::look::{CommunicatorLook, RankLook};
use serde::Serialize;

/// Rates that are kept of each rank, for its sparkline.
pub const KEPT: usize = 16;

/// By what the ranks are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Bytes a second, or in all where there was one look only
    Bytes,
    /// Calls a second, or in all
    Calls,
    /// Time in waits since the last look, or in all
    Waits,
    /// Communicator and rank
    Rank,
}

impl Sort {
    /// Returns the one that the key `s` comes to next.
    pub fn next(self) -> Sort {
        match self {
            Sort::Bytes => Sort::Calls,
            Sort::Calls => Sort::Waits,
            Sort::Waits => Sort::Rank,
            Sort::Rank => Sort::Bytes,
        }
    }
}

/// An ordinary job at one look.
#[derive(Clone, Debug, Serialize)]
pub struct RanksReport {
    /// The ranks' processes on this host.
    pub pids: Vec<u32>,
    /// Communicators that share the job's memory.
    pub communicators: usize,
    /// Where these processes have made several communicators each by itself: which of them this is, and how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<[usize; 2]>,
    /// Seconds since the last look.
    pub since_last_s: Option<f64>,
    /// The ranks of this host.
    pub ranks: Vec<Row>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The communicator's number among those of the job: 0 is the first one, from which the others were made.
    pub communicator: usize,
    /// Ranks of the communicator, on all hosts.
    pub of: u32,
    pub rank: u32,
    pub pid: u32,
    pub state: &'static str,
    /// Collectives and messages.
    pub calls: u64,
    /// Bytes of their vectors.
    pub bytes: u64,
    pub collectives: Vec<Kind>,
    pub sent: Amount,
    pub received: Amount,
    /// Time in waits that lasted longer than their first polls.
    pub waited_s: f64,
    /// How long the present wait has lasted.
    pub waiting_s: Option<f64>,
    pub last_call: Option<String>,
    /// Since the last look.
    pub recent: Option<Recent>,
    /// Bytes a second between the latest looks, the last one last.
    #[serde(skip)]
    pub rates: Vec<f64>,
}

/// Calls of one collective.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    pub collective: &'static str,
    pub calls: u64,
    pub bytes: u64,
}

/// Messages of one direction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Amount {
    pub messages: u64,
    pub bytes: u64,
}

/// A rank's work since the last look.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recent {
    pub calls_per_s: f64,
    pub bytes_per_s: f64,
    /// Share of the time that was spent in waits.
    pub waits: f64,
}

/// What is kept of a job between two looks.
#[derive(Default)]
pub struct History {
    last: Option<Instant>,
    ranks: BTreeMap<(u64, u32), Seen>,
}

#[derive(Default)]
struct Seen {
    calls: u64,
    bytes: u64,
    waited_s: f64,
    rates: VecDeque<f64>,
}

impl Row {
    fn new(communicator: usize, of: u32, look: &RankLook) -> Row {
        let kind = |(collective, amount): &(penny::internals::types::Collective, _)| {
            let amount: &penny::internals::memory::control::call_counters::Amount = amount;
            Kind { collective: collective.name(), calls: amount.number, bytes: amount.bytes }
        };
        let collectives: Vec<Kind> = look.collectives.iter().map(kind).collect();
        let [sent, received] =
            [look.sent, look.received].map(|amount| Amount { messages: amount.number, bytes: amount.bytes });
        let seconds = |ns: u64| ns as f64 / 1e9;
        Row {
            communicator,
            of,
            rank: look.rank,
            pid: look.pid,
            state: look.state,
            calls: collectives.iter().map(|kind| kind.calls).sum::<u64>() + sent.messages + received.messages,
            bytes: collectives.iter().map(|kind| kind.bytes).sum::<u64>() + sent.bytes + received.bytes,
            collectives,
            sent,
            received,
            waited_s: seconds(look.waited_ns),
            waiting_s: look.waiting_ns.map(seconds),
            last_call: look.last_call.clone(),
            recent: None,
            rates: Vec::new(),
        }
    }

    /// Adds what has changed since `seen`, and remembers it there.
    fn compare(&mut self, seen: &mut Seen, seconds: Option<f64>) {
        if let Some(seconds) = seconds {
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let recent = Recent {
                calls_per_s: rate(self.calls, seen.calls),
                bytes_per_s: rate(self.bytes, seen.bytes),
                waits: ((self.waited_s - seen.waited_s) / seconds).clamp(0.0, 1.0),
            };
            self.recent = Some(recent);
            seen.rates.push_back(recent.bytes_per_s);
            if seen.rates.len() > KEPT {
                seen.rates.pop_front();
            }
        }
        self.rates = seen.rates.iter().copied().collect();
        (seen.calls, seen.bytes, seen.waited_s) = (self.calls, self.bytes, self.waited_s);
    }

    fn weight(&self, sort: Sort) -> f64 {
        match (sort, self.recent) {
            (Sort::Bytes, Some(recent)) => recent.bytes_per_s,
            (Sort::Bytes, None) => self.bytes as f64,
            (Sort::Calls, Some(recent)) => recent.calls_per_s,
            (Sort::Calls, None) => self.calls as f64,
            (Sort::Waits, Some(recent)) => recent.waits,
            (Sort::Waits, None) => self.waited_s,
            (Sort::Rank, _) => 0.0,
        }
    }
}

impl RanksReport {
    /// Makes the report of a look, and remembers it in `history`.
    pub fn new(pids: &[u32], looks: &[CommunicatorLook], history: &mut History) -> RanksReport {
        let now = Instant::now();
        let since_last_s = history.last.replace(now).map(|last| (now - last).as_secs_f64());
        let mut ranks = Vec::new();
        for (communicator, look) in looks.iter().enumerate() {
            for rank in look.ranks.iter().filter(|rank| rank.state != "left") {
                let mut row = Row::new(communicator, look.nranks, rank);
                let known = history.ranks.contains_key(&(look.at, rank.rank));
                let seen = history.ranks.entry((look.at, rank.rank)).or_default();
                row.compare(seen, since_last_s.filter(|&seconds| known && seconds > 0.0));
                ranks.push(row);
            }
        }
        history.ranks.retain(|place, _| looks.iter().any(|look| look.at == place.0));
        RanksReport { pids: pids.to_vec(), communicators: looks.len(), place: None, since_last_s, ranks }
    }

    /// Returns the same, sorted.
    pub fn sorted(mut self, sort: Sort) -> RanksReport {
        let descending =
            |a: &Row, b: &Row| b.weight(sort).partial_cmp(&a.weight(sort)).unwrap_or(Ordering::Equal);
        // The sort is stable: alike ranks stay in their order.
        self.ranks.sort_by(descending);
        self
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use penny::internals::memory::control::call_counters::Amount;
    use penny::internals::types::Collective;

    /// Two ranks after `times` all-reduces of 1 MB; rank 1 has waited for half of `seconds`.
    pub fn look(times: u64, seconds: u64) -> Vec<CommunicatorLook> {
        let amount = |number, bytes| Amount { number, bytes };
        let rank = |rank: u32| RankLook {
            rank,
            pid: 41 + rank,
            state: "member",
            collectives: vec![(Collective::AllReduce, amount(times, times * 1_000_000))],
            sent: amount(u64::from(rank), 500),
            received: amount(0, 0),
            waited_ns: u64::from(rank) * seconds * 500_000_000,
            waiting_ns: (rank == 1).then_some(2_500_000_000),
            last_call: Some(format!("#{times} all_reduce(count 250000, type float, op sum)")),
        };
        vec![CommunicatorLook { at: 0, nranks: 4, ranks: vec![rank(0), rank(1)] }]
    }

    #[test]
    fn the_second_look_has_rates_and_keeps_some_of_them() {
        let mut history = History::default();
        let first = RanksReport::new(&[41, 42], &look(3, 0), &mut history);
        assert!(first.since_last_s.is_none() && first.ranks[0].recent.is_none());
        assert_eq!((first.ranks[0].calls, first.ranks[1].calls), (3, 4), "messages count");
        let mut later = first;
        for times in 4..30 {
            later = RanksReport::new(&[41, 42], &look(times, 0), &mut history);
        }
        assert!(later.ranks[0].recent.unwrap().bytes_per_s > 0.0);
        assert_eq!(later.ranks[0].rates.len(), KEPT);
    }

    #[test]
    fn ranks_are_sorted_by_what_is_asked_for() {
        let order = |sort| {
            let report = RanksReport::new(&[], &look(3, 4), &mut History::default()).sorted(sort);
            report.ranks.iter().map(|row| row.rank).collect::<Vec<_>>()
        };
        assert_eq!(order(Sort::Waits), [1, 0]);
        assert_eq!(order(Sort::Rank), [0, 1]);
        let mut sort = Sort::Bytes;
        for _ in 0..4 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Bytes);
    }
}
