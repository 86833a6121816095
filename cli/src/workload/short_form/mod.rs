//! The short form of a workload, in TOML.
//!
//! ```toml
//! name = "a layer, tensor and data parallel"
//! ranks = 16
//! steps = 3                               # the list is done three times; left out: once
//! slots = 8                               # messages that fit in a mailbox: others wait until one is freed; left out: any number
//! [group.tp]                              # groups of 8 ranks one after the other: 0..8, 8..16
//! size = 8
//! [group.dp]                              # groups of 2 ranks that are 8 apart: 0 and 8, 1 and 9, ...
//! size = 2
//! stride = 8
//! [group.ends]                            # or lists of ranks
//! ranks = [[0, 15]]
//! [[node]]
//! name = "forward"
//! compute = "3ms"                         # a time, or flops = "1.5TFLOP" and bytes = "2GB", or all three
//! [[node]]
//! all_reduce = "64MiB"                    # the whole buffer, as for `penny sim`; also the other collectives; barrier = true
//! group = "tp"                            # left out: all ranks. root = 0: a place in the group
//! [[node]]
//! name = "gradients"
//! all_reduce = "1GB"
//! group = "dp"
//! stream = "side"                         # left out: "main". A stream's nodes are done one after the other
//! after = ["forward"]                     # the latest nodes of these names; left out on another stream: the latest of main
//! [[node]]
//! repeat = 32                             # nodes that are done several times
//! nodes = [
//!   { compute = "1ms" },                  # host = "1ms" is work beside the device
//!   { send = "4MB", to = "+1" },          # a rank, or an offset from the own rank; ranks without such a peer leave the node out
//!   { recv = "4MB", from = "-1" },        # tag = 0
//!   { put = "4MB", to = "+1", signal = "halo" },   # to its memory, and then a signal; either may be left out. count = 1
//!   { wait = "halo", ranks = [1] },       # until a signal of anybody has come to the rank, which is taken off. count = 1
//!   { get = "4MB", from = 0, ranks = [3] },
//!   { mail = "64B", to = "+1", threads = [0, 5], ranks = [0] },   # a message to threads of its mailbox
//!   { receive = 5, ranks = [1] },         # thread 5 takes its next message, and frees it at once
//!   { receive = 0, keep = true, ranks = [1] },     # keeps it; the slot is free when all threads have freed the message
//!   { free = 0, ranks = [1] },            # frees the oldest that it keeps
//! ]
//! [[node]]
//! name = "optimiser"
//! compute = "2ms"
//! after = ["gradients"]                   # main goes on when the side stream has come so far
//! ranks = [0, 1]                          # only these
//! ```
//!
//! A step begins at a rank when all of its streams have come to the end of the step before.

mod families;
mod fields;
mod kinds;

use std::collections::{HashMap, VecDeque};

use penny::Rank;
use toml_edit::{Document, Item, TableLike, Value};

use super::amounts;
use super::program::{
    CounterNames, Free, Group, GroupCall, Message, Node, Put, RankProgram, Signal, WORD, Work, Workload,
};
use families::{Family, families};
use fields::{Field, Section, Source};
use kinds::{Kind, kind, mailbox_counter};

/// Ranks and nodes, at most: a mistyped number is refused before memory runs out.
const MOST_RANKS: u64 = 1 << 20;
const MOST_NODES: usize = 1 << 24;

