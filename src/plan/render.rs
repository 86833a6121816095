//! Plans for people and for programs: who folds, keeps and sends what, level by level.
//!
//! ```text
//!     level  rank  folds     keeps  sends to  chunk           elements  lane
//!         1     0  own       no     1         block 0 part 0  0..4         0
//!         2     1  r0 + own  no     2         block 0 part 0  0..4         0
//! ```
//!
//! The steps of a level need messages of earlier levels only.

use std::fmt::Write;

use super::RankView;
use super::check::{self, Proof};
use super::link::{Linked, LinkedStep, OperandSource};
use super::{Chunk, Operand, Plan, Step};
use crate::types::Rank;

const LEGEND: &str = "\
level     how many messages in a row a step has to wait for, itself included
folds     what is combined, left to right: own is the rank's input, r3 what rank 3 sent; in switch: by the switch between
          the ranks, which also copies the result to those that get it
keeps     whether the result goes to the rank's output
sends to  who gets the result: one copy, however many
elements  the chunk's place in its block
";

/// Returns a table of all steps of proven plans, for blocks of `count` elements, with a legend.
pub fn text(plans: &[Plan], proof: &Proof, count: usize) -> String {
    let head = ["level", "rank", "folds", "keeps", "sends to", "chunk", "elements", "lane"];
    let mut table = vec![head.map(String::from)];
    let mut steps: Vec<_> = (0..).zip(plans).flat_map(|(rank, plan)| leveled(rank, plan, proof)).collect();
    // Stable: a rank's own steps stay in the order in which it runs them.
    steps.sort_by_key(|&(level, rank, _)| (level, rank));
    for (level, rank, step) in steps {
        let (start, end) = elements(step.chunk, plans[0].parts, count);
        let peers: Vec<String> = step.to.iter().map(Rank::to_string).collect();
        table.push([
            level.to_string(),
            rank.to_string(),
            folds(step),
            if step.keep { "yes" } else { "no" }.into(),
            if peers.is_empty() { "-".into() } else { peers.join(",") },
            step.chunk.to_string(),
            format!("{start}..{end}"),
            step.lane.to_string(),
        ]);
    }
    let mut out = title(plans, proof, count);
    out.push('\n');
    write_table(&table, &mut out);
    out.push('\n');
    out.push_str(LEGEND);
    out
}

const LINKED_LEGEND: &str = "\
level     waves after a slice has entered until the step runs; within a wave higher levels run first
folds     what is combined, left to right: own is the rank's input, r3 what rank 3 sent
keeps     whether the result goes to the rank's output
read by   who gets the result: one copy, however many
elements  the chunk's place in its block
";

/// A table of one rank's linked program in the order in which a wave runs it, for blocks of `count` elements, with a legend.
pub fn linked(view: &RankView, linked: &Linked, count: usize) -> String {
    let mut table = vec![["level", "folds", "keeps", "read by", "chunk", "elements"].map(String::from)];
    for LinkedStep { chunk, keep, level, operands, readers, .. } in &linked.steps {
        let (start, end) = elements(*chunk, linked.parts, count);
        let fold: Vec<String> = operands
            .iter()
            .map(|source| match source {
                OperandSource::Own => "own".into(),
                OperandSource::From { place, .. } => format!("r{}", place.rank),
            })
            .collect();
        let readers: Vec<String> = readers.iter().map(|reader| reader.place.rank.to_string()).collect();
        table.push([
            level.to_string(),
            fold.join(" + "),
            if keep.is_some() { "yes" } else { "no" }.into(),
            if readers.is_empty() { "-".into() } else { readers.join(",") },
            chunk.to_string(),
            format!("{start}..{end}"),
        ]);
    }
    let (n, parts, rank) = (view.nranks, linked.parts, view.rank);
    let root = if view.collective.rooted() { format!(", root {}", view.root) } else { String::new() };
    let mut out = format!(
        "{} over {n} {}{root}: blocks of {count} elements in {parts} {}\n\
         rank {rank} alone: {} {}; of all ranks: {} levels, at most {} {} on a rank, {} deep\n\n",
        view.collective,
        plural(n, "rank"),
        plural(parts, "part"),
        linked.steps.len(),
        plural(linked.steps.len() as u32, "step"),
        linked.levels,
        linked.slots,
        plural(linked.slots, "slot"),
        linked.depth,
    );
    write_table(&table, &mut out);
    out.push('\n');
    out.push_str(LINKED_LEGEND);
    out
}

