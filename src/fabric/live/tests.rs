//! Seats without communicators: ranks as threads that post transfers and wait, and no byte moves.

use super::clock_segment::{AWAY, ClockSegment, FREE, LEAVING, LENT, POSTED, PRESENT};
use super::participant::PendingCall;
use super::presence::{GRACE_NS, is_counted};
use super::*;
use crate::plan::{Plan, RankView};
use crate::sync::prim::Ordering;
use crate::sys::clock;
use crate::sys::waiting::NotedWait;
use crate::types::{Collective, Rank};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

fn no_programs(_: u8, _: &RankView) -> Result<Vec<Plan>> {
    panic!("a program that cannot be written")
}

/// Participants for `n` ranks, each with a mapping and a runner of its own, as in processes.
pub(super) fn participants(fabric: &str, n: u32, grace_ns: u64) -> Vec<Participant> {
    let machine = Machine {
        network: Arc::new(open(fabric).unwrap()),
        spec: fabric.to_owned(),
        clock: Clock::Virtual,
        grace_ns,
    };
    let first = Participant::found(machine.clone(), &vec![0; n as usize], 0, no_programs).unwrap();
    let ports = machine.network.ports.len() as u32;
    let file = || first.clock_segment().file().unwrap().try_clone().unwrap();
    let others: Vec<Participant> = (1..n)
        .map(|place| {
            Participant::join(
                ClockSegment::open(file(), n, ports).unwrap(),
                machine.clone(),
                &vec![0; n as usize],
                place,
                no_programs,
            )
            .unwrap()
        })
        .collect();
    std::iter::once(first).chain(others).collect()
}

/// One half of a transfer; both of its ends give it the same key.
pub(super) fn half(send: bool, from: Rank, to: Rank, key: u64, count: u64) -> Post {
    let spec = CallSpec::plain(What::Transfer { from, to }, count, 1, 0);
    Post { comm: 0, key, spec, member: !send as u32, members: 2 }
}

/// Post and wait; tells the exit.
fn pass(participant: &Participant, post: Post) -> Result<u64> {
    leave(participant, participant.enter(&[post], None)?)
}

/// Wait. The deadline only turns a hang into a failure.
pub(super) fn leave(participant: &Participant, waiting: PendingCall) -> Result<u64> {
    let deadline_ns = clock::now_ns() + 60_000_000_000;
    participant.leave(
        waiting,
        deadline_ns,
        || Ok(()),
        || Error::timeout(format!("rank {} hangs", participant.place())),
    )
}

fn until(ready: impl Fn() -> bool) {
    // BOUND: another thread of the test makes it so.
    while !ready() {
        std::thread::yield_now();
    }
}

fn presence(participant: &Participant, place: Rank) -> u32 {
    participant.clock_segment().threads(place)[0].presence.load(Ordering::Acquire)
}

#[test]
fn a_rank_that_stays_away_does_not_hold_the_others_and_enters_late() {
    let participants = participants("dgx-h100", 3, 1_000_000);
    std::thread::scope(|scope| {
        // Ranks 0 and 1 wait for the clock, which rank 2 holds, until they count it out.
        let exit = scope.spawn(|| pass(&participants[0], half(true, 0, 1, 1, 1 << 20)).unwrap());
        let other = pass(&participants[1], half(false, 0, 1, 1, 1 << 20)).unwrap().max(exit.join().unwrap());
        assert_eq!(presence(&participants[0], 2), AWAY);
        assert_eq!(participants[2].clock_ps(), 0);
        let alone_ps = participants[0].estimate(&[(half(true, 2, 0, 2, 64).spec, vec![2, 0])]).unwrap();
        let back = scope.spawn(|| pass(&participants[2], half(true, 2, 0, 2, 64)).unwrap());
        pass(&participants[0], half(false, 2, 0, 2, 64)).unwrap();
        let back = back.join().unwrap();
        assert!((other..=other + alone_ps).contains(&back), "it is back at {back}, they were at {other}");
        assert_eq!(participants[0].clock_stats().late, 1);
        assert!(matches!(presence(&participants[0], 2), PRESENT | LEAVING));
    });
    let header = participants[0].clock_segment().header();
    let away = (0..3).filter(|&place| presence(&participants[0], place) == AWAY).count() as u32;
    assert_eq!(header.running.load(Ordering::Acquire) + away, 3);
}

