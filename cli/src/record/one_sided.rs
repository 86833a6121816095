//! Nodes of puts and of waits for signals.
//!
//! Chakra has no such nodes. A put is a MEM_STORE_NODE, and what comes back of a get a MEM_LOAD_NODE, with the bytes as others read them; the
//! attribute `one_sided` has the ranks and the signals. A wait is a METADATA_NODE with `wait_for`, since nothing in Chakra waits for another
//! rank's store: to other tools it is a place in the order. So is a METADATA_NODE with `frees`, which gives a slot of a mailbox back.

use std::collections::HashMap;

use serde_json::json;

use super::log::PutLine;
use super::words::{self, WordWaits};
use crate::workload::chakra::schema::{self, AttributeValue, FREES, ONE_SIDED, TraceNode, WAIT_FOR};

/// Which of its messages each thread has from which slot of its mailbox.
#[derive(Default)]
pub struct Received {
    /// By communicator and counter, the messages so far.
    counts: HashMap<(u64, String), u64>,
    /// By communicator, counter and slot, which of them it is.
    held: HashMap<(u64, String, u64), u64>,
}

impl Received {
    /// A thread, by its counter, has taken a message.
    pub fn take(&mut self, comm: u64, counter: &str, slot: u64) {
        let count = self.counts.entry((comm, counter.to_owned())).or_default();
        self.held.insert((comm, counter.to_owned(), slot), *count);
        *count += 1;
    }

    /// It frees the one in a slot. Returns the node; `None`: the message was not recorded.
    pub fn free(
        &mut self,
        comm: u64,
        (mailbox, counter): (&str, &str),
        slot: u64,
        group: &str,
    ) -> Option<TraceNode> {
        let nth = self.held.remove(&(comm, counter.to_owned(), slot))?;
        let mut node = TraceNode { name: "free".to_owned(), kind: schema::METADATA, ..TraceNode::default() };
        let [mailbox, counter] = [mailbox, counter].map(|name| format!("{group}: {name}"));
        let frees = json!({ "mailbox": mailbox, "counter": counter, "nth": nth });
        node.set(FREES, AttributeValue::Text(frees.to_string()));
        Some(node)
    }
}

/// Returns the node of a put of a rank.
pub fn put(
    put: &PutLine,
    rank: u32,
    waited: &WordWaits,
    (group, ranks): &(String, Vec<u32>),
) -> Result<TraceNode, String> {
    let of_world = |peer: u32| {
        let known = ranks.get(peer as usize).copied();
        known.ok_or_else(|| format!("the record names rank {peer} of {}", ranks.len()))
    };
    let from = of_world(put.from)?;
    let to = put.to.iter().map(|&(to, threads)| Ok((of_world(to)?, threads)));
    let to: Vec<(u32, u64)> = to.collect::<Result<_, String>>()?;
    let mut signals = Vec::new();
    for (peer, counter, count) in &put.signals {
        signals.push((of_world(*peer)?, format!("{group}: {counter}"), *count));
    }
    for (peer, word, ..) in &put.words {
        let peer = of_world(*peer)?;
        if waited.is_waited_for(group, peer, *word) {
            signals.push((peer, format!("{group}: {}", words::counter(*word)), 1));
        }
    }
    let (name, kind) = if from == rank { ("put", schema::MEM_STORE) } else { ("get", schema::MEM_LOAD) };
    let mut node = TraceNode { name: name.to_owned(), kind, ..TraceNode::default() };
    let bytes = AttributeValue::Int64(i64::try_from(put.bytes).unwrap_or(i64::MAX));
    node.set("comm_size", bytes.clone());
    node.set("tensor_size", bytes);
    let mut one_sided = json!({ "from": from, "to": to, "signals": signals });
    if let Some(mailbox) = &put.mailbox {
        one_sided["mailbox"] = format!("{group}: {mailbox}").into();
        one_sided["slots"] = put.slots.clone().into();
    }
    node.set(ONE_SIDED, AttributeValue::Text(one_sided.to_string()));
    Ok(node)
}

/// Returns the node of a wait for signals of a counter.
pub fn wait(counter: &str, count: u64, group: &str) -> TraceNode {
    let mut node = TraceNode { name: "wait".to_owned(), kind: schema::METADATA, ..TraceNode::default() };
    let counter = format!("{group}: {counter}");
    node.set(WAIT_FOR, AttributeValue::Text(json!({ "counter": counter, "count": count }).to_string()));
    node
}
