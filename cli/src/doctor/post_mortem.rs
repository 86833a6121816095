//! `penny doctor --post-mortem`: what the ranks of a communicator that broke did last, from the files that they wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use penny::internals::transport::STEP_BITS;
use serde::Deserialize;

use crate::input;

/// Calls that are shown.
const SHOWN: usize = 8;
/// Ways of messages, from a rank to another, that are shown.
const SHOWN_WAYS: usize = 24;

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
    #[serde(default)]
    messages: Vec<Messages>,
}

#[derive(Clone, Debug, Deserialize)]
struct Call {
    number: u64,
    call: String,
}

/// Messages that the rank had begun to send to a peer, and to receive from it.
#[derive(Clone, Debug, Deserialize)]
struct Messages {
    peer: u32,
    sent: u64,
    received: u64,
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
    const REMEDY: &str = "name the folder of which `penny run` told, or a file in it";
    let text = input::text(file).map_err(|e| format!("--post-mortem {}: {e}; {REMEDY}", file.display()))?;
    let told: Told = serde_json::from_str(&text).map_err(|e| {
        let what = match e.classify() {
            serde_json::error::Category::Eof if text.trim().is_empty() => "it is empty".into(),
            serde_json::error::Category::Eof => "it ends too early".into(),
            serde_json::error::Category::Data => "it has other contents".into(),
            _ => format!("line {} is not JSON", e.line()),
        };
        format!(
            "--post-mortem {}: no rank of Penny wrote this file when it failed: {what}; {REMEDY}",
            file.display()
        )
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
    let _ = writeln!(
        text,
        "{:>5} {:>9}  {:34} {:>10} {:>11}  last call",
        "rank", "pid", "end", "calls", "steps of it"
    );
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
            "{:>5} {:>9}  {end:34} {number:>10} {:>11}  {call}{host}",
            rank.rank,
            rank.pid,
            steps_of(number, rank.steps)
        );
    }
    let calls = by_number(&ranks);
    if !calls.is_empty() {
        text += "\nlast calls\n";
    }
    for (number, calls) in calls {
        let each: Vec<String> =
            calls.iter().map(|(call, who)| format!("{call}: {}", listed(who, ranks.len()))).collect();
        let _ = writeln!(text, "{number:>8}  {}", each.join("; "));
    }
    text += &messages(&told);
    text += "\nwhat they said\n";
    for one in &told {
        let _ = writeln!(text, "  rank {} (pid {}): {}", one.rank, one.pid, one.error);
    }
    text
}

/// Returns the steps that a rank has made of its last call, by its program counter; `-`: the call needed none, or it has not begun.
fn steps_of(call: u64, counter: u64) -> String {
    let (of, steps) = (counter >> STEP_BITS, counter & ((1 << STEP_BITS) - 1));
    if of == call { steps.to_string() } else { "-".into() }
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

/// Tells of the messages between ranks, those first of which not both ends have begun as many.
fn messages(told: &[Told]) -> String {
    let mut ways: BTreeMap<(u32, u32), [u64; 2]> = BTreeMap::new();
    // Several have told of a rank, and what it counts only grows.
    let mut saw = |from, to, end: usize, count: u64| {
        let known = &mut ways.entry((from, to)).or_default()[end];
        *known = count.max(*known);
    };
    for rank in told.iter().flat_map(|one| &one.ranks) {
        for &Messages { peer, sent, received } in &rank.messages {
            saw(rank.rank, peer, 0, sent);
            saw(peer, rank.rank, 1, received);
        }
    }
    let mut ways: Vec<_> = ways.into_iter().filter(|(_, counts)| *counts != [0, 0]).collect();
    if ways.is_empty() {
        return String::new();
    }
    ways.sort_by_key(|(_, [sent, received])| sent == received);
    let mut text = String::from("\nmessages, those included that were under way\n");
    for ((from, to), [sent, received]) in ways.iter().take(SHOWN_WAYS) {
        let _ = writeln!(text, "  rank {from} to rank {to}: {sent} sent, {received} received");
    }
    let more = ways.len().saturating_sub(SHOWN_WAYS);
    if more > 0 {
        let differ = ways[SHOWN_WAYS..].iter().filter(|(_, [sent, received])| sent != received).count();
        let _ = writeln!(text, "  and {more} more pairs, {differ} of them with numbers that differ");
    }
    text
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
                // In call 6, after its third step.
                steps: (6 << STEP_BITS) + 3,
                calls: calls.map(|(call, number)| Call { number, call: (*call).into() }).collect(),
                messages: Vec::new(),
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
            " rank       pid  end                                     calls steps of it  last call",
            "    2       102  died                                        5           -  barrier",
            "    1       101  RemoteError, +500.0 ms                      6           3  all_reduce(7)",
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
    fn messages_that_one_end_has_not_begun_stand_first() {
        let mut one = told(0, 0.0, [&[], &[], &[]]);
        let between = |peer, sent, received| Messages { peer, sent, received };
        one.ranks[0].messages = vec![between(1, 2, 0), between(2, 3, 1)];
        one.ranks[1].messages = vec![between(0, 0, 2)];
        one.ranks[2].messages = vec![between(0, 1, 2)];
        let page = of_communicator(vec![one]);
        assert!(!page.contains("last calls"), "{page}");
        let shown = "\nmessages, those included that were under way\n  rank 0 to rank 2: 3 sent, 2 received\n  \
                     rank 0 to rank 1: 2 sent, 2 received\n  rank 2 to rank 0: 1 sent, 1 received\n\nwhat";
        assert!(page.contains(shown), "{page}");
    }

    #[test]
    fn what_differs_between_ranks_stands_in_one_line() {
        let calls = [&["barrier"][..], &["broadcast"], &["barrier"]];
        assert!(
            of_communicator(vec![told(0, 0.0, calls)]).contains("barrier: ranks 0, 2; broadcast: rank 1")
        );
    }
}
