//! What a faulty or foreign process may send to a mailbox over a link.

use super::Town;
use crate::memory::view::Payload;
use crate::tests::collectives::hosts::Between;

/// Requests as `mailbox/far.rs` words them: the act, and in the high half the slot.
const CLAIM: u64 = 0;
const FILL: u64 = 1;
const DELIVER: u64 = 2;
const GIVE_BACK: u64 = 3;
/// A letter of thread 0 with one flit.
const LETTER: u64 = 1 << 8;

/// Words the first word of a request about a slot that rank 0 has claimed.
type Act<'a> = &'a dyn Fn(u64) -> u64;

#[test]
fn slots_that_are_not_the_senders_and_letters_that_make_no_sense_are_refused() {
    let claimed = |act: u64| move |slot: u64| act | slot << 32;
    let other = |act: u64| move |slot: u64| act | (slot + 1) << 32;
    let forged: [(&str, Act<'_>, [u64; 2]); 9] = [
        ("a slot that nobody has claimed", &other(DELIVER), [1, LETTER]),
        ("a slot that there is not", &|_| DELIVER | 99 << 32, [1, LETTER]),
        ("a slot that is not its own to give back", &other(GIVE_BACK), [0, 0]),
        ("an empty mask", &claimed(DELIVER), [0, LETTER]),
        ("a thread that there is not", &claimed(DELIVER), [4, LETTER]),
        ("no flits", &claimed(DELIVER), [1, 0]),
        ("too many flits", &claimed(DELIVER), [1, 5 << 8]),
        ("bytes behind the slot", &claimed(FILL), [57, 0]),
        ("another act", &claimed(77), [1, 0]),
    ];
    for (what, act, [first, second]) in forged {
        let town = Town::on_hosts(&[0, 1], Between::Seed(1), &[1, 2], 4, 64);
        let t = &town.transports[0];
        let slot = t.ask_far(1, 7, [CLAIM, 0, 0]).unwrap() - 1;
        let mut bytes = [u64::MAX];
        t.tell_far(1, 7, [act(slot), first, second], Payload::from(&mut bytes[..]), false).unwrap();
        // BOUND: the poller of the town.
        while town.transports[1].check_alarm().is_ok() {
            std::thread::yield_now();
        }
        let e = town.transports[1].check_alarm().unwrap_err();
        assert!(e.message.contains("rank 0 sends to the mailbox of rank 1"), "{what}: {e}");
        assert!((0..2).all(|thread| town.ranks[1].try_recv(thread).unwrap().is_none()), "{what}");
        assert_eq!(town.ranks[1].stats().unwrap().slots_free, 3, "{what}");
    }
}
