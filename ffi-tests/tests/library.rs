//! What libpenny.so is to a linker and a loader, what its structs are to a C compiler, and how it is installed.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, elf};
use penny::ffi::*;
use penny_ffi_tests::compiler::{STRICT, cc, exists, run};
use penny_ffi_tests::{library, root};

fn shared_library() -> Vec<u8> {
    fs::read(library::dir().join("libpenny.so")).unwrap()
}

#[test]
fn the_exported_names_are_exactly_those_of_the_list() {
    let bytes = shared_library();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let table = file.dynamic_symbol_table().unwrap();
    let mut exported: Vec<_> = table
        .symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().unwrap())
        .collect();
    exported.sort();
    let listed = fs::read_to_string(root().join("ffi-tests/symbols.txt")).unwrap();
    assert_eq!(exported, listed.lines().collect::<Vec<_>>());
}

#[test]
fn the_library_is_known_by_the_abis_number() {
    let bytes = shared_library();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let table = file.elf_dynamic_table().unwrap();
    let soname = table.iter().find(|entry| entry.tag == elf::DT_SONAME).expect("a SONAME");
    assert_eq!(table.string(soname).unwrap(), library::SONAME.as_bytes());
}

#[test]
fn a_program_that_is_linked_beside_the_built_library_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (main, program) = (dir.path().join("main.c"), dir.path().join("main"));
    let text = "#include <penny.h>\nint main(void) { int version; return pennyGetVersion(&version) != pennySuccess; }\n";
    fs::write(&main, text).unwrap();
    let built = library::build();
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(&built);
    let mut compile = cc();
    compile.arg("-I").arg(root().join("include")).arg(&main).arg("-o").arg(&program);
    run(compile.arg("-L").arg(&built).arg(rpath).arg("-lpenny"));
    run(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
}

#[test]
fn structs_and_enums_have_the_same_layout_in_c_and_rust() {
    let mut source = String::from("#include <penny.h>\n#define SAME(a, b) _Static_assert((a) == (b), #a)\n");
    macro_rules! sizes {
        ($($ty:ident)*) => {$(
            writeln!(source, "SAME(sizeof({0}), {1}); SAME(_Alignof({0}), {2});",
                stringify!($ty), size_of::<$ty>(), align_of::<$ty>()).unwrap();
        )*};
    }
    macro_rules! offsets {
        ($ty:ident: $($field:ident)*) => {$(
            writeln!(source, "SAME(offsetof({0}, {1}), {2}); SAME(sizeof((({0} *)0)->{1}), {3});",
                stringify!($ty), stringify!($field), offset_of!($ty, $field),
                size_of_val(&pennyConfig_t::INITIALIZER.$field)).unwrap();
        )*};
    }
    sizes!(pennyResult_t pennyDataType_t pennyRedOp_t pennyComm_t pennyStream_t pennyUniqueId pennyConfig_t);
    offsets!(pennyConfig_t: size magic version blocking timeoutMs commName);
    writeln!(
        source,
        "SAME(PENNY_VERSION_CODE, {PENNY_VERSION_CODE}); SAME(PENNY_CONFIG_MAGIC, {PENNY_CONFIG_MAGIC});"
    )
    .unwrap();
    writeln!(source, "SAME(PENNY_UNIQUE_ID_BYTES, {PENNY_UNIQUE_ID_BYTES});").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("layout.c");
    fs::write(&path, source).unwrap();
    run(cc().args(["-std=c11", "-fsyntax-only", "-I"]).arg(root().join("include")).arg(&path));
}

/// The version of the library, as C prints it.
const VERSION_PROGRAM: &str = "#include <penny.h>\n#include <stdio.h>\n\
    int main(void) {\n\
        int version = 0;\n\
        if (pennyGetVersion(&version) != pennySuccess || version != PENNY_VERSION_CODE) return 1;\n\
        printf(\"%d\\n\", version);\n\
        return 0;\n\
    }\n";

fn version() -> String {
    format!("{PENNY_VERSION_CODE}\n")
}

/// Says so even though the output of a passing test is captured: `eprintln!` would be.
fn skipped(why: &str) {
    let mut uncaptured = std::io::stderr();
    writeln!(uncaptured, "SKIPPED: {why}").unwrap();
}

