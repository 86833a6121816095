//! The keys of `[cluster]`, `[cluster.pcie]` and `[[cluster.tier]]`.

use super::super::built::{Built, MOST_PLACES};
use super::super::source::{Field, Section};
use super::super::units::{self, Ratio};
use super::super::{Class, Port, Shape, edges};
use super::pcie::{Pcie, PcieJoin};
use super::tiers::{Routing, Tier, Tiers};
use super::{Cluster, Inside, Rails};
use crate::error::Result;
use std::sync::Arc;

/// Ports of a machine.
const MOST_PORTS: u64 = 1 << 24;
/// Links of a switch in one direction.
const MOST_LINKS: u32 = 1 << 16;
/// Tiers of a machine.
const MOST_TIERS: usize = 6;
/// The names of tiers that have none in the file, the lowest first.
const NAMES: [&str; 3] = ["leaf", "spine", "core"];

/// Reads `[cluster]`.
pub(in crate::topology) fn cluster(section: &Section, classes: &[Class]) -> Result<Built> {
    let keys = [
        "places",
        "nodes",
        "inside",
        "wires",
        "nics",
        "nic",
        "rails",
        "routing",
        "seed",
        "oversubscription",
        "pcie",
        "tier",
    ];
    section.knows(&keys)?;
    let places = section.need("places", "8")?.count(edges::MOST_PLACES)?;
    let nodes = section.need("nodes", "1")?.count(MOST_PLACES / places)?;
    let nic = section.need("nic", "\"nic\"")?.class(classes)?;
    let nics = section.get("nics").map_or(Ok(places), |field| {
        let nics = field.count(MOST_LINKS)?;
        match nics.is_multiple_of(places) || places.is_multiple_of(nics) {
            true => Ok(nics),
            false => Err(field.error(format_args!(
                "{nics} NICs and {places} devices do not divide evenly; write a multiple of {places}, or a number that divides it"
            ))),
        }
    })?;
    let rails = match section.get("rails").map_or(Ok("none"), |f| f.word(&["none", "optimised", "only"]))? {
        "optimised" => Rails::Optimised,
        "only" => Rails::Only,
        _ => Rails::None,
    };
    let routing = match section.get("routing").map_or(Ok("ecmp"), |f| f.word(&["ecmp", "destination"]))? {
        "destination" => Routing::Destination,
        _ => Routing::Ecmp,
    };
    let seed = section.get("seed").map_or(Ok(0), |field| {
        field.read(|text| {
            text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to 2^64 - 1; write one"))
        })
    })?;

    let pcie = pcie(section, places, nics, classes)?;
    let (inside, within) = inside(section, places, pcie.is_some(), classes)?;
    let first_pcie = within.len() as u32;
    let pcie_ports = |node: u32| pcie.as_ref().map_or_else(Vec::new, |pcie| pcie.ports(node));
    let first_nic = first_pcie + pcie_ports(0).len() as u32;
    let stride = first_nic + 2 * nics;
    let too_many = || section.error(format_args!("may have more than {MOST_PORTS} ports; write fewer nodes"));
    let of_nodes = u64::from(stride) * u64::from(nodes);
    if of_nodes > MOST_PORTS {
        return Err(too_many());
    }

    let tiers = tiers(section, rails, (nodes, nics), classes, &classes[nic as usize])?;
    let (positions, apart) = match rails {
        Rails::None => (nodes * nics, 1),
        Rails::Only => (nodes, nics),
        Rails::Optimised => (nodes.div_ceil(tiers[0].down) * nics * tiers[0].down, 1),
    };
    let tiers = Tiers::new(tiers, of_nodes as u32, positions, apart, routing, seed).ok_or_else(too_many)?;
    if u64::from(tiers.end()) > MOST_PORTS {
        return Err(too_many());
    }

    let mut ports = Vec::with_capacity(tiers.end() as usize);
    for node in 0..nodes {
        ports.extend(
            within.iter().map(|port| Port { name: format!("n{node}.{}", port.name), class: port.class }),
        );
        ports.extend(pcie_ports(node));
        let both = |i: u32| format!("n{node}.nic{}.{}", i / 2, ["tx", "rx"][i as usize % 2]);
        ports.extend((0..2 * nics).map(|i| Port { name: both(i), class: nic }));
    }
    ports.extend(tiers.ports());
    let cluster = Cluster { places, nics, inside, rails, stride, first_pcie, first_nic, pcie, tiers };
    Ok(Built { ports, shape: Shape([places, nodes, 1]), routes: Arc::new(cluster) })
}

