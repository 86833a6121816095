//! The messages of Chakra's execution traces, as far as they are read and written (MLCommons Chakra, `et_def.proto`), and their
//! frame: each message behind its length.

use prost::{Message, Oneof};

/// The first message of a file.
#[derive(Clone, PartialEq, Message)]
pub struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(message, repeated, tag = "2")]
    pub attr: Vec<Attribute>,
}

/// A node of the graph.
#[derive(Clone, PartialEq, Message)]
pub struct TraceNode {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    /// One of the constants below; others are refused later, with the node's name.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    pub inputs: Option<IoInfo>,
    #[prost(message, repeated, tag = "10")]
    pub attr: Vec<Attribute>,
}

pub const METADATA: i32 = 1;
pub const MEM_LOAD: i32 = 2;
pub const MEM_STORE: i32 = 3;
pub const COMPUTE: i32 = 4;
pub const SEND: i32 = 5;
pub const RECV: i32 = 6;
pub const COLLECTIVE: i32 = 7;

/// The attribute of a node that is a put: `{"from": 0, "to": [[1, 0]], "signals": [[1, "halo", 1]]}`. With each rank in `to` are the threads of
/// its mailbox, thread t being bit t, 0: memory; with each in `signals` a counter, and how much is added to it when the bytes are there.
/// A message to mailboxes has their name as `mailbox` and as `slots` how many each of the ranks in `to` has, of which it takes one.
pub const ONE_SIDED: &str = "one_sided";
/// The attribute of a node that waits for signals: `{"counter": "halo", "count": 1}`.
pub const WAIT_FOR: &str = "wait_for";
/// The attribute of a node that frees a message in its rank's mailbox: `{"mailbox": "mail", "counter": "thread 3 of mail", "nth": 0}`. The
/// counter is that of the thread's messages, and `nth` says which of them it is.
pub const FREES: &str = "frees";

/// The names of the kinds, as JSON has them.
pub const KINDS: [&str; 8] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
];

/// Inputs of a node; a metadata node of PyTorch has its process groups there.
#[derive(Clone, PartialEq, Message)]
pub struct IoInfo {
    #[prost(string, tag = "1")]
    pub values: String,
    #[prost(string, tag = "2")]
    pub shapes: String,
    #[prost(string, tag = "3")]
    pub types: String,
}

/// A named value.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(oneof = "AttributeValue", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    pub value: Option<AttributeValue>,
}

/// The kinds of values that are used; writers of traces differ in the integers that they take.
#[derive(Clone, PartialEq, Oneof)]
pub enum AttributeValue {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    Bools(BoolList),
    #[prost(string, tag = "29")]
    Text(String),
}

/// A list of truth values.
#[derive(Clone, PartialEq, Message)]
pub struct BoolList {
    #[prost(bool, repeated, tag = "1")]
    pub values: Vec<bool>,
}

impl AttributeValue {
    /// Returns a whole number that is not negative.
    pub fn number(&self) -> Option<u64> {
        use AttributeValue::*;
        let signed = match *self {
            Uint64(number) | Fixed64(number) => return Some(number),
            Uint32(number) | Fixed32(number) => i64::from(number),
            Int32(number) | Sint32(number) | Sfixed32(number) => i64::from(number),
            Int64(number) | Sint64(number) | Sfixed64(number) => number,
            Double(number) if number.fract() == 0.0 && (0.0..9e15).contains(&number) => number as i64,
            Float(number) if number.fract() == 0.0 && (0.0..1e7).contains(&number) => number as i64,
            Bool(_) | Bools(_) | Text(_) | Double(_) | Float(_) => return None,
        };
        signed.try_into().ok()
    }

    /// Returns a text; a number is written out.
    pub fn text(&self) -> Option<String> {
        match self {
            AttributeValue::Text(text) => Some(text.clone()),
            other => other.number().map(|number| number.to_string()),
        }
    }

    /// Returns a truth value.
    pub fn truth(&self) -> Option<bool> {
        match self {
            AttributeValue::Bool(truth) => Some(*truth),
            other => other.number().map(|number| number != 0),
        }
    }
}

impl TraceNode {
    /// Returns an attribute.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.attr
            .iter()
            .find(|attribute| attribute.name == name)
            .and_then(|attribute| attribute.value.as_ref())
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &str, value: AttributeValue) {
        self.attr.push(Attribute { name: name.to_owned(), value: Some(value) });
    }
}

/// Reads a file of messages. `Err` says where it is no trace.
pub fn decode(bytes: &[u8]) -> Result<Vec<TraceNode>, String> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err("is compressed; unpack it with gunzip first".to_owned());
    }
    let mut rest = bytes;
    let wrong = |rest: &[u8], why: &dyn std::fmt::Display| {
        format!("byte {}: not a message of a Chakra trace ({why})", bytes.len() - rest.len())
    };
    if rest.is_empty() {
        return Err("is empty".to_owned());
    }
    GlobalMetadata::decode_length_delimited(&mut rest).map_err(|why| wrong(rest, &why))?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        nodes.push(TraceNode::decode_length_delimited(&mut rest).map_err(|why| wrong(rest, &why))?);
    }
    Ok(nodes)
}

/// Writes a file of messages.
pub fn encode(metadata: &GlobalMetadata, nodes: &[TraceNode]) -> Vec<u8> {
    let mut bytes = metadata.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}
