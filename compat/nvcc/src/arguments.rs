//! The command line. `options` says whom each option concerns.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::options::{self, Form, Kind, Known, Own};

/// How far inputs are brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A program or a shared library.
    #[default]
    Link,
    /// Objects.
    Compile,
    /// Preprocessed text.
    Preprocess,
    /// The files that an input includes.
    Dependencies,
    /// The object with the links of device code, which is empty.
    LinkDevice,
    /// A static library.
    Archive,
}

/// What is only printed or made for other calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Version,
    Help,
    Architectures,
    Home(PathBuf),
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Cuda,
    C,
    Cxx,
    /// For the linker.
    Object,
}

/// An input with its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub path: PathBuf,
    pub language: Language,
}

/// What a command line asks for.
#[derive(Debug, Default)]
pub struct Arguments {
    pub phase: Phase,
    pub inputs: Vec<Input>,
    pub output: Option<PathBuf>,
    /// Where objects go that `-o` does not name.
    pub directory: Option<PathBuf>,
    /// The host's compiler, or the folder that it is in.
    pub compiler: Option<PathBuf>,
    /// For all uses of the host's compiler, for its preprocessor, for its compiler.
    pub common: Vec<String>,
    pub preprocess: Vec<String>,
    pub compile: Vec<String>,
    /// For the linker, with the number of inputs before it.
    pub link: Vec<(usize, String)>,
    /// For the list of included files.
    pub dependencies: Vec<String>,
    /// Variables and functions of devices are known to other files.
    pub is_relocatable: bool,
    pub is_shared: bool,
    /// Print the commands instead of running them; beside running them.
    pub is_dry: bool,
    pub is_verbose: bool,
    pub without_runtime: bool,
    pub ask: Option<Ask>,
}

/// Reads a command line without the program's name.
pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, String> {
    let text = |word: OsString| word.into_string().map_err(|word| format!("{} is not UTF-8", word.display()));
    let words = words.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let mut reader = Reader::default();
    let mut words = expand(words, 0)?.into_iter();
    while let Some(word) = words.next() {
        if word.len() > 1 && word.starts_with('-') {
            reader.option(&word, &mut words)?;
        } else {
            let language = language(&word, &reader.language)?;
            reader.made.inputs.push(Input { path: word.into(), language });
        }
    }
    reader.finish()
}

/// Returns the language of a file: the one that `-x` has given, or that of its ending.
fn language(path: &str, given: &str) -> Result<Language, String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending =
        if given.is_empty() { name.rsplit_once('.').map_or("", |(_, ending)| ending) } else { given };
    Ok(match ending {
        "cu" => Language::Cuda,
        "c" => Language::C,
        "cc" | "cpp" | "cxx" | "c++" | "C" | "cp" => Language::Cxx,
        "o" | "obj" | "a" | "so" => Language::Object,
        _ if name.contains(".so.") => Language::Object,
        "ptx" | "cubin" | "fatbin" | "gpu" | "ltoir" => {
            return Err(format!("{path} is code of a device; pass the .cu file that it was made of"));
        }
        _ => {
            return Err(format!(
                "{path} has an ending that is not known; pass -x cu, -x c++ or -x c before it"
            ));
        }
    })
}

/// Puts the options of files in their place.
fn expand(words: Vec<String>, depth: usize) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let file = match word.split_once('=') {
            Some(("-optf" | "--options-file", file)) => file.to_owned(),
            _ if matches!(word.as_str(), "-optf" | "--options-file") => {
                words.next().ok_or_else(|| format!("{word} needs a file"))?
            }
            _ => match word.strip_prefix('@') {
                Some(file) => file.to_owned(),
                None => {
                    all.push(word);
                    continue;
                }
            },
        };
        if depth == 8 {
            return Err(format!(
                "the option file {file} belongs to a chain of more than 8; pass the options themselves"
            ));
        }
        let text =
            std::fs::read_to_string(&file).map_err(|error| format!("the option file {file}: {error}"))?;
        all.extend(expand(divide_words(&text), depth + 1)?);
    }
    Ok(all)
}

