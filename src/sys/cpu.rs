//! Which cores this process may use, how many, and giving one up.

use crate::sync::prim::{AtomicU64, Ordering};
use std::io::Read;
use std::path::Path;

/// Cores that the calling thread's affinity mask and its control group's quota leave it.
///
/// The quota lies in files, which are read again only where the mask has another number of cores than the last time: every
/// communicator asks.
pub fn usable_cores() -> usize {
    // Bits 0..32: number of cores in the mask at the last look-up. Bits 32..64: the result of that look-up.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let found = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let Some(mask) = affinity(0).map(|mask| count(&mask)) else { return found() };
    let known = KNOWN.load(Ordering::Relaxed);
    if known as u32 == mask {
        return (known >> 32) as usize;
    }
    let cores = found();
    KNOWN.store(u64::from(mask) | (cores as u64) << 32, Ordering::Relaxed);
    cores
}

/// Cores that this host, or the part of it that the control group is, offers its processes, whatever launchers bind them to.
pub fn cores_of_host() -> usize {
    let (usable, all) = (usable_cores(), cores_of_group().unwrap_or(0));
    let bound = affinity(0).map_or(0, |mask| count(&mask) as usize);
    // A quota of time counts for a process that may run anywhere. A bound one cannot tell it.
    if bound < all { all } else { usable }
}

/// Returns how many cores the control group's set has, or that of the nearest group around it that tells; if none tells, how many
/// cores are online.
fn cores_of_group() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // The second version of control groups has one line, 0::/path; the first a line for each kind, 3:cpuset:/path.
    let path = |kind: &str| {
        groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(kind)).unwrap_or("/")
    };
    let sets = [
        ("/sys/fs/cgroup", path(":"), "cpuset.cpus.effective"),
        ("/sys/fs/cgroup/cpuset", path("cpuset:"), "cpuset.effective_cpus"),
    ];
    let of_groups = sets.iter().find_map(|(root, own, file)| {
        let text = |group: &Path| {
            let group = group.strip_prefix("/").unwrap_or(group);
            std::fs::read_to_string(Path::new(root).join(group).join(file)).ok()
        };
        Path::new(own).ancestors().filter_map(text).find_map(|text| cores_in_list(&text))
    });
    of_groups.or_else(online_cores)
}

/// Counts the cores of this host that are online, for any process.
pub fn online_cores() -> Option<usize> {
    cores_in_list(&std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// Counts the cores of a list such as `0-3,8`.
fn cores_in_list(text: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last + 1).checked_sub(first)
    };
    text.trim().split(',').map(count).sum::<Option<usize>>().filter(|cores| *cores > 0)
}

/// Returns the numbers of the cores in the calling thread's affinity mask, such as `0-3,8`.
pub fn names_of_usable() -> String {
    let Some(mask) = affinity(0) else { return "unknown".into() };
    // SAFETY: the set was filled by the kernel, and no core is outside of it.
    let has = |core: usize| core < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(core, &mask) };
    let mut ranges = Vec::new();
    let mut core = 0;
    while core < libc::CPU_SETSIZE as usize {
        let first = core;
        while has(core) {
            core += 1;
        }
        match core - first {
            0 => core += 1,
            1 => ranges.push(first.to_string()),
            _ => ranges.push(format!("{first}-{}", core - 1)),
        }
    }
    ranges.join(",")
}

/// Returns the core on which the calling thread runs at this moment.
#[inline]
pub fn current() -> Option<u32> {
    // SAFETY: it takes nothing and returns a number.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Counts the processes that may run on one of the calling thread's cores. `None` among them: one that cannot be asked; it counts.
pub fn sharing_cores(processes: impl Iterator<Item = Option<u32>>) -> usize {
    let Some(mine) = affinity(0) else { return processes.count() };
    let shares = |process: &Option<u32>| {
        process.and_then(affinity).is_none_or(|theirs| {
            // SAFETY: both sets were filled by the kernel, and no core is outside of them.
            (0..libc::CPU_SETSIZE as usize)
                .any(|core| unsafe { libc::CPU_ISSET(core, &mine) && libc::CPU_ISSET(core, &theirs) })
        })
    };
    processes.filter(shares).count()
}

/// The affinity mask of a process, 0: of the calling thread; `None`: the kernel does not say, or has more cores than fit.
fn affinity(pid: u32) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of bits, for which zeros are valid.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local of the size that is passed.
    let asked =
        unsafe { libc::sched_getaffinity(pid as libc::pid_t, size_of::<libc::cpu_set_t>(), &mut mask) };
    (asked == 0 && count(&mask) > 0).then_some(mask)
}

fn count(mask: &libc::cpu_set_t) -> u32 {
    // SAFETY: a set of bits.
    unsafe { libc::CPU_COUNT(mask) as u32 }
}

/// Returns the name of this host's processor.
pub fn model() -> String {
    let mut text = String::new();
    // The first processor's lines tell; there may be thousands.
    let read = std::fs::File::open("/proc/cpuinfo").and_then(|f| f.take(4096).read_to_string(&mut text));
    read.ok().and_then(|_| model_in(&text)).unwrap_or_else(|| std::env::consts::ARCH.into())
}

/// Finds the name in the text of `/proc/cpuinfo`; where processors have none there, the numbers of maker and part.
fn model_in(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        Some(line.split_once(':')?.1.trim()).filter(|value| !value.is_empty())
    };
    let part = || Some(format!("{} {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").map(str::to_owned).or_else(part)
}

/// Lets another thread run on this core.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn cores_of_a_list_are_counted() {
        let counts = ["0-3,8\n", "0", "2-2", "", "x", "3-1"].map(cores_in_list);
        assert_eq!(counts, [Some(5), Some(1), Some(1), None, None, None]);
        assert!(cores_of_host() >= usable_cores());
    }

    #[test]
    fn a_processor_has_a_name_or_numbers() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7B13\n";
        assert_eq!(model_in(x86).as_deref(), Some("AMD EPYC 7B13"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
        assert_eq!(model_in(arm).as_deref(), Some("0x41 0xd4f"));
        assert_eq!(model_in(""), None);
        assert!(!model().is_empty());
    }

    #[test]
    fn the_cores_are_counted_anew_when_the_mask_changes() {
        let thread = || {
            let all = usable_cores();
            assert_eq!(all, std::thread::available_parallelism().unwrap().get());
            assert_eq!(usable_cores(), all);
            // SAFETY: a set of bits, for which zeros are valid; it is filled by the calls below.
            unsafe {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut mask), 0);
                let first =
                    (0..libc::CPU_SETSIZE as usize).find(|&core| libc::CPU_ISSET(core, &mask)).unwrap();
                libc::CPU_ZERO(&mut mask);
                libc::CPU_SET(first, &mut mask);
                assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &mask), 0);
            }
            assert_eq!(usable_cores(), 1);
            assert_eq!(sharing_cores([Some(std::process::id()), None, Some(u32::MAX >> 1)].into_iter()), 3);
        };
        // The mask is that of a thread.
        std::thread::spawn(thread).join().unwrap();
    }
}
