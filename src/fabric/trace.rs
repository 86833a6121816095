//! What happened at the ports, as a timeline for Chrome's viewer and Perfetto.
//!
//! ```text
//!     rank 3    n0.g3.nic.tx    |- step 0 slice 0 -|               |- step 2 slice 0 -|
//!               leaf0.up        |- step 0 slice 0 -|                    |- step 2 slice 0 -|
//!     ports     leaf0.up        |- rank 3 step 0 slice 0 -|- rank 5 step 1 slice 0 -|
//! ```
//!
//! A timeline of millions of spans is more than a viewer takes; trace calls of few ranks.

use crate::json::quoted;
use crate::topology::{Network, PortId};
use crate::types::Rank;
use std::fmt::Write;

/// A message's stay at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the call, counted from 0.
    pub call: u64,
    /// The place that sent it.
    pub place: Rank,
    /// The port at which it is.
    pub port: PortId,
    /// The step of the sender's program.
    pub step: u32,
    /// The slice of the step's chunk.
    pub slice: u32,
    /// The port is taken from here
    pub start_ps: u64,
    /// until here.
    pub end_ps: u64,
    /// Payload.
    pub bytes: u64,
}

/// The group of the ports' tracks; rank r's is r + 1.
const PORTS: u32 = 0;

/// The spans as a JSON object of trace events, times in microseconds: a group of tracks a rank (named by its place), one for each port that
/// its messages used, and one group with a track a port. A port serves one message at a time, so no two spans of a
/// track overlap.
pub fn perfetto(spans: &[Span], network: &Network) -> String {
    let port_name = |port: PortId| quoted(&network.ports[port as usize].name);
    let mut tracks: Vec<(Rank, PortId)> = spans.iter().map(|span| (span.place, span.port)).collect();
    tracks.sort_unstable();
    tracks.dedup();
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    name(&mut out, "process_name", PORTS, 0, "\"ports\"");
    for group in tracks.chunk_by(|a, b| a.0 == b.0) {
        let rank = group[0].0;
        out.push_str(",\n");
        name(&mut out, "process_name", rank + 1, 0, &format!("\"rank {rank}\""));
    }
    for &(rank, port) in &tracks {
        out.push_str(",\n");
        name(&mut out, "thread_name", rank + 1, port, &port_name(port));
    }
    let mut ports: Vec<PortId> = tracks.iter().map(|&(_, port)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        out.push_str(",\n");
        name(&mut out, "thread_name", PORTS, port, &port_name(port));
    }
    for span in spans {
        let Span { place: rank, step, slice, .. } = *span;
        stay(&mut out, rank + 1, &format!("\"step {step} slice {slice}\""), span);
        stay(&mut out, PORTS, &format!("\"rank {rank} step {step} slice {slice}\""), span);
    }
    out.push_str("\n]}\n");
    out
}

/// Name a group or a track; `name` is quoted.
fn name(out: &mut String, what: &str, pid: u32, tid: u32, name: &str) {
    put(
        out,
        format_args!(r#"{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{{"name":{name}}}}}"#),
    );
}

/// One span; `name` is quoted.
fn stay(out: &mut String, pid: u32, name: &str, span: &Span) {
    let (start, time) = (micros(span.start_ps), micros(span.end_ps - span.start_ps));
    let Span { port, bytes, .. } = span;
    put(
        out,
        format_args!(
            ",\n{{\"ph\":\"X\",\"name\":{name},\"pid\":{pid},\"tid\":{port},\"ts\":{start},\"dur\":{time},\
             \"args\":{{\"bytes\":{bytes}}}}}"
        ),
    );
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}

/// Exact, which a float would not be.
fn micros(ps: u64) -> String {
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}
