//! Shared memory that never has a name.
//!
//! ```text
//!     PENNY_SHM   unset    /dev/shm, if it is a tmpfs with room, else a sealed memfd
//!                 posix    /dev/shm or an error
//!                 memfd    a sealed memfd
//! ```
//!
//! A file in /dev/shm opened with `O_TMPFILE` has no directory entry at any instant, so no kill, however timed, can
//! leave it behind; other ranks get it as a file descriptor. Space is reserved before anyone may touch it: a full file
//! system is an error here, never a SIGBUS. A memfd is sealed at its final size, so no process can shrink it under
//! its users; a file in /dev/shm cannot be sealed. No file system bounds a memfd either, so large parts of one need no reservation.

use super::{available_memory, limits};
use crate::env;
use crate::error::{Error, Result};
use crate::log;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::OnceLock;

/// The place where an unnamed file's pages are accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// The tmpfs at /dev/shm.
    DevShm,
    /// An anonymous memory file.
    Memfd,
}

/// What `PENNY_SHM` asks for; `None`: /dev/shm where it will do, else a memfd.
pub fn asked_for() -> Result<Option<Backing>> {
    match env::get("PENNY_SHM").as_deref() {
        None => Ok(None),
        Some("posix") => Ok(Some(Backing::DevShm)),
        Some("memfd") => Ok(Some(Backing::Memfd)),
        Some(text) => Err(Error::argument(format!(
            "PENNY_SHM is `{text}`; it is `posix` (files in /dev/shm) or `memfd` (sealed memory files)"
        ))),
    }
}

/// An unnamed file of `bytes` bytes for good, whose first `reserved` have their space. Every segment is made here.
/// Unless PENNY_SHM says otherwise it lies in /dev/shm if that has `room` bytes free, else in a memfd.
pub fn create(bytes: usize, reserved: usize, room: usize) -> Result<File> {
    // Beyond the limit the kernel would not only refuse but send SIGXFSZ.
    limits::check_file(bytes)?;
    let make = |backing| {
        let file = unnamed(bytes, backing)?;
        reserve(&file, 0, reserved)?;
        Ok(file)
    };
    match asked_for()? {
        Some(Backing::Memfd) => make(Backing::Memfd),
        Some(Backing::DevShm) => make(Backing::DevShm).map_err(|e| {
            Error::new(
                e.code,
                format!("{}; PENNY_SHM=posix rules a memfd out, which unset it does not", e.message),
            )
        }),
        None => in_dev_shm(room).and_then(|()| make(Backing::DevShm)).or_else(|why: Error| {
            let file = make(Backing::Memfd)
                .map_err(|e| Error::new(e.code, format!("{why}; and instead of it: {e}")))?;
            log::decided(format_args!("shared memory for up to {room} bytes is a sealed memfd: {why}"));
            Ok(file)
        }),
    }
}

/// Will /dev/shm do for a file that may come to fill `room` bytes?
fn in_dev_shm(room: usize) -> Result<()> {
    let (total, free) = dev_shm_space().ok_or_else(|| Error::system("there is no /dev/shm"))?;
    if !is_tmpfs(c"/dev/shm") {
        return Err(Error::system("/dev/shm is not a tmpfs, so its files may lie on a disk"));
    }
    if free < room as u64 {
        return Err(Error::system(format!(
            "/dev/shm holds {total} bytes, {free} of them free, and {room} may be needed"
        )));
    }
    Ok(())
}

fn is_tmpfs(path: &std::ffi::CStr) -> bool {
    // SAFETY: a C string and a struct that the call fills; plain numbers, for which zero is a value.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut fs) == 0 && fs.f_type == libc::TMPFS_MAGIC
    }
}

/// An unnamed file of `bytes` bytes with no space reserved yet.
fn unnamed(bytes: usize, backing: Backing) -> Result<File> {
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
    file.set_len(bytes as u64)
        .map_err(|e| Error::system(format!("cannot size shared memory to {bytes} bytes: {e}")))?;
    if backing == Backing::Memfd {
        seal(&file)?;
    }
    Ok(file)
}

fn memfd() -> Result<File> {
    let usual = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Some systems insist on files that are not executable (vm.memfd_noexec), which kernels before 6.3 do not know.
    let made = [usual | libc::MFD_NOEXEC_SEAL, usual].into_iter().find_map(|flags| {
        // SAFETY: a constant name and flags; the result is checked.
        let fd = unsafe { libc::memfd_create(c"penny".as_ptr(), flags) };
        // SAFETY: a fresh descriptor that nobody else owns.
        (fd >= 0).then(|| File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    });
    made.ok_or_else(|| {
        let e = std::io::Error::last_os_error();
        Error::system(format!("cannot create an anonymous memory file: {e}"))
    })
}

/// Fix the size for good: a peer that truncates would turn our reads into SIGBUS.
fn seal(file: &File) -> Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: fcntl on an open descriptor.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => {
            let e = std::io::Error::last_os_error();
            Err(Error::system(format!("cannot seal an anonymous memory file: {e}")))
        }
    }
}

