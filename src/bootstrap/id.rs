//! Unique ids: one door for each process that makes them, however many it makes.
//!
//! An id that is never used costs a line in a bounded book. The first id opens the door (a listening socket and its
//! thread); they go when no id is outstanding.

use std::net::IpAddr;
use std::sync::Arc;

use super::UniqueId;
use super::expected_meetings::ExpectedMeetings;
use super::frame::Secret;
use super::invitation::{Door as MeetingDoor, Invitation};
use super::launcher;
use super::network::door::NetworkDoor;
use super::network::place::{self, MOST as MOST_ADDRESSES, ServedMeeting};
use super::server;
use crate::error::{Error, Result};
use crate::hash::fnv64;
use crate::sync::lock::Mutex;
use crate::sys::process::random;

/// Ids that one process can have outstanding; the eldest is forgotten for the next.
const MOST_OUTSTANDING: usize = 4096;

const MAGIC: [u8; 8] = *b"PENNYid\x01";
/// The first bytes of an id whose ranks may be on several hosts.
const HOSTS_MAGIC: [u8; 8] = *b"PENNYid\x02";

/// Bytes of an address in an id.
const ADDRESS: usize = 17;

/// The door of this process.
struct Door {
    pid: u32,
    key: [u8; 16],
    expected_meetings: Arc<Mutex<ExpectedMeetings>>,
}

static DOOR: Mutex<Option<Door>> = Mutex::new(None);

/// Returns the abstract name of the door with this key.
fn name(key: &[u8; 16]) -> Vec<u8> {
    format!("penny/id/{:032x}", u128::from_be_bytes(*key)).into_bytes()
}

/// Makes an id; this process serves the meeting of the ranks that show it.
pub fn create_id() -> Result<UniqueId> {
    let secret = Secret(random());
    if place::is_asked_for() || launcher::tells_of_several_hosts() && !place::is_off() {
        return create_id_for_hosts();
    }
    let mut door = DOOR.lock();
    // The thread of a door that was open before a fork serves the parent only.
    if let Some(open) = door.as_ref().filter(|d| d.pid == std::process::id())
        && let Some(serial) = open.expected_meetings.lock().expect(secret, None, MOST_OUTSTANDING)
    {
        return Ok(encode(open, serial, &secret));
    }
    let key = random();
    let expected_meetings = server::start(&name(&key), secret, None)
        .map_err(|e| Error::system(format!("a unique id needs a listening socket and a thread: {e}")))?;
    let opened = door.insert(Door { pid: std::process::id(), key, expected_meetings });
    Ok(encode(opened, 0, &secret))
}

/// ```text
///     0 magic   8 serial   16 secret   32 door's key   48 creator's PID   52 zero   120 checksum of what is before
/// ```
fn encode(door: &Door, serial: u64, secret: &Secret) -> UniqueId {
    let mut id = [0u8; 128];
    id[..8].copy_from_slice(&MAGIC);
    id[8..16].copy_from_slice(&serial.to_le_bytes());
    id[16..32].copy_from_slice(&secret.0);
    id[32..48].copy_from_slice(&door.key);
    id[48..52].copy_from_slice(&door.pid.to_le_bytes());
    let sum = checksum(&id);
    id[120..].copy_from_slice(&sum);
    UniqueId(id)
}

/// Makes an id for ranks that may be on several hosts; this process serves their meeting over TCP.
pub fn create_id_for_hosts() -> Result<UniqueId> {
    if place::is_off() {
        return Err(Error::usage(
            "an id for ranks on several hosts is wanted, but PENNY_NET is `off`; unset it, or start all ranks on one host",
        ));
    }
    let secret = Secret(random());
    Ok(encode_for_hosts(&place::expect(secret)?, &secret))
}