/// Divides a text at blanks, as a shell does with quotes.
fn divide_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => word.get_or_insert_default().extend(letters.next()),
            (_, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Divides a list at its commas. A comma behind a backslash or in quotes belongs to a part.
pub fn divide_list(value: &str) -> Vec<String> {
    let (mut parts, mut part, mut is_quoted, mut is_escaped) = (Vec::new(), String::new(), false, false);
    for letter in value.chars() {
        match letter {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => is_quoted = !is_quoted,
            ',' if !is_escaped && !is_quoted => parts.push(std::mem::take(&mut part)),
            _ => {
                if is_escaped && letter != ',' {
                    part.push('\\');
                }
                part.push(letter);
            }
        }
        is_escaped = false;
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

#[derive(Default)]
struct Reader {
    made: Arguments,
    /// What `-x` has given for the inputs that follow.
    language: String,
    phase: Option<Phase>,
    /// Unknown options are for the host's compiler.
    forwards: bool,
}

impl Reader {
    fn option(&mut self, word: &str, words: &mut impl Iterator<Item = String>) -> Result<(), String> {
        let Some((known, attached)) = options::find(word) else {
            if self.forwards || options::HOST.iter().any(|start| word.starts_with(start)) {
                self.made.common.push(word.to_owned());
                return Ok(());
            }
            return Err(format!(
                "the option {word} is not known; pass what is for the host's compiler with -Xcompiler"
            ));
        };
        let value = match (known.form, attached) {
            (Form::Flag, _) => String::new(),
            (_, Some(value)) => value.to_owned(),
            // -O alone is the host's.
            (Form::Joined, None) if known.names[0] == "-O" => String::new(),
            (_, None) => words.next().ok_or_else(|| format!("{word} needs a value"))?,
        };
        match known.kind {
            Kind::Device => {}
            Kind::Refused(why) => return Err(format!("{word}: {why}")),
            Kind::Common => self.made.common.extend(known.for_host(&value)),
            Kind::Preprocess => self.made.preprocess.extend(known.for_host(&value)),
            Kind::Compile => self.made.compile.extend(known.for_host(&value)),
            Kind::Dependency => self.made.dependencies.extend(known.for_host(&value)),
            Kind::Link => self.link(known.for_host(&value)),
            Kind::Own(what) => self.own(what, known, value)?,
        }
        Ok(())
    }

    fn link(&mut self, words: impl IntoIterator<Item = String>) {
        let at = self.made.inputs.len();
        self.made.link.extend(words.into_iter().map(|word| (at, word)));
    }

    fn own(&mut self, what: Own, known: &Known, value: String) -> Result<(), String> {
        let made = &mut self.made;
        match what {
            Own::HostCompiler => made.compiler = Some(value.into()),
            Own::ForCompiler => made.common.extend(divide_list(&value)),
            Own::ForLinker => self.link(divide_list(&value).into_iter().map(|word| format!("-Wl,{word}"))),
            Own::Library => {
                // Parts of CUDA that libcudart.so has.
                let is_here = |name: &String| {
                    !matches!(name.as_str(), "cudart" | "cudart_static" | "cudadevrt" | "culibos")
                };
                self.link(divide_list(&value).into_iter().filter(is_here).map(|name| format!("-l{name}")));
            }
            Own::Standard => match value.trim_start_matches("gnu").trim_start_matches("c") {
                "++03" | "++98" => {
                    return Err(format!("-std={value}: kernels need C++11; pass -std=c++11 or later"));
                }
                _ => made.compile.push(format!("-std={value}")),
            },
            Own::Output => made.output = Some(value.into()),
            Own::Directory => made.directory = Some(value.into()),
            Own::Language => {
                if !matches!(value.as_str(), "cu" | "c++" | "c") {
                    return Err(format!("-x {value}: pass cu, c++ or c"));
                }
                self.language = value;
            }
            Own::Compile => self.phase = Some(Phase::Compile),
            Own::CompileRelocatable => (self.phase, made.is_relocatable) = (Some(Phase::Compile), true),
            Own::LinkDevice => self.phase = Some(Phase::LinkDevice),
            Own::Preprocess => self.phase = Some(Phase::Preprocess),
            Own::Dependencies => {
                self.phase = Some(Phase::Dependencies);
                made.dependencies.push(known.host.to_owned());
            }
            Own::Archive => self.phase = Some(Phase::Archive),
            Own::Link => self.phase = Some(Phase::Link),
            Own::Shared => made.is_shared = true,
            Own::Relocatable => made.is_relocatable = one_of("-rdc", &value, &["true", "false"])? == 0,
            Own::Runtime => {
                made.without_runtime = one_of("-cudart", &value, &["none", "shared", "static"])? == 0
            }
            Own::Errors => {
                if divide_list(&value).iter().any(|kind| kind == "all-warnings") {
                    made.compile.push("-Werror".to_owned());
                }
            }
            Own::DefaultStream => {
                if value == "per-thread" {
                    return Err("--default-stream per-thread: NULL is the legacy stream here; pass cudaStreamPerThread to the calls".into());
                }
                one_of("--default-stream", &value, &["legacy", "null"])?;
            }
            Own::Optimize => made.common.push(format!("-O{value}")),
            Own::Machine => drop(one_of("-m", &value, &["64"])?),
            Own::Forward => self.forwards = true,
            Own::Dry => made.is_dry = true,
            Own::Verbose => made.is_verbose = true,
            Own::Version => made.ask = Some(Ask::Version),
            Own::Help => made.ask = Some(Ask::Help),
            Own::Architectures => made.ask = Some(Ask::Architectures),
            Own::Home => made.ask = Some(Ask::Home(value.into())),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Arguments, String> {
        let made = &mut self.made;
        made.phase = self.phase.unwrap_or_default();
        if made.ask.is_some() {
            return Ok(self.made);
        }
        let sources = made.inputs.iter().filter(|input| input.language != Language::Object).count();
        let is_each = matches!(made.phase, Phase::Compile | Phase::Preprocess | Phase::Dependencies);
        match () {
            () if made.inputs.is_empty() => Err("there is no input file; pass a .cu file, or --help".into()),
            () if is_each && sources == 0 => {
                Err("there is nothing to compile; pass a .cu, .cc or .c file".into())
            }
            () if is_each && sources > 1 && made.output.is_some() => {
                Err("-o names one file, and there are several inputs; leave it out, or compile one at a time"
                    .into())
            }
            () => Ok(self.made),
        }
    }
}

/// Returns which of some values one is.
fn one_of(option: &str, value: &str, all: &[&str]) -> Result<usize, String> {
    let found = all.iter().position(|one| *one == value);
    found.ok_or_else(|| format!("{option} {value}: pass {}", all.join(" or ")))
}
