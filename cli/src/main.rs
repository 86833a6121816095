//! The `penny` command: starts ranks, measures, and shows what Penny would do and on what.

mod algos;
mod answer;
mod calibrate;
mod doctor;
mod exchange;
mod launch;
mod machine;
mod methods;
mod perf;
mod plan;
mod plot;
mod run;
mod sim;
mod topo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Collective communication between processes of one machine
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
    /// Measure and check a collective between N ranks
    Perf(Box<Perf>),
    /// Show who sends what to whom in a collective
    Plan(plan::Args),
    /// What a collective would take on a declared machine: no processes, no data
    Sim(sim::Args),
    /// Fit a declared machine to a table of measured times
    Calibrate(calibrate::Args),
    /// Declared machines: list, show, check
    #[command(subcommand)]
    Topo(topo::Args),
    /// List the methods: what each is for and what it costs
    Algos(algos::Args),
    /// Look over this machine: can Penny work here, and how well?
    Doctor(doctor::Args),
    /// One rank of `penny perf`
    #[command(name = perf::WORKER, hide = true)]
    Worker(perf::WorkerArgs),
}

/// A collective between processes, or one of the benchmarks that need none.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Perf {
    #[command(flatten)]
    collective: Option<perf::Args>,
    #[command(subcommand)]
    other: Option<Benchmark>,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Two GPUs of a declared machine swap their buffers: the signal with the data, and apart
    Exchange(exchange::Args),
}

impl Perf {
    fn main(self) -> Result<ExitCode, String> {
        match (self.other, self.collective) {
            (Some(Benchmark::Exchange(args)), _) => exchange::main(&args),
            (None, Some(args)) => perf::main(args),
            (None, None) => Err("perf: name a collective, as in `penny perf all_reduce -n 2`".to_owned()),
        }
    }
}

fn main() -> ExitCode {
    let outcome = match Penny::parse().command {
        Command::Run(args) => run::main(args),
        Command::Perf(args) => args.main(),
        Command::Plan(args) => plan::main(&args),
        Command::Sim(args) => sim::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Topo(args) => topo::main(&args),
        Command::Algos(args) => algos::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Worker(args) => return perf::worker(&args),
    };
    outcome.unwrap_or_else(|sentence| {
        eprintln!("penny: {sentence}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
        assert_eq!(args.collective.expect("a collective").ranks_and_iters(), (3, 7));
    }
}
