use super::*;

fn favour<T>(lock: &BiasedMutex<T>) {
    barrier::prepare();
    // BOUND: as often as it takes to become the favourite.
    for _ in 0..FIRST {
        drop(lock.try_lock());
    }
}

#[test]
fn who_takes_it_many_times_in_a_row_is_its_favourite_until_another_comes() {
    let lock = BiasedMutex::<u32>::default();
    favour(&lock);
    assert_eq!(lock.favourite.load(Ordering::Relaxed) & !FAVOUR == thread::number(), barrier::is_ready());
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
    assert_eq!(lock.favourite.load(Ordering::Relaxed), NOBODY);
    favour(&lock);
    assert_eq!(lock.favourite.load(Ordering::Relaxed), NOBODY, "the second time it takes longer");
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn nobody_comes_in_while_a_thread_is_inside() {
    let lock = BiasedMutex::<u32>::default();
    for is_favourite in [false, true] {
        let inside = lock.try_lock().expect("nobody is inside");
        assert!(lock.try_lock().is_none(), "the thread itself, favourite: {is_favourite}");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none(), "another one, favourite: {is_favourite}"));
        });
        drop(inside);
        favour(&lock);
    }
}

#[test]
fn a_favourite_and_others_are_inside_one_at_a_time() {
    const TIMES: u64 = 20_000;
    let lock = BiasedMutex::<[u64; 2]>::default();
    let add = |pause: u64| {
        for i in 0..TIMES / pause {
            let mut inside = lock.lock();
            inside[0] += 1;
            assert_eq!(inside[0], inside[1] + 1);
            inside[1] += 1;
            drop(inside);
            if i % 64 == 0 && pause > 1 {
                std::thread::yield_now();
            }
        }
    };
    favour(&lock);
    std::thread::scope(|scope| {
        scope.spawn(|| add(20));
        scope.spawn(|| add(2));
        scope.spawn(|| add(1));
        add(1);
    });
    assert_eq!(lock.lock()[0], 2 * TIMES + TIMES / 2 + TIMES / 20);
}

#[test]
fn a_lock_whose_holder_panicked_opens_as_before() {
    let lock = BiasedMutex::<u32>::default();
    for times in 1..=2 {
        let panics = || {
            *lock.lock() += 1;
            let _held = lock.try_lock();
            std::panic::resume_unwind(Box::new("planted"))
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(lock.try_lock().map(|value| *value), Some(times));
        favour(&lock);
    }
}