/// Installs the library of this profile into a new directory. What install.sh builds, all tests together have built before.
fn install(options: &[&str]) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    let mut install = Command::new(root().join("install.sh"));
    install
        .env("CARGO_TARGET_DIR", library::target_dir())
        .env("CARGO_BUILD_BUILD_DIR", library::target_dir())
        .args(["--profile", &library::profile(), "--prefix"])
        .arg(to.path())
        .args(options);
    run(&mut install);
    for folder in ["include", "include/penny"] {
        for header in fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = header.file_name().unwrap();
            if header.extension().is_some_and(|kind| kind == "h" || kind == "hpp") {
                assert!(to.path().join(folder).join(name).exists(), "{name:?} is not installed");
            }
        }
    }
    for file in [
        "man/man1/penny-perf.1",
        "bash-completion/completions/penny",
        "zsh/site-functions/_penny",
        "fish/vendor_completions.d/penny.fish",
    ] {
        let text = fs::read_to_string(to.path().join("share").join(file)).unwrap_or_default();
        assert!(text.contains("reduce"), "share/{file} is not installed");
    }
    to
}

#[test]
fn in_a_shared_target_folder_the_installation_builds_apart_from_crates_that_depend_on_penny() {
    let dir = tempfile::tempdir().unwrap();
    let (log, cargo) = (dir.path().join("log"), dir.path().join("cargo"));
    // In cargo's place: tells the target folder, and writes where it would build.
    let text = "#!/bin/sh\n[ $1 = metadata ] && { echo '{\"target_directory\":\"'$SHARED'\",'; exit; }\n\
        echo ${CARGO_BUILD_BUILD_DIR:-none} >$LOG; exit 1\n";
    fs::write(&cargo, text).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let own = fs::canonicalize(root()).unwrap().join("target");
    let built_in = |shared: &Path, chosen: Option<&str>| {
        let mut install = Command::new(root().join("install.sh"));
        install.env("PATH", &path).env("LOG", &log).env("SHARED", shared).env_remove("CARGO_BUILD_BUILD_DIR");
        install.envs(chosen.map(|dir| ("CARGO_BUILD_BUILD_DIR", dir)));
        assert!(!install.args(["--prefix", "/nowhere"]).status().unwrap().success());
        fs::read_to_string(&log).unwrap().trim().to_owned()
    };
    assert_eq!(built_in(Path::new("/shared"), None), "/shared/penny");
    assert_eq!(built_in(Path::new("/shared"), Some("/chosen")), "/chosen");
    assert_eq!(built_in(&own, None), "none");
}

fn source(dir: &Path) -> PathBuf {
    let path = dir.join("main.c");
    fs::write(&path, VERSION_PROGRAM).unwrap();
    path
}

#[test]
fn an_installed_library_is_found_by_pkg_config_shared_and_static() {
    if !exists("pkg-config") {
        return skipped("there is no pkg-config on this machine");
    }
    let to = install(&[]);
    let lib = to.path().join("lib");
    let pkg_config = |how: &[&str]| -> Vec<String> {
        let flags = run(Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .args(how)
            .arg("penny"));
        flags.split_whitespace().map(str::to_owned).collect()
    };
    let (source, program) = (source(to.path()), to.path().join("main"));
    run(cc().args(STRICT).arg(&source).arg("-o").arg(&program).args(pkg_config(&["--cflags", "--libs"])));
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", &lib)), version());

    // Without the shared library the same flags and the private ones take the static one.
    for name in ["libpenny.so", library::SONAME] {
        fs::remove_file(lib.join(name)).unwrap();
    }
    let flags = pkg_config(&["--static", "--cflags", "--libs"]);
    run(cc().arg(&source).arg("-o").arg(&program).args(&flags));
    assert_eq!(run(&mut Command::new(&program)), version());

    // A program without any shared library: there is no static libgcc_s, and the compiler adds its own static parts.
    let empty = to.path().join("empty.c");
    fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let no_libc = cc().arg("-static").arg(&empty).arg("-o").arg(&program).output().unwrap();
    if !no_libc.status.success() {
        return skipped("the C library of this machine has no static version");
    }
    run(cc().arg("-static").arg(&source).arg("-o").arg(&program).args(&flags));
    assert_eq!(run(&mut Command::new(&program)), version());
}

