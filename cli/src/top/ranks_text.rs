//! The report of an ordinary job as lines of text.
//!
//! ```text
//!     2 ranks (2 processes 41 to 42)  2.41 GB/s  18.2 k calls/s
//!     RANK   PID   CALLS   BYTES   CALLS/S    BYTES/S   WAITS   WAITING   TREND   LAST CALL
//! ```

use super::ranks::{RanksReport, Row};
use super::text::{bytes, percent, processes, scaled};

/// The levels of a sparkline.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the lines about the job.
pub fn head(report: &RanksReport) -> Vec<String> {
    let of = report.ranks.iter().find(|row| row.communicator == 0).map_or(0, |row| row.of as usize);
    let here = report.ranks.iter().filter(|row| row.communicator == 0).count();
    let count = if here == of { format!("{of} ranks") } else { format!("{here} of {of} ranks") };
    let mut first = format!("{count} ({})", processes(&report.pids));
    if let Some([place, of]) = report.place {
        first += &format!("  communicator {place} of {of} of these processes");
    }
    if report.communicators > 1 {
        first += &format!("  {} communicators", report.communicators);
    }
    if report.ranks.iter().any(|row| row.recent.is_some()) {
        let sum = |rate: fn(&Row) -> Option<f64>| report.ranks.iter().filter_map(rate).sum::<f64>();
        let bytes_per_s = sum(|row| row.recent.map(|recent| recent.bytes_per_s));
        let calls_per_s = sum(|row| row.recent.map(|recent| recent.calls_per_s));
        first += &format!("  {}/s  {} calls/s", bytes(bytes_per_s as u64), count_of(calls_per_s));
    }
    vec![first]
}

/// Returns the table's first line.
pub fn columns(report: &RanksReport) -> String {
    let mut line =
        format!("{}{:>4}  {:>8}  {:>9}  {:>9}", communicator_title(report), "RANK", "PID", "CALLS", "BYTES");
    if has_rates(report) {
        line += &format!("  {:>8}  {:>11}", "CALLS/S", "BYTES/S");
    }
    line += &format!("  {:>7}  {:>8}", "WAITS", "WAITING");
    let trend = trend_width(report);
    if trend > 0 {
        line += &format!("  {:<trend$}", "TREND");
    }
    line + "  LAST CALL"
}

/// Returns a line a rank.
pub fn rows(report: &RanksReport) -> Vec<String> {
    let most = report.ranks.iter().flat_map(|row| &row.rates).copied().fold(0.0, f64::max);
    let trend = trend_width(report);
    let row = |row: &Row| {
        let communicator =
            if report.communicators > 1 { format!("{:>4}  ", row.communicator) } else { String::new() };
        let mut line = format!(
            "{communicator}{:>4}  {:>8}  {:>9}  {:>9}",
            row.rank,
            row.pid,
            count_of(row.calls as f64),
            bytes(row.bytes)
        );
        if has_rates(report) {
            let (calls, rate) = row.recent.map_or(("-".into(), "-".into()), |recent| {
                (count_of(recent.calls_per_s), format!("{}/s", bytes(recent.bytes_per_s as u64)))
            });
            line += &format!("  {calls:>8}  {rate:>11}");
        }
        let waits = row.recent.map_or_else(|| seconds(row.waited_s), |recent| percent(Some(recent.waits)));
        let waiting = row.waiting_s.map_or_else(|| "-".into(), seconds);
        line += &format!("  {waits:>7}  {waiting:>8}");
        if trend > 0 {
            line += &format!("  {:<trend$}", sparkline(&row.rates, most));
        }
        let last = row.last_call.clone().unwrap_or_else(|| messages(row));
        let state = if row.state == "member" { String::new() } else { format!(" ({})", row.state) };
        line + "  " + &last + &state
    };
    report.ranks.iter().map(row).collect()
}

/// Tells of the messages of a rank that has called no collective.
fn messages(row: &Row) -> String {
    match (row.sent.messages, row.received.messages) {
        (0, 0) => "none yet".into(),
        (sent, received) => format!("messages: {sent} sent, {received} received"),
    }
}

fn communicator_title(report: &RanksReport) -> &'static str {
    if report.communicators > 1 { "COMM  " } else { "" }
}

fn has_rates(report: &RanksReport) -> bool {
    report.ranks.iter().any(|row| row.recent.is_some())
}

/// Columns of the sparklines; 0: there are too few looks for one.
fn trend_width(report: &RanksReport) -> usize {
    let most = report.ranks.iter().map(|row| row.rates.len()).max().unwrap_or(0);
    if most > 1 { most.max("TREND".len()) } else { 0 }
}

/// Draws rates in the proportion of the largest one of all ranks.
fn sparkline(rates: &[f64], most: f64) -> String {
    let level = |rate: &f64| match most > 0.0 {
        true => LEVELS[((rate / most * 7.0).round() as usize).min(7)],
        false => LEVELS[0],
    };
    rates.iter().map(level).collect()
}

fn count_of(number: f64) -> String {
    scaled(number as u64, &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")]).replace(' ', "")
}

fn seconds(s: f64) -> String {
    match s {
        _ if s >= 100.0 => format!("{s:.0} s"),
        _ if s >= 1.0 => format!("{s:.1} s"),
        _ => format!("{:.0} ms", s * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranks::History;
    use super::super::ranks::tests::look;
    use super::*;

    #[test]
    fn one_look_is_a_head_and_a_line_a_rank() {
        let report = RanksReport::new(&[41, 42], &look(12, 2), &mut History::default());
        let lines: Vec<String> =
            head(&report).into_iter().chain([columns(&report)]).chain(rows(&report)).collect();
        let expected = [
            "2 of 4 ranks (2 processes 41 to 42)",
            "RANK       PID      CALLS      BYTES    WAITS   WAITING  LAST CALL",
            "   0        41         12    12.0 MB     0 ms         -  #12 all_reduce(count 250000, type float, op sum)",
            "   1        42         13    12.0 MB    1.0 s     2.5 s  #12 all_reduce(count 250000, type float, op sum)",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn communicators_of_the_same_processes_have_headings_of_their_own() {
        let mut report = RanksReport::new(&[41, 42], &look(12, 2), &mut History::default());
        report.place = Some([2, 3]);
        let expected = "2 of 4 ranks (2 processes 41 to 42)  communicator 2 of 3 of these processes";
        assert_eq!(head(&report), [expected]);
    }

    #[test]
    fn a_sparkline_is_drawn_in_proportion_to_the_busiest_rank() {
        assert_eq!(sparkline(&[0.0, 4.0, 8.0], 8.0), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0], 0.0), "▁▁");
        let mut history = History::default();
        let mut report = RanksReport::new(&[41], &look(1, 0), &mut history);
        for times in 2..5 {
            report = RanksReport::new(&[41], &look(times, 0), &mut history);
        }
        let (columns, row) = (columns(&report), &rows(&report)[0]);
        assert!(columns.contains("TREND") && row.contains('█'), "{columns}\n{row}");
        let place = |line: &str, word| line.find(word).map(|at| line[..at].chars().count());
        assert_eq!(place(&columns, "LAST CALL"), place(row, "#4"), "{columns}\n{row}");
        assert!(head(&report)[0].contains("/s"), "{:?}", head(&report));
    }
}
