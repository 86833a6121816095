//! Traces in both forms, and traces that are wrong.

use prost::Message as _;

use super::super::check;
use super::super::program::{Work, Workload};
use super::schema::{AttributeValue, BoolList, GlobalMetadata, IoInfo, TraceNode};
use super::*;

/// A rank that computes for 3 us, then all-reduces 4 KiB, sends 8 bytes to the other and receives 8.
fn nodes(rank: u64) -> Vec<TraceNode> {
    let node = |id: u64, name: &str, kind: i32, deps: &[u64]| TraceNode {
        id,
        name: name.to_owned(),
        kind,
        data_deps: deps.to_vec(),
        ..TraceNode::default()
    };
    let mut compute = node(1, "gemm", schema::COMPUTE, &[]);
    compute.duration_micros = 3;
    compute.set("is_cpu_op", AttributeValue::Bool(false));
    compute.set("num_ops", AttributeValue::Int64(2_000_000));
    compute.set("tensor_size", AttributeValue::Uint64(4096));
    let mut reduce = node(2, "all_reduce", schema::COLLECTIVE, &[1]);
    reduce.set("comm_type", AttributeValue::Int64(0));
    reduce.set("comm_size", AttributeValue::Int64(4096));
    let mut send = node(3, "send", schema::SEND, &[2]);
    let mut recv = node(4, "recv", schema::RECV, &[2]);
    for (node, peer) in [(&mut send, "comm_dst"), (&mut recv, "comm_src")] {
        node.set(peer, AttributeValue::Int32(1 - rank as i32));
        node.set("comm_size", AttributeValue::Int64(8));
        node.set("comm_tag", AttributeValue::Int32(7));
    }
    vec![compute, reduce, send, recv]
}

fn metadata() -> GlobalMetadata {
    GlobalMetadata { version: "0.0.4".to_owned(), attr: Vec::new() }
}

fn lowered(traces: Vec<Vec<TraceNode>>) -> Result<Workload, String> {
    let traces: Vec<_> = (0..).zip(traces).map(|(rank, nodes)| (format!("t.{rank}.et"), nodes)).collect();
    let workload = lower("t", &traces, &Groups::new())?;
    check::matches(&workload)?;
    Ok(workload)
}

#[test]
fn both_forms_say_the_same() {
    let nodes = nodes(0);
    let bytes = schema::encode(&metadata(), &nodes);
    assert_eq!(schema::decode(&bytes).unwrap(), nodes);
    let text = json::encode(&metadata(), &nodes);
    let of = |nodes| lowered(vec![nodes, self::nodes(1)]).unwrap();
    let (one, other) = (of(json::decode(&text).unwrap()), of(nodes));
    assert_eq!(one.ranks[0].nodes, other.ranks[0].nodes);
    // As protobuf prints it, over several lines and with numbers as texts; and as the feeder reads it.
    let printed = "{\n \"version\": \"0.0.4\"\n}{\n \"id\": \"1\",\n \"name\": \"gemm\",\n \"type\": \"COMP_NODE\",\n \"durationMicros\": \"3\",\n \
                   \"attr\": [{\"name\": \"is_cpu_op\", \"boolVal\": false}, {\"name\": \"num_ops\", \"int64Val\": \"2000000\"}, \
                   {\"name\": \"tensor_size\", \"uint64Val\": \"4096\"}]\n}";
    let feeder = "{\"workload_graph\": [{\"Id\": 1, \"Name\": \"gemm\", \"NodeType\": 4, \"runtime\": 3, \"data_deps\": [], \
                  \"is_cpu_op\": false, \"num_ops\": 2000000, \"tensor_size\": 4096}]}";
    let node = printed.split_once('}').unwrap().1;
    let (list, named) = (format!("[{node}]"), format!("{{\"nodes\": [{node}]}}"));
    for text in [printed, feeder, &list, &named] {
        let alone = lowered(vec![json::decode(text).unwrap()]).unwrap();
        assert_eq!(alone.ranks[0].nodes[..], other.ranks[0].nodes[..1], "{text}");
    }
}

#[test]
fn a_node_that_protobuf_wrote_is_read() {
    // Bytes of an attribute of google's protobuf: name "comm_size", int64_val (field 9) 1 MiB.
    let bytes = b"\x0a\x09comm_size\x48\x80\x80\x40";
    let attribute = schema::Attribute::decode(&bytes[..]).unwrap();
    assert_eq!(attribute.value, Some(AttributeValue::Int64(1 << 20)));
}

