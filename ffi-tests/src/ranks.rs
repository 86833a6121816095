//! Runs one program as several ranks and sees to it that it ends and leaves nothing behind.
//!
//! The ranks meet in two ways: by the variables that `penny run` sets (pennyCommInitFromEnv), or by an id that rank 0 writes
//! into the directory `TEST_DIR` (ffi-tests/c/check.h).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A guard, not a measurement: a program that has not ended by then hangs.
const LIMIT: Duration = Duration::from_secs(240);

/// Tells one launch of this process from the next.
static LAUNCH: AtomicU32 = AtomicU32::new(0);

/// Runs `program` in `folder` as `ranks` ranks with further variables; what each printed. A rank that fails, a hang or a name left in
/// /dev/shm is a panic that shows what every rank said.
#[track_caller]
pub fn run(program: &Path, folder: &Path, ranks: usize, env: &[(&str, &str)]) -> Vec<String> {
    run_within(LIMIT, program, folder, &vec![env; ranks])
}

/// The same with variables of its own for each rank.
#[track_caller]
pub fn run_each(program: &Path, folder: &Path, env: &[Vec<(String, String)>]) -> Vec<String> {
    let all: Vec<Vec<(&str, &str)>> = env
        .iter()
        .map(|of| of.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())
        .collect();
    let all: Vec<&[(&str, &str)]> = all.iter().map(Vec::as_slice).collect();
    run_within(LIMIT, program, folder, &all)
}

#[track_caller]
fn run_within(limit: Duration, program: &Path, folder: &Path, env: &[&[(&str, &str)]]) -> Vec<String> {
    let ranks = env.len();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let before = shared_names();
    let job = format!("{:016x}{:016x}", process::id(), LAUNCH.fetch_add(1, Ordering::Relaxed));
    let children = (0..ranks)
        .map(|rank| {
            let mut command = Command::new(program);
            command.current_dir(folder).envs(env[rank].iter().copied());
            start(command, rank, ranks, dir.path(), &job)
        })
        .collect();
    let codes = wait(children, limit);
    let text = |rank: usize, what: &str| {
        fs::read_to_string(dir.path().join(format!("{rank}.{what}"))).expect("output")
    };
    let good = codes.iter().all(|code| code == "0");
    let story: String = (0..ranks)
        .map(|rank| {
            format!("--- rank {rank}: exit {}\n{}{}", codes[rank], text(rank, "out"), text(rank, "err"))
        })
        .collect();
    assert!(good, "{} on {ranks} ranks, {:?}:\n{story}", program.display(), env.first());
    let left = left_behind(&before);
    assert!(left.is_empty(), "{} on {ranks} ranks left {left:?} in /dev/shm", program.display());
    (0..ranks).map(|rank| text(rank, "out")).collect()
}

fn start(mut program: Command, rank: usize, ranks: usize, dir: &Path, job: &str) -> Child {
    let file = |what: &str| File::create(dir.join(format!("{rank}.{what}"))).expect("output");
    let (out, err) = (file("out"), file("err"));
    let (rank, ranks) = (rank.to_string(), ranks.to_string());
    program
        .envs([
            ("PENNY_JOB_ID", job),
            ("PENNY_RANK", &rank),
            ("PENNY_WORLD_SIZE", &ranks),
            ("PENNY_LOCAL_RANK", &rank),
        ])
        .envs([("TEST_RANK", &rank), ("TEST_RANKS", &ranks)])
        .envs([("TEST_DIR", dir)])
        .env("PENNY_TIMEOUT", "60")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap_or_else(|error| panic!("{program:?}: {error}"))
}

/// How each rank ended: its exit code, its signal, or that it had to be killed.
fn wait(mut children: Vec<Child>, limit: Duration) -> Vec<String> {
    let end = Instant::now() + limit;
    let mut codes = vec![None; children.len()];
    while codes.contains(&None) && Instant::now() < end {
        for (child, code) in children.iter_mut().zip(&mut codes) {
            if code.is_none() {
                *code =
                    child.try_wait().expect("a child can be waited for").map(|status| match status.code() {
                        Some(code) => code.to_string(),
                        None => status.to_string(),
                    });
            }
        }
        sleep(Duration::from_millis(2));
    }
    for (child, code) in children.iter_mut().zip(&codes) {
        if code.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    codes.into_iter().map(|code| code.unwrap_or_else(|| "hangs".into())).collect()
}

/// Our names in /dev/shm.
fn shared_names() -> BTreeSet<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.contains("penny"))
        .collect()
}

/// Names that have come since and that no process has open: another program of this user may be at work.
fn left_behind(before: &BTreeSet<String>) -> Vec<String> {
    let mut left: Vec<_> = shared_names().difference(before).cloned().collect();
    for _ in 0..20 {
        let used = in_use();
        let now = shared_names();
        left.retain(|name| now.contains(name) && !used.iter().any(|path| path.contains(name.as_str())));
        if left.is_empty() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    left
}

/// What this user's processes have mapped or open in /dev/shm.
fn in_use() -> Vec<String> {
    let me = fs::metadata("/proc/self").map(|meta| meta.uid()).ok();
    let mut paths = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = process.path();
        if process.metadata().map(|meta| meta.uid()).ok() != me {
            continue;
        }
        let maps = fs::read_to_string(path.join("maps")).unwrap_or_default();
        paths.extend(maps.lines().filter(|line| line.contains("/dev/shm/")).map(str::to_owned));
        let open = fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
        paths
            .extend(open.filter_map(|fd| fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok()));
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::panic::catch_unwind;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Waits until no other of these tests runs: they would be blamed for a name that one leaves in shared memory.
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the harness says about a shell script that runs as two ranks.
    fn verdict(script: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("script");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        catch_unwind(|| {
            run_within(Duration::from_secs(2), &program, dir.path(), &[&[("WORD", "good")][..]; 2])
        })
        .map_err(|panic| panic.downcast_ref::<String>().unwrap().clone())
    }

    #[test]
    fn each_ranks_output_is_returned_in_rank_order() {
        let _turn = turn();
        assert_eq!(
            verdict("echo $WORD $PENNY_RANK of $TEST_RANKS"),
            Ok(vec!["good 0 of 2\n".into(), "good 1 of 2\n".into()])
        );
    }

    #[test]
    fn a_rank_that_fails_is_told_with_what_it_said() {
        let _turn = turn();
        let told = verdict("echo oh >&2; exit $PENNY_RANK").unwrap_err();
        assert!(told.contains("rank 0: exit 0") && told.contains("rank 1: exit 1\noh"), "{told}");
    }

    #[test]
    fn a_rank_that_hangs_is_killed_and_told() {
        let _turn = turn();
        let told = verdict("[ $PENNY_RANK = 0 ] || exec sleep 1000").unwrap_err();
        assert!(told.contains("rank 0: exit 0") && told.contains("rank 1: exit hangs"), "{told}");
    }

    #[test]
    fn a_name_that_is_left_in_shared_memory_is_told() {
        let _turn = turn();
        let name = format!("penny-ffi-tests-{}", process::id());
        let told = verdict(&format!(": > /dev/shm/{name}")).unwrap_err();
        fs::remove_file(Path::new("/dev/shm").join(&name)).unwrap();
        assert!(told.contains(&name), "{told}");
    }
}