/// Proven plans for programs. One object:
///
/// | key | value |
/// |---|---|
/// | `collective`, `ranks`, `root`, `count` | the call |
/// | `parts` | parts that each block is divided into |
/// | `depth` | the longest chain of messages |
/// | `programs` | one object a rank: `rank`, its cost (`sends`, `chunks_sent`, `combines`) and `steps` |
///
/// and each step, in the order in which the rank runs it:
///
/// | key | value |
/// |---|---|
/// | `level` | as in the table of [`text`] |
/// | `block`, `part`, `start`, `end` | the chunk, and its elements within the block |
/// | `lane` | the lane |
/// | `fold` | ranks, left to right; the rank itself stands for its own input |
/// | `keep` | whether the result goes to the output |
/// | `to` | the ranks that get the result |
/// | `in_switch` | whether a switch between the ranks combines and copies |
pub fn json(plans: &[Plan], proof: &Proof, count: usize) -> String {
    let programs = (0..).zip(plans).map(|(rank, plan)| program(rank, plan, proof, count));
    let (collective, ranks, root) = (proof.collective, plans.len(), proof.root);
    let check::Cost { parts, depth, .. } = proof.costs[0];
    let call = format!(r#""collective":"{collective}","ranks":{ranks},"root":{root},"count":{count}"#);
    let shape = format!(r#""parts":{parts},"depth":{depth}"#);
    format!(r#"{{{call},{shape},"programs":{}}}"#, array(programs)) + "\n"
}

fn program(rank: Rank, plan: &Plan, proof: &Proof, count: usize) -> String {
    let check::Cost { sends, chunks_sent, combines, .. } = proof.costs[rank as usize];
    let steps = leveled(rank, plan, proof).map(|(level, _, step)| {
        let Step { chunk: Chunk { block, part }, lane, keep, in_switch, .. } = *step;
        let (start, end) = elements(step.chunk, plan.parts, count);
        let fold = array(step.operands.iter().map(|operand| match *operand {
            Operand::Own => rank,
            Operand::From(from) => from,
        }));
        let to = array(&step.to);
        let place = format!(r#""block":{block},"part":{part},"start":{start},"end":{end},"lane":{lane}"#);
        format!(
            r#"{{"level":{level},{place},"fold":{fold},"keep":{keep},"to":{to},"in_switch":{in_switch}}}"#
        )
    });
    let cost = format!(r#""sends":{sends},"chunks_sent":{chunks_sent},"combines":{combines}"#);
    format!(r#"{{"rank":{rank},{cost},"steps":{}}}"#, array(steps))
}

fn array(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// Returns a rank's steps with the level at which each can be done.
fn leveled<'a>(
    rank: Rank,
    plan: &'a Plan,
    proof: &'a Proof,
) -> impl Iterator<Item = (u32, Rank, &'a Step)> + 'a {
    // The proof counts a step's own message; a step without one is done in the level after its arrivals all the same.
    let shown = |level: u32, step: &Step| level + step.to.is_empty() as u32;
    let levels = &proof.levels[rank as usize];
    plan.steps.iter().zip(levels).map(move |(step, &level)| (shown(level, step), rank, step))
}

/// Returns the chunk's elements within a block of `count`.
fn elements(chunk: Chunk, parts: u32, count: usize) -> (usize, usize) {
    let size = count.div_ceil(parts as usize);
    let start = (chunk.part as usize * size).min(count);
    (start, (start + size).min(count))
}

/// Returns what a step combines, with a mark if a switch helps.
fn folds(step: &Step) -> String {
    let fold = step.operands.iter().map(operand).collect::<Vec<_>>().join(" + ");
    if step.in_switch { fold + " (in switch)" } else { fold }
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Own => "own".into(),
        Operand::From(rank) => format!("r{rank}"),
    }
}

fn title(plans: &[Plan], proof: &Proof, count: usize) -> String {
    let most = |what: fn(&check::Cost) -> u32| proof.costs.iter().map(what).max().unwrap_or(0);
    let (parts, n) = (plans[0].parts, plans.len());
    let root = if proof.collective.rooted() { format!(", root {}", proof.root) } else { String::new() };
    format!(
        "{} over {n} {}{root}: blocks of {count} elements in {parts} {}\n\
         most for one rank: sends {}, chunks sent {}, combines {}; messages in a row: {}\n",
        proof.collective,
        plural(n as u32, "rank"),
        plural(parts, "part"),
        most(|c| c.sends),
        most(|c| c.chunks_sent),
        most(|c| c.combines),
        most(|c| c.depth),
    )
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { noun.into() } else { format!("{noun}s") }
}

/// Columns as wide as their widest cell, numbers on the right.
fn write_table<const N: usize>(table: &[[String; N]], out: &mut String) {
    let widths: [usize; N] = std::array::from_fn(|i| table.iter().map(|row| row[i].len()).max().unwrap_or(0));
    let numeric: [bool; N] =
        std::array::from_fn(|i| table[1..].iter().all(|row| row[i].bytes().all(|b| b.is_ascii_digit())));
    for row in table {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(widths).zip(numeric) {
            let written =
                if right { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
            written.expect("a String takes everything");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
