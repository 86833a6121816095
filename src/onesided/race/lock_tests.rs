use super::*;

#[cfg(not(loom))]
mod threads {
    use super::*;
    use crate::sync::prim::AtomicU64 as Plain;

    fn words(waiting: usize) -> Vec<AtomicU64> {
        (0..Lock::words(waiting)).map(|_| AtomicU64::new(0)).collect()
    }

    /// Whose turn it is of these, none of which has had it and gone.
    fn holders(lock: Lock<'_>, numbers: &[u64]) -> Vec<u64> {
        numbers.iter().copied().filter(|&number| lock.is_held(number)).collect()
    }

    #[test]
    fn the_lock_comes_to_all_in_the_order_in_which_they_came() {
        let words = words(8);
        let lock = Lock::new(&words);
        let line: Vec<u64> = (0..5).map(|rank| lock.draw(rank).unwrap()).collect();
        for k in 0..line.len() {
            assert_eq!(holders(lock, &line[k..]), [line[k]]);
            assert_eq!(lock.holder(), Some(k as Rank));
            lock.give_up(line[k]);
        }
        let next = lock.draw(7).unwrap();
        assert!(lock.is_held(next), "nobody had to hand it on");
    }

    #[test]
    fn whoever_gave_up_is_passed_by_and_those_behind_come_next() {
        let words = words(8);
        let lock = Lock::new(&words);
        let line: Vec<u64> = (0..6).map(|rank| lock.draw(rank).unwrap()).collect();
        [1, 2, 4].into_iter().for_each(|k| lock.give_up(line[k]));
        for k in [0, 3, 5] {
            assert_eq!(holders(lock, &line[k..]), [line[k]]);
            lock.give_up(line[k]);
        }
        let line: Vec<u64> = (0..4).map(|rank| lock.draw(rank).unwrap()).collect();
        [3, 2, 1].into_iter().for_each(|k| lock.give_up(line[k]));
        lock.give_up(line[0]);
        let next = lock.draw(7).unwrap();
        assert!(lock.is_held(next), "all who waited had gone");
    }

    #[test]
    fn whoever_gives_up_as_its_turn_comes_hands_it_on() {
        let words = words(8);
        let lock = Lock::new(&words);
        let [first, second, third] = [0, 1, 2].map(|rank| lock.draw(rank).unwrap());
        lock.give_up(first);
        lock.give_up(second);
        assert!(lock.is_held(third));
    }

    #[test]
    fn no_more_wait_than_there_are_places_and_those_who_gave_up_keep_theirs_until_passed() {
        let words = words(3);
        let lock = Lock::new(&words);
        for _ in 0..10 {
            let [holds, waits, leaves] = [0, 1, 2].map(|rank| lock.draw(rank).unwrap());
            assert_eq!(lock.draw(3), None);
            lock.give_up(leaves);
            assert_eq!(lock.draw(3), None, "its place still tells that it has gone");
            lock.give_up(holds);
            let behind = lock.draw(3).expect("a place is free");
            assert_eq!(lock.draw(4), None);
            lock.give_up(waits);
            assert!(lock.is_held(behind));
            lock.give_up(behind);
        }
    }

    #[test]
    fn threads_of_which_some_give_up_hold_it_one_at_a_time_and_all_in_the_end() {
        const EACH: u32 = 500;
        // Fewer places than threads: some find none.
        let (words, inside, held) = (words(3), Plain::new(0), Plain::new(0));
        std::thread::scope(|scope| {
            for me in 0..4u32 {
                let (words, inside, held) = (&words, &inside, &held);
                scope.spawn(move || {
                    let lock = Lock::new(words);
                    let (mut done, mut tries) = (0, 0u32);
                    // BOUND: each thread that waits for long enough comes in.
                    while done < EACH {
                        let Some(number) = lock.draw(me) else {
                            std::thread::yield_now();
                            continue;
                        };
                        tries += 1;
                        // Every other time it is as patient as it takes, else hardly.
                        let backoff = if tries.is_multiple_of(2) { u32::MAX } else { tries % 7 };
                        let came = (0..backoff).any(|_| {
                            std::thread::yield_now();
                            lock.is_held(number)
                        });
                        if came {
                            assert_eq!(inside.swap(1, Ordering::Relaxed), 0, "two at a time");
                            held.store(held.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            inside.store(0, Ordering::Relaxed);
                            done += 1;
                        }
                        lock.give_up(number);
                    }
                });
            }
        });
        assert_eq!(held.load(Ordering::Relaxed), u64::from(4 * EACH), "what one holder did the next one saw");
        let lock = Lock::new(&words);
        let last = lock.draw(0).unwrap();
        assert!(lock.is_held(last), "nobody is left in line");
    }
}

#[cfg(loom)]
#[allow(unsafe_code)] // loom's cells; it checks what each of them is used for.
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Guarded {
        words: Vec<AtomicU64>,
        held: UnsafeCell<u32>,
    }

    impl Guarded {
        fn count(&self) {
            // SAFETY: loom checks that nobody else reads or writes meanwhile: that is what the model is for.
            self.held.with_mut(|held| unsafe { *held += 1 });
        }

        fn draw(&self) -> u64 {
            // BOUND: the other threads of the model give their places back.
            loop {
                match Lock::new(&self.words).draw(0) {
                    Some(number) => return number,
                    None => thread::yield_now(),
                }
            }
        }

        /// Hold it as often as that, however long it takes.
        fn patient(&self, times: u32) -> u32 {
            let lock = Lock::new(&self.words);
            for _ in 0..times {
                let number = self.draw();
                // BOUND: the other threads of the model hand it on.
                while !lock.is_held(number) {
                    thread::yield_now();
                }
                self.count();
                lock.give_up(number);
            }
            times
        }

        /// Hold it if it is free at the first look.
        fn hasty(&self) -> u32 {
            let lock = Lock::new(&self.words);
            let number = self.draw();
            let held = lock.is_held(number);
            if held {
                self.count();
            }
            lock.give_up(number);
            u32::from(held)
        }
    }

    /// One thread that holds the lock as often as that, and others that come once.
    fn explore(preemptions: usize, places: usize, hasty: usize, times: u32) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let words = (0..Lock::words(places)).map(|_| AtomicU64::new(0)).collect();
            let guarded = Arc::new(Guarded { words, held: UnsafeCell::new(0) });
            let others: Vec<_> = (0..hasty)
                .map(|_| {
                    let guarded = guarded.clone();
                    thread::spawn(move || guarded.hasty())
                })
                .collect();
            let held = guarded.patient(times);
            let held = held + others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
            guarded.patient(1);
            // SAFETY: all threads have ended.
            assert_eq!(guarded.held.with(|held| unsafe { *held }), held + 1);
        });
    }

    #[test]
    fn model_a_lock_whose_waiters_go_away_is_held_by_one_at_a_time_and_never_lost() {
        explore(2, 3, 2, 1);
        // Places are used again.
        explore(3, 1, 1, 2);
        explore(3, 2, 1, 3);
    }
}
