//! What a link and the software at its ends cost.

use crate::error::{Error, Result};
use crate::topology::{Class, EthernetCore, Handover, MoverSpec};

/// Times are picoseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The wire: its rate, its framing, and the latency of the Ethernet subsystem.
    pub wire: Class,
    /// A core writes a command into a transaction queue.
    pub issue_ps: u64,
    /// A core sees that a word has changed, and acts on it.
    pub look_ps: u64,
    /// From the core of one link to the core of the next, for the first byte.
    pub on_chip_ps: u64,
    /// Bytes a second on that way.
    pub on_chip_rate: u64,
    /// Transaction queues a core: 1 or 2.
    pub queues: u32,
    /// Commands that a queue holds.
    pub queue_commands: u32,
    /// The most channels in one direction.
    pub channels: u32,
    /// Room for the buffers of all channels of one direction.
    pub buffer_bytes: u64,
    /// Sizes are multiples of it, and a signal is one of it.
    pub align: u64,
    /// Workers are told of payloads, and read them; their buffers are free after that.
    pub pull: bool,
}

impl Parameters {
    /// Returns the parameters of a Wormhole chip with this wire.
    pub fn wormhole(wire: Class) -> Parameters {
        Parameters::new(wire, &EthernetCore::wormhole())
    }

    /// Returns the parameters of a link of this class, if a mover serves it.
    pub fn of_mover(class: &Class, mover: &MoverSpec) -> Parameters {
        Parameters { pull: mover.receiver == Handover::Pull, ..Parameters::new(class.clone(), &mover.core) }
    }

    fn new(wire: Class, core: &EthernetCore) -> Parameters {
        let EthernetCore { issue_ps, look_ps, on_chip_ps, on_chip_rate, queues, queue_commands, .. } = *core;
        let EthernetCore { channels, buffer_bytes, align, .. } = *core;
        Parameters {
            wire,
            issue_ps,
            look_ps,
            on_chip_ps,
            on_chip_rate,
            queues,
            queue_commands,
            channels,
            buffer_bytes,
            align,
            pull: false,
        }
    }

    /// Returns how many channels fit in one direction, if each buffers one payload of `bytes` bytes and its signal.
    pub fn room_for(&self, bytes: u64) -> u32 {
        let fit = self.buffer_bytes / bytes.saturating_add(self.align);
        u32::try_from(fit).map_or(self.channels, |fit| fit.min(self.channels))
    }

    /// Refuses what no buffer can hold.
    pub fn check_payload(&self, bytes: u64) -> Result<()> {
        let Parameters { align, .. } = *self;
        if bytes == 0 || !bytes.is_multiple_of(align) {
            let next = bytes.max(1).checked_next_multiple_of(align).unwrap_or(align);
            return Err(Error::argument(format!(
                "a payload of {bytes} B is not whole words of {align} B; make it {next} B"
            )));
        }
        match self.room_for(bytes) {
            0 => Err(Error::argument(format!(
                "a payload of {bytes} B has no room in {} B of buffers; make it at most {} B",
                self.buffer_bytes,
                (self.buffer_bytes / align * align).saturating_sub(align)
            ))),
            _ => Ok(()),
        }
    }

    /// A payload's way over the chip.
    pub fn on_chip(&self, bytes: u64) -> u64 {
        let ps = (bytes as u128 * 1_000_000_000_000).div_ceil(self.on_chip_rate as u128);
        self.on_chip_ps.saturating_add(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Returns the time for which a worker reads a payload that it was told of.
    pub fn read(&self, bytes: u64) -> u64 {
        if self.pull { self.on_chip_ps.saturating_mul(2).saturating_add(self.on_chip(bytes)) } else { 0 }
    }
}
