//! The topology XML of NCCL and RCCL, as `NCCL_TOPO_DUMP_FILE` writes it and `NCCL_TOPO_FILE` reads it.
//!
//! ```text
//!     <system><cpu>
//!       <pci class="0x060400" link_speed="5 GT/s">            a bridge: may lie about its speed, and caps nothing
//!         <pci class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
//!           <gpu sm="90" rank="0"><nvlink target="0000:c4:00.0" count="18" tclass="0x068000"/></gpu></pci>
//!         <pci class="0x020700" ...>
//!           <nic><net name="mlx5_0" speed="200000" port="1"/><net .../></nic></pci></pci></cpu></system>
//! ```
//!
//! Speeds of nets are in Mb/s. The target of an `<nvlink>`, or of AMD's `<xgmi>`, is a GPU's bus id or, with class 0x0680, a switch.
//! The rate of a PCIe link is used only if it is at least 8 GT/s and has a width: idle and virtual devices report slower ones.
//! Elements, attributes and PCI devices that are not read are told in a remark: `unread`.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::gpu_model::{self, Model};
use super::gpu_node::{Distance, Gpu, GpuNode, Nic};
use super::toml_text::plain;
use super::unread::Unread;
use super::{File, nic_share};

/// NCCL itself stops at 4096 for a node's dump.
const MOST_NODES: u32 = 1 << 16;
/// Elements within elements; real files have seven.
const MOST_NESTED: usize = 64;
const SWITCH: &str = "0x0680";
/// No NIC is faster than 3.2 Tb/s.
const MOST_MEGABITS: u64 = 3_200_000;

/// The ancestors of an element, outermost first: the CPU and the bridges, as byte offsets in the text.
type Path = Vec<usize>;

struct GpuElement<'a> {
    node: Node<'a, 'a>,
    /// The `<pci>` element around it, if there is one.
    pci: Option<Node<'a, 'a>>,
    path: Path,
    bus: String,
    /// The link of the `<pci>` element; `None` if there is none or its rate is not credible.
    link: Option<(u64, String)>,
    order: u64,
}

struct NicElement {
    nic: Nic,
    path: Path,
}

struct Reader<'a> {
    file: File<'a>,
    document: &'a Document<'a>,
    gpus: Vec<GpuElement<'a>>,
    nics: Vec<NicElement>,
    unread: Unread,
    /// Devices that the kernel makes up.
    made_up: Vec<String>,
    /// Nets whose speeds were a thousand times too high.
    too_fast: Vec<String>,
    /// NICs whose PCIe link is slower than their ports.
    capped: Vec<String>,
    /// Empty lines before the document.
    skipped: usize,
}

/// The machine of a file; `model` says which GPUs these are.
pub fn read(file: &File<'_>, model: Option<Model>) -> Result<String, String> {
    let text = file.text.trim_start_matches('\u{feff}').trim_start();
    // Lines are counted in what is parsed; what was trimmed may have had some.
    let skipped = file.text[..file.text.len() - text.len()].matches('\n').count();
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|why| {
        file.at(
            skipped + why.pos().row as usize,
            format_args!(
                "cannot be read as XML ({}); dump it again with NCCL_TOPO_DUMP_FILE",
                plain(&why.to_string())
            ),
        )
    })?;
    let root = document.root_element();
    let mut reader = Reader {
        file: *file,
        document: &document,
        gpus: Vec::new(),
        nics: Vec::new(),
        unread: Unread::default(),
        made_up: Vec::new(),
        too_fast: Vec::new(),
        capped: Vec::new(),
        skipped,
    };
    if root.tag_name().name() != "system" {
        let what =
            format!("begins with <{}>, not <system>; give NCCL's topology", plain(root.tag_name().name()));
        return Err(reader.at(root, what));
    }
    // Depth first, in the file's order; on a stack of its own, so that no nesting is too deep for the thread's.
    let mut stack = vec![(root, Path::new())];
    while let Some((node, path)) = stack.pop() {
        if path.len() > MOST_NESTED {
            return Err(reader.at(node, format!("is nested more than {MOST_NESTED} deep; write less")));
        }
        let into = reader.element(node, &path)?;
        if into {
            let mut inner = path;
            inner.push(node.range().start);
            let children: Vec<Node> = node.children().filter(Node::is_element).collect();
            stack.extend(children.into_iter().rev().map(|child| (child, inner.clone())));
        }
    }
    let unclassed = reader.unread.devices();
    let node = GpuNode { model, ..reader.finish()? };
    if node.gpus.is_empty() && unclassed > 0 {
        return Err(file.error(format_args!(
            "names {unclassed} PCI devices, none of a class that GPUs have; dump the topology where the GPUs are visible"
        )));
    }
    let what =
        if node.gpus.iter().any(|gpu| gpu.amd) { "RCCL's topology XML" } else { "NCCL's topology XML" };
    node.machine(what, file)
}

