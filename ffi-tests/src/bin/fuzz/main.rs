//! Plays random programs on real ranks against libpenny.so and holds every result against an oracle.
//!
//! A program follows from a seed, and all ranks know it: calls of every kind with random types, operations, roots, counts, buffers
//! and communicators, calls that must be refused, streams, threads, windows, mailboxes. Nothing but the C interface is
//! used. A program that fails is made smaller, and printed with the command that repeats it.
//!
//! ```text
//!     fuzz [--seconds N] [--seed S] [--ranks 1,2,4] [--without NAME,NAME] [--library PATH]
//!
//!     --ranks N,N       numbers of ranks that programs are drawn with, at most 8: sums of more float8 are not exact
//!     --hosts N         deal the processes out to as many hosts, which are this machine under several names (needs
//!                       PENNY_LIBFABRIC or a libfabric of the system); without declared machines
//!     --seed S          the first program's seed; further ones follow. Drawn and printed if left
//!     --programs N      stop after N programs
//!     --keep 3,4        only these steps
//!     --plant WHAT      bit, before, lost, gap, factor, joined, hook, host: a fault between library and check, which must be
//!                       found
//!     --guard N         seconds after which a program hangs
//!     --no-minimise     print what fails as it is
//!     --show            print programs, and play none
//!     --trace           every call on stderr
//! ```

mod actor;
mod api;
mod blocks;
mod buffer;
mod collective;
mod draw;
mod driver;
mod element;
mod hook;
mod joining;
mod mailbox;
mod onesided;
mod play;
mod program;
mod random;
mod rank;
mod scaled;
mod semaphore;
mod setting;
mod shmem;
mod solo;
mod streams;
mod team;
mod transfers;
mod vector;
mod victim;
mod work;
mod wrong;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use actor::{PLANTS, Plant};
use driver::{Driver, list};
use program::{FAMILIES, Family, Program};

/// The command line.
struct Asked {
    seconds: u64,
    programs: u64,
    seed: u64,
    ranks: Vec<usize>,
    without: Vec<Family>,
    hosts: usize,
    library: PathBuf,
    keep: Option<BTreeSet<u32>>,
    plant: Option<Plant>,
    guard: Duration,
    minimise: bool,
    trace: bool,
    show: bool,
    /// The options of one process of a program: its number, and the job's folder.
    process: Option<usize>,
    /// The kind of calls of a rank that is to be killed; see `victim.rs`.
    victim: Option<String>,
    dir: PathBuf,
    /// `--ranks`, `--without` and `--hosts` as they stood.
    drawing: Vec<String>,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    match asked.process {
        Some(rank) if asked.victim.is_some() => {
            let what = asked.victim.as_deref().unwrap_or_default();
            victim::victim(&asked.library, what, asked.seed, asked.ranks[0], rank, &asked.dir);
            ExitCode::SUCCESS
        }
        Some(process) => {
            let mut program = Program::draw(asked.seed, &asked.ranks, &asked.without);
            if let Some(ids) = &asked.keep {
                program.keep(ids);
            }
            rank::process(&asked.library, &program, process, &asked.dir, asked.plant, asked.trace);
            ExitCode::SUCCESS
        }
        None => drive(&asked),
    }
}

fn drive(asked: &Asked) -> ExitCode {
    let driver = Driver {
        library: asked.library.clone(),
        drawing: asked.drawing.clone(),
        hosts: asked.hosts,
        plant: asked.plant,
        guard: asked.guard,
        trace: asked.trace,
    };
    println!("seed {}", asked.seed);
    let (start, mut played) = (Instant::now(), 0);
    while played < asked.programs && start.elapsed() < Duration::from_secs(asked.seconds) {
        let seed = asked.seed.wrapping_add(played);
        let program = Program::draw(seed, &asked.ranks, &asked.without);
        if asked.show {
            println!("program {seed}, {}\n{}", program.setting(), program.listing());
            played += 1;
            continue;
        }
        if let Err(failed) = driver.play(&program, asked.keep.as_ref(), asked.guard) {
            println!("FAILED: program {seed}, {}\n{}", program.setting(), failed.story);
            if asked.minimise && asked.keep.is_none() {
                let ids = driver.minimise(&program, failed.hangs, Duration::from_secs(60));
                let mut small = program.clone();
                small.keep(&ids);
                println!(
                    "made smaller: {} steps instead of {}\n{}",
                    ids.len(),
                    program.ids().len(),
                    small.listing()
                );
                if let Err(failed) = driver.play(&program, Some(&ids), asked.guard) {
                    println!("which says: {}", failed.story);
                }
                print_command(asked, seed, Some(&ids));
            } else {
                print_command(asked, seed, asked.keep.as_ref());
            }
            return ExitCode::FAILURE;
        }
        played += 1;
    }
    println!("{played} programs played in {} s, none failed", start.elapsed().as_secs());
    ExitCode::SUCCESS
}

