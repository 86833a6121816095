//! System calls, one family a file, behind safe functions. Nothing above this folder names `libc` or `nix`.

pub mod available_memory;
pub mod background;
pub mod callback;
pub mod clock;
pub mod cpu;
pub mod credentials;
pub mod fork;
pub mod futex;
pub mod host;
pub mod interrupt;
pub mod keeper;
pub mod kick;
pub mod limits;
pub mod maps;
pub mod network;
pub mod ofi;
pub mod openmp;
pub mod parallel_function;
pub mod process;
pub mod process_memory;
pub mod program_clock;
pub mod progress_hook;
pub mod remap;
pub mod shm;
pub mod socket;
pub mod waiting;
