//! How a port with declared faults serves a message.
//!
//! ```text
//!     down      |-- message --X        down, retrained        |-- message, again --|
//!     slow      |-- so much of it --|- the other part, more slowly --|
//!     crc       |-- message, damaged --|-- message, damaged --|-- message --|
//! ```
//!
//! A message that is cut off or damaged is sent again by the port that sent it, whole; what follows on its way goes by
//! the time at which it was sent in the end. A data mover's ends know what has arrived: where one serves the port, only the packets that
//! were on the wire are sent again. Whether a message is damaged is decided by a hash of the fault's seed, the
//! port, the message's number at the port, and how often it was sent: the same machine and the same calls give the same
//! times.

use super::port::MessageCost;
use crate::error::{Error, Result};
use crate::topology::faults::{Crc, FaultKind};
use crate::topology::{Class, Network, PortId};
use std::collections::HashMap;

/// The ports that have faults.
#[derive(Clone)]
pub struct Faults {
    ports: HashMap<PortId, Troubles>,
}

/// The faults of one port.
#[derive(Clone)]
struct Troubles {
    name: String,
    /// The latency and the largest packet's time of a wire that a data mover serves.
    wire_ps: Option<(u64, u64)>,
    /// The times in which the port serves nothing, or at a fraction of its rate. They are sorted and do not overlap.
    windows: Vec<Window>,
    damage: Vec<(u64, u64, Crc)>,
}

#[derive(Clone, Copy)]
struct Window {
    from_ps: u64,
    until_ps: u64,
    /// The part of its rate; (0, 1) is down.
    over: u64,
    under: u64,
}

/// The result of serving a message at a port.
#[derive(Clone, Copy)]
pub struct Served {
    /// The time at which it was first sent.
    pub first_ps: u64,
    /// The start of its last transmission.
    pub start_ps: u64,
    /// The end of its last transmission.
    pub end_ps: u64,
    /// The time at which its head is at the next port, for ports that take a message before its end has come.
    pub head_ps: u64,
    /// The time for which the port was occupied.
    pub busy_ps: u64,
    pub errors: u64,
    pub resends: u64,
}

impl Served {
    /// Returns what becomes of a message at a port without faults.
    #[inline]
    pub fn sound(start_ps: u64, tail_ps: u64, cost: MessageCost) -> Served {
        let end_ps = start_ps.saturating_add(cost.hold_ps).max(tail_ps);
        let head_ps = start_ps.saturating_add(cost.lead_ps);
        let busy_ps = end_ps - start_ps;
        Served { first_ps: start_ps, start_ps, end_ps, head_ps, busy_ps, errors: 0, resends: 0 }
    }
}

impl Faults {
    /// Returns the faults that a network declares.
    pub fn of(network: &Network) -> Faults {
        let mut ports: HashMap<PortId, Troubles> = HashMap::new();
        for fault in &network.faults {
            let troubles = ports.entry(fault.port).or_insert_with(|| Troubles {
                name: network.ports[fault.port as usize].name.clone(),
                wire_ps: wire_ps(network.class(fault.port)),
                windows: Vec::new(),
                damage: Vec::new(),
            });
            let (from_ps, until_ps) = (fault.from_ps, fault.until_ps);
            match fault.kind {
                FaultKind::Down => troubles.windows.push(Window { from_ps, until_ps, over: 0, under: 1 }),
                FaultKind::Slow(part) => {
                    let (over, under) = part.parts();
                    troubles.windows.push(Window { from_ps, until_ps, over, under });
                }
                FaultKind::Crc(crc) => troubles.damage.push((from_ps, until_ps, crc)),
            }
        }
        for troubles in ports.values_mut() {
            troubles.windows.sort_by_key(|window| window.from_ps);
        }
        Faults { ports }
    }

    /// Returns for how long a port was down before `before_ps`.
    pub fn down_ps(&self, port: PortId, before_ps: u64) -> u64 {
        let Some(troubles) = self.ports.get(&port) else { return 0 };
        let down = troubles.windows.iter().filter(|w| w.over == 0 && w.from_ps < before_ps);
        down.map(|w| w.until_ps.min(before_ps) - w.from_ps).sum()
    }

