//! The `penny` command: starts ranks, runs benchmarks, prints plans, and simulates clusters.

mod algorithms;
mod answer;
mod applied;
mod args_or;
mod arguments;
mod calibrate;
mod candidates;
mod doctor;
mod exchange;
mod host_profile;
mod input;
mod launch;
mod link;
mod machine;
mod machine_list;
mod manual;
mod perf;
mod plan;
mod plan_drawing;
mod planned;
mod plot;
mod preload;
mod record;
mod report;
mod rings;
mod run;
mod shmem;
mod sim;
mod top;
mod topo;
mod trace;
mod workload;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use args_or::ArgsOr;

/// Collective communication between processes of one host or several
#[derive(Parser)]
#[command(name = "penny", version, arg_required_else_help = true)]
struct Penny {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a program as N ranks
    Run(run::Args),
    /// Start a program as N ranks, and write its calls and the times between them as a workload for `penny sim --workload`
    Record(record::Args),
    /// Benchmark a collective between N ranks and check its results
    Perf(Box<Perf>),
    /// Print the plan of a collective: which rank sends what to which rank
    Plan(plan::Args),
    /// Compute the time of a collective on a simulated cluster (declared machine): no processes, no data
    Sim(Box<sim::Args>),
    /// Write a trace of the messages of a collective on a simulated cluster, for Perfetto
    Trace(trace::Args),
    /// Fit the parameters of a simulated cluster to a table of measured times, or measure this host
    Calibrate(Box<calibrate::Calibrate>),
    /// Write measurements, simulations and traces to one page of HTML: curves, tables, timelines
    Report(report::Args),
    /// List, show, check, draw, import and export simulated clusters (declared machines)
    #[command(subcommand)]
    Topo(topo::Args),
    /// Show running jobs: calls, bytes and waits of each rank, and the links of simulated clusters
    Top(top::Args),
    /// List the algorithms with their purpose and cost
    #[command(alias = "algos")]
    Algorithms(algorithms::Args),
    /// Check whether this machine suits Penny
    Doctor(doctor::Args),
    /// Print the completions of a shell for this command
    Completions(manual::Completions),
    /// Write the manual pages of this command and its subcommands
    Man(manual::Man),
    /// One rank of `penny perf`
    #[command(name = perf::WORKER, hide = true)]
    Worker(perf::WorkerArgs),
    /// One rank of `penny calibrate host`
    #[command(name = calibrate::host::timed::WORKER, hide = true)]
    CalibrateWorker(calibrate::host::timed::WorkerArgs),
    /// One rank of `penny perf shmem`
    #[command(name = shmem::WORKER, hide = true)]
    ShmemWorker(shmem::WorkerArgs),
}

/// The arguments of `penny perf`, which measures a collective, or of one of the other benchmarks.
type Perf = ArgsOr<perf::Args, Benchmark>;

#[derive(Subcommand)]
enum Benchmark {
    /// Measure an Ethernet link of a simulated cluster: latency, ring, utilisation
    Link(link::Args),
    /// Measure a swap of buffers between two GPUs of a simulated cluster, with merged and with separate signals
    Exchange(exchange::Args),
    /// Measure one-sided access between two ranks (puts, gets, signals, atomic operations), or test the heap by random operations
    Shmem(shmem::Args),
}

fn perf(args: Perf) -> Result<ExitCode, String> {
    match args {
        ArgsOr::Args(args) => perf::main(args),
        ArgsOr::Subcommand(Benchmark::Link(args)) => link::main(&args),
        ArgsOr::Subcommand(Benchmark::Exchange(args)) => exchange::main(&args),
        ArgsOr::Subcommand(Benchmark::Shmem(args)) => shmem::main(&args),
    }
}

fn main() -> ExitCode {
    let outcome = match arguments::read::<Penny>(Penny::command()).command {
        Command::Run(args) => run::main(args),
        Command::Record(args) => record::main(args),
        Command::Perf(args) => perf(*args),
        Command::Plan(args) => plan::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Topo(args) => topo::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Algorithms(args) => algorithms::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Completions(args) => manual::completions(&args, Penny::command()),
        Command::Man(args) => manual::man(&args, Penny::command()),
        Command::Worker(args) => return perf::worker(&args),
        Command::CalibrateWorker(args) => return calibrate::host::timed::worker(&args),
        Command::ShmemWorker(args) => return shmem::worker(&args),
    };
    outcome.unwrap_or_else(|sentence| {
        answer::tell(format_args!("penny: {sentence}"));
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Penny::command().debug_assert();
    }

    #[test]
    fn perf_takes_ranks_by_n_and_iterations_by_their_long_name() {
        let line = ["penny", "perf", "all_reduce", "-n", "3", "--iters", "7", "-b", "1K"];
        let Ok(Penny { command: Command::Perf(args) }) = Penny::try_parse_from(line) else {
            panic!("not understood")
        };
        let ArgsOr::Args(args) = *args else { panic!("not a collective") };
        assert_eq!(args.ranks_and_iters(), (3, Some(7)));
    }
}
