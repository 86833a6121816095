//! What the library's recorder has written: a file of JSON lines for each process.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

/// What one process has recorded.
#[derive(Debug, Default)]
pub struct ProcessRecord {
    pub pid: u32,
    /// The PIDs of each communicator's ranks, and the communicators in the order of their first use.
    pub comms: HashMap<u64, Vec<u32>>,
    pub order: Vec<u64>,
    /// What a communicator has in common with no other on its ranks that is used at the same time.
    pub identities: HashMap<u64, [u64; 3]>,
    /// By begin.
    pub calls: Vec<RecordedCall>,
    /// Operators, by time.
    pub work: Vec<WorkLine>,
}

/// A call, or a group of calls.
#[derive(Debug, Deserialize)]
pub struct RecordedCall {
    pub thread: u64,
    /// Since the call before it in this thread; none before the first one.
    pub gap_ns: Option<u64>,
    pub gap_core_ns: Option<u64>,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub what: Vec<What>,
}

/// One of the things that a call is.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum What {
    Call {
        call: String,
        comm: u64,
        block: u64,
        root: u32,
        stream: u64,
    },
    Send {
        send: u32,
        comm: u64,
        bytes: u64,
        stream: u64,
    },
    Recv {
        recv: u32,
        comm: u64,
        bytes: u64,
        stream: u64,
    },
    Synchronize {
        synchronize: u64,
    },
    Event {
        event: u64,
        stream: u64,
    },
    Await {
        r#await: u64,
        stream: u64,
    },
    Put(PutLine),
    Wait {
        wait: String,
        count: u64,
        comm: u64,
        stream: u64,
        /// The slot of the mailbox from which it took a message.
        slot: Option<u64>,
    },
    /// A thread, by the counter of its messages, frees the one in a slot of a mailbox.
    Free {
        free: String,
        counter: String,
        slot: u64,
        comm: u64,
    },
    Word(WordWait),
}

impl What {
    /// Returns when a group makes it: puts first, waits for signals last.
    pub fn turn(&self) -> u32 {
        match self {
            What::Put(_) => 0,
            What::Wait { .. } | What::Word(_) => 2,
            _ => 1,
        }
    }
}

/// Bytes for the memory of other ranks of a communicator.
#[derive(Clone, Debug, Deserialize)]
pub struct PutLine {
    /// The ranks, and the threads of their mailboxes.
    #[serde(rename = "put")]
    pub to: Vec<(u32, u64)>,
    /// The name of the mailboxes, and the slots of those of `to`; none: memory.
    pub mailbox: Option<String>,
    #[serde(default)]
    pub slots: Vec<u64>,
    pub from: u32,
    pub comm: u64,
    pub bytes: u64,
    /// Ranks, counters, and how much is added.
    pub signals: Vec<(u32, String, u64)>,
    /// Ranks, words, operations and their values.
    pub words: Vec<(u32, u64, String, u64)>,
    pub stream: u64,
}

/// A wait for a word of the rank's symmetric memory.
#[derive(Clone, Debug, Deserialize)]
pub struct WordWait {
    pub word: u64,
    pub comm: u64,
    /// Its bytes.
    pub size: u32,
    pub is_signed: bool,
    /// OpenSHMEM's number of the comparison.
    pub cmp: i32,
    pub value: u64,
    /// Its value when the wait began.
    pub before: u64,
}

/// An operator that a program's framework has counted.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WorkLine {
    /// When it ended, by the monotonic clock.
    pub at_ns: u64,
    pub flops: u64,
    pub bytes: u64,
}

/// A line of a process's file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Comm { comm: u64, pids: Vec<u32>, identity: Option<[u64; 3]> },
    Call(RecordedCall),
    Several { several: u32 },
}

/// Reads all files of a folder.
pub fn read(folder: &Path) -> Result<Vec<ProcessRecord>, String> {
    let entries = std::fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut records = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_suffix(".jsonl").and_then(|pid| pid.parse().ok()) else { continue };
        let text = std::fs::read_to_string(entry.path()).map_err(|why| format!("{name}: {why}"))?;
        let mut record = process(pid, &text)?;
        let work = folder.join(format!("{pid}.work"));
        if let Ok(text) = std::fs::read_to_string(work) {
            record.work = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            record.work.sort_by_key(|work| work.at_ns);
        }
        records.push(record);
    }
    Ok(records)
}

fn process(pid: u32, text: &str) -> Result<ProcessRecord, String> {
    let mut record = ProcessRecord { pid, ..ProcessRecord::default() };
    for (number, line) in (1..).zip(text.lines()) {
        match serde_json::from_str(line) {
            Ok(Line::Comm { comm, pids, identity }) => {
                record.order.push(comm);
                record.identities.extend(identity.map(|identity| (comm, identity)));
                record.comms.insert(comm, pids);
            }
            Ok(Line::Call(call)) => record.calls.push(call),
            Ok(Line::Several { several }) => {
                return Err(format!(
                    "process {several} is several ranks of a communicator, which cannot be told apart; record a program with one \
                     rank a process"
                ));
            }
            Err(why) => {
                return Err(format!(
                    "line {number} of process {pid}'s record is damaged ({why}); is the disk full?"
                ));
            }
        }
    }
    record.calls.sort_by_key(|call| call.begin_ns);
    Ok(record)
}
