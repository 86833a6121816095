//! `penny doctor --post-mortem`: what the ranks of a communicator that broke did last, from the files that they wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

/// Calls that are shown.
const SHOWN: usize = 8;

/// What a rank has written when its communicator broke.
#[derive(Debug, Deserialize)]
struct Told {
    penny_post_mortem: u32,
    version: String,
    rank: u32,
    pid: u32,
    time: f64,
    code: String,
    error: String,
    ranks: Vec<Rank>,
}

/// What it knew of one of the ranks.
#[derive(Clone, Debug, Deserialize)]
struct Rank {
    rank: u32,
    pid: u32,
    host: String,
    state: String,
    process: String,
    steps: u64,
    calls: Vec<Call>,
}

#[derive(Clone, Debug, Deserialize)]
struct Call {
    number: u64,
    call: String,
}

/// Reads files, and the files of folders, and tells of each communicator on a page.
pub fn page(paths: &[PathBuf]) -> Result<String, String> {
    let (mut told, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        let files = if path.is_dir() { in_folder(path)? } else { vec![path.clone()] };
        for file in files {
            match read(&file) {
                Ok(one) => told.push(one),
                // One bad file of several does not hide the others.
                Err(why) if path.is_dir() => left_out.push(why),
                Err(why) => return Err(why),
            }
        }
    }
    if let (true, Some(why)) = (told.is_empty(), left_out.first()) {
        return Err(String::clone(why));
    }
    if told.is_empty() {
        return Err(
            "--post-mortem: there is no file in that folder; ranks write there if PENNY_POST_MORTEM names it"
                .into(),
        );
    }
    // The same processes are of one communicator, as far as can be told.
    let mut by_members: BTreeMap<Vec<u32>, Vec<Told>> = BTreeMap::new();
    for one in told {
        by_members.entry(one.ranks.iter().map(|rank| rank.pid).collect()).or_default().push(one);
    }
    let mut text = by_members.into_values().map(of_communicator).collect::<Vec<_>>().join("\n");
    left_out.iter().for_each(|why| text += &format!("\nleft out: {why}\n"));
    Ok(text)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("--post-mortem {}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Told, String> {
    let text = fs::read_to_string(file).map_err(|e| {
        format!(
            "--post-mortem {}: {e}; name the folder of which `penny run` told, or a file in it",
            file.display()
        )
    })?;
    let told: Told = serde_json::from_str(&text).map_err(|e| {
        format!("--post-mortem {}: no file that a rank of Penny wrote when it failed: {e}", file.display())
    })?;
    match told.penny_post_mortem {
        1 => Ok(told),
        other => Err(format!("--post-mortem {}: its form is {other}; this penny reads 1", file.display())),
    }
}

/// Writes a time in seconds since 1970 as a date, if it is before the year 10000.
fn date(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(since) if seconds < 253_402_300_799.0 => {
            humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
        }
        _ => "?".into(),
    }
}

/// Tells of one communicator.
fn of_communicator(mut told: Vec<Told>) -> String {
    told.sort_by(|a, b| a.time.total_cmp(&b.time));
    let ranks = latest(&told);
    let first = &told[0];
    let mut text = format!(
        "communicator of {} ranks, Penny {}: {} of them wrote what they knew, the first (rank {}) at {}\n\n",
        ranks.len(),
        first.version,
        told.len(),
        first.rank,
        date(first.time),
    );
    let _ =
        writeln!(text, "{:>5} {:>9}  {:34} {:>10} {:>10}  last call", "rank", "pid", "end", "calls", "steps");
    for rank in &ranks {
        let (number, call) = rank.calls.last().map_or((0, "none"), |last| (last.number, last.call.as_str()));
        let own = told.iter().find(|one| one.rank == rank.rank);
        let end = match own {
            Some(one) => format!("{}, {:+.1} ms", one.code, (one.time - first.time) * 1e3),
            None => end(rank),
        };
        let host = if rank.host.is_empty() { String::new() } else { format!(" [{}]", rank.host) };
        let _ = writeln!(
            text,
            "{:>5} {:>9}  {end:34} {number:>10} {:>10}  {call}{host}",
            rank.rank, rank.pid, rank.steps
        );
    }
    text += "\nlast calls\n";
    for (number, calls) in by_number(&ranks) {
        let each: Vec<String> =
            calls.iter().map(|(call, who)| format!("{call}: {}", listed(who, ranks.len()))).collect();
        let _ = writeln!(text, "{number:>8}  {}", each.join("; "));
    }
    text += "\nwhat they said\n";
    for one in &told {
        let _ = writeln!(text, "  rank {} (pid {}): {}", one.rank, one.pid, one.error);
    }
    text
}

