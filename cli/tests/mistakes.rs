//! Mistakes of newcomers: what was typed, the exit status, and what is printed. Each is one error, which names what was typed and the remedy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use penny_ffi_tests::{compiler, library, root};

/// A command of a shell, its exit status, and texts of its error.
type Mistake = (&'static str, i32, &'static [&'static str]);

const COMMAND_LINE: &[Mistake] = &[
    ("penny rnu -n 2 true", 2, &["unrecognized subcommand 'rnu'", "--help"]),
    ("penny perf", 2, &["--ranks <N>", "<COLLECTIVE>"]),
    ("penny perf all_reduce -b 8", 2, &["--ranks <N>"]),
    ("penny perf all_redcue -n 2", 2, &["'all_redcue'", "did you mean all_reduce?"]),
    ("penny perf all_reduce -n two", 2, &["'two' for '--ranks <N>'", "not a number of ranks from 1 to 1024"]),
    ("penny perf all_reduce -n -2", 2, &["'-2' for '--ranks <N>'", "not a number of ranks from 1 to 1024"]),
    ("penny perf all_reduce -np 2", 2, &["'p' for '--ranks <N>'", "write -n 4, not -np 4"]),
    ("penny perf all_reduce -n 2000", 2, &["'2000' for '--ranks <N>'", "from 1 to 1024"]),
    (
        "penny perf all_reduce -n 2 -b 1G -e 32M",
        1,
        &["--minbytes (1073741824)", "--maxbytes", "pass a larger -e"],
    ),
    ("penny perf all_reduce -n 2 -b 8x", 2, &["'8x' for '--minbytes <BYTES>'", "64K, 32M or 1G"]),
    ("penny perf all_reduce -n 2 -d float33", 2, &["'float33'", "did you mean float?"]),
    ("penny perf all_reduce -n 2 -o summ", 2, &["'summ'", "did you mean sum?"]),
    ("penny perf all_reduce -n 2 --algo rign", 1, &["--algorithm `rign`", "did you mean ring?"]),
    ("penny perf all_reduce -n 2 --algorthm ring", 2, &["'--algorthm'", "'--algorithm'"]),
    ("penny perf broadcast -n 2 -r 2", 1, &["--root 2 is out of range", "ranks are 0 to 1"]),
    ("penny perf all_reduce -n 2 --plot plot.gif", 2, &["'plot.gif'", "name the file plot.svg"]),
    ("penny perf broadcast -n 2 -r -1", 2, &["'-1' for '--root <RANK>'", "a rank"]),
    ("penny perf all_reduce -n 2 --iters -5", 2, &["'-5' for '--iters <COUNT>'", "it takes 1 or more"]),
    ("penny perf all_reduce -n 2 --iters ten", 2, &["'ten' for '--iters <COUNT>'", "not a whole number"]),
    (
        "penny perf all_reduce -n 2 --json nowhere/runs.json",
        2,
        &["there is no folder nowhere", "make it first"],
    ),
    (
        "penny perf all_reduce -n 2 -b 1000T -e 1000T",
        1,
        &["no memory for a buffer", "measure smaller sizes (-e)"],
    ),
    ("penny perf all_reduce -g 2", 2, &["'-g'", "each rank is a process here: -n is their number"]),
    ("penny perf all_reduce -n 1 -t 2", 2, &["'-t'", "-n is their number"]),
    (
        "penny perf all_reduce -n 2 --algorithm in_switch",
        1,
        &["--algorithm in_switch cannot serve all_reduce", "there are ring"],
    ),
    (
        "penny perf all_reduce -n 2 -d bool -o sum",
        1,
        &["--op sum does not serve --datatype bool", "bool has logical_and"],
    ),
    (
        "penny trace all_reduce --fabric t3000 -b 1K -o nowhere/trace.json",
        2,
        &["'nowhere/trace.json'", "there is no folder nowhere"],
    ),
    ("penny run true -n 2", 2, &["--ranks <N>", "-n stands before the program"]),
    ("penny topo draw dgx-h100 -o machine.png", 2, &["drawings are SVG; name the file machine.svg"]),
    ("penny top --pid abc", 2, &["'abc' for '--pid <PID>'", "not a whole number"]),
    ("penny run ./program", 2, &["--ranks <N>"]),
    ("penny run -n 2", 2, &["<PROGRAM [ARGS]>"]),
    ("penny run -n 2 ./nothing", 127, &["there is no program `./nothing`", "./a.out"]),
    ("penny run -n 2 program", 127, &["there is no program `program`", "did you mean ./program?"]),
    ("penny run -n 2 train.py", 127, &["there is no program `train.py`", "did you mean python3 train.py?"]),
    ("penny run -n 2 ./train.py", 126, &["`./train.py` is not executable", "python3 ./train.py"]),
    ("penny run -n 2 ./program.c", 126, &["`./program.c` is not executable", "source code (.c): compile it"]),
    ("penny run -n 2 ./notes", 126, &["`./notes` is not executable", "chmod +x"]),
    (
        "penny run -n 2 ./interpreted",
        127,
        &["`./interpreted` cannot be started", "the interpreter that its first line names"],
    ),
    ("penny run -n 2 .", 126, &["`.` is a folder"]),
    ("penny run -n 2 false", 1, &["rank ", "exited with code 1"]),
    ("penny run -n 2 --bind socket true", 2, &["'socket' for '--bind", "none, cores"]),
    ("penny run --hosts a:0 true", 2, &["a:0", "number of ranks from 1 to 1024"]),
    ("penny run -n 2 --fabric dgx-h1000 true", 1, &["dgx-h1000", "did you mean dgx-h100?"]),
    ("penny sim all_reduce -b 1M", 2, &["--fabric <MACHINE>"]),
    (
        "penny sim all_reduce --fabric dgx-h100:nodes=2,nodes=3",
        1,
        &["argument nodes is given twice", "give it once"],
    ),
    (
        "penny sim all_reduce --fabric dgx-h100:nodes=2 --nodes 3",
        1,
        &["--nodes 3", "nodes=2 already", "leave one of them out"],
    ),
    (
        "penny perf all_reduce -n 2 --fabric dgx-h100:nodes=2 --nodes 3",
        1,
        &["--nodes 3", "nodes=2 already", "leave one of them out"],
    ),
    ("penny sim all_reduce --fabric none.toml", 1, &["none.toml", "name a TOML file"]),
    (
        "penny plan all_reduce -n 4 --algorithm in_switch",
        1,
        &["in_switch cannot serve all_reduce", "there are ring"],
    ),
    ("penny plan all_reduce -n 4 --draw ring.svg", 2, &["--algorithm <NAME>"]),
    (
        "penny plan all_reduce -n 32 --algorithm ring --draw ring.svg",
        1,
        &["--draw: 32 ranks", "up to 16 ranks"],
    ),
    ("penny plan sendrecv -n 2", 1, &["sendrecv", "no plan"]),
    ("penny sim sendrecv --fabric t3000", 1, &["sendrecv is two calls", "penny perf sendrecv -n"]),
    (
        "penny sim permute --fabric t3000",
        1,
        &["permute is one message from each rank", "penny perf permute -n"],
    ),
    ("penny sim barrier --fabric t3000", 1, &["barrier moves no data", "penny perf barrier -n"]),
    ("penny sim all_redcue --fabric t3000", 2, &["did you mean all_reduce?", "there are all_reduce"]),
    (
        "penny sim all_reduce --fabric t3000 -d all",
        2,
        &["'all' for '--datatype <TYPE>'", "one type; give the command once for each"],
    ),
    ("penny sim all_reduce --fabric t3000 -d flaot", 2, &["did you mean float?"]),
    ("penny top --once --pid 1", 1, &["process 1 belongs to no running job", "leave --pid out"]),
    ("penny report empty.json", 1, &["empty.json: is not what penny perf --json"]),
    ("penny report nothing.json", 1, &["nothing.json: cannot be read"]),
    (
        "penny doctor --post-mortem nothing",
        1,
        &["--post-mortem nothing", "name the folder of which `penny run` told"],
    ),
    ("penny topo show dgx-h10", 1, &["dgx-h10", "did you mean dgx-h100?"]),
];

const ENVIRONMENT: &[Mistake] = &[
    ("PENNY_ALGO=rnig penny perf all_reduce -n 2", 1, &["PENNY_ALGO `rnig`", "did you mean ring?"]),
    ("PENNY_TIMEOUT=soon penny perf all_reduce -n 2", 1, &["PENNY_TIMEOUT is `soon`", "seconds"]),
    ("PENNY_SHM=posx penny perf all_reduce -n 2", 1, &["PENNY_SHM is `posx`", "`memfd`"]),
    ("PENNY_HEAP_SIZE=1Q penny perf all_reduce -n 2", 1, &["PENNY_HEAP_SIZE is `1Q`", "64M or 2G"]),
    ("PENNY_THREADS=0 penny perf all_reduce -n 2", 1, &["PENNY_THREADS is `0`", "1 to 4096"]),
    ("PENNY_FABRIC=nope penny perf all_reduce -n 2", 1, &["there is no machine `nope`", "dgx-h100"]),
    ("PENNY_OPTIONS=ring penny perf all_reduce -n 2", 1, &["PENNY_OPTIONS", "write an object such as"]),
    ("PENNY_DEBUG=verbose penny perf all_reduce -n 2", 1, &["PENNY_DEBUG is `verbose`", "`warn` or `info`"]),
    ("PENNY_CHECK=races penny perf all_reduce -n 2", 1, &["PENNY_CHECK is `races`", "it takes `race`"]),
    ("PENNY_HOST_PROFILE=/nothing penny run -n 2 ./first", 0, &["the host profile /nothing is not used"]),
    (
        "PENNY_RECORD=/nothing penny perf all_reduce -n 1 -b 8 -e 8",
        0,
        &["PENNY_RECORD: /nothing/", "nothing is recorded"],
    ),
    ("PENNY_TIMOUT=5 penny run -n 1 ./first", 0, &["PENNY_TIMOUT", "did you mean PENNY_TIMEOUT?"]),
];

/// Of these the first rank's sentence is on standard error.
const PYTHON: &[Mistake] = &[
    ("python -c 'import penny'", 0, &[]),
    (
        "python -c 'import penny; penny.init()'",
        1,
        &["no launcher has started this process", "penny run -n N"],
    ),
    ("PENNY_LIBRARY=/nothing python -c 'import penny'", 1, &["/nothing"]),
    (
        "penny run -n 1 python -c 'import penny; penny.init().all_reduce([1.0])'",
        1,
        &["list is no buffer", "numpy array"],
    ),
    (
        "penny run -n 1 python -c 'import penny, numpy; penny.init().all_reduce(numpy.ones(4)[::2])'",
        1,
        &["ascontiguousarray"],
    ),
    (
        "penny run -n 1 python -c 'import penny, numpy; penny.init().all_reduce(numpy.ones(2, complex))'",
        1,
        &["a type that Penny does not know", "dtype="],
    ),
    (
        "penny run -n 1 python -c 'import penny, numpy; penny.init().all_reduce(numpy.ones(2), op=\"summ\")'",
        1,
        &["'summ' is no reduction", "sum, prod"],
    ),
    (
        "penny run -n 1 python -c 'import penny, numpy; penny.init().broadcast(numpy.ones(2), root=7)'",
        1,
        &["root 7 is out of range: the only rank is 0"],
    ),
    (
        "penny run -n 1 python -c 'import penny, numpy; c = penny.init(); c.destroy(); c.barrier()'",
        1,
        &["comm is not a live communicator", "destroyed already"],
    ),
    (
        "penny run -n 1 python -c 'import penny; penny.init(timeout=\"ten\")'",
        1,
        &["timeout is 'ten', but must be a number of seconds"],
    ),
    (
        "penny run -n 1 python -c 'import torch.distributed as d; d.init_process_group(\"peny\")'",
        1,
        &["Unknown backend type peny"],
    ),
];

/// What the first rank of a program of C does, and what it is told.
const C: &[(&str, &[&str])] = &[
    ("pennyAllReduce(data, sum, 4, pennyFloat, pennySum, NULL, NULL)", &["pennyAllReduce: comm"]),
    (
        "pennyAllReduce(data, sum, 4, pennyFloat, pennySum, (pennyComm_t)&comm, NULL)",
        &["pennyAllReduce: comm"],
    ),
    ("pennyAllReduce(NULL, sum, 4, pennyFloat, pennySum, comm, NULL)", &["sendbuff is NULL", "16 bytes"]),
    ("pennyAllReduce(data, sum, (size_t)-1, pennyFloat, pennySum, comm, NULL)", &["count", "negative"]),
    ("pennyAllReduce(data, sum, 4, (pennyDataType_t)99, pennySum, comm, NULL)", &["datatype is 99"]),
    ("pennyAllReduce(data, sum, 4, pennyFloat, (pennyRedOp_t)99, comm, NULL)", &["op is 99"]),
    ("pennyRecv(data, 4, pennyFloat, 5, comm, NULL)", &["peer 5 is out of range: the only rank is 0"]),
    ("pennyGroupEnd()", &["no group is open"]),
    ("pennyMemFree(data)", &["pennyMemFree: ptr 0x", "pennyMemAlloc"]),
];

/// A folder with the files that the mistakes name.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("program", "#!/bin/sh\n", 0o755);
    write("program.c", "int main(void) { return 0; }\n", 0o644);
    write("train.py", "import penny\n", 0o644);
    write("notes", "ring\n", 0o644);
    write("interpreted", "#!/nothing/python\n", 0o755);
    write("empty.json", "{}\n", 0o644);
    let first = "#include <penny.h>\nint main(void) { pennyComm_t comm; return pennyCommInitFromEnv(&comm, NULL) || pennyCommDestroy(comm); }\n";
    write("first.c", first, 0o644);
    compiler::program(&dir.path().join("first.c"), &dir.path().join("first"));
    dir
}

/// Runs a mistake, and says what is wrong with its answer. `path`: where programs are found beside `penny`.
fn fault(dir: &Path, path: Option<&Path>, (typed, code, texts): Mistake) -> Option<String> {
    let penny = Path::new(env!("CARGO_BIN_EXE_penny")).parent().unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let paths = [penny].into_iter().chain(path).map(Path::to_owned).chain(std::env::split_paths(&others));
    let paths = std::env::join_paths(paths).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", typed]).current_dir(dir).env("PATH", paths).env("LD_LIBRARY_PATH", library::dir());
    shell
        .env("PENNY_LIBRARY", library::dir().join("libpenny.so"))
        .env("PYTHONPATH", root().join("python/src"));
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Python shows where it was; the sentence stands behind that.
    let errors = said.lines().filter(|line| line.starts_with("error: ") || line.starts_with("penny")).count();
    let is_python = typed.contains("python -c");
    let missing: Vec<&&str> = texts.iter().filter(|text| !said.contains(**text)).collect();
    // What the environment has wrong is not told by each rank.
    let is_told_once = !typed.starts_with("PENNY_") || is_python || said.matches(texts[0]).count() == 1;
    let is_one = is_python || (errors == 1 && is_told_once);
    let is_clean =
        is_python || !(said.contains("panicked") || said.contains("backtrace") || said.contains("Os {"));
    let is_right = output.status.code() == Some(code) && missing.is_empty() && is_one && is_clean;
    (!is_right).then(|| {
        format!(
            "$ {typed}\n{said}exit status {:?}, not {code}; {errors} errors; lacks {missing:?}\n",
            output.status.code()
        )
    })
}

#[track_caller]
fn answered(mistakes: &[Mistake], path: Option<&Path>) {
    let dir = folder();
    let faults: Vec<String> =
        mistakes.iter().filter_map(|&mistake| fault(dir.path(), path, mistake)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn mistakes_of_the_command_line_are_answered_with_the_argument_and_the_remedy() {
    answered(COMMAND_LINE, None);
}

#[test]
fn mistakes_in_the_environment_are_told_once() {
    answered(ENVIRONMENT, None);
}

#[test]
fn mistakes_in_python_are_exceptions_with_a_sentence() {
    let found = Command::new(root().join(".ci/python")).arg("--find").output().expect(".ci/python runs");
    if !found.status.success() {
        return eprintln!("SKIPPED: mistakes in Python: `.ci/python` makes their environment");
    }
    let place = String::from_utf8(found.stdout).expect("a path");
    answered(PYTHON, Some(&Path::new(place.trim_end()).join("bin")));
}

#[test]
fn mistakes_in_c_are_sentences_that_name_the_argument() {
    let dir = tempfile::tempdir().unwrap();
    let calls: String = C
        .iter()
        .map(|(call, _)| format!("    {call};\n    printf(\"%s\\n\", pennyGetLastError(NULL));\n"))
        .collect();
    let program = format!(
        "#include <penny.h>\n#include <stdio.h>\nint main(void) {{\n    float data[4] = {{0}}, sum[4];\n    pennyComm_t comm;\n    \
         pennyCommInitAll(&comm, 1, NULL);\n    (void)sum;\n{calls}    return pennyCommDestroy(comm);\n}}\n"
    );
    let source = dir.path().join("mistakes.c");
    fs::write(&source, program).unwrap();
    let built = dir.path().join("mistakes");
    compiler::program(&source, &built);
    let output = Command::new(&built).env("LD_LIBRARY_PATH", library::dir()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().count(), C.len(), "{said}");
    for ((call, texts), sentence) in C.iter().zip(said.lines()) {
        assert!(
            texts.iter().all(|text| sentence.contains(text)),
            "{call}\n{sentence}\nlacks one of {texts:?}"
        );
    }
}
