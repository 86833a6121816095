//! GPUs that a file names only by their PCI ids, or only in its own name: how many links join them, and to what.
//!
//! Files that cloud providers write for `NCCL_TOPO_FILE` list PCI devices alone; NCCL finds out about NVLinks on the machine. What
//! is filled in here is a guess, and the machine's file says so.

use std::collections::BTreeMap;

/// A GPU as it is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The name that remarks use.
    pub name: &'static str,
    /// Ten times the compute capability.
    pub sm: u32,
    /// NVLinks of one GPU in a node that has them; 0: it has none, or only bridges that are sold apart.
    pub links: u32,
    /// PCI device ids of vendor 0x10de.
    ids: &'static [u32],
    /// Words in a file's name: the GPU's, and those of cloud providers' machines with eight of it.
    words: &'static [&'static str],
}

const MODELS: [Model; 9] = [
    Model {
        name: "V100 SXM",
        sm: 70,
        links: 6,
        ids: &[0x1db1, 0x1db5],
        words: &["v100", "ndv2", "nd40rs", "p3", "p3dn", "dgx1v"],
    },
    Model {
        name: "A100 SXM",
        sm: 80,
        links: 12,
        ids: &[0x20b0, 0x20b2, 0x20b3],
        words: &["a100", "ndv4", "nda100v4", "ndma100v4", "p4d", "p4de", "a2"],
    },
    Model {
        name: "A100 PCIe",
        sm: 80,
        links: 0,
        ids: &[0x20b5, 0x20f1],
        words: &["a100-pcie", "ncv4", "nca100v4"],
    },
    Model {
        name: "H100 SXM",
        sm: 90,
        links: 18,
        ids: &[0x2330],
        words: &["h100", "ndv5", "ndh100v5", "p5", "a3"],
    },
    Model {
        name: "H200 SXM",
        sm: 90,
        links: 18,
        ids: &[0x2335],
        words: &["h200", "ndh200v5", "p5e", "p5en"],
    },
    Model { name: "H800 SXM", sm: 90, links: 8, ids: &[0x2324], words: &["h800"] },
    Model { name: "H20", sm: 90, links: 18, ids: &[0x2329], words: &["h20"] },
    Model { name: "B200 SXM", sm: 100, links: 18, ids: &[0x2901], words: &["b200", "a4"] },
    Model { name: "A10G", sm: 86, links: 0, ids: &[0x2237], words: &["a10g", "g5"] },
];

/// How links join the GPUs of a node.
#[derive(Debug, PartialEq, Eq)]
pub enum Joined {
    /// Links into switches: the number of each GPU.
    Switched(u32),
    /// Links between pairs of GPUs.
    Wired(BTreeMap<(usize, usize), u32>),
}

/// Returns the model that all PCI ids name; `None` if there is none, or they differ.
pub fn by_pci_ids(ids: &[Option<u32>]) -> Option<Model> {
    let first = ids.first().copied().flatten()?;
    let same = ids.iter().all(|id| *id == Some(first));
    MODELS.into_iter().find(|model| same && model.ids.contains(&first))
}

/// Returns the model that a file's name tells, and the word that told it.
pub fn by_file_name(name: &str) -> Option<(Model, String)> {
    let stem = name.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let words: Vec<&str> = stem.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    if words.contains(&"pcie") {
        return None;
    }
    let told = |word: &&str| MODELS.into_iter().find(|model| model.words.contains(word));
    words.iter().find_map(|word| Some((told(word)?, (*word).to_owned())))
}

/// Returns the model that a word names.
pub fn by_word(word: &str) -> Result<Model, String> {
    let word = word.to_ascii_lowercase();
    let found = MODELS.into_iter().find(|model| model.words.contains(&word.as_str()));
    found.ok_or_else(|| {
        let known: Vec<&str> = MODELS.iter().filter_map(|model| model.words.first().copied()).collect();
        format!("--gpu {word}: no such GPU is known here; there are {}", known.join(", "))
    })
}

/// Returns how NVLinks join that many GPUs of a model on the boards that are sold; `None` if there is no such board.
pub fn board(model: &Model, gpus: usize) -> Option<(Joined, &'static str)> {
    let all = |links: u32| {
        let pairs = (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| ((a, b), links)));
        Joined::Wired(pairs.collect())
    };
    match (model.sm, gpus) {
        _ if model.links == 0 => None,
        (70, 8) => Some((Joined::Wired(CUBE_MESH.into_iter().collect()), "wired as the preset dgx-1v is")),
        (70, 4) => Some((all(2), "two from each GPU to each other one")),
        (80, 4) => Some((all(4), "four from each GPU to each other one")),
        (90, 4) if model.links == 18 => Some((all(6), "six from each GPU to each other one")),
        (80, 8) => Some((Joined::Switched(model.links), "into switches as in the preset dgx-a100")),
        (90, 8) => Some((Joined::Switched(model.links), "into switches as in the preset dgx-h100")),
        (100, 8) => Some((Joined::Switched(model.links), "into switches as in the preset dgx-b200")),
        _ => None,
    }
}

/// The links of eight V100, of the preset dgx-1v.
const CUBE_MESH: [((usize, usize), u32); 16] = [
    ((0, 1), 1),
    ((0, 2), 1),
    ((0, 3), 2),
    ((1, 2), 2),
    ((1, 3), 1),
    ((2, 3), 2),
    ((4, 5), 1),
    ((4, 6), 1),
    ((4, 7), 2),
    ((5, 6), 2),
    ((5, 7), 1),
    ((6, 7), 2),
    ((0, 4), 2),
    ((1, 5), 2),
    ((2, 6), 1),
    ((3, 7), 1),
];

/// Returns the bits per second of a NIC that its PCI ids name: AWS's EFA, whose rate no link of PCIe tells.
pub fn nic_bits(vendor: u32, device: u32) -> Option<u64> {
    (vendor == 0x1d0f && [0xefa0, 0xefa1].contains(&device)).then_some(100_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_by_ids_that_agree_or_by_a_word_of_the_name() {
        assert_eq!(by_pci_ids(&[Some(0x2330); 8]).map(|m| m.name), Some("H100 SXM"));
        assert_eq!(by_pci_ids(&[Some(0x2330), Some(0x20b0)]), None);
        assert_eq!(by_pci_ids(&[Some(0x2330), None]), None);
        let told = |name| by_file_name(name).map(|(model, _)| model.name);
        assert_eq!(told("topology/ndv4-topo.xml"), Some("A100 SXM"));
        assert_eq!(told("p5.48xl-topo.xml"), Some("H100 SXM"));
        assert_eq!(told("h100/topo.xml"), None, "folders say nothing");
        assert_eq!(told("a100-pcie.xml"), None);
        assert_eq!(told("stop5.xml"), None);
    }

    #[test]
    fn each_gpu_of_a_wired_board_uses_all_its_links() {
        for (word, gpus) in [("v100", 8), ("v100", 4), ("a100", 4), ("h100", 4)] {
            let (model, _) = by_file_name(word).expect("known");
            let Some((Joined::Wired(pairs), _)) = board(&model, gpus) else { panic!("{word} {gpus}") };
            for gpu in 0..gpus {
                let links: u32 =
                    pairs.iter().filter(|((a, b), _)| [*a, *b].contains(&gpu)).map(|(_, n)| n).sum();
                assert_eq!(links, model.links, "{word} {gpus} {gpu}");
            }
        }
    }
}
