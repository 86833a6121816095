//! How both ends of a TCP connection prove that they know a meeting's secret, before either reads anything else.
//!
//! ```text
//!     server -> client   challenge   magic 8 | nonce 32
//!     client -> server   claim       serial 8 | nonce 32 | who 84 | proof 32
//!     server -> client   answer      status 1 | who 84 | proof 32
//! ```
//!
//! A proof is HMAC-SHA256, keyed with the secret, over the sender's role, both nonces and what else the message says. Neither
//! the secret nor anything from which it can be computed is sent, and a recorded proof fits no other connection. From the nonces both ends
//! derive a key for each direction, with which every packet is sealed ([`Seal`]). Packets are not encrypted.

use super::super::frame::{Secret, equal};
use super::Who;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a server says first; the last byte is this handshake's version.
const MAGIC: [u8; 8] = *b"PENNYtc\x01";
const NONCE: usize = 32;
const PROOF: usize = 32;

/// The bytes of each message.
pub const CHALLENGE: usize = MAGIC.len() + NONCE;
pub const CLAIM: usize = 8 + NONCE + Who::BYTES + PROOF;
pub const ANSWER: usize = 1 + Who::BYTES + PROOF;

/// The bytes of a packet's seal.
pub const SEAL: usize = 16;

pub type Nonce = [u8; NONCE];

/// Returns the HMAC-SHA256 of the parts, one after another.
pub fn keyed(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => unreachable!("an HMAC takes keys of any length"),
    };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Returns the challenge with this nonce.
pub fn challenge(nonce: &Nonce) -> [u8; CHALLENGE] {
    let mut bytes = [0; CHALLENGE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(nonce);
    bytes
}

/// Reads a challenge. `None`: the server is not one of Penny's, or of another version.
pub fn read_challenge(bytes: &[u8; CHALLENGE]) -> Option<Nonce> {
    let (magic, nonce) = bytes.split_at(8);
    (magic == MAGIC).then(|| std::array::from_fn(|i| nonce[i]))
}

/// The two nonces of a connection, and the secret that both ends know.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub secret: &'a Secret,
    pub serial: u64,
    pub server: &'a Nonce,
    pub client: &'a Nonce,
}

impl Shared<'_> {
    fn proof(&self, role: &[u8], who: &[u8; Who::BYTES]) -> [u8; PROOF] {
        keyed(&self.secret.0, &[role, self.server, self.client, &self.serial.to_le_bytes(), who])
    }

    /// Returns what the client says.
    pub fn claim(&self, who: &Who) -> [u8; CLAIM] {
        let who = who.encode();
        let mut bytes = [0; CLAIM];
        let parts: [&[u8]; 4] = [&self.serial.to_le_bytes(), self.client, &who, &self.proof(b"client", &who)];
        join(&mut bytes, &parts);
        bytes
    }

    /// Returns what the server answers a claim that it has accepted.
    pub fn answer(&self, who: &Who) -> [u8; ANSWER] {
        let who = who.encode();
        let mut bytes = [0; ANSWER];
        let parts: [&[u8]; 3] = [&[Status::Welcome as u8], &who, &self.proof(b"server", &who)];
        join(&mut bytes, &parts);
        bytes
    }

    /// Reads the server's answer to a claim.
    pub fn read_answer(&self, bytes: &[u8; ANSWER]) -> Result<Who, Status> {
        let (who, proof) = bytes[1..].split_at(Who::BYTES);
        let who: [u8; Who::BYTES] = std::array::from_fn(|i| who[i]);
        match bytes[0] {
            0 if equal(proof, &self.proof(b"server", &who)) => Ok(Who::decode(&who)),
            0 => Err(Status::WrongSecret),
            1 => Err(Status::UnknownMeeting),
            _ => Err(Status::WrongSecret),
        }
    }

    /// Derives the seals of a connection: of the client's packets and of the server's.
    pub fn seals(&self) -> [Seal; 2] {
        [b"packets of the client", b"packets of the server"]
            .map(|role| Seal { key: keyed(&self.secret.0, &[role, self.server, self.client]), number: 0 })
    }
}

/// What a server thinks of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The client may speak.
    Welcome = 0,
    /// No such meeting is expected or in progress.
    UnknownMeeting = 1,
    /// The proof is wrong.
    WrongSecret = 2,
}

/// Returns the answer to a claim that is refused.
pub fn refusal(status: Status) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[0] = status as u8;
    bytes
}

