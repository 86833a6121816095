//! Which of this host's addresses other hosts are told.

use std::net::IpAddr;

use crate::env;
use crate::error::{Error, Result};
use crate::sys::network::{Interface, interfaces};

/// The most addresses that an id has room for.
pub const MOST: usize = 3;

/// The most interfaces that a rank uses side by side.
const MOST_RAILS: usize = 8;

/// Interfaces that lead to containers and virtual machines of this host, unless the user names them.
const INTERNAL: [&str; 9] = ["docker", "virbr", "br-", "veth", "cni", "flannel", "cali", "lxc", "podman"];

/// Returns this host's addresses by the choice in `PENNY_NET_IFACES`, those first that other ranks know.
pub fn chosen(known: &[IpAddr]) -> Result<Vec<IpAddr>> {
    let all = interfaces().map_err(|e| {
        Error::system(format!("the system does not list the network interfaces of this host: {e}"))
    })?;
    choose(&all, env::get("PENNY_NET_IFACES").as_deref(), known)
}

/// Returns the interfaces over which a rank spreads what is large: those that `PENNY_NET_IFACES` names, in its order, if they are several.
/// Else the one with the address `met`, by which this host has reached the meeting.
pub fn rails(met: IpAddr) -> Result<Vec<Interface>> {
    let all = interfaces().unwrap_or_default();
    rails_of(&all, env::get("PENNY_NET_IFACES").as_deref(), met)
}

fn rails_of(all: &[Interface], choice: Option<&str>, met: IpAddr) -> Result<Vec<Interface>> {
    // A choice that leaves none is a mistake, though another interface has led to the meeting.
    if choice.is_some() && !all.is_empty() {
        choose(all, choice, &[])?;
    }
    let words = choice.filter(|choice| !choice.starts_with('^')).unwrap_or_default();
    let mut rails: Vec<Interface> = Vec::new();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        for interface in all.iter().filter(|interface| names(word, interface)) {
            let is_known = rails.iter().any(|rail| rail.name == interface.name);
            if !is_known && interface.address.is_ipv4() == met.is_ipv4() {
                rails.push(interface.clone());
            }
        }
    }
    if rails.len() > MOST_RAILS {
        return Err(Error::argument(format!(
            "PENNY_NET_IFACES={words} names {} network interfaces of this host, and ranks use {MOST_RAILS} side by side at most; name fewer",
            rails.len()
        )));
    }
    if rails.len() > 1 {
        return Ok(rails);
    }
    let name = all.iter().find(|interface| interface.address == met).map_or("", |interface| &interface.name);
    Ok(vec![Interface { name: name.into(), address: met, is_loopback: met.is_loopback() }])
}

/// Chooses from these interfaces. `choice`: names, beginnings of names with `*`, addresses or CIDR ranges, with commas between; after a
/// `^` at the beginning those that are not to be used.
fn choose(all: &[Interface], choice: Option<&str>, known: &[IpAddr]) -> Result<Vec<IpAddr>> {
    let is_internal = |interface: &Interface| INTERNAL.iter().any(|name| interface.name.starts_with(name));
    let mut usual: Vec<&Interface> =
        all.iter().filter(|interface| !interface.is_loopback && !is_internal(interface)).collect();
    if usual.is_empty() {
        usual = all.iter().filter(|interface| interface.is_loopback).collect();
    }
    let mut chosen = match choice {
        None => usual,
        Some(choice) => {
            let (excludes, words) = choice.strip_prefix('^').map_or((false, choice), |rest| (true, rest));
            let words: Vec<&str> = words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
            for word in words.iter().filter(|word| word.contains('/')) {
                range(word).ok_or_else(|| {
                    Error::argument(format!(
                        "PENNY_NET_IFACES: {word:?} is no range of addresses; write one as 10.0.0.0/8 or fd00::/8"
                    ))
                })?;
            }
            let named = |interface: &&Interface| words.iter().any(|word| names(word, interface));
            match excludes {
                true => usual.into_iter().filter(|interface| !named(interface)).collect(),
                false => all.iter().filter(named).collect(),
            }
        }
    };
    if chosen.is_empty() {
        let there: Vec<String> =
            all.iter().map(|interface| format!("{} ({})", interface.name, interface.address)).collect();
        return Err(Error::argument(format!(
            "PENNY_NET_IFACES={} leaves no network interface that is up; this host has {}",
            choice.unwrap_or_default(),
            if there.is_empty() { "none".into() } else { there.join(", ") }
        )));
    }
    chosen.sort_by_key(|interface| (!known.contains(&interface.address), interface.address.is_ipv6()));
    let mut addresses: Vec<IpAddr> = chosen.into_iter().map(|interface| interface.address).collect();
    addresses.dedup();
    addresses.truncate(MOST);
    Ok(addresses)
}

/// Does a word of the choice name this interface?
fn names(word: &str, interface: &Interface) -> bool {
    if let Some((network, bits)) = range(word) {
        return prefix(network, bits) == prefix(interface.address, bits)
            && network.is_ipv4() == interface.address.is_ipv4();
    }
    match (word.strip_suffix('*'), word.parse::<IpAddr>()) {
        (Some(beginning), _) => interface.name.starts_with(beginning),
        (None, Ok(address)) => interface.address == address,
        (None, Err(_)) => interface.name == word,
    }
}