impl<'a> Reader<'a> {
    fn at(&self, node: Node, what: impl std::fmt::Display) -> String {
        self.file.at(self.skipped + self.document.text_pos_at(node.range().start).row as usize, what)
    }

    /// Reads an element. Returns true if its children must be read, too.
    fn element(&mut self, node: Node<'a, 'a>, path: &Path) -> Result<bool, String> {
        match node.tag_name().name() {
            "system" | "cpu" => {
                self.unread.attributes(node);
                Ok(true)
            }
            "pci" => self.pci(node, path),
            "gpu" => self.gpu(node, path, None).map(|()| false),
            "nic" => self.nic(node, path, None).map(|()| false),
            other => {
                self.unread.element(other);
                Ok(false)
            }
        }
    }

    /// A bridge, or the device at the end of a link.
    fn pci(&mut self, node: Node<'a, 'a>, path: &Path) -> Result<bool, String> {
        let inner = |name: &'static str| node.children().filter(move |child| child.tag_name().name() == name);
        self.unread.attributes(node);
        let class = node.attribute("class").unwrap_or_default();
        let (gpus, nics): (Vec<_>, Vec<_>) = (inner("gpu").collect(), inner("nic").collect());
        for gpu in &gpus {
            self.gpu(*gpu, path, Some(node))?;
        }
        for nic in &nics {
            self.nic(*nic, path, Some(node))?;
        }
        if !gpus.is_empty() || !nics.is_empty() {
            for child in node
                .children()
                .filter(|child| child.is_element() && !["gpu", "nic"].contains(&child.tag_name().name()))
            {
                self.unread.element(&format!("{} below a device", child.tag_name().name()));
            }
            return Ok(false);
        }
        // Files from cloud providers only name the devices; NCCL finds out the rest itself. AMD's GPUs are accelerators.
        let amd = node.attribute("vendor") == Some("0x1002");
        if class.starts_with("0x03") || (class.starts_with("0x12") && amd) {
            self.gpu(node, path, Some(node))?;
        } else if class.starts_with("0x02") {
            let name = node.attribute("busid").unwrap_or("a NIC").to_owned();
            let sold_with = pci_id(node).and_then(|(vendor, device)| gpu_model::nic_bits(vendor, device));
            let nic = Nic { name, bits: None, sold_with, ports: 1, latency_ns: None };
            self.nics.push(NicElement { nic, path: path.clone() });
        } else if !class.starts_with("0x06") {
            self.unread.device(class);
        }
        Ok(true)
    }

    fn gpu(&mut self, node: Node<'a, 'a>, path: &Path, pci: Option<Node<'a, 'a>>) -> Result<(), String> {
        let bus = pci.and_then(|pci| pci.attribute("busid")).unwrap_or_default().to_ascii_lowercase();
        let link = pci.and_then(believable_link);
        if node.tag_name().name() == "gpu" {
            self.unread.children(node, &["nvlink", "xgmi"]);
        }
        let order =
            self.number(node, "rank")?.or(self.number(node, "dev")?).unwrap_or(self.gpus.len() as u64);
        self.gpus.push(GpuElement { node, pci, path: path.clone(), bus, link, order });
        Ok(())
    }

