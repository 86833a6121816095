//! A YAML document as a tree whose nodes know their lines.
//!
//! The crate saphyr parses the text into events. The tree is built here, without recursion, so that nesting and the number of
//! nodes have limits. Aliases are refused: no descriptor has one, and with them a small file can become a huge tree.

use saphyr_parser::{Event, Parser};

use super::File;

/// The deepest nesting that is read. Descriptors have six levels.
const MOST_NESTED: usize = 32;
/// The most nodes that are read. A descriptor of 512 chips has 60 thousand.
const MOST_NODES: usize = 1 << 18;

/// A node and its line.
#[derive(Debug)]
pub struct Node {
    pub line: usize,
    pub value: Value,
}

#[derive(Debug)]
pub enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// The first document of a file.
pub fn parse(file: &File<'_>) -> Result<Node, String> {
    let mut parser = Parser::new_from_str(file.text);
    // What is open: a map's children are keys and values in turn until it closes.
    let mut open: Vec<(usize, bool, Vec<Node>)> = Vec::new();
    let mut nodes = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|why| {
            file.at(
                why.marker().line(),
                format_args!("is no YAML ({}); see https://yaml.org for the form", why.info()),
            )
        })?;
        let line = span.start.line();
        let done = match event {
            Event::Scalar(text, ..) => Node { line, value: Value::Scalar(text.into_owned()) },
            Event::Alias(_) => {
                return Err(file.at(line, "has an alias, which is not read; write out what it stands for"));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() == MOST_NESTED {
                    return Err(
                        file.at(line, format_args!("is nested more than {MOST_NESTED} deep; write less"))
                    );
                }
                open.push((line, matches!(event, Event::MappingStart(..)), Vec::new()));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((line, true, children)) => Node { line, value: Value::Map(pairs(children)) },
                Some((line, false, children)) => Node { line, value: Value::List(children) },
                None => continue,
            },
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
            Event::DocumentEnd | Event::StreamEnd => break,
        };
        nodes += 1;
        if nodes > MOST_NODES {
            return Err(
                file.at(line, format_args!("has more than {MOST_NODES} values; give one machine's file"))
            );
        }
        match open.last_mut() {
            Some((_, _, children)) => children.push(done),
            None => return Ok(done),
        }
    }
    Err(file.error("is empty; give a file with a machine in it"))
}

fn pairs(children: Vec<Node>) -> Vec<(Node, Node)> {
    let mut children = children.into_iter();
    std::iter::from_fn(|| Some((children.next()?, children.next()?))).collect()
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        if let Value::Scalar(text) = &self.value { Some(text) } else { None }
    }

    /// A scalar that is a whole number.
    pub fn number(&self) -> Option<u64> {
        self.text()?.trim().parse().ok()
    }

    /// The members of a list; of an empty value, none.
    pub fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(members) => Some(members),
            Value::Scalar(text) if is_null(text) => Some(&[]),
            _ => None,
        }
    }

    /// Keys and values of a map; of an empty value or list, none.
    pub fn map(&self) -> Option<&[(Node, Node)]> {
        match &self.value {
            Value::Map(pairs) => Some(pairs),
            Value::List(members) if members.is_empty() => Some(&[]),
            Value::Scalar(text) if is_null(text) => Some(&[]),
            _ => None,
        }
    }

    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.map()?.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }
}

fn is_null(text: &str) -> bool {
    ["", "~", "null"].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(&File { name: "m.yaml", text }).expect_err("this was accepted")
    }

    #[test]
    fn block_and_flow_style_are_the_same_tree() {
        for text in ["a:\n  - chip: 0\n    chan: 4\n  - 7\n", "a: [ {chip: 0, chan: 4}, 7 ]"] {
            let root = parse(&File { name: "m.yaml", text }).expect("YAML");
            let list = root.get("a").and_then(Node::list).expect("a list");
            assert_eq!(list[0].get("chan").and_then(Node::number), Some(4));
            assert_eq!(list[1].number(), Some(7));
        }
    }

    #[test]
    fn what_blows_up_is_refused_with_its_line() {
        assert!(wrong("a: &a [1]\nb: [*a, *a]\n").starts_with("m.yaml:2: has an alias"));
        assert!(wrong(&"[".repeat(40)).contains("nested more than 32 deep"));
        assert!(wrong(&format!("a:\n- [{}]", "1,".repeat(MOST_NODES + 1))).contains("values"));
        assert!(wrong("a: b\n c: [\n").starts_with("m.yaml:"));
        assert!(wrong("").contains("is empty"));
    }
}
