//! Sleeping on a shared word.

use crate::sync::prim::AtomicU32;
use std::time::Duration;

/// Sleeps until the word is woken, if it still holds `expected`; at most `timeout`. Spurious returns are fine.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let ts = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word is a live, aligned u32; the kernel only compares it. EINTR, EAGAIN and ETIMEDOUT all mean
    // "look again", which every caller does.
    unsafe {
        libc::syscall(libc::SYS_futex, word as *const AtomicU32, libc::FUTEX_WAIT, expected, &ts);
    }
}

/// Sleeps while `word` has the value `expected`, without a time limit.
pub fn wait_without_end(word: &AtomicU32, expected: u32) {
    // SAFETY: the word lives for the call; without a timeout the kernel reads nothing else.
    unsafe {
        let none: *const libc::timespec = std::ptr::null();
        libc::syscall(libc::SYS_futex, word as *const AtomicU32, libc::FUTEX_WAIT, expected, none);
    }
}

/// Wakes all threads that sleep on the word, in any process.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: as above; waking touches no memory.
    unsafe {
        libc::syscall(libc::SYS_futex, word as *const AtomicU32, libc::FUTEX_WAKE, i32::MAX);
    }
}