    /// All nets of a `<nic>` are ports of one device.
    fn nic(&mut self, node: Node<'a, 'a>, path: &Path, pci: Option<Node<'a, 'a>>) -> Result<(), String> {
        self.unread.children(node, &["net"]);
        let name_of = |net: &Node| net.attribute("name").unwrap_or_default().to_owned();
        let all: Vec<_> = node.children().filter(|child| child.tag_name().name() == "net").collect();
        let (made_up, nets): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|net| nic_share::is_made_up(&name_of(net)));
        self.made_up.extend(made_up.iter().map(name_of));
        if nets.is_empty() && !made_up.is_empty() {
            return Ok(());
        }
        let mut speeds = Vec::new();
        for net in &nets {
            speeds.push(match self.number(*net, "speed")?.filter(|&mega| mega > 0) {
                // Plugins for Cray's Slingshot have given kb/s.
                Some(kilo) if kilo > MOST_MEGABITS && (1..=MOST_MEGABITS).contains(&(kilo / 1000)) => {
                    self.too_fast.push(name_of(net));
                    Some(kilo / 1000)
                }
                Some(mega) if mega > MOST_MEGABITS => {
                    return Err(self.at(*net, "has a speed that no NIC has, in Mb/s or in kb/s; write Mb/s"));
                }
                speed => speed,
            });
        }
        let mega: Option<u64> = speeds.iter().copied().sum();
        let link = pci.and_then(believable_link).map(|(rate, _)| rate * 8);
        let bits = mega.filter(|_| !nets.is_empty()).map(|mega| mega * 1_000_000);
        let name =
            nets.first().and_then(|net| net.attribute("name")).or(pci.and_then(|pci| pci.attribute("busid")));
        let capped = bits.map(|bits| bits.min(link.unwrap_or(u64::MAX)));
        // Microseconds; NCCL writes 0 where the network's plugin does not say.
        let latency = nets.first().and_then(|net| net.attribute("latency")?.parse::<f64>().ok());
        let latency_ns = latency.filter(|us| (0.002..1e6).contains(us)).map(|us| (us * 1e3) as u64);
        let name = name.unwrap_or("a NIC").to_owned();
        if capped < bits {
            self.capped.push(name.clone());
        }
        let sold_with = pci.and_then(pci_id).and_then(|(vendor, device)| gpu_model::nic_bits(vendor, device));
        let nic = Nic { name, bits: capped, sold_with, ports: nets.len().max(1) as u32, latency_ns };
        self.nics.push(NicElement { nic, path: path.clone() });
        Ok(())
    }

    /// A whole number, decimal; NCCL writes -1 for what it does not know.
    fn number(&self, node: Node, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = node.attribute(name).map(str::trim).filter(|text| !text.starts_with('-')) else {
            return Ok(None);
        };
        let wrong = || self.at(node, format!("{name}=\"{}\" is no number; write digits", plain(text)));
        text.parse().map(Some).map_err(|_| wrong())
    }

    fn finish(mut self) -> Result<GpuNode, String> {
        self.gpus.sort_by_key(|gpu| gpu.order);
        let mut node = GpuNode::default();
        let buses: BTreeMap<&str, usize> =
            self.gpus.iter().enumerate().map(|(index, gpu)| (gpu.bus.as_str(), index)).collect();
        // Each GPU reports its own direction of a link.
        let mut told: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        let (mut elsewhere, mut own) = (0, 0);
        for (index, gpu) in self.gpus.iter().enumerate() {
            let mut switched = 0;
            let is_link = |node: &Node| ["nvlink", "xgmi"].contains(&node.tag_name().name());
            for link in gpu.node.children().filter(is_link) {
                let count = match self.number(link, "count")? {
                    Some(count @ 1..=64) => count as u32,
                    _ => {
                        return Err(
                            self.at(link, "has no count from 1 to 64; write how many links these are")
                        );
                    }
                };
                let target = link.attribute("target").unwrap_or_default().to_ascii_lowercase();
                match buses.get(target.as_str()) {
                    _ if link.attribute("tclass").is_some_and(|class| class.starts_with(SWITCH)) => {
                        switched += count
                    }
                    Some(&peer) if peer != index => *told.entry((index, peer)).or_default() += count,
                    Some(_) => own += count,
                    None => elsewhere += count,
                }
            }
            if switched > 64 {
                return Err(self.at(gpu.node, "has more than 64 links; write those of one GPU"));
            }
            node.gpus.push(self.described(gpu, switched)?);
        }
        for (&(a, b), &count) in &told {
            if told.get(&(b, a)).is_some_and(|&back| back != count) {
                let what =
                    format!("has {count} links to a GPU that has another number back; make them equal");
                return Err(self.at(self.gpus[a].node, what));
            }
            node.peers.insert((a.min(b), a.max(b)), count);
        }
        // A link that one end alone reports is one all the same.
        if elsewhere > 0 {
            node.remarks
                .push(format!("Not carried over: {elsewhere} links to what is neither GPU nor switch."));
        }
        if own > 0 {
            node.remarks.push(format!(
                "Not carried over: {own} links of GPUs to themselves; a target is wrong in the file."
            ));
        }
        for (names, what) in [
            (&self.made_up, "Not carried over: nets that are bridges or pairs within the host"),
            (
                &self.capped,
                "NICs that have the rate of their own PCIe link, which is below that of their ports",
            ),
            (&self.too_fast, "Speeds of nets that are read as kb/s, for in Mb/s no NIC has them: guessed"),
        ] {
            if !names.is_empty() {
                node.remarks
                    .push(format!("{what}: {}.", nic_share::listed(names.iter().map(String::as_str))));
            }
        }
        node.remarks.extend(self.unread.remarks());
        // A dump has both; NCCL then has looked for links.
        node.lists_links = self.gpus.iter().all(|gpu| {
            gpu.node.tag_name().name() == "gpu"
                && (gpu.pci.and_then(pci_id).is_some() || gpu.node.has_attribute("gcn"))
        });
        node.nics = self.nics.into_iter().map(|element| element.nic).collect();
        Ok(node)
    }

    /// A GPU as its attributes describe it.
    fn described(&self, gpu: &GpuElement, switched: u32) -> Result<Gpu, String> {
        let id = gpu.pci.and_then(pci_id);
        let amd = gpu.node.has_attribute("gcn") || id.is_some_and(|(vendor, _)| vendor == 0x1002);
        // RCCL counts compute units here.
        let sm = self.number(gpu.node, "sm")?.and_then(|sm| u32::try_from(sm).ok()).filter(|_| !amd);
        Ok(Gpu {
            switched,
            sm,
            amd,
            gfx: gpu.node.attribute("gcn").map(str::to_owned),
            pci_id: id.filter(|(vendor, _)| *vendor == 0x10de).map(|(_, device)| device),
            pcie: gpu.link.clone(),
            distances: self.nics.iter().map(|nic| distance(&gpu.path, &nic.path)).collect(),
        })
    }
}

