//! Handles: of other kinds, of other generations, and of nothing.

use super::*;
use std::collections::BTreeSet;

thread_local! {
    static LAST: Remembered<WindowKind, u32> = const { nothing_remembered() };
}
static TABLE: Objects<WindowKind, u32> = Objects::new(&LAST);

#[test]
fn a_stale_handle_is_refused_even_where_its_place_is_used_again() {
    let first = TABLE.insert(Arc::new(7)).unwrap();
    assert_eq!(TABLE.with(first, |x| **x), Some(7));
    assert_eq!(TABLE.remove(first).as_deref(), Some(&7));
    assert_eq!((TABLE.with(first, |x| **x), TABLE.remove(first)), (None, None));
    let second = TABLE.insert(Arc::new(8)).unwrap();
    assert_ne!(first, second);
    assert_eq!((TABLE.with(first, |x| **x), TABLE.with(second, |x| **x)), (None, Some(8)));
    assert_eq!(TABLE.with(Handle::from_bits(0), |x| **x), None);
    assert_eq!(TABLE.with(Handle::from_bits(u64::MAX), |x| **x), None);
    assert!(TABLE.all().iter().any(|(handle, _)| *handle == second));
}

#[test]
fn the_first_handles_of_two_kinds_differ_and_each_is_refused_as_the_other() {
    let window = Handle::<WindowKind>::first(0);
    let stream = Handle::<StreamKind>::first(0);
    assert_ne!(window.bits(), stream.bits());
    let foreign = Handle::<WindowKind>::from_bits(stream.bits());
    assert_eq!(TABLE.with(foreign, |x| **x), None);
    assert_eq!(
        foreign.refusal("win", format_args!("")).message,
        "win is not a window: that is a stream; pass a window"
    );
    assert_eq!(window.next().refusal("win", format_args!("it is stale")).message, "it is stale");
}

#[test]
fn no_pointer_of_a_program_passes_for_a_handle() {
    for bits in [0, 1 << 16, &raw const TABLE as usize as u64, 0x00ff_ffff_ffff_ffff] {
        let handle = Handle::<CommKind>::from_bits(bits);
        assert_eq!(called(handle.kind()), None);
        assert_eq!(handle.refusal("comm", format_args!("no")).message, "no");
    }
}

#[test]
fn a_number_is_never_given_twice_and_its_place_has_one_owner() {
    let numbers = Numbers::<EventKind>::up_to(3);
    let mut ever = BTreeSet::new();
    for _ in 0..100 {
        let taken: Vec<Handle<EventKind>> = std::iter::from_fn(|| numbers.take()).collect();
        let places: BTreeSet<usize> = taken.iter().map(|handle| handle.index()).collect();
        assert_eq!(places, BTreeSet::from([0, 1, 2]));
        assert!(taken.iter().all(|handle| handle.kind() == EventKind::NUMBER && ever.insert(handle.bits())));
        taken.into_iter().for_each(|handle| numbers.give_back(handle));
    }
}

#[test]
fn threads_that_take_numbers_and_give_them_back_have_places_apart() {
    let numbers = Numbers::<EventKind>::up_to(4);
    let owners = [const { AtomicU64::new(0) }; 4];
    std::thread::scope(|scope| {
        for me in 1..=4 {
            let (numbers, owners) = (&numbers, &owners);
            scope.spawn(move || {
                for _ in 0..1000 {
                    let handle = numbers.take().expect("as many places as threads");
                    assert_eq!(owners[handle.index()].swap(me, Ordering::Relaxed), 0);
                    assert_eq!(owners[handle.index()].swap(0, Ordering::Relaxed), me);
                    numbers.give_back(handle);
                }
            });
        }
    });
}
