//! What a process may do: as which user, and with how many open files.

use nix::sys::resource::{Resource, getrlimit};

/// The effective user of this process.
pub fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Returns how many file descriptors this process may hold.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_covers_the_descriptors_that_are_open() {
        assert!(descriptor_limit() > 2);
    }
}