/// Returns a device's vendor and device id.
fn pci_id(pci: Node) -> Option<(u32, u32)> {
    let hex = |name: &str| u32::from_str_radix(pci.attribute(name)?.trim().strip_prefix("0x")?, 16).ok();
    Some((hex("vendor")?, hex("device")?))
}

/// Returns the bytes per second of a device's PCIe link and the file's words for it, unless the rate is too low to be credible.
fn believable_link(pci: Node) -> Option<(u64, String)> {
    let speed: f64 = pci.attribute("link_speed")?.split_whitespace().next()?.parse().ok()?;
    let width: u32 = pci.attribute("link_width")?.trim().parse().ok()?;
    // From 64 GT/s on 242 of 256 bytes are payload and headers; before, 128 of 130 bits.
    let (over, under) = match speed {
        8.0..64.0 => (128, 130),
        64.0..=1024.0 => (242, 256),
        _ => return None,
    };
    if !(1..=32).contains(&width) {
        return None;
    }
    let megabytes = (speed * 1e3) as u64 * u64::from(width) * over / under / 8;
    Some((megabytes * 1_000_000, format!("{speed} GT/s, {width} lanes, after encoding")))
}

/// Returns the distance of two devices, from their common ancestors.
fn distance(a: &Path, b: &Path) -> Distance {
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    match shared {
        // The first is the system, the second a CPU.
        0 | 1 => Distance::Sys,
        2 => Distance::Phb,
        _ if shared == a.len() && shared == b.len() => Distance::Pix,
        _ => Distance::Pxb,
    }
}
