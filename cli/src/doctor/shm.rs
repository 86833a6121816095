//! Shared memory: /dev/shm, memfd, and segments that were left behind.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::statvfs;

use super::{Fact, Level, size};

const FOLDER: &str = "/dev/shm";

/// The prefix of the names of Penny's segments.
const PREFIX: &str = "penny-";

/// If /dev/shm is smaller than this, larger communicators fall back to memfd.
const COMFORTABLE: u64 = 256 << 20;

/// Returns the facts that tell whether ranks can share memory.
pub fn facts() -> Vec<Fact> {
    let memfd = memfd();
    let mut facts = vec![room(), writable()];
    if facts.iter().any(|fact| fact.level == Level::Bad) && memfd.level == Level::Ok {
        // Either /dev/shm or memfd is enough.
        for fact in &mut facts {
            fact.level = fact.level.min(Level::Warn);
        }
    }
    facts.push(memfd);
    facts.extend(segments(Path::new(FOLDER)));
    facts
}

fn room() -> Fact {
    let options = mount_options(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default(), FOLDER)
        .unwrap_or_else(|| "no mount of its own".to_owned());
    match statvfs(FOLDER) {
        Err(errno) => Fact::bad("/dev/shm", errno.desc(), "mount a tmpfs there"),
        Ok(fs) => {
            let (total, free) =
                (fs.blocks() * fs.fragment_size(), fs.blocks_available() * fs.fragment_size());
            let value = format!("{}, {} free ({options})", size(total), size(free));
            match free < COMFORTABLE {
                true => Fact::warn(
                    "/dev/shm",
                    value,
                    "make it larger (docker: --shm-size=1g); until then Penny uses memfd",
                ),
                false => Fact::ok("/dev/shm", value),
            }
        }
    }
}

/// The options of the last mount on a folder.
fn mount_options(mounts: &str, folder: &str) -> Option<String> {
    let fields = mounts.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|f| f.get(1) == Some(&folder)).find_map(|f| f.get(3).map(|options| options.to_string()))
}

fn writable() -> Fact {
    // A name of the doctor's own, so that no rank takes it for a segment.
    let path = Path::new(FOLDER).join(format!(".penny-doctor.{}", std::process::id()));
    let attempt = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let outcome = attempt.and_then(|mut file| file.write_all(&[1; 4096]));
    let _ = std::fs::remove_file(&path);
    match outcome {
        Ok(()) => Fact::ok("/dev/shm writable", "yes"),
        Err(error) => Fact::bad(
            "/dev/shm writable",
            error.to_string(),
            "its mode should be 1777, and it should have space",
        ),
    }
}

fn memfd() -> Fact {
    match memfd_create(c"penny-doctor", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING) {
        Ok(_) => Fact::ok("memfd", "yes, with seals"),
        Err(errno) => {
            Fact::warn("memfd", errno.desc(), "Penny then has nothing to fall back to when /dev/shm is full")
        }
    }
}

/// Returns the facts about segments that have a name. Penny removes the name as soon as all ranks have attached; so a named
/// segment that no process maps was left behind.
fn segments(folder: &Path) -> Vec<Fact> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    if paths.is_empty() {
        return vec![Fact::ok("segments", "no segment of Penny's has a name now")];
    }
    paths.iter().map(|path| segment(path)).collect()
}

fn segment(path: &Path) -> Fact {
    let meta = std::fs::metadata(path).ok();
    let bytes = meta.as_ref().map_or(0, |meta| meta.len());
    let uid = meta.as_ref().map_or(0, |meta| meta.uid());
    let what = format!("{} ({}, uid {uid})", path.display(), size(bytes));
    let users = users(path);
    if !users.is_empty() {
        let list = users.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        return Fact::ok("segment in use", format!("{what} by PID {list}"));
    }
    if uid != nix::unistd::geteuid().as_raw() {
        return Fact::ok("segment", format!("{what}: another user's; its processes cannot be seen"));
    }
    Fact::warn(
        "segment left over",
        what,
        format!("no process maps it; remove it with: rm {}", path.display()),
    )
}

/// The processes, of those that we may look into, that map a file.
fn users(path: &Path) -> Vec<u32> {
    let path = path.to_string_lossy();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let maps = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut pids: Vec<u32> =
        pids.filter(|pid| maps(pid).lines().any(|line| line.ends_with(&*path))).collect();
    pids.sort_unstable();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_on_a_folder_counts() {
        let mounts = "tmpfs /dev/shm tmpfs rw,size=64k 0 0\nproc /proc proc ro 0 0\nshm /dev/shm tmpfs rw,noexec 0 0\n";
        assert_eq!(mount_options(mounts, "/dev/shm").as_deref(), Some("rw,noexec"));
        assert_eq!(mount_options(mounts, "/dev"), None);
    }

    #[test]
    fn a_named_segment_that_no_process_maps_is_left_over() {
        let folder = std::env::temp_dir().join(format!("penny-doctor-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(segments(&folder).len(), 1);
        assert_eq!(segments(&folder)[0].level, Level::Ok);
        std::fs::write(folder.join("penny-0123"), "x").unwrap();
        std::fs::write(folder.join("another-program"), "x").unwrap();
        let facts = segments(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(facts.len(), 1, "{facts:?}");
        assert_eq!((facts[0].subject.as_str(), facts[0].level), ("segment left over", Level::Warn));
    }
}
