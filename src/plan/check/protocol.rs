//! Whether programs get through where senders write into the receiver's memory, under a protocol that is stated.
//!
//! ```text
//!     rank a ──► rank b       b's three slots for a   | 3  6 .. | 1  4  7 .. | 2  5 .. |
//!                             message m takes slot m mod 3, and its word becomes m
//! ```
//!
//! With credits a sender waits until the receiver has taken what is in the slot; that is what channels do, and `channels`
//! runs it. Without, a sender writes when its program comes to it, and the programs themselves have to see to it that the
//! slot has been read. Whether they do is no matter of one schedule: each step is given a vector clock, which says how far
//! every rank must have come before it begins. Message m + slots may be written early unless its sender's clock holds the
//! step that takes m. If some pair is not so ordered, then there is a schedule in which the receiver is late, and that is the
//! fault. Steps wait for messages only, and so the order is the same whatever the schedule.
//!
//! Calls follow each other without a pause. All calls have the same steps, so what holds for the messages of the first one
//! holds for all.

use super::matching::Matching;
use super::{Case, Checked, PlanFault, channels, fault, program};
use crate::types::Rank;

/// The condition on which a receiver takes a message for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The slot's word is at least the message's number.
    AtLeast,
    /// The slot's word is exactly the message's number.
    Equal,
}

/// The protocol by which a message gets from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Places that a receiver has for each sender; messages take them in turn.
    pub slots: usize,
    /// The receiver's condition.
    pub wait: Wait,
    /// The sender waits until what is in the slot has been taken.
    pub credits: bool,
}

/// Proves that the programs get through under the protocol.
pub(super) fn prove(case: &Case<'_>, matching: &Matching, protocol: Protocol) -> Checked<()> {
    match protocol {
        Protocol { slots: 0, .. } => Err(program(0, "has no slots to send to")),
        // What a credit keeps from being overwritten is there for either wait.
        Protocol { credits: true, slots, .. } => channels::run(case, matching, slots),
        Protocol { credits: false, .. } => unacknowledged(case, matching, protocol),
    }
}

/// A message of one call: the sender's step and the receiver's.
#[derive(Clone, Copy)]
struct Message {
    sent: usize,
    taken: usize,
}

fn unacknowledged(case: &Case<'_>, matching: &Matching, protocol: Protocol) -> Checked<()> {
    let n = case.plans.len();
    // By receiver and sender: the messages of one call, in order.
    let mut messages: Vec<Vec<Message>> = vec![Vec::new(); n * n];
    for (to, steps) in matching.senders.iter().enumerate() {
        for (taken, senders) in steps.iter().enumerate() {
            for end in senders {
                messages[to * n + end.rank as usize].push(Message { sent: end.step, taken });
            }
        }
    }
    let later = |k: usize, q: usize| ((k + protocol.slots) / q, (k + protocol.slots) % q);
    let calls = messages.iter().filter(|m| !m.is_empty()).map(|m| later(m.len() - 1, m.len()).0 + 1).max();
    let clocks = clocks(case, matching, calls.unwrap_or(0));
    for (pair, messages) in messages.iter().enumerate() {
        let (to, from) = (pair / n, pair % n);
        for (k, message) in messages.iter().enumerate() {
            let (call, next) = later(k, messages.len());
            // What rank `to` has done for certain when the slot is written again.
            let certain = clocks[from][call * case.plans[from].steps.len() + messages[next].sent][to];
            if certain <= message.taken {
                return Err(overwritten(case, protocol, (to, *message), from, (call, messages[next])));
            }
        }
    }
    Ok(())
}

/// For each rank and each of its steps, call after call: how many steps of every rank come before its end.
fn clocks(case: &Case<'_>, matching: &Matching, calls: usize) -> Vec<Vec<Vec<usize>>> {
    let n = case.plans.len();
    let mut clocks: Vec<Vec<Vec<usize>>> = vec![Vec::new(); n];
    loop {
        let mut moved = false;
        for (rank, plan) in case.plans.iter().enumerate() {
            // A rank runs until it needs a message that is not there.
            while clocks[rank].len() < calls * plan.steps.len() {
                let (call, step) =
                    (clocks[rank].len() / plan.steps.len(), clocks[rank].len() % plan.steps.len());
                let arrived = |sender: usize, step: usize| {
                    clocks[sender].get(call * case.plans[sender].steps.len() + step)
                };
                let arrivals: Option<Vec<_>> = matching.senders[rank][step]
                    .iter()
                    .map(|end| arrived(end.rank as usize, end.step))
                    .collect();
                let Some(arrivals) = arrivals else { break };
                let mut clock = clocks[rank].last().cloned().unwrap_or_else(|| vec![0; n]);
                for arrival in arrivals {
                    clock.iter_mut().zip(arrival).for_each(|(mine, &theirs)| *mine = theirs.max(*mine));
                }
                clock[rank] += 1;
                clocks[rank].push(clock);
                moved = true;
            }
        }
        if !moved {
            return clocks;
        }
    }
}