/// Reads a range of addresses as `10.0.0.0/8`.
fn range(word: &str) -> Option<(IpAddr, u8)> {
    let (network, bits) = word.split_once('/')?;
    let (network, bits): (IpAddr, u8) = (network.parse().ok()?, bits.parse().ok()?);
    (bits <= if network.is_ipv4() { 32 } else { 128 }).then_some((network, bits))
}

/// Returns the first bits of an address.
fn prefix(address: IpAddr, bits: u8) -> u128 {
    let (value, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    value.checked_shr(width - u32::from(bits).min(width)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        let interface = |name: &str, address: &str, is_loopback| Interface {
            name: name.into(),
            address: address.parse().unwrap(),
            is_loopback,
        };
        vec![
            interface("lo", "127.0.0.1", true),
            interface("eth0", "fd00::2", false),
            interface("eth0", "10.0.0.2", false),
            interface("ib0", "192.168.7.2", false),
            interface("docker0", "172.17.0.1", false),
        ]
    }

    fn told(choice: Option<&str>) -> Vec<String> {
        choose(&host(), choice, &[]).unwrap().iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn the_choice_takes_names_ranges_and_exclusions() {
        assert_eq!(told(None), ["10.0.0.2", "192.168.7.2", "fd00::2"]);
        assert_eq!(told(Some("ib0")), ["192.168.7.2"]);
        assert_eq!(told(Some("docker0,lo")), ["127.0.0.1", "172.17.0.1"]);
        assert_eq!(told(Some("eth*")), ["10.0.0.2", "fd00::2"]);
        assert_eq!(told(Some("10.0.0.0/8")), ["10.0.0.2"]);
        assert_eq!(told(Some("fd00::/16")), ["fd00::2"]);
        assert_eq!(told(Some("^eth0")), ["192.168.7.2"]);
        assert_eq!(told(Some("192.168.7.2")), ["192.168.7.2"]);
        assert_eq!(choose(&host()[..1], None, &[]).unwrap(), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn an_address_that_other_ranks_know_is_among_those_that_there_is_room_for() {
        let mut many = host();
        many.push(Interface {
            name: "eth1".into(),
            address: IpAddr::from([10, 9, 0, 1]),
            is_loopback: false,
        });
        let known = [IpAddr::from([10, 9, 0, 1])];
        let told = choose(&many, None, &known).unwrap();
        assert_eq!((told.len(), told[0]), (MOST, known[0]));
        assert!(
            !choose(&many, Some("^eth1"), &known).unwrap().contains(&known[0]),
            "the user's choice counts"
        );
    }

    #[test]
    fn several_interfaces_that_are_named_are_rails_in_their_order() {
        let told = |choice, met: &str| -> Vec<String> {
            let rails = rails_of(&host(), choice, met.parse().unwrap()).unwrap();
            rails.iter().map(|rail| format!("{} {}", rail.name, rail.address)).collect()
        };
        assert_eq!(told(None, "10.0.0.2"), ["eth0 10.0.0.2"]);
        assert_eq!(told(Some("ib0,eth0"), "10.0.0.2"), ["ib0 192.168.7.2", "eth0 10.0.0.2"]);
        assert_eq!(
            told(Some("10.0.0.0/8, 192.168.0.0/16"), "192.168.7.2"),
            ["eth0 10.0.0.2", "ib0 192.168.7.2"]
        );
        assert_eq!(told(Some("eth*,eth0"), "10.0.0.2"), ["eth0 10.0.0.2"], "one address of each");
        assert_eq!(told(Some("eth0,ib0"), "fd00::2"), ["eth0 fd00::2"], "of the kind by which ranks meet");
        assert_eq!(told(Some("^docker0"), "192.168.7.2"), ["ib0 192.168.7.2"], "these are not named");
        assert_eq!(told(None, "192.0.2.1"), [" 192.0.2.1"]);
        let many: Vec<Interface> = (0..9)
            .map(|i| Interface {
                name: format!("eth{i}"),
                address: IpAddr::from([10, 0, i, 1]),
                is_loopback: false,
            })
            .collect();
        for choice in ["eth77", "^eth0,ib0"] {
            let refused = rails_of(&host(), Some(choice), IpAddr::from([10, 0, 0, 2])).unwrap_err();
            assert!(refused.message.contains("leaves no network interface that is up"), "{refused}");
        }
        let refused = rails_of(&many, Some("eth*"), IpAddr::from([10, 0, 0, 1])).unwrap_err();
        assert!(refused.message.contains("names 9 network interfaces"), "{refused}");
    }

    #[test]
    fn a_choice_of_nothing_names_what_there_is() {
        let told = choose(&host(), Some("eth7"), &[]).unwrap_err();
        assert!(
            told.message.contains("PENNY_NET_IFACES=eth7") && told.message.contains("eth0 (10.0.0.2)"),
            "{told}"
        );
        let told = choose(&host(), Some("10.0.0.0/99"), &[]).unwrap_err();
        assert!(told.message.contains("10.0.0.0/99"), "{told}");
    }
}
