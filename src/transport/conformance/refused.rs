//! What comes of a message that its receiver has refused, and of those behind it.

use super::{Finding, Wiring, World, pattern, text};
use crate::error::Error;
use crate::memory::control::{PAIR_SLOT, PAIR_SLOTS};
use crate::memory::view::Payload;
use crate::transport::Transport;
use crate::transport::pair::{PairTransfer, Pairs};
use crate::types::DataType;

/// Sends or receives words. True if the receiver refuses them.
fn transfer(t: &Transport, pairs: &mut Pairs, send: bool, words: &mut [u64]) -> Result<bool, String> {
    let count = words.len();
    let data = Payload::from(&mut words[..]);
    let mut transfer = PairTransfer::new(send, 1 - t.rank(), data, DataType::Uint64, count, None);
    // BOUND: the deadline.
    let deadline_ns = t.deadline();
    let mut refused = None;
    let advance = || {
        refused = Some(transfer.advance(t, pairs, true).map(|error| error.is_some()));
        transfer.done || matches!(refused, Some(Err(_) | Ok(true)))
    };
    let expired = || Error::timeout("a message did not come");
    t.wait_watching(deadline_ns, advance, || t.check_abort(), expired).map_err(text)?;
    refused.unwrap_or(Ok(false)).map_err(text)
}

pub(super) fn the_end_of_a_refused_message_harms_no_later_one(wiring: Wiring) -> Finding {
    // More than a slot: its end goes by a message. Then some until the slot of that end has its turn, and one that is written there.
    let (refused, behind, last) = (PAIR_SLOT / 8 + 12, PAIR_SLOTS - 1, 1200);
    World::new(2, wiring).run(|t| {
        let mut pairs = Pairs::new(2);
        for round in 0..100 {
            if t.rank() == 0 {
                transfer(t, &mut pairs, true, &mut pattern(round, refused))?;
                for number in 0..behind {
                    transfer(t, &mut pairs, true, &mut [number as u64])?;
                }
                transfer(t, &mut pairs, true, &mut pattern(round, last))?;
                transfer(t, &mut pairs, false, &mut [0])?;
                continue;
            }
            if !transfer(t, &mut pairs, false, &mut [0; 5])? {
                return Err("a message of another length was taken".into());
            }
            // It has no look at what comes meanwhile.
            std::thread::sleep(std::time::Duration::from_micros(round * 8));
            for number in 0..behind {
                let mut word = [u64::MAX];
                transfer(t, &mut pairs, false, &mut word)?;
                if word != [number as u64] {
                    return Err(format!("message {number} of round {round} was overwritten"));
                }
            }
            let mut words = vec![0; last];
            transfer(t, &mut pairs, false, &mut words)?;
            if words != pattern(round, last) {
                return Err(format!("the last message of round {round} was overwritten"));
            }
            transfer(t, &mut pairs, true, &mut [0])?;
        }
        Ok(())
    })
}
