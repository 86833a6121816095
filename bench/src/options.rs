//! The command line: nccl-tests' letters, and a few of Penny's own.

use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::ValueParserFactory;
use penny::internals::spelling::hint;
use penny::internals::types::{DataType, RedOp};
use serde::{Deserialize, Serialize};

use crate::sizes::Sizes;
use crate::words::Words;

/// Shown under the options by `--help`.
pub const EXAMPLES: &str = "\
Sizes are bytes; K, M, G and KiB, MiB, GiB multiply by powers of 1024, kB, MB, GB by powers of 1000.

Examples:
  penny run -n 2 all_reduce_perf -b 8 -e 64M -f 4
  mpirun -n 4 all_reduce_perf -b 1K -e 1M -f 2 -d all -o all -c 1
  torchrun --no-python --nproc-per-node 2 broadcast_perf -b 1M -e 1M -r all --buffers heap";

/// What to measure and how often: the options of nccl-tests.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The sizes
    #[command(flatten)]
    #[serde(flatten)]
    pub sizes: Sizes,
    /// Timed calls, whose mean is shown; unset: batches of calls for 40 ms, at least 10 calls, and the lower quartile of their means is shown
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub iters: Option<u32>,
    /// Warm-up calls, not timed
    #[arg(short = 'w', long = "warmup_iters", value_name = "COUNT", default_value_t = 1)]
    pub warmup_iters: u32,
    /// Calls with checked results, each with different inputs; 0: none
    #[arg(short = 'c', long, value_name = "COUNT", default_value_t = 1)]
    pub check: u32,
    /// Element type: a name, or all
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float")]
    pub datatype: Choice<DataType>,
    /// Reduction: a name, or all
    #[arg(short = 'o', long, value_name = "OP", default_value = "sum")]
    pub op: Choice<RedOp>,
    /// Root: a rank, or all
    #[arg(short = 'r', long, value_name = "RANK", default_value = "0")]
    pub root: Choice<u32>,
    /// 1: the ranks synchronize before each call (not timed) instead of calling back to back
    #[arg(short = 'z', long, value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub blocking: u8,
    /// Time to show: 0 rank 0, 1 average of the ranks, 2 fastest rank, 3 slowest rank
    #[arg(short = 'a', long, value_name = "0|1|2|3", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(0..=3))]
    pub average: u8,
    /// Rewrite the inputs before each call (not timed): reused inputs stay in the cache, which makes small sizes look faster
    #[arg(long)]
    pub dirty: bool,
    /// Each call takes the next part of buffers of the largest size, as in nccl-tests: small sizes come from memory, not from the cache
    #[arg(long)]
    #[serde(default)]
    pub walk: bool,
}

/// The settings of one launch, and the file for its report.
#[derive(clap::Args, Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Kind of the buffers
    #[arg(long, value_name = "KIND", default_value = "private")]
    pub buffers: Buffers,
    /// 1: the same as --buffers registered
    #[arg(short = 'R', long = "local_register", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub local_register: u8,
    /// Algorithm (also --algo): sets PENNY_ALGO
    #[arg(long, alias = "algo", value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Write the table to this file as JSON; `-`: to standard output, in one line
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,
}

/// The kind of the ranks' buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffers {
    /// Ordinary memory, each rank's own
    Private,
    /// pennyMemAlloc: shared memory that peers can reach without a copy
    Heap,
    /// Ordinary memory that was given to pennyCommRegister
    Registered,
}

impl Buffers {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Buffers::Private => "private",
            Buffers::Heap => "heap",
            Buffers::Registered => "registered",
        }
    }
}

impl Variant {
    /// Returns the kind of buffers that `--buffers` or `-R 1` asks for.
    pub fn buffers(&self) -> Buffers {
        if self.local_register == 1 { Buffers::Registered } else { self.buffers }
    }
}

/// One of the values, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String", bound = "")]
pub enum Choice<T: Named> {
    /// Every value there is.
    All,
    /// This one.
    One(T),
}

/// Can be written on a command line.
pub trait Named: Copy + Send + Sync + 'static {
    /// Returns the spellings that completions and help list; none: there are too many.
    fn all() -> Vec<&'static str>;
    /// Returns the spelling on the command line.
    fn spelled(self) -> String;
    /// Parses a word of the command line; the error lists the valid ones.
    fn parsed(text: &str) -> Result<Self, String>;
}

impl Named for DataType {
    fn all() -> Vec<&'static str> {
        DataType::ALL.iter().map(|dtype| dtype.name()).collect()
    }
    fn spelled(self) -> String {
        self.name().to_owned()
    }
    fn parsed(text: &str) -> Result<DataType, String> {
        // The second spellings are those of nccl-tests, of numpy and torch, and of programming languages.
        let plain = text.to_ascii_lowercase();
        let name = match plain.as_str() {
            "f8e4m3" | "fp8e4m3" | "e4m3" | "float8_e4m3" | "float8_e4m3fn" => "fp8_e4m3",
            "f8e5m2" | "fp8e5m2" | "e5m2" | "float8_e5m2" => "fp8_e5m2",
            "float16" | "fp16" | "f16" => "half",
            "bf16" => "bfloat16",
            "float32" | "fp32" | "f32" => "float",
            "float64" | "fp64" | "f64" => "double",
            "i8" | "char" => "int8",
            "u8" => "uint8",
            "i16" => "int16",
            "u16" => "uint16",
            "i32" | "int" => "int32",
            "u32" => "uint32",
            "i64" | "long" => "int64",
            "u64" => "uint64",
            other => other,
        };
        DataType::from_name(name).ok_or_else(|| unknown("type", text, DataType::ALL))
    }
}

