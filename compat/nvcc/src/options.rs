//! The options of nvcc: their names, and whom each concerns.

/// An option.
#[derive(Debug)]
pub struct Known {
    /// Its short and long names.
    pub names: &'static [&'static str],
    pub form: Form,
    pub kind: Kind,
    /// What the host's compiler calls it; a value follows at once.
    pub host: &'static str,
}

/// How an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It has none.
    Flag,
    /// `-name value`, `-name=value`.
    Value,
    /// Also `-namevalue`.
    Joined,
    /// As `Joined`, a list with commas.
    JoinedList,
    /// `-name value`, `-name=value`, a list with commas.
    List,
}

/// Whom an option concerns.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Devices only: it is dropped.
    Device,
    /// All uses of the host's compiler, its preprocessor, its compiler, its linker, its list of included files.
    Common,
    Preprocess,
    Compile,
    Link,
    Dependency,
    /// This program.
    Own(Own),
    /// It cannot be done, and why.
    Refused(&'static str),
}

/// What this program does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    HostCompiler,
    ForCompiler,
    ForLinker,
    Library,
    Standard,
    Output,
    Directory,
    Language,
    Compile,
    CompileRelocatable,
    LinkDevice,
    Preprocess,
    Dependencies,
    Archive,
    Link,
    Shared,
    Relocatable,
    Runtime,
    Errors,
    DefaultStream,
    Optimize,
    Machine,
    Forward,
    Dry,
    Verbose,
    Version,
    Help,
    Architectures,
    Home,
}

const fn row(names: &'static [&'static str], form: Form, kind: Kind, host: &'static str) -> Known {
    Known { names, form, kind, host }
}

const fn own(names: &'static [&'static str], form: Form, what: Own) -> Known {
    row(names, form, Kind::Own(what), "")
}

const fn device(names: &'static [&'static str], form: Form) -> Known {
    row(names, form, Kind::Device, "")
}

const NO_CODE: &str = "there is no code of a device; kernels become code of the host, pass -c or nothing";

use Form::{Flag, Joined, JoinedList, List, Value};

