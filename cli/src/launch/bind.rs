//! Which cores each rank may use: all, or its share of them.

use std::io::{Error, ErrorKind};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// The value of `--bind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Ranks may use all cores that the launcher may use
    #[default]
    None,
    /// Each rank has its share of them for itself, in the order of their numbers
    Cores,
}

/// The cores of one rank.
#[derive(Clone, Copy)]
pub struct Share(CpuSet);

impl Share {
    /// Binds the calling process. Only makes a system call.
    pub fn bind(&self) -> std::io::Result<()> {
        Ok(sched_setaffinity(Pid::from_raw(0), &self.0)?)
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
    let share = |cores: &[usize]| {
        let mut set = CpuSet::new();
        cores.iter().try_for_each(|&core| set.set(core))?;
        Ok(Share(set))
    };
    all.chunks_exact(each).take(ranks as usize).map(share).collect()
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
                .map(|share| all.iter().filter(|&&core| share.0.is_set(core).unwrap()).count())
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
