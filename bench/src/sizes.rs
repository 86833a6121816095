//! Which sizes a table has: from a first to a last, in steps that multiply or add.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};
use penny::internals::env::bytes_from;
use serde::{Deserialize, Serialize};

/// The sizes of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sizes {
    /// The first one.
    pub min_bytes: usize,
    /// The last one; `None`: the first one only.
    pub max_bytes: Option<usize>,
    /// Added from one size to the next.
    pub step_bytes: usize,
    /// Multiplies from one size to the next; 1: `step_bytes` is added.
    pub step_factor: u32,
}

/// The options of nccl-tests that tell the sizes.
#[derive(clap::Args)]
struct SizeOptions {
    /// First size
    #[arg(short = 'b', long = "minbytes", value_name = "BYTES", default_value = "32M", value_parser = parse_bytes)]
    min_bytes: usize,
    /// Last size; unset, and -b above the default: that size only
    #[arg(short = 'e', long = "maxbytes", value_name = "BYTES", default_value = "32M", value_parser = parse_bytes)]
    max_bytes: Option<usize>,
    /// Added from one size to the next
    #[arg(short = 'i', long = "stepbytes", value_name = "BYTES", default_value = "1M", value_parser = parse_bytes)]
    step_bytes: usize,
    /// Multiplies from one size to the next; 1: use --stepbytes
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    step_factor: u32,
}

// By hand, because the derived form cannot tell a default from what was typed.
impl clap::FromArgMatches for Sizes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Sizes, Error> {
        let SizeOptions { min_bytes, max_bytes, step_bytes, step_factor } =
            SizeOptions::from_arg_matches(matches)?;
        let is_typed = matches.value_source("max_bytes") == Some(ValueSource::CommandLine);
        let max_bytes = max_bytes.map(|last| if is_typed { last } else { last.max(min_bytes) });
        Ok(Sizes { min_bytes, max_bytes, step_bytes, step_factor })
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Sizes::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Sizes {
    fn augment_args(command: Command) -> Command {
        SizeOptions::augment_args(command)
    }
    fn augment_args_for_update(command: Command) -> Command {
        SizeOptions::augment_args_for_update(command)
    }
}

impl Sizes {
    /// The last one at most.
    pub fn last(&self) -> usize {
        self.max_bytes.unwrap_or(self.min_bytes)
    }

    /// The sizes, in order.
    pub fn list(&self) -> Result<Vec<usize>, String> {
        let (min, max) = (self.min_bytes, self.last());
        if min > max {
            return Err(format!("--minbytes ({min}) is above --maxbytes ({max}); pass a larger -e"));
        }
        if self.step_factor == 1 && self.step_bytes == 0 && min < max {
            return Err("--stepbytes 0 with --stepfactor 1 never reaches --maxbytes".to_owned());
        }
        if self.step_factor > 1 && min == 0 && max > 0 {
            return Err("--minbytes 0 times --stepfactor never reaches --maxbytes; begin at 1".to_owned());
        }
        let next = |&size: &usize| match self.step_factor {
            1 => size.checked_add(self.step_bytes.max(1)),
            factor => size.checked_mul(factor as usize),
        };
        // Factor > 1 with min = max = 0 would stay at 0 for ever.
        let sizes = std::iter::successors(Some(min), |size| next(size).filter(|n| n > size));
        Ok(sizes.take_while(|&size| size <= max).collect())
    }
}

/// Reads a number of bytes: digits, then nothing, K, M, G, T or KiB.. (powers of 1024), or kB, MB.. (powers of 1000).
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    Ok(bytes_from(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sizes: Sizes,
    }

    fn sizes(line: &str) -> Sizes {
        Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}")).sizes
    }

    #[test]
    fn sizes_take_suffixes_in_powers_of_1024() {
        for (text, bytes) in [
            ("8", 8),
            ("64K", 65_536),
            ("32m", 33_554_432),
            ("1G", 1 << 30),
            ("2KB", 2000),
            ("2KiB", 2048),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "x", "-1", "1.5M", "99999999999999999999", "99999999999999G"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_that_does_not_parse_names_its_option() {
        let Err(error) = Line::try_parse_from(["x", "-e", "many"]) else { panic!("accepted") };
        assert!(error.to_string().contains("--maxbytes"), "{error}");
    }

    #[test]
    fn a_first_size_above_the_default_of_the_last_is_the_only_one() {
        for line in ["x -b 64M", "x -b 64M -i 1K", "x -b 64M -i 0", "x -b 64M -f 2", "x -i 3 -b 64M"] {
            assert_eq!(sizes(line).list(), Ok(vec![64 << 20]), "{line}");
            assert_eq!(sizes(line).last(), 64 << 20, "{line}");
        }
        assert_eq!(sizes("x -b 31M").list(), Ok(vec![31 << 20, 32 << 20]));
        for line in ["x -b 64M -e 32M", "x -e 32M -b 64M"] {
            let refused = sizes(line).list().unwrap_err();
            assert!(refused.contains("--minbytes (67108864) is above --maxbytes (33554432)"), "{refused}");
        }
    }

    #[test]
    fn steps_multiply_or_add() {
        assert_eq!(sizes("x -b 8 -e 64 -f 2").list().unwrap(), [8, 16, 32, 64]);
        assert_eq!(sizes("x -b 1 -e 3 -i 1").list().unwrap(), [1, 2, 3]);
        assert_eq!(sizes("x -b 4 -e 4 -i 0").list().unwrap(), [4]);
        assert_eq!(sizes("x -b 0 -e 0 -f 2").list().unwrap(), [0]);
        assert_eq!(sizes("x").list().unwrap(), [32 << 20]);
        for endless in ["x -b 8 -e 4", "x -b 1 -e 2 -i 0", "x -b 0 -e 8 -f 2"] {
            assert!(sizes(endless).list().is_err(), "{endless}");
        }
    }
}
