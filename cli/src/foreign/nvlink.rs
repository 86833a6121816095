//! The rates of the generations of NVLink, which topology files do not contain.

/// A generation of NVLink; its numbers are of one link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Ten times the compute capability: 90 for H100.
    pub sm: u32,
    /// Line rate, bytes a second.
    pub rate: u64,
    /// The part of it that NCCL counts on (its table of bandwidths a link, `SM90_NVLINK_BW` and so on).
    pub eff: &'static str,
    /// The most links of a GPU.
    pub links: u32,
    /// The part of it that NCCL counts on where switches copy and sum (`nvlsEfficiency`), if those of this generation do.
    pub in_switch: Option<&'static str>,
}

/// P100, V100, A100, A10 and A40, H100 and H200, B200; ascending.
pub const GENERATIONS: [Generation; 6] = [
    Generation { sm: 60, rate: 20_000_000_000, eff: "0.9", links: 4, in_switch: None },
    Generation { sm: 70, rate: 25_000_000_000, eff: "0.8", links: 6, in_switch: None },
    Generation { sm: 80, rate: 25_000_000_000, eff: "0.8", links: 12, in_switch: None },
    Generation { sm: 86, rate: 14_062_500_000, eff: "0.853", links: 4, in_switch: None },
    Generation { sm: 90, rate: 25_000_000_000, eff: "0.824", links: 18, in_switch: Some("0.85") },
    Generation { sm: 100, rate: 50_000_000_000, eff: "0.802", links: 18, in_switch: Some("0.74") },
];

/// Returns a GPU's generation, as far as its capability and links tell, and the reason for the choice.
pub fn generation(sm: Option<u32>, links: u32) -> (Generation, String) {
    let [first, v100, a100, _, h100, _] = GENERATIONS;
    let Some(sm) = sm else {
        let like = [v100, a100].into_iter().find(|g| links <= g.links).unwrap_or(h100);
        return (like, format!("as sm {}, which has up to {} links", like.sm, like.links));
    };
    let known = GENERATIONS.into_iter().rfind(|g| g.sm <= sm).unwrap_or(first);
    let reason = if sm / 10 == known.sm / 10 { "published for" } else { "not known here, so as" };
    (known, format!("{reason} sm {}", if sm / 10 == known.sm / 10 { sm } else { known.sm }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_not_known_is_taken_for_the_one_before_and_says_so() {
        assert_eq!(generation(Some(90), 18).0.eff, "0.824");
        assert_eq!(generation(Some(86), 4).0.rate, 14_062_500_000);
        let (like, why) = generation(Some(120), 18);
        assert_eq!((like.sm, why.as_str()), (100, "not known here, so as sm 100"));
        assert_eq!([6, 12, 18].map(|links| generation(None, links).0.sm), [70, 80, 90]);
    }
}
