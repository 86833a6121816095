//! The shared memory of a block: `__shared__` variables by their addresses in the program, and those whose size the launch gives.
//!
//! All blocks of a grid have the same, one after another. Its content is not kept and not cleared.

use std::ffi::c_void;

/// Every variable begins at a multiple of this.
const ALIGNMENT: usize = 128;

/// Memory that is aligned.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; ALIGNMENT]);

/// The memory of the block that runs.
pub struct Shared {
    dynamic: Vec<Line>,
    dynamic_bytes: usize,
    /// The variables that a thread has reached.
    variables: Vec<(usize, Vec<Line>)>,
}

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; ALIGNMENT]); bytes.div_ceil(ALIGNMENT).max(1)]
}

impl Shared {
    /// Makes the memory for a launch that asks for `bytes` bytes.
    pub fn new(bytes: usize) -> Shared {
        Shared { dynamic: lines(bytes), dynamic_bytes: bytes, variables: Vec::new() }
    }

    /// Returns the memory of a variable.
    pub fn find(&mut self, variable: usize, size: usize, alignment: usize) -> *mut c_void {
        debug_assert!(alignment <= ALIGNMENT);
        let at = match self.variables.iter().position(|(known, _)| *known == variable) {
            Some(at) => at,
            None => {
                self.variables.push((variable, lines(size)));
                self.variables.len() - 1
            }
        };
        self.variables[at].1.as_mut_ptr().cast()
    }

    /// Returns the memory whose size the launch has given.
    pub fn dynamic(&mut self) -> *mut c_void {
        self.dynamic.as_mut_ptr().cast()
    }

    /// Returns how many bytes those have.
    pub fn dynamic_bytes(&self) -> usize {
        self.dynamic_bytes
    }
}