/// What joins the places of a node, and its ports.
fn inside(section: &Section, places: u32, has_pcie: bool, classes: &[Class]) -> Result<(Inside, Vec<Port>)> {
    let switch = section.get("inside").map(|field| field.class(classes)).transpose()?;
    match (switch, section.table.get("wires")) {
        (Some(_), Some(_)) => {
            Err(section.error("has both `inside` and [cluster.wires]; keep the one that joins the places of a node"))
        }
        (Some(class), None) => {
            let name = |i: u32| format!("g{}.nv.{}", i / 2, ["tx", "rx"][i as usize % 2]);
            Ok((Inside::Switch, (0..2 * places).map(|i| Port { name: name(i), class }).collect()))
        }
        (None, Some(wires)) => {
            let inner = section.inner("[cluster.wires]".into(), wires)?;
            let (ports, wires) = edges::wires(&inner, places, &[], classes)?;
            Ok((Inside::Wires(wires), ports))
        }
        (None, None) if has_pcie || places == 1 => Ok((Inside::Pcie, Vec::new())),
        (None, None) => Err(section.error(
            "does not say what joins the places of a node; add inside = \"nvlink\", [cluster.wires] or [cluster.pcie]",
        )),
    }
}

/// Reads `[cluster.pcie]`.
fn pcie(section: &Section, devices: u32, nics: u32, classes: &[Class]) -> Result<Option<Pcie>> {
    let Some(value) = section.table.get("pcie") else { return Ok(None) };
    let section = section.inner("[cluster.pcie]".into(), value)?;
    section.knows(&["link", "switches", "up", "join", "hosts", "smp"])?;
    let link = section.need("link", "\"pcie5\"")?.class(classes)?;
    let evenly = |field: Field, of: u32, what: &str| {
        let number = field.count(of)?;
        match of.is_multiple_of(number) {
            true => Ok(number),
            false => Err(field.error(format_args!(
                "{of} {what} do not divide evenly among {number}; write a number that divides {of}"
            ))),
        }
    };
    let switches = section.get("switches").map_or(Ok(1), |field| evenly(field, devices, "devices"))?;
    if !nics.is_multiple_of(switches) && !switches.is_multiple_of(nics) {
        return Err(section.error(format_args!(
            "{nics} NICs and {switches} switches do not divide evenly; write a number of switches that divides {nics}"
        )));
    }
    let roots = section.get("hosts").map_or(Ok(1), |field| evenly(field, switches, "PCIe switches"))?;
    let up = section.get("up").map_or(Ok(link), |field| field.class(classes))?;
    let join = section.get("join").map_or(Ok("host"), |field| field.word(&["host", "switch"]))?;
    let join = if join == "host" { PcieJoin::Host } else { PcieJoin::Switch };
    let smp = match roots {
        1 => section.get("smp").map_or(Ok(up), |field| field.class(classes))?,
        _ => section.need("smp", "\"upi\"")?.class(classes)?,
    };
    Ok(Some(Pcie { devices, nics, switches, roots, join, link, up, smp }))
}

/// Reads `[[cluster.tier]]`; without any, all NICs of a rail hang on one switch.
fn tiers(
    section: &Section,
    rails: Rails,
    (nodes, nics): (u32, u32),
    classes: &[Class],
    nic: &Class,
) -> Result<Vec<Tier>> {
    let sections = section.listed("tier", "[[cluster.tier]]")?;
    if sections.len() > MOST_TIERS {
        return Err(section.error(format_args!("has more than {MOST_TIERS} tiers; write fewer")));
    }
    if sections.is_empty() && rails == Rails::Optimised {
        return Err(section.error(
            "joins rails at a tier above their leaves; add [[cluster.tier]] twice, or write rails = \"only\"",
        ));
    }
    let over_all = over_all(section)?;
    // Of the tier below: what hangs on a tier of it, and the link that leads up from each.
    let mut hang = if rails == Rails::None { nodes * nics } else { nodes };
    let mut below = nic;
    let mut tiers = Vec::new();
    let mut is_complete = false;
    for (number, tier) in sections.iter().enumerate() {
        tier.knows(&["name", "ports", "down", "uplink", "uplinks", "oversubscription"])?;
        if is_complete {
            continue;
        }
        let name = match (tier.get("name"), NAMES.get(number)) {
            (Some(field), _) => field.read(name_of)?,
            (None, Some(name)) => (*name).to_owned(),
            (None, None) => tier.need("name", "\"super\"")?.read(name_of)?,
        };
        let ports = tier.get("ports").map(|field| field.count(MOST_LINKS)).transpose()?;
        let is_last = number + 1 == sections.len();
        // A switch whose ports reach everything has none left to lead up.
        let is_joining = |ports: &u32| hang <= *ports && (number > 0 || rails != Rails::Optimised);
        let joining = ports.filter(|ports| !is_last && is_joining(ports));
        is_complete = is_last || joining.is_some();
        let down = match (joining, tier.get("down")) {
            (Some(ports), _) => ports,
            (None, Some(field)) => field.count(ports.unwrap_or(MOST_LINKS))?,
            (None, None) if is_last => ports.unwrap_or(hang),
            (None, None) => tier.need("down", "16")?.count(MOST_LINKS)?,
        };
        let sets = hang.div_ceil(down);
        hang = if number == 0 && rails == Rails::Optimised { sets * nics } else { sets };
        if is_complete {
            if let Some(field) = ["uplink", "uplinks", "oversubscription"]
                .into_iter()
                .filter(|_| is_last)
                .find_map(|key| tier.get(key))
            {
                return Err(
                    field.error("the last tier has none above it; leave this out, or add a [[cluster.tier]]")
                );
            }
            if hang > 1 {
                return Err(tier.error(format_args!(
                    "{name} is the last tier and has {hang} switches, which nothing joins; let `down` be larger, add a [[cluster.tier]], or \
                     write fewer nodes"
                )));
            }
            tiers.push(Tier { name, down, uplinks: 0, class: 0 });
        } else {
            let class = tier.need("uplink", "\"spine\"")?.class(classes)?;
            let uplinks = uplinks((section, &over_all), tier, number, down, below, &classes[class as usize])?;
            if let Some(ports) = ports.filter(|&ports| u64::from(down) + u64::from(uplinks) > ports.into()) {
                return Err(tier.error(format_args!(
                    "has switches of {ports} ports, and {down} links down and {uplinks} up; write fewer of them"
                )));
            }
            below = &classes[class as usize];
            tiers.push(Tier { name, down, uplinks, class });
        }
    }
    if let (Some(field), Some(OverAll::Each(list))) = (section.listing("oversubscription"), &over_all)
        && list.len() + 1 != tiers.len()
    {
        return Err(field.error(format_args!(
            "{} proportions are listed, and {} tiers have uplinks; write one for each of these, or one number for all",
            list.len(),
            tiers.len().saturating_sub(1)
        )));
    }
    if tiers.is_empty() {
        tiers.push(Tier { name: "switch".into(), down: hang, uplinks: 0, class: 0 });
    }
    Ok(tiers)
}

