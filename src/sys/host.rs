//! Which host this process runs on: processes of one host share memory, others reach each other over a network.

use super::credentials::uid;
use crate::hash::fnv128;
use std::os::unix::fs::MetadataExt;

/// The bytes of a host's name that are told to others.
pub const NAME_BYTES: usize = 64;

/// A host as other hosts know it. Containers with a network of their own count as hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostIdentity {
    /// The same for two processes exactly if they can share memory and meet over a local socket.
    pub id: [u8; 16],
    /// The name, zero-padded.
    name: [u8; NAME_BYTES],
}

impl HostIdentity {
    /// Returns the host of this process. `given` takes the place of what the system says: several hosts on one machine.
    pub fn this(given: Option<&str>) -> HostIdentity {
        let of_system = || {
            let boot = boot();
            let network = std::fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino());
            format!("{}/{network}/{}", boot.trim(), uid())
        };
        let id = given.map_or_else(of_system, |given| format!("given/{given}/{}", uid()));
        let name = given.map_or_else(system_name, str::to_owned);
        HostIdentity::new(fnv128(id.bytes()).to_le_bytes(), &name)
    }

    /// Makes a host from its identity and its name, of which the first bytes count.
    pub fn new(id: [u8; 16], name: &str) -> HostIdentity {
        let end = (0..=name.len().min(NAME_BYTES)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        let mut padded = [0; NAME_BYTES];
        padded[..end].copy_from_slice(&name.as_bytes()[..end]);
        HostIdentity { id, name: padded }
    }

    /// Returns the identity and the name as they go over a network.
    pub fn encode(&self) -> [u8; 16 + NAME_BYTES] {
        let mut bytes = [0; 16 + NAME_BYTES];
        bytes[..16].copy_from_slice(&self.id);
        bytes[16..].copy_from_slice(&self.name);
        bytes
    }

    /// Reads what [`encode`](Self::encode) returns.
    pub fn decode(bytes: &[u8; 16 + NAME_BYTES]) -> HostIdentity {
        let (id, name) = bytes.split_at(16);
        HostIdentity { id: std::array::from_fn(|i| id[i]), name: std::array::from_fn(|i| name[i]) }
    }

    /// Returns the name for sentences.
    pub fn name(&self) -> String {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).escape_default().to_string()
    }
}

/// Returns a number that processes have in common exactly if they run on one machine, whose processors they share, in whatever containers they are.
pub fn machine() -> u64 {
    fnv128(boot().trim().bytes()) as u64
}

fn boot() -> String {
    // A sandbox may hide it. The name is the best guess then.
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| system_name())
}

fn system_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or("this host".into(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_survives_the_journey_and_names_itself() {
        let here = HostIdentity::this(None);
        assert_eq!(HostIdentity::decode(&here.encode()), here);
        assert!(!here.name().is_empty());
        let (a, b) = (HostIdentity::this(Some("a")), HostIdentity::this(Some("b")));
        assert!(a.id != b.id && a.id != here.id && a.id == HostIdentity::this(Some("a")).id);
        assert_eq!(a.name(), "a");
        assert_eq!(
            HostIdentity::new([0; 16], &"ü".repeat(60)).name(),
            "ü".repeat(32).escape_default().to_string()
        );
    }
}
