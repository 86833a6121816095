//! Waits: what ends them, when they yield, and from where they count.

use super::*;
use crate::sync::prim::AtomicU64;

impl From<Interrupted> for () {
    fn from(_: Interrupted) {}
}

impl From<Interrupted> for &'static str {
    fn from(_: Interrupted) -> &'static str {
        "interrupted"
    }
}

fn hasty() -> Backoff {
    Backoff {
        spins: AtomicU32::new(10),
        most: 10,
        yields: 10,
        fits: true,
        looks: 0,
        polls_a_look: 1000,
        pauses: true,
    }
}

fn waiter<'a>(
    backoff: &'a Backoff,
    doorbell: &'a Doorbell,
    sleepers: &'a Sleepers,
    deadline_ns: u64,
) -> Waiter<'a> {
    Waiter { backoff, doorbell, sleepers, deadline_ns, nap: NAP, neighbours: None, time: None }
}

#[test]
fn a_late_post_wakes_the_waiter() {
    let (doorbell, sleepers, word) = (Doorbell::default(), Sleepers::default(), AtomicU64::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            word.store(1, Ordering::Release);
            if sleepers.after_post() {
                doorbell.ring();
            }
        });
        waiter(&hasty(), &doorbell, &sleepers, u64::MAX)
            .until(|| word.load(Ordering::Acquire) == 1, || Ok::<(), ()>(()), || ())
            .unwrap();
    });
}

#[test]
fn the_deadline_ends_a_wait() {
    let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
    let soon = clock::now_ns() + 5_000_000;
    let ended =
        waiter(&hasty(), &doorbell, &sleepers, soon).until(|| false, || Ok::<(), &str>(()), || "late");
    assert_eq!(ended, Err("late"));
}

/// Ranks that are all on the caller's core, or all on others.
struct Fixed(bool);
impl Neighbours for Fixed {
    fn are_on_this_core(&self) -> bool {
        self.0
    }
}

/// A rank whose bell rings while it falls asleep, for something else than it waits for.
struct AtWork<'a>(&'a Doorbell, AtomicU64);
impl Neighbours for AtWork<'_> {
    fn are_on_this_core(&self) -> bool {
        true
    }
    fn falls_asleep(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.ring();
    }
}

#[test]
fn who_is_rung_in_vain_yields_again_before_it_sleeps_where_each_rank_has_a_core() {
    let naps = |fits| {
        let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
        let backoff = Backoff { fits, yields: 50, ..hasty() };
        let others = AtWork(&doorbell, AtomicU64::new(0));
        let alone = waiter(&backoff, &doorbell, &sleepers, u64::MAX);
        let w = Waiter { neighbours: Some(&others), ..alone };
        let mut polls = 0;
        let ready = || {
            polls += 1;
            polls == 200
        };
        w.until(ready, || Ok::<(), ()>(()), || ()).unwrap();
        others.1.load(Ordering::Relaxed)
    };
    // Of 200 polls 10 come first, 51 before the first nap, 35 or one before each other, and each nap has one of its own.
    assert_eq!((naps(true), naps(false)), (4, 70));
}

#[test]
fn only_who_shares_its_core_with_no_rank_polls_on_before_it_yields() {
    let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
    for is_shared in [false, true] {
        let backoff = Backoff { looks: 10, ..hasty() };
        let alone = waiter(&backoff, &doorbell, &sleepers, u64::MAX);
        let w = Waiter { neighbours: Some(&Fixed(is_shared)), ..alone };
        let mut polls = 0;
        let ready = || {
            polls += 1;
            polls == 8000
        };
        // The watch is asked when the polls are over.
        assert_eq!(w.until(ready, || Err("watched"), || "late").is_err(), is_shared);
        assert_eq!(polls, if is_shared { 10 + 2 } else { 8000 });
    }
}

#[test]
fn a_rank_whose_polls_are_system_calls_yields_after_fewer() {
    let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
    for (spins, costly, expected) in [(320, true, 11 + 2), (320, false, 320 + 2), (0, true, 2)] {
        let backoff = Backoff { spins: AtomicU32::new(spins), most: spins, ..hasty() };
        let backoff = if costly { backoff.with_costly_polls() } else { backoff };
        let mut polls = 0;
        let ready = || {
            polls += 1;
            false
        };
        // The watch is asked when the polls are over.
        let w = waiter(&backoff, &doorbell, &sleepers, u64::MAX);
        assert_eq!(w.until(ready, || Err("watched"), || "late"), Err("watched"));
        assert_eq!(polls, expected);
    }
    // They are patient for as long, too.
    let patient = Backoff { looks: 3, ..hasty() }.with_costly_polls();
    let alone = waiter(&patient, &doorbell, &sleepers, u64::MAX);
    let w = Waiter { neighbours: Some(&Fixed(false)), ..alone };
    let mut polls = 0;
    let ready = || {
        polls += 1;
        false
    };
    assert_eq!(w.until(ready, || Err("watched"), || "late"), Err("watched"));
    assert_eq!(polls, 1 + 3 * 31 + 2);
}

#[test]
fn a_wait_is_over_the_first_time_that_it_is_ready() {
    let (doorbell, sleepers, backoff) = (Doorbell::default(), Sleepers::default(), hasty());
    // Polls: spins, then yields, then naps; each must end the wait.
    for ready_at in 1..60 {
        let mut polls = 0;
        let ready = || {
            polls += 1;
            polls == ready_at
        };
        let late = clock::now_ns() + 10_000_000_000;
        waiter(&backoff, &doorbell, &sleepers, late).until(ready, || Ok::<(), &str>(()), || "late").unwrap();
        assert_eq!(polls, ready_at);
    }
}

#[test]
fn bad_news_end_a_wait_unless_the_data_came_first() {
    let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
    let backoff = hasty();
    let w = waiter(&backoff, &doorbell, &sleepers, u64::MAX);
    assert_eq!(w.until(|| false, || Err("dead"), || "late"), Err("dead"));
    let mut news = false;
    let mut polls = 0;
    let ended = w.until(
        || {
            polls += 1;
            polls > 11
        },
        || {
            news = true;
            Err("dead")
        },
        || "late",
    );
    assert_eq!((ended, news), (Ok(()), true));
}

#[test]
fn a_wait_is_counted_from_its_first_yields_or_its_first_patient_look() {
    let (doorbell, sleepers) = (Doorbell::default(), Sleepers::default());
    for (backoff, neighbours) in [
        (hasty(), None),
        (Backoff { looks: 10, ..hasty() }, Some(&Fixed(false) as &dyn Neighbours)),
        (Backoff::for_crowds(), None),
    ] {
        let time = WaitTime::default();
        let alone = waiter(&backoff, &doorbell, &sleepers, u64::MAX);
        let w = Waiter { neighbours, time: Some(&time), ..alone };
        let since = || time.since_ns.load(Ordering::Relaxed);
        w.until(|| since() != 0, || Ok::<(), ()>(()), || ()).unwrap();
        assert!(since() == 0 && time.total_ns.load(Ordering::Relaxed) > 0);
        let total = time.total_ns.load(Ordering::Relaxed);
        w.until(|| true, || Ok::<(), ()>(()), || ()).unwrap();
        assert_eq!(time.total_ns.load(Ordering::Relaxed), total, "a wait of no length");
    }
}