/// The oversubscription of tiers that have none of their own.
enum OverAll {
    Every(Ratio),
    /// The lowest tier's first.
    Each(Vec<Ratio>),
}

/// Reads the cluster's `oversubscription`: one proportion, or a list of them.
fn over_all(section: &Section) -> Result<Option<OverAll>> {
    let Some(field) = section.listing("oversubscription") else { return Ok(None) };
    let read = field.read(|text| {
        let Some(list) = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return units::proportion(text).map(OverAll::Every);
        };
        let each = list.trim().trim_end_matches(',').split(',');
        let each = each.map(|one| units::proportion(one.trim().trim_matches(['"', '\''])));
        each.collect::<Result<_, _>>().map(OverAll::Each)
    });
    read.map(Some)
}

/// Reads the number of links that lead up from a switch: `uplinks`, or, by `oversubscription`, the number with which the links below have
/// that many times the line rate of the links above.
fn uplinks(
    (section, over_all): (&Section, &Option<OverAll>),
    tier: &Section,
    number: usize,
    down: u32,
    below: &Class,
    above: &Class,
) -> Result<u32> {
    let own = tier.get("oversubscription");
    let (field, ratio) = match (tier.get("uplinks"), own) {
        (Some(field), None) => return field.count(MOST_LINKS),
        (Some(_), Some(field)) => {
            return Err(field.error("`uplinks` says how many links lead up already; keep one of the two"));
        }
        (None, Some(field)) => {
            let ratio = field.read(units::proportion)?;
            (field, ratio)
        }
        // The cluster's is that of tiers which say nothing.
        (None, None) => {
            let of_all = match over_all {
                Some(OverAll::Every(ratio)) => Some(*ratio),
                Some(OverAll::Each(list)) => list.get(number).copied(),
                None => None,
            };
            section.listing("oversubscription").zip(of_all).ok_or_else(|| {
                tier.error(
                    "does not say how many links lead up; add oversubscription = \"2:1\" or uplinks = 4",
                )
            })?
        }
    };
    of_oversubscription(ratio, down, below, above).map_err(|number| {
        let rate = units::print_bandwidth(above.line_rate);
        field.error(format_args!(
            "{down} links of {} below are {number:.2} uplinks of {rate}, and not a whole number of 1 to {MOST_LINKS}; write another \
             proportion, or `uplinks`",
            units::print_bandwidth(below.line_rate)
        ))
    })
}

/// The number of uplinks, or what it would be.
fn of_oversubscription(ratio: Ratio, down: u32, below: &Class, above: &Class) -> Result<u32, f64> {
    let (over, under) = ratio.parts();
    let low = u128::from(down) * u128::from(below.line_rate);
    let exact = (low.checked_mul(under.into())).zip(u128::from(above.line_rate).checked_mul(over.into()));
    let whole =
        exact.filter(|(low, high)| low % high == 0).and_then(|(low, high)| u32::try_from(low / high).ok());
    whole
        .filter(|number| (1..=MOST_LINKS).contains(number))
        .ok_or(low as f64 * under as f64 / (above.line_rate as f64 * over as f64))
}

/// A tier's name is a part of its ports' names.
fn name_of(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase()) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is no name of a tier; write lower-case letters, such as leaf")),
    }
}
