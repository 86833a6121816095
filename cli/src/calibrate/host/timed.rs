//! Times algorithms on real ranks. The algorithms take turns, so that a slow moment of the machine affects all of them alike.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use penny::{Collective, Communicator, Op, SharedVec, UniqueId};
use penny_bench::back_to_back::back_to_back;
use serde::{Deserialize, Serialize};

use super::price::block_bytes;
use crate::answer;
use crate::launch::bind::Bind;
use crate::launch::{self, Job, Line, Stream};

/// The hidden subcommand that a rank runs.
pub const WORKER: &str = "calibrate-rank";

/// A call that is timed with several algorithms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedCall {
    /// The collective's name.
    pub collective: String,
    /// Bytes of the whole vector.
    pub bytes: u64,
    /// Whether the buffers are in memory that the other ranks reach.
    pub shared: bool,
    /// The names of the algorithms; `None` stands for `auto`.
    pub algorithms: Vec<Option<String>>,
}

/// The nanoseconds that the slowest rank takes for a call, by algorithm and round.
pub type Rounds = Vec<Vec<f64>>;

/// The arguments of one rank.
#[derive(clap::Args)]
pub struct WorkerArgs {
    /// `TimedCall`s as JSON
    calls: String,
    /// Number of rounds
    rounds: u32,
}

/// The most calls that one launch times; a launch has a time limit, and its arguments have a length limit.
pub const CALLS_A_LAUNCH: usize = 8;
/// The nanoseconds that the calls of a round shall take together: many calls, since ranks that share cores need some to fall into step.
const ROUND: f64 = 1_000_000.0;
/// The most calls in a round.
const MOST_CALLS: f64 = 300.0;
/// The calls before the first round, as far as they take no longer than [`WARM_UP`]: a communicator's first calls touch each of its
/// places for payloads for the first time, and take several times as long as the later ones.
const FIRST_CALLS: f64 = 200.0;
/// The nanoseconds that the first calls may take.
const WARM_UP: f64 = 10_000_000.0;
/// The time limit of a launch, after which its ranks are killed.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts `ranks` ranks, which time all calls, with `PENNY_HOST_PROFILE` set to `profile`. Returns the times call by call.
pub fn times(ranks: u32, calls: &[TimedCall], rounds: u32, profile: &str) -> Result<Vec<Rounds>, String> {
    let json = serde_json::to_string(calls).map_err(|e| e.to_string())?;
    let job = Job {
        program: std::env::current_exe().map_err(|e| format!("cannot find myself: {e}"))?.into(),
        arguments: [WORKER, &json, &rounds.to_string()].map(OsString::from).to_vec(),
        environment: vec![("PENNY_HOST_PROFILE".to_owned(), profile.to_owned())],
        ranks,
        part: None,
        bind: Bind::None,
        timeout: Some(LIMIT),
    };
    let (mut times, mut said) = (Vec::new(), String::new());
    let outcome = launch::run(
        &job,
        Some(&mut |line: Line| match serde_json::from_slice::<Rounds>(line.text) {
            Ok(rounds) if line.stream == Stream::Out => times.push(rounds),
            _ => said = said.clone() + &String::from_utf8_lossy(line.text) + "\n",
        }),
    );
    if outcome.code != 0 || times.len() != calls.len() {
        let sentence = outcome.sentence.unwrap_or_else(|| "they said too little".into());
        return Err(format!("{ranks} ranks that measure failed: {sentence}\n{said}"));
    }
    Ok(times)
}

