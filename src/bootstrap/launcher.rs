//! Who we are and where to meet, from the variables that a launcher leaves in the environment.
//!
//! | launcher | recognised by | what tells one job from another |
//! |---|---|---|
//! | `penny run` | `PENNY_JOB_ID` or `PENNY_RANK` | `PENNY_JOB_ID` |
//! | torchrun | `TORCHELASTIC_RUN_ID` | run id, restart count, master's address and port |
//! | Open MPI 4, 5 | `OMPI_COMM_WORLD_RANK` | PMIx namespace or ORTE job id, server's address, the job's key |
//! | MPICH, Intel MPI | `PMI_RANK` | `I_MPI_HYDRA_UUID`, else the launcher's process above us |
//! | `env://` | `RANK` and `WORLD_SIZE` | `MASTER_ADDR`, `MASTER_PORT` |
//! | Slurm | `SLURM_PROCID` | job and step |
//!
//! The first row that is recognised counts, so that of nested launchers the inner one does: `penny run` may be started
//! by anything; torchrun is started by mpirun or srun, once a node, and hands their variables on to its workers;
//! mpirun runs inside Slurm's steps and allocations, whose variables it hands on as well. `RANK` and `WORLD_SIZE` are
//! names that anybody may have set, so a launcher that is sure of itself goes before them; Slurm does not, because
//! batch scripts set them under it on purpose.

mod jobs;

use super::network::place::HostsPlace;
use super::published::KeyValueSpace;
use super::{DerivedPlace, MeetingPlace, PublishedPlace};
use crate::bootstrap::ancestry;
use crate::error::{Error, Result};
use crate::hash::fnv128;
use crate::sync::lock::Mutex;
use crate::sys::credentials::uid;
use crate::types::MAX_RANKS;

/// The information of the launcher about this process.
pub struct Launched {
    /// The launcher.
    #[cfg(test)]
    pub launcher: &'static str,
    /// The rank of this process.
    pub rank: u32,
    /// The number of ranks.
    pub nranks: u32,
    /// The rank among the ranks of this host, if the launcher tells it.
    pub local_rank: Option<u32>,
    /// The number of ranks on this host, if the launcher tells it.
    #[cfg(test)]
    pub local_size: Option<u32>,
    /// The meeting place.
    pub place: MeetingPlace,
}

/// The port after which the ranks of several hosts meet, where the launcher names none.
const DEFAULT_PORT: u16 = 29_500;

/// Does a launcher say that the ranks run on several hosts?
pub fn tells_of_several_hosts() -> bool {
    are_told_of_several_hosts(&|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
}

/// The same from any set of variables. A launcher of one process does not count: `penny run -n 1` stands before the program where another
/// launcher starts many.
pub fn are_told_of_several_hosts(lookup: &dyn Fn(&str) -> Option<String>) -> bool {
    let nonempty = |name: &str| lookup(name).filter(|v| !v.is_empty());
    let has = |name: &str| nonempty(name).is_some();
    let read = |row: &Launcher| {
        (row.read)(&Env { launcher: row.name, lookup: &nonempty, ancestor: &ancestry::nearest })
    };
    let mut jobs = LAUNCHERS.iter().filter(|row| (row.recognised)(&has)).filter_map(|row| read(row).ok());
    jobs.find(|job| job.nranks != 1).is_some_and(|job| job.is_on_several_hosts())
}

/// Returns the name of the launcher that has left its variables; `None`: there is none.
pub fn name() -> Option<&'static str> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    LAUNCHERS.iter().find(|row| (row.recognised)(&has)).map(|row| row.name)
}

/// Reads the launcher's variables. Every call names a new place: the first call of every rank leads to one rendezvous,
/// the second to the next.
pub fn from_env() -> Result<Launched> {
    static SERIES: Mutex<u64> = Mutex::new(0);
    let lookup = |name: &str| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    let mut series = SERIES.lock();
    let launched = read(&lookup, &ancestry::nearest, *series)?;
    *series += 1;
    Ok(launched)
}

