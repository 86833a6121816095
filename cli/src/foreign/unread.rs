//! What a topology XML has that no reader reads: told in the machine's file, never passed over.

use std::collections::BTreeMap;

use roxmltree::Node;

use super::toml_text::plain;

/// The kinds of things that are told; more are counted.
const MOST_KINDS: usize = 8;

/// Attributes that are read, or of which it is known that they do not matter to a machine.
const ATTRIBUTES: [(&str, &[&str]); 8] = [
    ("system", &["version", "arch"]),
    ("cpu", &["numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"]),
    (
        "pci",
        &[
            "busid",
            "class",
            "vendor",
            "device",
            "subsystem_vendor",
            "subsystem_device",
            "link_speed",
            "link_width",
        ],
    ),
    ("gpu", &["dev", "sm", "rank", "gdr", "gcn", "arch"]),
    ("nvlink", &["target", "count", "tclass"]),
    ("xgmi", &["target", "count", "tclass"]),
    ("nic", &[]),
    (
        "net",
        &["name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "net", "gin", "keep"],
    ),
];

/// Things that were not read, and how often.
#[derive(Debug, Default)]
pub struct Unread {
    elements: BTreeMap<String, usize>,
    attributes: BTreeMap<String, usize>,
    devices: BTreeMap<String, usize>,
    hosts: BTreeMap<String, usize>,
}

impl Unread {
    /// Notes an element.
    pub fn element(&mut self, name: &str) {
        note(&mut self.elements, name);
    }

    /// Notes a PCI device by its class; empty if it has none.
    pub fn device(&mut self, class: &str) {
        note(&mut self.devices, if class.is_empty() { "no class" } else { class });
    }

    /// The number of devices that were noted.
    pub fn devices(&self) -> usize {
        self.devices.values().sum()
    }

    /// Notes the attributes of an element that are not known.
    pub fn attributes(&mut self, node: Node) {
        let name = node.tag_name().name();
        let known =
            ATTRIBUTES.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, known)| known);
        for attribute in node.attributes().filter(|attribute| !known.contains(&attribute.name())) {
            note(&mut self.attributes, &format!("{} of {name}", attribute.name()));
        }
        if let Some(host) = node.attribute("host_hash").filter(|_| name == "cpu") {
            note(&mut self.hosts, host);
        }
    }

    /// Notes the children of a device that are none of the known ones, and the attributes of those that are.
    pub fn children(&mut self, node: Node, known: &[&str]) {
        self.attributes(node);
        for child in node.children().filter(Node::is_element) {
            match child.tag_name().name() {
                name if known.contains(&name) => self.attributes(child),
                name => self.element(&format!("{name} of {}", node.tag_name().name())),
            }
        }
    }

    /// A sentence for each kind of thing.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (what, noted) in [
            ("elements", &self.elements),
            ("attributes", &self.attributes),
            ("PCI devices that are neither GPU nor NIC nor bridge, by class", &self.devices),
        ] {
            if !noted.is_empty() {
                let shown: Vec<String> =
                    noted.iter().take(MOST_KINDS).map(|(name, times)| format!("{name} ({times})")).collect();
                let more = if noted.len() > MOST_KINDS { " and more" } else { "" };
                remarks.push(format!("Not carried over: {what} {}{more}.", shown.join(", ")));
            }
        }
        if self.hosts.len() > 1 {
            remarks.push(format!(
                "The file has CPUs of {} hosts; all GPUs are taken to be of one node.",
                self.hosts.len()
            ));
        }
        remarks
    }
}

/// Counts a name, as long as there are not too many.
fn note(noted: &mut BTreeMap<String, usize>, name: &str) {
    let name = plain(name);
    if noted.len() <= MOST_KINDS || noted.contains_key(&name) {
        *noted.entry(name).or_default() += 1;
    }
}
