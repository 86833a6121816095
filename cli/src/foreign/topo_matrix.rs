//! The text of `nvidia-smi topo -m`, and `ibstatus` of the same node beside it.
//!
//! ```text
//!             GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
//!     GPU0     X      NV18    PIX     0-51            0
//!     GPU1    NV18     X      SYS     52-103          1
//!     NIC0    PIX     SYS      X
//!     NIC Legend:
//!       NIC0: mlx5_0
//! ```
//!
//! NV18 is a bonded set of 18 links; the text does not tell whether they lead to a switch or to the other GPU. If all pairs have
//! equally many links, and more than a GPU has for direct wires, the GPUs are behind switches. GPUs with at most 18 links in all
//! are taken to be wired to each other.

use std::collections::BTreeMap;

use super::gpu_node::{Distance, Gpu, GpuNode, Nic};
use super::toml_text::plain;
use super::{File, MOST_DEVICES, ibstatus};

/// The most links that any GPU has.
const MOST_WIRES: u32 = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Itself,
    Links(u32),
    Way(Distance),
}

/// The contents of the text.
struct Matrix {
    names: Vec<String>,
    cells: Vec<Vec<Cell>>,
    /// Maps a name like NIC0 to a device like mlx5_0.
    legend: BTreeMap<String, String>,
}

/// A line that names the columns.
pub fn is_header(line: &str) -> bool {
    without_escapes(line).split_whitespace().next() == Some("GPU0")
        && without_escapes(line)
            .split_whitespace()
            .nth(1)
            .is_none_or(|second| is_device(second) || second == "CPU")
}

/// The machine of a matrix, with the rates of its NICs where there is `ibstatus`.
pub fn read(file: &File<'_>, ports: Option<&File<'_>>) -> Result<String, String> {
    let matrix = parse(file)?;
    let ports = ports.map(ibstatus::read).transpose()?;
    let is_gpu = |index: &usize| matrix.names[*index].starts_with("GPU");
    let (gpus, mut nics): (Vec<usize>, Vec<usize>) = (0..matrix.names.len()).partition(is_gpu);
    let mut node = GpuNode { lists_links: true, ..GpuNode::default() };
    let device = |nic: usize| matrix.legend.get(&matrix.names[nic]).unwrap_or(&matrix.names[nic]);
    if let Some(ports) = &ports {
        let mut down = Vec::new();
        for &nic in &nics {
            match ports.get(device(nic)) {
                Some(found) if found.active == 0 => down.push(plain(device(nic))),
                Some(_) => {}
                None => {
                    let what =
                        format!("ibstatus has no device {}; give that of the same node", plain(device(nic)));
                    return Err(file.error(what));
                }
            }
        }
        nics.retain(|&nic| ports.get(device(nic)).is_some_and(|found| found.active > 0));
        if !down.is_empty() {
            node.remarks.push(format!("Not carried over: NICs that are down: {}.", down.join(", ")));
        }
    } else if !nics.is_empty() {
        node.remarks
            .push("Rates of NICs are guessed; import with the output of ibstatus to have them.".into());
    }
    for &nic in &nics {
        let found = ports.as_ref().and_then(|ports| ports.get(device(nic)));
        let (bits, active) = found.map_or((None, 1), |found| (Some(found.bits), found.active));
        node.nics.push(Nic {
            name: device(nic).clone(),
            bits,
            sold_with: None,
            ports: active,
            latency_ns: None,
        });
    }
    let links = |a: usize, b: usize| match matrix.cells[a][b] {
        Cell::Links(links) => links,
        _ => 0,
    };
    let switched = switched(&gpus, links);
    for (index, &gpu) in gpus.iter().enumerate() {
        for (peer, &other) in gpus.iter().enumerate().take(index) {
            if links(gpu, other) != links(other, gpu) {
                let (a, b) = (&matrix.names[gpu], &matrix.names[other]);
                return Err(
                    file.error(format_args!("says different things of {a} to {b} and back; copy it again"))
                );
            }
            if switched.is_none() && links(gpu, other) > 0 {
                node.peers.insert((peer, index), links(gpu, other));
            }
        }
        let way = |nic: &usize| match matrix.cells[gpu][*nic] {
            Cell::Way(distance) => distance,
            _ => Distance::Pix,
        };
        let distances = nics.iter().map(way).collect();
        node.gpus.push(Gpu { switched: switched.unwrap_or(0), distances, ..Gpu::default() });
    }
    if switched.is_none() && gpus.len() > 2 && !node.peers.is_empty() {
        node.remarks.push(
            "GPUs are wired to each other rather than to switches: guessed from the number of links.".into(),
        );
    }
    node.machine("the text of `nvidia-smi topo -m`", file)
}

