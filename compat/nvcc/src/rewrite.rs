//! Turns preprocessed CUDA C++ into C++ of the host.
//!
//! ```text
//!     launches     kernel<<<grid, block>>>(arguments)      a configuration and a call
//!     kernels      __global__ functions                    functions that hand their arguments to the runtime
//!     variables    __shared__, __constant__, __device__    memory of the block; variables of the file
//!     ptx          asm of a device                         functions of the headers
//! ```
//!
//! The headers let the words of CUDA become words that begin with `__penny_`, so a program's own macros of them work.

use crate::edits::Edits;
use crate::tokens::Source;
use crate::{kernels, launches, ptx, variables};

/// Why a program cannot be compiled: the place and a sentence.
#[derive(Debug)]
pub struct Failure(pub String);

/// Returns the failure of a token.
pub fn failure<T>(source: &Source, i: usize, sentence: impl AsRef<str>) -> Result<T, Failure> {
    Err(Failure(format!("{}: {}", source.place(i), sentence.as_ref())))
}

/// Rewrites a preprocessed program. `is_relocatable`: variables of devices are known to other files.
pub fn rewrite(text: String, is_relocatable: bool) -> Result<String, Failure> {
    let source = Source::new(text);
    let mut edits = Edits::default();
    launches::rewrite(&source, &mut edits)?;
    kernels::rewrite(&source, &mut edits)?;
    variables::rewrite(&source, &mut edits, is_relocatable)?;
    ptx::rewrite(&source, &mut edits)?;
    Ok(edits.make(&source.text))
}
