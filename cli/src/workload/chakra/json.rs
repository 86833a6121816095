//! Chakra's traces as JSON: objects of one node each, as its jsonizer writes them, a list of such objects or one object that has them as
//! `nodes`, or one object with `workload_graph`, as its feeder reads them.

use serde_json::json;
use serde_json::{Map, Value};

use super::schema::GlobalMetadata;
use super::schema::{Attribute, AttributeValue, BoolList, IoInfo, KINDS, TraceNode};

/// Reads a file. `Err` says what is wrong with it.
pub fn decode(text: &str) -> Result<Vec<TraceNode>, String> {
    let objects = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut objects = objects.collect::<Result<Vec<_>, _>>().map_err(|why| format!("is no JSON: {why}"))?;
    if let [Value::Array(list)] = &mut objects[..] {
        objects = std::mem::take(list);
    }
    let Some(first) = objects.first() else { return Err("is empty".to_owned()) };
    if first.get("nodes").is_some() && first.get("schema").is_some() {
        return Err("is PyTorch's own trace of one process; convert it with chakra_trace_link and chakra_converter first".to_owned());
    }
    if let Some(graph) = first.get("workload_graph") {
        let nodes = graph.as_array().ok_or("workload_graph is no list")?;
        return nodes.iter().map(feeder_node).collect();
    }
    if let Some(nodes) = first.get("nodes") {
        return nodes.as_array().ok_or("nodes is no list")?.iter().map(message).collect();
    }
    // The first object is the metadata of the file.
    let is_node = |object: &&Value| {
        object.get("id").is_some() || object.get("type").is_some() || object.get("name").is_some()
    };
    let nodes: Vec<TraceNode> = objects.iter().filter(is_node).map(message).collect::<Result<_, _>>()?;
    if nodes.is_empty() && first.get("version").is_none() {
        return Err("has no nodes; Chakra's JSON has an object with id, name and type for each node, or one object with workload_graph"
            .to_owned());
    }
    Ok(nodes)
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("has `{value}` where a node is expected"))
}

/// Returns a number, which the JSON of protobuf has as a text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn numbers(value: Option<&Value>) -> Result<Vec<u64>, String> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let list = value.as_array().ok_or_else(|| format!("`{value}` is no list of nodes"))?;
    list.iter().map(|id| number(id).ok_or_else(|| format!("`{id}` is no number of a node"))).collect()
}

fn kind(value: Option<&Value>) -> Result<i32, String> {
    match value {
        None => Ok(0),
        Some(Value::String(name)) => match KINDS.iter().position(|known| known == name) {
            Some(kind) => Ok(kind as i32),
            None => Err(format!("the kind {name} is not known; there are {}", KINDS.join(", "))),
        },
        Some(value) => number(value)
            .and_then(|kind| i32::try_from(kind).ok())
            .ok_or_else(|| format!("`{value}` is no kind of a node")),
    }
}

/// A node as protobuf writes it in JSON, with names like dataDeps or data_deps.
fn message(value: &Value) -> Result<TraceNode, String> {
    let fields = object(value)?;
    let field = |camel: &str, snake: &str| fields.get(camel).or_else(|| fields.get(snake));
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = fields
        .get("id")
        .map_or(Some(0), number)
        .ok_or_else(|| format!("node {name}: its id is no number"))?;
    let of_node = |why: String| format!("node {id} ({name}): {why}");
    let attributes = fields.get("attr").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |from: &Value, key: &str| from.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(TraceNode {
        id,
        kind: kind(fields.get("type")).map_err(of_node)?,
        ctrl_deps: numbers(field("ctrlDeps", "ctrl_deps")).map_err(of_node)?,
        data_deps: numbers(field("dataDeps", "data_deps")).map_err(of_node)?,
        start_time_micros: field("startTimeMicros", "start_time_micros").and_then(number).unwrap_or(0),
        duration_micros: field("durationMicros", "duration_micros").and_then(number).unwrap_or(0),
        inputs: fields.get("inputs").map(|inputs| IoInfo {
            values: text(inputs, "values"),
            shapes: text(inputs, "shapes"),
            types: text(inputs, "types"),
        }),
        attr: attributes.iter().filter_map(attribute).collect(),
        name,
    })
}

