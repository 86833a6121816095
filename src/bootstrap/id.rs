//! Unique ids: one door for each process that makes them, however many it makes.
//!
//! An id that is never used costs a line in a bounded book. The first id opens the door (a listening socket and its
//! thread); they go when no id is outstanding.

use std::sync::Arc;

use super::UniqueId;
use super::client::Invitation;
use super::expected_meetings::ExpectedMeetings;
use super::frame::Secret;
use super::server;
use crate::error::{Error, Result};
use crate::hash::fnv64;
use crate::sync::lock::Mutex;
use crate::sys::process::random;

/// Ids that one process can have outstanding; the eldest is forgotten for the next.
const MOST_OUTSTANDING: usize = 4096;

const MAGIC: [u8; 8] = *b"PENNYid\x01";

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

/// Decodes an id. `Err` if it is damaged.
pub fn decode(id: &UniqueId) -> Result<Invitation> {
    let field = |from: usize, len: usize| &id.0[from..from + len];
    if field(0, 8) != MAGIC {
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
    Ok(Invitation {
        name: name(&sixteen(32)),
        serial: u64::from_le_bytes(std::array::from_fn(|i| id.0[8 + i])),
        secret: Secret(sixteen(16)),
        creator: Some(u32::from_le_bytes(std::array::from_fn(|i| id.0[48 + i]))),
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
        assert!((&ta.name, ta.serial) != (&tb.name, tb.serial));
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
