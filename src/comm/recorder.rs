//! Records a program's calls, so that `penny record` can make a workload of them: `PENNY_RECORD=folder`.
//!
//! ```text
//!     program   ====computes====|all_reduce|==computes==|queue: all_gather|==|synchronize|      a line of JSON for each box:
//!     line                       gap  begin  end         gap  begin  end                        the gap before it and what it was
//! ```
//!
//! - Each process writes `PID.jsonl`. A gap is the time of this thread since its box before, by the clock and as time on a core.
//! - A communicator has a line when it is first used, with the PIDs of its ranks; a process that is several of them is not recorded.
//! - Collectives, transfers, permutations, collectives with blocks of any sizes, groups, launched recordings, streams and events are
//!   recorded; one-sided operations and mailboxes are not. Vector calls are the messages that they consist of.
//! - Where nothing is recorded a call pays one look at a word.

use super::calls::collective::Call;
use super::calls::permute::Permute;
use super::calls::point_to_point::Transfer;
use super::calls::vector::{Vector, VectorBlock, VectorKind};
use super::registry::{self, CommHandle};
use crate::env;
use crate::log;
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::clock;
use crate::types::{Collective, Rank};
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// Nobody has asked yet whether calls are recorded.
const UNKNOWN: u32 = 0;
const OFF: u32 = 1;
const ON: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
static RECORD: Mutex<Option<Record>> = Mutex::new(None);

/// The file of this process.
struct Record {
    file: File,
    /// The process that opened it: a forked child writes nothing.
    pid: u32,
    /// Communicators that have a line.
    known: HashSet<u64>,
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
pub(super) struct Recorded {
    begin: [u64; 2],
    what: String,
}

/// What a call is, as far as it is recorded.
#[derive(Default)]
pub(super) struct Description {
    what: String,
    comms: Vec<CommHandle>,
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
    let why = |e| log::decided(format_args!("PENNY_RECORD: {}: {e}; nothing is recorded", path.display()));
    Some(Record { file: file.map_err(why).ok()?, pid, known: HashSet::new() })
}

/// Records a call from now until what is returned is dropped. `None`: calls are not recorded, or it is a part of one that is.
#[inline(always)]
pub(super) fn record(describe: impl FnOnce(&mut Description)) -> Option<Recorded> {
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
    if description.what.is_empty() {
        return None;
    }
    let mut record = RECORD.lock();
    let open = record.as_mut().filter(|open| open.pid == std::process::id())?;
    for comm in description.comms {
        if !open.introduce(comm) {
            STATE.store(OFF, Ordering::Relaxed);
            *record = None;
            return None;
        }
    }
    INSIDE.set(true);
    Some(Recorded { begin, what: description.what })
}

fn stamp() -> [u64; 2] {
    [clock::now_ns(), clock::thread_ns()]
}

impl Record {
    /// Writes who a communicator's ranks are, the first time. Returns false if this process is several of them.
    fn introduce(&mut self, comm: CommHandle) -> bool {
        if self.known.contains(&comm.bits()) {
            return true;
        }
        // A call that names no communicator fails by itself.
        let Ok(shared) = registry::shared(comm) else { return true };
        self.known.insert(comm.bits());
        let transport = &shared.transport;
        let pids: Vec<u32> = (0..transport.nranks()).map(|rank| transport.pid(rank)).collect();
        if pids.iter().filter(|&&pid| pid == self.pid).count() > 1 {
            log::warn(
                transport.rank(),
                format_args!("PENNY_RECORD: this process has several ranks; nothing is recorded"),
            );
            self.line(&format!("{{\"several\":{}}}", self.pid));
            return false;
        }
        self.line(&format!("{{\"comm\":{},\"pids\":{pids:?}}}", comm.bits()));
        true
    }

    /// Writes a line in one piece. It is lost if the disk is full, and the record then ends early.
    fn line(&mut self, text: &str) {
        let _ = self.file.write_all(format!("{text}\n").as_bytes());
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
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
        INSIDE.set(false);
        LEFT.set(Some(stamp()));
    }
}

impl Description {
    fn part(&mut self, text: std::fmt::Arguments<'_>) {
        let comma = if self.what.is_empty() { "" } else { "," };
        let _ = write!(self.what, "{comma}{{{text}}}");
    }

    /// One half of a message of a communicator; `stream` as it is in all of these: 0: none.
    fn message(&mut self, comm: CommHandle, is_send: bool, peer: Rank, bytes: usize, stream: u64) {
        let kind = if is_send { "send" } else { "recv" };
        let comm = comm.bits();
        self.part(format_args!("\"{kind}\":{peer},\"comm\":{comm},\"bytes\":{bytes},\"stream\":{stream}"));
    }

