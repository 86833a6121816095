//! Is the end of all work found, and never too early?

use super::{SHORT_MS, Town, read};
use crate::error::Code;
use crate::mailbox::Rest;
use crate::sync::prim::{AtomicU64, Ordering};

#[test]
fn a_thread_alone_is_idle_at_once_and_its_vote_counts() {
    let town = Town::of(&[1], 4, 64);
    let boxes = &town.ranks[0];
    for vote in [true, false, false, true] {
        assert_eq!(boxes.idle(0, vote).unwrap(), if vote { Rest::AllVoted } else { Rest::AllIdle });
    }
    town.send((0, 0), 0, 1, &[1]).unwrap();
    assert_eq!(boxes.idle(0, true).unwrap(), Rest::Message);
    let message = boxes.recv(0).unwrap();
    let e = boxes.idle(0, true).unwrap_err();
    assert_eq!(e.code, Code::InvalidUsage);
    assert!(e.message.contains("still holds 1 messages"), "{e}");
    boxes.free(0, message.data).unwrap();
    assert_eq!(boxes.idle(0, true).unwrap(), Rest::AllVoted);
}

#[test]
fn the_deadline_of_being_idle_names_who_is_not() {
    let town = Town::with_timeout(&[2, 2], 4, 64, SHORT_MS);
    let e = town.ranks[0].idle(1, true).unwrap_err();
    assert_eq!(e.code, Code::Timeout);
    let told = "1 are, and not thread 0 of rank 0, thread 0 of rank 1, thread 1 of rank 1";
    assert!(e.message.contains(told), "{e}");
    // A thread that gave up is not counted any more, and may come back any number of times.
    std::thread::scope(|scope| {
        for i in 0..4 {
            let boxes = &town.ranks[i / 2];
            scope.spawn(move || {
                // BOUND: the other three come to be idle.
                loop {
                    match boxes.idle((i % 2) as i32, true) {
                        Ok(ended) => break assert_eq!(ended, Rest::AllVoted),
                        Err(e) => assert_eq!(e.code, Code::Timeout),
                    }
                }
            });
        }
    });
}

/// Work that spreads: a message with n left makes messages with n - 1 left. All of it is done when every thread is told so.
fn spread(threads: &[u32], rounds: u64, depth: u64) {
    spread_in(&Town::of(threads, 64, 64), threads, rounds, depth);
}

fn spread_in(town: &Town, threads: &[u32], rounds: u64, depth: u64) {
    let places: Vec<(usize, i32)> =
        threads.iter().enumerate().flat_map(|(rank, &n)| (0..n as i32).map(move |t| (rank, t))).collect();
    let (made, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let together = std::sync::Barrier::new(places.len());
    std::thread::scope(|scope| {
        for (i, &(rank, thread)) in places.iter().enumerate() {
            let (places, made, done, together) = (&places, &made, &done, &together);
            scope.spawn(move || {
                let boxes = &town.ranks[rank];
                let mut dice = i as u64 + 1;
                let mut roll = |sides: u64| {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    dice % sides
                };
                // Own work, so that no thread waits for a slot while others wait for it: send only where there is one.
                let mut todo: Vec<(u64, u64)> = Vec::new();
                for round in 0..rounds {
                    if i as u64 == round % places.len() as u64 {
                        made.fetch_add(1, Ordering::Relaxed);
                        todo.push((depth, round));
                    }
                    let last_vote = roll(2) == 1 || round % 2 == 0;
                    loop {
                        while let Some(message) = boxes.try_recv(thread).unwrap() {
                            let [left, of] = read::<2>(&message);
                            assert_eq!(of, round, "work of another round");
                            boxes.free(thread, message.data).unwrap();
                            done.fetch_add(1, Ordering::Relaxed);
                            if left > 0 {
                                todo.extend([(left - 1, round); 2]);
                                made.fetch_add(2, Ordering::Relaxed);
                            }
                        }
                        if let Some(&(left, of)) = todo.last() {
                            let (dest, to) = places[roll(places.len() as u64) as usize];
                            if boxes.can_send(thread, dest as i32).unwrap() {
                                todo.pop();
                                town.send((rank, thread), dest as i32, 1 << to, &[left, of]).unwrap();
                            } else {
                                std::thread::yield_now();
                            }
                            continue;
                        }
                        match boxes.idle(thread, last_vote).unwrap() {
                            Rest::Message => continue,
                            ended => {
                                assert_eq!(made.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
                                assert!(ended == Rest::AllVoted || round % 2 == 1);
                                assert!(ended != Rest::AllVoted || last_vote);
                                break;
                            }
                        }
                    }
                    // The counters above are compared before the next round changes them.
                    together.wait();
                }
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), rounds * ((1 << (depth + 1)) - 1));
    for (boxes, rank) in town.ranks.iter().zip(0..) {
        assert_eq!(boxes.stats().unwrap().slots_free, 64, "rank {rank}");
    }
}

// A town each: where threads are joined between two uses of one memory, ThreadSanitizer does not see it.

#[test]
fn work_that_spreads_over_two_ranks_is_all_done_when_everybody_is_told_so() {
    spread(&[1, 1], 100, 6);
}

#[test]
fn work_that_spreads_over_hosts_is_all_done_when_everybody_is_told_so() {
    for (threads, rounds, depth) in [(&[1, 1][..], 40, 5), (&[2, 1, 3], 20, 5), (&[1, 2, 2, 1], 20, 5)] {
        for town in Town::everywhere(threads, 64, 64) {
            spread_in(&town, threads, rounds, depth);
        }
    }
}

#[test]
fn work_that_spreads_over_unlike_ranks_is_all_done_when_everybody_is_told_so() {
    spread(&[2, 1, 3], 60, 7);
}

#[test]
fn work_that_spreads_over_many_threads_is_all_done_when_everybody_is_told_so() {
    spread(&[8, 8], 20, 8);
}
