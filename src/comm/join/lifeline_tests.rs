//! What comes for the clock of a declared machine before a rank has joined.

use super::*;
use crate::bootstrap::{self, Hello, MeetingPlace};
use crate::transport::in_process::{Delivery, transports};

/// Ranks of two hosts meet; rank 1 tells this many messages, and rank 0 has not joined when `then` is called.
fn early(messages: usize, then: impl FnOnce(&Lifeline) + Send) {
    let place = MeetingPlace::Id(bootstrap::create_id_for_hosts().unwrap());
    let come = |rank: Rank| {
        let hello = Hello { rank, nranks: 2, info: &[], fds: &[] };
        let minute = Some(Duration::from_secs(60));
        bootstrap::meet(&place, &hello, minute, &mut |_, _: &[u8], _| Ok(()), &|| Ok(())).unwrap()
    };
    std::thread::scope(|scope| {
        let come = &come;
        scope.spawn(move || {
            let (all, _network) = transports(&[0, 1], Delivery::Reordered(1), 60_000);
            let lifeline = Lifeline::begin(come(0), true, Vec::new(), &all[0]).unwrap();
            then(&lifeline);
        });
        scope.spawn(move || {
            let attendance = come(1);
            (0..messages as u64).for_each(|number| attendance.tell(&number.to_le_bytes()).unwrap());
            // BOUND: rank 0 leaves.
            while !matches!(attendance.hear(LOOK), Some(Heard::Left(0) | Heard::Death(0) | Heard::Silence)) {}
        });
    });
}

fn kept(lifeline: &Lifeline) -> Vec<Heard> {
    match &*lifeline.clock.lock() {
        Clock::Early(early) => early.clone(),
        _ => panic!("nobody has told it of a clock"),
    }
}

#[test]
fn as_many_early_messages_as_may_be_are_kept_in_their_order() {
    early(MOST_EARLY, |lifeline| {
        // BOUND: the messages come.
        while kept(lifeline).len() < MOST_EARLY {
            std::thread::yield_now();
        }
        let message = |number: u64| Heard::Told { from: 1, bytes: number.to_le_bytes().to_vec() };
        assert!(kept(lifeline).into_iter().eq((0..MOST_EARLY as u64).map(message)));
        lifeline.check().unwrap();
    });
}

#[test]
fn one_early_message_more_ends_the_join_with_a_sentence() {
    early(MOST_EARLY + 1, |lifeline| {
        // BOUND: the messages come.
        let told = loop {
            match lifeline.check() {
                Err(told) => break told,
                Ok(()) => assert!(kept(lifeline).len() <= MOST_EARLY, "more than may be kept"),
            }
            std::thread::yield_now();
        };
        assert_eq!(kept(lifeline).len(), MOST_EARLY);
        assert!(
            told.message.contains("more than 4096 messages") && told.message.contains("before it has joined"),
            "{told}"
        );
    });
}

#[test]
fn a_rank_that_has_left_is_missed_if_its_link_has_lost_that_and_only_then() {
    let place = MeetingPlace::Id(bootstrap::create_id_for_hosts().unwrap());
    let come = |rank: Rank| {
        let hello = Hello { rank, nranks: 3, info: &[], fds: &[] };
        let minute = Some(Duration::from_secs(60));
        bootstrap::meet(&place, &hello, minute, &mut |_, _: &[u8], _| Ok(()), &|| Ok(())).unwrap()
    };
    let (all, _network) = transports(&[0, 1, 2], Delivery::InOrder, 60_000);
    std::thread::scope(|scope| {
        let (come, all) = (&come, &all);
        scope.spawn(move || {
            let lifeline = Lifeline::begin(come(0), true, Vec::new(), &all[0]).unwrap();
            lifeline.tell_joined();
            lifeline.farewell_ms.store(100, Ordering::Relaxed);
            for _ in 0..20_000 {
                if all[0].check_present(1..2, |_| false).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let told = all[0].check_present(1..2, |_| false).unwrap_err();
            assert!(told.message.contains("rank 1 (pid") && told.message.contains("died"), "{told}");
            std::thread::sleep(LOOK * 2);
            let told = all[0].check_present(2..3, |_| false).unwrap_err();
            assert!(told.message.contains("rank 2 (pid") && told.message.contains("destroyed"), "{told}");
        });
        scope.spawn(move || {
            let attendance = come(1);
            attendance.tell_joined();
            attendance.leave();
        });
        scope.spawn(move || {
            let attendance = come(2);
            attendance.tell_joined();
            all[2].leave();
            attendance.leave();
        });
    });
}
