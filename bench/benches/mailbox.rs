//! One multicast against as many unicasts: the sender's time, the time until every receiver has freed the message, slots, bytes.
//!
//! Two ranks, which are threads of this process: one sends, the other receives as 64 threads of its mailbox. `sender` is the
//! time in the sender's calls, after which the message is in the queues of all its receivers. `all done` is the time until the
//! last of them has freed it, where one operating system thread receives for all; where it has a core of its own the two
//! overlap. Medians.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use penny::ffi::*;

const THREADS: c_int = 64;

/// A rank's mailboxes; C would pass them to all its threads alike.
#[derive(Clone, Copy)]
struct Mailbox(pennyMailbox_t);

// SAFETY: a number in a pointer's clothes, never dereferenced.
unsafe impl Send for Mailbox {}
// SAFETY: as above.
unsafe impl Sync for Mailbox {}

#[track_caller]
fn ok(result: pennyResult_t) {
    // SAFETY: the sentence is read before this thread's next failure.
    let said = || unsafe { std::ffi::CStr::from_ptr(pennyGetLastError(null_mut())) };
    assert!(result == pennySuccess, "{:?}", said());
}

fn mailbox(comm: pennyComm_t) -> Mailbox {
    let config = pennyMailboxConfig_t {
        size: size_of::<pennyMailboxConfig_t>(),
        magic: PENNY_MAILBOX_CONFIG_MAGIC,
        version: PENNY_VERSION_CODE,
        threads: THREADS,
        slots: 512,
        slotBytes: 64,
    };
    let mut made = null_mut();
    // SAFETY: a live communicator, a config, a place for the result.
    ok(unsafe { pennyMailboxCreate(comm, &config, &mut made) });
    Mailbox(made)
}

impl Mailbox {
    fn slot(self) -> *mut c_void {
        let mut slot = null_mut();
        // SAFETY: a place for the result.
        ok(unsafe { pennyMailboxSendSlot(self.0, 0, &mut slot) });
        slot
    }
    fn send(self, mask: u64, slot: *const c_void) {
        // SAFETY: the slot is this thread's.
        ok(unsafe { pennyMailboxMulticast(self.0, 1, (mask >> 32) as u32, mask as u32, slot) });
    }
    /// Receives and frees all messages that are there, and returns their number.
    fn drain(self) -> u64 {
        let mut got = 0;
        for thread in 0..THREADS {
            loop {
                let (mut received, mut message) =
                    (0, std::mem::MaybeUninit::<pennyMailboxMessage_t>::uninit());
                // SAFETY: places for the results; the message is read only if there is one.
                unsafe {
                    ok(pennyMailboxTryRecv(self.0, thread, message.as_mut_ptr(), &mut received));
                    if received == 0 {
                        break;
                    }
                    ok(pennyMailboxFree(self.0, thread, message.assume_init_ref().data));
                }
                got += 1;
            }
        }
        got
    }
    /// Returns the copies and the bytes written, and the slots in use.
    fn books(self) -> [u64; 3] {
        let mut stats = pennyMailboxStats_t {
            size: size_of::<pennyMailboxStats_t>(),
            magic: PENNY_MAILBOX_STATS_MAGIC,
            version: PENNY_VERSION_CODE,
            slots: 0,
            slotsFree: 0,
            sent: 0,
            received: 0,
            written: 0,
            delivered: 0,
            bytesWritten: 0,
        };
        // SAFETY: a struct that states its size.
        ok(unsafe { pennyMailboxStats(self.0, &mut stats) });
        [stats.written, stats.bytesWritten, stats.slots - stats.slotsFree]
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Times and books of one way to send to the first `fan` threads.
struct Line {
    sender: u64,
    done: u64,
    slots: u64,
    bytes: u64,
}

/// Measures `send`. `finish` must return when all receivers are done; its argument is the number of messages.
fn measure(to: Mailbox, times: usize, fan: u32, send: impl Fn(), mut finish: impl FnMut(u64)) -> Line {
    let (mut sender, mut done) = (Vec::new(), Vec::new());
    let before = to.books();
    for _ in 0..times {
        let begin = Instant::now();
        send();
        sender.push(begin.elapsed().as_nanos() as u64);
        finish(fan as u64);
        done.push(begin.elapsed().as_nanos() as u64);
    }
    let after = to.books();
    let each = |i: usize| (after[i] - before[i]) / times as u64;
    Line { sender: median(sender), done: median(done), slots: each(0), bytes: each(1) }
}

fn table(title: &str, from: Mailbox, to: Mailbox, times: usize, mut finish: impl FnMut(u64)) {
    let slot = from.slot();
    println!("{title}");
    println!(
        "| fan-out | multicast, sender | all done | slots | bytes | unicasts, sender | all done | slots | bytes | ratio, sender |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for fan in [1u32, 2, 4, 8, 16, 32, 64] {
        let all = u64::MAX >> (64 - fan);
        let one = measure(to, times, fan, || from.send(all, slot), &mut finish);
        let many = measure(to, times, fan, || (0..fan).for_each(|t| from.send(1 << t, slot)), &mut finish);
        println!(
            "| {fan} | {} ns | {} ns | {} | {} | {} ns | {} ns | {} | {} | {:.1} |",
            one.sender,
            one.done,
            one.slots,
            one.bytes,
            many.sender,
            many.done,
            many.slots,
            many.bytes,
            many.sender as f64 / one.sender as f64
        );
    }
}

fn main() {
    // `cargo test` runs every bench once.
    let times = if std::env::args().any(|arg| arg == "--bench") { 4001 } else { 11 };
    let mut comms = [null_mut(); 2];
    // SAFETY: two places; NULL for the devices means 0, 1.
    ok(unsafe { pennyCommInitAll(comms.as_mut_ptr(), 2, std::ptr::null()) });
    let (from, to) = std::thread::scope(|scope| {
        let [a, b] = comms.map(|comm| comm.addr());
        let make = |addr: usize| mailbox(std::ptr::without_provenance_mut(addr));
        let other = scope.spawn(move || make(b));
        (make(a), other.join().expect("a mailbox"))
    });
    table("sender and receivers in turn on one core", from, to, times, |fan| {
        let mut got = 0;
        while got < fan {
            got += to.drain();
        }
    });
    let (stop, got) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let to = { to };
            while !stop.load(Ordering::Relaxed) {
                got.fetch_add(to.drain(), Ordering::Release);
            }
        });
        let mut sent = 0;
        table("receivers on a core of their own", from, to, times, |fan| {
            sent += fan;
            while got.load(Ordering::Acquire) < sent {
                std::thread::yield_now();
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
}
