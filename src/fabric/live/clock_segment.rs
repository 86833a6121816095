//! The clock segment: the shared state of a declared machine's time for the ranks of one job.
//!
//! ```text
//!     header | place x n | thread x n x THREADS | ticket x n x TICKETS | port x m | log | posts of each ticket
//!            '----------------------- reserved when it is made -----------------------' '- before first use -'
//! ```
//!
//! A rank writes its own place, tickets and posts. Ports, log and the header's account of the world are written by
//! the thread that holds [`BoardHeader::runner`].

use crate::error::{Error, Result};
use crate::memory::segment::{Segment, shared_layout};
use crate::sync::doorbell::{Doorbell, Sleepers};
use crate::sync::lock::Mutex;
use crate::sync::prim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::keeper::{self, Kept, LifeNode};
use crate::sys::kept_file::KeptFile;
use crate::sys::shm;
use std::fs::File;

/// Threads of one rank that may hold a presence at once: those of a mailbox, and as many beside them.
pub const THREADS: usize = 128;
/// Calls that one rank may wait in at once, each by a thread or by a communicator of a group.
pub const TICKETS: usize = 128;
/// The tickets that hold [`POSTS`] posts; the others hold [`FEW_POSTS`].
pub const WIDE: usize = 8;
/// Transfers that one group may hold.
pub const POSTS: usize = 4096;
/// Transfers that a ticket holds which is not one of the [`WIDE`] first.
pub const FEW_POSTS: usize = 64;
/// Words of the log.
pub const LOG: usize = 1 << 17;
/// Words of a sentence.
pub const SENTENCE: usize = 128;
/// Words of the text that says what a thread waits for.
pub const AWAITED: usize = 16;
/// Words of a port's state.
pub const PORT: usize = 8;
/// The first word of an initialized clock segment; changes with the layout.
pub const MAGIC: u64 = u64::from_be_bytes(*b"pennyfb\x0a");

shared_layout! {
    /// What all ranks look at.
    #[repr(C, align(64))]
    pub struct BoardHeader {
        /// [`MAGIC`], written last by the maker.
        pub magic: AtomicU64,
        /// The machine's hash: all ranks must have declared the same.
        pub network: AtomicU64,
        /// Ranks.
        pub places: AtomicU32,
        /// Ports of the machine.
        pub ports: AtomicU32,
        /// Presences of all ranks' threads that do not wait: see [`ThreadLine`].
        pub running: AtomicU32,
        /// 1 + the rank that runs the engine now; 0: nobody.
        pub runner: AtomicU32,
        /// Incremented by the thread that finds that none is running: the engine is to be run.
        pub wanted: AtomicU64,
        /// Length of the sentence that says why no call can end any more; 0: all is well.
        pub deadlock: AtomicU32,
        /// 1: ranks store to each other's memory, so a rank that is done goes on alone, before anything later happens.
        pub exact: AtomicU32,
        /// Times that the log was begun anew.
        pub epoch: AtomicU64,
        /// Words in the log.
        pub logged: AtomicU64,
        /// Events before this time have been handled.
        pub handled_ps: AtomicU64,
        /// Calls priced.
        pub calls: AtomicU64,
        /// Hash over all calls priced and when their members were done, in order.
        pub trace: AtomicU64,
        /// Entries that came after their time had been handled.
        pub late: AtomicU64,
        /// The latest time that the engine has told a rank: who comes back to the clock enters no earlier.
        pub reached_ps: AtomicU64,
        /// Times that a thread has held `runner`.
        pub runs: AtomicU64,
        /// The latest time that a thread of a program knows, where programs' clocks follow the machine's.
        pub known_ps: AtomicU64,
        /// Ranks that sleep.
        pub sleepers: Sleepers,
        /// Why, if `deadlock` is not 0.
        pub sentence: [AtomicU64; SENTENCE],
        /// How the machine was declared, as text that ends with a 0.
        pub spec: [AtomicU64; SENTENCE],
    }
}