/// Refuses a peer's file that some process may still shrink although it could have been sealed, or, under
/// PENNY_SHM=memfd, any that may be shrunk.
pub fn check_sealed(file: &File) -> Result<()> {
    // SAFETY: fcntl on an open descriptor; files that know no seals are an error, and so not sealed.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 {
        return Ok(());
    }
    if asked_for()? == Some(Backing::Memfd) {
        return Err(Error::remote(
            "a peer's segment is not sealed, as PENNY_SHM=memfd wants it here; set PENNY_SHM=memfd on all ranks",
        ));
    }
    match is_memfd(file) {
        true => Err(Error::remote(
            "a peer's segment is a memfd that is not sealed against shrinking; the peer is faulty",
        )),
        false => Ok(()),
    }
}

/// Is it a memfd? All of them lie on one file system, which nothing else lies on.
fn is_memfd(file: &File) -> bool {
    static DEVICE: OnceLock<Option<u64>> = OnceLock::new();
    let device = |file: &File| file.metadata().ok().map(|m| m.dev());
    let theirs = DEVICE.get_or_init(|| device(&memfd().ok()?));
    theirs.is_some() && device(file) == *theirs
}

/// Tells whether pages of a file can be touched without a reservation: no file system and no commit limit may refuse them.
pub fn is_unbounded(file: &File) -> bool {
    is_memfd(file) && !available_memory::is_committed_strictly()
}

/// Bytes that have memory in a file.
pub fn filled(file: &File) -> u64 {
    file.metadata().map_or(0, |m| m.blocks() * 512)
}

/// Fails unless the machine, and this process's control group, have memory for `bytes` bytes more. `promised`: bytes that were
/// handed out before without a reservation and have no memory yet.
pub fn check_available(bytes: usize, promised: u64) -> Result<()> {
    match available_memory::bytes() {
        Some(available) if (bytes as u64).saturating_add(promised) > available => {
            Err(Error::system(format!(
                "no {bytes} bytes of shared memory: {available} bytes are available on the machine or in this process's control group, \
             and {promised} of them are promised to blocks that are not filled yet; free some memory, or pass less"
            )))
        }
        _ => Ok(()),
    }
}

/// Reserves the pages of a range. After this, touching them cannot fail.
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
        if is_memfd(file) {
            return Err(Error::system(format!(
                "cannot reserve {bytes} bytes of shared memory: {e}; the machine, or this process's control group, has \
                 no more memory: free some, or lower PENNY_STAGING or PENNY_HEAP_SIZE"
            )));
        }
        let (total, free) = dev_shm_space().unwrap_or((0, 0));
        return Err(Error::system(format!(
            "cannot reserve {bytes} bytes of shared memory: {e}; /dev/shm holds {total} bytes, {free} of them free; \
             enlarge it (mount -o remount,size=... /dev/shm, docker run --shm-size=...), set PENNY_SHM=memfd, or lower \
             PENNY_STAGING or PENNY_HEAP_SIZE"
        )));
    }
}

/// Gives the pages of a range back; they read as zeros from then on. Returns false if they stay.
pub fn release(file: &File, offset: usize, bytes: usize) -> bool {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate on an open descriptor with plain numbers.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, bytes as i64) == 0 }
}

/// Reads a word of a file. A look at a page by a mapping would give it memory, which nobody has reserved.
#[cfg(any(test, feature = "internals"))]
pub fn word_at(file: &File, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut word, at).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// Returns where from `at` on a file has memory. This moves the position of the descriptor.
#[cfg(any(test, feature = "internals"))]
pub fn next_filled(file: &File, at: u64) -> Option<u64> {
    let next = nix::unistd::lseek(file, i64::try_from(at).ok()?, nix::unistd::Whence::SeekData).ok()?;
    u64::try_from(next).ok()
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
            assert_eq!((meta.len(), is_memfd(&file)), (8192, backing == Backing::Memfd));
            assert_eq!(meta.nlink(), 0, "{backing:?}");
        }
    }

    #[test]
    fn reserving_more_than_there_is_names_the_remedy() {
        let file = unnamed(1 << 50, Backing::DevShm).unwrap();
        let sentence = reserve(&file, 0, 1 << 50).unwrap_err().message.clone();
        assert!(sentence.contains("/dev/shm holds") && sentence.contains("--shm-size"), "{sentence}");
        assert!(sentence.contains("PENNY_SHM=memfd"), "{sentence}");
    }

    #[test]
    fn the_size_of_a_memfd_is_final() {
        let file = unnamed(8192, Backing::Memfd).unwrap();
        for bytes in [0, 4096, 16384] {
            assert_eq!(file.set_len(bytes).unwrap_err().raw_os_error(), Some(libc::EPERM), "{bytes}");
        }
        check_sealed(&file).unwrap();
    }

    #[test]
    fn a_memfd_that_can_be_shrunk_is_refused_and_a_file_in_dev_shm_is_not() {
        let sentence = check_sealed(&memfd().unwrap()).unwrap_err().message.clone();
        assert!(sentence.contains("not sealed"), "{sentence}");
        check_sealed(&unnamed(4096, Backing::DevShm).unwrap()).unwrap();
    }

    #[test]
    fn where_dev_shm_has_too_little_room_a_memfd_takes_its_place() {
        let total = dev_shm_space().unwrap().0 as usize;
        assert!(is_memfd(&create(1 << 20, 4096, total + 1).unwrap()));
        assert!(!is_memfd(&create(1 << 20, 4096, 4096).unwrap()));
    }
}
