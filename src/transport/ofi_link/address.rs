//! What a rank tells the others at the meeting, so that they reach it.

use crate::error::{Error, Result};
use crate::memory::control::Layout;
use crate::sys::ofi::RemoteMemory;
use crate::types::Rank;

/// Changes with the format of addresses, messages or writes.
const VERSION: u8 = 1;

/// A rank's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankAddress {
    /// The endpoint, as its provider names it.
    pub endpoint: Vec<u8>,
    /// The bytes of the rank's mirror that others write to.
    pub memory: RemoteMemory,
    /// What messages to the rank begin with.
    pub token: u64,
    /// Whether what others write to the rank ends with the frame, or the frame comes by a message.
    pub with_trailers: bool,
    /// Bytes of the control segment's layout.
    pub total: u64,
}

impl RankAddress {
    /// Returns its bytes, at most 165.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.with_trailers.into()];
        for word in [self.memory.address, self.memory.key, self.token, self.total] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&self.endpoint);
        bytes
    }

    /// Reads those of rank `rank`, whose layout must be `layout`.
    pub fn of(bytes: &[u8], rank: Rank, layout: Layout) -> Result<RankAddress> {
        let faulty = |what: &str, remedy: &str| {
            Err(Error::remote(format!("rank {rank} told an address that {what}; {remedy}")))
        };
        let Some((&[version, with_trailers], rest)) = bytes.split_first_chunk() else {
            return faulty("is too short", "it or its network is faulty");
        };
        if version != VERSION {
            return faulty(
                &format!("has version {version}, where this rank has {VERSION}"),
                "install the same version of Penny on all hosts",
            );
        }
        let Some((words, endpoint)) = rest.split_at_checked(32) else {
            return faulty("is too short", "it or its network is faulty");
        };
        let word = |i: usize| words[8 * i..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let address = RankAddress {
            endpoint: endpoint.to_vec(),
            memory: RemoteMemory { address: word(0), key: word(1) },
            token: word(2),
            with_trailers: with_trailers != 0,
            total: word(3),
        };
        if address.total != layout.total() as u64 {
            return faulty(
                &format!("is for {} bytes of lines, where this rank has {}", address.total, layout.total()),
                "set PENNY_STAGING to the same on all ranks",
            );
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_told_or_refused_with_a_sentence() {
        let layout = Layout::new(2, 4096);
        let address = RankAddress {
            endpoint: vec![7; 128],
            memory: RemoteMemory { address: 1, key: u64::MAX },
            token: 3,
            with_trailers: true,
            total: layout.total() as u64,
        };
        let bytes = address.bytes();
        assert!(bytes.len() <= 200);
        assert_eq!(RankAddress::of(&bytes, 1, layout).unwrap(), address);
        let told = |bytes: &[u8], layout| RankAddress::of(bytes, 5, layout).unwrap_err().message.clone();
        assert!(told(&bytes[..1], layout).contains("rank 5 told an address that is too short"));
        assert!(told(&bytes[..33], layout).contains("too short"));
        assert!(told(&[9; 100], layout).contains("version 9"));
        assert!(told(&bytes, Layout::new(2, 8192)).contains("PENNY_STAGING"));
    }
}
