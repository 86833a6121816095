//! `penny record`: runs a program as `penny run` does, and writes a workload of what its ranks have done.
//!
//! ```text
//!     ranks --> PID.jsonl in a folder (the library's recorder) --> log --> trace --> PREFIX.0.et, PREFIX.1.et, ...
//! ```

mod log;
mod one_sided;
mod trace;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use crate::answer;
use crate::run;
use crate::workload::chakra::schema::GlobalMetadata;
use crate::workload::chakra::{json, schema};

const EXAMPLES: &str = "\
What is written is a Chakra trace, a file for each rank. A rank's computing is the time between its calls: the time for which its
thread ran on a core, or with --time clock all of it, sleep and other programs included. Looks that find nothing count as computing.

Examples:
  penny record -o step -n 8 ./train
  penny sim --workload step --fabric dgx-h100,t3000,tpu-v5e:shape=2x4
  penny record -o step -n 2 --flops python train.py
  penny sim --workload step --fabric dgx-h100 --compute declared";

/// The file by which penny.torch knows that operators are to be counted (`python/src/penny/torch/recording.py`).
const COUNT_WORK: &str = "count-work";

/// The options of `penny record`.
#[derive(clap::Args)]
#[group(skip)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write PREFIX.0.et, PREFIX.1.et and so on
    #[arg(short = 'o', long, value_name = "PREFIX")]
    output: PathBuf,
    /// Write PREFIX.0.json and so on instead
    #[arg(long)]
    json: bool,
    /// How computing is timed: by the thread's time on a core, or by the clock
    #[arg(long, value_enum, default_value_t = GapTime::Core)]
    time: GapTime,
    /// Count the floating-point operations and the bytes of PyTorch's operators, for --compute declared. Counting makes computing
    /// slower, and the times with it
    #[arg(long)]
    flops: bool,
    #[command(flatten)]
    run: run::Args,
}

/// How a gap between two calls is timed.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum GapTime {
    /// The time of the thread on a core
    #[default]
    Core,
    /// The time by the clock
    Clock,
}

/// Runs the program, and writes the files.
pub fn main(args: Args) -> Result<ExitCode, String> {
    let folder = Folder::make(&args.output)?;
    if args.flops {
        let mark = folder.0.join(COUNT_WORK);
        std::fs::write(&mark, "").map_err(|why| format!("{}: {why}", mark.display()))?;
    }
    let outcome = run::run(args.run, vec![("PENNY_RECORD", folder.0.display().to_string())])?;
    if outcome.code != 0 {
        let code = outcome.report("penny record");
        answer::tell(format_args!("penny record: the program failed, so no workload is written"));
        return Ok(code);
    }
    let records = log::read(&folder.0)?;
    let traces = trace::traces(&records, args.time)?;
    let metadata = GlobalMetadata { version: "0.0.4".to_owned(), attr: Vec::new() };
    let ending = if args.json { "json" } else { "et" };
    let prefix = args.output.display();
    let mut nodes = 0;
    for (rank, trace) in traces.iter().enumerate() {
        let path = PathBuf::from(format!("{prefix}.{rank}.{ending}"));
        let bytes = if args.json {
            json::encode(&metadata, trace).into_bytes()
        } else {
            schema::encode(&metadata, trace)
        };
        std::fs::write(&path, bytes).map_err(|why| format!("{}: {why}", path.display()))?;
        nodes += trace.len();
    }
    answer::tell(format_args!(
        "penny record: {} ranks with {nodes} nodes in {prefix}.*.{ending}; price them with: penny sim --workload {prefix} --fabric \
         dgx-h100",
        traces.len()
    ));
    Ok(outcome.report("penny record"))
}

/// A folder for what the ranks write, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    /// Makes it beside the files that will be written: there is room.
    fn make(output: &Path) -> Result<Folder, String> {
        let name = output.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| {
            format!("--output {}: no file name; give a prefix such as step", output.display())
        })?;
        let path = output.with_file_name(format!(".{name}.record-{}", std::process::id()));
        let path =
            std::path::absolute(&path).map_err(|why| format!("--output {}: {why}", output.display()))?;
        std::fs::create_dir(&path)
            .map_err(|why| format!("--output {}: {}: {why}", output.display(), path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
