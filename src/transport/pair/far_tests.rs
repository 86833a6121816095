//! What a receiver says of the slots that it has taken, and when its sender may be told later.

use super::*;
use crate::error::Result;
use crate::memory::view::Payload;
use crate::transport::far::Far;
use crate::transport::in_process::{connected, controls};
use crate::transport::link::{Frame, Incoming, Link};
use crate::transport::pair::{PairTransfer, Pairs};
use crate::types::DataType;
use std::sync::{Arc, Mutex};

const SLOT: usize = 32 << 10;

/// A link that notes how many slots were said to be taken, and whether that may wait.
struct Noted(Arc<Mutex<Vec<(u64, bool)>>>);

impl Link for Noted {
    fn post(&self, _: Rank, frame: Frame<'_>) -> Result<()> {
        if let Body::Taken(TakenLine { taken, may_wait, .. }) = frame.body {
            self.0.lock().unwrap().push((taken, may_wait));
        }
        Ok(())
    }
    fn poll(&self, _: &mut dyn FnMut(Incoming<'_>)) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_sender_that_has_no_room_or_is_within_a_message_is_told_at_once() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let controls = controls(&[0, 1]);
    let mirror = Arc::new(Lines::private(controls[1].layout(), 0).unwrap());
    let ranks = connected(&[0, 1], &controls, 60_000, |rank, far| {
        Far::new(&controls[rank as usize], rank, far, mirror.clone(), Box::new(Noted(said.clone()))).unwrap()
    });
    let (t, mut pairs) = (&ranks[1], Pairs::new(2));
    let mut buffer = vec![0u64; 6 * SLOT / 8];
    let mut slots = 0;
    let mut receive = |sent: u64, bytes: usize, messages: u64| {
        for index in slots..slots + sent {
            let (args, count) = (DataType::Uint8 as u64, bytes as u64);
            let body = Body::Piece { index, args, count, bytes: Payload::EMPTY };
            message_frame(&mirror, &controls[1], 1, 0, body);
        }
        slots += sent;
        for _ in 0..messages {
            let into = Payload::from(&mut buffer[..]).part(0, bytes);
            let mut half = PairTransfer::new(false, 0, into, DataType::Uint8, bytes, None);
            assert!(half.advance(t, &mut pairs, true).unwrap().is_none());
        }
        std::mem::take(&mut *said.lock().unwrap())
    };
    assert_eq!(receive(4, 8, 4), [(4, true)], "it can send four more");
    assert_eq!(receive(8, 8, 8), [(8, false), (12, true)], "it had filled all that it knew to be free");
    assert_eq!(receive(5, 5 * SLOT, 1), [(16, false)], "it goes on with the message");
    assert_eq!(receive(3, 3 * SLOT, 1), [(20, true)]);
}
