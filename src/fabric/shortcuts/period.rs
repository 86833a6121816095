//! Periodicity: once everything under way stands as it stood before, only later, whole periods are skipped.
//!
//! ```text
//!     time      |-- settles --|-- period --|-- period --|-- period --|-- the last rounds --|
//!               simulated      simulated    added up in one sum       simulated
//! ```
//!
//! The state at a moment is what is under way (link, slice, chunk, ports passed, times from now, rounds from link 0's)
//! and when ports are free and their queues start, from now. The engine is a function of it, so equal states have equal
//! futures as long as no message is in its last round. States are compared whole, not by a hash; one is kept, replaced
//! at moments that are twice as far apart each time, so that any period is found within a few of its lengths.

use super::events::LinkEngine;
use super::message::{LinkMessage, WAITS};
use super::port::PortGroup;
use crate::error::Result;
use crate::fabric::PortCounters;

/// Looks for a state that was there before.
pub struct PeriodFinder {
    /// Periods that were skipped.
    pub skipped: u64,
    looks: u64,
    replace_at: u64,
    kept: Option<Kept>,
    state: Vec<u64>,
}

struct Kept {
    state: Vec<u64>,
    at_ps: u64,
    round: u32,
    counters: Vec<PortCounters>,
    events: u64,
}

impl PeriodFinder {
    pub fn new() -> PeriodFinder {
        PeriodFinder { skipped: 0, looks: 0, replace_at: 1, kept: None, state: Vec::new() }
    }

    /// Called when a message of link 0 has arrived. `false`: there is nothing more to look for.
    pub fn look(&mut self, engine: &mut LinkEngine<'_>, now_ps: u64) -> Result<bool> {
        let Some(round) = engine.under_way().map(|(_, m)| m.round).max() else { return Ok(true) };
        self.looks += 1;
        self.state.clear();
        state(engine, now_ps, round, &mut self.state);
        if let Some(kept) = &self.kept
            && kept.round < round
            && kept.state == self.state
        {
            let periods = (engine.links.rounds - 1 - round) / (round - kept.round);
            self.skipped = u64::from(periods);
            skip(engine, kept, u64::from(periods), now_ps, round)?;
            return Ok(false);
        }
        if self.looks == self.replace_at {
            self.replace_at *= 2;
            self.kept = Some(Kept {
                state: std::mem::take(&mut self.state),
                at_ps: now_ps,
                round,
                counters: engine.ports.iter().map(PortGroup::counters).collect(),
                events: engine.events,
            });
        }
        Ok(true)
    }
}

fn skip(engine: &mut LinkEngine<'_>, kept: &Kept, periods: u64, now_ps: u64, round: u32) -> Result<()> {
    for (port, then) in engine.ports.iter_mut().zip(&kept.counters) {
        let more = |now: u64, then: u64| now.saturating_add((now - then).saturating_mul(periods));
        port.bytes = more(port.bytes, then.bytes);
        port.messages = more(port.messages, then.messages);
        port.busy_ps = more(port.busy_ps, then.busy_ps);
    }
    engine.events += (engine.events - kept.events) * periods;
    let rounds = (round - kept.round) * periods as u32;
    engine.shift(rounds, (now_ps - kept.at_ps).saturating_mul(periods))
}

/// All that the future depends on, as seen from now.
fn state(engine: &LinkEngine<'_>, now_ps: u64, round: u32, out: &mut Vec<u64>) {
    let mut under_way: Vec<&LinkMessage> = engine.under_way().map(|(_, message)| message).collect();
    under_way.sort_unstable_by_key(|m| (m.link, m.round, m.slice));
    for m in under_way {
        let at = if m.at_ps == WAITS { WAITS } else { m.at_ps - now_ps };
        out.push(u64::from(m.link) << 32 | u64::from(m.slice));
        out.push(u64::from(m.chunk) << 32 | u64::from(round - m.round));
        out.push(u64::from(m.passed));
        // A tail that is past cannot hold anything up any more.
        let tail = if m.at_ps == WAITS { 0 } else { m.tail_ps.saturating_sub(now_ps) };
        out.extend([at, tail]);
    }
    out.extend(engine.fed_ps(now_ps));
    for port in &engine.ports {
        out.push(port.free_ps.saturating_sub(now_ps));
        let waiting = port.waiting.starts(now_ps);
        out.push(waiting.clone().count() as u64);
        out.extend(waiting.map(|start| start - now_ps));
    }
    out.extend(engine.heads.iter().map(|head| match head.at_ps == now_ps {
        true => 1 + u64::from(head.which),
        false => 0,
    }));
}
