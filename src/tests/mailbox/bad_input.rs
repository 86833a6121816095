//! What a mailbox refuses: each by name, and nothing is lost by it.

use super::{SHORT_MS, Town, read, write};
use crate::error::{Code, Error};
use crate::memory::control::LEFT;
use crate::sync::prim::Ordering;
use crate::transport::link::Ending;
use std::fmt::Debug;

#[track_caller]
fn refused<T: Debug>(ended: Result<T, Error>, code: Code, text: &str) {
    let e = ended.unwrap_err();
    assert_eq!(e.code, code, "{e}");
    assert!(e.message.contains(text), "\"{e}\" does not say \"{text}\"");
}

#[test]
fn every_wrong_argument_is_named_and_costs_nothing() {
    use Code::InvalidArgument as Arg;
    let town = Town::of(&[2, 3], 4, 64);
    let boxes = &town.ranks[0];
    let slot = boxes.send_slot(0).unwrap();
    refused(boxes.multicast(1, 0, slot), Arg, "the mask is empty");
    refused(boxes.multicast(1, 0b1001, slot), Arg, "bit 3; rank 1's mailbox has threads 0..3");
    refused(boxes.multicast(1, 1 << 63, slot), Arg, "bit 63");
    refused(boxes.multicast(2, 1, slot), Arg, "dest is 2; the communicator has ranks 0..2");
    refused(boxes.multicast(-1, 1, slot), Arg, "dest is -1");
    refused(boxes.multicast(1, 1, slot + 16), Arg, "no send slot of rank 0");
    refused(boxes.multicast(1, 1, town.ranks[1].send_slot(0).unwrap()), Arg, "no send slot of rank 0");
    refused(boxes.multicast(1, 1, 0), Arg, "no send slot");
    refused(boxes.set_len(0, 5), Arg, "flits is 5; a message has 1 to 4");
    refused(boxes.set_len(0, 0), Arg, "flits is 0");
    refused(boxes.recv(2), Arg, "thread 2 is not of this mailbox; rank 0 has threads 0..2");
    refused(boxes.try_recv(-1), Arg, "thread -1");
    refused(boxes.send_slot(64), Arg, "thread 64");
    refused(boxes.idle(3, true), Arg, "thread 3");
    refused(boxes.can_send(0, 7), Arg, "dest is 7");
    for rank in &town.ranks {
        let stats = rank.stats().unwrap();
        assert_eq!((stats.slots_free, stats.written, stats.sent), (4, 0, 0));
    }
}

#[test]
fn a_message_is_freed_once_by_each_thread_that_received_it() {
    let town = Town::of(&[1, 3], 4, 64);
    town.send((0, 0), 1, 0b011, &[1]).unwrap();
    let boxes = &town.ranks[1];
    let message = boxes.recv(0).unwrap();
    refused(boxes.free(2, message.data), Code::InvalidUsage, "thread 2 of rank 1 does not hold");
    refused(boxes.free(1, message.data), Code::InvalidUsage, "thread 1 of rank 1 does not hold");
    refused(boxes.free(0, message.data + 16), Code::InvalidArgument, "is no message in rank 1's mailbox");
    refused(boxes.free(0, 0), Code::InvalidArgument, "is no message");
    boxes.free(0, message.data).unwrap();
    refused(boxes.free(0, message.data), Code::InvalidUsage, "freed it already");
    // The other receiver's message is still whole.
    assert_eq!(read::<1>(&boxes.recv(1).unwrap()), [1]);
    boxes.free(1, message.data).unwrap();
    assert_eq!(boxes.stats().unwrap().slots_free, 4);
    refused(boxes.free(1, message.data), Code::InvalidUsage, "freed it already");
}

#[test]
fn two_calls_as_one_thread_at_once_are_noticed() {
    let town = Town::of(&[1, 1], 4, 64);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // BOUND: a call of the other thread is under way just then.
            loop {
                match town.ranks[1].recv(0) {
                    Err(e) if e.code == Code::InvalidUsage => std::thread::yield_now(),
                    got => break got,
                }
            }
        });
        // BOUND: the other thread comes to its call.
        while !matches!(town.ranks[1].can_recv(0), Err(e) if e.code == Code::InvalidUsage) {
            std::thread::yield_now();
        }
        refused(
            town.ranks[1].try_recv(0),
            Code::InvalidUsage,
            "another call of rank 1 is under way as thread 0",
        );
        town.send((0, 0), 1, 1, &[5]).unwrap();
        // The first call is not disturbed.
        assert!(waiting.join().unwrap().is_ok());
    });
}

