//! `penny topo export`: a machine in the form that is asked for.

use penny::sim::topology::{MachineSpec, Network};
use penny_cli::foreign::nccl_export;
use toml_edit::{DocumentMut, Item, Value};

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Penny's own file, comments included, with the arguments put in
    Toml,
    /// NCCL's topology XML of one node
    NcclXml,
}

/// The machine in a format.
pub fn text(machine: &str, format: Format) -> Result<String, String> {
    let spec = MachineSpec::read(machine).map_err(|e| e.message.clone())?;
    // First of all: whatever is wrong with it is said here, with file and line.
    let network = spec.open().map_err(|e| e.message.clone())?;
    match format {
        Format::Toml => toml(&spec, &network),
        Format::NcclXml => nccl_export::write(&network),
    }
}

/// The file with each argument in the place of the key that it replaces, or added to the shape.
fn toml(spec: &MachineSpec, network: &Network) -> Result<String, String> {
    if spec.arguments.is_empty() {
        return Ok(spec.text.clone());
    }
    let wrong = |what: &str| format!("{}: {what}; print the preset and edit it by hand", spec.file);
    let mut document: DocumentMut = spec.text.parse().map_err(|_| wrong("cannot be edited"))?;
    put(&mut document["name"], Value::from(network.name.as_str()));
    let shapes = ["switch", "nodes", "ring", "line", "mesh", "torus", "edges"];
    let shape = shapes.into_iter().find(|shape| document.get(shape).is_some_and(Item::is_table));
    let shape = shape.ok_or_else(|| wrong("has no table for its shape"))?;
    for (key, text) in &spec.arguments {
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
    Ok(document.to_string())
}

/// Replace a value and keep the comment behind it.
fn put(item: &mut Item, mut value: Value) {
    if let Some(old) = item.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::topology::{parse, presets};

    #[test]
    fn an_exported_machine_is_the_machine_with_its_arguments() {
        for (machine, line) in [
            ("dgx-h100:nodes=2", "nodes = 2"),
            ("tpu-v5e:shape=4x8,direct=powers_of_two", "direct = \"powers_of_two\""),
            ("n300:shape=4,links=1", "shape = \"4\""),
            ("galaxy:links=2", "links = 2"),
        ] {
            let text = text(machine, Format::Toml).unwrap();
            assert!(text.contains(line), "{text}");
            let (again, before) =
                (parse("m.toml", &text, &[]).unwrap(), penny::sim::topology::open(machine).unwrap());
            assert_eq!((&again.name, again.shape), (&before.name, before.shape));
            assert_eq!((again.classes, again.ports), (before.classes, before.ports));
        }
    }

    #[test]
    fn a_preset_without_arguments_is_exported_as_it_is() {
        for (name, file) in presets() {
            assert_eq!(text(name, Format::Toml).as_deref(), Ok(*file));
        }
        assert!(text("dgx-h100:nodes=0", Format::Toml).is_err_and(|why| why.contains("nodes")));
    }
}
