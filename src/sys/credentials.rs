//! What a process is to others: its user, its open-file limit, and random bytes that nobody can guess.

use std::io;

use nix::sys::resource::{Resource, getrlimit};

/// The effective user of this process.
pub fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// How many file descriptors this process may hold.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// 128 random bits from the kernel.
pub fn random128() -> io::Result<[u8; 16]> {
    let mut bytes = [0u8; 16];
    loop {
        // SAFETY: the pointer and the length are those of `bytes`, which is writable.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got == bytes.len() as isize {
            return Ok(bytes);
        }
        let error = io::Error::last_os_error();
        // Requests of at most 256 bytes are never cut short, so anything but EINTR is final.
        if got >= 0 || error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bits_differ_from_call_to_call() {
        assert_ne!(random128().unwrap(), random128().unwrap());
    }

    #[test]
    fn the_limit_covers_the_descriptors_that_are_open() {
        assert!(descriptor_limit() > 2);
    }
}
