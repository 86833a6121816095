//! A process that takes part in a meeting, as sentences name it.

use crate::sys::host::{self, HostIdentity};
use std::fmt;

/// A process and where it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// The process, as its own host numbers it; 0: not known.
    pub pid: u32,
    /// Its host; `None`: this one, and sentences need not say so.
    pub host: Option<HostIdentity>,
}

impl Who {
    /// The bytes of a process on a host.
    pub const BYTES: usize = 4 + 16 + host::NAME_BYTES;

    /// Returns a process of this host.
    pub fn here(pid: u32) -> Who {
        Who { pid, host: None }
    }

    /// Returns this process, as other hosts know it.
    pub fn this(host: HostIdentity) -> Who {
        Who { pid: std::process::id(), host: Some(host) }
    }

    /// Returns the process as it goes over a network.
    pub fn encode(&self) -> [u8; Who::BYTES] {
        let host = self.host.unwrap_or_else(|| HostIdentity::this(None)).encode();
        let pid = self.pid.to_le_bytes();
        std::array::from_fn(|i| if i < 4 { pid[i] } else { host[i - 4] })
    }

    /// Reads what [`encode`](Self::encode) returns.
    pub fn decode(bytes: &[u8; Who::BYTES]) -> Who {
        let pid = u32::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        Who { pid, host: Some(HostIdentity::decode(&std::array::from_fn(|i| bytes[4 + i]))) }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            None => write!(f, "PID {}", self.pid),
            Some(host) => write!(f, "PID {} on {}", self.pid, host.name()),
        }
    }
}
