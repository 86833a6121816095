//! Running jobs, found through what processes have open.
//!
//! ```text
//!     /proc/PID/fd/N -> "/dev/shm/#77 (deleted)" or "/memfd:penny (deleted)"   the only ways to a file without a name
//! ```
//!
//! All ranks of a job hold the same file: its device and inode tell jobs apart. That of a job on a declared machine is its board, that of any other
//! the control segment of its communicators. A process counts as a rank if the file has its number, so that another `penny top` does not keep
//! a job alive that is over.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File as Opened, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use penny::internals::fabric::live::Snapshot;
use penny::internals::fabric::live::clock_segment::ClockSegment;
use penny::internals::transport::look::Communicators;
use penny::sim::topology::{self, Network};
use serde::Serialize;

use super::ranks::{History, RanksReport};
use super::report::Report;

/// The jobs that were running at the last look.
pub struct Jobs {
    pid: Option<u32>,
    known: BTreeMap<File, Job>,
    shown: Vec<File>,
}

/// Device and inode.
type File = (u64, u64);

/// One of them.
pub struct Job {
    pids: Vec<u32>,
    seen: Seen,
}

enum Seen {
    Board(Box<BoardJob>),
    Ranks { file: Opened, report: Option<RanksReport>, history: History },
}

/// The report of a job.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum JobReport {
    /// It stands on a declared machine.
    Ports(Report),
    /// It does not.
    Ranks(RanksReport),
}

impl JobReport {
    /// Returns the ranks' processes.
    pub fn pids(&self) -> &[u32] {
        match self {
            JobReport::Ports(report) => &report.pids,
            JobReport::Ranks(report) => &report.pids,
        }
    }
}

/// A job on a declared machine.
struct BoardJob {
    board: ClockSegment,
    /// The machine, if it can still be read and is the same.
    network: Option<Network>,
    now: Snapshot,
    before: Option<Snapshot>,
}

impl Jobs {
    /// Looks for the jobs of this user; with `pid`, only for the one to which that process belongs.
    pub fn new(pid: Option<u32>) -> Jobs {
        Jobs { pid, known: BTreeMap::new(), shown: Vec::new() }
    }

    /// Updates the list of jobs, and takes a snapshot of each.
    pub fn look(&mut self) {
        let mut holders: BTreeMap<File, Vec<(u32, PathBuf)>> = BTreeMap::new();
        for (pid, descriptor, file) in open_files() {
            holders.entry(file).or_default().push((pid, descriptor));
        }
        // A file that no process has open is gone, and its inode number may come back as another file's.
        self.known.retain(|file, _| holders.contains_key(file));
        self.shown.clear();
        for (file, holders) in holders {
            let job = match self.known.entry(file) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match Job::open(&holders) {
                    Some(job) => new.insert(job),
                    None => continue,
                },
            };
            job.look(&holders);
            let asked_for = self.pid.is_none_or(|pid| job.pids.iter().any(|&rank| descends(rank, pid)));
            if !job.pids.is_empty() && asked_for {
                self.shown.push(file);
            }
        }
        // A job on a declared machine has a control segment too.
        let boards = self.shown.iter().filter_map(|file| self.known.get(file)).filter(|job| job.is_board());
        let on_boards: BTreeSet<u32> = boards.flat_map(|job| job.pids.iter().copied()).collect();
        let is_on_board = |job: &Job| !job.is_board() && job.pids.iter().any(|pid| on_boards.contains(pid));
        self.shown.retain(|file| !self.known.get(file).is_some_and(is_on_board));
        self.number();
    }

    /// Tells apart the communicators that the same processes have made each by itself.
    fn number(&mut self) {
        let mut of_processes: BTreeMap<Vec<u32>, Vec<File>> = BTreeMap::new();
        for file in &self.shown {
            let pids = self.known.get(file).map(|job| job.pids.clone());
            of_processes.entry(pids.unwrap_or_default()).or_default().push(*file);
        }
        for files in of_processes.values().filter(|files| files.len() > 1) {
            for (index, file) in files.iter().enumerate() {
                if let Some(Job { seen: Seen::Ranks { report: Some(report), .. }, .. }) =
                    self.known.get_mut(file)
                {
                    report.place = Some([index + 1, files.len()]);
                }
            }
        }
    }

    /// What was found.
    pub fn list(&self) -> Vec<&Job> {
        self.shown.iter().filter_map(|file| self.known.get(file)).collect()
    }
}

