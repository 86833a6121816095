//! The processes above this one, from /proc: what identifies a job whose launcher says nothing about it.

use crate::sys::process;

/// One line of ancestors never gets longer than this; a loop cannot arise, but /proc is read while it changes.
const DEEPEST: usize = 64;

/// What /proc/PID/stat says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// At most 15 bytes of the program's name.
    name: String,
    parent: u32,
    /// In clock ticks since boot: with the PID it names a process for good.
    start: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Process> {
        // The name stands in parentheses and may hold any character, parentheses too.
        let (open, close) = (stat.find('(')?, stat.rfind(')')?);
        let mut fields = stat.get(close + 1..)?.split_ascii_whitespace();
        Some(Process {
            name: stat.get(open + 1..close)?.to_owned(),
            parent: fields.nth(1)?.parse().ok()?,
            start: fields.nth(17)?.parse().ok()?,
        })
    }
}

/// Returns the nearest process above this one that has one of these names, as text that no other process of this machine has.
pub fn nearest(names: &[&str]) -> Option<String> {
    climb(names, std::os::unix::process::parent_id(), &stat)
}

fn climb(names: &[&str], pid: u32, stat: &dyn Fn(u32) -> Option<String>) -> Option<String> {
    let found = above(pid, stat).find(|(_, process)| names.iter().any(|n| *n == process.name))?;
    let (pid, process) = found;
    Some(format!("{} {pid} {}", process.name, process.start))
}

/// Returns the line of processes that begins with `pid`, each the parent of the one before.
fn above(pid: u32, stat: &dyn Fn(u32) -> Option<String>) -> impl Iterator<Item = (u32, Process)> {
    let of = |pid: u32| Some((pid, Process::parse(&stat(pid)?)?));
    std::iter::successors(of(pid), move |(_, process)| of(process.parent)).take(DEEPEST)
}

/// Returns the processes above this one, the parent first.
fn ancestors() -> Vec<u32> {
    above(std::os::unix::process::parent_id(), &stat).map(|(pid, _)| pid).collect()
}

/// Tells whether a process is above this one.
pub fn is_above(pid: u32) -> bool {
    ancestors().contains(&pid)
}

/// Returns the file with a name that begins so, which the nearest process above this one has loaded that has any.
pub fn mapped_file(name: &str) -> Option<String> {
    ancestors().iter().find_map(|pid| process::mapped_file(&pid.to_string(), name))
}

fn stat(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, name: &str, parent: u32, start: u64) -> String {
        format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {start} 2 3 4")
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_is_read_whole() {
        let expected = Process { name: "a) b (c".into(), parent: 4, start: 77 };
        assert_eq!(Process::parse(&stat(9, "a) b (c", 4, 77)), Some(expected));
        assert_eq!(Process::parse("9 (cut"), None);
        assert_eq!(Process::parse(")("), None);
    }

    #[test]
    fn the_nearest_launcher_is_found_through_a_shell() {
        let tree = |pid: u32| match pid {
            30 => Some(stat(30, "sh", 20, 300)),
            20 => Some(stat(20, "hydra_pmi_proxy", 10, 200)),
            10 => Some(stat(10, "mpiexec", 1, 100)),
            1 => Some(stat(1, "init", 0, 0)),
            _ => None,
        };
        assert_eq!(
            climb(&["mpiexec", "hydra_pmi_proxy"], 30, &tree).as_deref(),
            Some("hydra_pmi_proxy 20 200")
        );
        assert_eq!(climb(&["mpiexec"], 30, &tree).as_deref(), Some("mpiexec 10 100"));
        assert_eq!(climb(&["orted"], 30, &tree), None);
    }

    #[test]
    fn this_process_has_a_parent_in_proc() {
        let parent = std::os::unix::process::parent_id();
        let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
        let found = nearest(&[name.trim_end()]).unwrap();
        assert!(found.starts_with(&format!("{} {parent} ", name.trim_end())), "{found}");
        assert!(is_above(parent) && !is_above(std::process::id()));
    }
}
