//! The cost of communicators made from another one: the time to make and to destroy them, and their memory, while other
//! communicators exist.

use std::ffi::c_int;
use std::ptr;
use std::time::Instant;

use clap::Parser;
use penny::ffi::{self, pennyComm_t};

use crate::capi::{Communicator, outcome};

/// What to measure.
#[derive(Parser, Clone, Debug)]
pub struct Options {
    /// Communicators that live meanwhile
    #[arg(long, value_name = "COUNT", default_value = "0,300", value_delimiter = ',')]
    pub live: Vec<usize>,
    /// Timed calls of each kind
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iters: u32,
}

/// How a child is made.
#[derive(Clone, Copy)]
enum Way {
    Split,
    Dup,
}

fn make(way: Way, parent: &Communicator) -> Result<pennyComm_t, String> {
    let mut child: pennyComm_t = ptr::null_mut();
    let (raw, key) = (parent.raw(), parent.rank() as c_int);
    // SAFETY: the parent is live and the pointer is to a local.
    let result = unsafe {
        match way {
            Way::Split => ffi::pennyCommSplit(raw, 0, key, &mut child, ptr::null()),
            Way::Dup => ffi::pennyCommDup(raw, &mut child),
        }
    };
    outcome(result, raw).map(|()| child)
}

fn destroy(child: pennyComm_t) -> Result<(), String> {
    // SAFETY: made by `make`, and not used any more.
    outcome(unsafe { ffi::pennyCommDestroy(child) }, ptr::null_mut())
}

/// Returns the bytes of this process's private memory, and the bytes of the shared files that it has open.
fn memory() -> Result<[u64; 2], String> {
    let status =
        std::fs::read_to_string("/proc/self/status").map_err(|e| format!("/proc/self/status: {e}"))?;
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB"));
    let own =
        own.and_then(|kib| kib.trim().parse::<u64>().ok()).ok_or("/proc/self/status has no RssAnon")? << 10;
    let mut files = std::collections::BTreeMap::new();
    let open = std::fs::read_dir("/proc/self/fd").map_err(|e| format!("/proc/self/fd: {e}"))?;
    for path in open.flatten().map(|entry| entry.path()) {
        let name = std::fs::read_link(&path).unwrap_or_default();
        let is_shared = name.starts_with("/dev/shm") || name.to_string_lossy().contains("memfd:");
        if let (true, Ok(data)) = (is_shared, std::fs::metadata(&path)) {
            use std::os::unix::fs::MetadataExt;
            files.insert((data.dev(), data.ino()), data.blocks() * 512);
        }
    }
    Ok([own, files.values().sum()])
}

fn quantiles(times: &mut [f64]) -> [f64; 3] {
    times.sort_by(f64::total_cmp);
    [50, 90, 99].map(|share| times[(times.len() * share / 100).min(times.len() - 1)])
}

/// Measures on all ranks; rank 0 prints.
pub fn run(options: &Options) -> Result<(), String> {
    let comm = Communicator::from_env()?;
    if comm.rank() == 0 {
        println!("# {} ranks, {} calls of each kind; microseconds on rank 0", comm.nranks(), options.iters);
        println!("{:>6} {:>8} {:>9} {:>9} {:>9}", "live", "call", "median", "90 %", "99 %");
    }
    for &live in &options.live {
        let before = memory()?;
        let mut others = Vec::with_capacity(live);
        for _ in 0..live {
            others.push(make(Way::Split, &comm)?);
        }
        comm.barrier()?;
        let after = memory()?;
        for (way, name) in [(Way::Split, "split"), (Way::Dup, "dup")] {
            let (mut made, mut destroyed) = (Vec::new(), Vec::new());
            for _ in 0..options.iters {
                comm.barrier()?;
                let start = Instant::now();
                let child = make(way, &comm)?;
                made.push(start.elapsed().as_secs_f64() * 1e6);
                comm.barrier()?;
                let start = Instant::now();
                destroy(child)?;
                destroyed.push(start.elapsed().as_secs_f64() * 1e6);
            }
            if comm.rank() == 0 {
                for (call, times) in [(name, &mut made), ("destroy", &mut destroyed)] {
                    let [median, most, nearly_all] = quantiles(times);
                    println!("{live:>6} {call:>8} {median:>9.1} {most:>9.1} {nearly_all:>9.1}");
                }
            }
        }
        if comm.rank() == 0 && live > 0 {
            let [own, shared] =
                [0, 1].map(|i| after[i].saturating_sub(before[i]) as f64 / live as f64 / 1024.0);
            println!(
                "{live:>6} live communicators: {shared:.1} KiB each in shared memory, {own:.1} KiB of this rank's own"
            );
        }
        for child in others {
            destroy(child)?;
        }
        comm.barrier()?;
    }
    comm.destroy()
}
