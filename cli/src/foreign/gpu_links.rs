//! What a link between GPUs carries: NVLink or xGMI, as far as the GPU and its number of links tell.

use penny::sim::topology::units;

use super::gpu_node::Gpu;
use super::toml_text::{From, Text};
use super::{nvlink, xgmi};

/// A kind of link; its numbers are of one link in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkKind {
    /// `NVLink`, `xGMI link`.
    pub noun: &'static str,
    /// The name of its class.
    pub class: &'static str,
    /// Line rate, bytes a second.
    pub rate: u64,
    /// The part of it that the vendor's library counts on.
    pub eff: &'static str,
    /// That library.
    library: &'static str,
    /// What one step of its ring takes, in nanoseconds.
    step_ns: u64,
    /// The part of the rate that is left where a switch copies and sums, if those between such links do.
    in_switch: Option<&'static str>,
    /// Why these numbers.
    pub why: String,
}

/// Returns the kind of a GPU's links. `links`: how many the GPU has.
pub fn kind(gpu: &Gpu, links: u32) -> LinkKind {
    if gpu.amd {
        let (like, why) = xgmi::generation(gpu.gfx.as_deref());
        let (rate, eff) = (like.rate, like.eff);
        return LinkKind {
            noun: "xGMI link",
            class: "xgmi",
            rate,
            eff,
            library: "RCCL",
            step_ns: 800,
            in_switch: None,
            why,
        };
    }
    let (like, why) = nvlink::generation(gpu.sm, links);
    let (rate, eff, in_switch) = (like.rate, like.eff, like.in_switch);
    LinkKind { noun: "NVLink", class: "nv", rate, eff, library: "NCCL", step_ns: 600, in_switch, why }
}

impl LinkKind {
    /// Writes the class of `links` links taken as one, or the class of each link where a machine lists links one by one (`None`).
    pub fn class(&self, text: &mut Text, links: Option<u32>) {
        let one = units::print_bandwidth(self.rate);
        match links {
            Some(links) => {
                let about = format!("a GPU's {links} {}s in one direction", self.noun);
                text.section(&format!("class.{}{links}", self.class), &about);
                let why = format!("{one} a link, {}", self.why);
                text.word("bw", &units::print_bandwidth(self.rate * u64::from(links)), From::Guess(&why));
            }
            None => {
                text.section(
                    &format!("class.{}", self.class),
                    &format!("one {} in one direction", self.noun),
                );
                text.word("bw", &one, From::Guess(&self.why));
            }
        }
        let counted = units::ratio(self.eff).map_or(self.rate, |eff| eff.of(self.rate));
        let counts = format!("{} counts {} a link", self.library, units::print_bandwidth(counted));
        text.bare("eff", self.eff, From::Guess(&counts));
        let step =
            format!("{}'s ring step on {}s is {} us", self.library, self.noun, self.step_ns as f64 / 1e3);
        // A way through a switch has two ports.
        let (share, how) = match links {
            Some(_) => (self.step_ns / 2, format!("each of a way's two ports; {step}")),
            None => (self.step_ns, step),
        };
        text.word("lat", &format!("{share}ns"), From::Guess(&how));
        let packet = if self.class == "nv" {
            "the largest payload of an NVLink packet"
        } else {
            "as NVLink's packets"
        };
        text.word("mtu", "256B", From::Guess(packet));
        if let (Some(part), Some(_)) = (self.in_switch, links) {
            let counts =
                format!("NVSwitches of this generation copy and sum; {} counts this part", self.library);
            text.bare("in_switch", part, From::Guess(&counts));
        }
    }

    /// Returns the payload bandwidth of a number of links together.
    pub fn payload(&self, links: u32) -> String {
        let rate = self.rate * u64::from(links);
        units::print_bandwidth(units::ratio(self.eff).map_or(rate, |eff| eff.of(rate)))
    }
}
