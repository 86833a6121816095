//! compat/nvcc/cu: programs with kernels, each checked by itself against what the host computes.

mod compiled;

use std::process::Command;

use compiled::{Folder, driver, folder};
use penny_ffi_tests::compiler;

/// Builds a program with some options and runs it.
#[track_caller]
fn holds_with(source: &str, options: &[&str]) {
    let place = Folder::new();
    let program = place.path("program");
    let mut command = driver();
    command.args(options).arg(folder("cu").join(source)).arg("-o").arg(&program).arg("-lnccl");
    compiler::run(&mut command);
    let said = place.run(&program);
    assert_eq!(said.trim(), source.trim_end_matches(".cu"));
}

#[track_caller]
fn holds(source: &str) {
    holds_with(source, &["-O2", "-std=c++17"]);
}

#[test]
fn every_thread_of_a_grid_runs_once() {
    for options in [
        &["-std=c++11", "-O0", "-G"][..],
        &["-O3", "-std=c++14", "-arch=sm_90"],
        &["-std=c++20", "-O2", "-g", "-lineinfo"],
    ] {
        holds_with("vector_add.cu", options);
    }
}

#[test]
fn threads_of_a_block_wait_for_each_other() {
    holds("reduction.cu");
    holds_with("reduction.cu", &["-O0", "-std=c++14"]);
}

#[test]
fn every_form_of_a_launch_is_one() {
    holds_with("launches.cu", &["-O2", "-std=c++17", "--extended-lambda"]);
    holds_with("launches.cu", &["-O0", "-std=c++14", "-Xcompiler", "-Wall,-Wextra,-Werror"]);
}

#[test]
fn kernels_keep_their_order_and_are_steps_of_graphs() {
    holds("order.cu");
}

#[test]
fn kernels_are_nodes_that_a_program_adds() {
    holds("graphs.cu");
}

#[test]
fn atomic_operations_are_atomic() {
    holds("atomics.cu");
}

#[test]
fn numbers_are_those_of_a_device() {
    holds("numbers.cu");
    holds_with("numbers.cu", &["-O0", "-std=c++11"]);
}

#[test]
fn names_of_half_precision_are_the_programs_without_their_headers() {
    let place = Folder::new();
    let (source, program) = (place.path("names.cu"), place.path("program"));
    std::fs::write(
        &source,
        "__global__ void half(float *x) { *x /= 2; }\nstruct half2 { int at[2]; };\ntypedef int __half, __nv_bfloat16, nv_bfloat16;\n\
         static int __float2half(float x) { return (int)x / 2; }\n\
         int main() { float *x; cudaMallocManaged(&x, 4); *x = 5; half<<<1, 1>>>(x); cudaDeviceSynchronize();\n\
         return *x == 2.5f && sizeof(half2) == 8 && __float2half(4) == 2 && sizeof(__half) == sizeof(nv_bfloat16) ? 0 : 1; }\n",
    )
    .unwrap();
    compiler::run(driver().arg(&source).arg("-o").arg(&program));
    place.run(&program);
}

#[test]
fn a_kernel_runs_between_two_collectives() {
    holds("collectives.cu");
}

#[test]
fn what_cannot_run_is_refused() {
    holds("errors.cu");
}

#[test]
fn several_files_are_one_program() {
    let place = Folder::new();
    let source = |name: &str| folder("cu").join(name);
    // At once.
    let program = place.path("at-once");
    let all = ["parts_main.cu", "parts_other.cu", "parts_c.c", "parts_cxx.cc"].map(source);
    compiler::run(driver().arg("-rdc=true").args(&all).arg("-o").arg(&program));
    assert_eq!(place.run(&program).trim(), "parts");
    // One after another, with the step that links code of devices, a library, and the host's linker at the end.
    let objects =
        all.each_ref().map(|source| place.path(&format!("{}.o", source.file_stem().unwrap().display())));
    for (source, object) in all.iter().zip(&objects) {
        compiler::run(driver().args(["-dc", "-O1"]).arg(source).arg("-o").arg(object));
    }
    let (devices, library, program) =
        (place.path("devices.o"), place.path("libparts.a"), place.path("linked"));
    compiler::run(driver().args(["-dlink", "-arch", "sm_80"]).args(&objects).arg("-o").arg(&devices));
    compiler::run(driver().arg("-lib").args(&objects[1..]).arg("-o").arg(&library));
    compiler::run(driver().args([&objects[0], &devices, &library]).arg("-o").arg(&program));
    assert_eq!(place.run(&program).trim(), "parts");
    // Without relocatable code a variable of devices belongs to its file.
    let told = driver().args(&all).arg("-o").arg(place.path("none")).output().unwrap();
    assert!(
        !told.status.success() && String::from_utf8_lossy(&told.stderr).contains("shared_by_files"),
        "{told:?}"
    );
}

#[test]
fn a_shared_library_has_kernels() {
    let place = Folder::new();
    let (library, program) = (place.path("libkernel.so"), place.path("program"));
    let (kernel, main) = (place.path("kernel.cu"), place.path("main.cc"));
    std::fs::write(
        &kernel,
        "template <class T> __global__ void k(T *at) { __shared__ T s[8]; s[threadIdx.x] = at[7 - threadIdx.x]; __syncthreads(); \
         at[threadIdx.x] = s[threadIdx.x]; }\nvoid reverse(int *at) { k<<<1, 8>>>(at); }\n",
    )
    .unwrap();
    std::fs::write(
        &main,
        "#include <cuda_runtime.h>\nvoid reverse(int *);\nint main() { int *at; cudaMallocManaged(&at, 32); for (int i = 0; i < 8; i++) at[i] = i;\n\
         reverse(at); cudaDeviceSynchronize(); return at[0] == 7 && at[7] == 0 ? 0 : 1; }\n",
    )
    .unwrap();
    compiler::run(
        driver().args(["-shared", "-Xcompiler", "-fPIC", "-O2"]).arg(&kernel).arg("-o").arg(&library),
    );
    let rpath = format!("-rpath={}", place.path("").display());
    compiler::run(driver().arg(&main).arg(&library).args(["-Xlinker", &rpath]).arg("-o").arg(&program));
    place.run(&program);
    let needed = compiler::run(Command::new("readelf").arg("-d").arg(&library));
    assert!(needed.contains("libcudart.so.12"), "{needed}");
}
