//! One rank that the recovery tests start, stop and kill. It does what its arguments say and reports each act in a line.
//!
//! ```text
//!     victim RANK NRANKS ID ACT ACT ...
//!
//!     join                    join the communicator that ID (256 hex digits) names
//!     join-env                join the communicator of this launch
//!     heap                    from now on use memory of pennyMemAlloc
//!     call WHAT COUNT         one call, its result checked; WHAT is a collective, `transfer` (to the next rank), `signals`
//!                             (the same by puts), `children` (an all_reduce in a communicator made of all for it), `split`
//!                             (the same in one of every second rank), `init` (the same in one of all, made by an id),
//!                             `mailbox` (a message to the next rank, one from the rank before), `semaphore` (a signal to
//!                             the next rank, a wait for the one before), `mixed` (one of these after the other), or one
//!                             of the rare ones of `rare.rs`
//!     loop WHAT COUNT         the same until it fails | repeat N WHAT COUNT: or until it was done N times
//!     sleep MS                sleep | hold: stay until standard input ends
//!     abort-after MS          a thread aborts the communicator after MS milliseconds
//!     destroy | abort         free the communicator | abort it
//!     divide                  make a communicator of ranks 0 and 1, one of 2 and 3, and so on
//!     duplicate               make a communicator of all ranks
//!     part WHAT COUNT         one call in that one | part-destroy: free it
//!     fork                    a forked child makes a call, destroys, and reports; then the parent goes on
//!     intrude PID ...         become another user, and try to get in: see `intruder.rs`
//!     exit | crash            end without freeing anything: by exit(0), by abort(3)
//!
//!     ok ACT                                  what is printed: it was done,
//!     error CODE ENTERED RETURNED SENTENCE    it returned this; both times in nanoseconds,
//!     wrong SENTENCE                          or it returned success with wrong bytes
//! ```

mod family;
mod intruder;
mod rare;

use nix::time::{ClockId, clock_gettime};
use penny::internals::comm::{
    self, AwaitedSignals, Call, CommHandle, Config, Counter, Grouping, MailboxConfig, MailboxHandle, Put,
    Signal, Transfer, WindowHandle,
};
use penny::internals::error::{Error, Result};
use penny::internals::memory::view::Address;
use penny::internals::onesided::Device;
use penny::internals::types::{Collective, DataType, RedOp};
use std::io::{Read, Write};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args[at].parse::<u32>().expect("a number");
    let mut rank = Part {
        rank: number(0),
        nranks: number(1),
        id: args[2].clone(),
        comm: None,
        part: None,
        heap: false,
        window: None,
        mailbox: None,
        symmetric: false,
        call: 0,
        entered: 0,
    };
    for act in &args[3..] {
        match rank.act(act) {
            Ok(()) => say(&format!("ok {act}")),
            Err(e) => rank.complain(&e),
        }
        // Nothing can be called on a communicator that was not joined.
        if act.starts_with("join") && rank.comm.is_none() {
            return;
        }
    }
}

