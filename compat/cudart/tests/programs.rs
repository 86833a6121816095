//! compat/cudart/c: C and C++ programs that are built against the headers of this package and its library.

use std::path::{Path, PathBuf};
use std::process::Command;

use penny_ffi_tests::{compiler, library, ranks, root};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[track_caller]
fn build(source: &str, to: &Path) {
    let mut compiler = match source.ends_with(".cpp") {
        true => compiler::cxx(),
        false => compiler::cc(),
    };
    compiler.arg(if source.ends_with(".cpp") { "-std=c++17" } else { "-std=c11" }).arg("-D_DEFAULT_SOURCE");
    // The program itself asks for libpenny, before libcudart does: cargo's LD_LIBRARY_PATH may have an older one.
    compiler.arg("-Wl,--no-as-needed");
    let include = [folder("include"), root().join("include"), root().join("ffi-tests/c")];
    let include = include.each_ref().map(|folder| folder.as_path());
    compiler::program_with(
        &mut compiler,
        &folder("c").join(source),
        to,
        library::dir_with_compat(),
        &include,
        &["cudart", "penny", "dl"],
    );
}

/// Builds a program and runs it as some ranks; what the first has said.
#[track_caller]
fn holds_on(source: &str, on: usize, env: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    build(source, &program);
    let said = ranks::run(&program, dir.path(), on, env);
    assert!(said.iter().all(|text| !text.is_empty()), "every rank runs a case: {said:?}");
    said[0].clone()
}

#[track_caller]
fn holds(source: &str) {
    holds_on(source, 1, &[("PENNY_DEVICES", "4")]);
}

#[test]
fn headers_compile_as_every_c_and_cpp() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = std::fs::read_dir(folder("include"))
        .unwrap()
        .map(|entry| format!("#include \"{}\"\n", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    for (name, standards) in
        [("all.c", &["c99", "c11", "c17"][..]), ("all.cpp", &["c++11", "c++17", "c++20"])]
    {
        let source = dir.path().join(name);
        std::fs::write(&source, format!("{text}int main(void) {{ return 0; }}\n")).unwrap();
        for standard in standards {
            let mut compiler = if name.ends_with("cpp") { compiler::cxx() } else { compiler::cc() };
            compiler::run(
                compiler
                    .args(compiler::STRICT)
                    .arg(format!("-std={standard}"))
                    .arg("-I")
                    .arg(folder("include"))
                    .args(["-fsyntax-only"])
                    .arg(&source),
            );
        }
    }
}

#[test]
fn the_library_has_every_function_of_its_headers() {
    let header = std::fs::read_to_string(folder("include/cuda_runtime_api.h")).unwrap();
    let starts = ["cudaError_t ", "const char *", "int pennyCuda"];
    let functions: Vec<_> = header
        .lines()
        .filter(|line| starts.iter().any(|start| line.starts_with(start)))
        .map(|line| line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap())
        .collect();
    assert!(functions.len() > 120, "{functions:?}");
    let uses: String = functions.iter().map(|name| format!("    used = (void (*)(void)){name};\n")).collect();
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("all.c"), dir.path().join("all"));
    let text = format!(
        "#include <cuda_runtime.h>\nstatic void (*volatile used)(void);\nint main(void) {{\n{uses}    return used == 0;\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    build(source.to_str().unwrap(), &program);
    compiler::run(&mut Command::new(&program));
    let needed = compiler::run(Command::new("readelf").arg("-d").arg(&program));
    assert!(needed.contains("[libcudart.so.12]"), "{needed}");
    let found =
        compiler::run(Command::new("readelf").arg("-d").arg(library::dir_with_compat().join("libcudart.so")));
    assert!(found.contains("[libpenny.so.0]") && found.contains("[$ORIGIN]"), "{found}");
}

#[test]
fn devices_are_told_and_used() {
    holds("devices.c");
}

#[test]
fn memory_is_allocated_and_told() {
    holds_on("memory.c", 1, &[("PENNY_DEVICES", "4"), ("PENNY_HEAP_SIZE", "67108864")]);
}

#[test]
fn streams_keep_their_order() {
    holds("streams.c");
}

#[test]
fn threads_share_devices() {
    holds("threads.c");
}

#[test]
fn events_join_streams() {
    holds("events.c");
}

#[test]
fn captures_are_repeated() {
    holds("capture.c");
}

#[test]
fn graphs_are_built_node_by_node() {
    holds("graphs.c");
}

#[test]
fn errors_are_kept_for_their_thread() {
    holds("errors.c");
}

#[test]
fn templates_and_small_numbers_work() {
    holds("typed.cpp");
}

#[test]
fn destructors_call_as_others_do() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    build("destructors.cpp", &program);
    let output = Command::new(&program).env("PENNY_DEVICES", "4").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A thread, the first thread, the program.
    assert_eq!((&*out, &*err, output.status.code()), ("thread\nthread\nprogram\n", "", Some(0)));
}

#[test]
fn a_forked_child_begins_anew() {
    holds("process.c");
}

#[test]
fn collectives_keep_their_order_with_operations() {
    for on in [1, 2] {
        holds_on("collectives.c", on, &[("PENNY_DEVICES", "2")]);
    }
}

/// Runs the program that prints the number of devices.
fn counted(env: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    build("count.c", &program);
    let mut command = Command::new(&program);
    for name in ["PENNY_DEVICES", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"] {
        command.env_remove(name);
    }
    compiler::run(command.envs(env.iter().copied()))
}

#[test]
fn the_environment_says_how_many_devices_there_are() {
    assert_eq!(counted(&[]), "8\n");
    assert_eq!(counted(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]), "8\n");
    assert_eq!(counted(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "12")]), "12\n");
    assert_eq!(counted(&[("LOCAL_WORLD_SIZE", "5"), ("PENNY_DEVICES", "2")]), "2\n");
    assert_eq!(counted(&[("MPI_LOCALNRANKS", "none")]), "8\n");
    assert_eq!(
        counted(&[("PENNY_DEVICES", "0")]),
        "0 cudaErrorNoDevice: cudaGetDeviceCount: PENNY_DEVICES is 0; set it to the number of devices\n"
    );
    assert_eq!(counted(&[("PENNY_DEVICES", "254")]), "254\n");
    assert_eq!(counted(&[("PENNY_DEVICES", "")]), "8\n");
    for wrong in ["x", "-1", "255", "999", "4 GPUs", "1.5", "99999999999", " "] {
        let sentence = format!("PENNY_DEVICES is `{wrong}`; it takes a number of devices from 0 to 254");
        let told = ["cudaGetDeviceCount", "cudaMalloc"]
            .map(|name| format!("cudaErrorInitializationError: {name}: {sentence}\n"));
        assert_eq!(counted(&[("PENNY_DEVICES", wrong)]), format!("0 {}{}", told[0], told[1]));
    }
}

#[test]
fn another_runtime_in_the_process_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (program, other) = (dir.path().join("program"), dir.path().join("libother.so"));
    build("count.c", &program);
    let source = dir.path().join("other.c");
    std::fs::write(&source, "int cudaGetDeviceCount(int *count) { *count = 77; return 0; }\n").unwrap();
    compiler::run(compiler::cc().args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&other));
    // It comes behind ours in the search.
    let output = Command::new(&program).arg(&other).env("PENNY_DEVICES", "4").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4\n");
    assert!(said.contains("libother.so is loaded beside Penny's libcudart.so.12"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