/// The same from any set of variables: `ancestor` finds the nearest process above us with one of these names, `series`
/// counts the communicators made so.
pub fn read(
    lookup: &dyn Fn(&str) -> Option<String>,
    ancestor: &dyn Fn(&[&str]) -> Option<String>,
    series: u64,
) -> Result<Launched> {
    let nonempty = |name: &str| lookup(name).filter(|v| !v.is_empty());
    let has = |name: &str| nonempty(name).is_some();
    let Some(row) = LAUNCHERS.iter().find(|row| (row.recognised)(&has)) else {
        return Err(nobody(&has));
    };
    let env = Env { launcher: row.name, lookup: &nonempty, ancestor };
    let job = (row.read)(&env)?;
    job.check(row.name)?;
    let place = match job.is_on_several_hosts() || nonempty("PENNY_HOST_ID").is_some() {
        true => job.place_of_hosts(&env, series)?,
        false => MeetingPlace::Derived(DerivedPlace::new(uid(), row.name, &job.identity, series)),
    };
    Ok(Launched {
        #[cfg(test)]
        launcher: row.name,
        rank: job.rank,
        nranks: job.nranks,
        local_rank: job.local_rank,
        #[cfg(test)]
        local_size: job.local_size,
        place,
    })
}

/// A test whether a variable is set and not empty.
type Has<'a> = dyn Fn(&str) -> bool + 'a;

/// A launcher and the way to recognise it.
struct Launcher {
    name: &'static str,
    recognised: fn(&Has<'_>) -> bool,
    read: fn(&Env<'_>) -> Result<Job>,
}

/// In the order in which they are looked for.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "penny run",
        recognised: |has| has("PENNY_JOB_ID") || has("PENNY_RANK"),
        read: jobs::penny_run,
    },
    Launcher { name: "torchrun", recognised: |has| has("TORCHELASTIC_RUN_ID"), read: jobs::torchrun },
    Launcher {
        name: "Open MPI's mpirun",
        recognised: |has| has("OMPI_COMM_WORLD_RANK"),
        read: jobs::open_mpi,
    },
    Launcher {
        name: "MPICH's or Intel MPI's mpiexec",
        // Slurm's PMI-2 plugin sets PMI_RANK too, but not hydra's local count.
        recognised: |has| has("PMI_RANK") && (has("MPI_LOCALNRANKS") || !has("SLURM_PROCID")),
        read: jobs::hydra,
    },
    Launcher { name: "env://", recognised: |has| has("RANK") && has("WORLD_SIZE"), read: jobs::torchrun },
    Launcher { name: "Slurm's srun", recognised: |has| has("SLURM_PROCID"), read: jobs::slurm },
];

/// The information of a launcher, before it is checked.
#[derive(Default)]
struct Job {
    rank: u32,
    nranks: u32,
    local_rank: Option<u32>,
    local_size: Option<u32>,
    hosts: Option<u32>,
    identity: Vec<String>,
    /// How many of the first entries of `identity` are the same on all hosts of the job.
    global: usize,
    /// What the launcher has told the ranks of this job alone.
    secret: Option<String>,
    /// How rank 0 can tell the others something through the launcher.
    space: Option<KeyValueSpace>,
}

impl Job {
    fn check(&self, launcher: &str) -> Result<()> {
        if self.nranks == 0 || self.nranks > MAX_RANKS || self.rank >= self.nranks {
            return Err(Error::usage(format!(
                "{launcher} says that this is rank {} of {}, but ranks count from 0 and a communicator has 1 to \
                 {MAX_RANKS} of them; start the program with fewer processes, or correct the variables",
                self.rank, self.nranks
            )));
        }
        Ok(())
    }

    fn is_on_several_hosts(&self) -> bool {
        self.local_size.is_some_and(|n| n < self.nranks) || self.hosts.is_some_and(|n| n > 1)
    }