fn overwritten(
    case: &Case<'_>,
    protocol: Protocol,
    (to, message): (usize, Message),
    from: usize,
    (call, next): (usize, Message),
) -> Box<PlanFault> {
    let when = match call {
        0 => "of the same call".to_owned(),
        1 => "of the next call".to_owned(),
        calls => format!("{calls} calls later"),
    };
    let (step, slots) = (next.sent, protocol.slots);
    let what = match protocol.wait {
        Wait::Equal => format!(
            "deadlock: waits for ever for a number that step {step} {when} of rank {from} may have overwritten already \
             (slots: {slots}, waits for equality, no credits)"
        ),
        Wait::AtLeast => format!(
            "takes a message that step {step} {when} of rank {from} may have overwritten already (slots: {slots}, waits \
             for at least its number, no credits)"
        ),
    };
    fault(to as Rank, message.taken, case.step(to as Rank, message.taken).chunk, what)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::prove_over;
    use super::*;
    use crate::algorithms;
    use crate::plan::{Plan, RankView};
    use crate::types::Collective;

    fn all_reduce(algorithm: &str, nranks: u32) -> Vec<Plan> {
        let algorithm = algorithms::find(algorithm).unwrap();
        algorithms::plan_all(algorithm, &RankView::flat(Collective::AllReduce, 0, nranks, 0))
    }

    /// What the checker says to an algorithm without credits, under either wait.
    fn unacknowledged(algorithm: &str, nranks: u32, slots: usize) -> [Checked<()>; 2] {
        [Wait::Equal, Wait::AtLeast].map(|wait| {
            let protocol = Protocol { slots, wait, credits: false };
            prove_over(&all_reduce(algorithm, nranks), Collective::AllReduce, 0, protocol)
        })
    }

    #[track_caller]
    fn passes(algorithm: &str, nranks: u32, slots: usize) {
        assert_eq!(
            unacknowledged(algorithm, nranks, slots),
            [Ok(()), Ok(())],
            "{algorithm}, {nranks} ranks, {slots} slots"
        );
    }

    /// Both waits are refused, each for what it does.
    #[track_caller]
    fn is_refused(algorithm: &str, nranks: u32, slots: usize) {
        let [equal, at_least] =
            unacknowledged(algorithm, nranks, slots).map(|outcome| outcome.unwrap_err().what);
        assert!(
            equal.starts_with("deadlock: waits for ever"),
            "{algorithm}, {nranks} ranks, {slots} slots: {equal}"
        );
        assert!(
            at_least.starts_with("takes a message that"),
            "{algorithm}, {nranks} ranks, {slots} slots: {at_least}"
        );
    }

    #[test]
    fn one_shot_with_a_single_slot_and_equality_waits_is_refused() {
        for nranks in 2..=8 {
            is_refused("one_shot", nranks, 1);
            passes("one_shot", nranks, 2);
        }
        let protocol = Protocol { slots: 1, wait: Wait::Equal, credits: false };
        let fault = prove_over(&all_reduce("one_shot", 2), Collective::AllReduce, 0, protocol).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "rank 0, step 1, block 0 part 0: deadlock: waits for ever for a number that step 0 of the next call of rank 1 may \
             have overwritten already (slots: 1, waits for equality, no credits)"
        );
    }

    #[test]
    fn a_ring_acknowledges_itself_with_as_many_slots_as_ranks_and_no_fewer() {
        for nranks in 2..=8 {
            passes("ring", nranks, nranks as usize);
            passes("ring", nranks, nranks as usize + 1);
            is_refused("ring", nranks, nranks as usize - 1);
        }
    }

    #[test]
    fn a_simple_ring_needs_two_slots() {
        for nranks in 3..=8 {
            passes("simple_ring", nranks, 2);
            is_refused("simple_ring", nranks, 1);
        }
        passes("simple_ring", 2, 1);
    }

    #[test]
    fn with_credits_every_algorithm_gets_through_with_any_number_of_slots() {
        for algorithm in algorithms::ALL {
            for &collective in algorithm.serves {
                for nranks in 1..=8 {
                    let view = RankView::flat(collective, 0, nranks, 0);
                    if algorithm.refuses(&view).is_some() {
                        continue;
                    }
                    let plans = algorithms::plan_all(algorithm, &view);
                    for slots in 1..=3 {
                        let protocol = Protocol { slots, wait: Wait::AtLeast, credits: true };
                        let outcome = prove_over(&plans, collective, 0, protocol);
                        assert_eq!(outcome, Ok(()), "{} {collective} {nranks}", algorithm.name);
                    }
                }
            }
        }
    }

    #[test]
    fn a_protocol_without_slots_is_refused() {
        let protocol = Protocol { slots: 0, wait: Wait::AtLeast, credits: true };
        assert!(prove_over(&all_reduce("ring", 2), Collective::AllReduce, 0, protocol).is_err());
    }
}
