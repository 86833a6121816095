//! The programs of the two ranks of an exchange, independent of the kernel that runs them.
//!
//! ```text
//!     slots 2, waves 5         slot 0    wave 0 --------> wave 2 --------> wave 4 ---->
//!                              slot 1    wave 1 --------> wave 3 -------->
//!                                                 ^ the peer's wave of this slot has arrived
//! ```
//!
//! A wave is the data that all concurrent blocks of a kernel put to the peer. Its slot is free for the next wave when the peer's
//! wave has arrived, because a block ends by taking the data that it waited for.

use penny::Rank;
use penny::sim::plan::{Chunk, Operand, Plan};

/// How a buffer is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    /// The number of waves.
    pub number: u32,
    /// The number of waves in flight at once.
    pub slots: u32,
    /// The bytes of a wave in one direction.
    pub bytes: u64,
}

impl Waves {
    /// Divides `bytes` bytes into equal waves of at most `most` bytes each, rounded up.
    pub fn of(bytes: u64, most: u64, slots: u32) -> Result<Waves, String> {
        let number = bytes.div_ceil(most.max(1)).max(1);
        let number = u32::try_from(number).map_err(|_| {
            format!("{bytes} B in waves of {most} B are more waves than can be counted; make --wave larger")
        })?;
        Ok(Waves { number, slots: slots.min(number), bytes: bytes.div_ceil(u64::from(number)) })
    }

    /// Returns the plan of one of the two ranks. Each part of the block uses one slot.
    pub fn plan(&self, peer: Rank) -> Plan {
        let mut plan = Plan::new(self.slots);
        let slot = |wave: u32| Chunk::part(wave % self.slots);
        for wave in 0..self.number {
            if wave < self.slots {
                plan.send(peer, slot(wave));
            } else {
                plan.relay(peer, slot(wave), peer);
            }
        }
        for wave in self.number - self.slots..self.number {
            plan.recv_reduce(vec![Operand::From(peer)], slot(wave));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_cover_the_buffer_and_none_is_too_large() {
        for (bytes, most, slots) in [(1, 100, 2), (100, 100, 2), (101, 100, 2), (1000, 7, 3), (0, 7, 3)] {
            let waves = Waves::of(bytes, most, slots).unwrap();
            let all = u64::from(waves.number) * waves.bytes;
            assert!(waves.bytes <= most && all >= bytes && all - bytes < u64::from(waves.number).max(1));
            assert!(waves.slots <= slots.min(waves.number));
        }
        assert!(Waves::of(u64::MAX, 1, 2).unwrap_err().contains("--wave"));
    }

    #[test]
    fn every_wave_is_sent_and_taken_once_and_waits_for_the_one_before_it_in_its_slot() {
        let waves = Waves { number: 5, slots: 2, bytes: 10 };
        let plan = waves.plan(1);
        let takes = |from: usize| plan.steps[from].operands == [Operand::From(1)];
        assert_eq!(plan.steps.iter().filter(|step| step.to == [1]).count(), 5);
        assert_eq!((0..7).filter(|&step| takes(step)).count(), 5);
        assert!(!takes(0) && !takes(1) && (2..7).all(takes));
        assert_eq!(plan.steps.iter().map(|step| step.chunk.part).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0]);
    }
}
