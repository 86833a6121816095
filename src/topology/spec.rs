//! How machines are named on command lines: `dgx-h100:nodes=2`, `./machine.toml`.

use super::Network;
use super::file::{parse, presets};
use crate::error::{Error, Result};
use crate::spelling;
use std::io::Read;

/// A machine's file, and what replaces keys of its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// A preset's name or the file's.
    pub file: String,
    /// The file as it is.
    pub text: String,
    /// Keys and values, in order; each key once.
    pub arguments: Vec<(String, String)>,
}

impl MachineSpec {
    /// A preset with arguments, `dgx-h100:nodes=2`, or a file, `./machine.toml`, which is read.
    pub fn read(spec: &str) -> Result<MachineSpec> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let mut arguments: Vec<(String, String)> = Vec::new();
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
            let (key, value) = (key.trim(), value.trim());
            if let Some((_, first)) = arguments.iter().find(|(known, _)| known == key) {
                return Err(Error::argument(format!(
                    "{spec}: the argument {key} is given twice, {first} and {value}; give it once"
                )));
            }
            arguments.push((key.to_owned(), value.to_owned()));
        }
        let text = if name.contains('/') || name.ends_with(".toml") {
            text_of(name)?
        } else if let Some((_, text)) = presets().iter().find(|(known, _)| *known == name) {
            (*text).to_owned()
        } else {
            let known: Vec<&str> = presets().iter().map(|(name, _)| *name).collect();
            return Err(Error::argument(format!(
                "there is no machine `{name}`{}; give a file such as ./{name}.toml, or one of {}",
                spelling::hint(name, known.iter().copied()),
                known.join(", ")
            )));
        };
        Ok(MachineSpec { file: name.to_owned(), text, arguments })
    }

    /// The machine.
    pub fn open(&self) -> Result<Network> {
        parse(&self.file, &self.text, &self.arguments)
    }
}

/// Bytes of the longest file that declares a machine.
const MOST_BYTES: u64 = 16 << 20;

/// The text of a file that declares a machine. Devices and pipes are refused: a read of one may last for ever.
pub fn text_of(name: &str) -> Result<String> {
    let unreadable =
        |why: std::io::Error| Error::argument(format!("{name}: cannot be read ({why}); name a TOML file"));
    if !std::fs::metadata(name).map_err(unreadable)?.is_file() {
        return Err(Error::argument(format!("{name} is not a regular file; name a TOML file")));
    }
    let mut text = String::new();
    let file = std::fs::File::open(name).map_err(unreadable)?;
    // One byte more than the limit tells that there is more.
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Error::argument(format!(
            "{name} has more than {} MiB, which no declared machine needs; name a TOML file",
            MOST_BYTES >> 20
        )));
    }
    Ok(text)
}

/// A preset with arguments, `dgx-h100:nodes=2`, or a file, `./machine.toml`.
pub fn open(spec: &str) -> Result<Network> {
    MachineSpec::read(spec)?.open()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_device_that_never_ends_and_a_file_without_measure_are_refused_by_name() {
        let file = tempfile();
        for (name, why) in
            [("/dev/zero", "/dev/zero is not a regular file"), (&*file, "has more than 16 MiB")]
        {
            let refused = text_of(name).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
            assert!(refused.message.contains(why), "{}", refused.message);
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn an_argument_that_is_given_twice_is_refused_by_name() {
        for (spec, why) in [
            ("dgx-h100:nodes=2,nodes=3", "the argument nodes is given twice, 2 and 3; give it once"),
            ("dgx-h100:nodes=2:nodes=2", "the argument nodes is given twice, 2 and 2; give it once"),
            ("dgx-h100:as=nccl, as =nccl-2.26", "the argument as is given twice, nccl and nccl-2.26;"),
        ] {
            let refused = MachineSpec::read(spec).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
            assert!(refused.message.starts_with(&format!("{spec}: {why}")), "{}", refused.message);
        }
    }

    /// A file that takes no room and is longer than any machine's.
    fn tempfile() -> String {
        let path = std::env::temp_dir().join(format!("penny-long-machine-{}.toml", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(MOST_BYTES + 1).unwrap();
        path.display().to_string()
    }
}