#[test]
fn waits_end_at_the_deadline_and_say_what_for() {
    let town = Town::with_timeout(&[1, 1], 1, 64, SHORT_MS);
    refused(town.ranks[0].recv(0), Code::Timeout, "thread 0 of rank 0 waited 0.05 s for a message");
    town.send((0, 0), 1, 1, &[1]).unwrap();
    refused(town.send((0, 0), 1, 1, &[2]), Code::Timeout, "a free slot of rank 1's mailbox");
    assert_eq!(read::<1>(&town.ranks[1].recv(0).unwrap()), [1]);
}

#[test]
fn a_held_turn_is_waited_for_and_its_holder_named() {
    let town = Town::with_timeout(&[1, 1], 4, 64, SHORT_MS);
    town.ranks[1].hold_turn(0);
    refused(town.send((0, 0), 0, 1, &[1]), Code::Timeout, "its turn at rank 0's mailbox, which rank 1 holds");
    assert_eq!(town.ranks[0].stats().unwrap().slots_free, 4, "the slot it had claimed is free again");
}

#[test]
fn who_waits_for_ranks_that_left_or_aborted_is_told() {
    let town = Town::of(&[1, 1], 1, 64);
    town.send((0, 0), 1, 1, &[1]).unwrap();
    town.send((1, 0), 0, 1, &[9]).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| town.send((0, 0), 1, 1, &[2]));
        town.transports[1].leave();
        refused(sender.join().unwrap(), Code::RemoteError, "destroyed the communicator");
    });
    assert_eq!(town.transports[0].control().life(1).state.load(Ordering::Acquire), LEFT);
    // What came before is still there.
    assert_eq!(read::<1>(&town.ranks[0].recv(0).unwrap()), [9]);
    refused(town.ranks[0].recv(0), Code::RemoteError, "every other rank has destroyed");
    let polled = (0..100).find_map(|_| town.ranks[0].try_recv(0).err()).expect("polling ends, too");
    assert_eq!(polled.code, Code::RemoteError);

    let town = Town::of(&[1, 1], 1, 64);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| town.ranks[0].recv(0));
        let idler = scope.spawn(|| town.ranks[1].idle(0, true));
        town.transports[1].end_calls(Ending::Aborted);
        refused(receiver.join().unwrap(), Code::RemoteError, "rank 1 aborted");
        refused(idler.join().unwrap(), Code::RemoteError, "rank 1 (this rank) aborted");
    });
}

#[test]
fn a_closed_mailbox_ends_its_own_ranks_waits_and_refuses_calls() {
    let town = Town::of(&[2, 1], 1, 64);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| town.ranks[0].recv(0));
        let idler = scope.spawn(|| town.ranks[0].idle(1, true));
        std::thread::sleep(std::time::Duration::from_millis(10));
        town.ranks[0].close();
        refused(receiver.join().unwrap(), Code::InvalidUsage, "the mailbox was destroyed");
        refused(idler.join().unwrap(), Code::InvalidUsage, "the mailbox was destroyed");
    });
    refused(town.ranks[0].try_recv(0), Code::InvalidUsage, "the mailbox was destroyed");
    town.ranks[0].reopen();
    assert_eq!(town.ranks[0].try_recv(0).unwrap(), None);
}

#[test]
fn words_that_a_peer_has_overwritten_are_errors_and_never_panics() {
    let town = Town::with_timeout(&[2, 1], 4, 64, SHORT_MS);
    for pattern in [u64::MAX, 0, 1 << 63, (1 << 63) | 7, 0x5555_5555_5555_5555, 0xffff] {
        // All of it: counts, queues, free slots, bells.
        write(town.blocks[0], &vec![pattern; town.bytes / 8]);
        for thread in 0..2 {
            // Whatever they say, they return.
            let got = town.ranks[0].try_recv(thread);
            if let Ok(Some(message)) = got {
                let _ = town.ranks[0].free(thread, message.data);
            }
            let _ = town.send((1, 0), 0, 0b11, &[1]);
            let _ = town.ranks[0].stats();
        }
    }
}
