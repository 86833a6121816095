//! Starts the ranks of one program, ends them if they hang, and makes a program that fails smaller.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use penny_ffi_tests::hosts;

use crate::actor::Plant;
use crate::program::Program;

/// How programs are run.
pub struct Driver {
    pub library: PathBuf,
    /// What every process needs to draw the same program: `--ranks`, `--without`, `--hosts`.
    pub drawing: Vec<String>,
    /// The number of hosts.
    pub hosts: usize,
    pub plant: Option<Plant>,
    /// A guard, not a measurement: a program that has not ended by then hangs.
    pub guard: Duration,
    pub trace: bool,
}

/// What is left of a run that failed.
pub struct Failed {
    /// What each process and the driver say.
    pub story: String,
    pub hangs: bool,
}

impl Driver {
    /// Plays a program, all of it or the steps that are kept.
    pub fn play(
        &self,
        program: &Program,
        keep: Option<&BTreeSet<u32>>,
        guard: Duration,
    ) -> Result<(), Failed> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("penny-fuzz-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary folder");
        let job = format!("{:016x}{number:016x}", std::process::id());
        let job = (job.as_str(), hosts::port());
        let children: Vec<Child> =
            (0..program.processes).map(|process| self.start(program, process, keep, &dir, job)).collect();
        let ends = wait(children, guard);
        let verdict = if ends.iter().all(|end| end == "0") { Ok(()) } else { Err(story(&ends, &dir)) };
        let _ = fs::remove_dir_all(&dir);
        verdict
    }

    fn start(
        &self,
        program: &Program,
        process: usize,
        keep: Option<&BTreeSet<u32>>,
        dir: &Path,
        (job, port): (&str, u16),
    ) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PENNY_")) {
            command.env_remove(name);
        }
        command
            .args(["--process", &process.to_string(), "--seed", &program.seed.to_string(), "--dir"])
            .arg(dir);
        command.args(&self.drawing).arg("--library").arg(&self.library);
        if let Some(ids) = keep {
            command.args(["--keep", &list(ids)]);
        }
        if let Some(plant) = self.plant {
            command.args(["--plant", &format!("{plant:?}").to_lowercase()]);
        }
        if self.trace {
            command.arg("--trace");
        }
        command.envs(program.env.iter().copied());
        if program.launched {
            let (rank, ranks) = (process.to_string(), program.ranks.to_string());
            command.envs([("PENNY_JOB_ID", job), ("PENNY_RANK", &rank), ("PENNY_WORLD_SIZE", &ranks)]);
            command.env("PENNY_LOCAL_RANK", rank);
        }
        if self.hosts > 1 {
            let host = format!("host{}", process % self.hosts);
            command.envs(hosts::variables(&host, port, &hosts::Carrier::new()));
        }
        let file =
            |what: &str| File::create(dir.join(format!("{process}.{what}"))).expect("the folder is ours");
        let errors = if self.trace { Stdio::inherit() } else { file("err").into() };
        command.stdin(Stdio::null()).stdout(file("out")).stderr(errors).spawn().expect("this program starts")
    }

    /// The smallest set of steps that is found in `budget` and still fails.
    pub fn minimise(&self, program: &Program, hangs: bool, budget: Duration) -> BTreeSet<u32> {
        let end = Instant::now() + budget;
        let guard = if hangs { Duration::from_secs(12) } else { self.guard };
        let fails = |ids: &BTreeSet<u32>| {
            // What chance has a part in gets a second one.
            (0..2).any(|_| Instant::now() < end && self.play(program, Some(ids), guard).is_err())
        };
        let mut ids = program.ids();
        let mut part = ids.len().div_ceil(2);
        loop {
            let before = ids.len();
            let order: Vec<u32> = ids.iter().copied().collect();
            for some in order.chunks(part) {
                let fewer: BTreeSet<u32> = ids.iter().copied().filter(|id| !some.contains(id)).collect();
                if fewer.len() < ids.len() && fails(&fewer) {
                    let mut kept = program.clone();
                    kept.keep(&fewer);
                    ids = kept.ids();
                }
            }
            if Instant::now() >= end || (part == 1 && ids.len() == before) {
                return ids;
            }
            part =
                if ids.len() == before { part.div_ceil(2) } else { part.min(ids.len().div_ceil(2)).max(1) };
        }
    }
}

/// Numbers with commas between.
pub fn list(ids: &BTreeSet<u32>) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// How each process ended. When one has failed the others get a moment, and those that hang are ended.
fn wait(mut children: Vec<Child>, guard: Duration) -> Vec<String> {
    let mut until = Instant::now() + guard;
    let mut ends: Vec<Option<String>> = vec![None; children.len()];
    while ends.contains(&None) && Instant::now() < until {
        for (child, end) in children.iter_mut().zip(&mut ends).filter(|(_, end)| end.is_none()) {
            let Some(status) = child.try_wait().expect("a child can be waited for") else { continue };
            *end = Some(status.code().map_or_else(|| status.to_string(), |code| code.to_string()));
            if !status.success() {
                until = until.min(Instant::now() + Duration::from_secs(10));
            }
        }
        sleep(Duration::from_millis(1));
    }
    for (child, end) in children.iter_mut().zip(&ends) {
        if end.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    ends.into_iter().map(|end| end.unwrap_or_else(|| "hangs".to_owned())).collect()
}

/// What every process said, first those that did not merely hear of another's end, and where each thread was.
fn story(ends: &[String], dir: &Path) -> Failed {
    let mut said: Vec<(bool, String)> = Vec::new();
    for (process, end) in ends.iter().enumerate().filter(|(_, end)| *end != "0") {
        let read = |what: &str| fs::read_to_string(dir.join(format!("{process}.{what}"))).unwrap_or_default();
        let text = format!("process {process} ended with {end}\n{}{}", read("out"), read("err"));
        said.push((text.contains("FAIL 6 "), text));
    }
    said.sort_by_key(|(second, _)| *second);
    let mut story: String = said.into_iter().map(|(_, text)| text).collect();
    let hangs = ends.iter().any(|end| end == "hangs");
    if hangs {
        story.push_str("where each thread was:\n");
        let mut lines: Vec<String> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let of = name.strip_prefix("status.")?.replace('.', " thread ");
                Some(format!("    rank {of}: {}\n", fs::read_to_string(entry.path()).ok()?.trim_end()))
            })
            .collect();
        lines.sort();
        story.push_str(&lines.concat());
    }
    Failed { story, hangs }
}