/// Runs as one of the ranks that [`times`] starts.
pub fn worker(args: &WorkerArgs) -> ExitCode {
    let calls = serde_json::from_str::<Vec<TimedCall>>(&args.calls).map_err(|e| e.to_string());
    match calls.and_then(|calls| measure(&calls, args.rounds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            answer::tell(format_args!("penny {WORKER}: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn measure(calls: &[TimedCall], rounds: u32) -> Result<(), String> {
    let world = Communicator::from_env().map_err(|e| e.message.clone())?;
    let mut known: Vec<(Option<String>, Communicator)> = Vec::new();
    for call in calls {
        for algorithm in &call.algorithms {
            if !known.iter().any(|(name, _)| name == algorithm) {
                let made = another(&world, algorithm.as_deref()).map_err(|e| e.message.clone())?;
                known.push((algorithm.clone(), made));
            }
        }
        let by = |name| known.iter().find(|(known, _)| known == name).map(|(_, comm)| comm);
        let comms: Vec<&Communicator> = call.algorithms.iter().filter_map(by).collect();
        let times = timed(&world, &comms, call, rounds)?;
        if world.rank() == 0 {
            println!("{}", serde_json::to_string(&times).map_err(|e| e.to_string())?);
        }
    }
    // All ranks must destroy them in the same order.
    known.into_iter().try_for_each(|(_, comm)| comm.destroy()).map_err(|e| e.message.clone())?;
    world.destroy().map_err(|e| e.message.clone())
}

/// Makes a communicator of the ranks of `world` that uses `algorithm`; `None` stands for `auto`.
fn another(world: &Communicator, algorithm: Option<&str>) -> penny::Result<Communicator> {
    let mut id = if world.rank() == 0 { UniqueId::new()? } else { UniqueId([0; 128]) };
    world.broadcast(&mut id.0, 0)?;
    let builder = Communicator::builder();
    let builder = match algorithm {
        Some(name) => builder.algorithms(name),
        None => builder,
    };
    builder.join(&id, world.rank(), world.size())
}

/// The buffers of a rank.
enum Buffers {
    Private(Vec<f32>, Vec<f32>),
    Shared(SharedVec<f32>, SharedVec<f32>),
}

impl Buffers {
    fn both(&mut self) -> (&[f32], &mut [f32]) {
        match self {
            Buffers::Private(send, recv) => (send, recv),
            Buffers::Shared(send, recv) => (send, recv),
        }
    }
}

fn timed(
    world: &Communicator,
    comms: &[&Communicator],
    call: &TimedCall,
    rounds: u32,
) -> Result<Rounds, String> {
    let unknown = || format!("`{}` is no collective", call.collective);
    let collective = Collective::from_name(&call.collective).ok_or_else(unknown)?;
    let (rank, n) = (world.rank(), world.size());
    let count = (block_bytes(collective, n, call.bytes) / 4).max(1) as usize;
    let blocks = [collective.blocks_in(rank, n, 0), collective.blocks_out(rank, n, 0)];
    let [send, recv] = blocks.map(|blocks| blocks as usize * count);
    let mut buffers = match call.shared {
        true => Buffers::Shared(
            SharedVec::zeroed(send).map_err(|e| e.message.clone())?,
            SharedVec::zeroed(recv).map_err(|e| e.message.clone())?,
        ),
        false => Buffers::Private(vec![0.0; send], vec![0.0; recv]),
    };
    let mut round = |comm: &Communicator, calls: u32| -> penny::Result<f64> {
        world.barrier()?;
        let began = Instant::now();
        let (send, recv) = buffers.both();
        back_to_back(comm, collective, send, recv, calls)?;
        let mut slowest = [began.elapsed().as_nanos() as f64 / f64::from(calls)];
        world.all_reduce_in_place(&mut slowest, Op::Max)?;
        Ok(slowest[0])
    };
    let mut measure = || -> penny::Result<Rounds> {
        let mut calls = Vec::new();
        for comm in comms {
            // The first call links the program and touches the buffers, so its time does not count.
            round(comm, 1)?;
            let first = (WARM_UP / round(comm, 2)?.max(1.0)).clamp(1.0, FIRST_CALLS) as u32;
            round(comm, first)?;
            calls.push((ROUND / round(comm, first)?.max(1.0)).clamp(1.0, MOST_CALLS) as u32);
        }
        let mut times = vec![Vec::new(); comms.len()];
        for _ in 0..rounds {
            for ((comm, &calls), times) in comms.iter().zip(&calls).zip(&mut times) {
                times.push(round(comm, calls)?);
            }
        }
        Ok(times)
    };
    measure().map_err(|e| e.message.clone())
}
