//! Calls that are posted after the engine has gone on, on a machine where other calls are under way.

use super::super::tests::{half, leave, participants};
use crate::fabric::live::spec::CallSpec;
use crate::fabric::live::{Participant, Post};
use crate::fabric::world::World;
use crate::types::Rank;

const LARGE: u64 = 1 << 30;

/// Makes transfers from rank 0 to 1 one after the other while one from rank 2 to 3 is under way. Each has a number of bytes and a
/// time at which it is entered. Returns the receiver's exits, and how many entries were late.
fn exits_in_turn(transfers: &[(u64, u64)]) -> (Vec<u64>, u64) {
    let participants = participants("dgx-h100", 4, 0);
    let pass = |participant: &Participant, post: Post, at_ps: u64| {
        leave(participant, participant.enter(&[post], Some(at_ps)).unwrap()).unwrap()
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = participants
            .into_iter()
            .map(|participant| {
                scope.spawn(move || {
                    let send = participant.place() % 2 == 0;
                    if participant.place() >= 2 {
                        pass(&participant, half(send, 2, 3, 0, LARGE), 0);
                        return (Vec::new(), participant.clock_stats().late);
                    }
                    let pass = |(key, &(bytes, at_ps)): (u64, &(u64, u64))| {
                        pass(&participant, half(send, 0, 1, key, bytes), at_ps)
                    };
                    ((1..).zip(transfers).map(pass).collect(), 0)
                })
            })
            .collect();
        let mut ended: Vec<(Vec<u64>, u64)> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        (ended.swap_remove(1).0, ended[1].1)
    })
}

/// Returns the receiver's exits where all transfers are known from the beginning.
fn exits_at_once(transfers: &[(u64, u64)]) -> Vec<u64> {
    let participants = participants("dgx-h100", 4, 0);
    let mut world = World::new(participants[0].network().clone().into());
    let mut runner = participants[0].runner.lock();
    let mut admit = |from: Rank, to: Rank, bytes: u64, at_ps: u64| {
        let spec: CallSpec = half(true, from, to, 0, bytes).spec;
        let shared = runner.call(&spec, &[from, to]).unwrap();
        world.admit(&shared, &[from, to], &[at_ps; 2]).unwrap();
    };
    admit(2, 3, LARGE, 0);
    transfers.iter().for_each(|&(bytes, at_ps)| admit(0, 1, bytes, at_ps));
    let mut exits = vec![0; transfers.len() + 1];
    while let Some(finished) = world.advance(u64::MAX).unwrap() {
        if finished.member == 1 {
            exits[finished.call as usize] = finished.exit_ps;
        }
    }
    exits.split_off(1)
}

#[test]
fn what_changes_no_exit_that_was_told_begins_when_it_was_entered() {
    let transfers = [(4096, 0), (1 << 20, 0), (64, 0), (4096, 0)];
    assert_eq!(exits_in_turn(&transfers), (exits_at_once(&transfers), 0));
}

#[test]
fn what_would_change_an_exit_that_was_told_begins_when_it_came() {
    let transfers = [(1 << 20, 1_000_000), (1 << 20, 0)];
    let (exits, late) = exits_in_turn(&transfers);
    let all_known = exits_at_once(&transfers);
    assert!(exits[0] < all_known[0] && exits[1] > all_known[1], "{exits:?} {all_known:?}");
    assert_eq!(late, 2);
}

#[test]
fn calls_are_not_handled_again_without_end() {
    let transfers: Vec<(u64, u64)> = (0..20_000).map(|_| (64, 0)).collect();
    let (exits, late) = exits_in_turn(&transfers);
    assert!(late > 0 && exits.is_sorted(), "{late}");
}
