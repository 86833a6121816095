//! What each launcher leaves in the environment, as recorded from the real ones, and what is read from it.

use super::*;
use crate::bootstrap::launcher::{are_told_of_several_hosts, read};
use crate::bootstrap::published::KeyValueSpace;

/// Open MPI 5.0.11, `mpirun -n 2`, rank 1.
const OPEN_MPI_5: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 \
    OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=2 PMIX_RANK=1 \
    PMIX_NAMESPACE=prterun-vm-6476@1 PMIX_SERVER_URI2=prterun-vm-6476@0.0;tcp4://127.0.0.1:60743 PRTE_LAUNCHED=1";

/// Open MPI 4.1.8, `mpirun -n 2`, rank 1.
const OPEN_MPI_4: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 \
    OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=1209466881 OMPI_MCA_ess_base_vpid=1 \
    OMPI_MCA_orte_hnp_uri=1209466880.0;tcp://192.0.2.2:51909 \
    OMPI_MCA_orte_precondition_transports=c1fe7af51f310e77-83b1a2fd769c6982 PMIX_NAMESPACE=1209466881 PMIX_RANK=1 \
    PMIX_SERVER_URI2=1209466880.0;tcp4://127.0.0.1:33581";

/// MPICH 5.0.2, `mpiexec -n 2`, rank 1.
const MPICH: &str =
    "PMI_RANK=1 PMI_SIZE=2 PMI_FD=11 PMI_HOSTNAME=vm MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 HYDI_CONTROL_FD=7";

/// Intel MPI 2021, `mpiexec -n 2`, rank 1.
const INTEL_MPI: &str = "PMI_RANK=1 PMI_SIZE=2 PMI_FD=11 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 HYDRA_LAUNCH_TYPE=2 \
    I_MPI_HYDRA_UUID=42190000-c380-5b39-c660-060079caeb37";

/// What Slurm documents for a step of two tasks on one node, task 1.
const SLURM: &str = "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_NNODES=1 \
    SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=2";

/// What torchrun documents for `--standalone --nproc-per-node=2`, worker 1.
const TORCHRUN: &str = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
    ROLE_RANK=1 ROLE_NAME=default MASTER_ADDR=127.0.0.1 MASTER_PORT=40123 TORCHELASTIC_RESTART_COUNT=0 \
    TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_RUN_ID=1f0c";

const PENNY_RUN: &str =
    "PENNY_RANK=1 PENNY_WORLD_SIZE=2 PENNY_LOCAL_RANK=1 PENNY_JOB_ID=00112233445566778899aabbccddeeff";

const ENV: &str = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500";

const ALL: [(&str, &str); 8] = [
    ("penny run", PENNY_RUN),
    ("torchrun", TORCHRUN),
    ("Open MPI's mpirun", OPEN_MPI_5),
    ("Open MPI's mpirun", OPEN_MPI_4),
    ("MPICH's or Intel MPI's mpiexec", MPICH),
    ("MPICH's or Intel MPI's mpiexec", INTEL_MPI),
    ("env://", ENV),
    ("Slurm's srun", SLURM),
];

fn value(text: &str, name: &str) -> Option<String> {
    let pairs = text.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.filter(|(n, _)| *n == name).map(|(_, v)| v.to_owned()).next()
}

/// Read an environment that is written `NAME=value NAME=value`; of a name that stands twice, the first counts.
fn read_env(text: &str, series: u64) -> Result<Launched> {
    let value = |name: &str| value(text, name);
    let proxy =
        |names: &[&str]| names.contains(&"hydra_pmi_proxy").then(|| "hydra_pmi_proxy 6503 146000".into());
    read(&value, &proxy, series)
}

/// The same environment with some variables set otherwise; `NAME=` takes one away.
fn with(changes: &str, text: &str) -> String {
    format!("{changes} {text}")
}

fn derived(launched: &Launched) -> &DerivedPlace {
    match &launched.place {
        MeetingPlace::Derived(place) => place,
        MeetingPlace::Id(_) => panic!("no launcher makes ids"),
        MeetingPlace::Hosts(_) | MeetingPlace::Published(_) => panic!("these ranks are of one host"),
    }
}

