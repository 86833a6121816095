//! What the compiler says: its version, the commands that it would run, and why it refuses a program or an option.

mod compiled;

use std::fs;
use std::process::{Command, Output};

use compiled::{Folder, driver, folder};
use penny_ffi_tests::compiler;

/// Returns what a command prints on standard error; it must fail without a panic.
#[track_caller]
fn refusal(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
    said
}

/// Compiles a text; what is said.
#[track_caller]
fn refused(text: &str) -> String {
    let place = Folder::new();
    let source = place.path("wrong.cu");
    fs::write(&source, text).unwrap();
    let said = refusal(driver().arg("-c").arg(&source).arg("-o").arg(place.path("wrong.o")));
    assert!(!place.path("wrong.o").exists(), "{said}");
    said.replace(&format!("{}/", place.path("").display()), "/")
        .replace(&format!("{}", place.path("").display()), "/")
}

#[test]
fn programs_that_cannot_be_compiled_are_refused_with_their_line() {
    for (text, sentence) in [
        (
            "\n__shared__ int a;\n",
            "wrong.cu:2: a __shared__ variable stands outside of a function; declare it in the kernel",
        ),
        (
            "__global__ void k() {\n  __shared__ int a = 3;\n}\n",
            "wrong.cu:2: a __shared__ variable has an initial value",
        ),
        (
            "__global__ void k(int *a) {\n\n  asm(\"cp.async.wait_all;\");\n}\n",
            "wrong.cu:3: the instruction \"cp.async.wait_all\" of a device has no meaning here",
        ),
        (
            "void k(int);\nvoid f() { k<<<1>>>(2); }\n",
            "wrong.cu:2: a launch has 1 arguments between <<< and >>>; pass grid, block",
        ),
        (
            "void k(int);\nvoid f() { k<<<1, 2; }\n",
            "wrong.cu:2: a launch <<< has no >>> with arguments behind it",
        ),
        (
            "#define L(k) k<<<1, 2, 3, 4, 5>>>()\nvoid k();\n\nvoid f() { L(k); }\n",
            "wrong.cu:4: a launch has 5 arguments",
        ),
    ] {
        let said = refused(text);
        assert!(said.contains("penny-nvcc: error: ") && said.contains(sentence), "{said}");
    }
}

#[test]
fn errors_of_the_host_compiler_name_the_line_of_the_program() {
    let said = refused("\n__global__ void k(int *a) {\n  a = missing;\n}\n");
    assert!(
        said.contains("wrong.cu:3:") && said.contains("missing") && !said.contains("penny-nvcc: error"),
        "{said}"
    );
    // A kernel's parameter is a value, and what a warp exchanges has at most eight bytes.
    let said = refused("__global__ void k(int &a) { a = 1; }\nvoid f(int &a) { k<<<1, 1>>>(a); }\n");
    assert!(said.contains("parameters of kernels are values"), "{said}");
    let said = refused("__global__ void k(int4 *a) { *a = __shfl_sync(~0u, *a, 0); }\n");
    assert!(said.contains("functions of a warp take values of up to eight bytes"), "{said}");
}