shared_layout! {
    /// One rank's clock.
    #[repr(C, align(64))]
    pub struct PlaceLine {
        /// When its last call was done, and what it declared since.
        pub clock_ps: AtomicU64,
        /// PID, 0 before it has joined.
        pub pid: AtomicU32,
        /// 1: has left.
        pub left: AtomicU32,
        /// By which the kernel announces the end of its process.
        life: LifeNode,
        /// Places in mailboxes that threads of its rank are expected to take, less those where one waits.
        pub outside: AtomicU32,
        /// Number of thread lines of this rank that have ever been in use; they are the first.
        pub threads_used: AtomicU32,
        /// Number of tickets of this rank that have ever been in use; they are the first.
        pub tickets_used: AtomicU32,
        /// 1 + the place of the rank whose death made its communicator fail; 0: none did. It may end because of it.
        pub fails_for: AtomicU32,
        /// Bits 0..32: its threads that wait for a store of another rank; 32..64: how often such have been woken.
        pub awaiting: AtomicU64,
        /// When the latest store to its memory came.
        pub stored_ps: AtomicU64,
        /// This rank's word that none of its threads can act: see `fabric/live/verdict.rs`.
        pub certificate: AtomicU64,
        /// 1 + the number of the thread whose wait `awaited` describes; 0: nobody's.
        pub awaited_by: AtomicU32,
        _pad: AtomicU32,
        /// Of the host whose first rank this is: twice the number of batches that it was told of, and 1 while it runs no thread; on that
        /// host itself, how many it has taken in (`fabric/live/hosts.rs`).
        pub host_batches: AtomicU64,
        /// Messages of that host: twice the number that this host has taken in, and 1 while a process takes one in; on that host itself,
        /// how many it has told.
        pub host_messages: AtomicU64,
        /// Of the host whose first rank this is: the latest time that its programs' clocks are known to have reached (`program_time.rs`).
        pub known_ps: AtomicU64,
        /// What that thread waits for, as text that ends with a 0.
        pub awaited: [AtomicU64; AWAITED],
        /// Rung when another rank has stored to its memory.
        pub doorbell: Doorbell,
    }
}

shared_layout! {
    /// One thread's presence at its rank's clock.
    ///
    /// [`BoardHeader::running`] counts a presence while it is [`PRESENT`] or [`LEAVING`], and while it is [`INSIDE`] and does
    /// not wait there.
    #[repr(C, align(32))]
    pub struct ThreadLine {
        /// [`NOBODY`], [`PRESENT`], [`INSIDE`], [`AWAY`], [`BLOCKED`], [`LEAVING`] or [`LENT`].
        pub presence: AtomicU32,
        /// The thread as its own process names it; 0: none has taken this presence yet.
        pub tid: AtomicU32,
        /// When it last went back to its own program, by the host's clock in nanoseconds.
        pub since_ns: AtomicU64,
        /// 1: it waits for a store of another rank.
        pub awaits: AtomicU32,
        _pad: AtomicU32,
        _rest: AtomicU64,
    }
}

/// `ThreadLine::presence`: not in use.
pub const NOBODY: u32 = 0;
/// `ThreadLine::presence`: in its own program.
pub const PRESENT: u32 = 1;
/// `ThreadLine::presence`: in a call on the machine.
pub const INSIDE: u32 = 2;
/// `ThreadLine::presence`: in its own program for longer than the grace period, and not counted any more.
pub const AWAY: u32 = 3;
/// `ThreadLine::presence`: waits in its own program for a thread of its own process, and is not counted meanwhile.
pub const BLOCKED: u32 = 4;
/// `ThreadLine::presence`: its thread is ending, which may wake others.
pub const LEAVING: u32 = 5;
/// `ThreadLine::presence`: its thread waits for activities that count instead. Who looks at threads leaves it alone.
pub const LENT: u32 = 6;

impl PlaceLine {
    /// Has the rank's process ended, and the rank not left before?
    pub fn died(&self) -> bool {
        self.life.died()
    }
}