/// The command cmake: the system's, or that of the package which `.ci/packages` has installed.
fn cmake() -> Option<PathBuf> {
    if exists("cmake") {
        return Some("cmake".into());
    }
    let found = Command::new(root().join(".ci/packages"))
        .args(["ffi-tests/requirements-cmake.txt", "--find"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let package = String::from_utf8(found.stdout).ok()?;
    Some(Path::new(package.trim_end()).join("cmake/data/bin/cmake"))
}

/// A project with a program in C, and one in C++ for each standard that penny.hpp serves.
const PROJECT: &str = "cmake_minimum_required(VERSION 3.13)\nproject(use C CXX)\nfind_package(penny 0.1 REQUIRED)\n\
    add_compile_options(-Wall -Wextra -Wpedantic -Werror)\n\
    add_executable(main main.c)\ntarget_link_libraries(main PRIVATE penny::penny)\n\
    foreach(standard 17 20)\n\
        add_executable(main${standard} main.cpp)\n\
        target_link_libraries(main${standard} PRIVATE penny::penny)\n\
        set_target_properties(main${standard} PROPERTIES CXX_STANDARD ${standard} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)\n\
    endforeach()\n";

/// A sum on the one rank of this process.
const CPP_PROGRAM: &str = "#include <penny.hpp>\n#include <cstdio>\n\
    int main() {\n\
        auto comm = penny::communicator::join(penny::communicator::unique_id(), 1, 0);\n\
        std::vector<double> data = {1, 2}, sum(2);\n\
        comm.all_reduce(data, sum, pennySum);\n\
        std::printf(\"%g %g\\n\", sum[0], sum[1]);\n\
    }\n";

#[test]
fn an_installed_library_is_found_by_cmake() {
    let Some(cmake) = cmake() else {
        return skipped("there is no cmake on this machine");
    };
    let to = install(&[]);
    source(to.path());
    fs::write(to.path().join("main.cpp"), CPP_PROGRAM).unwrap();
    fs::write(to.path().join("CMakeLists.txt"), PROJECT).unwrap();
    let build = to.path().join("build");
    run(Command::new(&cmake)
        .arg("-S")
        .arg(to.path())
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", to.path().display())));
    run(Command::new(&cmake).arg("--build").arg(&build));
    assert_eq!(run(&mut Command::new(build.join("main"))), version());
    for standard in ["17", "20"] {
        assert_eq!(run(&mut Command::new(build.join(format!("main{standard}")))), "1 2\n");
    }
}

/// A program with a kernel and with NCCL, as a user would build it with what is installed.
const KERNEL_PROGRAM: &str = "#include <nccl.h>\n#include <stdio.h>\n\
    __global__ void add(int *at, int n) { __shared__ int by; if (threadIdx.x == 0) by = n; __syncthreads(); at[threadIdx.x] += by; }\n\
    int main() {\n\
        int version, *at;\n\
        if (ncclGetVersion(&version) != ncclSuccess || cudaMallocManaged(&at, 8 * sizeof *at) != cudaSuccess) return 1;\n\
        add<<<1, 8>>>(at, 3);\n\
        if (cudaDeviceSynchronize() != cudaSuccess) return 1;\n\
        printf(\"%d %d\\n\", version / 100, at[7]);\n\
    }\n";

#[test]
fn an_installed_nvcc_compiles_programs_of_nccl() {
    let to = install(&["--nccl", "--libdir", "lib/host"]);
    let home = to.path().join("lib/host/penny-cuda");
    let (source, object, program) =
        (to.path().join("main.cu"), to.path().join("main.o"), to.path().join("main"));
    fs::write(&source, KERNEL_PROGRAM).unwrap();
    // The library of programs that are not asked about stays free of NVIDIA's names.
    for (folder, name) in
        [("lib/host", "libnccl.so.2"), ("lib/host", "libcudart.so.12"), ("include", "nccl.h")]
    {
        assert!(!to.path().join(folder).join(name).exists(), "{name}");
    }
    let nvcc = |path: &Path| {
        let mut command = Command::new(path);
        for name in ["LD_LIBRARY_PATH", "PENNY_CUDA_HOME", "NVCC_CCBIN"] {
            command.env_remove(name);
        }
        command
    };
    run(nvcc(&to.path().join("bin/penny-nvcc")).arg(&source).arg("-lnccl").arg("-o").arg(&program));
    assert_eq!(run(&mut nvcc(&program)), "227 3\n");
    // As a Makefile does with CUDA_HOME and NCCL_HOME, and without a word of this tree.
    run(nvcc(&home.join("bin/nvcc")).arg("-c").arg(&source).arg("-o").arg(&object));
    run(penny_ffi_tests::compiler::cxx()
        .arg(&object)
        .arg("-L")
        .arg(home.join("lib"))
        .args(["-lnccl", "-lcudart_static"])
        .arg(format!("-Wl,-rpath,{}", home.join("lib64").display()))
        .arg("-o")
        .arg(&program));
    assert_eq!(run(&mut nvcc(&program)), "227 3\n");
    let shown = nvcc(&home.join("bin/nvcc")).args(["-dryrun", "-c"]).arg(&source).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.contains("penny-cuda/include") && !shown.contains("compat/"), "{shown}");
}
