//! The costs that a kernel adds to those of the wires: its blocks signal, wait and copy.
//!
//! ```text
//!     fused      put with signal =====>                 wait   copy by 16 B      then the block's place is free
//!     unfused    put =========> fence <----- signal --> wait   copy by 2 B
//!                               a message back; then one more there
//! ```
//!
//! The loss of the unfused kernel is latency that a window of two waves cannot hide: each wave holds its place for a
//! fence (acknowledged by the peer: a message back), a signal (a message of its own, there) and a slow copy on top of
//! the put. On NVLink a wave passes in 1.5 us and these add 1.8; across nodes in 11.1 us, and these add 11.

use super::pattern::Waves;
use crate::machine;
use penny::sim::fabric::{PricedCall, engine};
use penny::sim::plan::{Chunk, Plan, RankView};
use penny::sim::topology::Network;
use penny::{Collective, Rank};

/// Streaming multiprocessors of an H100 (SXM): each runs one block of a wave.
const PROCESSORS: u64 = 132;
/// Threads of a block; two blocks fill a processor, which is why two waves are under way.
const THREADS: u64 = 1024;
/// Bytes that a thread puts. Guessed: the worklog found its own by a sweep and does not give it. Half of it or a single
/// slot loses much more than was published, twice of it or four slots lose nothing across nodes.
const PACKET: u64 = 4;
/// Bytes of a wave.
pub const WAVE: u64 = PROCESSORS * THREADS * PACKET;
/// Waves under way: 2048 threads a processor.
pub const SLOTS: u32 = 2;
/// Guessed, like the packet so that the published losses come out: from a thread's load of what has just arrived, which
/// is in the cache, to its next load. The copy's two
/// pointers may overlap, so a thread has one load under way.
const ACCESS_PS: u64 = 300_000;

/// The way in which the data and their signal travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// One message; copies by 16 bytes.
    Fused,
    /// Put, fence, signal; every thread polls, and copies one 2-byte element at a time.
    Unfused,
}

impl Signal {
    /// Both, the better first.
    pub const ALL: [Signal; 2] = [Signal::Fused, Signal::Unfused];

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Fused => "fused",
            Signal::Unfused => "unfused",
        }
    }

    /// Returns the time to copy a wave from the place where it arrived to its destination.
    fn copy_ps(self, wave: u64) -> u64 {
        let width = match self {
            Signal::Fused => 16,
            Signal::Unfused => 2,
        };
        wave.div_ceil(PROCESSORS * THREADS * width) * ACCESS_PS
    }
}

/// What an exchange between two places takes. `network` keeps what the kernel adds to its classes: it is of no use for
/// anything else afterwards.
pub fn price(mut network: Network, pair: (Rank, Rank), waves: Waves, signal: Signal) -> Result<u64, String> {
    let (a, b) = pair;
    let fence = match signal {
        Signal::Fused => 0,
        Signal::Unfused => word_ps(&network, b, a)? + word_ps(&network, a, b)?,
    };
    // The engine has no work between an arrival and the next send, but it has a time to issue a message that overlaps
    // with the port's work on others. Waiting there before the put instead of after it changes no sum: a slot's waves
    // follow one another, and its port is free meanwhile.
    let taken_ps = fence + signal.copy_ps(waves.bytes);
    let mut first_classes = Vec::new();
    for (from, to) in [(a, b), (b, a)] {
        let mut ports = Vec::new();
        network.routes.route(from, to, 0, &mut ports)?;
        first_classes.extend(ports.first().map(|&port| network.ports[port as usize].class));
    }
    first_classes.sort_unstable();
    first_classes.dedup();
    for class in first_classes {
        network.classes[class as usize].post_ps += taken_ps;
    }
    let mut plans = vec![Plan::new(waves.slots); a.max(b) as usize + 1];
    plans[a as usize] = waves.plan(b);
    plans[b as usize] = waves.plan(a);
    // One element a part, and a wave's bytes an element.
    run(&network, &plans, u64::from(waves.slots), waves.bytes)
}

/// A message without data, one way.
fn word_ps(network: &Network, from: Rank, to: Rank) -> Result<u64, String> {
    // One element in two parts: the second part is empty.
    let mut plans = vec![Plan::new(2); from.max(to) as usize + 1];
    plans[from as usize].send(to, Chunk::part(1));
    plans[to as usize].recv_copy(from, Chunk::part(1));
    run(network, &plans, 1, 1)
}

fn run(network: &Network, plans: &[Plan], count: u64, size: u64) -> Result<u64, String> {
    let view = RankView::flat(Collective::AllReduce, 0, plans.len() as u32, 0);
    let places = machine::places(network, plans.len() as u32)?;
    let call = PricedCall { plans, places: &places, view, count, size, slice_bytes: 0 };
    let outcome = engine::price(network, &call, &vec![0; plans.len()]).map_err(|e| e.message.clone())?;
    Ok(outcome.exit_ps.into_iter().max().unwrap_or(0))
}