    /// Returns where the ranks of several hosts meet. What the user does not tell, rank 0 publishes if the launcher passes it on.
    fn place_of_hosts(&self, env: &Env<'_>, series: u64) -> Result<MeetingPlace> {
        let (launcher, nranks) = (env.launcher, self.nranks);
        if (env.lookup)("PENNY_NET").as_deref() == Some("off") {
            return Err(Error::usage(format!(
                "{launcher} runs {nranks} ranks on more than one host{}, but PENNY_NET is `off`; unset it, or start all ranks on one \
                 host",
                self.local_size.map_or(String::new(), |n| format!(" ({n} on this one)"))
            )));
        }
        let secret = (env.lookup)("PENNY_SECRET").or_else(|| self.secret.clone());
        if secret.as_ref().is_some_and(|secret| secret.len() < 16) {
            return Err(Error::usage(
                "PENNY_SECRET has fewer than 16 characters, so that it could be guessed; set it to a longer random text, the same on \
                 all ranks (e.g. `openssl rand -hex 16`)",
            ));
        }
        let port = |port| {
            let wrong = |_| Error::usage(format!("MASTER_PORT is {port}; ports end at 65535"));
            u16::try_from(port).map_err(wrong)
        };
        let port = env.optional("MASTER_PORT")?.map(port).transpose()?;
        let (master, identity) = ((env.lookup)("MASTER_ADDR"), &self.identity[..self.global]);
        match (secret, master, self.space) {
            (Some(secret), Some(master), _) => {
                let master = (master.as_str(), port.unwrap_or(DEFAULT_PORT));
                HostsPlace::new(master, secret.as_bytes(), identity, series).map(MeetingPlace::Hosts)
            }
            (secret, master, Some(space)) => Ok(MeetingPlace::Published(PublishedPlace {
                space,
                master: (master, port),
                secret,
                identity: identity.to_vec(),
                series,
            })),
            (None, _, None) => Err(Error::usage(format!(
                "{launcher} runs {nranks} ranks on more than one host, and nothing that it tells them is secret: set PENNY_SECRET to the \
                 same 16 or more random characters on all ranks (e.g. `openssl rand -hex 16`), start them with `penny run --hosts`, \
                 or pass a unique id to pennyCommInitRank"
            ))),
            (_, None, None) => Err(Error::usage(format!(
                "{launcher} runs {nranks} ranks on more than one host, and MASTER_ADDR is not set: set it to a name or an address of the \
                 host of rank 0, the same on all ranks"
            ))),
        }
    }
}

/// The environment as one launcher's reader sees it.
struct Env<'a> {
    launcher: &'static str,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    ancestor: &'a dyn Fn(&[&str]) -> Option<String>,
}

impl Env<'_> {
    fn text(&self, name: &str) -> Result<String> {
        (self.lookup)(name).ok_or_else(|| {
            Error::usage(format!(
                "{name} is not set, though other variables of {} are; start the program with it (or with `penny run -n \
                 N`), and hand its whole environment on to every rank",
                self.launcher
            ))
        })
    }

    fn number(&self, name: &str) -> Result<u32> {
        let text = self.text(name)?;
        text.trim().parse().map_err(|_| {
            Error::usage(format!(
                "{name} is {text:?}, which is no rank or count; {} sets it, so let nothing else change it",
                self.launcher
            ))
        })
    }

    /// Returns a number that may be absent, but not malformed.
    fn optional(&self, name: &str) -> Result<Option<u32>> {
        (self.lookup)(name).map(|_| self.number(name)).transpose()
    }

    /// Tells whether the launcher serves PMIx.
    fn pmix(&self) -> Option<KeyValueSpace> {
        let names = ["PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI2"];
        names.iter().all(|name| (self.lookup)(name).is_some()).then_some(KeyValueSpace::Pmix)
    }

    /// Returns the first of these that is set.
    fn first_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|n| (self.lookup)(n))
    }
}

fn nobody(has: &Has<'_>) -> Error {
    let half = match (has("RANK"), has("WORLD_SIZE")) {
        (true, false) => " (RANK is set, but WORLD_SIZE is not)",
        (false, true) => " (WORLD_SIZE is set, but RANK is not)",
        _ => "",
    };
    Error::usage(format!(
        "no launcher has started this process{half}; start the program with `penny run -n N program`, mpirun or mpiexec \
         (Open MPI, MPICH, Intel MPI), srun or torchrun, or make a unique id and use pennyCommInitRank"
    ))
}

impl DerivedPlace {
    /// Both the name and the secret follow from the user, the launcher, the job and the series. The name is public, so
    /// it shows half as many bits as the secret has.
    fn new(uid: u32, launcher: &str, identity: &[String], series: u64) -> DerivedPlace {
        let job = |purpose: &str| {
            let parts = [purpose, launcher].into_iter().chain(identity.iter().map(String::as_str));
            // Each part ends with a byte that no part contains, so that no two lists run together.
            // The same in every version of Penny, so that ranks of two versions meet and can say so.
            fnv128(parts.flat_map(|p| p.bytes().chain([0])))
        };
        let public = job("name");
        let public = (public >> 64) as u64 ^ public as u64;
        DerivedPlace {
            name: format!("penny/job/{uid}/{public:016x}/{series}").into_bytes(),
            secret: job("secret").to_le_bytes(),
        }
    }
}
