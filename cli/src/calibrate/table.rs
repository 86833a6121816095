//! Measured times: a table of a log (`log`), or sizes and microseconds by commas or blanks.
//!
//! In a list of sizes and times, lines that begin with `#` are passed over; anything else that is no row is an error with its line.

use penny_bench::sizes::parse_bytes;
use penny_bench::subject::Subject;

use super::log::{self, Found};

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

/// A table, and what is said about the choice of it.
#[derive(Debug)]
pub struct Table {
    /// The collective, as far as it is known, and how.
    pub subject: Option<(Subject, &'static str)>,
    pub samples: Vec<Sample>,
    /// The ranks that were measured, if the log lists them.
    pub ranks: Option<u32>,
    /// Bytes of an element, and its name.
    pub element: (usize, String),
    /// Sentences about the table, for the report.
    pub remarks: Vec<String>,
}

/// The most rows that are fitted. Tables with a row each megabyte have thousands, which say the same.
const MOST_ROWS: usize = 64;

/// Reads the table that is asked for: number `wanted` of a log, or the one of `collective` with the most rows. `file` is for errors.
pub fn read(
    file: &str,
    text: &str,
    place: Place,
    wanted: Option<usize>,
    collective: Option<Subject>,
) -> Result<Table, String> {
    let tables = log::tables(text, place);
    if tables.is_empty() {
        if wanted.is_some() {
            return Err(format!("{file}: --table: this is no log of nccl-tests; leave it out"));
        }
        let samples = listed(file, text)?;
        let named =
            text.lines().filter_map(|line| log::program(line.trim().strip_prefix('#')?)?.parse().ok());
        let subject = named.map(|subject| (subject, "by a comment")).next();
        let element = (4, "float".to_owned());
        return Ok(thinned(Table { subject, samples, ranks: None, element, remarks: Vec::new() }));
    }
    let describe = |(number, table): (usize, &Found)| {
        let name = table.program.as_deref().unwrap_or("unnamed");
        format!("{} ({name}, line {}, {} rows)", number + 1, table.line, table.samples.len())
    };
    let all = || tables.iter().enumerate().map(describe).take(16).collect::<Vec<_>>().join(", ");
    let number = match wanted {
        Some(number @ 1..) if number <= tables.len() => number - 1,
        Some(number) => {
            return Err(format!("{file}: --table {number}: there are {}: {}", tables.len(), all()));
        }
        None => {
            let fits = |table: &Found| {
                collective.is_none() || log::subject(table).is_none_or(|subject| Some(subject) == collective)
            };
            let most = tables.iter().filter(|table| fits(table)).map(|table| table.samples.len()).max();
            let chosen = tables.iter().position(|table| fits(table) && Some(table.samples.len()) == most);
            chosen.ok_or_else(|| {
                format!(
                    "{file}: has no table of that collective; there are {}; --table takes one of them",
                    all()
                )
            })?
        }
    };
    let found = &tables[number];
    if found.samples.is_empty() {
        let why = match (place, found.one_place) {
            (Place::In, true) => "it has no in-place columns; leave out --place in",
            (Place::In, false) => "none has an in-place time; leave out --place in",
            (Place::Out, _) => "none has a time; give another with --table, or --place in",
        };
        return Err(format!("{file}:{}: of the rows of this table {why}", found.line));
    }
    let mut remarks = vec![match tables.len() {
        1 => format!("table: line {}, {} rows", found.line, found.samples.len()),
        count => {
            format!("table {} of {count}; --table takes another of {}", describe((number, found)), all())
        }
    }];
    if found.without > 0 {
        remarks.push(format!("left out: {} rows of no bytes or without a time", found.without));
    }
    if found.failed {
        remarks.push("note: the log says that results were wrong".to_owned());
    }
    if let Some(set) = &found.set_algorithm {
        remarks
            .push(format!("note: the log sets NCCL_ALGO to {set}; --algorithm says which one is meant here"));
    }
    let subject = log::subject(found);
    if let (None, Some(program)) = (subject, &found.program) {
        return Err(format!(
            "{file}:{}: is of {program}_perf, which is no collective here; give another with --table",
            found.line
        ));
    }
    let all_reduce = subject.is_some_and(|subject| subject.name() == "all_reduce");
    let listed = found.ranks.filter(|ranks| *ranks > 1);
    let ranks =
        listed.or(found.implied.filter(|_| all_reduce && collective.is_none_or(|c| Some(c) == subject)));
    if let Some(ranks) = ranks {
        let how = if listed.is_some() { "as the log lists them" } else { "by busbw over algbw" };
        remarks.push(format!("ranks: {ranks}, {how}"));
    }
    let by = if found.program.is_some() { "by the program's name" } else { "by busbw over algbw" };
    Ok(thinned(Table {
        subject: subject.map(|subject| (subject, by)),
        samples: found.samples.clone(),
        ranks,
        element: (element(&found.kind), found.kind.clone()),
        remarks,
    }))
}

/// The bytes of an element of a type.
fn element(kind: &str) -> usize {
    match kind {
        kind if kind.contains("64") || kind == "double" => 8,
        kind if kind.contains("16") || kind == "half" => 2,
        kind if kind.contains('8') || kind == "char" => 1,
        _ => 4,
    }
}

/// Leaves out rows of a table that is too long, evenly over the logarithm of the size.
fn thinned(mut table: Table) -> Table {
    let rows = table.samples.len();
    if rows <= MOST_ROWS {
        return table;
    }
    table.samples.sort_by_key(|sample| sample.bytes);
    let log = |sample: &Sample| (sample.bytes as f64).ln();
    let (first, last) = (log(&table.samples[0]), log(&table.samples[rows - 1]));
    let mut next = first;
    table.samples.retain(|sample| {
        let taken = log(sample) >= next - 1e-9;
        if taken {
            next += (last - first) / MOST_ROWS as f64;
            next = next.max(log(sample) + 1e-6);
        }
        taken
    });
    table.samples.truncate(MOST_ROWS);
    table.remarks.push(format!("taken: {} of {rows} rows, spread over the sizes", table.samples.len()));
    table
}

/// Reads sizes and times, a pair a line.
fn listed(file: &str, text: &str) -> Result<Vec<Sample>, String> {
    let mut samples: Vec<Sample> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let wrong = |what: &str| format!("{file}:{number}: {what}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let by_commas = line.contains([',', ';']);
        let fields: Vec<&str> = match by_commas {
            true => line.split([',', ';']).map(str::trim).collect(),
            false => line.split_whitespace().collect(),
        };
        if by_commas
            && samples.is_empty()
            && fields[0].parse::<f64>().is_err()
            && parse_bytes(fields[0]).is_err()
        {
            // Titles of columns.
            continue;
        }
        let bytes = parse_bytes(fields[0])
            .map_err(|_| wrong("this is no row, for it does not begin with a size; put # before it"))?;
        let [_, time] = fields[..] else {
            return Err(wrong("neither a size and a time, nor a row of nccl-tests; keep the line of titles"));
        };
        let us: f64 = time
            .parse()
            .ok()
            .filter(|us| *us > 0.0 && f64::is_finite(*us))
            .ok_or_else(|| wrong(&format!("`{time}` is no time in microseconds; take the row out")))?;
        samples.push(Sample { bytes, seconds: us * 1e-6 });
    }
    match samples.is_empty() {
        true => Err(format!("{file}: has no row; give the output of nccl-tests, or sizes and microseconds")),
        false => Ok(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Vec<(usize, f64)> {
        let table = read("t", text, Place::Out, None, None).unwrap();
        table.samples.iter().map(|s| (s.bytes, (s.seconds * 1e9).round() / 1e3)).collect()
    }

    fn rows(count: usize) -> String {
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n".to_owned()
            + &(1..=count).fold(String::new(), |text, row| {
                text + &format!("{} {row} float sum -1 {row}.5 2.0 3.5 0\n", 4 * row)
            })
    }

    #[test]
    fn the_table_with_the_most_rows_is_taken_and_the_others_are_named() {
        let text = format!("# x_perf: all_gather_perf -b 8\n{}# all_reduce_perf -b 8\n{}", rows(3), rows(2));
        let take = |wanted, collective: Option<&str>| {
            read("t", &text, Place::Out, wanted, collective.map(|name| name.parse().unwrap()))
        };
        let first = take(None, None).unwrap();
        assert_eq!((first.samples.len(), first.subject.unwrap().0.name()), (3, "all_gather"));
        assert!(
            first.remarks[0].contains("of 2; --table takes another")
                && first.remarks[0].contains("all_reduce, line 7, 2 rows"),
            "{:?}",
            first.remarks
        );
        assert_eq!(take(Some(2), None).unwrap().samples.len(), 2);
        assert_eq!(take(None, Some("all_reduce")).unwrap().samples.len(), 2);
        assert!(
            take(Some(3), None)
                .unwrap_err()
                .contains("--table 3: there are 2: 1 (all_gather, line 2, 3 rows), 2 ")
        );
        assert!(take(None, Some("broadcast")).unwrap_err().contains("no table of that collective"));
        let why = read("t", &text, Place::In, None, None).unwrap_err();
        assert!(
            why.starts_with("t:2: ") && why.contains("no in-place columns; leave out --place in"),
            "{why}"
        );
        let other = text.replace("all_gather_perf", "sendrecv_x_perf");
        assert!(
            read("t", &other, Place::Out, Some(1), None)
                .unwrap_err()
                .contains("is of sendrecv_x_perf, which is no collective")
        );
    }

    #[test]
    fn a_long_table_is_thinned_over_its_sizes_and_says_so() {
        let table = read("t", &rows(5000), Place::Out, None, None).unwrap();
        assert!((40..=MOST_ROWS).contains(&table.samples.len()), "{}", table.samples.len());
        assert_eq!(table.samples[0].bytes, 4);
        assert!(table.samples.last().unwrap().bytes > 18_000);
        assert!(table.remarks.iter().any(|line| line.contains("of 5000 rows")), "{:?}", table.remarks);
        assert_eq!(read("t", &rows(MOST_ROWS), Place::Out, None, None).unwrap().samples.len(), MOST_ROWS);
    }

    #[test]
    fn sizes_and_times_by_commas_are_read() {
        assert_eq!(times("size,time_us\n8,13.67\n64K,19.54\n"), [(8, 13.67), (65536, 19.54)]);
        assert_eq!(times("8;13.67\n"), times("8 13.67\n"));
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
            let why = read("t", text, Place::Out, None, None).unwrap_err();
            assert!(why.starts_with(line), "{text:?}: {why}");
        }
    }
}
