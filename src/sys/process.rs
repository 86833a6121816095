//! Who is who: PIDs, start times, namespaces, scheduler states, random bytes.

use std::os::unix::fs::MetadataExt;

/// This process's PID.
pub fn pid() -> u32 {
    std::process::id()
}

/// What a process tells others, so that they recognise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// PID, in its own namespace.
    pub pid: u32,
    /// Start time, in clock ticks since boot.
    pub start: u64,
    /// Number of the PID namespace that its /proc shows and it lives in; 0: it has no such /proc.
    pub namespace: u64,
}

/// This process's card.
pub fn card() -> Card {
    let start = start_time(pid()).unwrap_or(0);
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    Card { pid: pid(), start, namespace: if sees_itself() { namespace } else { 0 } }
}

/// Does /proc show this process under its own PID? A /proc of another PID namespace does not, nor does none.
pub fn sees_itself() -> bool {
    let shown = std::fs::read_link("/proc/self").ok();
    shown.and_then(|name| name.to_str()?.parse().ok()) == Some(pid())
}

/// When a process started, in clock ticks since boot: with the PID it names a process for good.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// What the scheduler says of a process, in words; `None` if there is no such process.
pub fn state(pid: u32) -> Option<&'static str> {
    Some(match stat_field(pid, 3)?.as_str() {
        "R" => "running",
        // The first thread may end before the others.
        "Z" | "X" if stat_field(pid, 20)?.parse::<u32>().is_ok_and(|threads| threads > 1) => "running",
        "S" | "I" => "sleeping",
        "D" => "blocked in the kernel",
        "T" => "stopped by a signal",
        "t" => "stopped by a debugger",
        "Z" | "X" => "dead",
        _ => "in an unknown state",
    })
}

/// Field `number` (from 1, as in proc(5)) of /proc/PID/stat. The second, the name, may hold spaces and parentheses.
fn stat_field(pid: u32, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(number.checked_sub(3)?).map(str::to_owned)
}

/// Random bytes from the kernel.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    let mut filled = 0;
    while filled < N {
        // SAFETY: the range lies inside the array.
        let got = unsafe { libc::getrandom(bytes[filled..].as_mut_ptr().cast(), N - filled, 0) };
        if got > 0 {
            filled += got as usize;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_runs() {
        assert!(sees_itself() && card().namespace != 0);
        assert_eq!(Some(card().start), start_time(pid()));
        assert!(start_time(pid()).is_some());
        assert!(matches!(state(pid()), Some("running" | "sleeping")));
        assert_eq!(state(u32::MAX), None);
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<16>(), random::<16>());
    }
}