    /// A collective call of a communicator. `block`: the bytes of a rank's block.
    fn call(&mut self, name: &str, comm: CommHandle, block: usize, root: i32, stream: u64) {
        let comm = comm.bits();
        self.part(format_args!(
            "\"call\":\"{name}\",\"comm\":{comm},\"block\":{block},\"root\":{root},\"stream\":{stream}"
        ));
    }

    pub fn collective(&mut self, comm: CommHandle, call: &Call<'_>, stream: u64) {
        self.comms.push(comm);
        let nranks = registry::shared(comm).map_or(1, |shared| shared.transport.nranks() as usize);
        let count = if call.padded { call.count.div_ceil(nranks) } else { call.count };
        let block =
            if call.collective == Collective::Barrier { 0 } else { count.saturating_mul(call.dtype.size()) };
        let root = if call.collective.rooted() { call.root } else { 0 };
        self.call(call.collective.name(), comm, block, root, stream);
    }

    pub fn transfer(&mut self, comm: CommHandle, transfer: &Transfer<'_>, stream: u64) {
        self.comms.push(comm);
        let Ok(peer) = Rank::try_from(transfer.peer) else { return };
        if registry::shared(comm).is_ok_and(|shared| shared.transport.rank() == peer) {
            // A copy within the rank.
            return;
        }
        self.message(comm, transfer.send, peer, transfer.count.saturating_mul(transfer.dtype.size()), stream);
    }

    pub fn permute(&mut self, comm: CommHandle, permute: &Permute<'_>, stream: u64) {
        self.comms.push(comm);
        let Ok(shared) = registry::shared(comm) else { return };
        let (rank, bytes) = (shared.transport.rank(), permute.count.saturating_mul(permute.dtype.size()));
        let to = permute.perm.get(rank as usize).and_then(|&to| Rank::try_from(to).ok());
        let from =
            (0..).zip(&permute.perm).find(|&(_, &to)| Rank::try_from(to) == Ok(rank)).map(|(from, _)| from);
        for (is_send, peer) in [(true, to), (false, from)] {
            if let Some(peer) = peer.filter(|&peer| peer != rank) {
                self.message(comm, is_send, peer, bytes, stream);
            }
        }
    }

    pub fn vector(&mut self, comm: CommHandle, vector: &Vector<'_>, stream: u64) {
        self.comms.push(comm);
        let Ok(shared) = registry::shared(comm) else { return };
        let (rank, nranks) = (shared.transport.rank(), shared.transport.nranks());
        let size = vector.dtype.size();
        if vector.kind == VectorKind::ReduceScatter {
            let all: usize = vector.send_blocks.iter().map(|block| block.count).sum();
            let block = all.div_ceil(nranks as usize).saturating_mul(size);
            self.call("reduce_scatter", comm, block, 0, stream);
            return;
        }
        let of = |blocks: &[VectorBlock], peer: Rank| {
            let block = if blocks.len() > 1 { blocks.get(peer as usize) } else { blocks.first() };
            block.map_or(0, |block| block.count)
        };
        let root = Rank::try_from(vector.root).unwrap_or(0);
        for peer in (0..nranks).filter(|&peer| peer != rank) {
            let (sends, receives) = match vector.kind {
                VectorKind::Gather => (peer == root, rank == root),
                VectorKind::Scatter => (rank == root, peer == root),
                _ => (true, true),
            };
            for (is_send, takes_part, blocks) in
                [(true, sends, &vector.send_blocks), (false, receives, &vector.recv_blocks)]
            {
                let count = of(blocks, peer);
                if takes_part && count > 0 {
                    self.message(comm, is_send, peer, count.saturating_mul(size), stream);
                }
            }
        }
    }

    /// The thread waits for all that is queued on a stream.
    pub fn synchronize(&mut self, stream: u64) {
        self.part(format_args!("\"synchronize\":{stream}"));
    }
    /// An event is recorded on a stream.
    pub fn event(&mut self, event: u64, stream: u64) {
        self.part(format_args!("\"event\":{event},\"stream\":{stream}"));
    }
    /// A stream, or the thread where it is 0, waits for an event.
    pub fn await_event(&mut self, event: u64, stream: u64) {
        self.part(format_args!("\"await\":{event},\"stream\":{stream}"));
    }
}
