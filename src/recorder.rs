//! Records a program's calls, so that `penny record` can make a workload of them: `PENNY_RECORD=folder`.
//!
//! ```text
//!     program   ====computes====|all_reduce|==computes==|queue: all_gather|==|synchronize|      a line of JSON for each box:
//!     line                       gap  begin  end         gap  begin  end                        the gap before it and what it was
//! ```
//!
//! - Each process writes `PID.jsonl`. A gap is the time of this thread since its box before, by the clock and as time on a core.
//! - A communicator has a line when it is first used, with the PIDs of its ranks; a process that is several of them is not recorded.
//! - Calls describe themselves: those of communicators in `comm/recorder.rs`, access to the memory of other ranks in
//!   `onesided/recorded.rs`, messages to mailboxes in `mailbox/recorded.rs`.
//! - Where nothing is recorded a call pays one look at a word.

use crate::env;
use crate::log;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::clock;
use crate::sys::kept_file::KeptFile;
use crate::transport::Transport;
use crate::types::Rank;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// `STATE`: `PENNY_RECORD` has not been read yet.
const UNKNOWN: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static RECORD: Mutex<Option<Record>> = Mutex::new(None);

/// The file of this process.
struct Record {
    file: KeptFile,
    /// The process that opened it: a forked child writes nothing.
    pid: u32,
    /// Communicators that have a line, by their numbers.
    known: Vec<Weak<Transport>>,
}

thread_local! {
    /// When this thread left its last call: by the clock, and its time on a core.
    static LEFT: Cell<Option<[u64; 2]>> = const { Cell::new(None) };
    /// The thread is in a recorded call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The thread's number in the record; 0: none yet.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A call under way, which is written when it ends.
pub struct Recorded {
    begin: [u64; 2],
    what: String,
}

/// What a call is, as far as it is recorded.
#[derive(Default)]
pub struct Description {
    what: String,
}

/// Bytes for other ranks' memory.
#[derive(Clone, Copy)]
pub struct PutText<'a> {
    /// The rank whose memory holds them; `None`: this rank.
    pub from: Option<Rank>,
    /// The ranks, and the threads of their mailboxes, thread t being bit t.
    pub to: &'a [(Rank, u64)],
    /// The number of the mailboxes, and the slots that each of these ranks' has, of which it takes one.
    pub mailbox: Option<(u64, &'a [u32])>,
    pub bytes: usize,
    /// A [`signal`] for each counter to which signals are added when the bytes are there, separated by commas.
    pub signals: &'a str,
    /// `[rank,number,"op",value]` for what is done to a word then.
    pub words: &'a str,
    /// 0: none.
    pub stream: u64,
}

impl<'a> PutText<'a> {
    /// Makes a put without bytes.
    pub fn to(to: &'a [(Rank, u64)]) -> PutText<'a> {
        PutText { from: None, to, mailbox: None, bytes: 0, signals: "", words: "", stream: 0 }
    }
}

/// Returns the text of signals that are added to a counter at a rank.
pub fn signal(rank: Rank, counter: &str, count: u64) -> String {
    format!("[{rank},\"{counter}\",{count}]")
}

/// Returns the name of mailboxes, the same on all ranks.
pub fn mailbox_name(number: u64) -> String {
    format!("mailbox {number}")
}

/// Tells whether calls are recorded.
#[inline(always)]
fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => begin(),
    }
}

/// Looks at `PENNY_RECORD`, once in a process.
#[cold]
fn begin() -> bool {
    let mut record = RECORD.lock();
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        *record = env::get("PENNY_RECORD").and_then(|folder| open(&folder));
        STATE.store(if record.is_some() { ON } else { OFF }, Ordering::Relaxed);
    }
    record.is_some()
}

fn open(folder: &str) -> Option<Record> {
    let pid = std::process::id();
    let path = PathBuf::from(folder).join(format!("{pid}.jsonl"));
    let file = File::create(&path);
    let why =
        |e| log::always_early(format_args!("PENNY_RECORD: {}: {e}; nothing is recorded", path.display()));
    Some(Record { file: KeptFile::new(file.map_err(why).ok()?), pid, known: Vec::new() })
}

/// Records a call from now until what is returned is dropped. `None`: calls are not recorded, or it is a part of one that is.
#[inline(always)]
pub fn record(describe: impl FnOnce(&mut Description)) -> Option<Recorded> {
    if is_on() { enter(describe) } else { None }
}

#[cold]
fn enter(describe: impl FnOnce(&mut Description)) -> Option<Recorded> {
    if INSIDE.get() {
        return None;
    }
    let begin = stamp();
    let mut description = Description::default();
    describe(&mut description);
    if description.what.is_empty() || !RECORD.lock().as_ref().is_some_and(Record::is_mine) {
        return None;
    }
    INSIDE.set(true);
    Some(Recorded { begin, what: description.what })
}

fn stamp() -> [u64; 2] {
    [clock::now_ns(), clock::thread_ns()]
}