#[test]
fn options_that_cannot_be_done_are_refused() {
    let source = folder("cu").join("vector_add.cu");
    for (options, sentence) in [
        (&["-ptx"][..], "-ptx: there is no code of a device; kernels become code of the host"),
        (&["--cubin"], "--cubin: there is no code of a device"),
        (&["-run"], "-run: programs are not run by their compiler"),
        (
            &["--nonsense"],
            "the option --nonsense is not known; pass what is for the host's compiler with -Xcompiler",
        ),
        (&["-std=c++03"], "-std=c++03: kernels need C++11"),
        (&["-m32"], "-m 32: pass 64"),
        (&["--default-stream", "per-thread"], "NULL is the legacy stream here; pass cudaStreamPerThread"),
        (&["--default-stream=other"], "--default-stream other: pass legacy or null"),
        (&["-cudart", "dynamic"], "-cudart dynamic: pass none or shared or static"),
        (&["-x", "ptx"], "-x ptx: pass cu, c++ or c"),
        (&["-c", "other.cu", "-o", "one.o"], "-o names one file, and there are several inputs"),
        (&["kernel.ptx"], "kernel.ptx is code of a device; pass the .cu file"),
        (&["strange.xyz"], "strange.xyz has an ending that is not known; pass -x cu"),
        (&["-ccbin", "/nonexistent/g++"], "install it, or name the host's compiler with -ccbin"),
        (&["-optf", "/nonexistent/options"], "the option file /nonexistent/options"),
    ] {
        let said = refusal(driver().args(options).arg(&source).current_dir(Folder::new().path("")));
        assert!(said.starts_with("penny-nvcc: error: ") && said.contains(sentence), "{options:?}: {said}");
    }
    for (options, sentence) in [
        (&[][..], "there is no input file; pass a .cu file, or --help"),
        (&["-c", "a.o"], "there is nothing to compile"),
        (&["-o"], "-o needs a value"),
    ] {
        let said = refusal(driver().args(options));
        assert!(said.contains(sentence), "{options:?}: {said}");
    }
    let said = refusal(driver().env("PENNY_CUDA_HOME", "/nonexistent").arg(&source));
    assert!(
        said.contains("PENNY_CUDA_HOME is /nonexistent, and there is no include/cuda_runtime.h"),
        "{said}"
    );
}

