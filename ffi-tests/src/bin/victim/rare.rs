//! Calls that programs make seldom, and calls that are wrong: those that bring ranks to the less-used protocols.

use super::{Buffer, Part, now_ns, say, value};
use penny::internals::comm::{self, AwaitedSignals, Call, Counter, MailboxConfig, Transfer};
use penny::internals::error::{Code, Result};
use penny::internals::memory::view::Address;
use penny::internals::onesided::{Atomic, AtomicOp, Change, Comparison, SignalOp};
use penny::internals::types::{Collective, DataType, RedOp};

/// A call that is wrong on purpose: the library must say so, or that a rank is gone.
fn forgiven(ended: Result<()>) -> Result<()> {
    match ended {
        Err(e) if e.code == Code::InvalidUsage => Ok(()),
        ended => ended,
    }
}

impl Part {
    /// Makes the call `what`; `None` if it is not one of these.
    pub fn rare(&mut self, what: &str, count: usize) -> Option<Result<()>> {
        self.entered = now_ns();
        Some(match what {
            "refused" => self.refused(count),
            "disagree" => self.disagree(Collective::AllReduce, count, [0, self.rank as usize % 2]),
            "roots" => self.disagree(Collective::Broadcast, count, [self.rank % 2, 0].map(|x| x as usize)),
            "puts" => self.puts(),
            "registered" => self.registered(count),
            "full" => self.full(),
            "deadlock" => self.deadlock(),
            _ => return None,
        })
    }

    fn before(&self) -> u32 {
        (self.rank + self.nranks - 1) % self.nranks
    }
    fn next(&self) -> u32 {
        (self.rank + 1) % self.nranks
    }

    /// To the next rank, from the one before, which sends less than this one receives.
    fn refused(&mut self, count: usize) -> Result<()> {
        let (mut input, mut output) = (Buffer::new(self.heap, count)?, Buffer::new(self.heap, count + 1)?);
        let half = |send: bool, buffer: Address<'static>, count: usize, peer: u32| Transfer {
            send,
            buffer,
            count,
            dtype: DataType::Uint32,
            peer: peer as i32,
            of_collective: false,
        };
        comm::group_start()?;
        comm::transfer(self.comm(), &half(true, input.address(), count, self.next()), None)?;
        comm::transfer(self.comm(), &half(false, output.address(), count + 1, self.before()), None)?;
        forgiven(comm::group_end())
    }

    /// A collective with another root or another count on some ranks, and a barrier.
    fn disagree(&mut self, collective: Collective, count: usize, [root, more]: [usize; 2]) -> Result<()> {
        let count = count + more;
        let (mut input, mut output) = (Buffer::new(self.heap, count)?, Buffer::new(self.heap, count)?);
        let (dtype, op) = (DataType::Uint32, RedOp::Sum);
        let (send, recv, root) = (input.address(), output.address(), root as i32);
        let call = Call { collective, send, recv, count, dtype, op, root, padded: false };
        forgiven(comm::collective(self.comm(), &call, None))?;
        let (send, recv) = (Address::NULL, Address::NULL);
        let collective = Collective::Barrier;
        let meet = Call { collective, send, recv, count: 0, dtype, op, root: 0, padded: false };
        forgiven(comm::collective(self.comm(), &meet, None))
    }

    /// Symmetric memory, written to by the rank before: by a put, a put with signal and an atomic operation.
    fn puts(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.symmetric, true) {
            comm::shmem_init(self.comm())?;
        }
        let base = comm::shmem_alloc(self.comm(), 4096, 64, true)?;
        let mut source = Buffer::new(false, 16)?;
        let sent = value(self.call, self.rank, 0, 0);
        source.words().fill(sent);
        // SAFETY: 4096 bytes of the symmetric heap, until they are freed below.
        let at = |offset: usize| unsafe { Address::from_raw((base + offset) as *const u8) };
        let (next, source) = (self.next() as i32, source.address());
        let change = Change { op: AtomicOp::Add, value: 3, expected: 0 };
        let add = Atomic { change, dtype: DataType::Uint64, fetches: false };
        comm::shmem(self.comm(), |heap| {
            heap.put(at(0), source, 64, next)?;
            heap.modify(at(192), &add, next)?;
            heap.put_signal(at(64), source, 64, at(128), 1, SignalOp::Add, next)?;
            heap.await_signal(at(128), Comparison::Ge, 1).map(drop)
        })?;
        // SAFETY: as above; the rank before has written it, and its signal has come.
        let got = unsafe { *((base + 64) as *const u32) };
        if got != value(self.call, self.before(), 0, 0) {
            say(&format!("wrong put with signal, call {}: {got}", self.call));
        }
        comm::shmem_barrier(self.comm(), true)?;
        comm::shmem_free(self.comm(), base)
    }

    /// An all-reduce in place on memory that is registered for it.
    fn registered(&mut self, count: usize) -> Result<()> {
        let mut buffer = Buffer::new(false, count)?;
        buffer.words().fill(self.call);
        let address = buffer.address();
        let registered = comm::register(self.comm(), address, count * 4)?;
        let (collective, dtype, op) = (Collective::AllReduce, DataType::Uint32, RedOp::Sum);
        let call =
            Call { collective, send: address, recv: address, count, dtype, op, root: 0, padded: false };
        comm::collective(self.comm(), &call, None)?;
        comm::deregister(self.comm(), registered)?;
        let want = self.call.wrapping_mul(self.nranks);
        if let Some(got) = buffer.words().iter().find(|&&got| got != want) {
            say(&format!("wrong registered buffer, call {}: {got} instead of {want}", self.call));
        }
        Ok(())
    }

    /// Two messages round the ring of mailboxes that hold one: all but rank 0 send first, and wait for a slot.
    fn full(&mut self) -> Result<()> {
        let mailbox = match self.mailbox {
            Some(mailbox) => mailbox,
            None => {
                let config = MailboxConfig { threads: 1, slots: 1, slot_bytes: 64 };
                *self.mailbox.insert(comm::mailbox_create(self.comm(), &config)?)
            }
        };
        let (next, first) = (self.next() as i32, self.rank == 0);
        comm::mailbox(mailbox, |boxes| {
            let receive =
                || (0..2).try_for_each(|_| boxes.recv(0).and_then(|message| boxes.free(0, message.data)));
            if first {
                receive()?;
            }
            (0..2).try_for_each(|_| boxes.multicast(next, 1, boxes.send_slot(0)?))?;
            if first { Ok(()) } else { receive() }
        })
    }

    /// All ranks wait for a signal, and none gives one: a declared machine says so.
    fn deadlock(&mut self) -> Result<()> {
        let counter = Counter { peer: self.before() as i32, index: 6, context: 1 };
        comm::wait_signals(self.comm(), vec![AwaitedSignals { count: 1, counter }], None)
    }
}
