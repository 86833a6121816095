use super::*;
use std::sync::mpsc::channel;

/// The blocked-signals mask of the calling thread, as the kernel prints it.
fn blocked() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

/// Is it blocked in this mask?
fn has(mask: u64, signal: libc::c_int) -> bool {
    mask & 1 << (signal - 1) != 0
}

fn assert_is_the_librarys(mask: u64) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGALRM] {
        assert!(has(mask, signal), "signal {signal} is not blocked");
    }
    for fault in FAULTS {
        assert!(!has(mask, fault), "signal {fault}, which a thread causes itself, is blocked");
    }
}

#[test]
fn a_thread_is_born_with_the_librarys_mask_and_its_parent_keeps_its_own() {
    let before = blocked();
    let (tell, told) = channel();
    spawn("penny-test", move || tell.send(blocked()).unwrap()).unwrap().join().unwrap();
    assert_is_the_librarys(told.recv().unwrap());
    assert_eq!(blocked(), before);
}

#[test]
fn threads_at_once_have_the_mask_and_the_caller_does_the_last_part() {
    let before = blocked();
    let mut items = [(0u64, false); 3];
    let caller = thread::current().id();
    let done = at_once("penny-test", &mut items, |(mask, here)| {
        *mask = blocked();
        *here = thread::current().id() == caller;
    });
    assert_eq!(done.unwrap().len(), 3);
    assert_is_the_librarys(items[0].0);
    assert_is_the_librarys(items[1].0);
    assert_eq!(items[2], (before, true));
    assert_eq!(blocked(), before);
}

#[test]
fn a_panic_in_one_of_the_threads_is_its_result_alone() {
    let results = at_once("penny-test", &mut [0, 1, 2], |item| {
        assert_ne!(*item, 1, "a planted panic");
        *item
    })
    .unwrap();
    assert_eq!(
        results.iter().map(|r| r.as_ref().ok().copied()).collect::<Vec<_>>(),
        [Some(0), None, Some(2)]
    );
}

#[test]
fn an_interrupted_caller_interrupts_the_threads_that_work_for_it() {
    unsafe extern "C" fn always(_: *mut std::ffi::c_void) -> libc::c_int {
        1
    }
    // SAFETY: the function does not look at its argument.
    unsafe { interrupt::set(Some(always), std::ptr::null_mut()) };
    let waits = at_once("penny-test", &mut [1, 0], |waits| {
        // BOUND: the flag that the caller sets.
        while *waits == 1 && interrupt::look_now().is_ok() {
            thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    // SAFETY: no check.
    unsafe { interrupt::set(None, std::ptr::null_mut()) };
    assert!(waits.unwrap().iter().all(Result::is_ok));
}