#[test]
fn a_launcher_of_one_process_does_not_hide_that_another_has_started_many_on_several_hosts() {
    let alone = "PENNY_RANK=0 PENNY_WORLD_SIZE=1 PENNY_LOCAL_RANK=0 PENNY_JOB_ID=00112233445566778899aabbccddeeff RANK=0 WORLD_SIZE=1";
    let spread = with("OMPI_COMM_WORLD_LOCAL_SIZE=1", OPEN_MPI_5);
    for (text, are_several) in [
        (spread.clone(), true),
        (with(alone, &spread), true),
        (with(alone, OPEN_MPI_5), false),
        (with(PENNY_RUN, &spread), false),
        (alone.to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(are_told_of_several_hosts(&|name| value(&text, name)), are_several, "{text}");
    }
}

fn error_of(text: &str) -> Error {
    read_env(text, 0).err().unwrap_or_else(|| panic!("accepted: {text}"))
}

#[test]
fn every_launcher_is_recognised_and_says_who_we_are() {
    for (name, text) in ALL {
        let launched = read_env(text, 0).unwrap();
        assert_eq!((launched.launcher, launched.rank, launched.nranks), (name, 1, 2), "{text}");
        let local = (launched.local_rank, launched.local_size);
        assert_eq!(local, if name == "env://" { (None, None) } else { (Some(1), Some(2)) }, "{text}");
    }
}

#[test]
fn ranks_of_one_job_go_to_one_place_and_everything_else_goes_elsewhere() {
    let other_rank = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 PMI_RANK=0 MPI_LOCALRANKID=0 RANK=0 LOCAL_RANK=0 \
        SLURM_PROCID=0 SLURM_LOCALID=0 PENNY_RANK=0 PENNY_LOCAL_RANK=0 PMIX_RANK=0 PMI_FD=9";
    let mut names = BTreeSet::new();
    let mut secrets = BTreeSet::new();
    for (_, text) in ALL {
        let place = read_env(text, 0).unwrap();
        // Only the variables of the launcher itself may change, or another one would be recognised.
        let same: Vec<&str> = other_rank
            .split_ascii_whitespace()
            .filter(|c| text.split_ascii_whitespace().any(|t| t.split('=').next() == c.split('=').next()))
            .collect();
        let peer = read_env(&with(&same.join(" "), text), 0).unwrap();
        assert_eq!(peer.rank, 0);
        assert!(derived(&peer) == derived(&place), "{text}");
        names.insert(derived(&place).name.clone());
        secrets.insert(derived(&place).secret);
        names.insert(derived(&read_env(text, 1).unwrap()).name.clone());
    }
    let other_jobs = [
        with("PENNY_JOB_ID=00112233445566778899aabbccddeefe", PENNY_RUN),
        with("MASTER_PORT=40124", TORCHRUN),
        with("TORCHELASTIC_RESTART_COUNT=1", TORCHRUN),
        with("TORCHELASTIC_RUN_ID=2", TORCHRUN),
        with("PMIX_NAMESPACE=prterun-vm-6476@2", OPEN_MPI_5),
        with("OMPI_MCA_orte_precondition_transports=0-0", OPEN_MPI_4),
        with("I_MPI_HYDRA_UUID=21240000-4850-b14f-c660-06009edaa529", INTEL_MPI),
        with("SLURM_STEP_ID=1", SLURM),
        with("SLURM_JOB_ID=78", SLURM),
        with("MASTER_PORT=29501", ENV),
    ];
    for text in &other_jobs {
        let place = read_env(text, 0).unwrap();
        names.insert(derived(&place).name.clone());
        secrets.insert(derived(&place).secret);
    }
    assert_eq!(names.len(), 2 * ALL.len() + other_jobs.len());
    assert_eq!(secrets.len(), ALL.len() + other_jobs.len());
}

#[test]
fn another_user_goes_elsewhere_and_names_fit_a_socket_address() {
    let place = read_env(PENNY_RUN, u64::MAX).unwrap();
    let name = String::from_utf8(derived(&place).name.clone()).unwrap();
    assert!(name.starts_with(&format!("penny/job/{}/", crate::sys::credentials::uid())), "{name}");
    assert!(name.len() <= 107, "{name}");
    assert!(!name.contains("001122"), "the name tells the secret: {name}");
}

#[test]
fn of_nested_launchers_the_inner_one_counts() {
    let nested = [
        ("penny run", [PENNY_RUN, OPEN_MPI_5]),
        ("penny run", [PENNY_RUN, SLURM]),
        ("torchrun", [TORCHRUN, SLURM]),
        ("torchrun", [TORCHRUN, OPEN_MPI_5]),
        ("Open MPI's mpirun", [OPEN_MPI_4, SLURM]),
        ("Open MPI's mpirun", [OPEN_MPI_5, ENV]),
        ("MPICH's or Intel MPI's mpiexec", [MPICH, SLURM]),
        ("env://", [ENV, SLURM]),
    ];
    for (inner, both) in nested {
        assert_eq!(read_env(&both.join(" "), 0).unwrap().launcher, inner);
    }
}

#[test]
fn slurm_with_its_pmi_2_plugin_is_still_slurm() {
    let launched = read_env(&with("PMI_RANK=1 PMI_SIZE=2 PMI_FD=5 PMI_JOBID=77.0", SLURM), 0).unwrap();
    assert_eq!(launched.launcher, "Slurm's srun");
}

#[test]
fn variables_of_a_batch_script_do_not_hide_slurm() {
    let launched = read_env(&with("WORLD_SIZE=2 MASTER_ADDR=node1 MASTER_PORT=29500", SLURM), 0).unwrap();
    assert_eq!(launched.launcher, "Slurm's srun");
}

#[test]
fn a_missing_variable_is_named_with_the_remedy() {
    let cases = [
        ("PENNY_JOB_ID", "PENNY_RANK=1 PENNY_WORLD_SIZE=2"),
        ("PENNY_WORLD_SIZE", "PENNY_RANK=1 PENNY_JOB_ID=00112233445566778899aabbccddeeff"),
        ("PENNY_RANK", "PENNY_WORLD_SIZE=2 PENNY_JOB_ID=00112233445566778899aabbccddeeff"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=x"),
        ("PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2"),
        ("PMI_SIZE", "PMI_RANK=0"),
        ("MASTER_ADDR", "RANK=0 WORLD_SIZE=2"),
        ("MASTER_PORT", "RANK=0 WORLD_SIZE=2 MASTER_ADDR=x"),
        ("SLURM_STEP_ID", "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=77"),
        ("SLURM_NTASKS", "SLURM_PROCID=0 SLURM_JOB_ID=77 SLURM_STEP_ID=0"),
    ];
    for (missing, text) in cases {
        let error = error_of(text);
        assert_eq!(error.code, Code::InvalidUsage);
        assert!(error.message.contains(missing) && error.message.contains("penny run"), "{text}: {error}");
    }
}

#[test]
fn a_malformed_value_is_shown_with_its_variable() {
    let cases = [
        ("PENNY_RANK", "one", PENNY_RUN),
        ("PENNY_JOB_ID", "12", PENNY_RUN),
        ("OMPI_COMM_WORLD_RANK", "-1", OPEN_MPI_5),
        ("MPI_LOCALNRANKS", "many", MPICH),
        ("LOCAL_RANK", "1.5", TORCHRUN),
        ("SLURM_LOCALID", "99999999999", SLURM),
    ];
    for (name, value, text) in cases {
        let error = error_of(&with(&format!("{name}={value}"), text));
        assert_eq!(error.code, Code::InvalidUsage);
        assert!(error.message.starts_with(&format!("{name} is \"{value}\"")), "{error}");
    }
}

#[test]
fn a_rank_that_cannot_be_is_refused() {
    for changes in ["PENNY_RANK=2", "PENNY_WORLD_SIZE=0", "PENNY_WORLD_SIZE=5000"] {
        let error = error_of(&with(changes, PENNY_RUN));
        assert!(error.message.starts_with("penny run says that this is rank "), "{error}");
    }
}

#[test]
fn a_job_on_two_hosts_meets_at_rank_0s_host_or_is_told_what_is_missing() {
    let secret = "PENNY_SECRET=0123456789abcdef MASTER_ADDR=node7";
    let cases = [
        ("OMPI_COMM_WORLD_SIZE=4", OPEN_MPI_5),
        ("PMI_SIZE=4", MPICH),
        ("WORLD_SIZE=4 GROUP_WORLD_SIZE=2", TORCHRUN),
        ("SLURM_STEP_NUM_NODES=2", SLURM),
        ("SLURM_STEP_NUM_NODES= SLURM_NNODES=2", SLURM),
    ];
    for (changes, text) in cases {
        // A launcher that passes nothing on.
        let several = with(&with(&with(secret, "PMI_FD= PMIX_RANK="), changes), text);
        let met = read_env(&several, 0).unwrap();
        assert!(met.place.is_of_hosts(), "{several}");
        for (change, word) in [
            ("PENNY_SECRET=", "set PENNY_SECRET to"),
            ("PENNY_SECRET=short", "fewer than 16"),
            ("MASTER_ADDR=", "MASTER_ADDR is not set"),
            ("PENNY_NET=off", "PENNY_NET is `off`"),
            ("MASTER_PORT=70000", "ports end at 65535"),
        ] {
            let error = error_of(&with(change, &several));
            assert_eq!(error.code, Code::InvalidUsage);
            assert!(error.message.contains(word), "{error}");
        }
    }
    // `penny run` tells the secret itself, but one that is set counts.
    let told = read_env(&with("PENNY_LOCAL_SIZE=1 MASTER_ADDR=a", PENNY_RUN), 0).unwrap();
    assert!(told.place.is_of_hosts() && !read_env(PENNY_RUN, 0).unwrap().place.is_of_hosts());
    let short = with("PENNY_SECRET=short PENNY_LOCAL_SIZE=1 MASTER_ADDR=a", PENNY_RUN);
    assert!(error_of(&short).message.contains("fewer than 16"));
}

#[test]
fn what_the_user_does_not_tell_rank_0_publishes_through_the_launcher() {
    let slurm =
        with("PMIX_NAMESPACE=slurm.pmix.77.0 PMIX_RANK=1 PMIX_SERVER_URI2=x SLURM_STEP_NUM_NODES=2", SLURM);
    let cases = [
        (with("OMPI_COMM_WORLD_SIZE=4", OPEN_MPI_5), KeyValueSpace::Pmix),
        (with("PMI_SIZE=4", MPICH), KeyValueSpace::Pmi(11)),
        (with("PMI_SIZE=4", INTEL_MPI), KeyValueSpace::Pmi(11)),
        (slurm, KeyValueSpace::Pmix),
    ];
    for (text, space) in cases {
        let published = |change: &str| match read_env(&with(change, &text), 3).unwrap().place {
            MeetingPlace::Published(place) => place,
            _ => panic!("{change} {text}"),
        };
        let place = published("");
        assert_eq!((place.space, place.series), (space, 3));
        assert_eq!((place.master, place.secret), ((None, None), None));
        assert_eq!(published("MASTER_ADDR=node7 MASTER_PORT=7").master, (Some("node7".into()), Some(7)));
        assert_eq!(published("PENNY_SECRET=0123456789abcdef").secret.as_deref(), Some("0123456789abcdef"));
        assert!(error_of(&with("PENNY_SECRET=short", &text)).message.contains("fewer than 16"));
        assert!(error_of(&with("PENNY_NET=off", &text)).message.contains("PENNY_NET is `off`"));
        let both = read_env(&with("PENNY_SECRET=0123456789abcdef MASTER_ADDR=node7", &text), 0).unwrap();
        assert!(matches!(both.place, MeetingPlace::Hosts(_)), "the launcher is not asked for what is known");
    }
}

#[test]
fn without_a_launcher_the_error_lists_them() {
    let error = error_of("HOME=/root WORLD_SIZE=1 PMI_RANK=");
    assert_eq!(error.code, Code::InvalidUsage);
    for word in
        ["penny run -n N", "mpirun", "mpiexec", "srun", "torchrun", "WORLD_SIZE is set, but RANK is not"]
    {
        assert!(error.message.contains(word), "{error}");
    }
}

#[test]
fn pmi_ranks_without_a_launcher_above_them_have_no_identity() {
    let value = |name: &str| ["PMI_RANK", "PMI_SIZE"].iter().position(|n| *n == name).map(|i| i.to_string());
    let error = read(&value, &|_| None, 0).err().unwrap();
    assert!(error.message.contains("no process above this one is mpiexec"), "{error}");
}
