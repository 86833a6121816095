//! Memory that this process can still fill: what the machine has available, and what its control groups allow.
//!
//! The kernel gives out pages of a memory file when they are touched. Where none is left it ends a process, so code that hands out such
//! pages asks here first.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the bytes that can still be filled; `None` where the kernel does not say.
pub fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.into_iter().chain(groups.lines().flat_map(of_group)).min()
}

/// Tells whether the kernel counts pages against its commit limit when they are touched (`vm.overcommit_memory` is 2): then a touch
/// beyond that is a SIGBUS.
pub fn is_committed_strictly() -> bool {
    fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2")
}

/// Reads the line `MemAvailable: N kB`.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files of a version of control groups: its folder, the limit, the use, and the line of `memory.stat` for what is given back
/// under pressure.
const V1: [&str; 4] =
    ["/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "];
const V2: [&str; 4] = ["/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "];

/// Returns what the group of a line of /proc/self/cgroup, `ID:CONTROLLERS:PATH`, and those above it allow.
fn of_group(line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let files = match controllers {
        "" => V2,
        _ if controllers.split(',').any(|name| name == "memory") => V1,
        _ => return None,
    };
    let top = Path::new(files[0]);
    // A container may see its own group as the top, and the path from outside of it.
    let group: PathBuf = top.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|group| group.starts_with(top)).filter_map(|group| left(group, files)).min()
}

/// Returns the limit of one group less its use; `None`: it has none.
fn left(group: &Path, [_, limit, used, reclaimable]: [&str; 4]) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, used) = (number(limit)?, number(used)?);
    let stat = read("memory.stat").unwrap_or_default();
    let given_back = stat.lines().find_map(|line| line.strip_prefix(reclaimable)?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(used.saturating_sub(given_back.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_available_and_not_more_than_it_has() {
        let bytes = bytes().expect("Linux says");
        assert!(bytes > 1 << 20 && bytes <= super::super::shm::physical_memory(), "{bytes}");
    }

    #[test]
    fn the_line_of_the_machine_is_read_in_kilobytes() {
        assert_eq!(of_machine("MemFree: 1 kB\nMemAvailable:    22 kB\n"), Some(22 << 10));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn a_group_allows_its_limit_less_what_it_keeps() {
        let dir = std::env::temp_dir().join(format!("penny-group-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 1\ninactive_file 200\n");
        assert_eq!(left(&dir, V2), Some(500));
        write("memory.max", "max\n");
        assert_eq!(left(&dir, V2), None);
        fs::remove_dir_all(&dir).unwrap();
    }
}
