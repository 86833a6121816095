//! Resource limits that ranks run into.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::{Fact, size};

/// The most file descriptors that a rank needs at a time: sockets of the rendezvous, segments, pidfds of its peers.
const FILES: u64 = 64;
/// Address space that a communicator and a small heap take.
const SPACE: u64 = 1 << 30;

/// The limits.
pub fn facts() -> Vec<Fact> {
    vec![
        limit(
            "RLIMIT_NOFILE",
            Resource::RLIMIT_NOFILE,
            |n| n.to_string(),
            FILES,
            "raise it with: ulimit -n 1024",
        ),
        limit("RLIMIT_AS", Resource::RLIMIT_AS, size, SPACE, "raise it with: ulimit -v unlimited"),
        limit("RLIMIT_MEMLOCK", Resource::RLIMIT_MEMLOCK, size, 0, ""),
    ]
}

fn limit(name: &'static str, which: Resource, show: fn(u64) -> String, least: u64, remedy: &str) -> Fact {
    let text = |value| if value == RLIM_INFINITY { "unlimited".to_owned() } else { show(value) };
    match getrlimit(which) {
        Err(errno) => Fact::warn(name, errno.desc(), "the limit cannot be read"),
        Ok((soft, hard)) => {
            let value = match soft == hard {
                true => text(soft),
                false => format!("{} (may be raised to {})", text(soft), text(hard)),
            };
            if soft < least { Fact::warn(name, value, remedy) } else { Fact::ok(name, value) }
        }
    }
}
