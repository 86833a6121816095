//! Files that chance has changed: no importer panics, hangs, or lets a machine pass that does not open.
//!
//! A little of what `cli/fuzz` does, in every test run. The sequence is fixed, so that what fails once fails again.

use std::path::Path;

use penny_cli::foreign::{File, Format, import};

/// Marsaglia's xorshift: enough for choosing bytes.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// What the formats are made of, and what numbers are wrong about.
const PIECES: [&str; 24] = [
    "<",
    ">",
    "\"",
    "/>",
    "<pci>",
    "<gpu>",
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "&a ",
    "*a",
    "\n",
    "\t",
    "GPU0 ",
    "NV18",
    "X",
    "-1",
    "0",
    "18446744073709551616",
    "1e400",
    "\u{1b}[",
];

fn mutated(seed: &[u8], chance: &mut Chance) -> String {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len());
        let until = (at + chance.below(40)).min(bytes.len());
        match chance.below(5) {
            0 => drop(bytes.drain(at..until)),
            1 => drop(bytes.splice(at..at, PIECES[chance.below(PIECES.len())].bytes())),
            2 => {
                let copy = bytes[at..until].to_vec();
                let to = chance.below(bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            3 if !bytes.is_empty() => bytes[at] = chance.below(256) as u8,
            _ => bytes.truncate(at.max(bytes.len() / 2)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn no_change_to_a_file_makes_its_importer_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let ports = std::fs::read(folder.join("ibstatus-h100.txt")).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for path in names {
        let seed = std::fs::read(&path).unwrap();
        let format = match path.extension().and_then(|e| e.to_str()).unwrap() {
            "xml" => Format::NcclXml,
            "yaml" => Format::TtUmd,
            "yml" => Format::AstraSim,
            _ => Format::TopoM,
        };
        for _ in 0..200 {
            let (text, other) = (mutated(&seed, &mut chance), mutated(&ports, &mut chance));
            let files = [File { name: "m", text: &text }, File { name: "p", text: &other }];
            // Only a matrix has a companion.
            for files in [&files[..1], &files[..]].into_iter().take(1 + usize::from(format == Format::TopoM))
            {
                match import(files, Some(format)) {
                    Ok(toml) => {
                        assert!(penny::sim::topology::parse("m.toml", &toml, &[]).is_ok(), "{text}");
                        taken += 1;
                    }
                    Err(why) => {
                        assert!(
                            (why.starts_with("m:") || why.starts_with("p:")) && !why.contains('\n'),
                            "{why:?}"
                        );
                        refused += 1;
                    }
                }
            }
        }
    }
    // Both ways are walked.
    assert!(taken > 150 && refused > 500, "{taken} taken, {refused} refused");
}