/// All options. `-time` and other reports of nvcc about itself are dropped as those of devices are.
pub const OPTIONS: &[Known] = &[
    // What is made.
    own(&["-o", "--output-file"], Value, Own::Output),
    own(&["-odir", "--output-directory"], Value, Own::Directory),
    own(&["-x", "--x"], Value, Own::Language),
    own(&["-c", "--compile"], Flag, Own::Compile),
    own(&["-dc", "--device-c"], Flag, Own::CompileRelocatable),
    own(&["-dw", "--device-w"], Flag, Own::Compile),
    own(&["-dlink", "--device-link"], Flag, Own::LinkDevice),
    own(&["-E", "--preprocess"], Flag, Own::Preprocess),
    row(&["-M", "--generate-dependencies"], Flag, Kind::Own(Own::Dependencies), "-M"),
    row(&["-MM", "--generate-nonsystem-dependencies"], Flag, Kind::Own(Own::Dependencies), "-MM"),
    row(&["-MD", "--generate-dependencies-with-compile"], Flag, Kind::Dependency, "-MD"),
    row(&["-MMD", "--generate-nonsystem-dependencies-with-compile"], Flag, Kind::Dependency, "-MMD"),
    row(&["-MP", "--generate-dependency-targets"], Flag, Kind::Dependency, "-MP"),
    row(&["-MF", "--dependency-output"], Value, Kind::Dependency, "-MF"),
    row(&["-MT", "--dependency-target-name"], Value, Kind::Dependency, "-MT"),
    own(&["-lib", "--lib"], Flag, Own::Archive),
    own(&["-link", "--link"], Flag, Own::Link),
    own(&["-shared", "--shared"], Flag, Own::Shared),
    own(&["-rdc", "--relocatable-device-code"], Value, Own::Relocatable),
    own(&["-cudart", "--cudart"], Value, Own::Runtime),
    row(&["-ptx", "--ptx"], Flag, Kind::Refused(NO_CODE), ""),
    row(&["-cubin", "--cubin"], Flag, Kind::Refused(NO_CODE), ""),
    row(&["-fatbin", "--fatbin"], Flag, Kind::Refused(NO_CODE), ""),
    row(&["-optix-ir", "--optix-ir"], Flag, Kind::Refused(NO_CODE), ""),
    row(&["-ltoir", "--ltoir"], Flag, Kind::Refused(NO_CODE), ""),
    row(
        &["-cuda", "--cuda"],
        Flag,
        Kind::Refused("there is no such form of the host's code; pass -E or -c"),
        "",
    ),
    row(
        &["-run", "--run"],
        Flag,
        Kind::Refused("programs are not run by their compiler; build it and run it"),
        "",
    ),
    // The host's compiler.
    own(&["-ccbin", "--compiler-bindir"], Value, Own::HostCompiler),
    own(&["-Xcompiler", "--compiler-options"], Value, Own::ForCompiler),
    own(&["-Xlinker", "--linker-options"], Value, Own::ForLinker),
    own(&["-forward-unknown-to-host-compiler", "--forward-unknown-to-host-compiler"], Flag, Own::Forward),
    own(&["-forward-unknown-to-host-linker", "--forward-unknown-to-host-linker"], Flag, Own::Forward),
    own(&["-std", "--std"], Value, Own::Standard),
    own(&["-O", "--optimize"], Joined, Own::Optimize),
    own(&["-m", "--machine"], Joined, Own::Machine),
    own(&["-Werror", "--Werror"], List, Own::Errors),
    row(&["-g", "--debug"], Flag, Kind::Common, "-g"),
    row(&["-pg", "--profile"], Flag, Kind::Common, "-pg"),
    row(&["-w", "--disable-warnings"], Flag, Kind::Compile, "-w"),
    row(&["-noeh", "--no-exceptions"], Flag, Kind::Common, "-fno-exceptions"),
    row(
        &["-Wno-deprecated-declarations", "--Wno-deprecated-declarations"],
        Flag,
        Kind::Compile,
        "-Wno-deprecated-declarations",
    ),
    row(&["-I", "--include-path"], JoinedList, Kind::Preprocess, "-I"),
    row(&["-isystem", "--system-include"], List, Kind::Preprocess, "-isystem"),
    row(&["-include", "--pre-include"], List, Kind::Preprocess, "-include"),
    row(&["-D", "--define-macro"], JoinedList, Kind::Preprocess, "-D"),
    row(&["-U", "--undefine-macro"], JoinedList, Kind::Preprocess, "-U"),
    row(&["-L", "--library-path"], JoinedList, Kind::Link, "-L"),
    own(&["-l", "--library"], JoinedList, Own::Library),
    // What programs see of options for devices.
    row(&["-G", "--device-debug"], Flag, Kind::Preprocess, "-D__CUDACC_DEBUG__"),
    row(
        &["-extended-lambda", "--extended-lambda", "-expt-extended-lambda", "--expt-extended-lambda"],
        Flag,
        Kind::Preprocess,
        "-D__CUDACC_EXTENDED_LAMBDA__",
    ),
    row(
        &["-expt-relaxed-constexpr", "--expt-relaxed-constexpr"],
        Flag,
        Kind::Preprocess,
        "-D__CUDACC_RELAXED_CONSTEXPR__",
    ),
    row(&["-use_fast_math", "--use_fast_math"], Flag, Kind::Preprocess, "-D__USE_FAST_MATH__"),
    own(&["-default-stream", "--default-stream"], Value, Own::DefaultStream),
    // This program.
    own(&["-dryrun", "--dryrun"], Flag, Own::Dry),
    own(&["-v", "--verbose"], Flag, Own::Verbose),
    own(&["-V", "--version"], Flag, Own::Version),
    own(&["-h", "--help"], Flag, Own::Help),
    own(&["-arch-ls", "--list-gpu-arch", "-code-ls", "--list-gpu-code"], Flag, Own::Architectures),
    own(&["--make-home"], Value, Own::Home),
    row(&["-keep", "--keep", "-save-temps", "--save-temps"], Flag, Kind::Common, "-save-temps"),
    // Devices only.
    device(&["-gencode", "--generate-code"], Value),
    device(&["-arch", "--gpu-architecture"], Value),
    device(&["-code", "--gpu-code"], Value),
    device(&["-Xptxas", "--ptxas-options"], Value),
    device(&["-Xnvlink", "--nvlink-options"], Value),
    device(&["-Xcudafe", "--cudafe-options"], Value),
    device(&["-Xfatbin", "--fatbin-options"], Value),
    device(&["-Xarchive", "--archive-options"], Value),
    device(&["-maxrregcount", "--maxrregcount"], Value),
    device(&["-t", "--threads"], Joined),
    device(&["-split-compile", "--split-compile"], Value),
    device(&["-split-compile-extended", "--split-compile-extended"], Value),
    device(&["-ftz", "--ftz"], Value),
    device(&["-prec-div", "--prec-div"], Value),
    device(&["-prec-sqrt", "--prec-sqrt"], Value),
    device(&["-fmad", "--fmad"], Value),
    device(&["-dopt", "--dopt"], Value),
    device(&["-Ofc", "--Ofast-compile"], Value),
    device(&["-opt-info", "--optimization-info"], Value),
    device(&["-diag-suppress", "--diag-suppress"], Value),
    device(&["-diag-warn", "--diag-warn"], Value),
    device(&["-diag-error", "--diag-error"], Value),
    device(&["-cudadevrt", "--cudadevrt"], Value),
    device(&["-ldir", "--libdevice-directory"], Value),
    device(&["-target-dir", "--target-directory"], Value),
    device(&["-keep-dir", "--keep-dir"], Value),
    device(&["-time", "--time"], Value),
    device(&["-compress-mode", "--compress-mode"], Value),
    device(&["-jump-table-density", "--jump-table-density"], Value),
    device(&["-fdevice-time-trace", "--fdevice-time-trace"], Value),
    device(&["-lineinfo", "--generate-line-info"], Flag),
    device(&["-res-usage", "--resource-usage"], Flag),
    device(&["-src-in-ptx", "--source-in-ptx"], Flag),
    device(&["-restrict", "--restrict"], Flag),
    device(&["-dlto", "--dlink-time-opt"], Flag),
    device(&["-lto", "--lto"], Flag),
    device(&["-ewp", "--extensible-whole-program"], Flag),
    device(&["-no-compress", "--no-compress"], Flag),
    device(&["-objtemp", "--objdir-as-tempdir"], Flag),
    device(&["-extra-device-vectorization", "--extra-device-vectorization"], Flag),
    device(&["-gen-opt-lto", "--gen-opt-lto"], Flag),
    device(&["-astoolspatch", "--astoolspatch"], Flag),
    device(&["-err-no", "--display-error-number"], Flag),
    device(&["-no-err-no", "--no-display-error-number"], Flag),
    device(&["-nohdmoveforward", "--no-host-device-move-forward"], Flag),
    device(&["-nohdinitlist", "--no-host-device-initializer-list"], Flag),
    device(&["-allow-unsupported-compiler", "--allow-unsupported-compiler"], Flag),
    device(&["-Wno-deprecated-gpu-targets", "--Wno-deprecated-gpu-targets"], Flag),
    device(&["-Wreorder", "--Wreorder"], Flag),
    device(&["-Wdefault-stream-launch", "--Wdefault-stream-launch"], Flag),
    device(&["-Wmissing-launch-bounds", "--Wmissing-launch-bounds"], Flag),
    device(&["-Wext-lambda-captures-this", "--Wext-lambda-captures-this"], Flag),
];

