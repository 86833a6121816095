//! Ranks on several hosts, which are this machine under several names.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

/// The variables by which ranks choose what carries their bytes.
pub type Carrier = Vec<(&'static str, String)>;

/// TCP, and libfabric if there is one. If there is none, a line says that it is left out.
pub fn carriers() -> Vec<Carrier> {
    let libfabric = libfabric().map(|file| {
        let file = file.to_str().expect("text").to_owned();
        vec![("PENNY_NET", "libfabric:tcp".to_owned()), ("PENNY_LIBFABRIC", file)]
    });
    [Vec::new()].into_iter().chain(libfabric).collect()
}

/// The file of a libfabric, if there is one: the one that the environment names, one of the system, or one that an MPI library has
/// brought along for the tests of the launchers (`.ci/launchers`).
fn libfabric() -> Option<PathBuf> {
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
        println!("LEFT OUT: there is no libfabric, over which ranks of several hosts can communicate, too");
    }
    found
}

/// The variables of a rank on a host of this name. `port`: as for all ranks of the job.
pub fn variables(host: &str, port: u16, carrier: &Carrier) -> Vec<(String, String)> {
    let pairs = [("PENNY_HOST_ID", host), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port.to_string())];
    let pairs = pairs.map(|(name, value)| (name, value.to_owned()));
    pairs.iter().chain(carrier).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A port for a job, whose next ones no other job of this process uses.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    16_000 + ((std::process::id() % 64) as u16 * 12 + NEXT.fetch_add(1, Ordering::Relaxed) % 12) * 17
}