/// Reads a workload from its text; `file` is for sentences.
pub fn read(file: &str, text: &str) -> Result<Workload, String> {
    let source = Source { file, text };
    let document = Document::parse(text).map_err(|why| {
        let what = why.message().replace('\n', ", ");
        source.error(
            why.span().map_or(0, |span| span.start),
            &format!("{what}; see https://toml.io for the form"),
        )
    })?;
    let root = Section { source, at: 0, name: "the file".to_owned(), table: document.as_table() };
    root.knows(&["name", "ranks", "steps", "slots", "group", "node"])?;
    let name = root.get("name").map_or(Ok(file.to_owned()), |field| field.text().map(str::to_owned))?;
    let ranks = root.need("ranks", "16")?.number(1..=MOST_RANKS)? as u32;
    let steps = root.get("steps").map_or(Ok(1), |field| field.number(1..=MOST_RANKS))? as u32;
    let slots = root.get("slots").map(|field| field.number(1..=MOST_RANKS)).transpose()?;
    let families = families(&root, ranks)?;
    let nodes = root.need("node", "a list of [[node]]")?;
    let list = listed(&nodes)?;
    if visits(&list)?.saturating_mul(u64::from(steps)) > MOST_NODES as u64 {
        return Err(nodes.error(&too_many()));
    }
    let mut writer = Writer {
        families,
        groups: Vec::new(),
        index: HashMap::new(),
        counters: CounterNames::default(),
        slots: None,
        received: HashMap::new(),
        programs: vec![RankProgram { file: file.to_owned(), nodes: Vec::new() }; ranks as usize],
        places: vec![StreamPlaces::default(); ranks as usize],
        step: 0,
        nodes: 0,
    };
    writer.slots = slots.map(|_| writer.counters.number("free slots of the mailbox"));
    for step in 0..steps {
        writer.begin(step);
        writer.list(&list)?;
    }
    let of_all = |(counter, count)| (0..ranks).map(move |rank| Signal { rank, counter, count });
    let slots = writer.slots.zip(slots).into_iter().flat_map(of_all).collect();
    let Writer { programs, groups, counters, .. } = writer;
    let counters = counters.names;
    Ok(Workload { name, ranks: programs, groups, counters, slots, steps, remarks: Vec::new() })
}

/// Returns how often nodes are written in a step, each by one rank at least; what is more than a number holds is its largest.
fn visits(nodes: &[Section<'_>]) -> Result<u64, String> {
    nodes.iter().try_fold(0u64, |sum, node| {
        let visits = match node.get("nodes") {
            Some(inner) => repeats(node)?.saturating_mul(visits(&listed(&inner)?)?),
            None => 1,
        };
        Ok(sum.saturating_add(visits))
    })
}

fn repeats(node: &Section<'_>) -> Result<u64, String> {
    node.get("repeat").map_or(Ok(1), |field| field.number(1..=MOST_NODES as u64))
}

fn too_many() -> String {
    format!("more than {MOST_NODES} nodes; take fewer ranks, steps or repeats")
}

/// The sections of the list of nodes.
fn listed<'a>(field: &Field<'a>) -> Result<Vec<Section<'a>>, String> {
    let section = |at: Option<usize>, table: &'a dyn TableLike| Section {
        source: field.source,
        at: at.unwrap_or(field.at),
        name: "the node".to_owned(),
        table,
    };
    match field.item {
        Item::ArrayOfTables(tables) => {
            Ok(tables.iter().map(|table| section(table.span().map(|span| span.start), table)).collect())
        }
        Item::Value(Value::Array(array)) => array
            .iter()
            .map(|value| match value {
                Value::InlineTable(table) => Ok(section(table.span().map(|span| span.start), table)),
                other => {
                    let at = other.span().map_or(field.at, |span| span.start);
                    Err(field.source.error(at, "this is no node; write it like { compute = \"1ms\" }"))
                }
            })
            .collect(),
        _ => Err(field.error("is no list; begin each node with [[node]]")),
    }
}

/// Where a rank is in its streams.
#[derive(Clone, Default)]
struct StreamPlaces {
    /// The last node of each stream.
    last: HashMap<String, u32>,
    /// The latest node of each name.
    named: HashMap<String, u32>,
    /// The end of the step before.
    begin: Option<u32>,
}

