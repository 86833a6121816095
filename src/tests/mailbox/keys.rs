//! Messages by key.

use super::{SHORT_MS, Town, read, write};
use crate::error::Code;
use crate::mailbox::KeyEntry;

fn entry(dest: i32, mask: u64, local_key: u32) -> KeyEntry {
    KeyEntry { dest, mask, local_key }
}

#[test]
fn one_send_by_a_key_comes_to_all_its_mailboxes_with_their_own_local_keys() {
    for town in Town::everywhere(&[4, 4, 4], 8, 64) {
        let boxes = &town.ranks[1];
        let list = [entry(2, 0b0011, 20), entry(0, 0b1000, 7), entry(2, 0b0100, 21), entry(1, 0b0001, 1)];
        let key = boxes.key_create(&list).unwrap();
        let slot = boxes.send_slot(3).unwrap();
        write(slot, &[42]);
        boxes.key_send(key, slot).unwrap();
        for (dest, thread, local_key) in [(0, 3, 7), (1, 0, 1), (2, 0, 20), (2, 1, 20), (2, 2, 21)] {
            let message = town.ranks[dest].recv(thread).unwrap();
            assert_eq!((message.local_key, message.source_rank, message.source_thread), (local_key, 1, 3));
            assert_eq!(read::<1>(&message), [42]);
            town.ranks[dest].free(thread, message.data).unwrap();
        }
        for rank in &town.ranks {
            assert_eq!(rank.stats().unwrap().slots_free, 8);
            assert!((0..4).all(|thread| rank.try_recv(thread).unwrap().is_none()));
        }
        boxes.key_destroy(key).unwrap();
        for e in [boxes.key_send(key, slot).unwrap_err(), boxes.key_destroy(key).unwrap_err()] {
            assert!(e.message.contains("is no key of this mailbox"), "{e}");
        }
        let another = boxes.key_create(&list).unwrap();
        assert_ne!(another, key);
        assert!(boxes.key_send(key, slot).is_err(), "a stale key is refused where its place is used again");
    }
}

#[test]
fn a_key_with_one_full_mailbox_is_delivered_to_nobody_yet() {
    for town in Town::everywhere(&[1, 1, 1], 1, 64) {
        town.send((0, 0), 1, 1, &[1]).unwrap();
        let key = town.ranks[0].key_create(&[entry(0, 1, 0), entry(1, 1, 0), entry(2, 1, 0)]).unwrap();
        let slot = town.ranks[0].send_slot(0).unwrap();
        write(slot, &[2]);
        std::thread::scope(|scope| {
            let held_back = scope.spawn(|| town.ranks[0].key_send(key, slot));
            // Meanwhile the other mailboxes are not blocked by it.
            for i in 0..200 {
                assert!(town.ranks[2].try_recv(0).unwrap().is_none());
                town.send((2, 0), 2, 1, &[i]).unwrap();
                let message = town.ranks[2].recv(0).unwrap();
                assert_eq!(read::<1>(&message), [i]);
                town.ranks[2].free(0, message.data).unwrap();
            }
            let first = town.ranks[1].recv(0).unwrap();
            town.ranks[1].free(0, first.data).unwrap();
            held_back.join().unwrap().unwrap();
        });
        for rank in [0, 1, 2] {
            assert_eq!(read::<1>(&town.ranks[rank].recv(0).unwrap()), [2]);
        }
    }
}

#[test]
fn keys_that_cannot_be_are_refused_with_their_entry() {
    let town = Town::with_timeout(&[2, 2], 2, 64, SHORT_MS);
    let boxes = &town.ranks[0];
    for (list, text) in [
        (&[][..], "n is 0"),
        (&[entry(0, 1, 0), entry(2, 1, 0)], "entries[1]: dest is 2"),
        (&[entry(0, 0, 0)], "entries[0]: the mask is empty"),
        (&[entry(1, 4, 0)], "entries[0]: the mask 0x4 has bit 2"),
        (&[entry(1, 1, 0); 3], "3 entries go to rank 1's mailbox, which has only 2 slots"),
    ] {
        let e = boxes.key_create(list).unwrap_err();
        assert_eq!(e.code, Code::InvalidArgument);
        assert!(e.message.contains(text), "{e}");
    }
}
