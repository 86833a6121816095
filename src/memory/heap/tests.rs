//! The heap's promises about addresses, and about the pages behind them.

use super::*;
use crate::sys::available_memory;

#[test]
fn memory_is_aligned_distinct_and_comes_back() {
    let heap = Heap::new().unwrap();
    let a = heap.alloc(100).unwrap();
    let b = heap.alloc(1).unwrap();
    assert!(a.is_multiple_of(ALIGN) && b.is_multiple_of(ALIGN) && b >= a + 100);
    assert_eq!(heap.stats().used, 192);
    heap.free(a).unwrap();
    assert_eq!(heap.alloc(128).unwrap(), a);
    heap.free(a).unwrap();
    heap.free(b).unwrap();
    assert_eq!(heap.stats().used, 0);
}

#[test]
fn a_foreign_or_freed_pointer_is_refused_by_name() {
    let heap = Heap::new().unwrap();
    let a = heap.alloc(256).unwrap();
    assert!(heap.free(a + 64).unwrap_err().message.contains("middle"));
    heap.free(a).unwrap();
    assert!(heap.free(a).unwrap_err().message.contains("freed already"));
    assert!(heap.free(64).is_err());
}

#[test]
fn alignment_holds_for_addresses_and_is_refused_by_name() {
    let heap = Heap::new().unwrap();
    for align in [1, 64, 4096, 1 << 21] {
        let a = heap.alloc_aligned(100, align).unwrap();
        assert!(a.is_multiple_of(align.max(ALIGN)), "{a:#x} {align}");
    }
    for align in [0, 3, 2 << 30] {
        for e in [heap.alloc_aligned(100, align).unwrap_err(), heap.alloc_sparse(100, align).unwrap_err()] {
            assert!(e.message.contains(&format!("alignment {align} is not")), "{e}");
        }
    }
    assert_eq!(heap.stats().live_blocks, 4);
}

/// Bytes of memory behind the heap's file.
fn reserved(heap: &Heap) -> usize {
    std::os::unix::fs::MetadataExt::blocks(&heap.file().unwrap().metadata().unwrap()) as usize * 512
}

#[test]
fn a_sparse_range_has_the_memory_that_was_reserved_within_it() {
    let heap = Heap::new().unwrap();
    let a = heap.alloc_sparse(100 * PAGE + 1, 64).unwrap();
    assert_eq!((reserved(&heap), heap.stats().used as usize, a % PAGE), (0, 101 * PAGE, 0));
    heap.reserve_within(a + PAGE, 2 * PAGE).unwrap();
    assert_eq!(reserved(&heap), 2 * PAGE);
    let view = heap.view(heap.offset_of(a + PAGE, 2 * PAGE).unwrap(), 2 * PAGE).unwrap();
    let bytes = |at: usize| -> *mut u8 { view.part(at, 1).addr() };
    for at in [0, PAGE - 1, PAGE] {
        // SAFETY: reserved memory of the view.
        unsafe { bytes(at).write(7) };
    }
    heap.release_within(a + PAGE + 1, 2 * PAGE - 1).unwrap();
    assert_eq!(reserved(&heap), PAGE, "only a whole page may go");
    heap.reserve_within(a + 2 * PAGE, 1).unwrap();
    // SAFETY: reserved memory of the view.
    assert_eq!([0, PAGE - 1, PAGE].map(|at| unsafe { bytes(at).read() }), [7, 7, 0]);
    heap.free(a).unwrap();
    assert_eq!((reserved(&heap), heap.stats().used), (0, 0));
    assert_eq!(heap.alloc(PAGE).unwrap(), a);
    heap.release_within(a, PAGE).unwrap_err();
}

/// A heap as it is in a memfd.
fn lazy_heap() -> Heap {
    Heap { is_lazy: true, ..Heap::new().unwrap() }
}

#[test]
fn a_large_block_of_a_memfd_has_no_memory_until_it_is_touched() {
    let heap = lazy_heap();
    let small = heap.alloc(64).unwrap();
    assert_eq!(reserved(&heap), PAGE, "small blocks have theirs at once");
    let a = heap.alloc(40 << 20).unwrap();
    assert_eq!(reserved(&heap), PAGE);
    // SAFETY: memory of the heap.
    unsafe { (a as *mut u8).add(20 << 20).write(7) };
    assert_eq!(reserved(&heap), 2 * PAGE);
    heap.free(a).unwrap();
    assert_eq!(reserved(&heap), PAGE);
    assert_eq!(heap.alloc(40 << 20).unwrap(), a);
    // SAFETY: memory of the heap.
    assert_eq!(unsafe { (a as *const u8).add(20 << 20).read() }, 0);
    heap.free(a).unwrap();
    heap.free(small).unwrap();
}

#[test]
fn a_heap_in_dev_shm_reserves_and_one_in_a_memfd_need_not() {
    let in_dev_shm = shm::create(PAGE, 0, PAGE).unwrap();
    assert!(!shm::is_unbounded(&in_dev_shm), "a full /dev/shm would be a SIGBUS");
    let total = shm::dev_shm_space().unwrap().0 as usize;
    let memfd = shm::create(PAGE, 0, total + 1).unwrap();
    assert_eq!(shm::is_unbounded(&memfd), !available_memory::is_committed_strictly());
}

