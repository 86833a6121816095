//! Measured times: the output of nccl-tests, of `penny perf` or `penny sim`, or sizes and microseconds by commas.
//!
//! ```text
//!     #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//!          1048576        262144     float     sum      -1    27.37   38.31   67.04      0    27.31   38.39   67.19      0
//!                                                            ^ 8 from the end: out of place ^ 4 from the end: in place
//! ```
//!
//! Columns are counted from the end, by the titles if there are any: where a call has no reduction, some programs leave
//! the column empty. Lines that begin with `#` and lines of NCCL's own log are passed over; anything else that is no
//! row is an error with its line.

use penny_bench::sizes::parse_bytes;
use penny_bench::subject::Subject;

/// Which columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Place {
    /// Input and output apart
    Out,
    /// Input within output
    In,
}

/// A size and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub bytes: usize,
    pub seconds: f64,
}

/// The contents of a table.
#[derive(Debug)]
pub struct Table {
    /// The collective, if a comment names the program.
    pub subject: Option<Subject>,
    pub samples: Vec<Sample>,
}

/// Columns of nccl-tests' table, from the end, where there are no titles.
const NCCL_COLUMNS: usize = 13;
const NCCL_TIMES: [usize; 2] = [8, 4];

/// Reads a table; `file` is for errors.
pub fn read(file: &str, text: &str, place: Place) -> Result<Table, String> {
    let mut table = Table { subject: None, samples: Vec::new() };
    // The columns of the times, counted from the end: out of place, in place.
    let mut times: Option<Vec<usize>> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let wrong = |what: &str| format!("{file}:{number}: {what}");
        if let Some(comment) = line.strip_prefix('#') {
            table.subject = table.subject.or_else(|| subject(comment));
            if let Some(found) = titles(comment) {
                times = Some(found);
            }
            continue;
        }
        if line.is_empty() || line.contains(" NCCL ") {
            continue;
        }
        let by_commas = line.contains([',', ';']);
        let fields: Vec<&str> = match by_commas {
            true => line.split([',', ';']).map(str::trim).collect(),
            false => line.split_whitespace().collect(),
        };
        let first = table.samples.is_empty() && times.is_none();
        if by_commas && first && fields[0].parse::<f64>().is_err() && parse_bytes(fields[0]).is_err() {
            // Titles of columns.
            continue;
        }
        let bytes = parse_bytes(fields[0])
            .map_err(|_| wrong("this is no row, for it does not begin with a size; put # before it"))?;
        let time = match (&times, fields.len()) {
            (_, 2) => Ok(fields[1]),
            (Some(times), columns) => {
                let at = times.get(place as usize).filter(|&&at| at < columns);
                at.map(|at| fields[columns - at]).ok_or("the row has no time where the titles have it")
            }
            (None, NCCL_COLUMNS..) => Ok(fields[fields.len() - NCCL_TIMES[place as usize]]),
            (None, _) => Err("neither a size and a time, nor a row of nccl-tests; keep the line of titles"),
        }
        .map_err(wrong)?;
        let us: f64 = time.parse().ok().filter(|us| *us > 0.0 && f64::is_finite(*us)).ok_or_else(|| {
            wrong(&format!("`{time}` is no time in microseconds; take the row out, or the other --place"))
        })?;
        table.samples.push(Sample { bytes, seconds: us * 1e-6 });
    }
    match table.samples.is_empty() {
        true => Err(format!("{file}: has no row; give the output of nccl-tests, or sizes and microseconds")),
        false => Ok(table),
    }
}

/// Returns the columns of the times if `comment` is the line of titles.
fn titles(comment: &str) -> Option<Vec<usize>> {
    let words: Vec<&str> = comment.split_whitespace().collect();
    if words.first() != Some(&"size") {
        return None;
    }
    let times = words.iter().enumerate().filter(|(_, word)| **word == "time");
    Some(times.map(|(at, _)| words.len() - at).collect()).filter(|times: &Vec<usize>| !times.is_empty())
}

/// `all_reduce_perf`, `all_reduce_sim`.
fn subject(comment: &str) -> Option<Subject> {
    comment.split(|c: char| !c.is_alphanumeric() && c != '_').find_map(|word| {
        let name = word.strip_suffix("_perf").or_else(|| word.strip_suffix("_sim"))?;
        name.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NCCL: &str = "\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 4(factor) warmup iters: 5 iters: 20
# Collective test starting: all_reduce_perf
node0:1:1 [0] NCCL INFO Bootstrap : Using eth0
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    27.37   38.31   67.04      0    27.31   38.39   67.19      0
     4194304       1048576     float     sum      -1    54.19   77.40  135.45      0    N/A     N/A     N/A       N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 101.2
";

    fn times(text: &str, place: Place) -> Vec<(usize, f64)> {
        let table = read("t", text, place).unwrap();
        table.samples.iter().map(|s| (s.bytes, (s.seconds * 1e9).round() / 1e3)).collect()
    }

    #[test]
    fn both_places_of_an_nccl_tests_table_are_read() {
        assert_eq!(times(NCCL, Place::Out), [(1 << 20, 27.37), (4 << 20, 54.19)]);
        let head: String = NCCL.lines().take(8).map(|line| format!("{line}\n")).collect();
        assert_eq!(times(&head, Place::In), [(1 << 20, 27.31)]);
        assert_eq!(read("t", NCCL, Place::Out).unwrap().subject.unwrap().name(), "all_reduce");
        let why = read("t", NCCL, Place::In).unwrap_err();
        assert!(why.starts_with("t:9: `N/A`"), "{why}");
    }

    #[test]
    fn rows_without_titles_and_rows_with_empty_columns_are_read() {
        let row = NCCL.lines().nth(7).unwrap();
        assert_eq!(times(row, Place::In), [(1 << 20, 27.31)]);
        let titles = NCCL.lines().nth(5).unwrap();
        let short = row.replace("sum", "").replace("-1", "");
        assert_eq!(times(&format!("{titles}\n{short}"), Place::Out), [(1 << 20, 27.37)]);
    }

    #[test]
    fn sizes_and_times_by_commas_are_read() {
        assert_eq!(times("size,time_us\n8,13.67\n64K,19.54\n", Place::Out), [(8, 13.67), (65536, 19.54)]);
        assert_eq!(times("8;13.67\n", Place::Out), times("8 13.67\n", Place::Out));
    }

    #[test]
    fn what_is_no_row_is_an_error_with_its_line() {
        for (text, line) in [
            ("8,1\nhello,2\n", "t:2:"),
            ("8,1\n16,zero\n", "t:2:"),
            ("8,0\n", "t:1:"),
            ("8,inf\n", "t:1:"),
            ("8 2 float\n", "t:1:"),
            ("mpirun: warning\n", "t:1:"),
            ("# size time\n8 1\n\n16\n", "t:4:"),
            ("", "t: has no row"),
            ("# only a comment\n", "t: has no row"),
        ] {
            let why = read("t", text, Place::Out).unwrap_err();
            assert!(why.starts_with(line), "{text:?}: {why}");
        }
    }
}
