//! A trace as a workload.

use std::collections::{BTreeMap, BinaryHeap, HashMap};

use penny::{Collective, Rank};
use serde::Deserialize;
use serde_json::Value;

use super::super::amounts;
use super::super::program::{
    CounterNames, Free, Group, GroupCall, Interval, Message, Node, Put, RankProgram, Signal, Work, Workload,
};
use super::files::RankTrace;
use super::schema::{self, AttributeValue, TraceNode};

/// `comm_type`, by number. Reduce-scatters with counts and with blocks are one.
const COLLECTIVES: [Collective; 10] = [
    Collective::AllReduce,
    Collective::Reduce,
    Collective::AllGather,
    Collective::Gather,
    Collective::Scatter,
    Collective::Broadcast,
    Collective::AlltoAll,
    Collective::ReduceScatter,
    Collective::ReduceScatter,
    Collective::Barrier,
];

/// The ranks of groups by their names.
pub type Groups = BTreeMap<String, Vec<Rank>>;

/// Makes the workload of a trace. `groups` are those of a file of its own; a rank's own metadata come before.
pub fn lower(name: &str, traces: &[RankTrace], groups: &Groups) -> Result<Workload, String> {
    let ranks = traces.len() as u32;
    let own: Vec<Groups> = traces
        .iter()
        .map(|(file, nodes)| declared(nodes, ranks).map_err(|why| format!("{file}: {why}")))
        .collect::<Result<_, _>>()?;
    let mut known: Groups = own.iter().rev().flat_map(Groups::clone).chain(groups.clone()).collect();
    known.retain(|_, ranks| !ranks.is_empty());
    let mut lowering = Lowering {
        ranks,
        groups: Vec::new(),
        counters: CounterNames::default(),
        slots: BTreeMap::new(),
        callers: 0,
    };
    let mut programs = Vec::new();
    for (rank, ((file, nodes), own)) in (0..).zip(traces.iter().zip(&own)) {
        let lookup = |name: &str| own.get(name).or_else(|| known.get(name)).cloned();
        let lowered =
            lowering.rank(rank, nodes, &lookup).map_err(|why| format!("{file}: rank {rank}, {why}"))?;
        programs.push(RankProgram { file: file.clone(), nodes: lowered });
    }
    let mut remarks =
        vec![format!("a Chakra trace, {} nodes", programs.iter().map(|p| p.nodes.len()).sum::<usize>())];
    if lowering.callers > 0 {
        remarks.push(format!(
            "{} control dependencies say who called whom; what waits for what is in the data dependencies",
            lowering.callers
        ));
    }
    let steps = programs.iter().flat_map(|p| &p.nodes).map(|node| node.step + 1).max().unwrap_or(1);
    Ok(Workload {
        name: name.to_owned(),
        ranks: programs,
        groups: lowering.groups,
        counters: lowering.counters.names,
        slots: lowering
            .slots
            .into_iter()
            .map(|((rank, counter), count)| Signal { rank, counter, count })
            .collect(),
        steps,
        remarks,
    })
}

/// Reads a file of groups: `{"1": [0, 1], "2": [2, 3]}`.
pub fn groups(text: &str) -> Result<Groups, String> {
    serde_json::from_str(text)
        .map_err(|why| format!("no groups of ranks ({why}); write them like {{\"1\": [0, 1]}}"))
}

/// The process groups that PyTorch's metadata name: `['[{"pg_name": "1", "ranks": [0, 1]}]']`. No ranks: all.
fn declared(nodes: &[TraceNode], ranks: u32) -> Result<Groups, String> {
    let mut groups = Groups::new();
    for node in nodes.iter().filter(|node| node.kind == schema::METADATA) {
        let values = node.inputs.as_ref().map_or("", |inputs| inputs.values.as_str());
        let (Some(begin), Some(end)) = (values.find("[{"), values.rfind("}]")) else { continue };
        if !values.contains("pg_name") || begin > end {
            continue;
        }
        let wrong = || format!("{}: its process groups are no JSON of pg_name and ranks", label(node));
        let list: Vec<Value> = serde_json::from_str(&values[begin..end + 2]).map_err(|_| wrong())?;
        for group in list {
            let name = match &group["pg_name"] {
                Value::String(name) => name.clone(),
                Value::Number(number) => number.to_string(),
                _ => return Err(wrong()),
            };
            let members = group["ranks"].as_array().ok_or_else(wrong)?;
            let members = members.iter().map(|rank| rank.as_u64().and_then(|rank| Rank::try_from(rank).ok()));
            let members: Vec<Rank> = members.collect::<Option<_>>().ok_or_else(wrong)?;
            groups.insert(name, if members.is_empty() { (0..ranks).collect() } else { members });
        }
    }
    Ok(groups)
}