#[test]
fn what_is_promised_and_not_filled_counts_for_the_next_block() {
    let heap = lazy_heap();
    let all = available_memory::bytes().unwrap() as usize;
    let most = (all.min(heap.bytes()) / 3 * 2) & !(PAGE - 1);
    let a = heap.alloc(most).unwrap();
    let e = heap.alloc(all.saturating_sub(most / 2)).unwrap_err();
    assert!(e.message.contains("promised") || e.message.contains("largest range"), "{e}");
    let e = shm::check_available(all / 2, most as u64).unwrap_err();
    assert!(e.message.contains("available on the machine") && e.message.contains("not filled yet"), "{e}");
    assert_eq!(heap.stats().live_blocks, 1, "a block that is refused comes back");
    heap.free(a).unwrap();
    assert_eq!(heap.alloc(most).unwrap(), a);
}

#[test]
fn a_sparse_range_begins_without_the_memory_that_lay_there_before() {
    let heap = Heap::new().unwrap();
    let (a, b) = (heap.alloc(PAGE).unwrap(), heap.alloc(64).unwrap());
    heap.free(a).unwrap();
    assert_eq!(reserved(&heap), 2 * PAGE, "small blocks keep their pages");
    assert_eq!(heap.alloc_sparse(1, 1).unwrap(), a);
    assert_eq!(reserved(&heap), PAGE);
    heap.free(b).unwrap();
}

#[test]
fn a_sparse_range_shares_no_page_with_reserved_memory() {
    let heap = Heap::new().unwrap();
    let (a, sparse, b) =
        (heap.alloc(64).unwrap(), heap.alloc_sparse(1, 1).unwrap(), heap.alloc(8000).unwrap());
    assert_eq!((sparse - a, b - sparse), (PAGE, PAGE));
    heap.release_within(sparse, PAGE).unwrap();
    assert_eq!(reserved(&heap), 3 * PAGE);
}

#[test]
fn a_range_whose_pages_are_refused_comes_back() {
    let mut heap = Heap::new().unwrap();
    // Nothing can be reserved in a file that is open for reading.
    heap.file = KeptFile::new(File::open("/proc/self/exe").unwrap());
    heap.alloc(64).unwrap_err();
    heap.alloc_aligned(GIVE_BACK, 1 << 20).unwrap_err();
    assert_eq!((heap.stats().used, heap.stats().fragmentation), (0, 0.0));
}

#[test]
fn only_parts_of_one_sparse_range_are_reserved_or_released() {
    let heap = Heap::new().unwrap();
    let (a, b) = (heap.alloc_sparse(PAGE, 1).unwrap(), heap.alloc_sparse(PAGE, 1).unwrap());
    let dense = heap.alloc(PAGE).unwrap();
    for (addr, bytes) in [(a, PAGE + 1), (a, usize::MAX), (dense, 64), (dense + PAGE, 1), (64, 1), (0, 0)] {
        for e in
            [heap.reserve_within(addr, bytes).unwrap_err(), heap.release_within(addr, bytes).unwrap_err()]
        {
            assert!(e.message.contains("do not lie in one sparse range"), "{e}");
        }
    }
    assert_eq!(b, a + PAGE);
    heap.reserve_within(a + PAGE - 1, 1).unwrap();
    assert_eq!(reserved(&heap), 2 * PAGE);
}

#[test]
fn exhaustion_is_a_sentence_and_loses_nothing() {
    let heap = Heap::new().unwrap();
    let e = heap.alloc(usize::MAX - 7).unwrap_err();
    assert!(e.message.contains("PENNY_HEAP_SIZE"), "{e}");
    let e = heap.alloc(heap.bytes() + 64).unwrap_err();
    assert!(e.message.contains("largest range"), "{e}");
    assert_eq!(heap.stats().used, 0);
}

#[test]
fn eight_threads_at_once_get_memory_of_their_own() {
    let heap = Heap::new().unwrap();
    let work = |thread: u8| {
        let (mut state, mut live) = (u64::from(thread), Vec::new());
        for turn in 0..2000u32 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = (state >> 40) as usize;
            let bytes = 1 + ((number % 1000) << (number % 8));
            let addr = match number % 4 {
                0 => heap.alloc_aligned(bytes, 64 << (number % 9)).unwrap(),
                1 => {
                    let addr = heap.alloc_sparse(bytes, 1).unwrap();
                    heap.reserve_within(addr, bytes).unwrap();
                    addr
                }
                _ => heap.alloc(bytes).unwrap(),
            };
            let mark = thread ^ turn as u8;
            // SAFETY: reserved memory of this thread's own.
            unsafe { std::ptr::write_bytes(addr as *mut u8, mark, bytes) };
            live.push((addr, bytes, mark));
            if live.len() > 12 {
                let (addr, bytes, mark) = live.swap_remove(number % live.len());
                // SAFETY: as above; nobody else writes there.
                let memory = unsafe { std::slice::from_raw_parts(addr as *const u8, bytes) };
                assert!(memory.iter().all(|&byte| byte == mark), "thread {thread} has lost what it wrote");
                heap.free(addr).unwrap();
            }
        }
        live.iter().for_each(|&(addr, ..)| heap.free(addr).unwrap());
    };
    std::thread::scope(|scope| (0..8).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    let stats = heap.stats();
    assert_eq!((stats.used, stats.fragmentation, stats.allocations), (0, 0.0, 16_000));
}