/// An attribute; `None`: of a kind that is not used.
fn attribute(value: &Value) -> Option<Attribute> {
    let fields = value.as_object()?;
    let name = fields.get("name")?.as_str()?.to_owned();
    let (key, value) = fields
        .iter()
        .find(|(key, _)| key.ends_with("Val") || key.ends_with("_val") || key.contains("ist"))?;
    let value = match key.as_str() {
        "boolVal" | "bool_val" => AttributeValue::Bool(value.as_bool()?),
        "stringVal" | "string_val" => AttributeValue::Text(value.as_str()?.to_owned()),
        "doubleVal" | "double_val" | "floatVal" | "float_val" => AttributeValue::Double(value.as_f64()?),
        "boolList" | "bool_list" => {
            let values = value.get("values").and_then(Value::as_array);
            AttributeValue::Bools(BoolList {
                values: values.into_iter().flatten().filter_map(Value::as_bool).collect(),
            })
        }
        _ => match number(value) {
            Some(number) => AttributeValue::Uint64(number),
            None => AttributeValue::Int64(value.as_i64().or_else(|| value.as_str()?.parse().ok())?),
        },
    };
    Some(Attribute { name, value: Some(value) })
}

/// A node as the feeder has it: Id, Name, NodeType, and attributes beside them.
fn feeder_node(value: &Value) -> Result<TraceNode, String> {
    let fields = object(value)?;
    let name = fields.get("Name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = fields.get("Id").and_then(number).ok_or_else(|| format!("node {name} has no Id"))?;
    let of_node = |why: String| format!("node {id} ({name}): {why}");
    let known = ["Id", "Name", "NodeType", "ctrlDeps", "ctrl_deps", "data_deps", "runtime"];
    let attr = fields.iter().filter(|(key, _)| !known.contains(&key.as_str())).filter_map(|(key, value)| {
        let value = match value {
            Value::Bool(truth) => AttributeValue::Bool(*truth),
            Value::String(text) => AttributeValue::Text(text.clone()),
            value => AttributeValue::Uint64(number(value)?),
        };
        Some(Attribute { name: key.clone(), value: Some(value) })
    });
    Ok(TraceNode {
        id,
        kind: kind(fields.get("NodeType")).map_err(of_node)?,
        ctrl_deps: numbers(fields.get("ctrlDeps").or_else(|| fields.get("ctrl_deps"))).map_err(of_node)?,
        data_deps: numbers(fields.get("data_deps")).map_err(of_node)?,
        start_time_micros: 0,
        duration_micros: fields.get("runtime").and_then(number).unwrap_or(0),
        inputs: None,
        attr: attr.collect(),
        name,
    })
}

/// Writes a file: the metadata and the nodes, an object a line, as the jsonizer's objects.
pub fn encode(metadata: &GlobalMetadata, nodes: &[TraceNode]) -> String {
    let mut text = json!({ "version": metadata.version }).to_string() + "\n";
    for node in nodes {
        let ids = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<Vec<_>>();
        let mut object = json!({
            "id": node.id.to_string(),
            "name": node.name,
            "type": KINDS.get(node.kind as usize),
            "dataDeps": ids(&node.data_deps),
            "startTimeMicros": node.start_time_micros.to_string(),
            "durationMicros": node.duration_micros.to_string(),
            "attr": node.attr.iter().filter_map(written).collect::<Vec<_>>(),
        });
        if let Some(inputs) = &node.inputs {
            object["inputs"] =
                json!({ "values": inputs.values, "shapes": inputs.shapes, "types": inputs.types });
        }
        text += &(object.to_string() + "\n");
    }
    text
}

fn written(attribute: &Attribute) -> Option<Value> {
    let name = &attribute.name;
    Some(match attribute.value.as_ref()? {
        AttributeValue::Bool(truth) => json!({ "name": name, "boolVal": truth }),
        AttributeValue::Text(text) => json!({ "name": name, "stringVal": text }),
        AttributeValue::Bools(list) => json!({ "name": name, "boolList": { "values": list.values } }),
        AttributeValue::Double(number) => json!({ "name": name, "doubleVal": number }),
        other => json!({ "name": name, "int64Val": other.number()?.to_string() }),
    })
}
