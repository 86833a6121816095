//! Reading another process's memory: what MPI libraries call cross-memory attach.

use super::clock;
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;

/// Bytes that are read to find out how long the kernel takes.
const TRIED: usize = 64 << 10;
/// The longest that this may take to be quick, in nanoseconds, with all of them in the cache (docs/decisions/0025).
const QUICK_NS: u64 = 4_000;
/// The longest that this may take not to be slow, in times of a plain copy of as many bytes (docs/decisions/0033).
const MOST_COPIES: u64 = 3;
/// How often it is tried at most; the best counts. A processor that has just begun to work may be slow for some.
const TRIALS: usize = 32;

fn parts(at: usize, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: bytes }
}

/// Reads `bytes` bytes at `from` in the memory of process `pid`. Fails where that process has no such memory.
///
/// # Safety
/// The bytes at `to` must be valid for writes.
pub unsafe fn read(pid: u32, from: u64, to: *mut u8, bytes: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let here = parts(to as usize + done, bytes - done);
        let there = parts((from as usize).wrapping_add(done), bytes - done);
        // SAFETY: the kernel writes to the caller's memory only, and checks the addresses on both sides.
        let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &here, 1, &there, 1, 0) };
        match usize::try_from(read) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Tells whether the kernel lets this process read the memory of process `pid`.
pub fn may_read(pid: u32) -> bool {
    let (mut byte, nowhere) = (0u8, parts(0, 1));
    let here = parts(&raw mut byte as usize, 1);
    // SAFETY: a byte of our own, to which nothing is written: there is no memory at address 0.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &here, 1, &nowhere, 1, 0) };
    // The rights are checked before the address.
    read >= 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

/// What a read of another process's memory costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// Little more than the copy itself.
    Quick,
    /// Some times a copy: worth it where the copy into shared memory would keep others waiting.
    Steady,
    /// More, or the kernel refuses.
    Slow,
}

/// Returns what such a read costs. It is measured once, on this process's own memory, beside a plain copy.
pub fn speed() -> Speed {
    static SPEED: OnceLock<Speed> = OnceLock::new();
    *SPEED.get_or_init(|| {
        let (from, mut to) = (vec![1u8; TRIED], vec![2u8; TRIED]);
        let (mut best, mut plain) = (u64::MAX, u64::MAX);
        for _ in 0..TRIALS {
            let start = clock::now_ns();
            // SAFETY: `to` is that long.
            let read = unsafe { read(std::process::id(), from.as_ptr() as u64, to.as_mut_ptr(), TRIED) };
            best = best.min(clock::now_ns() - start);
            if read.is_err() || black_box(&to)[TRIED - 1] != 1 {
                return Speed::Slow;
            }
            let start = clock::now_ns();
            black_box(&mut to).copy_from_slice(black_box(&from));
            plain = plain.min(clock::now_ns() - start);
            if best <= QUICK_NS {
                break;
            }
        }
        match best {
            ..=QUICK_NS => Speed::Quick,
            _ if best <= MOST_COPIES * plain => Speed::Steady,
            _ => Speed::Slow,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read_and_what_is_no_memory_is_an_error() {
        if !may_read(std::process::id()) {
            return println!("SKIPPED: process_vm_readv is forbidden here");
        }
        let (from, mut to) = (vec![7u8; 10_000], vec![0u8; 10_000]);
        let pid = std::process::id();
        // SAFETY: `to` is that long.
        unsafe { read(pid, from.as_ptr() as u64, to.as_mut_ptr(), to.len()) }.unwrap();
        assert!(to == from);
        // SAFETY: as above.
        let wild = unsafe { read(pid, 8, to.as_mut_ptr(), to.len()) }.unwrap_err();
        assert_eq!(wild.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_process_that_is_not_there_cannot_be_read() {
        assert!(!may_read(u32::MAX >> 1));
    }
}