/// Beginnings of options that nvcc does not know and the host's compiler does.
pub const HOST: [&str; 14] = [
    "-f",
    "-W",
    "-m",
    "-pthread",
    "-pedantic",
    "-rdynamic",
    "-static-lib",
    "-pie",
    "-no-pie",
    "-nostd",
    "-ansi",
    "-idirafter",
    "-iquote",
    "-B",
];

impl Known {
    /// Returns what the host's compiler is given.
    pub fn for_host(&self, value: &str) -> Vec<String> {
        let lists = matches!(self.form, Form::List | Form::JoinedList);
        let values = if lists { crate::arguments::divide_list(value) } else { vec![value.to_owned()] };
        match self.host {
            "-MF" | "-MT" | "-include" | "-isystem" => {
                values.into_iter().flat_map(|value| [self.host.to_owned(), value]).collect()
            }
            host => values.into_iter().map(|value| format!("{host}{value}")).collect(),
        }
    }
}

/// Returns the option that a word is, and the value that stands in the word.
pub fn find(word: &str) -> Option<(&'static Known, Option<&str>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let is_it = |known: &&Known| known.names.contains(&name) && (value.is_none() || known.form != Form::Flag);
    if let Some(known) = OPTIONS.iter().find(is_it) {
        return Some((known, value));
    }
    let joined = OPTIONS.iter().filter(|known| matches!(known.form, Form::Joined | Form::JoinedList));
    let short = joined.map(|known| (known, known.names[0]));
    short
        .filter(|(known, name)| {
            let value = word.strip_prefix(name).unwrap_or("");
            // `-t4` is a number of threads, and `-m64` a machine; other words that begin so are something else.
            let is_number = value.bytes().all(|digit| digit.is_ascii_digit());
            !value.is_empty() && (known.form == Form::JoinedList || is_number || *name == "-O")
        })
        .map(|(known, name)| (known, Some(&word[name.len()..])))
        .next()
}
