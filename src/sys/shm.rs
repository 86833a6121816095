//! Shared memory that never has a name.
//!
//! A file in /dev/shm opened with `O_TMPFILE` has no directory entry at any instant, so no kill, however timed, can
//! leave it behind; other ranks get it as a file descriptor. Where /dev/shm is missing or too small a sealed memfd
//! takes its place. Space is reserved before anyone may touch it: a full file system is an error here, never a SIGBUS.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Where an unnamed file's pages are accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The tmpfs at /dev/shm.
    DevShm,
    /// An anonymous memory file.
    Memfd,
}

/// An unnamed file of `bytes` bytes with no space reserved yet.
pub fn unnamed(bytes: usize, backing: Backing) -> Result<File> {
    let file = match backing {
        Backing::DevShm => OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
            .open("/dev/shm")
            .map_err(|e| Error::system(format!("cannot create shared memory in /dev/shm: {e}")))?,
        Backing::Memfd => memfd()?,
    };
    file.set_len(bytes as u64).map_err(|e| {
        Error::system(format!("cannot size shared memory to {bytes} bytes: {e}; check `ulimit -f`"))
    })?;
    if backing == Backing::Memfd {
        seal(&file);
    }
    Ok(file)
}

fn memfd() -> Result<File> {
    // SAFETY: a constant name and flags; the result is checked.
    let fd = unsafe { libc::memfd_create(c"penny".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        let e = std::io::Error::last_os_error();
        return Err(Error::system(format!("cannot create an anonymous memory file: {e}")));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Nobody may change the size any more: a peer that truncates would turn our reads into SIGBUS.
fn seal(file: &File) {
    // SAFETY: fcntl on an open descriptor. A failure only means less protection, so it is not an error.
    unsafe {
        libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW);
    }
}

/// Reserve the pages of a range. After this, touching them cannot fail.
pub fn reserve(file: &File, offset: usize, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: fallocate on an open descriptor with plain numbers.
        let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, bytes as i64) };
        if done == 0 {
            return Ok(());
        }
        let e = std::io::Error::last_os_error();
        if e.raw_os_error() == Some(libc::EINTR) {
            continue;
        }
        let (total, free) = dev_shm_space().unwrap_or((0, 0));
        return Err(Error::system(format!(
            "cannot reserve {bytes} bytes of shared memory: {e}; /dev/shm holds {total} bytes, {free} of them free; \
             enlarge it (mount -o remount,size=... /dev/shm, docker run --shm-size=...) or lower PENNY_STAGING or \
             PENNY_HEAP_SIZE"
        )));
    }
}

/// Give the pages of a range back; they read as zeros from then on.
pub fn release(file: &File, offset: usize, bytes: usize) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate on an open descriptor with plain numbers; if it fails the pages merely stay.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, bytes as i64) };
}

/// An unnamed file of `bytes` bytes whose first `reserved` have their space: in /dev/shm if they fit, else a memfd.
pub fn sparse(bytes: usize, reserved: usize) -> Result<File> {
    let make = |backing| {
        let file = unnamed(bytes, backing)?;
        reserve(&file, 0, reserved)?;
        Ok(file)
    };
    make(Backing::DevShm).or_else(|why: Error| {
        make(Backing::Memfd).map_err(|e| Error::system(format!("{why}; and instead of it: {e}")))
    })
}

/// Total and free bytes of /dev/shm.
pub fn dev_shm_space() -> Option<(u64, u64)> {
    let s = nix::sys::statvfs::statvfs("/dev/shm").ok()?;
    let unit = s.fragment_size() as u64;
    Some((s.blocks() as u64 * unit, s.blocks_available() as u64 * unit))
}

/// Physical memory of this machine in bytes.
pub fn physical_memory() -> u64 {
    // SAFETY: sysconf takes a constant and returns a number.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    if pages > 0 && page > 0 { pages as u64 * page as u64 } else { 1 << 30 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_memory_has_no_name_and_its_size() {
        for backing in [Backing::DevShm, Backing::Memfd] {
            let file = unnamed(8192, backing).unwrap();
            reserve(&file, 0, 8192).unwrap();
            let meta = file.metadata().unwrap();
            assert_eq!(meta.len(), 8192);
            assert_eq!(std::os::unix::fs::MetadataExt::nlink(&meta), 0, "{backing:?}");
        }
    }

    #[test]
    fn reserving_more_than_there_is_names_the_remedy() {
        let file = unnamed(1 << 50, Backing::DevShm).unwrap();
        let sentence = reserve(&file, 0, 1 << 50).unwrap_err().message;
        assert!(sentence.contains("/dev/shm holds") && sentence.contains("--shm-size"), "{sentence}");
    }
}