#[test]
fn a_thread_of_a_stream_that_was_left_behind_counts_again_when_a_thread_of_the_program_acts() {
    let participants = participants("dgx-h100", 3, 1_000_000);
    let (end, is_over) = mpsc::channel::<()>();
    let ((begin, is_begun), (act, acts)) = (mpsc::channel(), mpsc::channel());
    let rank = &participants[2];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pass(rank, half(true, 2, 0, 1, 64)).unwrap();
            let _idle = NotedWait::idle();
            let _ = is_over.recv();
        });
        pass(&participants[0], half(false, 2, 0, 1, 64)).unwrap();
        // The thread that calls for the rank is busy with something else.
        scope.spawn(move || {
            rank.note_caller();
            begin.send(()).unwrap();
            until(|| acts.try_recv().is_ok());
        });
        is_begun.recv().unwrap();
        let sent = scope.spawn(|| pass(&participants[0], half(true, 0, 1, 2, 1 << 20)).unwrap());
        let reached_ps = pass(&participants[1], half(false, 0, 1, 2, 1 << 20)).unwrap();
        sent.join().unwrap();
        let before = presence(rank, 2);
        act.send(()).unwrap();
        assert_eq!(before, AWAY);
        rank.come_back();
        assert_eq!(presence(rank, 2), PRESENT);
        assert!(rank.clock_ps() >= reached_ps, "it is as late as its program");
        drop(end);
    });
}

#[test]
fn who_waits_for_a_rank_that_is_away_is_not_in_a_deadlock_before_it_has_left() {
    let mut participants = participants("dgx-h100", 2, 1_000_000);
    let late = participants.pop().unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            pass(&participants[0], half(true, 0, 1, 1, 64)).unwrap();
            pass(&participants[0], half(true, 0, 1, 2, 64)).unwrap_err()
        });
        until(|| presence(&late, 1) == AWAY);
        pass(&late, half(false, 0, 1, 1, 64)).unwrap();
        until(|| presence(&late, 1) == AWAY);
        drop(late);
        let error = first.join().unwrap();
        let told = "rank 0 in a send to rank 1 waits for rank 1; rank 1 left already";
        assert!(error.message.contains(told), "{error}");
    });
}

#[test]
fn a_ticket_that_is_withdrawn_while_the_engine_has_it_is_not_answered_for_its_next_call() {
    let participants: [Participant; 4] = participants("dgx-h100", 4, 0).try_into().ok().unwrap();
    let [zero, one, two, three] = participants;
    let (long, short) = (1 << 30, 64);
    // A long transfer 0 -> 1, and a short one 2 -> 3 after which the engine stops.
    let given_up = zero.enter(&[half(true, 0, 1, 1, long)], None).unwrap();
    let to_end = one.enter(&[half(false, 0, 1, 1, long)], None).unwrap();
    let sent = two.enter(&[half(true, 2, 3, 2, short)], None).unwrap();
    let received = three.enter(&[half(false, 2, 3, 2, short)], None).unwrap();
    assert!(zero.clock_segment().header().logged.load(Ordering::Acquire) > 0, "the long one is under way");
    leave(&two, sent).unwrap();
    leave(&three, received).unwrap();
    zero.withdraw(given_up);
    // The same ticket for another call, whose other end comes late; all wait, and the long transfer ends before.
    let again = zero.enter(&[half(true, 0, 2, 3, short)], None).unwrap();
    let sent = two.enter(&[half(true, 2, 3, 4, long * 2)], None).unwrap();
    let received = three.enter(&[half(false, 2, 3, 4, long * 2)], None).unwrap();
    let long_end = leave(&one, to_end).unwrap();
    assert!(long_end > 1_000_000_000, "{long_end} is too early for a gigabyte");
    assert_eq!(
        zero.clock_segment().tickets(0)[0].state.load(Ordering::Acquire),
        POSTED,
        "nobody has received that"
    );
    zero.withdraw(again);
    two.withdraw(sent);
    three.withdraw(received);
    assert_eq!(
        zero.clock_segment().header().running.load(Ordering::Acquire),
        4,
        "all are in their own programs"
    );
}

#[test]
fn an_engine_that_panics_fails_all_and_lets_go() {
    let participants = participants("dgx-h100", 2, 0);
    let what = What::Collective { collective: Collective::AllReduce, root: 0, algorithm: 0 };
    let spec = CallSpec::plain(what, 1, 1, 0);
    let post = |member| Post { comm: 0, key: 1, spec, member, members: 2 };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| pass(&participants[1], post(1)).unwrap_err());
        let errors = [pass(&participants[0], post(0)).unwrap_err(), other.join().unwrap()];
        assert!(errors.iter().all(|e| e.message.contains("panicked")), "{errors:?}");
    });
    assert_eq!(participants[0].clock_segment().header().runner.load(Ordering::Acquire), 0);
    assert!(participants[0].enter(&[post(0)], None).is_err());
}

