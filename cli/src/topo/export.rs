//! `penny topo export`: a machine in the form that is asked for.

use penny_cli::foreign::nccl_export;
use toml_edit::Value;

use crate::applied;

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
    let (_, mut document, network) = applied::read(machine)?;
    match format {
        Format::Toml => {
            if machine.contains(':') {
                applied::put(&mut document["name"], Value::from(network.name.as_str()));
            }
            Ok(document.to_string())
        }
        Format::NcclXml => nccl_export::write(&network),
    }
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
            ("dgx-h100:as=nccl", "name = \"ll128\""),
            ("dgx-a100:slice=4KiB", "slice = \"4KiB\""),
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
