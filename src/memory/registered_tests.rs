//! Tests of registered buffers.

use super::*;
use crate::sync::prim::{AtomicBool, AtomicU64, Ordering};

/// Words of ordinary memory from the start of a page on.
struct Pages {
    words: Vec<u64>,
    first: usize,
}

fn pages(count: usize) -> Pages {
    let words = vec![0; (count + 1) * remap::page() / 8];
    let first = words.as_ptr().align_offset(remap::page());
    Pages { words, first }
}

impl std::ops::Deref for Pages {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.words[self.first..][..self.words.len() - remap::page() / 8]
    }
}

fn address(of: &[u64]) -> Address<'static> {
    // SAFETY: the memory outlives what the tests do with its address.
    unsafe { Address::from_raw(of.as_ptr().cast()) }
}

fn tried(of: &[u64]) -> Result<Registered, String> {
    match register(address(of), size_of_val(of)).map_err(|e| e.message.clone())? {
        RegisterOutcome::Registered(share) => Ok(share),
        RegisterOutcome::Reachable => Err("it lies in the heap".into()),
        RegisterOutcome::Declined(why) => Err(why),
    }
}

/// Gives a share up; what the program should know of it.
fn told(share: Registered) -> Option<String> {
    share.release().expect("this process's own").warning
}

fn registered(of: &[u64]) -> Registered {
    tried(of).unwrap()
}

fn why_declined(of: &[u64]) -> String {
    match register(address(of), size_of_val(of)).unwrap() {
        RegisterOutcome::Declined(why) => why,
        RegisterOutcome::Registered(_) => panic!("registered"),
        RegisterOutcome::Reachable => panic!("it lies in the heap"),
    }
}

fn whole(of: &[u64]) -> Payload<'static> {
    address(of).view(size_of_val(of))
}

#[test]
fn a_buffer_keeps_its_bytes_and_its_twin_is_the_same_memory() {
    let mut memory: Vec<u64> = (0..100_000).collect();
    let share = registered(&memory[3..90_000]);
    assert!(memory.iter().copied().eq(0..100_000));
    let view = whole(&memory[3..90_000]);
    let (_, twin) = share.buffer().twin_of(view).unwrap();
    let [head, tail] = share.buffer().edges(view, twin);
    let edges = head.0.bytes() + tail.0.bytes();
    assert!(0 < edges && edges < 2 * remap::page(), "{edges}");
    let inner = twin.part(head.0.bytes(), view.bytes() - edges);
    assert!(share.buffer().is_still(view));
    memory[50_000] = 7;
    // SAFETY: within the twin, and nobody else writes.
    assert_eq!(unsafe { *twin.addr().cast::<u64>().add(50_000 - 3) }, 7);
    // SAFETY: as above.
    unsafe { inner.addr().cast::<u64>().write(8) };
    assert_eq!(memory[3 + head.0.bytes() / 8], 8);
    assert_eq!(told(share), None);
    assert_eq!((memory[50_000], memory[3 + head.0.bytes() / 8]), (7, 8));
    let changed = memory.iter().enumerate().filter(|&(i, &x)| i as u64 != x).count();
    assert_eq!(changed, 2);
}

#[test]
fn the_edges_of_a_part_are_what_of_it_is_on_the_outer_pages() {
    let page = remap::page();
    let memory = pages(4);
    let share = registered(&memory[8..4 * page / 8 - 8]);
    let bytes_of = |from: usize, to: usize| {
        let view = whole(&memory[from / 8..to / 8]);
        let (_, twin) = share.buffer().twin_of(view).unwrap();
        share.buffer().edges(view, twin).map(|(own, twin)| {
            assert_eq!(own.bytes(), twin.bytes());
            own.bytes()
        })
    };
    assert_eq!(bytes_of(64, 4 * page - 64), [page - 64, page - 64]);
    assert_eq!(bytes_of(128, 256), [128, 0]);
    assert_eq!(bytes_of(page, 3 * page), [0, 0]);
    assert_eq!(bytes_of(2 * page, 3 * page + 8), [0, 8]);
    assert_eq!(bytes_of(3 * page + 8, 3 * page + 24), [0, 16]);
    assert_eq!(told(share), None);
}

