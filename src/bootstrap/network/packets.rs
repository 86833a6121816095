//! What ranks of several hosts tell each other by way of the server, from their meeting until they leave the communicator.

/// The longest message: a packet without its head.
pub const MOST_TOLD: usize = 2048;

const TELL: [u8; 8] = *b"PENNYtel";
const LEAVE: [u8; 8] = *b"PENNYlve";
const TOLD: [u8; 8] = *b"PENNYtld";
const DEATH: [u8; 8] = *b"PENNYded";
const LEFT: [u8; 8] = *b"PENNYlft";
const ENDED: [u8; 8] = *b"PENNYend";
const PING: [u8; 8] = *b"PENNYpng";

/// A packet of a rank.
#[derive(Debug, PartialEq, Eq)]
pub enum FromRank<'a> {
    /// A message to all ranks of other hosts.
    Tell(&'a [u8]),
    /// The end of its connection will not be its death.
    Leave,
    /// The process of another rank on its host has ended, as the kernel has told it.
    Ended(u32),
    /// Nothing: that it has come shows that the network leads here.
    Ping,
}

/// A packet of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ToRank<'a> {
    /// What a rank tells.
    Told { from: u32, bytes: &'a [u8] },
    /// A rank's connection has ended.
    Death { rank: u32 },
    /// A rank has left the communicator.
    Left { rank: u32 },
    /// As a rank's.
    Ping,
}

impl<'a> FromRank<'a> {
    /// Returns the packet.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromRank::Tell(bytes) => [&TELL[..], bytes].concat(),
            FromRank::Leave => LEAVE.to_vec(),
            FromRank::Ended(rank) => [&ENDED[..], &rank.to_le_bytes()].concat(),
            FromRank::Ping => PING.to_vec(),
        }
    }

    /// Returns the packet's meaning; `None` if it has none.
    pub fn decode(packet: &'a [u8]) -> Option<FromRank<'a>> {
        match packet.split_first_chunk::<8>()? {
            (&TELL, bytes) if bytes.len() <= MOST_TOLD => Some(FromRank::Tell(bytes)),
            (&LEAVE, []) => Some(FromRank::Leave),
            (&ENDED, rank) => Some(FromRank::Ended(u32::from_le_bytes(rank.try_into().ok()?))),
            (&PING, []) => Some(FromRank::Ping),
            _ => None,
        }
    }
}

impl<'a> ToRank<'a> {
    /// Returns the packet.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToRank::Told { from, bytes } => [&TOLD[..], &from.to_le_bytes(), bytes].concat(),
            ToRank::Death { rank } => [&DEATH[..], &rank.to_le_bytes()].concat(),
            ToRank::Left { rank } => [&LEFT[..], &rank.to_le_bytes()].concat(),
            ToRank::Ping => PING.to_vec(),
        }
    }

    /// Returns the packet's meaning; `None` if it has none.
    pub fn decode(packet: &'a [u8]) -> Option<ToRank<'a>> {
        if *packet == PING {
            return Some(ToRank::Ping);
        }
        let (magic, rest) = packet.split_first_chunk::<8>()?;
        let (rank, bytes) = rest.split_first_chunk::<4>()?;
        let rank = u32::from_le_bytes(*rank);
        match *magic {
            TOLD if bytes.len() <= MOST_TOLD => Some(ToRank::Told { from: rank, bytes }),
            DEATH if bytes.is_empty() => Some(ToRank::Death { rank }),
            LEFT if bytes.is_empty() => Some(ToRank::Left { rank }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_packet_survives_the_journey(from: u32, bytes in prop::collection::vec(any::<u8>(), 0..=MOST_TOLD)) {
            for packet in [FromRank::Tell(&bytes), FromRank::Leave, FromRank::Ended(from), FromRank::Ping] {
                let bytes = packet.encode();
                prop_assert_eq!(FromRank::decode(&bytes), Some(packet));
            }
            for packet in [ToRank::Told { from, bytes: &bytes }, ToRank::Death { rank: from }, ToRank::Left { rank: from }, ToRank::Ping] {
                let bytes = packet.encode();
                prop_assert_eq!(ToRank::decode(&bytes), Some(packet));
            }
        }

        #[test]
        fn random_bytes_are_no_packet(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(FromRank::decode(&bytes).is_none() && ToRank::decode(&bytes).is_none());
        }
    }
}
