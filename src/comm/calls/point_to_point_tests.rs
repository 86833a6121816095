//! Batches of transfers whose peers leave, abort or give up.

use super::*;
use crate::comm;
use crate::memory::view::Address;
use std::sync::atomic::{AtomicBool, Ordering};

/// One half of a transfer of a byte.
fn half(send: bool, byte: &mut [u8; 1], peer: i32) -> Transfer<'_> {
    let buffer = Address::of_mut(byte);
    Transfer { send, buffer, count: 1, dtype: DataType::Uint8, peer, of_collective: false }
}

#[test]
fn a_peer_that_leaves_after_its_part_does_not_fail_a_batch_that_waits_for_another() {
    let ranks = comm::init_all(3).unwrap();
    let [first, second, third] = ranks[..] else { unreachable!() };
    let send = |comm, byte: u8| comm::transfer_now(comm, &half(true, &mut [byte], 0));
    let left = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    // Rank 0 asks for alarms between a look at its transfers and a look at its peers.
    comm::registry::shared(first).unwrap().transport.set_alarm(Box::new(move || {
        if !left.swap(true, Ordering::Relaxed) {
            let part = std::thread::spawn(move || send(second, 2).and_then(|()| comm::destroy(second)));
            part.join().unwrap().unwrap();
            tell.send(()).unwrap();
        }
        Ok(())
    }));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            told.recv().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            send(third, 3).unwrap();
        });
        let (mut two, mut three) = ([0], [0]);
        comm::transfers_now(first, &[half(false, &mut two, 1), half(false, &mut three, 2)]).unwrap();
        assert_eq!([two, three], [[2], [3]]);
    });
    comm::destroy(third).unwrap();
    comm::destroy(first).unwrap();
}

#[test]
fn what_has_made_a_peer_leave_is_told_and_not_that_it_has_left() {
    let ranks = comm::init_all(2).unwrap();
    let [first, second] = ranks[..] else { unreachable!() };
    let left = AtomicBool::new(false);
    // The peer hears of it, and leaves, between rank 0's look for alarms and its look at its peers.
    comm::registry::shared(first).unwrap().transport.set_alarm(Box::new(move || {
        if left.swap(true, Ordering::Relaxed) {
            return Err(Error::usage("what all are told"));
        }
        std::thread::spawn(move || comm::destroy(second)).join().unwrap()
    }));
    let error = comm::transfer_now(first, &half(false, &mut [0], 1)).unwrap_err();
    assert_eq!(error.message, "what all are told");
    comm::abort(first).unwrap();
}

#[test]
fn what_has_made_a_peer_abort_is_told_and_not_its_abort() {
    let ranks = comm::init_all(2).unwrap();
    let [first, second] = ranks[..] else { unreachable!() };
    let told = || Err(Error::usage("what all are told"));
    comm::registry::shared(first).unwrap().transport.set_alarm(Box::new(told));
    comm::abort(second).unwrap();
    let error = comm::transfer_now(first, &half(false, &mut [0], 1)).unwrap_err();
    assert_eq!(error.message, "what all are told");
    comm::abort(first).unwrap();
}

#[test]
fn a_rank_that_gave_up_ends_all_transfers_of_a_batch_at_once() {
    const BYTES: usize = 64 << 10;
    fn block(send: bool, buffer: Address<'_>, peer: i32) -> Transfer<'_> {
        Transfer { send, buffer, count: BYTES, dtype: DataType::Uint8, peer, of_collective: false }
    }
    let ranks = comm::init_all(4).unwrap();
    let [first, second, _, fourth] = ranks[..] else { unreachable!() };
    comm::registry::shared(fourth).unwrap().transport.fail(1);
    let shared = Address::of_mut(vec![0; BYTES].leak());
    comm::register(second, shared, BYTES).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || comm::transfer_now(second, &block(true, shared, 0)));
        // What was read from a heap after a rank gave up may be torn: this transfer fails. Rank 2 never sends.
        let mut received = [vec![0; BYTES], vec![0; BYTES]];
        let [one, two] = received.each_mut().map(|block| Address::of_mut(block));
        let error = comm::transfers_now(first, &[block(false, one, 1), block(false, two, 2)]).unwrap_err();
        assert!(error.message.starts_with("rank 3 (pid"), "{error}");
        assert!(sender.join().unwrap().is_err());
    });
    ranks.into_iter().for_each(|rank| comm::abort(rank).unwrap());
}