#[test]
fn neighbours_on_the_outer_pages_lose_no_store_while_a_buffer_comes_and_goes() {
    // Three pages in the midst of many, where malloc has no notes that could be lost as well.
    let many = pages(64);
    let words = 3 * remap::page() / 8;
    let memory = &many[10 * remap::page() / 8..][..words];
    let buffer = &memory[8..words - 8];
    // SAFETY: aligned words of this test's memory, outside of the buffer, used as atomics only.
    let neighbours = [0, words - 1].map(|at| unsafe { &*memory.as_ptr().add(at).cast::<AtomicU64>() });
    let stop = AtomicBool::new(false);
    let stored = std::thread::scope(|scope| {
        let hammer = scope.spawn(|| {
            let mut stored = 0u64;
            // BOUND: the thread below says when; it registers a fixed number of times.
            while !stop.load(Ordering::Relaxed) {
                stored += 1;
                neighbours.iter().for_each(|n| n.store(n.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
            }
            stored
        });
        let come_and_go = |_| tried(buffer).map_or_else(Some, told);
        let trouble = (0..10_000).find_map(come_and_go);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(trouble, None);
        hammer.join().unwrap()
    });
    assert_eq!(neighbours.map(|n| n.load(Ordering::Relaxed)), [stored; 2]);
}

#[test]
fn shares_of_one_buffer_move_it_once_and_back_once() {
    let memory = pages(8);
    let first = registered(&memory[1..]);
    let second = registered(&memory[100..1000]);
    assert_eq!(second.buffer(), first.buffer());
    assert!(why_declined(&memory[..100]).contains("in part"));
    assert_eq!(told(first), None);
    assert!(second.buffer().is_still(whole(&memory[1..])));
    let buffer = second.buffer();
    assert_eq!(told(second), None);
    assert!(!buffer.is_still(whole(&memory[1..])));
}

#[test]
fn what_cannot_be_moved_is_declined_and_says_why() {
    let local = [0u64; 2000];
    // The test's thread has its stack from mmap, so that it may be moved; a share must then be given back.
    if let RegisterOutcome::Registered(share) = register(address(&local), size_of_val(&local)).unwrap() {
        assert_eq!(told(share), None);
    }
    static CONSTANT: [u64; 2000] = [1; 2000];
    assert!(why_declined(&CONSTANT).contains("not ordinary memory"));
    assert!(why_declined(&pages(1)[..16]).contains("no whole page"));
    let e = register(address(&local), usize::MAX).err().unwrap();
    assert!(e.message.contains("past the end"), "{e}");
    // SAFETY: an address that is only looked up.
    let nowhere = unsafe { Address::from_raw(std::ptr::without_provenance(4096)) };
    let e = register(nowhere, 8).err().unwrap();
    assert!(e.message.contains("no memory at 0x1000"), "{e}");
    let heap = heap::mine().unwrap();
    let inside = heap.alloc(5000).unwrap();
    // SAFETY: memory of the heap, freed below.
    let inside_address = unsafe { Address::from_raw(std::ptr::with_exposed_provenance(inside)) };
    assert!(matches!(register(inside_address, 5000).unwrap(), RegisterOutcome::Reachable));
    heap.free(inside).unwrap();
}

#[test]
fn a_twin_that_peers_may_still_write_to_is_given_to_others_when_its_last_holder_is_gone() {
    let memory = pages(600);
    let (first, second) = (registered(&memory), registered(&memory));
    let forsaken_at = first.buffer().twin;
    let forsaken = first.release().unwrap().twin;
    assert_eq!(told(second), None);
    let again = registered(&memory);
    assert!(again.buffer().twin.abs_diff(forsaken_at) >= size_of_val(&memory[..]));
    assert_eq!(told(again), None);
    let owned = forsaken.block;
    drop(forsaken);
    assert!(heap::mine().unwrap().free(owned).is_err(), "it was freed with its last holder");
}

#[test]
fn pages_that_are_not_ours_any_more_are_found_out_and_left_alone() {
    let mut memory = pages(4);
    memory.words.fill(1);
    let share = registered(&memory);
    let buffer = share.buffer();
    let (at, bytes) = (buffer.pages.0, buffer.pages.1 - buffer.pages.0);
    // Other private pages in their place, as if they had been freed and allocated anew.
    // SAFETY: they are ours, and only this thread knows of them.
    unsafe { remap::unshare(heap::mine().unwrap().file().unwrap(), buffer.offset(at), at, bytes) }.unwrap();
    memory.words.fill(2);
    assert!(!buffer.is_still(whole(&memory)));
    assert!(told(share).unwrap().contains("without pennyCommDeregister"));
    assert!(memory.words.iter().all(|&word| word == 2));
}