    /// Serves the port's message of this number, which is ready at a time and whose last byte does not leave before
    /// `tail_ps`. Each time that it is sent in vain goes to `lost`.
    pub fn serve(
        &self,
        port: PortId,
        number: u64,
        ready_ps: u64,
        tail_ps: u64,
        cost: MessageCost,
        mut lost: impl FnMut(u64, u64),
    ) -> Result<Served> {
        let Some(troubles) = self.ports.get(&port) else { return Ok(Served::sound(ready_ps, tail_ps, cost)) };
        let packet_ps = cost.lead_ps.saturating_sub(cost.gap_ps).saturating_sub(cost.latency_ps);
        let mut start_ps = troubles.up_from(ready_ps);
        let first_ps = start_ps;
        let (mut busy_ps, mut errors, mut resends) = (0u64, 0, 0);
        // The part of the message's time that need not be sent again, and when its head was there, if it was.
        let (mut kept_ps, mut head) = (0, None);
        loop {
            let bytes_ps = start_ps.saturating_add(cost.gap_ps);
            let end_ps = troubles.sent(bytes_ps, cost.hold_ps - cost.gap_ps - kept_ps).max(tail_ps);
            let there_ps = end_ps.saturating_add(troubles.wire_ps.map_or(0, |(latency_ps, _)| latency_ps));
            if let Some(down) = troubles.down_between(start_ps, there_ps) {
                let cut_ps = down.from_ps.min(end_ps);
                busy_ps += cut_ps - start_ps;
                resends += 1;
                lost(start_ps, cut_ps);
                let arrived_ps = troubles.arrived(bytes_ps, down.from_ps);
                if head.is_none() && packet_ps <= kept_ps + arrived_ps {
                    head = Some(troubles.sent(bytes_ps, packet_ps - kept_ps));
                }
                kept_ps = (kept_ps + arrived_ps).min(cost.hold_ps);
                start_ps = troubles.up_from(down.until_ps);
                continue;
            }
            busy_ps = busy_ps.saturating_add(end_ps - start_ps);
            if let Some(crc) = troubles.damages(port, number, errors, start_ps) {
                errors += 1;
                lost(start_ps, end_ps);
                if errors > u64::from(crc.retries) {
                    return Err(Error::remote(format!(
                        "link {} damaged a message {errors} times, and may send it again only {} times; \
                         repair the link, or declare more retries",
                        troubles.name, crc.retries
                    )));
                }
                resends += 1;
                (kept_ps, head) = (0, None);
                start_ps = troubles.up_from(end_ps);
                continue;
            }
            let head_ps = head.unwrap_or_else(|| troubles.sent(bytes_ps, packet_ps.saturating_sub(kept_ps)));
            let head_ps = head_ps.saturating_add(cost.latency_ps);
            return Ok(Served { first_ps, start_ps, end_ps, head_ps, busy_ps, errors, resends });
        }
    }
}

impl Troubles {
    /// Returns the first time from `at_ps` on at which the port is up.
    fn up_from(&self, at_ps: u64) -> u64 {
        let down = self.windows.iter().filter(|w| w.over == 0);
        // In order, so that one may end where the next begins.
        down.fold(at_ps, |at_ps, w| if (w.from_ps..w.until_ps).contains(&at_ps) { w.until_ps } else { at_ps })
    }

    /// The first time that it goes down between two times.
    fn down_between(&self, start_ps: u64, end_ps: u64) -> Option<&Window> {
        self.windows.iter().find(|w| w.over == 0 && start_ps < w.from_ps && w.from_ps < end_ps)
    }

    /// Returns the part of a transmission since `begin_ps` that has arrived when the port goes down, in whole packets: none
    /// where no data mover knows of it.
    fn arrived(&self, begin_ps: u64, down_ps: u64) -> u64 {
        let Some((latency_ps, packet_ps)) = self.wire_ps else { return 0 };
        let left_ps = down_ps.saturating_sub(latency_ps).saturating_sub(begin_ps);
        let slow = self.windows.iter().filter(|w| w.over > 0).map(|w| {
            let within_ps = w.until_ps.min(begin_ps + left_ps).saturating_sub(w.from_ps.max(begin_ps));
            within_ps - scaled(within_ps, w.over, w.under)
        });
        let sent_ps = left_ps.saturating_sub(slow.sum());
        sent_ps - sent_ps % packet_ps.max(1)
    }

    /// Returns the end of a transmission that begins at `begin_ps` and takes `left_ps` at the full rate, if the port is never down.
    fn sent(&self, begin_ps: u64, mut left_ps: u64) -> u64 {
        let mut at_ps = begin_ps;
        for window in self.windows.iter().filter(|w| w.over > 0 && w.until_ps > begin_ps) {
            let before_ps = window.from_ps.saturating_sub(at_ps);
            if left_ps <= before_ps {
                break;
            }
            left_ps -= before_ps;
            at_ps = at_ps.max(window.from_ps);
            let within_ps = scaled(window.until_ps - at_ps, window.over, window.under);
            if left_ps <= within_ps {
                let ps = (u128::from(left_ps) * u128::from(window.under)).div_ceil(u128::from(window.over));
                return at_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX));
            }
            left_ps -= within_ps;
            at_ps = window.until_ps;
        }
        at_ps.saturating_add(left_ps)
    }

    /// Returns the fault that damages a message, if one does. `before`: how often the message was damaged before.
    fn damages(&self, port: PortId, number: u64, before: u64, at_ps: u64) -> Option<Crc> {
        let now = self.damage.iter().filter(|(from_ps, until_ps, _)| (*from_ps..*until_ps).contains(&at_ps));
        now.map(|(_, _, crc)| *crc)
            .find(|crc| crc.hits([crc.seed, u64::from(port), number, before].into_iter().fold(0, mix)))
    }
}

fn wire_ps(class: &Class) -> Option<(u64, u64)> {
    class.mover.as_ref().map(|_| (class.latency_ps, class.packet_ps(class.mtu)))
}

/// Returns `amount * over / under`, rounded down.
fn scaled(amount: u64, over: u64, under: u64) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(over) / u128::from(under)).unwrap_or(u64::MAX)
}

/// One step of SplitMix64 (Steele, Lea and Flood, 2014), with a word folded in.
fn mix(state: u64, word: u64) -> u64 {
    let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
