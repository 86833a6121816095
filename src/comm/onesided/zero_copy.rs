//! The sizes from which on peers read and write a rank's buffers where they lie.
//!
//! Peers can reach memory of `pennyMemAlloc` and registered buffers, which spares a copy. But some processors are slow to write lines that
//! another core has read last, and a program writes its inputs anew before each call: there smaller buffers are copied
//! (docs/decisions/0095).

use crate::kernels::hints;
use crate::sys::cpu;
use crate::transport::Transport;

/// The least bytes for which it pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyFrom {
    /// Of a collective, by its whole vector.
    pub calls: usize,
    /// Of a message.
    pub messages: usize,
}

impl ZeroCopyFrom {
    /// Returns what the user asks for, or else what pays on this processor.
    pub fn asked_or_usual(asked: Option<usize>) -> ZeroCopyFrom {
        let limits = hints::limits();
        ZeroCopyFrom {
            calls: asked.unwrap_or(limits.zero_copy_calls),
            messages: asked.unwrap_or(limits.zero_copy_messages),
        }
    }
}

/// Returns the size from which on peers read shared buffers in place instead of getting a copy with the arrival. That
/// takes a second synchronisation, which is expensive where ranks share a core, and wasted on peers of other hosts, which read nothing in place.
pub fn shared_from(transport: &Transport) -> usize {
    if transport.has_far() {
        return usize::MAX;
    }
    let cores = cpu::usable_cores();
    // Launchers give each rank cores of its own.
    let fit = transport.nranks() as usize <= cores || cpu::sharing_cores(transport.processes()) <= cores;
    if fit { 4096 } else { 8 * 1024 + 1 }
}