#[test]
fn more_calls_than_the_log_holds_are_priced_all_the_same() {
    // 128 x 127 transfers in one go are more than 2^17 words.
    let n = 128;
    let participants = participants("dgx-h100:nodes=16", n, 0);
    let waiting: Vec<_> = participants
        .iter()
        .map(|participant| {
            let me = participant.place();
            let others = (0..n).filter(|&peer| peer != me);
            let posts: Vec<Post> = others
                .flat_map(|peer| {
                    let key = |from: Rank, to: Rank| (from * n + to) as u64;
                    [half(true, me, peer, key(me, peer), 8), half(false, peer, me, key(peer, me), 8)]
                })
                .collect();
            participant.enter(&posts, None).unwrap()
        })
        .collect();
    for (participant, waiting) in participants.iter().zip(waiting) {
        assert!(leave(participant, waiting).unwrap() > 0);
    }
    assert_eq!(participants[0].clock_segment().header().logged.load(Ordering::Acquire), 0);
    assert_eq!(participants[0].clock_stats().calls, 128 * 127);
}

/// Ranks that pass to and fro in pairs and in a ring, with a nap now and then; the trace, and the entries that were late.
/// `exact`: halfway the ranks begin to see each other's stores, and make calls that take no time.
fn hubbub(nap: u64, exact: bool) -> (u64, u64) {
    let n = 4;
    let participants = participants("t3000", n, 0);
    let random = AtomicU64::new(nap);
    let ports = participants[0].network().ports.len() as u32;
    let file = participants[0].clock_segment().file().unwrap().try_clone().unwrap();
    let clock_segment = ClockSegment::open(file, n, ports).unwrap();
    std::thread::scope(|scope| {
        for participant in participants {
            let random = &random;
            scope.spawn(move || {
                let me = participant.place();
                for k in 0..2000u64 {
                    if random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) >> 57 == 0 {
                        clock::sleep_until(clock::now_ns() + nap);
                    }
                    let bytes = 64 << (8 * (me / 2));
                    let peer = me ^ 1;
                    let post = half(me < peer, me.min(peer), me.max(peer), k * 64 + (me / 2) as u64, bytes);
                    pass(&participant, post).unwrap();
                    if exact && k >= 1000 {
                        participant.serve_exactly();
                        let now_ps = participant.clock_ps();
                        participant.pause_until(now_ps, u64::MAX, || Ok(()), || Error::timeout("")).unwrap();
                    }
                    if k % 50 == 0 {
                        let key = |from: Rank| 1 << 40 | k << 8 | from as u64;
                        let (next, last) = ((me + 1) % n, (me + n - 1) % n);
                        let posts = [half(true, me, next, key(me), 9), half(false, last, me, key(last), 9)];
                        let waiting = participant.enter(&posts, None).unwrap();
                        leave(&participant, waiting).unwrap();
                    }
                }
                // The seat goes here: a rank that stayed would hold the clock of the others.
            });
        }
    });
    for place in 0..n {
        assert!(clock_segment.tickets(place).iter().all(|t| t.state.load(Ordering::Acquire) == FREE));
    }
    let header = clock_segment.header();
    assert_eq!(header.running.load(Ordering::Acquire), 0);
    (header.trace.load(Ordering::Acquire), header.late.load(Ordering::Acquire))
}

#[test]
fn thousands_of_calls_by_replicas_of_one_world_leave_the_same_trace() {
    for exact in [false, true] {
        let first = hubbub(1, exact);
        assert_eq!(first, hubbub(200_000, exact));
        assert_eq!(first, hubbub(20_000, exact));
    }
}

#[test]
fn the_grace_period_is_two_seconds_unless_it_is_said_otherwise() {
    let machine = || Machine::declared(Some("t3000"), None).unwrap().unwrap();
    let grace = |text| machine().with_grace(text).unwrap().grace_ns;
    assert_eq!((grace(None), grace(Some("0")), grace(Some("0.5"))), (GRACE_NS, 0, 500_000_000));
    assert!(machine().with_grace(Some("soon")).is_err());
}

/// Two seats, and a transfer between them for which all is there.
fn a_pair_waits(participants: &[Participant], key: u64) -> [PendingCall; 2] {
    [true, false].map(|send| participants[!send as usize].enter(&[half(send, 0, 1, key, 64)], None).unwrap())
}

