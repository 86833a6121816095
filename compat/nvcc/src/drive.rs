//! Runs the host's compiler: preprocess, rewrite, compile each input, then link.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::{Arguments, Input, Language, Phase};
use crate::places::Places;
use crate::rewrite;
use crate::version::MACROS;

/// Why nothing was made. Empty: the host's compiler has said it.
pub type Failure = String;

/// Does what a command line asks for.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = tempfile::Builder::new()
        .prefix("penny-nvcc-")
        .tempdir()
        .map_err(|error| format!("a temporary folder: {error}"))?;
    let driver = Driver { arguments, places: Places::find()?, folder: folder.path() };
    match arguments.phase {
        Phase::Compile => driver.each(|input, to| driver.compile(input, to)),
        Phase::Preprocess => {
            driver.sources().try_for_each(|input| driver.preprocess(input, arguments.output.as_deref()))
        }
        Phase::Dependencies => driver.sources().try_for_each(|input| driver.depend(input)),
        Phase::LinkDevice => driver.link_device(),
        Phase::Archive => driver.archive(),
        Phase::Link => driver.link(),
    }
}

struct Driver<'a> {
    arguments: &'a Arguments,
    places: Places,
    /// For files that nobody needs later.
    folder: &'a Path,
}

impl Driver<'_> {
    fn sources(&self) -> impl Iterator<Item = &Input> {
        self.arguments.inputs.iter().filter(|input| input.language != Language::Object)
    }

    /// Makes an object of each input, named by `-o` or after the input.
    fn each(&self, make: impl Fn(&Input, &Path) -> Result<(), Failure>) -> Result<(), Failure> {
        for input in self.sources() {
            let mut name = OsString::from(input.path.file_stem().unwrap_or(OsStr::new("a")));
            name.push(".o");
            let name = PathBuf::from(name);
            let named = self.arguments.directory.as_ref().map_or(name.clone(), |folder| folder.join(&name));
            make(input, self.arguments.output.as_deref().unwrap_or(&named))?;
        }
        Ok(())
    }

    /// Begins a command of the host's compiler.
    fn compiler(&self) -> Command {
        let given =
            self.arguments.compiler.clone().or_else(|| std::env::var_os("NVCC_CCBIN").map(PathBuf::from));
        let program = match given {
            Some(folder) if folder.is_dir() => folder.join("g++"),
            Some(program) => program,
            None => "g++".into(),
        };
        let mut command = Command::new(program);
        command.args(&self.arguments.common);
        command
    }

    /// Adds what the preprocessor needs for a language.
    fn preprocessing(&self, command: &mut Command, language: Language) {
        command.args(&self.arguments.preprocess);
        let own = self.places.include.iter().flat_map(|folder| [OsStr::new("-isystem"), folder.as_os_str()]);
        command.args(own);
        if language == Language::Cuda {
            command.args(MACROS).args(["-include", "cuda_runtime.h"]);
            if self.arguments.is_relocatable {
                command.arg("-D__CUDACC_RDC__");
            }
        }
    }

    fn standard(&self, command: &mut Command, language: Language) {
        // An option of C++ is none of C.
        let fits = |word: &&String| {
            language != Language::C || !word.starts_with("-std=c++") && !word.starts_with("-std=gnu++")
        };
        command.args(self.arguments.compile.iter().filter(fits));
    }

    fn language(language: Language) -> [&'static str; 2] {
        ["-x", if language == Language::C { "c" } else { "c++" }]
    }

    /// Preprocesses an input to a file or to the output.
    fn preprocess(&self, input: &Input, to: Option<&Path>) -> Result<(), Failure> {
        let mut command = self.compiler();
        self.standard(&mut command, input.language);
        self.preprocessing(&mut command, input.language);
        command.arg("-E").args(Self::language(input.language)).arg(&input.path);
        if let Some(to) = to {
            command.arg("-o").arg(to);
        }
        self.command(command)
    }

    /// Lists the files that an input includes.
    fn depend(&self, input: &Input) -> Result<(), Failure> {
        let mut command = self.compiler();
        self.standard(&mut command, input.language);
        self.preprocessing(&mut command, input.language);
        command.args(&self.arguments.dependencies).args(Self::language(input.language)).arg(&input.path);
        if let Some(to) = &self.arguments.output {
            command.arg("-o").arg(to);
        }
        self.command(command)
    }

    /// Makes an object.
    fn compile(&self, input: &Input, to: &Path) -> Result<(), Failure> {
        if input.language != Language::Cuda {
            let mut command = self.compiler();
            self.standard(&mut command, input.language);
            self.preprocessing(&mut command, input.language);
            self.listing(&mut command, to);
            command.args(Self::language(input.language)).arg("-c").arg(&input.path).arg("-o").arg(to);
            return self.command(command);
        }
        let stem = input.path.file_stem().unwrap_or(OsStr::new("a")).to_owned();
        let (plain, host) = (self.file(&stem, "plain.ii"), self.file(&stem, "host.ii"));
        let mut command = self.compiler();
        self.standard(&mut command, input.language);
        self.preprocessing(&mut command, input.language);
        self.listing(&mut command, to);
        command.args(["-E", "-x", "c++"]).arg(&input.path).arg("-o").arg(&plain);
        self.command(command)?;
        if self.arguments.is_dry {
            eprintln!("#$ penny-nvcc rewrites {} to {}", plain.display(), host.display());
        } else {
            let text = std::fs::read(&plain).map_err(|error| format!("{}: {error}", plain.display()))?;
            let text = String::from_utf8(text)
                .unwrap_or_else(|error| error.into_bytes().iter().map(|&byte| char::from(byte)).collect());
            let text = rewrite::rewrite(text, self.arguments.is_relocatable).map_err(|failure| failure.0)?;
            std::fs::write(&host, text).map_err(|error| format!("{}: {error}", host.display()))?;
        }
        let mut command = self.compiler();
        self.standard(&mut command, input.language);
        command.args(["-x", "c++-cpp-output", "-c"]).arg(&host).arg("-o").arg(to);
        self.command(command)
    }

    /// Adds the options that list included files beside compiling.
    fn listing(&self, command: &mut Command, object: &Path) {
        let given = &self.arguments.dependencies;
        if given.is_empty() {
            return;
        }
        command.args(given);
        if !given.iter().any(|word| word == "-MF") {
            command.arg("-MF").arg(object.with_extension("d"));
        }
        if !given.iter().any(|word| word == "-MT") {
            command.arg("-MT").arg(object);
        }
    }

    fn file(&self, stem: &OsStr, ending: &str) -> PathBuf {
        let mut name = OsString::from(stem);
        name.push(".");
        name.push(ending);
        self.folder.join(name)
    }

    /// Makes the objects of all inputs; what the linker gets in their order.
    fn objects(&self) -> Result<Vec<PathBuf>, Failure> {
        let make = |(i, input): (usize, &Input)| {
            if input.language == Language::Object {
                return Ok(input.path.clone());
            }
            let object = self.folder.join(format!("{i}.o"));
            self.compile(input, &object)?;
            Ok(object)
        };
        self.arguments.inputs.iter().enumerate().map(make).collect()
    }

    fn link(&self) -> Result<(), Failure> {
        let objects = self.objects()?;
        let mut command = self.compiler();
        if self.arguments.is_shared {
            command.arg("-shared");
        }
        for (i, object) in objects.iter().enumerate() {
            command.args(self.arguments.link.iter().filter(|(at, _)| *at == i).map(|(_, word)| word));
            command.arg(object);
        }
        command.args(self.arguments.link.iter().filter(|(at, _)| *at >= objects.len()).map(|(_, word)| word));
        command.arg("-L").arg(&self.places.library);
        if !self.arguments.without_runtime {
            let mut rpath = OsString::from("-Wl,-rpath,");
            rpath.push(&self.places.library);
            command.arg(rpath).arg("-lcudart");
        }
        command.arg("-o").arg(self.arguments.output.as_deref().unwrap_or(Path::new("a.out")));
        self.command(command)
    }

    /// Makes the object that a link with relocatable code expects. Nothing has to be in it.
    fn link_device(&self) -> Result<(), Failure> {
        let source = self.folder.join("device.c");
        std::fs::write(&source, "typedef int penny_nvcc_device_link;\n")
            .map_err(|error| format!("{}: {error}", source.display()))?;
        let mut command = self.compiler();
        command.args(["-x", "c", "-c"]).arg(&source);
        command.arg("-o").arg(self.arguments.output.as_deref().unwrap_or(Path::new("a_dlink.o")));
        self.command(command)
    }

    fn archive(&self) -> Result<(), Failure> {
        let objects = self.objects()?;
        let mut command = Command::new("ar");
        command.arg("rcs").arg(self.arguments.output.as_deref().unwrap_or(Path::new("a.a"))).args(objects);
        self.command(command)
    }

    /// Runs a command, or only prints it.
    fn command(&self, mut command: Command) -> Result<(), Failure> {
        if self.arguments.is_dry || self.arguments.is_verbose {
            eprintln!("#$ {}", written(&command));
        }
        if self.arguments.is_dry {
            return Ok(());
        }
        let program = command.get_program().display().to_string();
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) if status.code().is_some() => Err(String::new()),
            Ok(status) => Err(format!("{program} ended by {status}")),
            Err(error) => {
                Err(format!("{program}: {error}; install it, or name the host's compiler with -ccbin"))
            }
        }
    }
}

/// Returns a command as one would type it.
fn written(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = |word: &OsStr| {
        let text = word.to_string_lossy().into_owned();
        let is_plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=+,:@%".contains(&byte));
        if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    words.map(quoted).collect::<Vec<_>>().join(" ")
}