shared_layout! {
    /// A call, or a group's transfers, in which a rank waits.
    #[repr(C, align(64))]
    pub struct Ticket {
        /// [`FREE`], [`POSTED`], [`SERVED`].
        pub state: AtomicU32,
        /// Posts.
        pub posts: AtomicU32,
        /// Posts that are done.
        pub done: AtomicU32,
        /// How often it was taken: tells its calls apart where one was withdrawn while the engine had it.
        pub turn: AtomicU32,
        /// When the last of them was done.
        pub exit_ps: AtomicU64,
        /// Index of the thread line of the thread that waits with it.
        pub thread: AtomicU32,
        _pad: AtomicU32,
        /// The turn whose posts the host that runs the engine was told of; there, the last turn that was withdrawn.
        pub told_turn: AtomicU64,
        _rest: [AtomicU64; 3],
        /// Rung when it is served.
        pub doorbell: Doorbell,
    }
}
/// `Ticket::state`: not in use.
pub const FREE: u32 = 0;
/// `Ticket::state`: its posts stand, and its rank waits or will.
pub const POSTED: u32 = 1;
/// `Ticket::state`: its posts stand, and its rank has gone on: it has learnt that ranks disagree in the call.
pub const ABANDONED: u32 = 3;
/// `Ticket::state`: all posts are done.
pub const SERVED: u32 = 2;

/// Words that tell what a call is.
pub const SPEC: usize = 5;

shared_layout! {
    /// A rank's part in one call or transfer.
    #[repr(C, align(64))]
    pub struct PostLine {
        /// Which communicator.
        pub comm: AtomicU64,
        /// Which of its calls or transfers.
        pub key: AtomicU64,
        /// What it is; the same at all members that agree.
        pub spec: [AtomicU64; SPEC],
        /// The member's number in the call.
        pub member: AtomicU32,
        /// Members in all.
        pub members: AtomicU32,
        /// When it enters.
        pub entry_ps: AtomicU64,
        /// How far it is: 0 posted, 1 taken by the engine, 2 done.
        pub stage: AtomicU32,
        _pad: AtomicU32,
        _rest: [AtomicU64; 6],
    }
}

/// A mapped clock segment.
pub struct ClockSegment {
    kept: Mutex<Option<Kept>>,
    segment: Segment,
    file: KeptFile,
    places: usize,
    ports: usize,
}

/// Where everything lies: a function of ranks and ports alone.
struct Layout {
    place: usize,
    thread: usize,
    ticket: usize,
    port: usize,
    log: usize,
    post: usize,
    total: usize,
}

/// Posts of all tickets of one rank.
const ALL_POSTS: usize = WIDE * POSTS + (TICKETS - WIDE) * FEW_POSTS;

impl Layout {
    fn new(places: usize, ports: usize) -> Layout {
        let place = size_of::<BoardHeader>();
        let thread = place + places * size_of::<PlaceLine>();
        let ticket = thread + places * THREADS * size_of::<ThreadLine>();
        let port = ticket + places * TICKETS * size_of::<Ticket>();
        let log = port + ports * PORT * 8;
        let post = (log + LOG * 8).next_multiple_of(4096);
        let total = post + places * ALL_POSTS * size_of::<PostLine>();
        Layout { place, thread, ticket, port, log, post, total }
    }
}

