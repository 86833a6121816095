//! Tables in the output of nccl-tests and rccl-tests, as launchers hand it on.
//!
//! ```text
//!     [1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw #wrong     time ...
//!     [1,0]<stdout>:     1048576        262144     float     sum      -1    27.37   38.31   67.04      0    27.31 ...
//!     `-- tag: whose line it is                                    root ^   ^ what follows the titles' first `time`
//! ```
//!
//! A row is a line of size, count and type with times behind; whatever else stands in a log is passed over. Lines are told apart by
//! the tags of `mpirun` and `srun`, and what NCCL says in the midst of a row is taken out, so a row may be in pieces. Titles
//! begin a table; old ones name no root, or no place but one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use penny_bench::subject::Subject;

use super::table::{Place, Sample};

/// A table of a log.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The line of its titles, or of its first row.
    pub line: usize,
    /// The program's name, without `_perf`.
    pub program: Option<String>,
    /// The ranks that the lines before it list.
    pub ranks: Option<u32>,
    /// The rows that have a time.
    pub samples: Vec<Sample>,
    /// Rows without a time for the place, or of no bytes.
    pub without: usize,
    /// The first type, such as `float`.
    pub kind: String,
    /// Bus bandwidth over bandwidth, where the largest row tells it.
    pub ratio: Option<f64>,
    /// The ranks that this ratio means for an all-reduce.
    pub implied: Option<u32>,
    /// The program says that results were wrong.
    pub failed: bool,
    /// It has titles.
    titled: bool,
    /// They have one place alone.
    pub one_place: bool,
    /// NCCL_ALGO, if the log says that it was set.
    pub set_algorithm: Option<String>,
}

/// The columns of a table from its first time on.
#[derive(Clone, Copy)]
struct Columns {
    /// From the first `time` to the end.
    behind: usize,
    /// Where the times are among them.
    times: [Option<usize>; 2],
    root: bool,
}

/// What one source of lines has said.
#[derive(Default)]
struct Source {
    columns: Option<Columns>,
    /// The open table's number.
    table: Option<usize>,
    /// Words of a row that is not complete.
    pieces: Vec<String>,
    /// One more than the highest rank in the list of devices.
    ranks: Option<u32>,
}

struct Reader {
    place: Place,
    sources: BTreeMap<String, Source>,
    found: Vec<Found>,
    program: Option<String>,
    set_algorithm: Option<String>,
}

/// The tables of a log that have rows, in its order.
pub fn tables(text: &str, place: Place) -> Vec<Found> {
    let mut reader =
        Reader { place, sources: BTreeMap::new(), found: Vec::new(), program: None, set_algorithm: None };
    for (number, line) in (1..).zip(text.lines()) {
        let line = &without_inner_tags(line);
        let (tag, line) = untagged(line);
        reader.line(number, &tag, line);
    }
    for (_, source) in std::mem::take(&mut reader.sources) {
        flush(source, &mut reader.found, place);
    }
    reader.found.retain(|table| !table.samples.is_empty() || (table.without > 0 && table.titled));
    reader.found
}

impl Reader {
    fn line(&mut self, number: usize, tag: &str, line: &str) {
        self.notice(line);
        let line = without_messages(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let place = self.place;
        let source = self.sources.entry(tag.to_owned()).or_default();
        let comment = line.strip_prefix('#').unwrap_or(line).trim();
        if comment.starts_with("nThread") {
            source.ranks = None;
        }
        if let Some(rank) = listed_rank(comment) {
            source.ranks = source.ranks.max(Some(rank + 1));
        }
        if let Some(columns) = titles(comment) {
            complete(source, &mut self.found, place);
            source.columns = Some(columns);
            source.table = Some(self.found.len());
            self.found.push(Found {
                line: number,
                program: self.program.clone(),
                ranks: source.ranks,
                titled: true,
                one_place: columns.times[1].is_none(),
                set_algorithm: self.set_algorithm.clone(),
                ..Found::default()
            });
        } else if is_head(&words) {
            complete(source, &mut self.found, place);
            if source.table.is_none() {
                source.table = Some(self.found.len());
                self.found.push(Found {
                    line: number,
                    program: self.program.clone(),
                    ranks: source.ranks,
                    set_algorithm: self.set_algorithm.clone(),
                    ..Found::default()
                });
            }
            source.pieces = words.iter().map(|word| (*word).to_owned()).collect();
        } else if !source.pieces.is_empty() && !words.is_empty() && words.iter().all(|word| is_number(word)) {
            source.pieces.extend(words.iter().map(|word| (*word).to_owned()));
        } else if line.contains("Out of bounds values") && line.contains("FAILED") {
            complete(source, &mut self.found, place);
            if let Some(table) = source.table.and_then(|table| self.found.get_mut(table)) {
                table.failed = true;
            }
        }
    }

    /// Looks for the program and for NCCL_ALGO.
    fn notice(&mut self, line: &str) {
        let started = line.split_once("Collective test starting:").map(|(_, name)| name);
        let command = line.starts_with('#')
            || ["mpirun", "srun", " -b ", " -e ", "--minbytes"].iter().any(|sign| line.contains(sign));
        if let Some(program) = started.or(command.then_some(line)).and_then(program) {
            // A log may name its program behind the table only.
            if let Some(table) = self.found.last_mut().filter(|_| line.contains("test concluded")) {
                table.program.get_or_insert_with(|| program.clone());
            }
            self.program = Some(program);
        }
        if let Some((_, value)) = line.split_once("NCCL_ALGO") {
            let value = value.trim_start_matches(['=', ' ']).trim_start_matches("set by environment to ");
            let word: String = value.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == ',').collect();
            if !word.is_empty() && word.len() <= 40 {
                self.set_algorithm = Some(word);
            }
        }
    }
}

