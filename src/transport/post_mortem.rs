//! What a rank knows of all ranks when its communicator breaks, written to a file: `PENNY_POST_MORTEM=folder`.
//!
//! ```text
//!     rank 0 fails ──► 4711-0.json ─┐
//!     rank 1 fails ──► 4712-0.json ─┼─► penny doctor --post-mortem folder: what each rank did last
//!     rank 2 died                  ─┘
//! ```
//!
//! Ranks keep the arguments to their latest calls where others can look them up (`transport::agreement`), with their program
//! counters, their states, and how many messages they have begun to send to each peer and to receive from it. That outlives them as
//! long as a rank has the memory mapped. So little is recorded for this while all is well: the first error after which no call can
//! succeed reads what is there.

use super::Transport;
use super::watch::call_text;
use crate::env;
use crate::error::Error;
use crate::json::quoted;
use crate::log;
use crate::memory::control::{ABSENT, ALIVE, FAILED, LEFT, RECORDS};
use crate::sync::prim::{AtomicU64, Ordering};
use crate::sys::process;
use crate::transport::arrival::Fingerprint;
use crate::types::Rank;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Calls of each rank that are told, the latest; with many ranks fewer, since each rank tells of all.
const TOLD: usize = 16;
const TOLD_BY_MANY: usize = 2;
const MANY: u32 = 64;
/// Files of one process. A program that goes on after failures need not fill a disk.
const MOST_FILES: u64 = 8;

impl Transport {
    /// Writes what this rank knows, if the user wants that. `seq`: its own last call. What cannot be written is told whatever
    /// `PENNY_DEBUG` is: the user asked for it. The program hears the error itself.
    #[cold]
    pub fn write_post_mortem(&self, error: &Error, seq: u64) {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let Some(folder) = env::get("PENNY_POST_MORTEM").filter(|folder| folder != "none") else { return };
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        if number >= MOST_FILES {
            return;
        }
        let path = Path::new(&folder).join(format!("{}-{number}.json", process::pid()));
        // It gets its name when it is whole: this process may be killed meanwhile. Nobody else's file is written to.
        let part = path.with_extension("part");
        let write = || {
            std::fs::create_dir_all(&folder)?;
            let mut file = File::create_new(&part)?;
            file.write_all(self.post_mortem(error, seq).as_bytes())?;
            std::fs::rename(&part, &path)
        };
        if let Err(e) = write() {
            log::always(self.rank, format_args!("PENNY_POST_MORTEM: {}: {e}", path.display()));
        }
    }

    fn post_mortem(&self, error: &Error, seq: u64) -> String {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let mut text = String::new();
        let _ = write!(
            text,
            "{{\"penny_post_mortem\":1,\"version\":{},\"rank\":{},\"pid\":{},\"time\":{time:.6},\"call\":{seq},\"code\":{},\"error\":{},\"ranks\":[",
            quoted(env!("CARGO_PKG_VERSION")),
            self.rank,
            process::pid(),
            quoted(&format!("{:?}", error.code)),
            quoted(&error.message),
        );
        let dead = self.first_dead();
        for rank in 0..self.nranks {
            let comma = if rank == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n{}", self.account_of(rank, dead));
        }
        text + "\n]}\n"
    }

    /// Returns what is known of a rank, as an object of JSON.
    fn account_of(&self, rank: Rank, dead: Option<Rank>) -> String {
        let (lines, host) = (self.lines(rank), self.on_host(rank));
        let life = lines.life(rank);
        let state = match life.state.load(Ordering::Acquire) {
            ABSENT => "not joined",
            ALIVE => "member",
            LEFT => "left",
            FAILED => "failed",
            _ => "unknown",
        };
        let calls: Vec<String> = self
            .calls_on_record(rank)
            .iter()
            .map(|(number, call)| format!("{{\"number\":{number},\"call\":{}}}", quoted(call)))
            .collect();
        format!(
            "{{\"rank\":{rank},\"pid\":{},\"host\":{},\"state\":{},\"process\":{},\"failed_in\":{},\"steps\":{},\"calls\":[{}],\"messages\":[{}]}}",
            self.pid(rank),
            quoted(host.trim_start_matches(" on ")),
            quoted(state),
            quoted(if dead == Some(rank) { "dead" } else { self.state(rank) }),
            life.failed_seq.load(Ordering::Relaxed),
            lines.progress(rank).counter.load(Ordering::Relaxed),
            calls.join(","),
            self.messages_of(rank).join(","),
        )
    }

    /// Returns the messages that a rank has begun to send to each of its peers and to receive from it, as objects of JSON.
    fn messages_of(&self, rank: Rank) -> Vec<String> {
        let lines = self.lines(rank);
        // Of many ranks each tells only of its own messages, and what its peers have counted of them.
        let is_told = |peer: &Rank| self.nranks <= MANY || [rank, *peer].contains(&self.rank);
        (0..self.nranks)
            .filter(is_told)
            .map(|peer| (peer, lines.pair(peer, rank).counted()))
            .filter(|(_, begun)| *begun != [0, 0])
            .map(|(peer, [sent, received])| {
                format!("{{\"peer\":{peer},\"sent\":{sent},\"received\":{received}}}")
            })
            .collect()
    }

    /// Returns a rank's latest calls with their numbers, the last one last.
    fn calls_on_record(&self, rank: Rank) -> Vec<(u64, String)> {
        let lines = self.lines(rank);
        let one = |place: u64| {
            let record = lines.record(rank, place);
            let seq = record.seq.load(Ordering::Acquire);
            let said = [0, 1].map(|word| record.said[word].load(Ordering::Relaxed));
            // ORDER: a record that is written meanwhile is left out; partner: `store_arrival`.
            let is_whole = seq % RECORDS as u64 == place && record.seq.load(Ordering::Acquire) == seq;
            (seq > 0 && is_whole).then_some((seq, said))
        };
        let mut calls: Vec<_> = (0..RECORDS as u64).filter_map(one).collect();
        calls.sort_unstable();
        let told = if self.nranks > MANY && rank != self.rank { TOLD_BY_MANY } else { TOLD };
        let first = calls.len().saturating_sub(told);
        let text = |said: [u64; 2]| {
            Fingerprint::unpack(said[0], said[1]).map_or_else(|| "no call".into(), |call| call_text(&call))
        };
        calls[first..].iter().map(|&(seq, said)| (seq, text(said))).collect()
    }
}
