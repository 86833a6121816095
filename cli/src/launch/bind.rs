//! Which cores each rank may use: all, or its share of them.
//!
//! Where the kernel divides cores among sessions first (`sched_autogroup_enabled`), the ranks of one session have half a session's
//! weight each, and one program of another session takes twice their time on a core. So ranks with cores of their own have sessions
//! of their own, as under the launchers of MPICH and Intel MPI, unless there is a terminal: its signals reach one session only
//! (docs/decisions/0101). Ranks that share cores must share the session: a yield does not leave it.

use std::io::{Error, ErrorKind};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, setsid};
use serde::{Deserialize, Serialize};

/// The value of `--bind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Ranks may use all cores that the launcher may use
    #[default]
    None,
    /// Each rank has its share of them for itself, in the order of their numbers, and where there is no terminal a session
    Cores,
}

/// The cores of one rank.
#[derive(Clone, Copy)]
pub struct Share {
    cores: CpuSet,
    /// The rank has a session of its own.
    has_session: bool,
}

impl Share {
    /// Tells whether the process that is bound will lead a session.
    pub fn has_session(&self) -> bool {
        self.has_session
    }

    /// Binds the calling process, which leads no process group. Only makes system calls.
    pub fn bind(&self) -> std::io::Result<()> {
        if self.has_session {
            setsid()?;
        }
        Ok(sched_setaffinity(Pid::from_raw(0), &self.cores)?)
    }
}

/// Returns each rank's cores, by its number on this host; none where ranks are not bound.
pub fn shares(bind: Bind, ranks: u32) -> std::io::Result<Vec<Share>> {
    if bind == Bind::None {
        return Ok(Vec::new());
    }
    let all = cores()?;
    let each = all.len() / ranks.max(1) as usize;
    if each == 0 {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "--bind cores: {ranks} ranks are more than the {} cores here; take fewer ranks, or --bind none",
                all.len()
            ),
        ));
    }
    let has_session = sessions_are_groups() && !has_terminal();
    let share = |numbers: &[usize]| {
        let mut cores = CpuSet::new();
        numbers.iter().try_for_each(|&core| cores.set(core))?;
        Ok(Share { cores, has_session })
    };
    all.chunks_exact(each).take(ranks as usize).map(share).collect()
}

/// Tells whether the kernel divides cores among sessions.
fn sessions_are_groups() -> bool {
    let enabled = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    enabled.is_ok_and(|enabled| enabled.trim() == "1")
}

/// Tells whether this process's session may have a terminal.
fn has_terminal() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name: state, parent, group, session, terminal.
    let terminal = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(4));
    terminal != Some("0")
}

/// Tells whether each of this number of ranks can have a core of its own.
pub fn suffice(ranks: u32) -> bool {
    cores().is_ok_and(|cores| cores.len() >= ranks as usize)
}

/// Returns the numbers of the cores that this process may use.
pub fn cores() -> std::io::Result<Vec<usize>> {
    let mine = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&core| mine.is_set(core).unwrap_or(false)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_equal_shares_that_do_not_overlap() {
        let all = cores().unwrap();
        let counts = |shares: &[Share]| -> Vec<usize> {
            shares
                .iter()
                .map(|share| all.iter().filter(|&&core| share.cores.is_set(core).unwrap()).count())
                .collect()
        };
        assert_eq!(counts(&shares(Bind::Cores, 1).unwrap()), [all.len()]);
        let alone = shares(Bind::Cores, all.len() as u32).unwrap();
        assert_eq!(counts(&alone), vec![1; all.len()]);
        assert!(shares(Bind::None, 5).unwrap().is_empty());
        let refused = shares(Bind::Cores, all.len() as u32 + 1).err().unwrap().to_string();
        assert!(refused.contains("--bind none"), "{refused}");
    }
}
