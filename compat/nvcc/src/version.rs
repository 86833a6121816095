//! What this program says it is: the release of nvcc that the headers have the interface of.

/// What programs see of their compiler. `__CUDA_ARCH__` is not defined: a function is compiled once, for the host.
pub const MACROS: [&str; 7] = [
    "-D__CUDACC__=1",
    "-D__NVCC__=1",
    "-D__CUDACC_VER_MAJOR__=12",
    "-D__CUDACC_VER_MINOR__=8",
    "-D__CUDACC_VER_BUILD__=93",
    "-D__CUDA_API_VER_MAJOR__=12",
    "-DPENNY_NVCC=1",
];

/// The text of `--version`. Makefiles look for "release 12.8,".
pub fn text() -> String {
    format!(
        "penny-nvcc: a compiler driver for CUDA C++ on the host, Penny {}\n\
         Cuda compilation tools, release 12.8, V12.8.93\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The text of `--list-gpu-arch`: the one that devices say they have.
pub const ARCHITECTURES: &str = "compute_90\n";

/// The text of `--help`.
pub const HELP: &str = "\
Usage: penny-nvcc [options] files

Compiles CUDA C++ (.cu), C++ and C for the host and links it with Penny's CUDA runtime. It takes nvcc's options: those that
concern devices only have no effect, those for the host's compiler (-I, -D, -O, -g, -l, -std, -Xcompiler ...) are passed on.

  -c, -dc, -dlink, -lib, -shared, -E, -M, -MD    as nvcc has them
  -o FILE                       what is made
  -ccbin PROGRAM                the host's compiler; unset: NVCC_CCBIN, else g++
  -dryrun, -v                   print the commands instead of running them; beside running them
  --make-home DIR               make DIR/bin/nvcc, DIR/include and DIR/lib64 for Makefiles that want CUDA_HOME and NCCL_HOME
  --version, --help

PENNY_CUDA_HOME names a folder whose include and lib64 are used in place of those beside this program.
";