fn print_command(asked: &Asked, seed: u64, keep: Option<&BTreeSet<u32>>) {
    let exe = std::env::current_exe().unwrap_or_default();
    let mut command = format!("{} --seed {seed} --programs 1 {}", exe.display(), asked.drawing.join(" "));
    command.push_str(&format!(" --library {}", asked.library.display()));
    if let Some(ids) = keep {
        command.push_str(&format!(" --keep {}", list(ids)));
    }
    if let Some(plant) = asked.plant {
        command.push_str(&format!(" --plant {}", format!("{plant:?}").to_lowercase()));
    }
    println!("again: {command}");
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let beside = std::env::current_exe().map_err(|e| e.to_string())?;
    let beside = beside.parent().unwrap_or(Path::new(".")).join("libpenny.so");
    let mut asked = Asked {
        seconds: 60,
        programs: u64::MAX,
        seed: now % 1_000_000_000,
        ranks: vec![1, 2, 2, 3, 4, 4, 5, 7, 8],
        without: Vec::new(),
        hosts: 1,
        library: beside,
        keep: None,
        plant: None,
        guard: Duration::from_secs(60),
        minimise: true,
        trace: false,
        show: false,
        process: None,
        victim: None,
        dir: PathBuf::new(),
        drawing: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--no-minimise" => asked.minimise = false,
            "--show" => asked.show = true,
            "--trace" => asked.trace = true,
            _ => {
                let value = words.next().ok_or(format!("{word} needs a value"))?;
                option(&mut asked, &word, &value).ok_or(format!("{word} {value} makes no sense"))?;
            }
        }
    }
    Ok(asked)
}

/// The most ranks whose sums are exact in every type, whatever their order.
const MOST_RANKS: usize = 8;

fn option(asked: &mut Asked, word: &str, value: &str) -> Option<()> {
    match word {
        "--seconds" => asked.seconds = value.parse().ok()?,
        "--programs" => asked.programs = value.parse().ok()?,
        "--seed" => asked.seed = value.parse().ok()?,
        "--ranks" => {
            asked.ranks = value
                .split(',')
                .map(|n| n.parse().ok().filter(|n| (1..=MOST_RANKS).contains(n)))
                .collect::<Option<_>>()?;
        }
        "--without" => {
            let find = |name| FAMILIES.iter().find(|(known, _)| *known == name).map(|(_, family)| *family);
            asked.without.extend(value.split(',').map(find).collect::<Option<Vec<_>>>()?);
        }
        "--hosts" => {
            asked.hosts = value.parse().ok().filter(|&n| n > 0)?;
            // The ranks of a declared machine are on one host.
            asked.without.push(Family::Machines);
        }
        "--library" => asked.library = value.into(),
        "--keep" => {
            let ids = value.split(',').filter(|id| !id.is_empty());
            asked.keep = Some(ids.map(|id| id.parse().ok()).collect::<Option<_>>()?);
        }
        "--plant" => {
            asked.plant = Some(PLANTS.iter().find(|(name, _)| *name == value)?.1);
        }
        "--guard" => asked.guard = Duration::from_secs(value.parse().ok()?),
        "--process" => asked.process = Some(value.parse().ok()?),
        "--victim" => asked.victim = Some(value.to_owned()),
        "--dir" => asked.dir = value.into(),
        _ => return None,
    }
    if matches!(word, "--ranks" | "--without" | "--hosts") {
        asked.drawing.extend([word.to_owned(), value.to_owned()]);
    }
    Some(())
}
