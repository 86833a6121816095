//! Frames that are held back until others go to the same peer.

use super::polling::PATIENCE;
use super::testing::{Unattended, carriers};
use super::{Frame, Incoming, Link, NetLink};
use crate::sys::cpu;
use crate::transport::link::{Body, TakenLine};

fn taken(number: u64, may_wait: bool) -> Frame<'static> {
    let line = TakenLine { taken: number, refused: 0, refused_args: [0; 2], may_wait };
    Frame { from: 0, number, body: Body::Taken(line) }
}

fn poll(link: &NetLink) {
    link.poll(&mut |_| ()).unwrap();
}

#[test]
fn words_that_may_wait_travel_with_the_next_frame_and_go_by_themselves_after_some_polls() {
    for carrier in carriers() {
        let Unattended { links, .. } = Unattended::new(&[0, 1], carrier);
        let [sender, receiver] = [&links[0], &links[1]];
        let mut come = Vec::new();
        let mut take = |upto: usize| {
            // BOUND: what was sent.
            while come.len() < upto {
                poll(sender);
                receiver
                    .poll(&mut |event| match event {
                        Incoming::Frame(Frame { number, .. }) => come.push(number),
                        _ => panic!("another event"),
                    })
                    .unwrap();
                cpu::yield_now();
            }
        };
        sender.post(1, taken(0, false)).unwrap();
        assert_eq!(sender.held_for(1), 0, "the sender waits for these");
        sender.post(1, taken(1, true)).unwrap();
        sender.post(1, taken(2, true)).unwrap();
        let words = sender.held_for(1);
        for _ in 0..PATIENCE {
            poll(sender);
            assert_eq!(sender.held_for(1), words);
        }
        assert!(words > 0 && sender.may_sleep().is_none(), "nobody sleeps on what is held back");
        poll(sender);
        assert_eq!(sender.held_for(1), 0);
        sender.post(1, taken(3, true)).unwrap();
        sender.post(1, taken(4, false)).unwrap();
        assert_eq!(sender.held_for(1), 0);
        // What the next poll sends takes the others with it.
        sender.post(1, taken(5, true)).unwrap();
        sender.post(1, Frame { from: 0, number: 6, body: Body::Counter(1) }).unwrap();
        poll(sender);
        assert_eq!(sender.held_for(1), 0);
        take(7);
        assert_eq!(come, Vec::from_iter(0..7));
    }
}