impl Named for RedOp {
    fn all() -> Vec<&'static str> {
        RedOp::ALL.iter().map(|op| op.name()).collect()
    }
    fn spelled(self) -> String {
        self.name().to_owned()
    }
    fn parsed(text: &str) -> Result<RedOp, String> {
        let plain = text.to_ascii_lowercase();
        let name = match plain.as_str() {
            "add" => "sum",
            "mul" | "product" => "prod",
            "mean" | "average" => "avg",
            "land" => "logical_and",
            "lor" => "logical_or",
            "lxor" => "logical_xor",
            "band" => "bit_and",
            "bor" => "bit_or",
            "bxor" => "bit_xor",
            other => other,
        };
        RedOp::from_name(name).ok_or_else(|| unknown("reduction", text, RedOp::ALL))
    }
}

impl Named for u32 {
    fn all() -> Vec<&'static str> {
        Vec::new()
    }
    fn spelled(self) -> String {
        self.to_string()
    }
    fn parsed(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| "neither a rank nor `all`".to_owned())
    }
}

fn unknown(what: &str, word: &str, all: &[impl ToString]) -> String {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    let meant = hint(word, names.iter().map(String::as_str));
    format!("no such {what}{meant}; there are {}", names.join(", "))
}

impl<T: Named> FromStr for Choice<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Choice<T>, String> {
        match text {
            "all" => Ok(Choice::All),
            text if T::all().is_empty() => T::parsed(text).map(Choice::One),
            text => T::parsed(text).map(Choice::One).map_err(|why| why + " and all"),
        }
    }
}

impl<T: Named> ValueParserFactory for Choice<T> {
    type Parser = Words<Choice<T>>;
    fn value_parser() -> Words<Choice<T>> {
        let all = || match T::all() {
            numbers if numbers.is_empty() => numbers,
            names => names.into_iter().chain(["all"]).collect(),
        };
        Words { all, parse: Choice::from_str }
    }
}

impl<T: Named> TryFrom<String> for Choice<T> {
    type Error = String;
    fn try_from(text: String) -> Result<Choice<T>, String> {
        text.parse()
    }
}

impl<T: Named> From<Choice<T>> for String {
    fn from(choice: Choice<T>) -> String {
        match choice {
            Choice::All => "all".to_owned(),
            Choice::One(value) => value.spelled(),
        }
    }
}

impl Options {
    /// The types and reductions that go together; `None` where the subject does not reduce.
    pub fn cases(&self, reduces: bool) -> Result<Vec<(DataType, Option<RedOp>)>, String> {
        let types = match self.datatype {
            Choice::All => DataType::ALL.to_vec(),
            Choice::One(dtype) => vec![dtype],
        };
        if !reduces {
            return Ok(types.into_iter().map(|dtype| (dtype, None)).collect());
        }
        let ops = match self.op {
            Choice::All => RedOp::ALL.to_vec(),
            Choice::One(op) => vec![op],
        };
        let pairs = types.iter().flat_map(|&dtype| ops.iter().map(move |&op| (dtype, op)));
        let cases: Vec<_> =
            pairs.filter(|(dtype, op)| op.serves(*dtype)).map(|(dtype, op)| (dtype, Some(op))).collect();
        match cases.is_empty() {
            true => Err(self.unserved()),
            false => Ok(cases),
        }
    }

    /// Says that the reduction does not exist for the type, and which ones do.
    fn unserved(&self) -> String {
        let (op, dtype) = (String::from(self.op), String::from(self.datatype));
        let Choice::One(known) = self.datatype else { return format!("--op {op} serves no type") };
        let those: Vec<String> =
            RedOp::ALL.iter().filter(|op| op.serves(known)).map(|&op| Choice::One(op).into()).collect();
        format!("--op {op} does not serve --datatype {dtype}; {dtype} has {}", those.join(", "))
    }

    /// The roots, `None` where the subject has none.
    pub fn roots(&self, rooted: bool, nranks: u32) -> Result<Vec<Option<u32>>, String> {
        match self.root {
            _ if !rooted => Ok(vec![None]),
            Choice::All => Ok((0..nranks).map(Some).collect()),
            Choice::One(root) if root < nranks => Ok(vec![Some(root)]),
            Choice::One(root) => Err(format!("--root {root} is out of range: ranks are 0 to {}", nranks - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        variant: Variant,
    }

    fn options(line: &str) -> Options {
        Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).options
    }

    #[test]
    fn all_means_every_pair_that_goes_together() {
        let pairs = DataType::ALL.iter().flat_map(|&t| RedOp::ALL.iter().map(move |&o| (t, o)));
        let valid = pairs.filter(|(t, o)| o.serves(*t)).count();
        assert_eq!(options("x -d all -o all").cases(true).unwrap().len(), valid);
        assert_eq!(options("x -d all -o all").cases(false).unwrap().len(), DataType::ALL.len());
        assert!(options("x -d float -o bit_xor").cases(true).unwrap_err().contains("bit_xor"));
    }

    #[test]
    fn a_root_must_be_a_rank() {
        assert_eq!(options("x -r all").roots(true, 3).unwrap(), [Some(0), Some(1), Some(2)]);
        assert_eq!(options("x -r 9").roots(false, 3).unwrap(), [None]);
        assert!(options("x -r 3").roots(true, 3).is_err());
    }

    #[test]
    fn local_register_asks_for_registration() {
        let variant = |line: &str| {
            Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).variant
        };
        assert_eq!(variant("x -R 1").buffers(), Buffers::Registered);
        assert_eq!(variant("x --buffers heap").buffers(), Buffers::Heap);
        assert_eq!(variant("x -R 0").buffers(), Buffers::Private);
    }
}
