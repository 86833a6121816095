//! Where a step's time goes, by rank.
//!
//! ```text
//!     compute          ========          =====
//!     communication          ------------
//!     total            |---------------------------|      exposed: communication beside which nothing computes
//!                              exposed        idle        idle: neither, such as waiting for other ranks
//! ```
//!
//! A step begins for a rank when its first node can begin, and ends with its last; the first step begins at 0.

use super::program::{Node, RankProgram, Work, Workload};
use super::replay::{NodeTimes, Played};

/// The time of one rank in one step, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub total: u64,
    /// The device computes.
    pub compute: u64,
    /// A call or a message is under way, its other ranks being there.
    pub communication: u64,
    /// Communication beside which the device does not compute.
    pub exposed: u64,
    /// Communication and computing at once.
    pub overlap: u64,
    /// Host work beside which there is neither computing nor communication.
    pub host: u64,
    /// None of these.
    pub idle: u64,
}

/// Picoseconds from and to.
type Span = (u64, u64);

/// Returns the account of each step and rank, `[step][rank]`.
pub fn steps(workload: &Workload, played: &Played) -> Vec<Vec<Account>> {
    let ranks = || workload.ranks.iter().zip(&played.times);
    let of_rank: Vec<Vec<Account>> =
        ranks().map(|(program, times)| rank_steps(program, times, workload.steps)).collect();
    (0..workload.steps as usize).map(|step| of_rank.iter().map(|steps| steps[step]).collect()).collect()
}

/// Returns the sum of a rank's steps, for each rank.
pub fn sum(steps: &[Vec<Account>]) -> Vec<Account> {
    let mut sums = vec![Account::default(); steps.first().map_or(0, Vec::len)];
    for (all, account) in steps.iter().flat_map(|ranks| (0..).zip(ranks)) {
        let all: &mut Account = &mut sums[all];
        all.total += account.total;
        all.compute += account.compute;
        all.communication += account.communication;
        all.exposed += account.exposed;
        all.overlap += account.overlap;
        all.host += account.host;
        all.idle += account.idle;
    }
    sums
}

fn rank_steps(program: &RankProgram, times: &[NodeTimes], steps: u32) -> Vec<Account> {
    let mut nodes: Vec<Vec<(&Node, &NodeTimes)>> = vec![Vec::new(); steps as usize];
    for (node, times) in program.nodes.iter().zip(times) {
        nodes[node.step as usize].push((node, times));
    }
    let mut end = 0;
    nodes
        .iter()
        .map(|nodes| {
            let begin = end;
            end = nodes.iter().map(|(_, times)| times.end_ps).fold(begin, u64::max);
            account(nodes, (begin, end))
        })
        .collect()
}

fn account(nodes: &[(&Node, &NodeTimes)], (begin, end): Span) -> Account {
    let spans = |wanted: fn(&Work) -> bool| {
        let all = nodes.iter().filter(|(node, _)| wanted(&node.work));
        union(all.map(|(_, times)| (times.begin_ps.max(begin), times.end_ps)).collect())
    };
    let compute = spans(|work| matches!(work, Work::Compute(_)));
    let communication = spans(|work| {
        matches!(work, Work::Call(_) | Work::Send(_) | Work::Recv(_) | Work::Put(_) | Work::Wait { .. })
    });
    let host = spans(|work| matches!(work, Work::Host(_)));
    let busy = union([compute.clone(), communication.clone()].concat());
    let all = union([busy.clone(), host].concat());
    let (total, compute, communication) = (end - begin, length(&compute), length(&communication));
    let (busy, all) = (length(&busy), length(&all));
    let exposed = busy - compute;
    Account {
        total,
        compute,
        communication,
        exposed,
        overlap: communication - exposed,
        host: all - busy,
        idle: total - all,
    }
}

/// Returns the same moments as spans that neither touch nor overlap.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|(begin, end)| begin < end);
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (begin, end) in spans {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

fn length(spans: &[Span]) -> u64 {
    spans.iter().map(|(begin, end)| end - begin).sum()
}

#[cfg(test)]
mod tests {
    use super::super::program::{Interval, Message};
    use super::*;

    #[test]
    fn a_steps_time_is_computing_exposed_communication_and_the_rest() {
        let node = |work| Node { label: String::new(), step: 0, after: vec![], work };
        let compute = node(Work::Compute(Interval::default()));
        let send = node(Work::Send(Message { peer: 1, bytes: 1, tag: 0 }));
        let host = node(Work::Host(0));
        let at = |begin_ps, end_ps| NodeTimes { ready_ps: 0, begin_ps, end_ps };
        let (a, b, c, d) = (at(0, 10), at(5, 30), at(40, 50), at(20, 35));
        let nodes = [(&compute, &a), (&send, &b), (&compute, &c), (&host, &d)];
        let found = account(&nodes, (0, 60));
        let expected =
            Account { total: 60, compute: 20, communication: 25, exposed: 20, overlap: 5, host: 5, idle: 15 };
        assert_eq!(found, expected);
        assert_eq!(found.compute + found.exposed + found.host + found.idle, found.total);
    }

    #[test]
    fn spans_that_touch_are_one() {
        assert_eq!(union(vec![(5, 9), (0, 3), (3, 4), (7, 8), (2, 2)]), [(0, 4), (5, 9)]);
    }
}
