//! What the next events need is fetched while the present one is handled.
//!
//! ```text
//!     events of one moment    now    +3    +6     +10    +14       +19    +24
//!     at a port                                          port      hop    message
//!     at its reader                  way   send   step   operand   send   message
//! ```
//!
//! Calls of many ranks have tables of hundreds of megabytes, of which each event touches a few places that lead to each other.
//! Thousands of events are of one moment, and each of these takes a step of its chain at a time: the cache fetches for several of
//! them at once. An event takes less time than a look into memory, so that there are some events between two steps of a chain.

use super::{ENTRY, HEAD, Queue, Running, StepMessage};
use crate::fabric::engine::port::PortQueue;
use crate::fabric::engine::program::{ProgramStep, Send};
use crate::sys::cache::fetch;

/// Messages from which on the tables are larger than a cache.
pub(super) const MANY: usize = 1 << 13;

impl Running {
    /// Asks for what the next events of the present time need.
    #[inline]
    pub fn look_ahead(&self, queue: &Queue, ports: &[PortQueue]) {
        if self.is_large && queue.ahead(1).is_some() {
            self.fetch(queue, ports);
        }
    }

    fn fetch(&self, queue: &Queue, ports: &[PortQueue]) {
        let program = &self.program;
        let message = |count| -> Option<&StepMessage> {
            let event = queue.ahead(count)?;
            let is_own = event.call & !HEAD == self.number && event.who & ENTRY == 0;
            if is_own { self.messages.get(event.who as usize) } else { None }
        };
        let port = |message: &StepMessage| ports.get(program.hops.get(message.hop as usize)?.port as usize);
        let send = |message: &StepMessage| program.sends.get(message.send as usize);
        let operand = |message: &StepMessage| program.operands.get(send(message)?.operand() as usize);
        let step = |message: &StepMessage| program.steps.get(operand(message)?.step as usize);
        let next = |message: &StepMessage| -> Option<&Send> {
            let ProgramStep { first_send, sends, .. } = step(message)?;
            if *sends > 0 { program.sends.get(*first_send as usize) } else { None }
        };
        message(24).inspect(|&message| fetch(message));
        if let Some(message) = message(19) {
            match message.left {
                0 => send(message).inspect(|&send| fetch(send)).is_some(),
                _ => program.hops.get(message.hop as usize).inspect(|&hop| fetch(hop)).is_some(),
            };
        }
        if let Some(message) = message(14) {
            match message.left {
                0 => operand(message).inspect(|&operand| fetch(operand)).is_some(),
                _ => port(message).inspect(|&port| fetch(port)).is_some(),
            };
        }
        let arriving = |count| message(count).filter(|message| message.left == 0);
        arriving(10).and_then(step).inspect(|&step| fetch(step));
        arriving(6).and_then(next).inspect(|&send| fetch(send));
        let way = |send: &Send| program.connections.get(send.connection as usize);
        arriving(3).and_then(next).and_then(way).inspect(|&way| fetch(way));
    }
}