impl ClockSegment {
    /// Makes an empty segment for `places` ranks on a machine of `ports` ports.
    pub fn create(places: u32, ports: u32) -> Result<ClockSegment> {
        let (places, ports) = (places as usize, ports as usize);
        let layout = Layout::new(places, ports);
        let (segment, file) = Segment::create(layout.total, layout.post)?;
        Ok(ClockSegment { kept: Mutex::default(), segment, file: KeptFile::new(file), places, ports })
    }
    /// Opens the segment that another process made.
    pub fn open(file: File, places: u32, ports: u32) -> Result<ClockSegment> {
        let (places, ports) = (places as usize, ports as usize);
        let segment = Segment::map(&file, Layout::new(places, ports).total)?;
        Ok(ClockSegment { kept: Mutex::default(), segment, file: KeptFile::new(file), places, ports })
    }
    /// Maps a clock segment for reading, by its file alone. `None`: the file is none.
    #[cfg(any(test, feature = "internals"))]
    pub fn observe(file: File) -> Option<ClockSegment> {
        let head = size_of::<BoardHeader>();
        if file.metadata().ok()?.len() < head as u64 || shm::word_at(&file, 0)? != MAGIC {
            return None;
        }
        let (places, ports) = {
            let segment = Segment::map(&file, head).ok()?;
            let header = &segment.structs::<BoardHeader>(0, 1)[0];
            let ordering = Ordering::Acquire;
            if header.magic.load(ordering) != MAGIC {
                return None;
            }
            (header.places.load(ordering), header.ports.load(ordering))
        };
        ClockSegment::open(file, places, ports).ok()
    }
    /// Has the kernel announce the end of this process at a rank's place.
    pub fn keep(&self, place: u32) -> Result<()> {
        assert!((place as usize) < self.places, "a rank outside of the board");
        let line = self.layout().place + place as usize * size_of::<PlaceLine>();
        let kept = keeper::keep(self.file()?, line + std::mem::offset_of!(PlaceLine, life))?;
        *self.kept.lock() = Some(kept);
        Ok(())
    }
    /// The file by which others map it.
    pub fn file(&self) -> Result<&File> {
        self.file.get()
    }
    /// Ranks.
    pub fn places(&self) -> u32 {
        self.places as u32
    }
    fn layout(&self) -> Layout {
        Layout::new(self.places, self.ports)
    }
    /// The part that all ranks use.
    pub fn header(&self) -> &BoardHeader {
        &self.segment.structs(0, 1)[0]
    }
    /// A rank's clock.
    pub fn place(&self, place: u32) -> &PlaceLine {
        &self.segment.structs::<PlaceLine>(self.layout().place, self.places)[place as usize]
    }
    /// Tells whether a thread of the rank waits for a store of another.
    pub fn awaits(&self, place: u32) -> bool {
        self.place(place).awaiting.load(Ordering::Acquire) & u64::from(u32::MAX) != 0
    }
    /// All of a rank's thread lines.
    pub fn all_threads(&self, place: u32) -> &[ThreadLine] {
        assert!((place as usize) < self.places, "a rank outside of the board");
        let at = self.layout().thread + place as usize * THREADS * size_of::<ThreadLine>();
        self.segment.structs(at, THREADS)
    }
    /// The thread lines of a rank that have been in use.
    pub fn threads(&self, place: u32) -> &[ThreadLine] {
        let used = self.place(place).threads_used.load(Ordering::Acquire) as usize;
        &self.all_threads(place)[..used.min(THREADS)]
    }
    /// The tickets of a rank that have been in use.
    pub fn used_tickets(&self, place: u32) -> &[Ticket] {
        let used = self.place(place).tickets_used.load(Ordering::Acquire) as usize;
        &self.tickets(place)[..used.min(TICKETS)]
    }
    /// A rank's tickets.
    pub fn tickets(&self, place: u32) -> &[Ticket] {
        assert!((place as usize) < self.places, "a rank outside of the board");
        let at = self.layout().ticket + place as usize * TICKETS * size_of::<Ticket>();
        self.segment.structs(at, TICKETS)
    }
    /// All ports, [`PORT`] words each.
    pub fn ports(&self) -> &[AtomicU64] {
        self.segment.structs(self.layout().port, self.ports * PORT)
    }
    /// The log's words.
    pub fn log(&self) -> &[AtomicU64] {
        self.segment.structs(self.layout().log, LOG)
    }
    fn posts_at(&self, place: u32, ticket: usize) -> usize {
        assert!((place as usize) < self.places && ticket < TICKETS, "a ticket outside of the board");
        let before = ticket.min(WIDE) * POSTS + ticket.saturating_sub(WIDE) * FEW_POSTS;
        self.layout().post + (place as usize * ALL_POSTS + before) * size_of::<PostLine>()
    }
    /// Posts that a ticket holds.
    pub fn room(ticket: usize) -> usize {
        if ticket < WIDE { POSTS } else { FEW_POSTS }
    }
    /// The first `count` posts of a ticket. Their rank has reserved them.
    pub fn posts(&self, place: u32, ticket: usize, count: usize) -> &[PostLine] {
        self.segment.structs(self.posts_at(place, ticket), count.min(ClockSegment::room(ticket)))
    }
    /// Reserves the space of the first `count` posts of a ticket.
    pub fn reserve_posts(&self, place: u32, ticket: usize, count: usize) -> Result<()> {
        if count > ClockSegment::room(ticket) {
            return Err(Error::usage(format!(
                "{count} transfers in one group are more than the {POSTS} that a declared machine takes; divide the group"
            )));
        }
        shm::reserve(self.file()?, self.posts_at(place, ticket), count * size_of::<PostLine>())
    }
}

#[cfg(test)]
#[path = "clock_segment_tests.rs"]
mod tests;
