//! The trace of a record: every call is a node, every gap between calls of a thread is one of computing.
//!
//! ```text
//!     thread   gap ---> all_reduce ---> gap --------------> (synchronize) ---> gap        a node comes after its thread's last one,
//!                                          \                 /                            one on a stream after the stream's last
//!     stream                                all_gather ------                             one as well
//! ```

use std::collections::{BTreeMap, HashMap};

use super::GapTime;
use super::log::{ProcessRecord, What};
use super::one_sided;
use super::words::{self, WordWaits};
use crate::workload::chakra::schema::{self, AttributeValue, IoInfo, TraceNode};

/// The ranks of a communicator, and which of those with the same ranks it is.
pub(super) type GroupKey = (Vec<u32>, usize);

/// The name of a group in the trace, and its ranks.
type NamedGroup = (String, Vec<u32>);

/// Returns the trace of each rank. `Err` says why the records do not belong together.
pub fn traces(records: &[ProcessRecord], time: GapTime) -> Result<Vec<Vec<TraceNode>>, String> {
    let ranks = world(records)?;
    let of_pid: HashMap<u32, u32> = ranks.iter().zip(0..).map(|(record, rank)| (record.pid, rank)).collect();
    let mut keys: Vec<HashMap<u64, GroupKey>> = Vec::new();
    let mut names: BTreeMap<GroupKey, String> = BTreeMap::new();
    // Of communicators with the same ranks, in the order of the first of these ranks.
    let mut numbers: HashMap<_, usize> = HashMap::new();
    let mut unused: HashMap<Vec<u32>, usize> = HashMap::new();
    for record in &ranks {
        let mut known: HashMap<_, usize> = HashMap::new();
        let mut of_comm = HashMap::new();
        for comm in &record.order {
            let members = record.comms[comm].iter().map(|pid| {
                of_pid.get(pid).copied().ok_or_else(|| {
                    format!("process {pid} is a rank of a communicator and has recorded no call; every rank must make calls")
                })
            });
            let members = members.collect::<Result<Vec<u32>, _>>()?;
            // One that all ranks have left may have lent its identity to a later one.
            let identity = record.identities.get(comm).copied();
            let again = known.entry((members.clone(), identity)).and_modify(|again| *again += 1).or_insert(0);
            let number = *numbers.entry((members.clone(), identity, *again)).or_insert_with(|| {
                let unused = unused.entry(members.clone()).or_default();
                *unused += 1;
                *unused - 1
            });
            names.insert((members.clone(), number), String::new());
            of_comm.insert(*comm, (members, number));
        }
        keys.push(of_comm);
    }
    // Group 0 of a trace is of all ranks.
    let all: Vec<u32> = (0..ranks.len() as u32).collect();
    let mut next = 1;
    for (key, name) in &mut names {
        *name = if *key == (all.clone(), 0) { "0".to_owned() } else { next.to_string() };
        next += u32::from(name != "0");
    }
    let groups: Vec<String> = names
        .iter()
        .filter(|(_, name)| *name != "0")
        .map(|((ranks, _), name)| format!("{{\"pg_name\": \"{name}\", \"ranks\": {ranks:?}}}"))
        .collect();
    let metadata = TraceNode {
        id: 0,
        name: "process groups".to_owned(),
        kind: schema::METADATA,
        inputs: Some(IoInfo { values: format!("['[{}]']", groups.join(", ")), ..IoInfo::default() }),
        ..TraceNode::default()
    };
    let begin_ns =
        ranks.iter().filter_map(|record| record.calls.first()).map(|call| call.begin_ns).min().unwrap_or(0);
    let words = words::waits(&ranks, &keys, &names)?;
    let trace = |(rank, (record, keys)): (u32, (&&ProcessRecord, &HashMap<u64, GroupKey>))| {
        let group = |comm: &u64| {
            let key = keys.get(comm).ok_or("a recorded call names a communicator without ranks")?;
            Ok((names[key].clone(), key.0.clone()))
        };
        let mut writer = Writer { nodes: vec![metadata.clone()], time, begin_ns, ..Writer::default() };
        writer.record(record, rank, &words, &group)?;
        Ok(writer.nodes)
    };
    (0..).zip(ranks.iter().zip(&keys)).map(trace).collect()
}

/// The processes by rank: the ranks of the largest communicator.
fn world(records: &[ProcessRecord]) -> Result<Vec<&ProcessRecord>, String> {
    if records.is_empty() {
        return Err("the program has made no call of Penny that is recorded; is it linked with Penny, and with this version of it?"
            .to_owned());
    }
    let largest = records.iter().flat_map(|record| record.comms.values()).max_by_key(|pids| pids.len());
    let order: Vec<u32> = largest.cloned().unwrap_or_default();
    if let Some(other) = records.iter().find(|record| !order.contains(&record.pid)) {
        return Err(format!(
            "process {} is in no communicator with all the others; record a program whose ranks have one communicator in common, and \
             use it",
            other.pid
        ));
    }
    order
        .iter()
        .map(|pid| {
            records.iter().find(|record| record.pid == *pid).ok_or_else(|| {
                format!("process {pid} is a rank of a communicator and has recorded no call; every rank must make calls")
            })
        })
        .collect()
}