/// Ends a source.
fn flush(mut source: Source, found: &mut [Found], place: Place) {
    complete(&mut source, found, place);
}

/// Makes a row of the pieces that there are.
fn complete(source: &mut Source, found: &mut [Found], place: Place) {
    let words = std::mem::take(&mut source.pieces);
    let Some(table) = source.table.and_then(|table| found.get_mut(table)).filter(|_| !words.is_empty())
    else {
        return;
    };
    let alphabetic = |word: &&String| word.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_number(word);
    let behind: Vec<&String> = words[3..].iter().skip_while(alphabetic).collect();
    let columns = source.columns.unwrap_or_else(|| Columns::guessed(behind.len()));
    // A root is a whole number before the times. Some rows leave it out, and some end after the first place.
    let longer =
        if behind.len() < columns.behind { behind.len() % 4 == 1 } else { behind.len() > columns.behind };
    let whole = behind.first().is_some_and(|word| word.parse::<i64>().is_ok());
    let skipped = usize::from(columns.root && longer && whole);
    let number = |at: usize| behind.get(at + skipped).and_then(|word| word.parse::<f64>().ok());
    let at = columns.times[place as usize];
    let us = at.and_then(number).filter(|us| *us > 0.0 && us.is_finite());
    let bytes: Option<usize> = words[0].parse().ok().filter(|bytes| *bytes > 0);
    match (bytes, us, at) {
        (Some(bytes), Some(us), Some(at)) => {
            if table.kind.is_empty() {
                table.kind.clone_from(&words[2]);
            }
            table.samples.push(Sample { bytes, seconds: us * 1e-6 });
            if let (Some(algbw), Some(busbw)) = (number(at + 1), number(at + 2)) {
                // Two digits behind the point: a large bandwidth tells the ratio, and 2 (n - 1) / n the ranks.
                table.ratio = (algbw >= 1.0).then_some(busbw / algbw).or(table.ratio);
                let ranks = 2.0 / (2.0 - busbw / algbw);
                let doubt = ranks * ranks * 0.01 / algbw;
                table.implied = (algbw >= 1.0 && (2.0..4096.0).contains(&ranks) && doubt < 0.3)
                    .then_some(ranks.round() as u32)
                    .or(table.implied);
            }
        }
        _ => table.without += 1,
    }
}

impl Columns {
    /// The columns of a row without titles: four a place, and perhaps a root before them.
    fn guessed(behind: usize) -> Columns {
        let two = behind >= 8;
        Columns { behind: if two { 8 } else { 4 }, times: [Some(0), two.then_some(4)], root: behind % 4 == 1 }
    }
}

/// Returns the columns if a line is one of titles.
fn titles(line: &str) -> Option<Columns> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.first() != Some(&"size") || !words.contains(&"count") {
        return None;
    }
    let first = words.iter().position(|word| *word == "time")?;
    let mut times = words[first..].iter().enumerate().filter(|(_, word)| **word == "time").map(|(at, _)| at);
    Some(Columns {
        times: [times.next(), times.next()],
        behind: words.len() - first,
        root: words[..first].contains(&"root"),
    })
}

/// Tells whether words begin a row: size, count, type.
fn is_head(words: &[&str]) -> bool {
    let whole = |at: usize| words.get(at).is_some_and(|word| word.parse::<u64>().is_ok());
    let kind = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase()) && word.len() <= 16;
    whole(0) && whole(1) && words.get(2).is_some_and(kind)
}

