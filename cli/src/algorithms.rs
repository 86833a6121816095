//! `penny algorithms`: the table of algorithms.

use std::process::ExitCode;

use penny::sim::algorithms::{self, Algorithm};
use serde_json::json;

use crate::answer;

/// The options of `penny algorithms`.
#[derive(clap::Args)]
#[command(after_help = "In the costs: n ranks, S bytes, B bandwidth of a link, a latency of a message.

Examples:
  penny algorithms
  PENNY_ALGO=two_shot penny perf all_reduce -n 4")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let serves = |a: &Algorithm| a.serves.iter().map(|c| c.name()).collect::<Vec<_>>();
    if args.json {
        let rows = algorithms::ALL.iter().map(|a| {
            json!({ "name": a.name, "serves": serves(a), "about": a.about, "cost": a.cost_formula, "rank_order": a.rank_order })
        });
        return answer::print(&format!("{:#}\n", rows.collect::<serde_json::Value>()));
    }
    let mut text = String::new();
    for algorithm in algorithms::ALL {
        let Algorithm { name, about, cost_formula, .. } = algorithm;
        text += &format!("{name}\n    {about}\n    cost      {cost_formula}\n    serves    ");
        text += &format!("{}\n", serves(algorithm).join(", "));
        if algorithm.rank_order {
            text += "    bits      reductions fold in rank order: allowed by PENNY_REPRODUCIBLE=1\n";
        }
    }
    answer::print(&text)
}