struct Writer {
    families: HashMap<String, Family>,
    groups: Vec<Group>,
    /// The index of a family's group in `groups`.
    index: HashMap<(String, usize), u32>,
    counters: CounterNames,
    /// The counter of free slots, if mailboxes have a number of them.
    slots: Option<u32>,
    /// By rank and thread, how many messages it has received, and which of them it keeps.
    received: HashMap<(Rank, u64), (u64, VecDeque<u64>)>,
    programs: Vec<RankProgram>,
    places: Vec<StreamPlaces>,
    step: u32,
    nodes: usize,
}

impl Writer {
    /// Begins a step: every rank's streams come together.
    fn begin(&mut self, step: u32) {
        self.step = step;
        for (program, places) in self.programs.iter_mut().zip(&mut self.places) {
            let mut after: Vec<u32> = places.last.values().copied().collect();
            after.sort_unstable();
            if !after.is_empty() {
                places.begin = Some(program.nodes.len() as u32);
                program.nodes.push(Node {
                    label: format!("the begin of step {step}"),
                    step: step - 1,
                    after,
                    work: Work::Nothing,
                });
            }
            places.last.clear();
            places.named.clear();
        }
    }

    fn list(&mut self, nodes: &[Section<'_>]) -> Result<(), String> {
        for node in nodes {
            if let Some(inner) = node.get("nodes") {
                node.knows(&["repeat", "nodes"])?;
                let inner = listed(&inner)?;
                for _ in 0..repeats(node)? {
                    self.list(&inner)?;
                }
                continue;
            }
            self.node(node)?;
        }
        Ok(())
    }

    fn node(&mut self, section: &Section<'_>) -> Result<(), String> {
        let kind = kind(section)?;
        let stream = section.get("stream").map_or(Ok("main"), |field| field.text())?;
        let name = section.get("name").map_or(Ok(None), |field| field.text().map(Some))?;
        let after = section.get("after").map(|field| field.names()).transpose()?;
        let only = section.get("ranks").map(|field| field.ranks(self.programs.len() as u32)).transpose()?;
        for name in after.iter().flatten() {
            if !self.places.iter().any(|places| places.named.contains_key(name)) {
                return Err(section.error(&format!(
                    "after names `{name}`, and no node before it in the step has that name; give one the name, or take it out"
                )));
            }
        }
        let line = section.source.line(section.at);
        let label =
            name.map_or(format!("the node of line {line}"), |name| format!("node {name:?} of line {line}"));
        for rank in 0..self.programs.len() as u32 {
            if only.as_ref().is_some_and(|only| !only.contains(&rank)) {
                continue;
            }
            for work in self.work(section, &kind, rank)? {
                let places = &self.places[rank as usize];
                let mut before: Vec<u32> = match &after {
                    Some(names) => names.iter().filter_map(|name| places.named.get(name)).copied().collect(),
                    None => places.last.get("main").copied().into_iter().collect(),
                };
                before.extend(places.last.get(stream));
                before.extend(places.begin);
                before.sort_unstable();
                before.dedup();
                let node = Node { label: label.clone(), step: self.step, after: before, work };
                self.push(rank, node, stream, name, section)?;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        rank: Rank,
        node: Node,
        stream: &str,
        name: Option<&str>,
        section: &Section<'_>,
    ) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(section.error(&too_many()));
        }
        let nodes = &mut self.programs[rank as usize].nodes;
        let index = nodes.len() as u32;
        nodes.push(node);
        let places = &mut self.places[rank as usize];
        places.last.insert(stream.to_owned(), index);
        if let Some(name) = name {
            places.named.insert(name.to_owned(), index);
        }
        Ok(())
    }

    /// Returns what a rank does at a node, one after the other; nothing: it leaves the node out.
    fn work(&mut self, section: &Section<'_>, kind: &Kind, rank: Rank) -> Result<Vec<Work>, String> {
        let ranks = self.programs.len() as u32;
        match *kind {
            Kind::Compute(interval) => Ok(vec![Work::Compute(interval)]),
            Kind::Host(time_ps) => Ok(vec![Work::Host(time_ps)]),
            Kind::Send { bytes, peer, tag } | Kind::Recv { bytes, peer, tag } => {
                let Some(peer) = peer.of(rank, ranks) else { return Ok(Vec::new()) };
                let message = Message { peer, bytes, tag };
                let is_send = matches!(kind, Kind::Send { .. });
                Ok(vec![if is_send { Work::Send(message) } else { Work::Recv(message) }])
            }
            Kind::Put { bytes, to, threads, ref signals } => {
                let Some(to) = to.of(rank, ranks) else { return Ok(Vec::new()) };
                let of_threads = (0..64).filter(|thread| threads >> thread & 1 == 1);
                let given = of_threads.map(|thread| (mailbox_counter(thread), 1)).chain(signals.clone());
                let signals = given
                    .map(|(name, count)| Signal { rank: to, counter: self.counters.number(&name), count })
                    .collect();
                let slots = self.slots.filter(|_| threads > 0);
                Ok(vec![Work::Put(Put { from: rank, to: vec![(to, threads)], slots, bytes, signals })])
            }
            Kind::Get { bytes, from } => {
                let Some(from) = from.of(rank, ranks) else { return Ok(Vec::new()) };
                let way = |from, to, bytes| {
                    Work::Put(Put { from, to: vec![(to, 0)], slots: None, bytes, signals: Vec::new() })
                };
                Ok(vec![way(rank, from, WORD), way(from, rank, bytes)])
            }
            Kind::Receive { thread, keeps } => {
                let messages = self.counters.number(&mailbox_counter(thread));
                let (count, kept) = self.received.entry((rank, thread)).or_default();
                let nth = *count;
                *count += 1;
                if keeps {
                    kept.push_back(nth);
                }
                let free =
                    self.slots.filter(|_| !keeps).map(|slots| Work::Free(Free { slots, messages, nth }));
                Ok([Work::Wait { counter: messages, count: 1 }].into_iter().chain(free).collect())
            }
            Kind::Free { thread } => {
                let messages = self.counters.number(&mailbox_counter(thread));
                let kept = self.received.get_mut(&(rank, thread)).and_then(|(_, kept)| kept.pop_front());
                let nth = kept.ok_or_else(|| {
                    section.error(&format!(
                        "thread {thread} of rank {rank} keeps no message to free; write {{ receive = {thread}, keep = true }} before"
                    ))
                })?;
                Ok(self.slots.map(|slots| Work::Free(Free { slots, messages, nth })).into_iter().collect())
            }
            Kind::Wait { ref counter, count } => {
                Ok(vec![Work::Wait { counter: self.counters.number(counter), count }])
            }
            Kind::Call { collective, bytes, root } => {
                let name = section.get("group").map_or(Ok("all"), |field| field.text())?;
                let Some(family) = self.families.get(name) else {
                    let known: Vec<_> = self.families.keys().map(String::as_str).collect();
                    return Err(section.error(&format!(
                        "there is no group `{name}`; declare it by [group.{name}], or take one of {}",
                        known.join(", ")
                    )));
                };
                let Some(&which) = family.of_rank.get(&rank) else { return Ok(Vec::new()) };
                let ranks = &family.groups[which];
                if root as usize >= ranks.len() {
                    return Err(
                        section.error(&format!("root {root} is no place in a group of {}", ranks.len()))
                    );
                }
                let index = *self.index.entry((name.to_owned(), which)).or_insert_with(|| {
                    self.groups.push(Group { name: name.to_owned(), ranks: ranks.clone() });
                    self.groups.len() as u32 - 1
                });
                let block = amounts::block(collective, bytes, ranks.len() as u64);
                Ok(vec![Work::Call(GroupCall { collective, group: index, block, root })])
            }
        }
    }
}
