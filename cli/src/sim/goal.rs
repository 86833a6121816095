//! Writes a call as a GOAL schedule, so that LogGOPSim can simulate the same call.
//!
//! ```text
//!     step 4 of rank 1: fold own, from 0; pass on to 2         rank 1 {
//!                                                              r4_0_0: recv 1024b from 0 tag 2
//!     labels: kind, step, slice, which of its kind             s4_0_0: send 1024b to 2 tag 1
//!                                                              s4_0_0 requires r4_0_0
//!                                                              }
//! ```
//!
//! - The tag is the message's number among those from its sender to its receiver: the order by which plans match.
//! - A send requires the receives of its step, and the slice before it. Folding and copying take no time, as on the fabric.
//! - Lanes are left out: `nic` in a schedule is a resource of LogGOPSim's model, while a lane of Penny is a path.
//!
//! The form: Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language" (ICPP 2009); LogGOPSim's `txt2bin`.

use std::collections::HashMap;
use std::fmt::Write;

use penny::sim::fabric::PricedCall;
use penny::sim::plan::{Operand, Step};

/// The schedule of a call. `Err`: a message has more bytes, or a pair has more messages, than the form can count.
pub fn schedule(call: &PricedCall<'_>) -> Result<String, String> {
    let mut text = format!("num_ranks {}\n", call.plans.len());
    for (rank, plan) in call.plans.iter().enumerate() {
        let _ = writeln!(text, "\nrank {rank} {{");
        let mut tags = Tags::default();
        for (index, step) in plan.steps.iter().enumerate() {
            let bytes = chunk_bytes(call, plan.parts, step);
            write_step(&mut text, index, step, &slices(bytes, call.slice_bytes), &mut tags)?;
        }
        text += "}\n";
    }
    Ok(text)
}

/// Messages so far: to a peer, and from a peer.
#[derive(Default)]
struct Tags {
    sent: HashMap<u32, u32>,
    taken: HashMap<u32, u32>,
}

fn next(tags: &mut HashMap<u32, u32>, peer: u32) -> Result<u32, String> {
    let tag = tags.entry(peer).or_insert(0);
    let now = *tag;
    *tag = now.checked_add(1).ok_or("--goal: more messages between two ranks than GOAL has tags")?;
    Ok(now)
}

fn write_step(
    text: &mut String,
    index: usize,
    step: &Step,
    slices: &[u64],
    tags: &mut Tags,
) -> Result<(), String> {
    let peers: Vec<u32> = step
        .operands
        .iter()
        .filter_map(|operand| match operand {
            Operand::From(peer) => Some(*peer),
            Operand::Own => None,
        })
        .collect();
    for (slice, bytes) in slices.iter().enumerate() {
        for (k, &peer) in peers.iter().enumerate() {
            let tag = next(&mut tags.taken, peer)?;
            let _ = writeln!(text, "r{index}_{slice}_{k}: recv {bytes}b from {peer} tag {tag}");
        }
        for (k, &peer) in step.to.iter().enumerate() {
            let tag = next(&mut tags.sent, peer)?;
            let _ = writeln!(text, "s{index}_{slice}_{k}: send {bytes}b to {peer} tag {tag}");
            for operand in 0..peers.len() {
                let _ = writeln!(text, "s{index}_{slice}_{k} requires r{index}_{slice}_{operand}");
            }
            if slice > 0 {
                let _ = writeln!(text, "s{index}_{slice}_{k} irequires s{index}_{}_{k}", slice - 1);
            }
        }
    }
    Ok(())
}

/// Returns the bytes of a step's chunk. The last parts of a block may be shorter, or empty.
fn chunk_bytes(call: &PricedCall<'_>, parts: u32, step: &Step) -> u64 {
    let part = call.count.div_ceil(u64::from(parts.max(1)));
    let begin = (part * u64::from(step.chunk.part)).min(call.count);
    part.min(call.count - begin) * call.size
}

/// The bytes of each slice.
fn slices(bytes: u64, slice: u64) -> Vec<u64> {
    if slice == 0 || bytes <= slice {
        return vec![bytes];
    }
    let whole = std::iter::repeat_n(slice, (bytes / slice) as usize);
    whole.chain((!bytes.is_multiple_of(slice)).then_some(bytes % slice)).collect()
}

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