#[test]
fn a_thread_between_two_calls_holds_the_clock_though_another_of_its_rank_waits() {
    let participants = participants("dgx-h100", 2, 0);
    let gone_on = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (first, gone_on) = (&participants[0], &gone_on);
        scope.spawn(move || {
            first.pause_until(0, u64::MAX, || Ok(()), || Error::timeout("")).unwrap();
            tell.send(()).unwrap();
            // BOUND: the test goes on.
            while !gone_on.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        // Rank 1 waits for its message; then only the thread above holds the clock, once in its own program.
        let receives = scope.spawn(|| pass(&participants[1], half(false, 0, 1, 1, 64)).unwrap());
        told.recv().unwrap();
        let sends = participants[0].enter(&[half(true, 0, 1, 1, 64)], None).unwrap();
        clock::sleep_until(clock::now_ns() + 50_000_000);
        assert_eq!(participants[1].clock_ps(), 0, "a thread of rank 0 is in its own program");
        gone_on.store(true, Ordering::Release);
        leave(&participants[0], sends).unwrap();
        assert!(receives.join().unwrap() > 0);
    });
}

#[test]
fn a_thread_that_waits_for_another_of_its_process_does_not_hold_the_clock() {
    let participants = participants("dgx-h100", 2, 0);
    for key in 0..20 {
        for participant in &participants {
            participant.advance_to(key, || Ok(())).unwrap();
        }
        // This thread has a presence at both, and waits in a join.
        std::thread::scope(|scope| {
            let threads = [true, false].map(|send| {
                let participant = &participants[!send as usize];
                scope.spawn(move || pass(participant, half(send, 0, 1, key, 64)).unwrap())
            });
            threads.into_iter().for_each(|thread| assert!(thread.join().unwrap() > 0));
        });
    }
    // Both threads have gone, or are going; the rank itself is there.
    for place in 0..2 {
        assert!(participants[0].clock_segment().threads(place).iter().any(|line| is_counted(line.now())));
    }
}

#[test]
fn a_call_is_taken_back_while_the_rank_that_runs_the_engine_is_stopped() {
    let participants = participants("dgx-h100", 2, 0);
    let header = participants[0].clock_segment().header();
    header.runner.store(2, Ordering::Release);
    let waiting = a_pair_waits(&participants, 1);
    let soon = clock::now_ns() + 20_000_000;
    let [zero, one] = waiting;
    let ended =
        participants[0].leave(zero, soon, || Ok(()), || participants[0].clock_stood(20_000_000)).unwrap_err();
    assert!(ended.message.contains("rank 1 (pid ") && ended.message.contains("runs the engine"), "{ended}");
    let aborted =
        participants[1].leave(one, u64::MAX, || Err(Error::remote("aborted")), || Error::timeout("late"));
    assert_eq!(aborted.unwrap_err().message, "aborted");
    // What the engine may still write to is not used again before it has ended.
    let again = a_pair_waits(&participants, 2);
    assert_eq!(participants[0].clock_segment().tickets(0)[0].state.load(Ordering::Acquire), FREE);
    header.runs.fetch_add(1, Ordering::AcqRel);
    header.runner.store(0, Ordering::Release);
    participants[0].drive();
    for (participant, waiting) in participants.iter().zip(again) {
        assert!(leave(participant, waiting).unwrap() > 0);
    }
    let waiting = a_pair_waits(&participants, 3);
    assert_ne!(participants[0].clock_segment().tickets(0)[0].state.load(Ordering::Acquire), FREE);
    for (participant, waiting) in participants.iter().zip(waiting) {
        leave(participant, waiting).unwrap();
    }
}

#[test]
fn who_looked_at_a_thread_before_it_lent_its_presence_does_not_count_it_again() {
    let first = Arc::new(participants("dgx-h100", 2, 0).swap_remove(0));
    let running = || first.clock_segment().header().running.load(Ordering::Acquire);
    let line = || &first.clock_segment().threads(0)[0];
    let activities = Activity::several(&[&first, &first]).unwrap();
    let before = running();
    assert_eq!(line().now(), LENT);
    first.count_unblocked(line());
    assert_eq!((line().now(), running()), (LENT, before));
    drop(activities);
    assert_eq!((line().now(), running()), (PRESENT, before - 1), "it counts, and its two activities do not");
}

#[test]
fn a_thread_that_waits_for_parts_of_several_ranks_counts_for_none_before_all_have_ended() {
    let ranks: Vec<_> = participants("dgx-h100", 2, 0).into_iter().map(Arc::new).collect();
    let states = || [0, 1].map(|place| ranks[0].clock_segment().threads(place)[0].now());
    let [first, second] =
        Activity::several(&[&ranks[0], &ranks[1]]).unwrap().try_into().ok().expect("two activities");
    drop(first);
    assert_eq!(states(), [LENT; 2]);
    drop(second);
    assert_eq!(states(), [PRESENT; 2]);
}