#[derive(Default)]
struct Writer {
    nodes: Vec<TraceNode>,
    time: GapTime,
    begin_ns: u64,
    /// What comes next in a thread or on a stream, or waits for an event, comes after these.
    threads: HashMap<u64, Vec<u64>>,
    streams: HashMap<u64, Vec<u64>>,
    events: HashMap<u64, Vec<u64>>,
}

impl Writer {
    fn record(
        &mut self,
        record: &ProcessRecord,
        rank: u32,
        words: &WordWaits,
        group: &dyn Fn(&u64) -> Result<NamedGroup, &'static str>,
    ) -> Result<(), String> {
        let mut work = record.work.iter().peekable();
        let mut first = None;
        let mut received = one_sided::Received::default();
        for (at, call) in record.calls.iter().enumerate() {
            let thread = call.thread;
            let begun_by: u64 = *first.get_or_insert(thread);
            if !self.threads.contains_key(&thread) {
                // A thread that comes later was begun by somebody: nobody says by whom, so by the first.
                let after = self.threads.get(&begun_by).cloned().unwrap_or_default();
                self.threads.insert(thread, after);
            }
            let (mut flops, mut bytes) = (0u64, 0u64);
            while let Some(line) = work.next_if(|line| line.at_ns <= call.begin_ns) {
                flops = flops.saturating_add(line.flops);
                bytes = bytes.saturating_add(line.bytes);
            }
            let gap_ns = if self.time == GapTime::Core { call.gap_core_ns } else { call.gap_ns };
            if let Some(gap_ns) = gap_ns.filter(|&gap_ns| gap_ns > 0) {
                // Operators are counted in the thread that begins the program.
                let counted = (!record.work.is_empty() && thread == begun_by).then_some([flops, bytes]);
                self.gap(thread, gap_ns, call.begin_ns - call.gap_ns.unwrap_or(0), counted);
            }
            let mut made: Vec<(u64, u64)> = Vec::new();
            // As a group makes them: puts one after the other, then calls side by side, then waits.
            let mut last_put: HashMap<u64, u64> = HashMap::new();
            let mut parts: Vec<(usize, &What)> = call.what.iter().enumerate().collect();
            parts.sort_by_key(|(_, what)| what.turn());
            for (part, what) in parts {
                let (stream, node) = match what {
                    What::Synchronize { synchronize } => {
                        let last = self.streams.get(synchronize).cloned().unwrap_or_default();
                        join(self.threads.entry(thread).or_default(), &last);
                        continue;
                    }
                    What::Event { event, stream } => {
                        let line =
                            if *stream == 0 { self.threads.get(&thread) } else { self.streams.get(stream) };
                        self.events.insert(*event, line.cloned().unwrap_or_default());
                        continue;
                    }
                    What::Await { r#await, stream } => {
                        let event = self.events.get(r#await).cloned().unwrap_or_default();
                        let line = if *stream == 0 {
                            self.threads.entry(thread)
                        } else {
                            self.streams.entry(*stream)
                        };
                        join(line.or_default(), &event);
                        continue;
                    }
                    What::Call { call, comm, block, root, stream } => {
                        (*stream, collective(call, *block, *root, group(comm)?)?)
                    }
                    What::Send { send, comm, bytes, stream } => {
                        (*stream, message(true, *send, *bytes, group(comm)?)?)
                    }
                    What::Recv { recv, comm, bytes, stream } => {
                        (*stream, message(false, *recv, *bytes, group(comm)?)?)
                    }
                    What::Put(put) => (put.stream, one_sided::put(put, rank, words, &group(&put.comm)?)?),
                    What::Wait { wait, count, comm, stream, slot } => {
                        slot.iter().for_each(|&slot| received.take(*comm, wait, slot));
                        (*stream, one_sided::wait(wait, *count, &group(comm)?.0))
                    }
                    What::Free { free, counter, slot, comm } => {
                        let name = group(comm)?.0;
                        match received.free(*comm, (free, counter), *slot, &name) {
                            Some(node) => (0, node),
                            None => continue,
                        }
                    }
                    What::Word(wait) => {
                        let count = words.count(rank, at, part);
                        (0, one_sided::wait(&words::counter(wait.word), count, &group(&wait.comm)?.0))
                    }
                };
                let mut after = self.threads.get(&thread).cloned().unwrap_or_default();
                if stream != 0 {
                    join(&mut after, self.streams.get(&stream).map_or(&[][..], Vec::as_slice));
                }
                match what.turn() {
                    0 | 1 => join(&mut after, last_put.get(&stream).map_or(&[], std::slice::from_ref)),
                    _ => {
                        let before = made.iter().filter(|(on, _)| *on == stream).map(|(_, id)| *id);
                        join(&mut after, &before.collect::<Vec<_>>());
                    }
                }
                let id = self.push(node, after, call.begin_ns, call.end_ns - call.begin_ns);
                made.push((stream, id));
                if what.turn() == 0 {
                    last_put.insert(stream, id);
                }
            }
            // What follows comes after all of them.
            for stream in made.iter().map(|(stream, _)| *stream).collect::<std::collections::BTreeSet<_>>() {
                let ids = made.iter().filter(|(on, _)| *on == stream).map(|(_, id)| *id).collect();
                if stream == 0 {
                    self.threads.insert(thread, ids)
                } else {
                    self.streams.insert(stream, ids)
                };
            }
        }
        Ok(())
    }

    /// Computing before a call. `counted`: what its operators computed and moved, be it nothing.
    fn gap(&mut self, thread: u64, gap_ns: u64, begin_ns: u64, counted: Option<[u64; 2]>) {
        let mut node =
            TraceNode { name: "compute".to_owned(), kind: schema::COMPUTE, ..TraceNode::default() };
        let number = |number: u64| AttributeValue::Int64(i64::try_from(number).unwrap_or(i64::MAX));
        node.set("duration_ns", number(gap_ns));
        if let Some([flops, bytes]) = counted {
            node.set("num_ops", number(flops));
            node.set("tensor_size", number(bytes));
            node.set("work_counted", AttributeValue::Bool(true));
        }
        let after = self.threads.get(&thread).cloned().unwrap_or_default();
        let id = self.push(node, after, begin_ns, gap_ns);
        self.threads.insert(thread, vec![id]);
    }

    fn push(&mut self, mut node: TraceNode, after: Vec<u64>, begin_ns: u64, ns: u64) -> u64 {
        let id = self.nodes.len() as u64;
        node.id = id;
        node.data_deps = after;
        node.start_time_micros = begin_ns.saturating_sub(self.begin_ns) / 1000;
        node.duration_micros = ns / 1000;
        node.set("is_cpu_op", AttributeValue::Bool(false));
        self.nodes.push(node);
        id
    }
}

/// Adds nodes that are not there.
fn join(line: &mut Vec<u64>, others: &[u64]) {
    line.extend(others);
    line.sort_unstable();
    line.dedup();
}

/// The collectives as Chakra numbers them.
const TYPES: [&str; 10] = [
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "alltoall",
    "reduce_scatter",
    "",
    "barrier",
];

fn collective(
    name: &str,
    block: u64,
    root: u32,
    (group, ranks): (String, Vec<u32>),
) -> Result<TraceNode, String> {
    let number = TYPES.iter().position(|known| *known == name);
    let number =
        number.ok_or_else(|| format!("the record names a collective {name}, which is not known here"))?;
    // The bytes of a rank's input.
    let blocks =
        if ["scatter", "alltoall", "reduce_scatter"].contains(&name) { ranks.len() as u64 } else { 1 };
    let mut node = TraceNode { name: name.to_owned(), kind: schema::COLLECTIVE, ..TraceNode::default() };
    let bytes = i64::try_from(block.saturating_mul(blocks)).unwrap_or(i64::MAX);
    node.set("comm_type", AttributeValue::Int64(number as i64));
    node.set("comm_size", AttributeValue::Int64(bytes));
    node.set("pg_name", AttributeValue::Text(group));
    if ["reduce", "broadcast", "gather", "scatter"].contains(&name) {
        node.set("root", AttributeValue::Int64(root.into()));
    }
    Ok(node)
}

fn message(
    is_send: bool,
    peer: u32,
    bytes: u64,
    (group, ranks): (String, Vec<u32>),
) -> Result<TraceNode, String> {
    let peer = *ranks
        .get(peer as usize)
        .ok_or_else(|| format!("the record names rank {peer} of {}", ranks.len()))?;
    let (name, kind, key) = match is_send {
        true => ("send", schema::SEND, "comm_dst"),
        false => ("recv", schema::RECV, "comm_src"),
    };
    let mut node = TraceNode { name: name.to_owned(), kind, ..TraceNode::default() };
    node.set(key, AttributeValue::Int32(peer as i32));
    node.set("comm_size", AttributeValue::Int64(i64::try_from(bytes).unwrap_or(i64::MAX)));
    // Messages of different communicators do not match.
    node.set("comm_tag", AttributeValue::Int32(group.parse().unwrap_or(0)));
    Ok(node)
}
