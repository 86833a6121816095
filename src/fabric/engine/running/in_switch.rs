//! Messages that a switch copies or sums.
//!
//! ```text
//!     copies   the first of them takes the port to the switch, the others leave with it     g0.tx [--] > g1.rx [--], g2.rx [--]
//!     sums     all but the last wait in the switch; the last takes the port from it for all   g1.tx [--]
//!                                                                                             g2.tx   [--] > g0.rx   [--]
//! ```
//!
//! The copies of a slice are posted at one moment, since credits do not count for them. A sum's last byte leaves the switch
//! no earlier than that of each of its parts has come.

use super::{NONE, Program, ProgramStep, Running, Served, StepMessage};
use crate::error::Result;
use crate::fabric::engine::program::Send;
use crate::fabric::engine::queue::Queue;
use std::collections::HashMap;

/// What is known of messages that a switch makes one of, by step and slice: the sender's of copies, the receiver's of sums.
#[derive(Clone, Default)]
pub(super) struct Joined {
    /// How the first copy left, and how many others are still to leave.
    copies: HashMap<(u32, u32), (Served, u32)>,
    /// Parts that have not come yet, and before when the last byte of those that have come cannot leave the switch.
    sums: HashMap<(u32, u32), (u32, u64)>,
}

impl Joined {
    /// Returns how a message left its first port whose copy has left already.
    pub fn copy_of(&mut self, program: &Program, message: &StepMessage) -> Option<Served> {
        if !program.sends[message.send as usize].copied() {
            return None;
        }
        let key = (message.step, message.slice);
        let (served, left) = self.copies.get_mut(&key)?;
        let served = *served;
        *left -= 1;
        if *left == 0 {
            self.copies.remove(&key);
        }
        Some(served)
    }

    /// Notes how the first of a step's copies left.
    pub fn leaves(&mut self, program: &Program, message: &StepMessage, served: Served) {
        let others = program.sends_of(message.step).filter(|send| send.copied()).count() as u32 - 1;
        if others > 0 {
            self.copies.insert((message.step, message.slice), (served, others));
        }
    }

    /// A part of a sum is at the switch. If it is the last, returns before when the sum's last byte cannot leave.
    pub fn sum(&mut self, program: &Program, message: &StepMessage) -> Option<u64> {
        let step = program.operands[program.sends[message.send as usize].operand() as usize].step;
        let parts = || program.operands[program.arrivals(step)].iter().filter(|operand| operand.summed());
        let key = (step, message.slice);
        let (left, tail_ps) = self.sums.entry(key).or_insert_with(|| (parts().count() as u32, 0));
        *left -= 1;
        *tail_ps = message.tail_ps.max(*tail_ps);
        if *left > 0 {
            return None;
        }
        self.sums.remove(&key).map(|(_, tail_ps)| tail_ps)
    }
}

impl Running {
    /// A message waits in the switch for others, and arrives with the last of them.
    pub(super) fn is_taken_up(&mut self, who: u32) -> u32 {
        self.vacate(who);
        NONE
    }

    /// A sum arrives: all its parts are there.
    pub(super) fn sum_arrives(&mut self, operand: u32, now_ps: u64, queue: &mut Queue) -> Result<u32> {
        let id = self.program.operands[operand as usize].step;
        let ProgramStep { rank, next, .. } = self.program.steps[id as usize];
        let mut parts = 0;
        for number in self.program.arrivals(id) {
            let operand = &mut self.program.operands[number];
            if !operand.summed() {
                continue;
            }
            operand.arrived += 1;
            parts += 1;
            if operand.arrived == next + 1 {
                self.program.steps[id as usize].missing -= 1;
            }
            let connection = self.program.sends[operand.send() as usize].connection;
            self.give_back(connection, now_ps, queue)?;
        }
        self.advance(id, now_ps, queue)?;
        // Each part was one of the rank's tasks; it has finished with the last of all.
        Ok((0..parts).map(|_| self.did(rank, now_ps)).last().unwrap_or(NONE))
    }
}

impl Program {
    /// The operands of a step that arrive.
    pub(super) fn arrivals(&self, step: u32) -> std::ops::Range<usize> {
        let step = &self.steps[step as usize];
        step.first_operand as usize..(step.first_operand + step.operands) as usize
    }

    /// The messages that a step sends for each slice.
    fn sends_of(&self, step: u32) -> impl Iterator<Item = &Send> {
        let step = &self.steps[step as usize];
        self.sends[step.first_send as usize..(step.first_send + step.sends) as usize].iter()
    }
}
