//! Ranks on several hosts, which are this machine under several names.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

/// The file of a libfabric, if there is one: the one that the environment names, one of the system, or one that an MPI library has
/// brought along for the tests of the launchers (`.ci/launchers`). If there is none, a line says that the test is left out.
pub fn libfabric() -> Option<PathBuf> {
    let named = std::env::var_os("PENNY_LIBFABRIC").map(PathBuf::from);
    let system = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let target = crate::profile_dir().parent().expect("target/<profile>").join("mpi");
    let mpis = std::fs::read_dir(target).into_iter().flatten().flatten();
    let brought = mpis.flat_map(|of| ["openmpi", "mpich"].map(|name| of.path().join("lib").join(name)));
    let folders = system.iter().map(PathBuf::from).chain(brought);
    let found = named
        .into_iter()
        .chain(folders.map(|folder| folder.join("libfabric.so.1")))
        .find(|file| file.exists());
    if found.is_none() {
        println!("SKIPPED: there is no libfabric, over which ranks of several hosts communicate");
    }
    found
}

/// The variables of a rank on a host of this name. `port`: as for all ranks of the job.
pub fn variables(host: &str, port: u16, libfabric: &std::path::Path) -> Vec<(String, String)> {
    let pairs = [
        ("PENNY_HOST_ID", host),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", &port.to_string()),
        ("PENNY_LIBFABRIC", libfabric.to_str().expect("text")),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// A port for a job, whose next ones no other job of this process uses.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    16_000 + ((std::process::id() % 64) as u16 * 12 + NEXT.fetch_add(1, Ordering::Relaxed) % 12) * 17
}