/// ```text
///     0 magic   8 serial   16 secret   32 port   34 addresses, at most 3: family 4 or 6, then 16 bytes   88 creator's PID
///     92 zero   120 checksum of what is before
/// ```
fn encode_for_hosts(served: &ServedMeeting, secret: &Secret) -> UniqueId {
    let mut id = [0u8; 128];
    id[..8].copy_from_slice(&HOSTS_MAGIC);
    id[8..16].copy_from_slice(&served.serial.to_le_bytes());
    id[16..32].copy_from_slice(&secret.0);
    id[32..34].copy_from_slice(&served.port.to_le_bytes());
    for (at, address) in served.addresses.iter().take(MOST_ADDRESSES).enumerate() {
        let place = &mut id[34 + at * ADDRESS..][..ADDRESS];
        match address {
            IpAddr::V4(v4) => {
                place[0] = 4;
                place[1..5].copy_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                place[0] = 6;
                place[1..].copy_from_slice(&v6.octets());
            }
        }
    }
    id[88..92].copy_from_slice(&std::process::id().to_le_bytes());
    let sum = checksum(&id);
    id[120..].copy_from_slice(&sum);
    UniqueId(id)
}

/// Reads the addresses of an id for several hosts.
fn addresses(id: &UniqueId) -> Vec<IpAddr> {
    let places = id.0[34..].chunks_exact(ADDRESS).take(MOST_ADDRESSES);
    let read = |place: &[u8]| {
        let v6: [u8; 16] = std::array::from_fn(|i| place[1 + i]);
        match place[0] {
            4 => Some(IpAddr::from([v6[0], v6[1], v6[2], v6[3]])),
            6 => Some(IpAddr::from(v6)),
            _ => None,
        }
    };
    places.filter_map(read).collect()
}

/// Is the id for ranks of several hosts?
pub fn is_of_hosts(id: &UniqueId) -> bool {
    id.0.starts_with(&HOSTS_MAGIC)
}

/// Decodes an id. `Err` if it is damaged.
pub fn decode(id: &UniqueId) -> Result<Invitation> {
    let field = |from: usize, len: usize| &id.0[from..from + len];
    if field(0, 8) != MAGIC && field(0, 8) != HOSTS_MAGIC {
        return Err(Error::argument(
            "the unique id was not made by this version's pennyGetUniqueId; make it on one rank and hand all 128 \
             bytes to the others",
        ));
    }
    if field(120, 8) != checksum(&id.0) {
        return Err(Error::argument(
            "the unique id is damaged; hand all 128 bytes from the rank that made it to the others",
        ));
    }
    let sixteen = |from: usize| std::array::from_fn(|i| id.0[from + i]);
    let four = |from: usize| u32::from_le_bytes(std::array::from_fn(|i| id.0[from + i]));
    let (of_hosts, port) = (is_of_hosts(id), u16::from_le_bytes([id.0[32], id.0[33]]));
    let door = match of_hosts {
        false => MeetingDoor::Local(name(&sixteen(32))),
        true if place::is_off() => {
            return Err(Error::usage(
                "the unique id is for ranks on several hosts, but PENNY_NET is `off`; unset it, or set it to a provider such as tcp",
            ));
        }
        true => {
            let door = NetworkDoor::of_addresses(&addresses(id), port, place::silence()?);
            MeetingDoor::Network { door, host: place::this_host() }
        }
    };
    Ok(Invitation {
        door,
        serial: u64::from_le_bytes(std::array::from_fn(|i| id.0[8 + i])),
        secret: Secret(sixteen(16)),
        creator: Some(four(if of_hosts { 88 } else { 48 })),
    })
}

/// FNV-1a of the first 120 bytes: finds ids that lost bytes on their way.
fn checksum(id: &[u8; 128]) -> [u8; 8] {
    fnv64(&id[..120]).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use crate::bootstrap::id::*;
    use crate::error::Code;

    #[test]
    fn ids_of_one_process_share_a_door_and_differ_in_secret_and_serial() {
        let (a, b) = (create_id().unwrap(), create_id().unwrap());
        let (ta, tb) = (decode(&a).unwrap(), decode(&b).unwrap());
        assert_ne!(ta.secret.0, tb.secret.0);
        assert_ne!(ta.serial, tb.serial);
        assert_eq!(ta.creator, Some(std::process::id()));
    }

    #[test]
    fn an_id_that_lost_bytes_is_refused_wherever_they_were() {
        let id = create_id().unwrap();
        for at in 0..128 {
            let mut damaged = id;
            damaged.0[at] ^= 0x40;
            assert_eq!(decode(&damaged).err().unwrap().code, Code::InvalidArgument, "byte {at}");
        }
        assert_eq!(decode(&UniqueId([0; 128])).err().unwrap().code, Code::InvalidArgument);
    }
}