#[test]
fn no_operations_are_unknown_unless_they_were_counted() {
    let interval = |counted: bool| {
        let workload = changed(|nodes| {
            nodes[0].attr[1].value = Some(AttributeValue::Int64(0));
            nodes[0].attr[2].value = Some(AttributeValue::Int64(0));
            nodes[0].set("work_counted", AttributeValue::Bool(counted));
        });
        match workload.unwrap().ranks[0].nodes[0].work {
            Work::Compute(interval) => (interval.time_ps, interval.flops, interval.bytes),
            ref other => panic!("{other:?}"),
        }
    };
    assert_eq!(interval(false), (Some(3_000_000), None, None));
    assert_eq!(interval(true), (Some(3_000_000), Some(0), Some(0)));
}

#[test]
fn sizes_are_those_of_a_ranks_input() {
    let call = |kind: i64| {
        let all = (0..2).map(|rank| {
            let mut nodes = nodes(rank);
            nodes[1].attr[0].value = Some(AttributeValue::Int64(kind));
            nodes
        });
        let workload = lowered(all.collect()).unwrap();
        workload.ranks[0].nodes.iter().find_map(|node| match node.work {
            Work::Call(call) => Some((call.collective.name(), call.block)),
            _ => None,
        })
    };
    assert_eq!(call(0), Some(("all_reduce", 4096)));
    assert_eq!(call(2), Some(("all_gather", 4096)));
    assert_eq!(call(6), Some(("alltoall", 2048)));
    assert_eq!(call(7), Some(("reduce_scatter", 2048)));
    assert_eq!(call(9), Some(("barrier", 0)));
}

#[test]
fn groups_come_from_the_traces_metadata() {
    let with_groups = |values: &str| {
        let all = (0..2).map(|rank| {
            let mut nodes = nodes(rank);
            nodes[1].set("pg_name", AttributeValue::Text("3".to_owned()));
            let inputs = Some(IoInfo { values: values.to_owned(), ..IoInfo::default() });
            nodes.push(TraceNode { id: 9, kind: schema::METADATA, inputs, ..TraceNode::default() });
            nodes
        });
        lowered(all.collect())
    };
    let workload = with_groups("['[{\"pg_name\": \"3\", \"ranks\": [1, 0]}]']").unwrap();
    assert_eq!(workload.groups[0].ranks, [1, 0]);
    assert_eq!(with_groups("['[{\"pg_name\": \"3\", \"ranks\": []}]']").unwrap().groups[0].ranks, [0, 1]);
    let why = with_groups("").err().unwrap();
    assert!(why.contains("t.0.et: rank 0, node 2 (all_reduce): pg_name 3 is no group of the trace"), "{why}");
}

/// The workload of two ranks of which the first is changed.
fn changed(change: impl Fn(&mut Vec<TraceNode>)) -> Result<Workload, String> {
    let mut first = nodes(0);
    change(&mut first);
    lowered(vec![first, nodes(1)])
}

/// Makes a node a put to a rank.
fn one_sided(node: &mut TraceNode, to: u32) {
    let text = format!("{{\"from\": 0, \"to\": [[{to}, 0]], \"signals\": []}}");
    node.set(schema::ONE_SIDED, AttributeValue::Text(text));
}

