//! What a rank tells the others at the meeting, so that they reach it.

use crate::error::{Error, Result};
use crate::memory::control::Layout;
use crate::sys::endpoint::RemoteMemory;
use crate::sys::network::Interface;
use crate::types::Rank;
use std::net::IpAddr;

/// Changes with the format of addresses, messages or writes.
const VERSION: u8 = 6;
/// The bytes of the name of a host that are told.
const NAME: usize = 64;
/// Bytes before the name of the host, and of each rail before the endpoint.
const HEAD: usize = 29;
const RAIL: usize = 33;

/// A rank's address on one rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailAddress {
    /// The address of its host there, for sentences.
    pub at: IpAddr,
    /// The endpoint, as its provider names it.
    pub endpoint: Vec<u8>,
    /// The bytes of the rank's mirror that others write to.
    pub memory: RemoteMemory,
}

/// A rank's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankAddress {
    /// The name of its host, for sentences.
    pub host: String,
    /// Its rails: those of the same number on all hosts reach each other.
    pub rails: Vec<RailAddress>,
    /// The machine that its process runs on.
    pub machine: u64,
    /// What messages to the rank begin with.
    pub token: u64,
    /// Whether what others write to the rank ends with the frame, or the frame comes by a message.
    pub with_trailers: bool,
    /// Bytes of the control segment's layout.
    pub total: u64,
    /// A bit for each rail that the rank has not opened, because it was cut.
    pub cut: u32,
}

impl RankAddress {
    /// Returns its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.with_trailers.into(), self.rails.len() as u8];
        bytes.extend([self.token, self.total, self.machine].iter().flat_map(|word| word.to_le_bytes()));
        // There are eight rails at most.
        bytes.push(self.cut as u8);
        let is_whole = |&end: &usize| self.host.is_char_boundary(end);
        let end = (0..=self.host.len().min(NAME)).rev().find(is_whole).unwrap_or(0);
        bytes.push(end as u8);
        bytes.extend(&self.host.as_bytes()[..end]);
        for RailAddress { at, endpoint, memory } in &self.rails {
            let at = match at {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => *v6,
            };
            bytes.extend(at.octets());
            bytes.extend([memory.address, memory.key].iter().flat_map(|word| word.to_le_bytes()));
            bytes.push(endpoint.len() as u8);
            bytes.extend(endpoint);
        }
        bytes
    }

    /// Reads those of rank `rank`, whose layout must be `layout`.
    pub fn of(bytes: &[u8], rank: Rank, layout: Layout) -> Result<RankAddress> {
        let faulty = |what: &str, remedy: &str| {
            Error::remote(format!("rank {rank} told an address that {what}; {remedy}"))
        };
        let cut = || faulty("is too short", "it or its network is faulty");
        let version = *bytes.first().ok_or_else(cut)?;
        if version != VERSION {
            return Err(faulty(
                &format!("has version {version}, where this rank has {VERSION}"),
                "install the same version of Penny on all hosts",
            ));
        }
        let word =
            |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(cut)?;
        let (host, mut rest) = rest.split_at_checked(head[HEAD - 1].into()).ok_or_else(cut)?;
        let mut rails = Vec::new();
        for _ in 0..head[2] {
            let (own, more) = rest.split_at_checked(RAIL).ok_or_else(cut)?;
            let (endpoint, others) = more.split_at_checked(own[RAIL - 1].into()).ok_or_else(cut)?;
            let at: [u8; 16] = std::array::from_fn(|i| own[i]);
            let memory = RemoteMemory { address: word(own, 16), key: word(own, 24) };
            rails.push(RailAddress {
                at: IpAddr::from(at).to_canonical(),
                endpoint: endpoint.to_vec(),
                memory,
            });
            rest = others;
        }
        let address = RankAddress {
            host: String::from_utf8_lossy(host).into_owned(),
            rails,
            machine: word(head, 19),
            token: word(head, 3),
            with_trailers: head[1] != 0,
            total: word(head, 11),
            cut: head[HEAD - 2].into(),
        };
        if address.total != layout.total() as u64 {
            return Err(faulty(
                &format!("is for {} bytes of lines, where this rank has {}", address.total, layout.total()),
                "set PENNY_STAGING to the same on all ranks",
            ));
        }
        Ok(address)
    }

    /// Has the rank as many rails as this one, whose interfaces are `own`?
    pub fn check_rails(&self, rank: Rank, own: &[Interface]) -> Result<()> {
        if self.rails.len() == own.len() {
            return Ok(());
        }
        let there: Vec<String> = self.rails.iter().map(|rail| rail.at.to_string()).collect();
        let here: Vec<String> =
            own.iter().map(|interface| format!("{} {}", interface.name, interface.address)).collect();
        Err(Error::usage(format!(
            "this rank uses {} of the interfaces of this host ({}), and rank {rank} uses {} of those of {} ({}); name as many in PENNY_NET_IFACES on \
             each host, in the same order",
            own.len(),
            here.join(", "),
            there.len(),
            self.host,
            there.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_told_or_refused_with_a_sentence() {
        let layout = Layout::new(2, 4096);
        let rail = |at: &str, of: u8| RailAddress {
            at: at.parse().unwrap(),
            endpoint: vec![of; 28],
            memory: RemoteMemory { address: of.into(), key: u64::MAX },
        };
        let address = RankAddress {
            host: "node\u{fc}".into(),
            rails: vec![rail("10.0.0.7", 7), rail("fd00::2", 8)],
            machine: u64::MAX - 1,
            token: 3,
            with_trailers: true,
            total: layout.total() as u64,
            cut: 2,
        };
        let bytes = address.bytes();
        assert_eq!(RankAddress::of(&bytes, 1, layout).unwrap(), address);
        let long = RankAddress { host: format!("a{}", "\u{fc}".repeat(400)), ..address.clone() };
        let read = RankAddress::of(&long.bytes(), 1, layout).unwrap();
        assert_eq!(read, RankAddress { host: format!("a{}", "\u{fc}".repeat(31)), ..address.clone() });
        let told = |bytes: &[u8], layout| RankAddress::of(bytes, 5, layout).unwrap_err().message.clone();
        for length in (0..bytes.len()).filter(|&length| length != 1) {
            assert!(
                told(&bytes[..length], layout).contains("rank 5 told an address that is too short"),
                "{length}"
            );
        }
        assert!(told(&[9; 100], layout).contains("version 9"));
        assert!(told(&bytes, Layout::new(2, 8192)).contains("PENNY_STAGING"));
        let own = Interface { name: "eth0".into(), address: "10.0.0.1".parse().unwrap(), is_loopback: false };
        let told = address.check_rails(1, &[own]).unwrap_err().message.clone();
        assert!(
            told.contains("uses 1 of the interfaces of this host (eth0 10.0.0.1), and rank 1 uses 2 of those of node\u{fc} (10.0.0.7, fd00::2)"),
            "{told}"
        );
    }
}
