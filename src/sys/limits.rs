//! What this process's limits (`ulimit`) leave it. Asked before the kernel is: it answers some requests by a signal.

use crate::error::{Error, Result};
use nix::sys::resource::{Resource, getrlimit};

/// Addresses that a process has on a 64-bit machine.
const ADDRESSES: usize = 1 << 47;

fn limit(of: Resource) -> usize {
    getrlimit(of).map_or(usize::MAX, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}

/// Bytes that a file may have (`ulimit -f`). Shared memory is a file. Beyond it the kernel sends SIGXFSZ.
pub fn file_bytes() -> usize {
    limit(Resource::RLIMIT_FSIZE)
}

/// Returns an error that names `ulimit -f` if the limit forbids files of this size.
pub fn check_file(bytes: usize) -> Result<()> {
    let most = file_bytes();
    if bytes <= most {
        return Ok(());
    }
    Err(Error::system(format!(
        "shared memory of {bytes} bytes is larger than a file may be here, {most} bytes; raise `ulimit -f`"
    )))
}

/// Addresses that this process may still map: those of the machine or of `ulimit -v`, less those in use.
pub fn addresses_left() -> usize {
    let used = || -> Option<usize> {
        let pages =
            std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse::<usize>().ok()?;
        pages.checked_mul(super::remap::page())
    };
    limit(Resource::RLIMIT_AS).min(ADDRESSES).saturating_sub(used().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_some_addresses_and_has_more() {
        let left = addresses_left();
        assert!(left > 1 << 30 && left < ADDRESSES, "{left}");
    }

    #[test]
    fn no_file_holds_every_number_of_bytes() {
        check_file(4096).unwrap();
        if file_bytes() < usize::MAX {
            assert!(check_file(usize::MAX).unwrap_err().message.contains("ulimit -f"));
        }
    }
}