/// The machine's monotonic clock, the same in every process.
fn now_ns() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn say(line: &str) {
    // The test may have ended; then there is no reader.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// One after the other.
const MIXED: [&str; 10] = [
    "all_reduce",
    "transfer",
    "signals",
    "mailbox",
    "all_gather",
    "split",
    "broadcast",
    "semaphore",
    "alltoall",
    "barrier",
];

struct Part {
    rank: u32,
    nranks: u32,
    id: String,
    comm: Option<CommHandle>,
    /// Of this rank and its neighbour.
    part: Option<CommHandle>,
    heap: bool,
    /// Where the rank before puts its data.
    window: Option<(Buffer, WindowHandle)>,
    mailbox: Option<MailboxHandle>,
    /// There is a symmetric heap.
    symmetric: bool,
    /// Calls made: the data of each differ.
    call: u32,
    /// When the last one began.
    entered: i64,
}

impl Part {
    fn act(&mut self, act: &str) -> Result<()> {
        let words: Vec<&str> = act.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        match words[0] {
            "join" => {
                let byte = |i: usize| u8::from_str_radix(&self.id[2 * i..2 * i + 2], 16).expect("hex");
                let id = penny::internals::bootstrap::UniqueId(std::array::from_fn(byte));
                self.comm =
                    Some(comm::init_rank(self.nranks as i32, &id, self.rank as i32, &Config::default())?);
            }
            "join-env" => self.comm = Some(comm::init_from_env(&Config::default())?),
            "heap" => self.heap = true,
            "call" => return self.call(words[1], number(2)),
            "loop" => loop {
                self.call(words[1], number(2))?;
            },
            "repeat" => (0..number(1)).try_for_each(|_| self.call(words[2], number(3)))?,
            "sleep" => std::thread::sleep(Duration::from_millis(number(1) as u64)),
            "hold" => drop(std::io::stdin().read_to_end(&mut Vec::new())),
            "abort-after" => {
                let (comm, after) = (self.comm(), number(1) as u64);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(after));
                    comm::abort(comm).expect("an abort succeeds");
                });
            }
            "finalize" => comm::finalize(self.comm())?,
            "destroy" => comm::destroy(self.comm.take().expect("joined"))?,
            "abort" => comm::abort(self.comm.take().expect("joined"))?,
            "divide" => self.part = comm::split(self.comm(), Some(self.rank as i32 / 2), 0, None)?,
            "duplicate" => self.part = Some(comm::group(self.comm(), Grouping::All, 0)?),
            "part" => {
                let part = self.part.expect("divided");
                return self.within(part, |rank| rank.call(words[1], number(2)));
            }
            "part-destroy" => comm::destroy(self.part.take().expect("divided"))?,
            "fork" => self.fork(),
            "intrude" => self.intrude(&words[1..]),
            "exit" => std::process::exit(0),
            "crash" => std::process::abort(),
            other => panic!("no such act: {other}"),
        }
        Ok(())
    }

    fn comm(&self) -> CommHandle {
        self.comm.expect("joined")
    }

    fn complain(&self, e: &Error) {
        say(&format!("error {} {} {} {}", e.code as i32, self.entered, now_ns(), e.message));
    }

    fn call(&mut self, what: &str, count: usize) -> Result<()> {
        self.call += 1;
        let what = if what == "mixed" { MIXED[self.call as usize % MIXED.len()] } else { what };
        match (Collective::from_name(what), what) {
            (Some(collective), _) => self.collective(collective, count),
            (None, "children") => self.child(count, |comm| comm::group(comm, Grouping::All, 0)),
            (None, "split") => self.split(count),
            (None, "init") => self.init(count),
            (None, "signals") => self.signals(count),
            (None, "mailbox") => self.mailbox(),
            (None, "semaphore") => self.semaphore(),
            (None, _) => match self.rare(what, count) {
                Some(ended) => ended,
                None => self.transfer(count),
            },
        }
    }

    fn collective(&mut self, c: Collective, count: usize) -> Result<()> {
        let root = if c.rooted() { self.call % self.nranks } else { 0 };
        let (ins, outs) =
            (c.blocks_in(self.rank, self.nranks, root), c.blocks_out(self.rank, self.nranks, root));
        let mut input = Buffer::new(self.heap, ins as usize * count)?;
        let mut output = Buffer::new(self.heap, outs as usize * count)?;
        for (i, word) in input.words().iter_mut().enumerate() {
            *word = value(self.call, self.rank, i / count, i % count);
        }
        let call = Call {
            collective: c,
            send: input.address(),
            recv: output.address(),
            count,
            dtype: DataType::Uint32,
            op: RedOp::Sum,
            root: root as i32,
            padded: false,
        };
        self.entered = now_ns();
        comm::collective(self.comm(), &call, None)?;
        for (i, &got) in output.words().iter().enumerate() {
            let want = self.expected(c, root, i / count, i % count);
            if got != want {
                say(&format!("wrong {c}, call {}, element {i}: {got} instead of {want}", self.call));
                break;
            }
        }
        Ok(())
    }

    fn expected(&self, c: Collective, root: u32, block: usize, i: usize) -> u32 {
        let of = |rank: u32, block: usize| value(self.call, rank, block, i);
        let sum = |block: usize| (0..self.nranks).map(|r| of(r, block)).fold(0, u32::wrapping_add);
        match c {
            Collective::AllReduce | Collective::Reduce => sum(0),
            Collective::ReduceScatter => sum(self.rank as usize),
            Collective::Broadcast => of(root, 0),
            Collective::AllGather | Collective::Gather => of(block as u32, 0),
            Collective::AlltoAll => of(block as u32, self.rank as usize),
            Collective::Scatter => of(root, self.rank as usize),
            Collective::Barrier => 0,
        }
    }

    /// Round the ring by messages.
    fn mailbox(&mut self) -> Result<()> {
        self.entered = now_ns();
        let mailbox = match self.mailbox {
            Some(mailbox) => mailbox,
            None => {
                let config = MailboxConfig { threads: 1, slots: 4, slot_bytes: 64 };
                *self.mailbox.insert(comm::mailbox_create(self.comm(), &config)?)
            }
        };
        let next = ((self.rank + 1) % self.nranks) as i32;
        comm::mailbox(mailbox, |boxes| {
            boxes.multicast(next, 1, boxes.send_slot(0)?)?;
            let message = boxes.recv(0)?;
            boxes.free(0, message.data)
        })
    }

    /// Signal to the next rank, and wait for the one before.
    fn semaphore(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.symmetric, true) {
            comm::shmem_init(self.comm())?;
        }
        let turn = comm::barrier_semaphore(self.comm(), 0)?;
        let next = Device::Logical(((self.rank + 1) % self.nranks) as i32);
        self.entered = now_ns();
        comm::semaphore(turn, |turn| turn.signal(0, 1, next).and_then(|()| turn.wait(0, 1)))?;
        // A signal that was given before a death is there all the same.
        comm::shmem(self.comm(), |heap| heap.quiet())
    }

    /// Round the ring: to the next rank, from the one before.
    fn transfer(&mut self, count: usize) -> Result<()> {
        let before = (self.rank + self.nranks - 1) % self.nranks;
        let (mut input, mut output) = (Buffer::new(self.heap, count)?, Buffer::new(self.heap, count)?);
        for (i, word) in input.words().iter_mut().enumerate() {
            *word = value(self.call, self.rank, 0, i);
        }
        let half = |send: bool, buffer: Address<'static>, peer: u32| Transfer {
            send,
            buffer,
            count,
            dtype: DataType::Uint32,
            peer: peer as i32,
            of_collective: false,
        };
        self.entered = now_ns();
        comm::group_start()?;
        comm::transfer(self.comm(), &half(true, input.address(), (self.rank + 1) % self.nranks), None)?;
        comm::transfer(self.comm(), &half(false, output.address(), before), None)?;
        comm::group_end()?;
        for (i, &got) in output.words().iter().enumerate() {
            if got != value(self.call, before, 0, i) {
                say(&format!("wrong transfer, call {}, element {i}: {got}", self.call));
                break;
            }
        }
        Ok(())
    }

    /// Round the ring by puts. Round it nobody is more than `nranks` calls ahead, so that many places are enough.
    fn signals(&mut self, count: usize) -> Result<()> {
        let places = self.nranks as usize + 1;
        let (next, before) = ((self.rank + 1) % self.nranks, (self.rank + self.nranks - 1) % self.nranks);
        let place = self.call as usize % places * count;
        let mut input = Buffer::new(self.heap, count)?;
        for (i, word) in input.words().iter_mut().enumerate() {
            *word = value(self.call, self.rank, 0, i);
        }
        self.entered = now_ns();
        if self.window.is_none() {
            let mut own = Buffer::new(true, places * count)?;
            let window = comm::window_register(self.comm(), own.address(), places * count * 4, 0)?
                .expect("memory of the heap");
            self.window = Some((own, window));
        }
        let (comm, (own, window)) = (self.comm(), self.window.as_mut().expect("registered"));
        let (source, dtype) = (input.address(), DataType::Uint32);
        let put = Put { source, count, dtype, window: *window, offset: place * 4 };
        let with = |peer: u32| Counter { peer: peer as i32, index: 5, context: 1 };
        comm::signal(comm, &Signal { counter: with(next), flags: 0, put: Some(put) }, None)?;
        comm::wait_signals(comm, vec![AwaitedSignals { count: 1, counter: with(before) }], None)?;
        for (i, &got) in own.words()[place..][..count].iter().enumerate() {
            if got != value(self.call, before, 0, i) {
                say(&format!("wrong put, call {}, element {i}: {got}", self.call));
                break;
            }
        }
        Ok(())
    }

    fn fork(&mut self) {
        // SAFETY: the child only makes calls that are documented to be refused after a fork, writes, and ends at once.
        match unsafe { nix::unistd::fork() }.expect("fork") {
            nix::unistd::ForkResult::Child => {
                for ended in
                    [self.call("all_reduce", 4), comm::destroy(self.comm()), comm::abort(self.comm())]
                {
                    match ended {
                        Ok(()) => say("ok a call in the child"),
                        Err(e) => self.complain(&e),
                    }
                }
                std::process::exit(0);
            }
            nix::unistd::ForkResult::Parent { child } => {
                nix::sys::wait::waitpid(child, None).expect("a child can be waited for");
            }
        }
    }
}