/// What `one_sided` has.
#[derive(Deserialize)]
struct OneSided {
    from: Rank,
    to: Vec<(Rank, u64)>,
    signals: Vec<(Rank, String, u64)>,
    mailbox: Option<String>,
    #[serde(default)]
    slots: Vec<u64>,
}

/// What `frees` has.
#[derive(Deserialize)]
struct Frees {
    mailbox: String,
    counter: String,
    nth: u64,
}

/// What `wait_for` has.
#[derive(Deserialize)]
struct WaitFor {
    counter: String,
    count: u64,
}

fn fields<T: for<'a> Deserialize<'a>>(name: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|why| format!("{name} is not what a put or a wait needs ({why})"))
}

fn label(node: &TraceNode) -> String {
    format!("node {} ({})", node.id, node.name.chars().take(60).collect::<String>())
}

struct Lowering {
    ranks: u32,
    groups: Vec<Group>,
    counters: CounterNames,
    /// By rank and counter, the slots of mailboxes.
    slots: BTreeMap<(Rank, u32), u64>,
    /// Control dependencies, which say who called whom.
    callers: usize,
}

impl Lowering {
    fn rank(
        &mut self,
        rank: Rank,
        nodes: &[TraceNode],
        lookup: &dyn Fn(&str) -> Option<Vec<Rank>>,
    ) -> Result<Vec<Node>, String> {
        let (order, after) = self.order(nodes)?;
        let mut place = vec![0; nodes.len()];
        order.iter().zip(0..).for_each(|(&node, at)| place[node] = at);
        let mut last_call: HashMap<u32, u32> = HashMap::new();
        let mut lowered: Vec<Node> = Vec::with_capacity(nodes.len());
        for &index in &order {
            let node = &nodes[index];
            let work = self.work(rank, node, lookup).map_err(|why| format!("{}: {why}", label(node)))?;
            let mut before: Vec<u32> = after[index].iter().map(|&before| place[before]).collect();
            if let Work::Call(call) = &work {
                before.extend(last_call.insert(call.group, lowered.len() as u32));
            }
            before.sort_unstable();
            before.dedup();
            let step = node.get("step").and_then(AttributeValue::number).unwrap_or(0);
            let step = u32::try_from(step).ok().filter(|&step| step < 1 << 20);
            let step = step.ok_or_else(|| format!("{}: step is too large a number", label(node)))?;
            lowered.push(Node { label: label(node), step, after: before, work });
        }
        Ok(lowered)
    }

