//! The rates of AMD's xGMI links, which topology files do not contain, and the names of the GPUs that have them.

/// A generation of xGMI; its numbers are of one link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xgmi {
    /// The GPU's instruction set, as in `gfx90a`.
    pub gfx: &'static str,
    /// Line rate, bytes a second: 16 lanes of 23, 25, 32 and 38.4 GT/s.
    pub rate: u64,
    /// The part of it that RCCL counts on (24, 36 and 48 GB/s a link, `VEGA_XGMI_WIDTH` and so on).
    pub eff: &'static str,
}

/// MI50 and MI60, MI100, MI200, MI300, MI350; ascending.
const GENERATIONS: [Xgmi; 7] = [
    Xgmi { gfx: "906", rate: 46_000_000_000, eff: "0.522" },
    Xgmi { gfx: "908", rate: 46_000_000_000, eff: "0.522" },
    Xgmi { gfx: "90a", rate: 50_000_000_000, eff: "0.72" },
    Xgmi { gfx: "940", rate: 64_000_000_000, eff: "0.75" },
    Xgmi { gfx: "941", rate: 64_000_000_000, eff: "0.75" },
    Xgmi { gfx: "942", rate: 64_000_000_000, eff: "0.75" },
    Xgmi { gfx: "950", rate: 76_800_000_000, eff: "0.75" },
];

/// Returns a GPU's generation by RCCL's word for it, `gfx942`, `942` or `910` (which is gfx90a), and the reason for the choice.
pub fn generation(word: Option<&str>) -> (Xgmi, String) {
    let latest = GENERATIONS[5];
    let Some(word) = word else {
        return (latest, "the file does not say which GPUs these are, so as gfx942".to_owned());
    };
    let name = word.trim().trim_start_matches("gfx");
    // Older files write each digit in decimal, the last two together: 910 is 9, 0, a.
    let name = if name == "910" { "90a" } else { name };
    match GENERATIONS.into_iter().find(|known| name.split(':').next() == Some(known.gfx)) {
        Some(known) => (known, format!("published for gfx{}", known.gfx)),
        None => (latest, "of GPUs that are not known here, so as gfx942".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_a_gpu_is_understood_and_others_say_that_they_are_not() {
        for (word, gfx) in
            [("906", "906"), ("910", "90a"), ("gfx90a", "90a"), ("gfx942:sramecc+:xnack-", "942")]
        {
            assert_eq!(generation(Some(word)).0.gfx, gfx, "{word}");
        }
        let (like, why) = generation(Some("gfx1100"));
        assert_eq!((like.gfx, why.as_str()), ("942", "of GPUs that are not known here, so as gfx942"));
    }
}