impl Record {
    /// A forked child writes nothing.
    fn is_mine(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns the number of a communicator, and writes who its ranks are, the first time. `None`: this process is several of them.
    fn number(&mut self, transport: &Arc<Transport>) -> Option<usize> {
        if let Some(number) = self.known.iter().position(|known| known.as_ptr() == Arc::as_ptr(transport)) {
            return Some(number);
        }
        let number = self.known.len();
        // What is known weakly keeps its address.
        self.known.push(Arc::downgrade(transport));
        let pids: Vec<u32> = (0..transport.nranks()).map(|rank| transport.pid(rank)).collect();
        if pids.iter().filter(|&&pid| pid == self.pid).count() > 1 {
            log::warn(
                transport.rank(),
                format_args!("PENNY_RECORD: this process has several ranks; nothing is recorded"),
            );
            self.line(&format!("{{\"several\":{}}}", self.pid));
            return None;
        }
        // Ranks may use two communicators of the same ranks in unlike order, in threads or on streams. On other hosts a segment is another.
        let identity = if transport.has_far() { None } else { transport.control().identity() };
        let identity = identity.map(|identity| format!(",\"identity\":{identity:?}")).unwrap_or_default();
        self.line(&format!("{{\"comm\":{number},\"pids\":{pids:?}{identity}}}"));
        Some(number)
    }

    /// Writes a line in one piece. It is lost if the disk is full or the program has closed the file, and the record then ends early.
    fn line(&mut self, text: &str) {
        if let Ok(mut file) = self.file.get() {
            let _ = file.write_all(format!("{text}\n").as_bytes());
        }
    }
}

impl Recorded {
    /// Adds to the last part of the call the slot of the mailbox from which it has taken a message.
    pub fn took(&mut self, slot: u32) {
        if self.what.pop().is_some() {
            let _ = write!(self.what, ",\"slot\":{slot}}}");
        }
    }

    /// Writes nothing: it was a look that found nothing.
    pub fn forget(mut self) {
        self.what.clear();
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        INSIDE.set(false);
        if self.what.is_empty() {
            return;
        }
        let end_ns = clock::now_ns();
        let [begin_ns, core_ns] = self.begin;
        let gap = LEFT.get().map(|[left_ns, left_core_ns]| {
            format!("\"gap_ns\":{},\"gap_core_ns\":{},", begin_ns - left_ns, core_ns - left_core_ns)
        });
        if THREAD.get() == 0 {
            static THREADS: AtomicU64 = AtomicU64::new(1);
            THREAD.set(THREADS.fetch_add(1, Ordering::Relaxed));
        }
        let (thread, gap, what) = (THREAD.get(), gap.unwrap_or_default(), &self.what);
        let line = format!(
            "{{\"thread\":{thread},{gap}\"begin_ns\":{begin_ns},\"end_ns\":{end_ns},\"what\":[{what}]}}"
        );
        if let Some(open) = RECORD.lock().as_mut() {
            open.line(&line);
        }
        LEFT.set(Some(stamp()));
    }
}

impl Description {
    /// Adds a part of the call: the fields of a JSON object.
    pub fn part(&mut self, text: std::fmt::Arguments<'_>) {
        let comma = if self.what.is_empty() { "" } else { "," };
        let _ = write!(self.what, "{comma}{{{text}}}");
    }

    /// Returns the number of a communicator in the record.
    pub fn comm(&mut self, transport: &Arc<Transport>) -> usize {
        let mut record = RECORD.lock();
        let Some(open) = record.as_mut().filter(|open| open.is_mine()) else { return 0 };
        open.number(transport).unwrap_or_else(|| {
            STATE.store(OFF, Ordering::Relaxed);
            *record = None;
            0
        })
    }

    /// Adds bytes for other ranks' memory.
    pub fn put(&mut self, transport: &Arc<Transport>, put: &PutText<'_>) {
        let comm = self.comm(transport);
        let &PutText { from, to, mailbox, bytes, signals, words, stream } = put;
        let from = from.unwrap_or(transport.rank());
        let to: Vec<[u64; 2]> = to.iter().map(|&(rank, threads)| [rank.into(), threads]).collect();
        let mailbox = mailbox
            .map(|(number, slots)| format!("\"mailbox\":\"{}\",\"slots\":{slots:?},", mailbox_name(number)));
        let mailbox = mailbox.unwrap_or_default();
        self.part(format_args!(
            "{mailbox}\"put\":{to:?},\"from\":{from},\"comm\":{comm},\"bytes\":{bytes},\"signals\":[{signals}],\"words\":[{words}],\"stream\":{stream}"
        ));
    }

    /// Adds that a thread frees a message in a slot of its rank's mailbox.
    pub fn free(&mut self, transport: &Arc<Transport>, mailbox: u64, counter: &str, slot: u32) {
        let comm = self.comm(transport);
        self.part(format_args!(
            "\"free\":\"{}\",\"counter\":\"{counter}\",\"slot\":{slot},\"comm\":{comm}",
            mailbox_name(mailbox)
        ));
    }

    /// Adds a wait for signals of a counter.
    pub fn wait(&mut self, transport: &Arc<Transport>, counter: &str, count: u64, stream: u64) {
        let comm = self.comm(transport);
        self.part(format_args!(
            "\"wait\":\"{counter}\",\"count\":{count},\"comm\":{comm},\"stream\":{stream}"
        ));
    }
}