    /// An order in which every node comes after those that it depends on, by numbers where there is a choice; and these, by index.
    fn order(&mut self, nodes: &[TraceNode]) -> Result<(Vec<usize>, Vec<Vec<usize>>), String> {
        let mut index = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            if let Some(other) = index.insert(node.id, at) {
                return Err(format!(
                    "{} has the number of {}; give each node its own",
                    label(node),
                    label(&nodes[other])
                ));
            }
        }
        let mut after = vec![Vec::new(); nodes.len()];
        let mut followers = vec![Vec::new(); nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            for id in &node.data_deps {
                let Some(&before) = index.get(id) else {
                    return Err(format!("{} depends on node {id}, which is not in the file", label(node)));
                };
                after[at].push(before);
            }
            self.callers += node.ctrl_deps.len();
            after[at].sort_unstable();
            after[at].dedup();
            after[at].iter().for_each(|&before| followers[before].push(at));
        }
        let mut missing: Vec<usize> = after.iter().map(Vec::len).collect();
        let free = (0..nodes.len()).filter(|&at| missing[at] == 0);
        let mut free: BinaryHeap<_> = free.map(|at| std::cmp::Reverse((nodes[at].id, at))).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(std::cmp::Reverse((_, at))) = free.pop() {
            order.push(at);
            for &follower in &followers[at] {
                missing[follower] -= 1;
                if missing[follower] == 0 {
                    free.push(std::cmp::Reverse((nodes[follower].id, follower)));
                }
            }
        }
        match (0..nodes.len()).find(|&at| missing[at] > 0) {
            None => Ok((order, after)),
            Some(at) => Err(cycle(nodes, &after, &missing, at)),
        }
    }

    fn work(
        &mut self,
        rank: Rank,
        node: &TraceNode,
        lookup: &dyn Fn(&str) -> Option<Vec<Rank>>,
    ) -> Result<Work, String> {
        let number = |name: &str| node.get(name).and_then(AttributeValue::number);
        let need = |name: &str| {
            number(name).ok_or_else(|| {
                format!(
                    "has no {name} that is a whole number; a {} needs it",
                    schema::KINDS[node.kind as usize]
                )
            })
        };
        let is_host = node.get("is_cpu_op").and_then(AttributeValue::truth).unwrap_or(false);
        let ns = number("duration_ns").map_or_else(|| node.duration_micros.checked_mul(1000), Some);
        let time_ps = ns.and_then(|ns| ns.checked_mul(1000)).filter(|&ps| ps < u64::MAX / 2);
        let time_ps = time_ps.ok_or("takes longer than can be counted in picoseconds")?;
        if let Some(text) = node.get(schema::ONE_SIDED).and_then(AttributeValue::text) {
            let OneSided { from, to, signals, mailbox, slots } = fields(schema::ONE_SIDED, &text)?;
            let mailbox = mailbox.map(|name| self.counters.number(&name));
            if let Some(counter) = mailbox {
                if slots.len() != to.len() || slots.contains(&0) {
                    return Err("its slots are not one or more for each rank of `to`".to_owned());
                }
                self.slots.extend(to.iter().zip(slots).map(|(&(rank, _), count)| ((rank, counter), count)));
            }
            let signals = signals.into_iter();
            let signals = signals.map(|(rank, name, count)| Signal {
                rank,
                counter: self.counters.number(&name),
                count,
            });
            let (bytes, signals) = (need("comm_size")?, signals.collect());
            return Ok(Work::Put(Put { from, to, slots: mailbox, bytes, signals }));
        }
        if let Some(text) = node.get(schema::WAIT_FOR).and_then(AttributeValue::text) {
            let WaitFor { counter, count } = fields(schema::WAIT_FOR, &text)?;
            return Ok(Work::Wait { counter: self.counters.number(&counter), count });
        }
        if let Some(text) = node.get(schema::FREES).and_then(AttributeValue::text) {
            let Frees { mailbox, counter, nth } = fields(schema::FREES, &text)?;
            let [slots, messages] = [mailbox, counter].map(|name| self.counters.number(&name));
            return Ok(Work::Free(Free { slots, messages, nth }));
        }
        match node.kind {
            schema::METADATA => Ok(Work::Nothing),
            schema::COMPUTE | schema::MEM_LOAD | schema::MEM_STORE if is_host => Ok(Work::Host(time_ps)),
            schema::COMPUTE | schema::MEM_LOAD | schema::MEM_STORE => {
                // Other writers have 0 where they do not know.
                let is_counted = node.get("work_counted").and_then(AttributeValue::truth).unwrap_or(false);
                let known = |name| number(name).filter(|&number| number > 0 || is_counted);
                let [flops, bytes] = ["num_ops", "tensor_size"].map(known);
                let is_known = time_ps > 0 || flops.or(bytes).is_none();
                Ok(Work::Compute(Interval { time_ps: is_known.then_some(time_ps), flops, bytes }))
            }
            // What launches a collective on the host has its kind in some traces.
            schema::COLLECTIVE if is_host && number("comm_type").is_none() => Ok(Work::Host(time_ps)),
            schema::COLLECTIVE => self.call(rank, node, &need, lookup).map(Work::Call),
            schema::SEND | schema::RECV => {
                let peer = need(if node.kind == schema::SEND { "comm_dst" } else { "comm_src" })?;
                let peer = Rank::try_from(peer).map_err(|_| format!("{peer} is no rank"))?;
                let message =
                    Message { peer, bytes: need("comm_size")?, tag: number("comm_tag").unwrap_or(0) };
                Ok(if node.kind == schema::SEND { Work::Send(message) } else { Work::Recv(message) })
            }
            kind => Err(format!(
                "its kind is {kind}, which no workload has; there are {}",
                schema::KINDS[1..]
                    .iter()
                    .zip(1..)
                    .map(|(name, kind)| format!("{kind} ({name})"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
    }

    fn call(
        &mut self,
        rank: Rank,
        node: &TraceNode,
        need: &dyn Fn(&str) -> Result<u64, String>,
        lookup: &dyn Fn(&str) -> Option<Vec<Rank>>,
    ) -> Result<GroupCall, String> {
        if node.get("comm_type").is_none() && node.get("comm_size").is_none() {
            return Err("has neither comm_type nor comm_size, so that the trace does not say what it sends; write the trace anew with \
                        chakra_converter, whose nodes have them, or add both (0: an all-reduce, and the bytes of a rank's input)"
                .to_owned());
        }
        let number = need("comm_type")?;
        let collective = usize::try_from(number).ok().and_then(|number| COLLECTIVES.get(number)).copied();
        let collective =
            collective.ok_or_else(|| format!("comm_type {number} is no collective; there are 0 to 9"))?;
        if let Some(AttributeValue::Bools(list)) = node.get("involved_dim")
            && list.values.contains(&false)
        {
            return Err("involved_dim leaves dimensions of a network out, which a machine here does not have; name the ranks by \
                        pg_name and --groups"
                .to_owned());
        }
        let name = node.get("pg_name").and_then(AttributeValue::text).unwrap_or_default();
        let ranks = match lookup(&name) {
            Some(ranks) => ranks,
            None if name.is_empty() || name == "0" => (0..self.ranks).collect(),
            None => {
                return Err(format!(
                    "pg_name {name} is no group of the trace; give its ranks by --groups FILE, like {{\"{name}\": [0, 1]}}"
                ));
            }
        };
        if let Some(other) = ranks.iter().find(|&&rank| rank >= self.ranks) {
            return Err(format!(
                "group {name} has rank {other}, of which there is no file; there are {} ranks",
                self.ranks
            ));
        }
        if !ranks.contains(&rank) {
            return Err(format!("the rank is not in group {name} of ranks {ranks:?}"));
        }
        let bytes = if collective == Collective::Barrier { 0 } else { need("comm_size")? };
        // The input of a rank: what all get from each other, or one block for each rank.
        let block = match collective {
            Collective::AllGather | Collective::Gather => bytes,
            _ => amounts::block(collective, bytes, ranks.len() as u64),
        };
        let root = if collective.rooted() && node.get("root").is_some() { need("root")? } else { 0 };
        let root = Rank::try_from(root).ok().filter(|&root| (root as usize) < ranks.len());
        let root = root.ok_or_else(|| format!("root is no place in a group of {}", ranks.len()))?;
        let name = if name.is_empty() { "all".to_owned() } else { name };
        let group = Group { name, ranks };
        let index = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        Ok(GroupCall { collective, group: index as u32, block, root })
    }
}

/// Says which nodes wait for each other in a circle.
fn cycle(nodes: &[TraceNode], after: &[Vec<usize>], missing: &[usize], begin: usize) -> String {
    // Every node that is left waits for another one that is left.
    let mut way = vec![begin];
    loop {
        let last = *way.last().expect("it is not empty");
        let next = after[last].iter().copied().find(|&before| missing[before] > 0).unwrap_or(begin);
        if let Some(at) = way.iter().position(|&node| node == next) {
            let shown = way[at..].iter().take(4).map(|&node| label(&nodes[node])).collect::<Vec<_>>();
            let more = if way.len() - at > 4 { ", and so on" } else { "" };
            return format!(
                "{}{more} wait for each other in a circle; take one of their dependencies out",
                shown.join(", which waits for ")
            );
        }
        way.push(next);
    }
}
