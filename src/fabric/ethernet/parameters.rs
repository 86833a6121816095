//! What a link and the software at its ends cost.

use crate::error::{Error, Result};
use crate::topology::{Class, EthernetCore, Handover, MoverSpec};

/// The parameters of one link. Times are picoseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The wire: its rate, its framing, and the latency of the Ethernet subsystem.
    pub wire: Class,
    /// The cores at its ends, and their queues.
    pub core: EthernetCore,
    /// Workers are told of payloads, and read them; their buffers are free after that.
    pub pull: bool,
}

impl Parameters {
    /// Returns the parameters of a Wormhole chip with this wire.
    pub fn wormhole(wire: Class) -> Parameters {
        Parameters { wire, core: EthernetCore::wormhole(), pull: false }
    }

    /// Returns the parameters of a link of this class, if a mover serves it.
    pub fn of_mover(class: &Class, mover: &MoverSpec) -> Parameters {
        Parameters { wire: class.clone(), core: mover.core, pull: mover.receiver == Handover::Pull }
    }

    /// Returns how many channels fit in one direction, if each buffers one payload of `bytes` bytes and its signal.
    pub fn room_for(&self, bytes: u64) -> u32 {
        let fit = self.core.buffer_bytes / bytes.saturating_add(self.core.align);
        u32::try_from(fit).map_or(self.core.channels, |fit| fit.min(self.core.channels))
    }

    /// Refuses what no buffer can hold.
    pub fn check_payload(&self, bytes: u64) -> Result<()> {
        let align = self.core.align;
        if bytes == 0 || !bytes.is_multiple_of(align) {
            let next = bytes.max(1).checked_next_multiple_of(align).unwrap_or(align);
            return Err(Error::argument(format!(
                "a payload of {bytes} B is not whole words of {align} B; make it {next} B"
            )));
        }
        match self.room_for(bytes) {
            0 => Err(Error::argument(format!(
                "a payload of {bytes} B has no room in {} B of buffers; make it at most {} B",
                self.core.buffer_bytes,
                (self.core.buffer_bytes / align * align).saturating_sub(align)
            ))),
            _ => Ok(()),
        }
    }

    /// A payload's way over the chip.
    pub fn on_chip(&self, bytes: u64) -> u64 {
        let ps = (bytes as u128 * 1_000_000_000_000).div_ceil(self.core.on_chip_rate as u128);
        self.core.on_chip_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Returns the time for which a worker reads a payload that it was told of.
    pub fn read(&self, bytes: u64) -> u64 {
        if self.pull { self.core.on_chip_ps.saturating_mul(2).saturating_add(self.on_chip(bytes)) } else { 0 }
    }
}