impl Job {
    /// `None`: the file is none that tells of a job, or not yet.
    fn open(holders: &[(u32, PathBuf)]) -> Option<Job> {
        let (pid, descriptor) = holders.first()?;
        let board =
            OpenOptions::new().read(true).write(true).open(descriptor).ok().and_then(ClockSegment::observe);
        let seen = match board {
            Some(board) => {
                let now = Snapshot::of(&board);
                let network = machine(&now, *pid);
                Seen::Board(Box::new(BoardJob { board, network, now, before: None }))
            }
            None => {
                let file = Opened::open(descriptor).ok()?;
                if Communicators::of(&file).look().is_empty() {
                    return None;
                }
                Seen::Ranks { file, report: None, history: History::default() }
            }
        };
        Some(Job { pids: Vec::new(), seen })
    }

    fn is_board(&self) -> bool {
        matches!(self.seen, Seen::Board(_))
    }

    fn look(&mut self, holders: &[(u32, PathBuf)]) {
        let own = |ranks: BTreeSet<u32>| -> Vec<u32> {
            let holders: BTreeSet<u32> = holders.iter().map(|(pid, _)| *pid).collect();
            holders.into_iter().filter(|&pid| ranks.contains(&innermost(pid))).collect()
        };
        match &mut self.seen {
            Seen::Board(job) => {
                let now = Snapshot::of(&job.board);
                let first = self.pids.is_empty();
                self.pids = own(now.clocks.iter().map(|rank| rank.pid).collect());
                let before = std::mem::replace(&mut job.now, now);
                job.before = (!first).then_some(before);
            }
            Seen::Ranks { file, report, history } => {
                // Communicators come and go.
                let looks = Communicators::of(file).look();
                self.pids = own(looks.iter().flat_map(|look| &look.ranks).map(|rank| rank.pid).collect());
                *report = Some(RanksReport::new(&self.pids, &looks, history));
            }
        }
    }

    /// Returns the report; with `all`, it includes ports that carried nothing.
    pub fn report(&self, all: bool) -> Option<JobReport> {
        match &self.seen {
            Seen::Board(job) => {
                let BoardJob { network, now, before, .. } = &**job;
                Some(JobReport::Ports(Report::new(&self.pids, network.as_ref(), now, before.as_ref(), all)))
            }
            Seen::Ranks { report, .. } => report.clone().map(JobReport::Ranks),
        }
    }
}

/// Unnamed shared files that processes of this user have open: process, descriptor, file.
fn open_files() -> Vec<(u32, PathBuf, File)> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid.filter(|&pid| pid != std::process::id()) else { continue };
        // Other users' cannot be read, and a process may end at any moment.
        for descriptor in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let descriptor = descriptor.path();
            if !fs::read_link(&descriptor).is_ok_and(|link| is_unnamed(&link)) {
                continue;
            }
            // Opening anything but a plain file could wait or be noticed.
            if let Ok(file) =
                fs::metadata(&descriptor).map_err(drop).and_then(|m| m.is_file().then_some(m).ok_or(()))
            {
                found.push((pid, descriptor, (file.dev(), file.ino())));
            }
        }
    }
    found
}

fn is_unnamed(link: &Path) -> bool {
    let text = link.to_string_lossy();
    text.ends_with(" (deleted)") && ["/dev/shm/", "/memfd:penny"].iter().any(|place| text.starts_with(place))
}

/// Returns a process's PID in its own namespace: in a container it differs from the PID here.
fn innermost(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

/// Tells whether process `pid` is `from` or one of its descendants.
fn descends(mut pid: u32, from: u32) -> bool {
    // BOUND: no process has 64 ancestors; a PID that is used again must not make a circle.
    for _ in 0..64 {
        if pid == from {
            return true;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name, in brackets, may hold anything.
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

/// The machine on the board. A file that is named from where the job runs is looked for from there.
fn machine(glance: &Snapshot, pid: u32) -> Option<Network> {
    let from_there = format!("/proc/{pid}/cwd/{}", glance.spec);
    let specs = [glance.spec.as_str(), &from_there];
    specs.iter().filter_map(|spec| topology::open(spec).ok()).find(|network| network.hash() == glance.network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_without_a_name_are_looked_into() {
        for (link, unnamed) in [
            ("/dev/shm/#77 (deleted)", true),
            ("/memfd:penny (deleted)", true),
            ("/memfd:wayland (deleted)", false),
            ("/dev/shm/theirs", false),
            ("pipe:[7]", false),
        ] {
            assert_eq!(is_unnamed(Path::new(link)), unnamed, "{link}");
        }
    }

    #[test]
    fn a_process_belongs_to_those_that_started_it() {
        let own = std::process::id();
        assert!(descends(own, own) && descends(own, std::os::unix::process::parent_id()));
        assert!(!descends(own, u32::MAX));
        assert_ne!(innermost(own), 0);
    }
}
