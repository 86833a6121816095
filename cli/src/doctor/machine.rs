//! Cores, memory, instruction sets, launchers.

use std::path::{Path, PathBuf};
use std::process::Command;

use penny::internals::comm::find_host_profile;

use super::{Fact, size};
use crate::host_profile;

/// Returns the facts about this machine's hardware and launchers.
pub fn facts() -> Vec<Fact> {
    let mut facts = vec![cores(), memory(), nodes(), instructions(), profile()];
    facts.extend(["mpirun", "mpiexec", "srun", "torchrun"].map(launcher));
    facts
}

fn cores() -> Fact {
    match std::thread::available_parallelism() {
        Ok(cores) => Fact::ok("cores", format!("{cores} for this process")),
        Err(error) => Fact::warn("cores", error.to_string(), "Penny assumes one core and yields early"),
    }
}

fn memory() -> Fact {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match (kib(&text, "MemTotal"), kib(&text, "MemAvailable")) {
        (Some(total), Some(free)) => Fact::ok("memory", format!("{}, {} available", size(total), size(free))),
        _ => Fact::warn("memory", "unknown", "/proc/meminfo cannot be read; is /proc mounted?"),
    }
}

/// Returns the fact about NUMA nodes. Each rank reserves its own staging memory, on the node of its core.
fn nodes() -> Fact {
    let online = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    match online.trim() {
        "" => Fact::ok("NUMA nodes", "unknown: /sys does not tell"),
        "0" => Fact::ok("NUMA nodes", "1, so where pages lie makes no difference, and was not measured"),
        list => Fact::ok(
            "NUMA nodes",
            format!(
                "{list}; bind each rank to one; where its pages lie was not measured (/proc/PID/numa_maps tells)"
            ),
        ),
    }
}

/// Returns the value of a line of /proc/meminfo in bytes.
fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the fact about instruction sets for which the kernels have loops.
fn instructions() -> Fact {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! present {
            ($($name:tt)*) => { [$(($name, is_x86_feature_detected!($name))),*] };
        }
        let all = present!("avx2" "f16c" "avx512f" "avx512bw" "avx512dq" "avx512vl");
        let pick = |have| all.iter().filter(|f| f.1 == have).map(|f| f.0).collect::<Vec<_>>().join(" ");
        match (pick(true), pick(false)) {
            (have, lacks) if lacks.is_empty() => Fact::ok("instruction sets", have),
            (have, lacks) if have.is_empty() => {
                Fact::ok("instruction sets", format!("plain x86-64 (no {lacks})"))
            }
            (have, lacks) => Fact::ok("instruction sets", format!("{have} (no {lacks})")),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Fact::ok("instruction sets", format!("portable loops on {}", std::env::consts::ARCH))
}

fn profile() -> Fact {
    match host_profile::line(&find_host_profile()) {
        Ok(line) => Fact::ok("host profile", line),
        Err(why) => Fact::warn("host profile", why, host_profile::REMEDY),
    }
}

fn launcher(name: &'static str) -> Fact {
    let subject = format!("launcher {name}");
    match in_path(name) {
        None => Fact::ok(subject, "not in PATH (`penny run` needs none)"),
        // torchrun loads all of PyTorch to tell its version.
        Some(path) if name == "torchrun" => Fact::ok(subject, path.display().to_string()),
        Some(path) => {
            let version = version(&path).map_or(String::new(), |version| format!(": {version}"));
            Fact::ok(subject, format!("{}{version}", path.display()))
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let executable =
        |path: &PathBuf| path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok();
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(executable)
}

/// The first line of `--version` that has a digit in it.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_found_by_their_whole_name() {
        let text = "MemTotal:       24000 kB\nMemTotalX:  7 kB\nMemAvailable:    5 kB\n";
        assert_eq!(kib(text, "MemTotal"), Some(24_000 * 1024));
        assert_eq!(kib(text, "MemAvailable"), Some(5 * 1024));
        assert_eq!(kib(text, "Mem"), None);
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(in_path("sh").is_some());
        assert_eq!(in_path("no-such-program-anywhere"), None);
    }
}
