//! Machines that other programs describe, read and turned into Penny's TOML.
//!
//! ```text
//!     NCCL, RCCL topology XML -> nccl_xml --.
//!     nvidia-smi topo -m -----> topo_matrix --> gpu_node --.
//!       ibstatus of the node -> ibstatus ---'              +--> toml_text: a machine's file
//!     tt-umd cluster YAML ----> tt_umd ----.               |
//!     ASTRA-sim network YAML -> astra_sim --- yaml --------'
//! ```
//!
//! What a file does not hold is guessed from published figures, and says so: each such number ends in `# guessed`.
//! What a file holds and a machine's file cannot say is told in a comment, or refused. Files are untrusted: their size,
//! their nesting and what they declare are limited, entities and aliases are refused, and nothing in them makes the
//! reader panic. Every text that leaves here has been opened as a machine before.

mod astra_sim;
mod gpu_links;
mod gpu_model;
mod gpu_node;
mod ibstatus;
pub mod nccl_export;
mod nccl_xml;
mod nic_share;
mod nvlink;
mod toml_text;
mod topo_matrix;
mod tt_umd;
mod unread;
mod xgmi;
mod yaml;

use penny::sim::topology;

/// The largest file that is read, in bytes: far above the 100 kB of a node's dump.
pub const MOST_BYTES: u64 = 8 << 20;

/// GPUs or NICs of a node.
const MOST_DEVICES: usize = 512;

/// A kind of file that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NCCL's topology XML, as NCCL_TOPO_DUMP_FILE writes it
    NcclXml,
    /// The text of `nvidia-smi topo -m`
    TopoM,
    /// The text of `ibstatus`, beside `topo -m`
    Ibstatus,
    /// A cluster descriptor of tt-umd, YAML
    TtUmd,
    /// A network of ASTRA-sim's analytical backend, YAML
    AstraSim,
}

/// A file's name, for errors and for the machine's name, and its text.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// As it was given on the command line.
    pub name: &'a str,
    /// All of it.
    pub text: &'a str,
}

impl File<'_> {
    /// An error about a line, counted from 1: what is wrong; what to do.
    fn at(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.name)
    }

    /// An error about the whole file.
    fn error(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.name)
    }
}

/// The machine's file, in TOML, that one file or two describe; `from` overrides what their content looks like.
///
/// `Err` is one sentence with the file, the line where there is one, and the remedy.
pub fn import(files: &[File<'_>], from: Option<Format>) -> Result<String, String> {
    import_with(files, Hints { from, ..Hints::default() })
}

/// What the user says about a file beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// The format, whatever the content looks like.
    pub from: Option<Format>,
    /// The GPUs, where a file lists no links between them.
    pub gpu: Option<&'a str>,
    /// A chip, where a file holds several machines: the one with this chip.
    pub chip: Option<u64>,
}

/// As [`import`], with more to go by.
pub fn import_with(files: &[File<'_>], hints: Hints<'_>) -> Result<String, String> {
    let Hints { from, gpu, chip } = hints;
    let model = gpu.map(gpu_model::by_word).transpose()?;
    let mut machine = None;
    let mut ports = None;
    for file in files {
        if file.text.len() as u64 > MOST_BYTES {
            return Err(
                file.error(format_args!("is larger than {} MiB; give one machine's file", MOST_BYTES >> 20))
            );
        }
        match (recognise(file.text), from) {
            // Told that the file is a matrix, what is evidently its companion stays one.
            (Some(Format::Ibstatus), None | Some(Format::TopoM | Format::Ibstatus)) => ports = Some(*file),
            (None, None) => return Err(file.error(UNKNOWN)),
            (_, Some(format)) | (Some(format), None) => {
                if let Some((first, _)) = machine.replace((*file, format)) {
                    return Err(file.error(format_args!(
                        "is a second machine beside {}; import them one at a time",
                        first.name
                    )));
                }
            }
        }
    }
    let Some((file, format)) = machine else {
        let name = ports.map_or("import", |file| file.name);
        return Err(format!("{name}: has no machine in it; give the text of `nvidia-smi topo -m` as well"));
    };
    if let (Some(ports), false) = (ports, format == Format::TopoM) {
        return Err(ports.error("ibstatus goes with the text of `nvidia-smi topo -m`; leave it out"));
    }
    if let (Some(gpu), false) = (gpu, format == Format::NcclXml) {
        return Err(
            file.error(format_args!("lists its links, so that --gpu {gpu} has no place here; leave it out"))
        );
    }
    if let (Some(chip), false) = (chip, format == Format::TtUmd) {
        return Err(
            file.error(format_args!("is no tt-umd descriptor, which --chip {chip} is for; leave it out"))
        );
    }
    let text = match format {
        Format::NcclXml => nccl_xml::read(&file, model)?,
        Format::TopoM => topo_matrix::read(&file, ports.as_ref())?,
        Format::TtUmd => tt_umd::read(&file, chip)?,
        Format::AstraSim => astra_sim::read(&file)?,
        Format::Ibstatus => {
            return Err(file.error("ibstatus holds no machine; give `nvidia-smi topo -m` as well"));
        }
    };
    match topology::parse(file.name, &text, &[]) {
        Ok(_) => Ok(text),
        Err(why) => Err(file.error(format_args!(
            "describes a machine that Penny's own file cannot ({}); cut it down to one that it can",
            why.message
        ))),
    }
}

const UNKNOWN: &str = "is none of the formats that are known here: NCCL topology XML, `nvidia-smi topo -m`, ibstatus, \
     a tt-umd cluster descriptor, an ASTRA-sim network; name one with --from";

/// What a text looks like.
pub fn recognise(text: &str) -> Option<Format> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('<') {
        return Some(Format::NcclXml);
    }
    text.lines().find_map(|line| match line.trim_start() {
        line if line.starts_with("Infiniband device '") => Some(Format::Ibstatus),
        line if topo_matrix::is_header(line) => Some(Format::TopoM),
        line if line.starts_with("ethernet_connections") => Some(Format::TtUmd),
        line if line.starts_with("npus_count") || line.starts_with("topology:") => Some(Format::AstraSim),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_content() {
        assert_eq!(recognise("\u{feff}\n <system/>"), Some(Format::NcclXml));
        assert_eq!(recognise("\n\t\u{1b}[4mGPU0\tGPU1\u{1b}[0m\n"), Some(Format::TopoM));
        assert_eq!(recognise("Infiniband device 'mlx5_0' port 1 status:"), Some(Format::Ibstatus));
        assert_eq!(recognise("arch: {}\nethernet_connections: []"), Some(Format::TtUmd));
        assert_eq!(recognise("# a ring\ntopology: [ Ring ]"), Some(Format::AstraSim));
        assert_eq!(recognise("name = \"m\""), None);
    }

    #[test]
    fn a_file_of_no_known_kind_is_answered_with_the_kinds() {
        let file = File { name: "notes.txt", text: "hello" };
        let why = import(&[file], None).expect_err("no format");
        assert!(
            why.starts_with("notes.txt: ") && why.contains("NCCL topology XML") && why.contains("--from"),
            "{why}"
        );
    }

    #[test]
    fn two_machines_are_one_too_many() {
        let file = File { name: "a.yml", text: "topology: [ Ring ]" };
        let why = import(&[file, File { name: "b.yml", ..file }], None).expect_err("two machines");
        assert!(why.contains("b.yml: is a second machine beside a.yml"), "{why}");
    }
}
