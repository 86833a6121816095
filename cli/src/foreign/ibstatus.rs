//! The text of `ibstatus`: one paragraph per port.
//!
//! ```text
//!     Infiniband device 'mlx5_0' port 1 status:
//!             state:           4: ACTIVE
//!             rate:            400 Gb/sec (4X NDR)
//! ```

use std::collections::BTreeMap;

use super::{File, MOST_DEVICES};

/// The ports of a device that are active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The sum of the active ports' rates in one direction, in bits per second.
    pub bits: u64,
    /// The number of active ports.
    pub active: u32,
    /// The number of all ports of the device.
    pub all: u32,
}

/// The ports of each device.
pub fn read(file: &File<'_>) -> Result<BTreeMap<String, Ports>, String> {
    let mut devices: BTreeMap<String, Ports> = BTreeMap::new();
    let mut device = None;
    let mut active = false;
    for (number, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let wrong = |what: &str| file.at(number + 1, what);
        if let Some(rest) = line.strip_prefix("Infiniband device '") {
            let (name, _) = rest
                .split_once('\'')
                .ok_or_else(|| wrong("has no closing quote after the device; add it"))?;
            if devices.len() == MOST_DEVICES {
                return Err(wrong("is one device too many; give those of one node"));
            }
            devices.entry(name.to_owned()).or_default().all += 1;
            (device, active) = (Some(name), false);
        } else if let Some(state) = line.strip_prefix("state:") {
            active = state.contains("ACTIVE");
        } else if let Some(rate) = line.strip_prefix("rate:") {
            let ports = device.and_then(|name| devices.get_mut(name));
            let ports = ports
                .ok_or_else(|| wrong("has a rate before the first device; give all that ibstatus prints"))?;
            let mut words = rate.split_whitespace();
            let giga =
                words.next().and_then(|word| word.parse::<f64>().ok()).filter(|g| (0.0..=1e5).contains(g));
            let (Some(giga), Some("Gb/sec")) = (giga, words.next()) else {
                return Err(wrong("has no rate like `400 Gb/sec (4X NDR)`; give what ibstatus prints"));
            };
            if active {
                ports.bits += (giga * 1e9) as u64;
                ports.active += 1;
            }
        }
    }
    match devices.is_empty() {
        true => Err(file.error(
            "has no line like `Infiniband device 'mlx5_0' port 1 status:`; give what ibstatus prints",
        )),
        false => Ok(devices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_active_ports_count() {
        let text = "Infiniband device 'a' port 1 status:\n\tstate:\t\t 4: ACTIVE\n\trate:\t\t 200 Gb/sec (4X HDR)\n\
                    Infiniband device 'a' port 2 status:\n\tstate:\t\t 1: DOWN\n\trate:\t\t 40 Gb/sec (4X QDR)\n";
        let devices = read(&File { name: "ib.txt", text }).expect("ports");
        assert_eq!(devices["a"], Ports { bits: 200_000_000_000, active: 1, all: 2 });
        for (text, what) in [("rate: 1 Gb/sec", "ib.txt:1: has a rate before"), ("\n", "ib.txt: has no line")]
        {
            let why = read(&File { name: "ib.txt", text }).expect_err("wrong");
            assert!(why.starts_with(what), "{why}");
        }
        let why = read(&File { name: "ib.txt", text: "Infiniband device 'a' port 1\nrate: fast" })
            .expect_err("wrong");
        assert!(why.starts_with("ib.txt:2: has no rate"), "{why}");
    }
}
