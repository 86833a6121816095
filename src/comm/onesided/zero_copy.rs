//! The sizes from which on peers read and write a rank's buffers where they lie.
//!
//! Peers can reach memory of `pennyMemAlloc` and registered buffers, which spares a copy. But some processors are slow to write lines that
//! another core has read last, and a program writes its inputs anew before each call: there smaller buffers are copied
//! (docs/decisions/0095).

use crate::kernels::hints;
use crate::sys::cpu;
use crate::transport::Transport;

/// Returns what the user asks for, or else what pays on this processor, for the whole vector of a call and for a message.
pub fn asked_or_usual(asked: Option<usize>) -> usize {
    asked.unwrap_or(hints::limits().zero_copy_from)
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
