//! The board's layout.

use super::*;

#[test]
fn nothing_overlaps_and_a_second_mapping_sees_the_same() {
    let board = ClockSegment::create(3, 10).unwrap();
    board.header().places.store(3, Ordering::Relaxed);
    board.header().ports.store(10, Ordering::Relaxed);
    board.header().magic.store(MAGIC, Ordering::Release);
    let mut ranges = vec![(board.header() as *const _ as usize, size_of::<BoardHeader>())];
    for p in 0..3 {
        ranges.push((board.place(p) as *const _ as usize, size_of::<PlaceLine>()));
        ranges.push((board.all_threads(p).as_ptr() as usize, THREADS * size_of::<ThreadLine>()));
        ranges.push((board.tickets(p).as_ptr() as usize, TICKETS * size_of::<Ticket>()));
        for t in 0..TICKETS {
            let room = ClockSegment::room(t);
            ranges.push((board.posts(p, t, room).as_ptr() as usize, room * size_of::<PostLine>()));
        }
    }
    ranges.push((board.ports().as_ptr() as usize, 10 * PORT * 8));
    ranges.push((board.log().as_ptr() as usize, LOG * 8));
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
    board.reserve_posts(2, 7, 1).unwrap();
    board.posts(2, 7, 1)[0].key.store(7, Ordering::Release);
    let seen = ClockSegment::observe(board.file().unwrap().try_clone().unwrap()).expect("a board");
    assert_eq!((seen.places, seen.ports), (3, 10));
    assert_eq!(seen.posts(2, 7, 1)[0].key.load(Ordering::Acquire), 7);
    let (_, other) = Segment::create(8192, 8192).unwrap();
    assert!(ClockSegment::observe(other).is_none());
}

#[test]
fn more_transfers_than_fit_are_refused_with_their_number() {
    let board = ClockSegment::create(1, 1).unwrap();
    let sentence = board.reserve_posts(0, 0, POSTS + 1).unwrap_err().message.clone();
    assert!(sentence.contains("4097 transfers"), "{sentence}");
}
