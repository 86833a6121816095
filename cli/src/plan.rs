//! `penny plan`: prints what each rank sends to which rank, step by step.

use std::path::PathBuf;
use std::process::ExitCode;

use penny::DataType;
use penny::sim::algorithms::{self, Algorithm};
use penny::sim::plan::check::Proof;
use penny::sim::plan::{Plan, RankView, check, render};
use penny_bench::layout;
use penny_bench::sizes::parse_bytes;
use penny_bench::subject::Subject;

use crate::{answer, candidates, host_profile, launch, machine, plan_drawing, planned};

const EXAMPLES: &str = "\
Examples:
  penny plan all_reduce -n 3 -b 1K --algorithm ring
  penny plan broadcast -n 8 -b 64M --root 2
  penny plan all_reduce -n 512 --rank 3 --algorithm tree
  penny plan all_reduce -n 8 --algorithm neighbour_rings --fabric t3000
  penny plan all_gather -n 4 -b 4K --json | jq .depth
  penny plan all_reduce -n 4 --algorithm ring --draw ring.svg";

/// From this number of ranks on, only one rank's program is printed, unless `--all` is given.
const ONE_RANK_FROM: u32 = 65;

/// The options of `penny plan`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The collective
    #[arg(value_parser = planned::collectives())]
    collective: Subject,
    /// Ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", allow_negative_numbers = true, value_parser = launch::ranks)]
    ranks: u32,
    /// Size, as `penny perf` counts it: the larger of a rank's two buffers
    #[arg(short = 'b', long, value_name = "BYTES", default_value = "1M", value_parser = parse_bytes)]
    bytes: usize,
    /// Element type
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float", value_parser = planned::datatype())]
    datatype: DataType,
    /// Root, for collectives that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Algorithm (also --algo); default: every algorithm that can serve the call
    #[arg(long, alias = "algo", value_name = "NAME")]
    algorithm: Option<String>,
    /// Simulated cluster (declared machine) on which the ranks stand: its nodes and links; default: nothing is known of the ranks
    #[arg(long, value_name = "MACHINE")]
    fabric: Option<String>,
    /// Print the program of this rank alone, linked to its peers; default: the programs of all ranks, proved, or beyond 64 ranks that of rank 0
    #[arg(long, value_name = "RANK", conflicts_with_all = ["all", "json"])]
    rank: Option<u32>,
    /// Prove and print the programs of all ranks, for any number of ranks; the time grows with its square
    #[arg(long)]
    all: bool,
    /// Print JSON, one plan a line, with the programs of all ranks
    #[arg(long)]
    json: bool,
    /// Draw the steps of all ranks into this SVG file, and print nothing
    #[arg(long, value_name = "FILE.svg", value_parser = answer::svg, requires = "algorithm", conflicts_with_all = ["rank", "all", "json"])]
    draw: Option<PathBuf>,
}

/// Prints the plans.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let collective = planned::collective(args.collective)?;
    let dtype = args.datatype;
    if args.root >= args.ranks {
        return Err(format!("--root {} is out of range: ranks are 0 to {}", args.root, args.ranks - 1));
    }
    if let Some(rank) = args.rank
        && rank >= args.ranks
    {
        return Err(format!("--rank {rank} is out of range: ranks are 0 to {}", args.ranks - 1));
    }
    let count = layout::count(args.collective, args.ranks, args.bytes, dtype.size());
    let view = match &args.fabric {
        None => RankView::flat(collective, 0, args.ranks, args.root),
        Some(fabric) => {
            machine::view(&machine::open(fabric, None, None)?, collective, Some(args.ranks), args.root)?
        }
    };
    let candidates = match &args.algorithm {
        None => candidates::able(&view)?,
        Some(name) => vec![candidates::named(name, &view)?],
    };
    if let Some(path) = &args.draw {
        let drawing = plan_drawing::svg(&whole(candidates[0], &view, count)?, candidates[0].name)?;
        answer::save("--draw", path, &drawing)?;
        return Ok(ExitCode::SUCCESS);
    }
    let texts: Result<Vec<_>, _> = candidates.into_iter().map(|m| rendered(m, args, &view, count)).collect();
    let mut text = texts?.join(if args.json { "" } else { "\n" });
    if args.algorithm.is_none() && args.fabric.is_none() && !args.json {
        let bytes = layout::shown_bytes(args.collective, args.ranks, count, dtype.size());
        text += &format!("\n{}\n", host_profile::auto(&view, bytes as u64));
    }
    answer::print(&text)
}

/// One algorithm's plan as text or JSON: of all ranks, proved on the way, or of one rank, linked to its peers.
fn rendered(algorithm: &Algorithm, args: &Args, view: &RankView, count: usize) -> Result<String, String> {
    let few = args.ranks < ONE_RANK_FROM || args.all || args.json;
    if let Some(rank) = args.rank.or((!few).then_some(0)) {
        let view = view.of(rank);
        let linked = algorithms::linked(algorithm, &view).map_err(|e| format!("{}: {e}", algorithm.name))?;
        let text = render::linked(&view, &linked, count);
        return Ok(format!("{}: {}\n{text}\n", algorithm.name, algorithm.about));
    }
    if args.json {
        return whole(algorithm, view, count);
    }
    let (plans, proof) = proved(algorithm, view)?;
    Ok(format!("{}: {}\n{}\n", algorithm.name, algorithm.about, render::text(&plans, &proof, count)))
}

/// The plan of all ranks as JSON.
fn whole(algorithm: &Algorithm, view: &RankView, count: usize) -> Result<String, String> {
    let (plans, proof) = proved(algorithm, view)?;
    Ok(render::json(&plans, &proof, count))
}

fn proved(algorithm: &Algorithm, view: &RankView) -> Result<(Vec<Plan>, Proof), String> {
    let plans = algorithms::plan_all(algorithm, view);
    let proof =
        check::prove(&plans, view.collective, view.root).map_err(|e| format!("{}: {e}", algorithm.name))?;
    Ok((plans, proof))
}
