//! What each launcher tells its ranks, by the variables that it sets.

use super::{Env, Job};
use crate::bootstrap::published::KeyValueSpace;
use crate::error::{Error, Result};

pub(super) fn penny_run(env: &Env<'_>) -> Result<Job> {
    let id = env.text("PENNY_JOB_ID")?;
    if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Error::usage(format!(
            "PENNY_JOB_ID is {id:?}, not 32 hexadecimal digits; `penny run` sets it, so let nothing else change it"
        )));
    }
    let nranks = env.number("PENNY_WORLD_SIZE")?;
    Ok(Job {
        rank: env.number("PENNY_RANK")?,
        nranks,
        local_rank: env.optional("PENNY_LOCAL_RANK")?,
        local_size: Some(env.optional("PENNY_LOCAL_SIZE")?.unwrap_or(nranks)),
        hosts: None,
        identity: vec![id.to_ascii_lowercase()],
        global: 1,
        secret: Some(id.to_ascii_lowercase()),
        space: None,
    })
}

/// torchrun, and users who set the same variables by hand. `LOCAL_RANK` may be 0 on every worker, so it is only passed on.
pub(super) fn torchrun(env: &Env<'_>) -> Result<Job> {
    let optional =
        ["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"].map(|n| (env.lookup)(n).unwrap_or_default());
    let mut identity = vec![env.text("MASTER_ADDR")?, env.text("MASTER_PORT")?];
    identity.extend(optional);
    Ok(Job {
        rank: env.number("RANK")?,
        nranks: env.number("WORLD_SIZE")?,
        local_rank: env.optional("LOCAL_RANK")?,
        local_size: env.optional("LOCAL_WORLD_SIZE")?,
        hosts: env.optional("GROUP_WORLD_SIZE")?,
        global: identity.len(),
        identity,
        secret: None,
        space: None,
    })
}

pub(super) fn open_mpi(env: &Env<'_>) -> Result<Job> {
    let names = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid"];
    let job = env.first_of(&names).ok_or_else(|| {
        Error::usage(format!(
            "none of {} is set, so nothing tells this job from another one; hand {}'s whole environment on to every \
             rank, or use `penny run -n N`",
            names.join(", "),
            env.launcher
        ))
    })?;
    // Version 4 numbers its jobs with few bits; the server's address and the job's random key make them distinct.
    let more = ["PMIX_SERVER_URI2", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_orte_precondition_transports"];
    let mut identity = vec![job];
    identity.extend(more.map(|n| (env.lookup)(n).unwrap_or_default()));
    Ok(Job {
        rank: env.number("OMPI_COMM_WORLD_RANK")?,
        nranks: env.number("OMPI_COMM_WORLD_SIZE")?,
        local_rank: env.optional("OMPI_COMM_WORLD_LOCAL_RANK")?,
        local_size: env.optional("OMPI_COMM_WORLD_LOCAL_SIZE")?,
        hosts: None,
        identity,
        // The servers' addresses differ from host to host.
        global: 1,
        secret: None,
        space: env.pmix(),
    })
}

/// The process managers that speak PMI. MPICH's names its job nowhere, but every rank of a host has the same proxy above it.
pub(super) fn hydra(env: &Env<'_>) -> Result<Job> {
    let proxies = ["hydra_pmi_proxy", "mpiexec.hydra", "mpiexec.gforker", "mpiexec", "mpirun"];
    let uuid = env.first_of(&["I_MPI_HYDRA_UUID"]);
    // A proxy is of one host.
    let global = usize::from(uuid.is_some());
    let identity = uuid.or_else(|| (env.ancestor)(&proxies)).ok_or_else(|| {
        Error::usage(
            "PMI_RANK is set, but no process above this one is mpiexec or its proxy, so nothing tells this job from \
             another one; start the ranks from mpiexec without a daemon or a PID namespace between, or use `penny run \
             -n N`",
        )
    })?;
    Ok(Job {
        rank: env.number("PMI_RANK")?,
        nranks: env.number("PMI_SIZE")?,
        local_rank: env.optional("MPI_LOCALRANKID")?,
        local_size: env.optional("MPI_LOCALNRANKS")?,
        hosts: None,
        identity: vec![identity],
        global,
        secret: None,
        space: env.optional("PMI_FD")?.and_then(|number| i32::try_from(number).ok()).map(KeyValueSpace::Pmi),
    })
}

pub(super) fn slurm(env: &Env<'_>) -> Result<Job> {
    let job = env.first_of(&["SLURM_JOB_ID", "SLURM_JOBID"]);
    let step = env.first_of(&["SLURM_STEP_ID", "SLURM_STEPID"]);
    let (Some(job), Some(step)) = (job, step) else {
        return Err(Error::usage(
            "SLURM_PROCID is set, but SLURM_JOB_ID or SLURM_STEP_ID is not: the program seems to run in the batch \
             script itself; start it with `srun`, or with `penny run -n N`",
        ));
    };
    let tasks =
        if (env.lookup)("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
    let nranks = env.number(tasks)?;
    let hosts = match env.optional("SLURM_STEP_NUM_NODES")? {
        Some(n) => Some(n),
        None => env.optional("SLURM_NNODES")?,
    };
    Ok(Job {
        rank: env.number("SLURM_PROCID")?,
        nranks,
        local_rank: env.optional("SLURM_LOCALID")?,
        local_size: hosts.filter(|n| *n == 1).map(|_| nranks),
        hosts,
        identity: vec![job, step],
        global: 2,
        secret: None,
        space: env.pmix(),
    })
}
