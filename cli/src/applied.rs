//! A machine's file with the arguments of its name put in, as text that declares the same machine without them.

use penny::sim::topology::{MachineSpec, Network, of_library};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Value};

const SHAPES: [&str; 9] = ["switch", "nodes", "cluster", "ring", "line", "mesh", "torus", "axes", "edges"];

/// The file, and the machine that it declares. Comments stay.
pub fn read(spec: &str) -> Result<(String, DocumentMut, Network), String> {
    let spec = MachineSpec::read(spec).map_err(|e| e.message.clone())?;
    // First of all: whatever is wrong with it is said here, with file and line.
    let network = spec.open().map_err(|e| e.message.clone())?;
    let wrong = |what: &str| format!("{}: {what}; print the preset and edit it by hand", spec.file);
    let mut document: DocumentMut = spec.text.parse().map_err(|_| wrong("cannot be edited"))?;
    let shape = SHAPES.into_iter().find(|shape| document.get(shape).is_some_and(Item::is_table_like));
    let shape = shape.ok_or_else(|| wrong("has no table for its shape"))?;
    for (key, text) in &spec.arguments {
        match key.as_str() {
            "slice" | "launch" => put(&mut document[key.as_str()], Value::from(text.as_str())),
            "placement" => {
                let value = text.parse().unwrap_or_else(|_| Value::from(text.as_str()));
                put(&mut document["placement"], value);
            }
            "as" => {
                if let Some(protocols) = document.get_mut("protocol").and_then(Item::as_array_of_tables_mut) {
                    select(protocols, text);
                }
            }
            key => {
                let value = match (text.parse::<i64>(), text.parse::<bool>()) {
                    // A grid of one axis is text too, and stays it.
                    (Ok(number), _) if document[shape].get(key).is_none_or(|old| old.is_integer()) => {
                        Value::from(number)
                    }
                    (_, Ok(flag)) => Value::from(flag),
                    _ => Value::from(text.as_str()),
                };
                put(&mut document[shape][key], value);
            }
        }
    }
    Ok((spec.file, document, network))
}

/// Keeps the protocols of no library and those of one, which then are of no library.
fn select(protocols: &mut ArrayOfTables, library: &str) {
    let of = |table: &toml_edit::Table| table.get("as").and_then(Item::as_str).map(str::to_owned);
    protocols.retain(|table| of(table).is_none_or(|names| of_library(&names, library)));
    for table in protocols.iter_mut() {
        table.remove("as");
    }
}

/// Replaces a value and keeps the comment behind it.
pub fn put(item: &mut Item, mut value: Value) {
    if let Some(old) = item.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::topology::{open, parse};

    #[test]
    fn the_text_declares_what_the_name_with_its_arguments_does() {
        for spec in [
            "dgx-h100:nodes=2,as=nccl",
            "dgx-h100:nodes=2,as=nccl-2.26",
            "dgx-a100:nodes=2,slice=64KiB",
            "dgx-h100:nodes=2,placement=[0,8,1,9]",
            "tpu-v5e:shape=4x8,direct=powers_of_two",
            "n300:shape=4,links=1",
            "t3000",
        ] {
            let (_, document, before) = read(spec).unwrap();
            let after = parse("m.toml", &document.to_string(), &[]).unwrap();
            assert_eq!(after.hash(), before.hash(), "{spec}\n{document}");
            assert_eq!(
                (&after.protocols, &after.placement),
                (&before.protocols, &before.placement),
                "{spec}"
            );
            assert_eq!(open(spec).unwrap().slicing, after.slicing, "{spec}");
        }
        assert!(read("dgx-h100:as=mpi").is_err_and(|why| why.contains("known here: nccl")));
    }
}