#[test]
fn the_version_is_in_the_form_that_makefiles_read() {
    for option in ["--version", "-V"] {
        let said = compiler::run(driver().arg(option));
        // grep release | sed 's/.*release //' | sed 's/\,.*//'
        let line = said.lines().find(|line| line.contains("release")).unwrap();
        let number = line.split("release ").nth(1).unwrap().split(',').next().unwrap();
        assert_eq!(number, "12.8", "{said}");
    }
    let header = fs::read_to_string(folder("../cudart/include/cuda_runtime_api.h")).unwrap();
    assert!(header.contains("#define CUDART_VERSION 12080\n"));
    assert!(compiler::run(driver().arg("--help")).contains("--make-home"));
    assert_eq!(compiler::run(driver().arg("--list-gpu-arch")), "compute_90\n");
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn options_for_devices_are_dropped_and_those_of_the_host_passed_on() {
    let place = Folder::new();
    fs::write(place.path("options"), "-DFROM_FILE=\"1 2\" -gencode arch=compute_70,code=sm_70\n").unwrap();
    let options = "-gencode arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=[sm_90,compute_90] --generate-code=arch=compute_61,code=sm_61 \
        -arch=sm_90 -arch sm_80 --gpu-code sm_80 -Xptxas -v,-O3 --ptxas-options=-v -maxrregcount=64 -t 4 -t8 --threads=2 -lineinfo -G \
        --expt-relaxed-constexpr -expt-extended-lambda --use_fast_math -Xcudafe --diag_suppress=1 -Wno-deprecated-gpu-targets \
        --default-stream legacy -cudart static -res-usage -fmad=false -O2 -g -std=c++17 -Xcompiler -Wall,-fPIC --compiler-options=-Wextra \
        -Werror all-warnings -I/one,/two --include-path /three -isystem /four -D ONE -DTWO=2 -U THREE -L/five -Lsix -lnccl -lm \
        -lcudart_static -lcudadevrt -Xlinker -rpath,/seven -pthread -fno-strict-aliasing -dryrun -MD -MF deps.d --options-file";
    let mut command = driver();
    command
        .current_dir(place.path(""))
        .args(options.split_whitespace())
        .arg("options")
        .arg("a.cu")
        .args(["b.o", "-o", "out"]);
    let said = said(command.output().unwrap());
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    for word in [
        "sm_",
        "compute_",
        "ptxas",
        "maxrreg",
        "lineinfo",
        "-t8",
        "relaxed-constexpr ",
        "fmad",
        "cudart_static",
        "cudadevrt",
    ] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    for word in [
        "-E",
        "-O2",
        "-g",
        "-std=c++17",
        "-Wall",
        "-fPIC",
        "-Wextra",
        "-I/one -I/two -I/three -isystem /four",
        "-DONE -DTWO=2 -UTHREE",
        "'-DFROM_FILE=1 2'",
        "-MD -MF deps.d",
        "-MT",
        "-D__CUDACC_DEBUG__",
        "-D__CUDACC_EXTENDED_LAMBDA__",
        "-D__USE_FAST_MATH__",
        "-pthread",
        "-fno-strict-aliasing",
        "-D__CUDACC__=1",
    ] {
        assert!(lines[0].contains(word), "{word}: {}", lines[0]);
    }
    assert!(lines[1].contains("penny-nvcc rewrites"), "{said}");
    assert!(
        lines[2].contains("-Werror")
            && lines[2].contains("-x c++-cpp-output -c")
            && !lines[2].contains("-DONE"),
        "{said}"
    );
    assert!(
        lines[3].contains("b.o") && lines[3].contains("-L/five -Lsix -lnccl -lm -Wl,-rpath -Wl,/seven"),
        "{said}"
    );
    assert!(lines[3].contains("-lcudart -o out") && !lines[3].contains("-DONE"), "{said}");
    assert!(!place.path("out").exists());
}

#[test]
fn included_files_are_listed() {
    let place = Folder::new();
    fs::write(place.path("own.h"), "#define OWN 1\n").unwrap();
    fs::write(place.path("a.cu"), "#include \"own.h\"\n__global__ void k() {}\n").unwrap();
    let run =
        |options: &[&str]| compiler::run(driver().current_dir(place.path("")).args(options).arg("a.cu"));
    let listed = run(&["-MM"]);
    assert!(
        listed.starts_with("a.o: a.cu") && listed.contains("own.h") && !listed.contains("cuda_runtime.h"),
        "{listed}"
    );
    assert!(run(&["-M"]).contains("cuda_runtime.h"));
    run(&["-c", "-MMD"]);
    let listed = fs::read_to_string(place.path("a.d")).unwrap();
    assert!(listed.starts_with("a.o: a.cu") && listed.contains("own.h"), "{listed}");
    run(&["-c", "-MD", "-MF", "b.d", "-MT", "target", "-MP", "-o", "c.o"]);
    let listed = fs::read_to_string(place.path("b.d")).unwrap();
    assert!(
        listed.starts_with("target: a.cu") && listed.contains("\nown.h:") && place.path("c.o").exists(),
        "{listed}"
    );
    assert!(run(&["-E"]).contains("__penny_global__"));
    fs::create_dir(place.path("objects")).unwrap();
    run(&["-c", "-odir", "objects"]);
    assert!(place.path("objects/a.o").exists());
}

#[test]
fn a_home_has_what_makefiles_look_for() {
    let place = Folder::new();
    let home = place.path("home");
    for _ in 0..2 {
        compiler::run(driver().arg("--make-home").arg(&home));
    }
    let include = format!("-I{}", home.join("include").display());
    let library = format!("-L{}", home.join("lib64").display());
    let source = folder("cu").join("collectives.cu");
    // As a Makefile does: nvcc compiles, the host's compiler links with the static runtime.
    let object = place.path("collectives.o");
    let mut nvcc = Command::new(home.join("bin/nvcc"));
    nvcc.env_remove("PENNY_CUDA_HOME").env_remove("NVCC_CCBIN");
    compiler::run(nvcc.arg("-c").arg(&source).arg("-o").arg(&object));
    let rpath = format!("-Wl,-rpath,{}", home.join("lib").display());
    for (name, runtime) in [("shared", "-lcudart"), ("static", "-lcudart_static")] {
        let program = place.path(name);
        compiler::run(
            compiler::cxx()
                .arg(&object)
                .args([&include, &library, "-lnccl", runtime, "-lcudadevrt", &rpath])
                .arg("-o")
                .arg(&program),
        );
        assert_eq!(place.run(&program), "collectives\n");
    }
    // The folder alone is enough, too.
    let mut driver = driver();
    let program = place.path("by-variable");
    compiler::run(driver.env("PENNY_CUDA_HOME", &home).arg(&source).arg("-lnccl").arg("-o").arg(&program));
    assert_eq!(place.run(&program), "collectives\n");
    let needed = compiler::run(Command::new("readelf").arg("-d").arg(&program));
    assert!(needed.contains(&format!("[{}]", home.join("lib64").display())), "{needed}");
}
