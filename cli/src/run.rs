//! `penny run`: the launcher on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::answer::{self, PassedOn};
use crate::launch::bind::Bind;
use crate::launch::hosts::{self, HostArgs, Piped};
use crate::launch::{self, Job, Line, Outcome};
use crate::machine::MachineArgs;
use crate::preload;

const EXAMPLES: &str = "\
The exit code is the first bad one of a rank (128 + number for a signal), 124 after --timeout, 127 if there is no such
program. When a rank fails, the others are ended. Standard input goes to rank 0.

Ctrl-C goes to all ranks. Those that run after 10 seconds, or at a second Ctrl-C, get SIGTERM, and soon SIGKILL; the exit
code is then 130, as it is where a rank ends badly after Ctrl-C. So does SIGTERM; the exit code is 143 where ranks had to be ended.

With --hosts a launcher is started on each host by `ssh HOST penny run --part`, so penny must be there at the same path (--penny) and
the working folder too. The ranks find the PENNY_ variables that are set here, those of --env, and MASTER_ADDR: the first host's
name, by which all hosts must reach it (--master). Standard input goes to no rank.

Each rank finds PENNY_JOB_ID, PENNY_RANK, PENNY_WORLD_SIZE, PENNY_LOCAL_RANK and PENNY_LOCAL_SIZE in its environment; and, where they
are not set already, torchrun's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR (127.0.0.1) and MASTER_PORT (a free port).

With --virtual-time the program and Python read the cluster's time from clock_gettime, gettimeofday, std::chrono and MPI_Wtime: what
their ranks have waited for, and what they have slept; computing takes none. Penny, MPI and other libraries keep this machine's
time, so that their time-outs hold; PENNY_VIRTUAL_TIME_IN=libmine.so:libother names libraries that belong to the program.

Examples:
  penny run -n 4 ./train --epochs 3
  penny run -n 16 --fabric dgx-h100 --nodes 2 ./train
  penny run --hosts node1:2,node2:2 ./train
  penny run --hostfile hosts.txt --rsh 'ssh -p 2222' --env OMP_NUM_THREADS=1 ./train
  penny run -n 2 --tag --timeout 60 sh -c 'echo I am $PENNY_RANK'
  penny run -n 1 --nccl ./all_reduce_perf -g 4
  penny run -n 1 --nccl --fabric dgx-h100 --virtual-time ./all_reduce_perf -g 8";

/// The options of `penny run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Processes to start; with --hosts, unset: one at each place there
    #[arg(short = 'n', long = "ranks", value_name = "N", required_unless_present_any = ["hosts", "hostfile", "part"],
        allow_negative_numbers = true, value_parser = launch::ranks)]
    ranks: Option<u32>,
    #[command(flatten)]
    hosts: HostArgs,
    /// Start a host's part of a job; for `penny run --hosts`
    #[arg(long, hide = true, exclusive = true)]
    part: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// Prefix each line of output with its rank
    #[arg(long)]
    tag: bool,
    /// Cores of each rank
    #[arg(long, value_name = "WHAT", default_value = "none")]
    bind: Bind,
    /// Put Penny's libnccl.so.2 and libcudart.so.12 before the program's own, so that a program of NCCL runs without GPUs
    #[arg(long)]
    nccl: bool,
    /// Let the program's clock tell the cluster's time (see below); needs --fabric
    #[arg(long, requires = "fabric")]
    virtual_time: bool,
    /// End the ranks after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "part",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM [ARGS]"
    )]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("not a number of seconds above 0".to_owned()),
    }
}

/// Runs the program and returns as it did.
pub fn main(args: Args) -> Result<ExitCode, String> {
    let post_mortem = PostMortem::new(&args);
    let outcome = run(args, post_mortem.variable())?;
    let code = outcome.report("penny run");
    post_mortem.end(outcome.code);
    Ok(code)
}

/// The folder into which ranks write what they know if their communicator breaks.
struct PostMortem(Option<PathBuf>);

impl PostMortem {
    /// Makes a folder for this job, unless the user has said where or that none is wanted. Ranks of several hosts have no folder in common.
    fn new(args: &Args) -> PostMortem {
        let is_set = std::env::var_os("PENNY_POST_MORTEM").is_some_and(|value| !value.is_empty());
        let make = || {
            let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
            let folder = tempfile::Builder::new()
                .prefix("penny-")
                .tempdir_in(runtime.unwrap_or_else(std::env::temp_dir));
            // Without one the job runs all the same.
            folder.ok().map(tempfile::TempDir::keep)
        };
        PostMortem(if args.part || is_set || args.hosts.are_several() { None } else { make() })
    }

    fn variable(&self) -> Vec<(&'static str, String)> {
        self.0.iter().map(|folder| ("PENNY_POST_MORTEM", folder.display().to_string())).collect()
    }

    /// Keeps what was written if the job failed, and tells how to read it.
    fn end(&self, code: u8) {
        let Some(folder) = &self.0 else { return };
        let is_told = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if code == 0 || !is_told {
            // A program that succeeds has dealt with its errors itself.
            let _ = std::fs::remove_dir_all(folder);
        } else {
            answer::tell(format_args!(
                "penny run: what each rank did last: penny doctor --post-mortem {}",
                folder.display()
            ));
        }
    }
}

/// Runs the program with these variables as well.
pub fn run(args: Args, more: Vec<(&'static str, String)>) -> Result<Outcome, String> {
    if args.part {
        let (part, job) = hosts::read_part()?;
        return Ok(launched(part.tag, |lines| launch::run(&job, lines)));
    }
    let (program, arguments) = args.program.split_first().expect("clap requires a program");
    let (program, arguments) = (program.clone(), arguments.to_vec());
    let several = args.hosts.hosts(args.ranks)?;
    let of_hosts = several.iter().flatten().map(|host| host.ranks).sum();
    let ranks = if several.is_some() { of_hosts } else { args.ranks.unwrap_or(1) };
    let mut environment = args.machine.environment(ranks, args.nccl)?;
    // The one that tells the time stands first: the others ask for it.
    let libraries = [(args.virtual_time, &preload::TIME), (args.nccl, &preload::NCCL)];
    let libraries: Vec<_> = libraries.into_iter().filter_map(|(wanted, one)| wanted.then_some(one)).collect();
    environment.extend(preload::environment(&libraries)?);
    environment.extend(more);
    let mut environment = launch::owned(environment);
    environment.extend(args.hosts.variables()?);
    let (tag, timeout) = (args.tag, args.timeout);
    let job = Job { program, arguments, environment, ranks, part: None, bind: args.bind, timeout };
    let Some(hosts) = several else {
        return Ok(launched(tag, |lines| launch::run(&job, lines)));
    };
    let work = args.hosts.work(&hosts, if tag { Piped::Tagged } else { Piped::No }, &job)?;
    Ok(launch::run_work(work, None))
}

/// Runs a job, whose output is passed on line by line with each line's rank before it if `tag`.
fn launched(tag: bool, run: impl FnOnce(Option<&mut dyn FnMut(Line)>) -> Outcome) -> Outcome {
    if !tag {
        return run(None);
    }
    let mut out = PassedOn::default();
    let outcome = run(Some(&mut |line: Line| {
        // Each line is one write, so lines of different ranks never mix. A closed pipe is ignored.
        let text = [format!("[{}] ", line.rank).as_bytes(), line.text, b"\n"].concat();
        out.write(line.stream, &text);
    }));
    match out.end() {
        Err(sentence) if outcome.code == 0 => Outcome { code: 1, sentence: Some(sentence) },
        _ => outcome,
    }
}
