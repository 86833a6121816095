//! The benchmarks of a link: latency, ring, utilisation.
//!
//! ```text
//!     one way       offer -> near core -> wire -> far core sees it
//!     round trip    the same, and the far core's answer the same way back
//!     ring          chip 0 -> link -> chip 1 -> over the chip -> link -> chip 2 ... -> chip 0; a hop is chip and link
//! ```
//!
//! All begin with both programs running and idle: the handshake is not measured.

use super::channel::{Setup, SignalMode, Termination};
use super::clockwork::{At, Clockwork};
use super::end::Side;
use super::parameters::Parameters;
use crate::error::{Error, Result};

/// Payloads a channel that utilisation is measured over, the first quarter unseen.
const MESSAGES: u64 = 64;

/// Packets of the two directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directions {
    /// Payloads go one way.
    One,
    /// As many channels each way.
    Both,
}

/// From the sender's first look to the receiver's, in picoseconds.
pub fn one_way_ps(parameters: &Parameters, bytes: u64, signal: SignalMode) -> Result<u64> {
    answered(parameters, bytes, signal).map(|[there, _]| there)
}

/// Until the sender has the receiver's answer, as long as the payload, in picoseconds.
pub fn round_trip_ps(parameters: &Parameters, bytes: u64, signal: SignalMode) -> Result<u64> {
    answered(parameters, bytes, signal).map(|[_, back]| back)
}

/// Returns the time at which a payload has arrived, and the time at which the answer is back.
fn answered(parameters: &Parameters, bytes: u64, signal: SignalMode) -> Result<[u64; 2]> {
    let setups = [Side::Near, Side::Far].map(|sender| Setup {
        sender,
        messages: 1,
        bytes,
        last_bytes: bytes,
        buffers: 1,
    });
    let mut works = Clockwork::new(parameters);
    let link = works.link(&setups, signal, Termination::MessageCount, [0; 2])?;
    let [question, answer] = [0, 1].map(|channel| At { link, channel });
    works.relay(question, answer, 0);
    works.run()?;
    let start_ps = works.now_ps();
    works.offer(question, 0);
    finish(&mut works)?;
    match works.taken() {
        [there, back] => Ok([there.at_ps - start_ps, back.at_ps - start_ps]),
        _ => Err(Error::internal("the link carried something else than a question and its answer")),
    }
}

/// Payloads, one on each of some channels, go once round a ring of chips: until the last is back, in picoseconds.
pub fn ring_ps(
    parameters: &Parameters,
    chips: u32,
    bytes: u64,
    channels: u32,
    signal: SignalMode,
) -> Result<u64> {
    if chips < 2 || channels == 0 {
        return Err(Error::argument(format!(
            "{chips} chips with {channels} channels are no ring; take two chips and a channel at least"
        )));
    }
    let setups = vec![
        Setup { sender: Side::Near, messages: 1, bytes, last_bytes: bytes, buffers: 1 };
        channels as usize
    ];
    let mut works = Clockwork::new(parameters);
    for _ in 0..chips {
        works.link(&setups, signal, Termination::MessageCount, [0; 2])?;
    }
    let way_ps = parameters.on_chip(bytes);
    for link in 1..chips as usize {
        for channel in 0..channels {
            works.relay(At { link: link - 1, channel }, At { link, channel }, way_ps);
        }
    }
    works.run()?;
    let start_ps = works.now_ps();
    for channel in 0..channels {
        works.offer(At { link: 0, channel }, way_ps);
    }
    finish(&mut works)?;
    let last =
        works.taken().iter().filter(|taken| taken.at.link == chips as usize - 1).map(|t| t.at_ps).max();
    last.map(|at_ps| at_ps - start_ps).ok_or_else(|| Error::internal("nothing came round the ring"))
}

/// Payload's share of what a wire could carry, while channels of one buffer always have another payload. With both
/// directions, the mean of the two.
pub fn utilisation(
    parameters: &Parameters,
    bytes: u64,
    channels: u32,
    signal: SignalMode,
    directions: Directions,
) -> Result<f64> {
    let ways: &[Side] = match directions {
        Directions::One => &[Side::Near],
        Directions::Both => &[Side::Near, Side::Far],
    };
    let setup = |&sender: &Side| Setup { sender, messages: MESSAGES, bytes, last_bytes: bytes, buffers: 1 };
    let setups: Vec<Setup> =
        ways.iter().flat_map(|way| std::iter::repeat_n(setup(way), channels as usize)).collect();
    if setups.is_empty() {
        return Err(Error::argument("no channel carries nothing; take one at least"));
    }
    let mut works = Clockwork::new(parameters);
    let link = works.link(&setups, signal, Termination::MessageCount, [0; 2])?;
    works.run()?;
    for channel in 0..setups.len() as u32 {
        for _ in 0..MESSAGES {
            works.offer(At { link, channel }, 0);
        }
    }
    finish(&mut works)?;
    let shares = ways.iter().map(|&way| {
        let times: Vec<u64> = works
            .taken()
            .iter()
            .filter(|taken| setups[taken.at.channel as usize].sender == way)
            .map(|taken| taken.at_ps)
            .collect();
        // The last quarter too, in which channels run dry.
        let seen = &times[times.len() / 4..times.len() - times.len() / 4];
        let elapsed_ps = seen[seen.len() - 1] - seen[0];
        (seen.len() - 1) as f64 * bytes as f64 / elapsed_ps as f64 / bytes_a_ps(parameters)
    });
    Ok(shares.sum::<f64>() / ways.len() as f64)
}

/// The same for commands alone, one after the other without signals and credits: what the wire and the queue allow.
pub fn streamed(parameters: &Parameters, bytes: u64) -> Result<f64> {
    parameters.check_payload(bytes)?;
    let wire_ps = parameters.wire.serialisation_ps(bytes);
    Ok(bytes as f64 / wire_ps.max(parameters.core.issue_ps) as f64 / bytes_a_ps(parameters))
}

fn bytes_a_ps(parameters: &Parameters) -> f64 {
    parameters.wire.rate as f64 * 1e-12
}

fn finish(works: &mut Clockwork<'_>) -> Result<()> {
    works.run()?;
    match works.is_finished() {
        true => Ok(()),
        false => Err(Error::internal("the data mover did not end")),
    }
}
