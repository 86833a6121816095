//! How machines are named on command lines: `dgx-h100:nodes=2`, `./machine.toml`.

use super::Network;
use super::file::{parse, presets};
use crate::error::{Error, Result};

/// A machine's file, and what replaces keys of its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// A preset's name or the file's.
    pub file: String,
    /// The file as it is.
    pub text: String,
    /// Keys and values, in order; later ones count.
    pub arguments: Vec<(String, String)>,
}

impl Spec {
    /// A preset with arguments, `dgx-h100:nodes=2`, or a file, `./machine.toml`, which is read.
    pub fn read(spec: &str) -> Result<Spec> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let mut arguments = Vec::new();
        // A list keeps its commas: placement=[0,8,1,9].
        let mut depth = 0;
        let parts = rest.split(|c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0 && [',', ':'].contains(&c)
        });
        for argument in parts.filter(|a| !a.is_empty()) {
            let Some((key, value)) = argument.split_once('=') else {
                return Err(Error::argument(format!(
                    "{spec}: `{argument}` is no argument; write it like nodes=2"
                )));
            };
            arguments.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        let text = if name.contains('/') || name.ends_with(".toml") {
            std::fs::read_to_string(name)
                .map_err(|why| Error::argument(format!("{name}: cannot be read ({why}); name a TOML file")))?
        } else if let Some((_, text)) = presets().iter().find(|(known, _)| *known == name) {
            (*text).to_owned()
        } else {
            let known: Vec<&str> = presets().iter().map(|(name, _)| *name).collect();
            return Err(Error::argument(format!(
                "there is no machine `{name}`; give a file such as ./{name}.toml, or one of {}",
                known.join(", ")
            )));
        };
        Ok(Spec { file: name.to_owned(), text, arguments })
    }

    /// The machine.
    pub fn open(&self) -> Result<Network> {
        parse(&self.file, &self.text, &self.arguments)
    }
}

/// A preset with arguments, `dgx-h100:nodes=2`, or a file, `./machine.toml`.
pub fn open(spec: &str) -> Result<Network> {
    Spec::read(spec)?.open()
}
