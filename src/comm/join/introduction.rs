//! What a rank tells all others when they meet.

use crate::bootstrap::MAX_INFO;
use crate::memory::heap::HeapId;
use crate::planner::profile::{HostProfile, MOST_CHOICES};
use crate::sys::process::Card;

/// The facts, besides descriptors, that a rank sends to all others when they meet.
#[derive(Clone, Copy)]
pub(in crate::comm) struct Introduction {
    /// Its heap.
    pub heap: HeapId,
    /// The size of that heap.
    pub heap_bytes: u64,
    /// Its process.
    pub card: Card,
    /// Rank 0's word counts for all.
    pub staging: u64,
    /// The declared machine's hash, the same on all ranks; 0: none.
    pub machine: u64,
}

impl Introduction {
    const BYTES: usize = 64;

    /// Encodes it for the rendezvous, and behind it rank 0's host profile.
    pub fn encode(&self, profile: Option<&HostProfile>) -> Vec<u8> {
        let mut bytes = vec![0; Introduction::BYTES];
        bytes[..16].copy_from_slice(&self.heap);
        let card = self.card;
        let words =
            [self.heap_bytes, card.start, self.staging, u64::from(card.pid), card.namespace, self.machine];
        for (to, word) in bytes[16..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend(profile.map(HostProfile::encode).unwrap_or_default());
        bytes
    }
    /// `None`: it is none.
    pub fn decode(bytes: &[u8]) -> Option<Introduction> {
        let word = |i: usize| {
            let at = 16 + 8 * i;
            Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        Some(Introduction {
            heap: bytes.get(..16)?.try_into().ok()?,
            heap_bytes: word(0)?,
            card: Card { start: word(1)?, pid: u32::try_from(word(3)?).ok()?, namespace: word(4)? },
            staging: word(2)?,
            machine: word(5)?,
        })
    }
    /// Decodes rank 0's host profile: `Some(None)`: it has none; `None`: what it says makes no sense.
    pub fn decode_profile(bytes: &[u8]) -> Option<Option<HostProfile>> {
        match bytes.get(Introduction::BYTES..)? {
            [] => Some(None),
            encoded => HostProfile::decode(encoded).map(Some),
        }
    }
}

const _: () = assert!(Introduction::BYTES + size_of::<u64>() * MOST_CHOICES <= MAX_INFO);

#[cfg(test)]
mod tests {
    use crate::algorithms;
    use crate::comm::join::introduction::*;
    use crate::planner::profile::ProfileChoice;
    use crate::types::Collective;

    #[test]
    fn an_introduction_is_read_as_it_was_written_and_half_of_one_is_none() {
        let card = Card { pid: 7, start: 8, namespace: 9 };
        let told = Introduction { heap: [3; 16], heap_bytes: 4, card, staging: 5, machine: 6 };
        let bytes = told.encode(None);
        let read = Introduction::decode(&bytes).unwrap();
        assert_eq!((read.heap, read.heap_bytes, read.card), (told.heap, 4, card));
        assert_eq!((read.staging, read.machine), (5, 6));
        assert!(Introduction::decode(&bytes[..63]).is_none());
        assert_eq!(Introduction::decode_profile(&bytes), Some(None));
    }

    #[test]
    fn a_profile_is_read_behind_an_introduction_and_half_of_one_is_none() {
        let card = Card { pid: 7, start: 8, namespace: 9 };
        let told = Introduction { heap: [3; 16], heap_bytes: 4, card, staging: 5, machine: 6 };
        let choice = ProfileChoice {
            ranks: 2..=4,
            collective: Collective::AllReduce,
            sizes: 0..4096,
            algorithm: algorithms::index("ring"),
        };
        let profile = HostProfile::of(vec![choice]).unwrap();
        let bytes = told.encode(Some(&profile));
        assert_eq!(Introduction::decode(&bytes).unwrap().staging, 5);
        assert_eq!(Introduction::decode_profile(&bytes), Some(Some(profile)));
        assert_eq!(Introduction::decode_profile(&bytes[..71]), None);
        let mut strange = bytes;
        strange[69] = 0xff;
        assert_eq!(Introduction::decode_profile(&strange), None);
    }
}
