//! What goes wrong with ports, and when: `[[fault]]` in a machine's file.
//!
//! ```toml
//! [[fault]]                # the port serves nothing for the time and for that of its retraining; what it was
//! link = "n0.g0.nic.tx"    # sending is sent again
//! kind = "down"
//! at = "1ms"
//! for = "1ms"
//! retrain = "100us"
//! [[fault]]                # a part of the rate. drop_lane is the same, by the lanes that are left: lanes = "1/2"
//! link = "n1.g3.nic.*"
//! kind = "slow"
//! at = "0s"
//! for = "5ms"
//! factor = "0.5x"
//! [[fault]]                # of 1000 messages one is damaged and sent again, at most 7 times: then the call fails.
//! link = "n0.g1.nic.tx"    # At all times, unless it has at and for
//! kind = "crc"
//! rate = 1e-3
//! retries = 7
//! seed = 1
//! ```
//!
//! Times are those of the machine's clock, which begins at 0. A port has one fault at a time that takes its rate.

use super::file::named;
use super::source::Section;
use super::units::{self, Ratio};
use super::{Port, PortId};
use crate::error::Result;
use std::collections::HashMap;

/// One port's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFault {
    /// Whose.
    pub port: PortId,
    /// From then on
    pub from_ps: u64,
    /// until then, retraining included; `u64::MAX`: for ever.
    pub until_ps: u64,
    /// The kind of the fault.
    pub kind: FaultKind,
}

/// The kinds of faults that a port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The port serves nothing.
    Down,
    /// The port has a fraction of its rate.
    Slow(Ratio),
    /// The port damages messages.
    Crc(Crc),
}

/// A fault that damages messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc {
    /// The number of damaged messages of 2^64.
    threshold: u128,
    /// The most times that a message is sent again.
    pub retries: u32,
    /// Other seeds damage other messages.
    pub seed: u64,
}

impl Crc {
    /// Returns how many of 2^64 messages are damaged.
    pub(super) fn threshold(&self) -> u128 {
        self.threshold
    }
    /// Tells whether `number`, which may be any u64, means damage.
    pub fn hits(&self, number: u64) -> bool {
        u128::from(number) < self.threshold
    }
}

/// Reads one `[[fault]]`, and adds it to those of the ports that it names.
pub(super) fn read(section: &Section, ports: &[Port], faults: &mut Vec<PortFault>) -> Result<()> {
    let link = section.need("link", "\"n0.g0.nic.tx\"")?;
    let kind = section.need("kind", "\"down\"")?.word(&["down", "slow", "drop_lane", "crc"])?;
    let own: &[&str] = match kind {
        "down" => &["retrain"],
        "slow" => &["factor"],
        "drop_lane" => &["lanes"],
        _ => &["rate", "retries", "seed"],
    };
    section.knows(&[&["link", "kind", "at", "for"], own].concat())?;
    let always = kind == "crc" && section.get("at").is_none() && section.get("for").is_none();
    let (from_ps, for_ps) = if always {
        (0, u64::MAX)
    } else {
        let time = |key| section.need(key, "\"1ms\"")?.read(units::time);
        (time("at")?, time("for")?)
    };
    let mut until_ps = from_ps.saturating_add(for_ps);
    let kind = match kind {
        "down" => {
            let retrain_ps = section.need("retrain", "\"100us\"")?.read(units::time)?;
            until_ps = until_ps.saturating_add(retrain_ps);
            FaultKind::Down
        }
        "slow" => FaultKind::Slow(section.need("factor", "\"0.5x\"")?.read(|text| {
            let factor = units::factor(text)
                .unwrap_or_else(|| Err(format!("`{text}` is no factor; write it like 0.5x")))?;
            factor.is_a_part().then_some(factor).ok_or_else(|| "write a factor above 0 and up to 1".into())
        })?),
        "drop_lane" => FaultKind::Slow(section.need("lanes", "\"1/2\"")?.read(lanes)?),
        _ => FaultKind::Crc(Crc {
            threshold: section.need("rate", "1e-3")?.read(threshold)?,
            retries: section.need("retries", "7")?.count(u32::MAX)?,
            seed: section.need("seed", "1")?.read(|text| {
                text.parse()
                    .map_err(|_| format!("`{text}` is not a whole number from 0 to 2^64 - 1; write one"))
            })?,
        }),
    };
    let mut earlier: HashMap<PortId, Vec<PortFault>> = HashMap::new();
    faults.iter().for_each(|fault| earlier.entry(fault.port).or_default().push(*fault));
    for port in named(&link, ports)? {
        let fault = PortFault { port, from_ps, until_ps, kind };
        if earlier.get(&port).is_some_and(|all| all.iter().any(|other| fault.meets(other))) {
            return Err(section.error(format_args!(
                "comes while {} is down or slow already; let one end before the other begins",
                ports[port as usize].name
            )));
        }
        faults.push(fault);
    }
    Ok(())
}

impl PortFault {
    /// Tells whether both change the rate of the same port at the same time.
    fn meets(&self, other: &PortFault) -> bool {
        let takes = |fault: &PortFault| !matches!(fault.kind, FaultKind::Crc(_));
        self.port == other.port
            && takes(self)
            && takes(other)
            && self.from_ps < other.until_ps
            && other.from_ps < self.until_ps
    }
}

/// `1/2`: the lanes that are left, of all.
fn lanes(text: &str) -> Result<Ratio, String> {
    let number = |text: &str| text.trim().parse().ok().filter(|&n: &u32| n > 0);
    let both = text.split_once('/').and_then(|(left, all)| Some((number(left)?, number(all)?)));
    let part = both.map(|(left, all)| Ratio::new(left.into(), all.into())).filter(|part| part.is_a_part());
    part.ok_or_else(|| format!("`{text}` is not lanes left of all lanes; write it like 1/2"))
}

/// A probability as a part of 2^64.
fn threshold(text: &str) -> Result<u128, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok((rate * 2f64.powi(64)) as u128),
        _ => Err(format!(
            "`{text}` is not a part of the messages; write a number above 0 and up to 1, like 1e-3"
        )),
    }
}
