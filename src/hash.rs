//! FNV-1a: numbers that stand for texts and tables. Not against an adversary.
//!
//! Ranks, processes and versions of Penny compare these numbers, so their bits never change.

/// The state of a hash of 64 bits.
#[derive(Clone, Copy)]
pub struct Fnv64(u64);

impl Fnv64 {
    /// Returns the state before the first byte.
    pub const fn new() -> Fnv64 {
        Fnv64(0xcbf2_9ce4_8422_2325)
    }

    /// Takes the next bytes in.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Returns the hash of the bytes so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Returns the hash of 64 bits.
pub fn fnv64(bytes: &[u8]) -> u64 {
    let mut hash = Fnv64::new();
    hash.bytes(bytes);
    hash.value()
}

/// Returns the hash of 128 bits.
pub fn fnv128(bytes: impl Iterator<Item = u8>) -> u128 {
    let prime = (1u128 << 88) + 0x13b;
    bytes
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, b| (hash ^ u128::from(b)).wrapping_mul(prime))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors.
    #[test]
    fn the_bits_are_those_of_fnv_1a() {
        assert_eq!(fnv64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv64(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv128(b"a".iter().copied()), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