fn is_number(word: &str) -> bool {
    word == "N/A" || word.parse::<f64>().is_ok()
}

/// Returns the rank of a line of the list of devices: `Rank  7 Group  0 Pid 1 on ...`.
fn listed_rank(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace();
    let rank = (words.next()? == "Rank").then(|| words.next()?.parse().ok()).flatten()?;
    ["Group", "Pid"].contains(&words.next()?).then_some(rank).filter(|rank| *rank < 1 << 24)
}

/// Returns the name of a program of nccl-tests in a line, without `_perf` and what follows it.
pub fn program(line: &str) -> Option<String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter_map(|word| {
            let word = word.strip_suffix("_mpi").unwrap_or(word);
            word.strip_suffix("_perf").or_else(|| word.strip_suffix("_sim")).filter(|name| !name.is_empty())
        })
        .map(str::to_owned)
        .next_back()
}

/// The collective that a table measured: by its program's name, or by the ratio of its bandwidths.
pub fn subject(table: &Found) -> Option<Subject> {
    match &table.program {
        Some(program) => program.parse().ok(),
        // No other collective's bus bandwidth is above its bandwidth.
        None if table.ratio.is_some_and(|ratio| ratio > 1.05) => "all_reduce".parse().ok(),
        None => None,
    }
}

/// Returns a line without the tags that launchers put before it, and the tags.
fn untagged(line: &str) -> (String, &str) {
    let mut tag = String::new();
    let mut rest = line.trim();
    for _ in 0..3 {
        let Some(end) = tag_end(rest) else { break };
        let (head, tail) = rest.split_at(end);
        tag += head.trim();
        rest = tail.trim();
    }
    (tag, rest)
}

/// Takes out the tags that Hydra (MPICH, Intel MPI: `mpiexec -l`) puts before each piece of a row that it is handed: `[0]  1024  256 float sum -1[0]
/// 20.1 ...`. One at the begin stays: it says whose line it is.
fn without_inner_tags(line: &str) -> Cow<'_, str> {
    let Some(tag) = line.split_inclusive(']').next().filter(|tag| is_rank(tag)) else { return line.into() };
    match line[tag.len()..].contains(tag) {
        true => format!("{tag}{}", line[tag.len()..].replace(tag, " ")).into(),
        false => line.into(),
    }
}

/// Tells whether a word is a rank as Hydra has it before its lines: `[0]`.
fn is_rank(word: &str) -> bool {
    let number = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Returns where a tag at the begin of a line ends.
fn tag_end(line: &str) -> Option<usize> {
    // mpirun: [1,0]<stdout>:
    if line.starts_with('[')
        && let Some(at) = line.find(">:").filter(|at| *at < 48)
    {
        return Some(at + 2);
    }
    let word = line.split_whitespace().next()?;
    // mpiexec -l: [0]
    if is_rank(word) {
        return Some(word.len());
    }
    let follows = line[word.len()..].trim_start();
    let is_table = follows.starts_with('#') || follows.starts_with(|c: char| c.is_ascii_digit());
    let name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/[],".contains(c))
    };
    // PALS: host 0: | srun -l: 0: | pdsh: host: | compose: name | | 2024-05-01T08:00:00Z
    let second = follows.split_whitespace().next().unwrap_or_default();
    if name(word)
        && word.contains('.')
        && second.strip_suffix(':').is_some_and(|rank| rank.parse::<u32>().is_ok())
    {
        return Some(line.len() - follows.len() + second.len());
    }
    let colon =
        word.strip_suffix(':').is_some_and(|text| name(text) && (is_table || text.parse::<u32>().is_ok()));
    let time =
        word.len() >= 19 && word.as_bytes().get(10) == Some(&b'T') && word.as_bytes().get(4) == Some(&b'-');
    match (colon || (time && word.is_ascii()), follows.strip_prefix("| ")) {
        (true, _) => Some(word.len()),
        (false, Some(_)) if name(word) => Some(line.len() - follows.len() + 1),
        _ => None,
    }
}

/// Cuts off what NCCL says within a line: `host:1:1 [0] NCCL INFO ...`.
fn without_messages(line: &str) -> &str {
    let Some(at) =
        [" NCCL INFO", " NCCL WARN", " NCCL TRACE"].iter().filter_map(|sign| line.find(sign)).min()
    else {
        return line;
    };
    let mut before = line[..at].trim_end();
    // The device, and the host with its process and thread.
    for end in [']', '['] {
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        if end == ']' && word.ends_with(']') || end == '[' && word.matches(':').count() >= 2 {
            before = before[..before.len() - word.len()].trim_end();
        }
    }
    before
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