/// Element `i` of a block of a rank's input to a call: different everywhere.
fn value(call: u32, rank: u32, block: usize, i: usize) -> u32 {
    call.wrapping_mul(2_654_435_761) ^ (rank * 1_000_003 + block as u32 * 10_007).wrapping_add(i as u32 * 31)
}

/// Words, private or in the shareable heap.
struct Buffer {
    private: Vec<u32>,
    shared: usize,
    len: usize,
}

impl Buffer {
    fn new(heap: bool, len: usize) -> Result<Buffer, Error> {
        let shared = if heap { comm::mem_alloc(len * 4)? } else { 0 };
        Ok(Buffer { private: vec![0; if heap { 0 } else { len }], shared, len })
    }
    fn words(&mut self) -> &mut [u32] {
        if self.shared == 0 {
            return &mut self.private;
        }
        // SAFETY: pennyMemAlloc gave `len` aligned words, and no call is using them.
        unsafe { std::slice::from_raw_parts_mut(self.shared as *mut u32, self.len) }
    }
    fn address(&mut self) -> Address<'static> {
        // SAFETY: the buffer outlives the call that it is passed to.
        unsafe { Address::from_raw(self.words().as_ptr().cast()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        comm::mem_free(self.shared).expect("it was allocated");
    }
}