/// A claim as a server reads it, before it is believed.
pub struct Claim {
    pub serial: u64,
    pub client: Nonce,
    who: [u8; Who::BYTES],
    proof: [u8; PROOF],
}

impl Claim {
    /// Reads a claim.
    pub fn read(bytes: &[u8; CLAIM]) -> Claim {
        let mut at = 0;
        let mut take = |bytes_taken: usize| {
            at += bytes_taken;
            &bytes[at - bytes_taken..at]
        };
        let serial = take(8);
        let serial = u64::from_le_bytes(std::array::from_fn(|i| serial[i]));
        let client = take(NONCE);
        let client = std::array::from_fn(|i| client[i]);
        let who = take(Who::BYTES);
        let who = std::array::from_fn(|i| who[i]);
        let proof = take(PROOF);
        Claim { serial, client, who, proof: std::array::from_fn(|i| proof[i]) }
    }

    /// Returns who claims, if the claim proves that it knows the secret.
    pub fn proves(&self, shared: &Shared<'_>) -> Option<Who> {
        equal(&self.proof, &shared.proof(b"client", &self.who)).then(|| Who::decode(&self.who))
    }
}

fn join(bytes: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// Seals the packets of one direction of a connection.
pub struct Seal {
    key: [u8; 32],
    /// The number of the next packet: one that is repeated, left out or moved has a wrong seal.
    number: u64,
}

impl Seal {
    /// Returns the next packet's seal.
    pub fn next(&mut self, packet: &[u8]) -> [u8; SEAL] {
        let whole = keyed(&self.key, &[&self.number.to_le_bytes(), packet]);
        self.number += 1;
        std::array::from_fn(|i| whole[i])
    }

    /// Is this the next packet's seal?
    pub fn fits(&mut self, packet: &[u8], seal: &[u8]) -> bool {
        equal(seal, &self.next(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::HostIdentity;

    fn who(pid: u32) -> Who {
        Who { pid, host: Some(HostIdentity::this(Some("a"))) }
    }

    #[test]
    fn each_end_believes_the_right_secret_and_no_other() {
        let (server, client) = ([1; 32], [2; 32]);
        let (secret, wrong) = (Secret([7; 16]), Secret([8; 16]));
        let shared = |secret| Shared { secret, serial: 5, server: &server, client: &client };
        let claim = Claim::read(&shared(&secret).claim(&who(11)));
        assert_eq!((claim.serial, claim.client), (5, client));
        assert_eq!(claim.proves(&shared(&secret)).map(|who| who.pid), Some(11));
        assert!(claim.proves(&shared(&wrong)).is_none());
        let answer = shared(&secret).answer(&who(12));
        assert_eq!(shared(&secret).read_answer(&answer).map(|who| who.pid), Ok(12));
        assert_eq!(shared(&wrong).read_answer(&answer).err(), Some(Status::WrongSecret));
        assert_eq!(
            shared(&secret).read_answer(&refusal(Status::UnknownMeeting)).err(),
            Some(Status::UnknownMeeting)
        );
        // A proof that was recorded on another connection, whose server has given another nonce.
        let replayed = Shared { server: &[3; 32], ..shared(&secret) };
        assert!(claim.proves(&replayed).is_none());
        assert_eq!(read_challenge(&challenge(&server)), Some(server));
        assert_eq!(read_challenge(&[0; CHALLENGE]), None);
    }

    #[test]
    fn a_claim_that_was_changed_in_any_byte_is_not_believed() {
        let (server, client) = ([1; 32], [2; 32]);
        let secret = Secret([7; 16]);
        let shared = Shared { secret: &secret, serial: 5, server: &server, client: &client };
        let claim = shared.claim(&who(11));
        for at in 0..CLAIM {
            let mut changed = claim;
            changed[at] ^= 1;
            let read = Claim::read(&changed);
            let theirs = Shared { serial: read.serial, client: &read.client, ..shared };
            assert!(read.proves(&theirs).is_none(), "byte {at}");
        }
    }

    #[test]
    fn a_packet_that_is_changed_repeated_or_of_the_other_direction_breaks_its_seal() {
        let shared = Shared { secret: &Secret([7; 16]), serial: 5, server: &[1; 32], client: &[2; 32] };
        let seals = || shared.seals();
        let first = seals()[0].next(b"hello");
        assert!(seals()[0].fits(b"hello", &first));
        assert!(!seals()[0].fits(b"hellp", &first) && !seals()[1].fits(b"hello", &first));
        let mut reader = seals();
        assert!(reader[0].fits(b"hello", &first) && !reader[0].fits(b"hello", &first));
    }
}