/// The links of each GPU into switches, if that is how they are joined.
fn switched(gpus: &[usize], links: impl Fn(usize, usize) -> u32) -> Option<u32> {
    let (&first, &second) = (gpus.first()?, gpus.get(1)?);
    let all = links(first, second);
    let alike = || gpus.iter().all(|&a| gpus.iter().all(|&b| a == b || links(a, b) == all));
    (all > 0 && all * (gpus.len() as u32 - 1) > MOST_WIRES && alike()).then_some(all)
}

fn parse(file: &File<'_>) -> Result<Matrix, String> {
    let mut lines = file.text.lines().map(without_escapes).enumerate();
    let header = lines.by_ref().find(|(_, line)| is_header(line));
    let Some((at, header)) = header else {
        return Err(file.error(
            "has no line that begins with GPU0 and names the columns; give all of `nvidia-smi topo -m`",
        ));
    };
    let names: Vec<String> =
        header.split_whitespace().take_while(|word| is_device(word)).map(str::to_owned).collect();
    if names.len() > 2 * MOST_DEVICES {
        return Err(file.at(at + 1, "has too many columns; give one node's matrix"));
    }
    if let Some(again) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(file.at(at + 1, format_args!("names {} twice; give one node's matrix", plain(again.1))));
    }
    let mut rows: Vec<Option<Vec<Cell>>> = vec![None; names.len()];
    let mut legend = BTreeMap::new();
    for (number, line) in lines {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some(name) = first.strip_suffix(':').filter(|name| is_device(name)) {
            legend.insert(name.to_owned(), words.next().unwrap_or(name).to_owned());
        } else if let Some(row) = names.iter().position(|name| name == first) {
            let cells: Result<Vec<Cell>, String> = words.take(names.len()).map(cell).collect();
            let cells = cells.map_err(|what| file.at(number + 1, what))?;
            if cells.len() < names.len() {
                let what =
                    format!("has {} cells for {} columns; copy the whole line", cells.len(), names.len());
                return Err(file.at(number + 1, what));
            }
            if cells.iter().enumerate().any(|(column, cell)| (column == row) != (*cell == Cell::Itself)) {
                return Err(
                    file.at(number + 1, "has X where it should not be; copy the matrix as it was printed")
                );
            }
            if rows[row].replace(cells).is_some() {
                return Err(
                    file.at(number + 1, format_args!("is a second row {first}; give one node's matrix"))
                );
            }
        }
    }
    // Old versions print the NICs' rows, new ones too; only those of GPUs are needed.
    let mut cells = Vec::with_capacity(names.len());
    for (name, row) in names.iter().zip(rows) {
        match row {
            Some(row) => cells.push(row),
            None if !name.starts_with("GPU") => cells.push(Vec::new()),
            None => return Err(file.error(format_args!("has no row {name}; copy the whole matrix"))),
        }
    }
    Ok(Matrix { names, cells, legend })
}

fn cell(word: &str) -> Result<Cell, String> {
    if let Some(links) = word.strip_prefix("NV") {
        return match links.parse() {
            Ok(links @ 1..=64) => Ok(Cell::Links(links)),
            _ => Err(format!("has `{}`, which is not NV1 to NV64; copy it again", plain(word))),
        };
    }
    match word {
        "X" => Ok(Cell::Itself),
        "PIX" | "PSB" => Ok(Cell::Way(Distance::Pix)),
        "PXB" => Ok(Cell::Way(Distance::Pxb)),
        "PHB" => Ok(Cell::Way(Distance::Phb)),
        "NODE" => Ok(Cell::Way(Distance::Node)),
        "SYS" | "SOC" => Ok(Cell::Way(Distance::Sys)),
        _ => Err(format!(
            "has `{}`, which is none of X, NV#, PIX, PXB, PHB, NODE and SYS; copy it again",
            plain(word)
        )),
    }
}

/// GPU0, NIC3, and mlx5_0 of versions that had no legend.
fn is_device(word: &str) -> bool {
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    ["GPU", "NIC"].iter().any(|kind| word.strip_prefix(kind).is_some_and(numbered)) || word.starts_with("mlx")
}

/// A line without the escapes that underline the header on a terminal.
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    plain + rest
}