#[test]
fn what_is_wrong_with_a_trace_names_the_file_the_rank_and_the_node() {
    type Change = fn(&mut Vec<TraceNode>);
    let cases: [(Change, &str); 17] = [
        (|nodes| nodes[0].data_deps.push(4), "t.0.et: rank 0, node 1 (gemm), which waits for node 4 (recv)"),
        (
            |nodes| nodes[0].data_deps.push(77),
            "t.0.et: rank 0, node 1 (gemm) depends on node 77, which is not in the file",
        ),
        (|nodes| nodes[1].id = 1, "node 1 (all_reduce) has the number of node 1 (gemm)"),
        (
            |nodes| nodes[0].kind = 12,
            "node 1 (gemm): its kind is 12, which no workload has; there are 1 (METADATA_NODE)",
        ),
        (|nodes| nodes[0].kind = 0, "its kind is 0"),
        (|nodes| nodes[1].attr[0].value = Some(AttributeValue::Int64(33)), "comm_type 33 is no collective"),
        (|nodes| drop(nodes[1].attr.remove(1)), "has no comm_size that is a whole number"),
        (|nodes| nodes[1].attr.clear(), "node 2 (all_reduce): has neither comm_type nor comm_size"),
        (
            |nodes| nodes[1].attr[1].value = Some(AttributeValue::Int64(8)),
            "call 0 of group all is all_reduce of blocks of",
        ),
        (|nodes| drop(nodes.pop()), "rank 0 never receives this message of 8 bytes with tag 7"),
        (|nodes| drop(nodes.remove(2)), "rank 0 never sends this message"),
        (
            |nodes| {
                nodes[1].set("involved_dim", AttributeValue::Bools(BoolList { values: vec![true, false] }))
            },
            "involved_dim leaves dimensions",
        ),
        (
            |nodes| nodes[0].set(schema::ONE_SIDED, AttributeValue::Text("{\"from\": 0}".to_owned())),
            "node 1 (gemm): one_sided is not what a put or a wait needs (missing field `to`",
        ),
        (|nodes| one_sided(&mut nodes[0], 0), "node 1 (gemm): has no comm_size that is a whole number"),
        (
            |nodes| {
                one_sided(&mut nodes[0], 2);
                nodes[0].set("comm_size", AttributeValue::Int64(8));
            },
            "node 1 (gemm): there is no rank 2 among 2",
        ),
        (
            |nodes| {
                let wait = "{\"counter\": \"halo\", \"count\": 3}";
                nodes[0].set(schema::WAIT_FOR, AttributeValue::Text(wait.to_owned()));
            },
            "node 1 (gemm): 3 signals of `halo` are waited for on rank 0, and 0 are given to it",
        ),
        (|nodes| nodes[0].duration_micros = u64::MAX, "takes longer than can be counted"),
    ];
    for (change, part) in cases {
        let why = changed(change).err().unwrap_or_else(|| panic!("accepted: {part}"));
        assert!(why.contains(part), "expected: {part}\nsays: {why}");
    }
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "is empty"),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "byte 0"),
        (b"\x02\x0a\x00\x63nothing", "not a message of a Chakra trace"),
    ];
    for (bytes, part) in cases {
        let why = schema::decode(bytes).unwrap_err();
        assert!(why.contains(part), "{why}");
    }
    for (text, part) in [
        ("", "is empty"),
        ("{", "is no JSON"),
        ("{\"schema\": \"1.0\", \"nodes\": []}", "chakra_converter"),
        ("{\"version\": \"1\"}{\"id\": \"1\", \"type\": \"GEMM_NODE\"}", "the kind GEMM_NODE is not known"),
        ("{\"workload_graph\": [{\"Name\": \"x\"}]}", "node x has no Id"),
        ("{\"workload_graph\": [3]}", "where a node is expected"),
        ("[{\"ts\": 3}]", "has no nodes"),
    ] {
        let why = json::decode(text).unwrap_err();
        assert!(why.contains(part), "{text} says: {why}");
    }
}

#[test]
fn a_trace_is_found_by_its_prefix_and_a_file_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for rank in [0, 1, 3] {
        std::fs::write(path(&format!("t.{rank}.et")), schema::encode(&metadata(), &nodes(0))).unwrap();
    }
    let why = find(&path("t"), None).unwrap_err();
    assert!(why.contains("t.3.et is there, and rank 2's") && why.contains("t.2.et is not"), "{why}");
    std::fs::write(path("t.2.et"), schema::encode(&metadata(), &nodes(0))).unwrap();
    for name in ["t", "t.0.et", "t.3.et"] {
        assert_eq!(find(&path(name), None).unwrap().map(|traces| traces.len()), Some(4), "{name}");
    }
    assert!(find(&path("u"), None).unwrap().is_none());
    std::fs::write(path("one.json"), json::encode(&metadata(), &nodes(0))).unwrap();
    assert_eq!(find(&path("one.json"), Some(5)).unwrap().map(|traces| traces.len()), Some(5));
    std::fs::write(path("1.0.2-chakra.0.0.4.json"), "{\"schema\": \"1.0\", \"nodes\": []}").unwrap();
    let why = find(&path("1.0.2-chakra.0.0.4.json"), None).unwrap_err();
    assert!(why.contains("chakra_converter"), "the number in its name is no rank: {why}");
}
