//! `--compute`: how long an interval of computing takes on a declared machine.

use std::fmt;
use std::str::FromStr;

use penny::sim::topology::{DeviceSpec, Network, units};

use super::program::{Interval, Work, Workload};

/// Where the lengths of computing come from.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputeRule {
    /// The workload's own times.
    Keep,
    /// The workload's own times, multiplied.
    Scale(String, units::Ratio),
    /// The machine's device, for intervals whose operations or bytes are known.
    Declared,
}

/// How many intervals there are of which kind, of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounts {
    /// All.
    pub all: usize,
    /// Those whose operations and bytes are not known: they keep their time under [`ComputeRule::Declared`].
    pub unknown: usize,
}

impl FromStr for ComputeRule {
    type Err = String;

    fn from_str(text: &str) -> Result<ComputeRule, String> {
        match text {
            "keep" => Ok(ComputeRule::Keep),
            "declared" => Ok(ComputeRule::Declared),
            _ => match text.strip_prefix("scale=").map(|factor| (factor, units::ratio(factor))) {
                Some((factor, Ok(ratio))) => Ok(ComputeRule::Scale(factor.to_owned(), ratio)),
                Some((_, Err(why))) => Err(format!("scale={why}")),
                None => Err("not a rule; write keep, scale=0.5 or declared".to_owned()),
            },
        }
    }
}

impl fmt::Display for ComputeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputeRule::Keep => f.write_str("keep"),
            ComputeRule::Scale(factor, _) => write!(f, "scale={factor}"),
            ComputeRule::Declared => f.write_str("declared"),
        }
    }
}

impl ComputeRule {
    /// Returns the rule's device on a machine, and counts the workload's intervals. `Err`: an interval has no time by this rule.
    pub fn check(
        &self,
        workload: &Workload,
        network: &Network,
    ) -> Result<(Option<DeviceSpec>, IntervalCounts), String> {
        let device = match (self, network.device) {
            (ComputeRule::Declared, None) => {
                return Err(format!(
                    "--compute declared: {} declares no [device] with flops and mem_bw; add it to the machine's file, or take \
                     --compute keep",
                    network.name
                ));
            }
            (ComputeRule::Declared, device) => device,
            _ => None,
        };
        let mut counts = IntervalCounts::default();
        for (rank, program) in workload.ranks.iter().enumerate() {
            for (node, work) in (0..).zip(program.nodes.iter().map(|node| &node.work)) {
                let Work::Compute(interval) = work else { continue };
                counts.all += 1;
                let is_unknown = interval.flops.is_none() && interval.bytes.is_none();
                counts.unknown += usize::from(is_unknown);
                if interval.time_ps.is_none() && (is_unknown || device.is_none()) {
                    let remedy = match is_unknown {
                        true => "give it a time, or its FLOPs and bytes",
                        false => "take --compute declared",
                    };
                    return Err(format!(
                        "{}: the interval has no time, which --compute {self} needs; {remedy}",
                        workload.named(rank, node)
                    ));
                }
            }
        }
        Ok((device, counts))
    }

    /// Returns the picoseconds of an interval; `device` is what [`ComputeRule::check`] returned.
    pub fn time_ps(&self, interval: Interval, device: Option<DeviceSpec>) -> u64 {
        let kept = interval.time_ps.unwrap_or(0);
        match (self, device) {
            (ComputeRule::Scale(_, ratio), _) => ratio.of(kept),
            (ComputeRule::Declared, Some(device)) if interval.flops.or(interval.bytes).is_some() => {
                device.time_ps(interval.flops.unwrap_or(0), interval.bytes.unwrap_or(0))
            }
            _ => kept,
        }
    }
}
