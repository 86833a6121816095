//! All-reduces of small vectors between two ranks, compared with the least work that any library must do.
//!
//! ```text
//!     hand-off    a word in a cache line of its own, there and back: the time is that of one way
//!     exchange    slot of a rank, two of them in turn:   | flag | payload ...   payload, flag; wait for the peer's; add
//! ```
//!
//! The exchange has no checks, no deadline, no sleep and no record, and serves one type, one operation and two ranks. Two slots
//! are enough: a rank that sees the peer's flag of call n knows that the peer has read what was written for call n - 1.

use std::ffi::c_void;
use std::io::Write;
use std::ptr;
use std::sync::atomic::Ordering;

use penny::ffi;
use penny::internals::types::{DataType, RedOp};

use crate::beside::rounds::take_turns;
use crate::beside::{Row, bare};
use crate::capi::{Communicator, outcome};
use crate::shmem::heap::Heap;

/// What to measure, and how often.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Sizes of the vectors in bytes
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_values_t = [8, 256, 4096, 16384],
          value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    sizes: Vec<u64>,
    /// Rounds: in each, everything that is compared has its turn
    #[arg(long, value_name = "COUNT", default_value_t = 201, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The bytes of two cache lines, which hardware fetches together.
const APART: usize = 128;
/// Bytes of a slot before its payload, unless the payload shares the flag's line.
const HEAD: usize = 64;

/// This rank's slots and the peer's.
struct Slots {
    mine: *mut u8,
    theirs: *mut u8,
    /// Bytes of a slot.
    stride: usize,
    calls: u64,
}

impl Slots {
    /// Adds the vectors of both ranks.
    ///
    /// # Safety
    /// `input` and `output` must hold `count` elements, and a slot as many behind its flag.
    #[inline]
    unsafe fn all_reduce(&mut self, input: *const f32, output: *mut f32, count: usize) -> Result<(), String> {
        self.calls += 1;
        let at = self.calls as usize % 2 * self.stride;
        let data = if count * 4 <= HEAD - 8 { 8 } else { HEAD };
        // SAFETY: the caller's promise; the flags are words at the slots' beginnings.
        unsafe {
            let (mine, theirs) = (self.mine.add(at), self.theirs.add(at));
            mine.add(data).copy_from_nonoverlapping(input.cast(), count * 4);
            // ORDER: publishes the payload; partner: the load in `bare::wait`.
            bare::word(mine).store(self.calls, Ordering::Release);
            bare::wait(bare::word(theirs), self.calls)?;
            bare::add(output, input, theirs.add(data).cast(), count);
        }
        Ok(())
    }
}

/// Measures and prints a table.
pub fn run(options: &Options) -> Result<(), String> {
    let comm = Communicator::from_env()?;
    if comm.nranks() != 2 {
        return Err(format!("it measures between 2 ranks, and there are {}", comm.nranks()));
    }
    let say = |text: String| {
        if comm.rank() == 0 {
            // An error of stdout is ignored: if this rank stopped here, the other rank would wait for it.
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
    };
    say(format!(
        "# exchange_perf  penny {}  ranks: 2  rounds: {}\n{}",
        env!("CARGO_PKG_VERSION"),
        options.rounds,
        Row::head(2)
    ));
    let heap = Heap::init(&comm)?;
    for &bytes in &options.sizes {
        say(measure(&heap, bytes as usize / 4, options.rounds)?.to_string());
    }
    heap.finalize()?;
    comm.destroy()
}

/// Measures one size.
fn measure(heap: &Heap<'_>, count: usize, rounds: u32) -> Result<Row, String> {
    let (comm, bytes) = (heap.comm(), count * 4);
    let stride = (HEAD + bytes).next_multiple_of(APART);
    let shared = heap.align(4096, APART + 2 * stride)?;
    let peer = heap.bare(shared)?;
    // SAFETY: `shared` has `APART + 2 * stride` bytes, and the peer writes to its own copy only.
    unsafe { shared.write_bytes(0, APART + 2 * stride) };
    comm.barrier()?;
    let input = vec![1.0 + comm.rank() as f32; count];
    let (mut output, mut expected) = (vec![0.0f32; count], vec![0.0f32; count]);
    expected.fill(3.0);
    // SAFETY: within the allocations, which live to the end of this function; each flag is a word in a line of its own.
    let (word, their_word) = unsafe { (bare::word(shared), bare::word(peer)) };
    // SAFETY: as above.
    let mut slots = unsafe { Slots { mine: shared.add(APART), theirs: peer.add(APART), stride, calls: 0 } };
    let (leads, mut trips) = (comm.rank() == 0, 0);
    let (from, to) = (input.as_ptr(), output.as_mut_ptr());
    let mut penny = |calls: u32| (0..calls).try_for_each(|_| all_reduce(comm, from, to, count));
    let mut exchange = |calls: u32| {
        // SAFETY: the buffers and the slots hold `count` elements.
        (0..calls).try_for_each(|_| unsafe { slots.all_reduce(from, to, count) })
    };
    // A round trip is two hand-offs.
    let mut hand_off = |ways: u32| {
        for _ in 0..ways.div_ceil(2) {
            trips += 1;
            if leads {
                word.store(trips, Ordering::Release);
            }
            bare::wait(their_word, trips)?;
            if !leads {
                word.store(trips, Ordering::Release);
            }
        }
        Ok(())
    };
    let calls = ((4 << 20) / bytes.max(1)).clamp(100, 1000) as u32;
    let turns: &mut [_] =
        &mut [("", &mut penny as _), ("exchange", &mut exchange as _), ("hand-off", &mut hand_off as _)];
    let times = take_turns(rounds, calls, &|| comm.barrier(), turns)?;
    comm.barrier()?;
    heap.free(shared)?;
    match output == expected {
        true => Ok(Row::new("all_reduce", bytes, &times)),
        false => Err(format!("wrong result for {bytes} bytes")),
    }
}

fn all_reduce(comm: &Communicator, input: *const f32, output: *mut f32, count: usize) -> Result<(), String> {
    let (send, recv) = (input.cast::<c_void>(), output.cast::<c_void>());
    let (dtype, op, stream) = (DataType::Float32.into(), RedOp::Sum.into(), ptr::null_mut());
    // SAFETY: both buffers hold `count` elements; the communicator is live while it is borrowed.
    outcome(unsafe { ffi::pennyAllReduce(send, recv, count, dtype, op, comm.raw(), stream) }, comm.raw())
}