/// Returns each rank as the one knew it that saw the most of its calls; of equals the last one that wrote.
fn latest(told: &[Told]) -> Vec<Rank> {
    let mut ranks: BTreeMap<u32, Rank> = BTreeMap::new();
    for rank in told.iter().flat_map(|one| &one.ranks) {
        let known = ranks.entry(rank.rank).or_insert_with(|| rank.clone());
        let last = |rank: &Rank| (rank.calls.last().map_or(0, |call| call.number), rank.steps);
        if last(rank) >= last(known) {
            *known = rank.clone();
        }
    }
    ranks.into_values().collect()
}

/// Tells how a rank ended that has written nothing itself.
fn end(rank: &Rank) -> String {
    match rank.state.as_str() {
        "member" if rank.process == "dead" => "died".into(),
        "member" => format!("wrote nothing, process {}", rank.process),
        state => format!("{state}, process {}", rank.process),
    }
}

/// Returns the latest calls by their numbers, and for each what its ranks called.
fn by_number(ranks: &[Rank]) -> Vec<(u64, BTreeMap<&str, BTreeSet<u32>>)> {
    let mut calls: BTreeMap<u64, BTreeMap<&str, BTreeSet<u32>>> = BTreeMap::new();
    for rank in ranks {
        for Call { number, call } in &rank.calls {
            calls.entry(*number).or_default().entry(call).or_default().insert(rank.rank);
        }
    }
    let first = calls.len().saturating_sub(SHOWN);
    calls.into_iter().skip(first).collect()
}

/// Names ranks: `all`, or `0-3, 7`.
fn listed(who: &BTreeSet<u32>, all: usize) -> String {
    if who.len() == all {
        return "all".into();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in who {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let text = ranges.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    let noun = if who.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", text.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rank: u32, time: f64, calls: [&[&str]; 3]) -> Told {
        let ranks = (0..3).map(|of| {
            let calls = calls[of as usize].iter().zip(5..);
            Rank {
                rank: of,
                pid: 100 + of,
                host: String::new(),
                state: if of == 2 { "member" } else { "failed" }.into(),
                process: if of == 2 { "dead" } else { "running" }.into(),
                steps: 9,
                calls: calls.map(|(call, number)| Call { number, call: (*call).into() }).collect(),
            }
        });
        let (version, code, error) = ("0".into(), "RemoteError".into(), format!("rank {rank} tells"));
        Told {
            penny_post_mortem: 1,
            version,
            rank,
            pid: 100 + rank,
            time,
            code,
            error,
            ranks: ranks.collect(),
        }
    }

    #[test]
    fn a_page_tells_who_died_in_which_call_and_what_the_others_said() {
        let calls = [&["barrier", "all_reduce(7)"][..], &["barrier", "all_reduce(7)"], &["barrier"]];
        let page = of_communicator(vec![told(1, 2.5, calls), told(0, 2.0, calls)]);
        for line in [
            "    2       102  died                                        5          9  barrier",
            "    1       101  RemoteError, +500.0 ms                      6          9  all_reduce(7)",
            "       5  barrier: all",
            "       6  all_reduce(7): ranks 0-1",
            "  rank 0 (pid 100): rank 0 tells",
        ] {
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
        assert!(page.starts_with(
            "communicator of 3 ranks, Penny 0: 2 of them wrote what they knew, the first (rank 0)"
        ));
    }

    #[test]
    fn what_differs_between_ranks_stands_in_one_line() {
        let calls = [&["barrier"][..], &["broadcast"], &["barrier"]];
        assert!(
            of_communicator(vec![told(0, 0.0, calls)]).contains("barrier: ranks 0, 2; broadcast: rank 1")
        );
    }
}
