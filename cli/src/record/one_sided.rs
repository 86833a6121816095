//! Nodes of puts and of waits for signals.
//!
//! Chakra has no such nodes. A put is a MEM_STORE_NODE, and what comes back of a get a MEM_LOAD_NODE, with the bytes as others read them; the
//! attribute `one_sided` has the ranks and the signals. A wait is a METADATA_NODE with `wait_for`, since nothing in Chakra waits for another
//! rank's store: to other tools it is a place in the order.

use serde_json::json;

use super::log::PutLine;
use super::words::{self, WordWaits};
use crate::workload::chakra::schema::{self, AttributeValue, ONE_SIDED, TraceNode, WAIT_FOR};

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
    node.set(
        ONE_SIDED,
        AttributeValue::Text(json!({ "from": from, "to": to, "signals": signals }).to_string()),
    );
    Ok(node)
}

/// Returns the node of a wait for signals of a counter.
pub fn wait(counter: &str, count: u64, group: &str) -> TraceNode {
    let mut node = TraceNode { name: "wait".to_owned(), kind: schema::METADATA, ..TraceNode::default() };
    let counter = format!("{group}: {counter}");
    node.set(WAIT_FOR, AttributeValue::Text(json!({ "counter": counter, "count": count }).to_string()));
    node
}
