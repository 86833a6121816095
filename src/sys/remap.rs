//! Changing what lies under an address: private pages become pages of a shared file, and the reverse.
//!
//! The new pages hold the same bytes before they take the old ones' place, and the kernel exchanges them in one step:
//! a thread that reads meanwhile sees no difference. What is written between the copy and the exchange is lost, so only
//! pages that are not written may be moved, and a page with other objects on it may be written.

use super::limits;
use crate::error::{Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
pub fn page() -> usize {
    // SAFETY: sysconf takes a constant and returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Puts pages of a shared file, reserved already, under an address; they take over the bytes that are there.
///
/// # Safety
/// The range is whole pages of ordinary private memory, which are not written during the call.
pub unsafe fn share(file: &File, offset: usize, at: usize, bytes: usize) -> Result<()> {
    // The limit counts for writing below the file's end, too, and the kernel would send SIGXFSZ.
    limits::check_file(offset.saturating_add(bytes))?;
    // SAFETY: the caller's promise. The bytes are only handed to the kernel.
    let old = unsafe { std::slice::from_raw_parts(at as *const u8, bytes) };
    file.write_all_at(old, offset as u64)
        .map_err(|e| Error::system(format!("cannot copy {bytes} bytes into shared memory: {e}")))?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
    // SAFETY: it replaces private pages by the caller's promise, and the new ones hold the same bytes.
    let new = unsafe { libc::mmap(at as *mut _, bytes, access, how, file.as_raw_fd(), offset as i64) };
    if new == libc::MAP_FAILED { Err(refused(bytes)) } else { Ok(()) }
}

/// Puts private pages under an address where pages of a shared file are; they take over the file's bytes.
///
/// # Safety
/// The range is whole pages that [`share`] put there, which are not written during the call.
pub unsafe fn unshare(file: &File, offset: usize, at: usize, bytes: usize) -> Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let new = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, how, -1, 0) };
    if new == libc::MAP_FAILED {
        return Err(refused(bytes));
    }
    // SAFETY: just mapped, zeroed, and nobody else's.
    let copy = unsafe { std::slice::from_raw_parts_mut(new.cast::<u8>(), bytes) };
    let read = file
        .read_exact_at(copy, offset as u64)
        .map_err(|e| Error::system(format!("cannot copy {bytes} bytes out of shared memory: {e}")));
    let moved = read.and_then(|()| {
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: it replaces pages of `share` by the caller's promise, and the new ones hold the same bytes.
        let moved = unsafe { libc::mremap(new, bytes, bytes, how, at as *mut libc::c_void) };
        if moved == libc::MAP_FAILED { Err(refused(bytes)) } else { Ok(()) }
    });
    if moved.is_err() {
        // SAFETY: the mapping made above, which went nowhere.
        unsafe { libc::munmap(new, bytes) };
    }
    moved
}

fn refused(bytes: usize) -> Error {
    let e = std::io::Error::last_os_error();
    Error::system(format!("cannot put {bytes} bytes of other pages in a buffer's place: {e}"))
}

/// A second mapping of what a shared mapping maps, from its beginning on. Dropping it unmaps it.
pub struct Again {
    at: usize,
    bytes: usize,
}

impl Again {
    /// Maps the file of the mapping at `at` once more, with `bytes` bytes. That may be more than the first mapping has. It needs no
    /// descriptor of the file.
    ///
    /// # Safety
    /// A shared mapping begins at `at`, and its file has `bytes` bytes from there on.
    pub unsafe fn of(at: usize, bytes: usize) -> Result<Again> {
        // SAFETY: an old size of 0 leaves the old mapping as it is; the new one lies where the kernel has room.
        let new = unsafe { libc::mremap(at as *mut libc::c_void, 0, bytes, libc::MREMAP_MAYMOVE) };
        if new == libc::MAP_FAILED {
            let e = std::io::Error::last_os_error();
            return Err(Error::system(format!("cannot map {bytes} bytes of shared memory again: {e}")));
        }
        Ok(Again { at: new as usize, bytes })
    }

    /// The address of the first byte.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; its owner has nothing of it any more.
        unsafe { libc::munmap(self.at as *mut libc::c_void, self.bytes) };
    }
}

/// Makes the pages of a shared mapping present, so that the first to touch them need not wait. It may do nothing.
pub fn make_present(at: usize, bytes: usize) {
    // SAFETY: it changes no byte, and ranges that are not mapped are refused.
    unsafe { libc::madvise(at as *mut _, bytes, libc::MADV_POPULATE_WRITE) };
}

/// Are two addresses, each at the start of a page, the same page of a shared file? `None`: this kernel does not tell.
///
/// The kernel names a futex by the page that it lies on, and refuses to requeue one to itself. Otherwise it requeues
/// the waiters of the first, of whom there are none: nobody waits on payload.
pub fn same_page(a: usize, b: usize) -> Option<bool> {
    const UNLIKELY: u32 = 0x9e37_79b9;
    // SAFETY: the kernel checks both addresses, and changes nothing where nobody waits.
    let done =
        unsafe { libc::syscall(libc::SYS_futex, a, libc::FUTEX_CMP_REQUEUE_PI, 1usize, 0usize, b, UNLIKELY) };
    if done >= 0 {
        return Some(false);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EINVAL) => Some(true),
        Some(libc::EAGAIN | libc::EFAULT) => Some(false),
        _ => None,
    }
}
