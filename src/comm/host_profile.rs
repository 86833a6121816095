//! Where the host profile lies, and whether there is a good one.
//!
//! ```text
//!     PENNY_HOST_PROFILE    unset: host-<cpu>-<cores>-cores-<version>.toml in ~/.cache/penny | a file | none
//! ```
//!
//! Rank 0 looks when a communicator is made that is not made from another, and tells all ranks what it found: other ranks may have
//! another home or see another file. A bad profile never fails a call.

use crate::env;
use crate::log;
use crate::planner::profile::{Host, HostProfile};
use crate::sys::cpu;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The variable that names another file.
const VARIABLE: &str = "PENNY_HOST_PROFILE";
/// A profile is no longer.
const MOST_BYTES: u64 = 1 << 20;

/// The outcome of a look for the host profile.
#[derive(Debug)]
pub enum HostProfileFound {
    /// `PENNY_HOST_PROFILE` says that none is to be used.
    Off,
    /// There is none; the file in which it would be, if the user has a folder for caches.
    None(Option<PathBuf>),
    /// A profile of this host.
    Good(PathBuf, HostProfile),
    /// A file that is no profile of this host, and why.
    Bad(PathBuf, String),
}

/// Describes this host as a profile does.
pub fn this_host() -> Host {
    Host { cpu: cpu::model(), cores: cpu::cores_of_host() }
}

/// Returns the file of this host's profile in the user's folder for caches.
pub fn host_profile_path() -> Option<PathBuf> {
    Some(env::cache_folder()?.join("penny").join(this_host().file_name()))
}

/// Looks for the host profile.
pub fn find_host_profile() -> HostProfileFound {
    let named = match env::get(VARIABLE) {
        Some(word) if word == "none" => return HostProfileFound::Off,
        named => named.map(PathBuf::from),
    };
    if named.is_none() && !env::cache_folder().is_some_and(|folder| folder.join("penny").is_dir()) {
        // The usual case costs no look at the processor.
        return HostProfileFound::None(None);
    }
    let Some(path) = named.clone().or_else(host_profile_path) else { return HostProfileFound::None(None) };
    match text_of(&path) {
        Ok(text) => match HostProfile::parse(&text, &this_host()) {
            Ok(profile) => HostProfileFound::Good(path, profile),
            Err(why) => HostProfileFound::Bad(path, why),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            HostProfileFound::None(Some(path))
        }
        Err(e) => HostProfileFound::Bad(path, format!("it cannot be read: {e}")),
    }
}

/// Finds the host profile for a communicator whose rank 0 this is.
pub(super) fn of_rank_0() -> Option<HostProfile> {
    static WARNED: OnceLock<()> = OnceLock::new();
    match find_host_profile() {
        HostProfileFound::Good(path, profile) => {
            log::info(0, format_args!("auto chooses by the host profile {}", path.display()));
            Some(profile)
        }
        HostProfileFound::Bad(path, why) => {
            if WARNED.set(()).is_ok() {
                // A file that the user names is missed at once.
                let told = if env::get(VARIABLE).is_some() { log::always } else { log::warn };
                told(
                    0,
                    format_args!(
                        "the host profile {} is not used: {why}; write a new one with `penny calibrate host`, or set {VARIABLE}=none",
                        path.display()
                    ),
                );
            }
            None
        }
        HostProfileFound::None(Some(path)) => {
            log::info(
                0,
                format_args!("no host profile {}; `penny calibrate host` writes it", path.display()),
            );
            None
        }
        HostProfileFound::Off | HostProfileFound::None(None) => None,
    }
}

/// The text of a regular file of a profile's length. A read of a pipe may last for ever.
fn text_of(path: &Path) -> std::io::Result<String> {
    let other = |why: String| std::io::Error::other(why);
    if !std::fs::metadata(path)?.is_file() {
        return Err(other("it is no regular file".into()));
    }
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(other(format!("it has more than {} MiB", MOST_BYTES >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::comm::host_profile::*;

    #[test]
    fn a_pipe_a_folder_and_a_file_without_end_are_no_profiles() {
        for path in ["/dev/zero", "/proc/self/fd", "/nowhere/at/all"] {
            assert!(text_of(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn this_host_has_a_name_and_cores() {
        let host = this_host();
        assert!(!host.cpu.is_empty() && host.cores >= 1);
        assert!(host.file_name().starts_with("host-") && host.file_name().ends_with(".toml"));
    }
}
