//! Execution traces in the form of MLCommons Chakra: a file for each rank, `PREFIX.0.et` or `PREFIX.0.json` and so on.
//!
//! | node | here |
//! |---|---|
//! | COMP_NODE, MEM_LOAD_NODE, MEM_STORE_NODE | computing: `duration_micros` (or `duration_ns`), `num_ops`, `tensor_size` (0: not known, unless there is `work_counted`); with `is_cpu_op` work of the host |
//! | COMM_COLL_NODE | a collective: `comm_type`, `comm_size` (the bytes of a rank's input), `pg_name` ("" or "0": all ranks), `root` |
//! | COMM_SEND_NODE, COMM_RECV_NODE | a message: `comm_size`, `comm_dst` or `comm_src`, `comm_tag` |
//! | METADATA_NODE | no work; PyTorch's has the process groups in its inputs |
//!
//! Data dependencies say what waits for what. Control dependencies say who called whom, and may contradict them: they do not count. A
//! collective of a group comes after the one before it in its rank's file. Host
//! work is done one piece after the other.

mod files;
pub mod json;
mod lower;
pub mod schema;
#[cfg(test)]
mod tests;

pub use files::find;
pub use lower::{Groups, groups, lower};
